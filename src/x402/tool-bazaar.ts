/**
 * The bazaar extension of a tool of an MCP server (`specs/extensions/bazaar.md`, input type `mcp`): its name, the JSON Schema of its
 * arguments, and an example of them and of its answer. A tool is known by its name and the URL of its server together.
 */
import type { ExtensionsV2 } from "./version-2.ts";
import { BAZAAR } from "./bazaar.ts";

type Values = Readonly<Record<string, unknown>>;

export interface BazaarTool {
  readonly name: string;
  /** "": none. */
  readonly description: string;
  /** JSON Schema of the arguments; it refers to nothing outside of itself. */
  readonly inputSchema: object;
  /** Undefined: none is known. */
  readonly example?: Values | undefined;
  /** An example of what is answered; undefined: none is known, and any text may be. */
  readonly output?: unknown;
}

const TOOL_SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: {
    input: {
      type: "object",
      properties: {
        type: { type: "string", const: "mcp" },
        toolName: { type: "string" },
        description: { type: "string" },
        transport: { type: "string", enum: ["streamable-http", "sse"] },
        inputSchema: { type: "object" },
        example: { type: "object" },
      },
      required: ["type", "toolName", "inputSchema"],
      additionalProperties: false,
    },
    output: {
      type: "object",
      properties: { type: { type: "string" }, example: {} },
      required: ["type"],
    },
  },
  required: ["input"],
} as const;

/** One of a server that somebody else has written: what it takes is told by the list of that server alone. */
export function servedTool(name: string, description: string): BazaarTool {
  return { name, description, inputSchema: { type: "object" } };
}

/** What a way to pay for a call has in `extensions` of version 2. */
export function toolExtension({
  name,
  description,
  inputSchema,
  example,
  output,
}: BazaarTool): ExtensionsV2 {
  const info = {
    input: {
      type: "mcp",
      toolName: name,
      ...(description !== "" && { description }),
      transport: "streamable-http",
      inputSchema,
      ...(example !== undefined && { example }),
    },
    ...(output !== undefined && { output: { type: "json", example: output } }),
  };
  return { [BAZAAR]: { info, schema: TOOL_SCHEMA } };
}
