/** An agent's program: an official client of either SDK that starts `coinslot mcp` and calls its tools. */
import { join } from "node:path";
import { Client as NewClient } from "@modelcontextprotocol/client";
import { StdioClientTransport as NewTransport } from "@modelcontextprotocol/client/stdio";
import { Client as OldClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as OldTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

/** The revisions, by the SDK whose client speaks them. */
export const REVISIONS = ["2025-11-25", "2026-07-28"] as const;
export type Revision = (typeof REVISIONS)[number];

/** The bundle of this tree that the suite makes, else the sources. */
export const MAIN =
  process.env["COINSLOT_MAIN"] ?? join(import.meta.dirname, "../../../src/main.ts");
/** Longest that a call may take, milliseconds. */
const CALL_MS = 120_000;

export interface AgentSetup {
  /** What follows `coinslot mcp`. */
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly revision: Revision;
  /** What the person before the client says; undefined: the client has no elicitation. */
  readonly person?: (question: string) => boolean;
  /** Of the client's own transport. */
  readonly onMessage?: (message: unknown) => void;
}

export interface Told {
  /** The first block. */
  readonly facts: Readonly<Record<string, unknown>>;
  /** What the seller answered. */
  readonly answer: string | undefined;
  readonly isError: boolean;
}

export interface Agent extends AsyncDisposable {
  readonly pid: number;
  /** Names of tools. */
  tools(): Promise<readonly string[]>;
  call(tool: string, args?: Record<string, unknown>): Promise<Told>;
  /** What the process has said on stderr. */
  readonly said: () => string;
}

const IDENTITY = { name: "agent", version: "1" };

export async function startAgent({ words, env, revision, person }: AgentSetup): Promise<Agent> {
  const { PATH = "", NODE_COMPILE_CACHE = "" } = process.env;
  const command = {
    command: process.execPath,
    args: [MAIN, "mcp", ...words],
    env: { PATH, NODE_COMPILE_CACHE, NO_COLOR: "1", ...env },
    stderr: "pipe" as const,
  };
  const capabilities = person === undefined ? {} : { elicitation: {} };
  const say = (question: string): { action: "accept"; content: { pay: boolean } } => ({
    action: "accept",
    content: { pay: person?.(question) === true },
  });
  const parts: string[] = [];
  if (revision === "2025-11-25") {
    const transport = new OldTransport(command);
    transport.stderr?.on("data", (part) => parts.push(String(part)));
    const client = new OldClient(IDENTITY, { capabilities });
    if (person !== undefined)
      client.setRequestHandler(ElicitRequestSchema, ({ params }) => say(params.message));
    await client.connect(transport);
    return agentOf(client, transport.pid, parts);
  }
  const transport = new NewTransport(command);
  transport.stderr?.on("data", (part) => parts.push(String(part)));
  const versionNegotiation = { mode: { pin: revision } };
  const client = new NewClient(IDENTITY, { capabilities, versionNegotiation });
  if (person !== undefined)
    client.setRequestHandler("elicitation/create", ({ params }) => say(params.message));
  await client.connect(transport);
  return agentOf(client, transport.pid, parts);
}

function agentOf(
  client: OldClient | NewClient,
  pid: number | null,
  parts: readonly string[],
): Agent {
  const ask = (name: string, args: Record<string, unknown>): Promise<unknown> =>
    client instanceof OldClient
      ? client.callTool({ name, arguments: args }, undefined, { timeout: CALL_MS })
      : client.callTool({ name, arguments: args }, { timeout: CALL_MS });
  return {
    pid: pid ?? 0,
    said: () => parts.join(""),
    async tools() {
      const { tools } = await client.listTools();
      return tools.map(({ name }) => name);
    },
    async call(tool, args = {}) {
      const { content, isError } = Object(await ask(tool, args));
      const [first, second] = content;
      // What an SDK says of arguments that it refuses is no JSON.
      const isJson = String(first.text).startsWith("{");
      const facts = isJson ? JSON.parse(first.text) : { reason: first.text };
      return { facts, answer: second?.text, isError: isError === true };
    },
    [Symbol.asyncDispose]: () => client.close(),
  };
}
