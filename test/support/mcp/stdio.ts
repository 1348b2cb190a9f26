/** The stage's server as a command, and what its processes tell of themselves. */
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import type { CallResult, McpClient } from "./clients.ts";

const PROGRAM = fileURLToPath(import.meta.resolve("./stdio-server.ts"));

/** Of which SDK; or one that never answers, or that leaves by nothing but SIGKILL. */
export type StdioKind = "sdk" | "web" | "deaf" | "stubborn";

export function stdioCommand(kind: StdioKind): readonly string[] {
  return [process.execPath, PROGRAM, kind];
}

export const said = ({ content }: CallResult): string => content[0]?.text ?? "";

export async function selfOf(client: McpClient): Promise<{
  readonly pid: number;
  readonly env: Readonly<Record<string, string>>;
  /** How often it was asked that. */
  readonly calls: number;
}> {
  return JSON.parse(said(await client.call("self")));
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Resolves when there is no such process any more. */
export async function gone(pid: number): Promise<void> {
  await expect.poll(() => isAlive(pid)).toBe(false);
}
