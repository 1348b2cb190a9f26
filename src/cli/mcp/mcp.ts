/**
 * `coinslot mcp`: an MCP server over stdin and stdout, for one client, which ends with it. stdout has the protocol and nothing
 * else; what is said besides goes to stderr, and a key, a payment or an answer is never part of it.
 */
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import type { AllowedSeller, Allowance, Dollars } from "../../buyer/agent/allowance.ts";
import { messageOf } from "../../x402/result.ts";
import { printable } from "../../config/config.ts";
import { openKeyOrNone } from "../pay/buyer-key-file.ts";
import { fail, say } from "../terminal.ts";
import { agentServer } from "./agent-server.ts";
import { LazyPurse } from "./lazy-purse.ts";

export interface McpOptions {
  readonly key?: string;
  readonly seller?: readonly AllowedSeller[];
  readonly listing?: readonly URL[];
  readonly maxCall: Dollars;
  readonly maxDay: Dollars;
  readonly maxSeller?: Dollars;
  readonly confirmAbove?: Dollars;
  readonly network?: readonly string[];
  readonly rpc?: string;
  readonly dryRun?: boolean;
  readonly state: string;
  /** Longest silence of a seller, milliseconds. */
  readonly timeout: number;
}

const BY_HAND =
  "coinslot mcp: an agent's program starts this and speaks to it here; coinslot mcp --help says how, and Ctrl-D ends it";

/** Resolves with the exit code when the client is gone. */
export async function mcp(options: McpOptions): Promise<number> {
  const key = openKeyOrNone(options.key);
  if (!key.ok) return fail("mcp", key.error);
  const { maxCall, maxDay, maxSeller = maxDay, confirmAbove = null, timeout } = options;
  const allowance: Allowance = {
    sellers: options.seller ?? [],
    networks: options.network ?? [],
    perCall: maxCall,
    perDay: maxDay,
    perSeller: maxSeller,
    confirmAbove,
    isDry: options.dryRun === true,
  };
  const over = new AbortController();
  const common = { allowance, key: key.value, silenceMs: timeout, signal: over.signal };
  const state = new LazyPurse({ ...common, path: options.state, rpcUrl: options.rpc });
  const gone = Promise.withResolvers<void>();
  const end = (): void => gone.resolve();
  process.once("SIGINT", end);
  process.once("SIGTERM", end);
  const serving = serveStdio(
    () => agentServer({ ...common, listings: options.listing ?? [], open: () => state.open() }),
    { onerror: (cause) => say(`coinslot mcp: ${printable(messageOf(cause))}`) },
  );
  process.stdin.once("end", end);
  process.stdin.once("close", end);
  process.stdout.once("error", end);
  if (process.stdin.isTTY) say(BY_HAND);
  await gone.promise;
  over.abort();
  process.off("SIGINT", end);
  process.off("SIGTERM", end);
  await serving.close();
  await state.close();
  return 0;
}
