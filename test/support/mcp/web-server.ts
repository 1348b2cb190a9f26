/** An MCP server of `@modelcontextprotocol/server` (revision 2026-07-28, and those before without sessions) with the stage's tools. */
import {
  inputRequired,
  Server,
  type McpServerFactory,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { RESOURCES, readResource, text, type AskedMethod, type Tool } from "./tools.ts";

/** Under which a client's answer to what was asked comes back. */
const ANSWER = "answer";

/** Thrown by a tool's `ask` where the client has not been asked yet. */
class InputNeeded extends Error {
  readonly asked: { readonly method: AskedMethod; readonly params: object };

  constructor(method: AskedMethod, params: object) {
    super("input needed");
    this.asked = { method, params };
  }
}

/** Makes one instance for each request, or for each connection over stdio. */
export function webServerFactory(tools: readonly Tool[]): McpServerFactory {
  return () => {
    const server = new Server(
      { name: "stage", version: "2.0.0" },
      { capabilities: { tools: {}, resources: {}, logging: {} } },
    );
    server.setRequestHandler("tools/list", () => ({
      tools: tools.map(({ name, description, input = {} }) => {
        return { name, description, inputSchema: { ...input, type: "object" as const } };
      }),
    }));
    server.setRequestHandler("tools/call", async ({ params }, context) => {
      const tool = tools.find(({ name }) => name === params.name);
      if (tool === undefined) throw new Error(`no tool named ${params.name}`);
      return callTool(tool, params.arguments ?? {}, context);
    });
    server.setRequestHandler("resources/list", () => ({
      resources: RESOURCES.map(({ uri, name, description, mimeType }) => {
        return { uri, name, description, mimeType };
      }),
    }));
    server.setRequestHandler("resources/read", ({ params }) => {
      const content = readResource(params.uri);
      if (content === null) throw new Error(`no resource ${params.uri}`);
      const { uri, mimeType, text: written, blob } = content;
      if (blob !== undefined) return { contents: [{ uri, mimeType, blob }] };
      return { contents: [{ uri, mimeType, text: written ?? "" }] };
    });
    return server;
  };
}

async function callTool(
  tool: Tool,
  args: Readonly<Record<string, unknown>>,
  { mcpReq }: ServerContext,
) {
  const progressToken = mcpReq._meta?.progressToken;
  try {
    const content = await tool.run({
      args,
      progress:
        progressToken === undefined
          ? null
          : (progress, total) =>
              mcpReq.notify({
                method: "notifications/progress",
                params: { progressToken, progress, total },
              }),
      log: (data) => mcpReq.log("info", data),
      ask: async (method, params) => {
        const answer = mcpReq.inputResponses?.[ANSWER];
        if (answer === undefined) throw new InputNeeded(method, params);
        return answer;
      },
      closeStream: undefined,
      signal: mcpReq.signal,
    });
    return { content: [...content] };
  } catch (error) {
    if (error instanceof InputNeeded) {
      const { params } = error.asked;
      const asked = inputRequired.elicit(params as Parameters<typeof inputRequired.elicit>[0]);
      return inputRequired({ inputRequests: { [ANSWER]: asked } });
    }
    const message = error instanceof Error ? error.message : "failed";
    return { isError: true, content: [text(message)] };
  }
}
