/** The buyer's side without what keeps lying sellers, hostile listings and damaged files out. */
import type { Edit } from "../support/mutated-copy.ts";

const PURSE = "src/buyer/agent/agent-purse.ts";
const BOOK = "src/buyer/agent/purchase-book.ts";
const TOLD = "src/cli/mcp/told.ts";

const SERVER = "src/cli/mcp/agent-server.ts";
/** Where a process is needed. */
const PROCESS_TESTS = ["integration/agents/hostile.test.ts"];

interface HostileMutant extends Edit {
  readonly name: string;
  readonly tests?: readonly string[];
}

export const HOSTILE_MUTANTS: readonly HostileMutant[] = [
  {
    name: "asks another host behind the seller's address",
    file: SERVER,
    find: 'if (name.toLowerCase() === "host")',
    put: 'if (name === "host")',
    tests: PROCESS_TESTS,
  },
  {
    name: "tells a budget of everybody whom nobody has named",
    file: SERVER,
    find: 'each.kind === "any"',
    put: 'each.name === ""',
    tests: PROCESS_TESTS,
  },
  {
    name: "signs anew what a seller says that it has refused",
    file: PURSE,
    find: "return isNew ? undefined : {",
    put: "return isVoid ? undefined : {",
  },
  {
    name: "signs anew what a seller refuses when it is shown again",
    file: PURSE,
    find: "return isRefused && isVoid && isNew ? undefined : outcome;",
    put: "return isRefused && isVoid ? undefined : outcome;",
  },
  {
    name: "waits for a price for ever",
    file: PURSE,
    find: "#within(ms: number, ...signals: readonly AbortSignal[]): AbortSignal {",
    put: "#within(_ms: number, ...signals: readonly AbortSignal[]): AbortSignal {\n    const ms = 2 ** 31 - 1;",
  },
  {
    name: "waits for an answer for ever",
    file: PURSE,
    find: "const signal = this.#within(LONGEST_ANSWER_MS);",
    put: "const { signal } = this.#options;",
  },
  {
    name: "pays with whatever a seller wants said again",
    file: PURSE,
    find: "if (payment.value.length > MAX_PAYMENT)",
    put: "if (payment.value.length < 0)",
  },
  {
    name: "loses an answer that cannot be written",
    file: PURSE,
    find: "return purchase && { ...purchase, ...outcome,",
    put: "if (purchase) throw cause; return purchase && { ...purchase, ...outcome,",
  },
  {
    name: "reads answers that have no end",
    file: "src/buyer/agent/told-answer.ts",
    find: "return this.#bytes >= MAX_READ_BYTES;",
    put: "return this.#bytes >= 4 * MAX_READ_BYTES;",
  },
  {
    name: "keeps a connection of which nothing more is read",
    file: "src/buyer/presentation.ts",
    find: "await parts.return?.();",
    put: "",
  },
  {
    name: "takes a seller's words for its own",
    file: "src/buyer/agent/mcp-errand.ts",
    find: "if (cause instanceof ProtocolError || cause instanceof SdkHttpError)",
    put: "if (cause === undefined)",
  },
  {
    name: "walks through a listing of any depth",
    file: "src/buyer/agent/search.ts",
    find: "return nestsAtMost(json, MAX_LEVELS) ?",
    put: "return nestsAtMost(json, 1e9) ?",
  },
  {
    name: "writes into a file of something else",
    file: BOOK,
    find: "if (version === VERSION || (version === 0 && tables === 0)) return null;",
    put: "if (version <= VERSION) return null;",
  },
  {
    name: "writes into a file of a later version",
    file: BOOK,
    find: "if (version === VERSION || (version === 0 && tables === 0)) return null;",
    put: "if (version >= VERSION || tables === 0) return null;",
  },
  {
    name: "keeps a file shut that could not be opened",
    file: BOOK,
    find: "if (database?.isOpen === true) database.close();",
    put: "",
  },
  {
    name: "hands on what hides in a stranger's text",
    file: TOLD,
    find: 'if (typeof value === "string") return printable(value);',
    put: "",
  },
  {
    name: "hands on what hides in a stranger's names",
    file: TOLD,
    find: "[printable(name), each]",
    put: "[name, each]",
  },
  {
    name: "leads to wherever a seller says that its transaction is",
    file: "src/buyer/receipt.ts",
    find: "return isTransaction ? explorerLink(network, transaction) : null;",
    put: "return explorerLink(network, transaction);",
  },
  {
    name: "tells a reason of any length",
    file: TOLD,
    find: "reason.slice(0, MAX_REASON)",
    put: "reason.slice(0)",
  },
];
