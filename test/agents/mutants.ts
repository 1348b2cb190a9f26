/**
 * Are the tests of agents' budgets able to fail? Each mutant is the buyer's side without one of its guards, on a copy of the tree,
 * and the tests of its units must find it.
 *
 *     npm run prove:agents -- --mutants
 */
import { failsIn, MutatedCopies, staleness, type Edit } from "../support/mutated-copy.ts";
import { HOSTILE_MUTANTS } from "./hostile-mutants.ts";

export interface AgentMutant extends Edit {
  readonly name: string;
  /** Default: {@link TESTS}, and then without a process. */
  readonly tests?: readonly string[];
}

const ALLOWANCE = "src/buyer/agent/allowance.ts";
const BOOK = "src/buyer/agent/purchase-book.ts";
const PURSE = "src/buyer/agent/agent-purse.ts";
/** What has to find them, by the file that they are in. */
const TESTS: Readonly<Record<string, readonly string[]>> = {
  [ALLOWANCE]: ["unit/buyer/agent/allowance", "unit/buyer/agent/agent-purse"],
  [BOOK]: ["unit/buyer/agent/purchase-book"],
  [PURSE]: ["unit/buyer/agent/agent-purse"],
};

/** Of other files. */
const ALL = ["unit/buyer/agent", "unit/cli/mcp"];

export const AGENT_MUTANTS: readonly AgentMutant[] = [
  ...HOSTILE_MUTANTS,
  {
    name: "lets one call cost anything",
    file: ALLOWANCE,
    find: "if (cost > perCall)",
    put: "if (cost < 0n)",
  },
  {
    name: "lets a day cost anything",
    file: ALLOWANCE,
    find: "if (spent.inAll + cost > perDay)",
    put: "if (cost < 0n)",
  },
  {
    name: "lets a day with one seller cost anything",
    file: ALLOWANCE,
    find: "if (spent.atSeller + cost > budget)",
    put: "if (cost < 0n)",
  },
  {
    name: "asks over an open connection where https was meant",
    file: ALLOWANCE,
    find: "if (url.protocol !== wanted) return false;",
    put: "",
  },
  {
    name: "takes the end of a name for names below it",
    file: ALLOWANCE,
    find: "`.${url.host}` : url.host",
    put: "url.host : url.host",
  },
  {
    name: "takes an address for a public host",
    file: ALLOWANCE,
    find: 'port === "" && isName && !isInside',
    put: 'port === "" && !isInside',
  },
  {
    name: "counts nothing of what an account was debited",
    file: BOOK,
    find: "WHERE (day >= ?1 AND",
    put: "WHERE way = 'payment' AND (day >= ?1 AND",
  },
  {
    name: "counts for a pass what a payment would have been",
    file: BOOK,
    find: "dollars = coalesce(?6, dollars)",
    put: "dollars = CASE WHEN ?6 IS NULL THEN dollars ELSE dollars END",
  },
  {
    name: "looks at no budget in the moment in which it reserves",
    file: PURSE,
    find: "if (objection !== undefined) return err(objection);",
    put: "void objection;",
  },
  {
    name: "takes a balance of another token for dollars",
    file: PURSE,
    find: "if (symbol !== terms.token?.symbol) return dollars;",
    put: "void [symbol, terms];",
  },
  {
    name: "asks an account again whose answer was lost",
    file: PURSE,
    find: 'if (way === "account") return { kind: "unserved", purchase: before, advice: ACCOUNT_LOST };',
    put: 'if (way === "account") return undefined;',
  },
  {
    name: "counts what it is that was answered, and nothing that is still open",
    file: BOOK,
    find: "(day >= ?1 AND state <> 'void')",
    put: "(day >= ?1 AND state = 'served')",
  },
  {
    name: "forgets what a later day has paid when the clock is set back",
    file: BOOK,
    find: "(day >= ?1 AND",
    put: "(day = ?1 AND",
  },
  {
    name: "forgets at midnight what can still be settled",
    file: BOOK,
    find: "OR (day < ?1 AND state IN ('open', 'refused') AND live_until > ?2)",
    put: "",
  },
  {
    name: "takes back that something was served",
    file: BOOK,
    find: "WHERE id = ?1 AND state <> 'served'",
    put: "WHERE id = ?1",
  },
  {
    name: "lets two processes have one book",
    file: BOOK,
    find: "locking_mode = EXCLUSIVE",
    put: "locking_mode = NORMAL",
  },
  {
    name: "opens a book that has two names",
    file: BOOK,
    find: "if (found?.names !== 1n) {",
    put: "if (found === undefined) {",
  },
  {
    name: "buys on when its book was moved away",
    file: BOOK,
    find: "found?.identity === this.#identity && found.names === 1n",
    put: "found?.names === 1n",
  },
  {
    name: "buys on when its book has got another name",
    file: BOOK,
    find: "found?.identity === this.#identity && found.names === 1n",
    put: "found?.identity === this.#identity",
  },
  {
    name: "leaves what is done in a log beside the book",
    file: BOOK,
    find: "journal_mode = TRUNCATE",
    put: "journal_mode = WAL",
  },
  {
    name: "counts what the last process has not signed",
    file: BOOK,
    find: "SET state = 'void' WHERE state = 'reserved'",
    put: "SET reason = '' WHERE 0",
  },
  {
    name: "drops what can still be settled to make room",
    file: BOOK,
    find: "AND NOT (state IN ('open', 'refused') AND live_until > ?)",
    put: "AND at < ?",
  },
  {
    name: "sends a payment that it has not written down",
    file: PURSE,
    find: "book.keep(id, { payment, liveUntil: endsAt + CLOCKS_MS, session });",
    put: "void [endsAt, session];",
  },
  {
    name: "shows a payment in another session than it was shown in",
    file: PURSE,
    find: "liveUntil: endsAt + CLOCKS_MS, session });",
    put: "liveUntil: endsAt + CLOCKS_MS, session: session && null });",
  },
  {
    name: "signs anew while the first signature can be settled",
    file: PURSE,
    find: 'if (state === "refused" && isVoid)',
    put: 'if (state === "refused")',
  },
  {
    name: "signs anew where the first payment may have been taken",
    file: PURSE,
    find: 'return { kind: "unserved", purchase: before, advice: OVER };',
    put: "return undefined;",
  },
  {
    name: "signs twice for the same call at the same time",
    file: PURSE,
    find: "if (running !== undefined) return running;",
    put: "",
  },
  {
    name: "buys a repeated call anew",
    file: PURSE,
    find: "if (!isNamed && now - before.at > REPEATED_WITHIN_MS) return undefined;",
    put: "if (!isNamed) return undefined;",
  },
  {
    name: "asks nobody above what a person is to be asked",
    file: PURSE,
    find: "if (confirmAbove !== null && price.dollars > confirmAbove &&",
    put: "if (confirmAbove !== null && price.dollars < 0n &&",
  },
  {
    name: "takes what a person has agreed to for another payee",
    file: PURSE,
    find: "&& payTo === agreed.payTo",
    put: "",
  },
  {
    name: "takes what a person has agreed to for a higher price",
    file: PURSE,
    find: "dollars <= agreed.dollars &&",
    put: "",
  },
  {
    name: "takes another occasion for the same one",
    file: PURSE,
    find: "const key = keyOf([...errand.parts, way, occasion]);",
    put: "const key = keyOf([...errand.parts, way]);",
  },
  {
    name: "signs in a dry run",
    file: PURSE,
    find: "if (allowance.isDry) return DRY;",
    put: "",
  },
  {
    name: "shows what was signed before in a dry run",
    file: PURSE,
    find: "if (this.#options.allowance.isDry)",
    put: "if (way !== way)",
  },
  {
    name: "frees the budget of what a seller has seen",
    file: PURSE,
    find: 'neverLeft && before === "reserved" ?',
    put: "neverLeft ?",
  },
  {
    name: "makes as many calls at a time as it is asked for",
    file: PURSE,
    find: "if (this.#calls.size + this.#estimates >= MAX_CALLS_AT_ONCE) return notBought(BUSY);",
    put: "",
  },
  {
    name: "buys what was cancelled",
    file: PURSE,
    find: 'if (signal.aborted) return notBought("it was cancelled");',
    put: "",
  },
];

/** Whether each of them is found. @param part of the names of those that are tried */
export async function runAgentMutants(part: string, say: (line: string) => void): Promise<boolean> {
  let survivors = 0;
  const mutants = AGENT_MUTANTS.filter(({ name }) => name.includes(part));
  await using copies = new MutatedCopies();
  for (const { name, tests: own, ...edit } of mutants) {
    const stale = await staleness(edit);
    if (stale !== undefined) {
      // The others are tried nevertheless.
      survivors += 1;
      say(`STALE     ${name}: ${stale}`);
      continue;
    }
    const tests = own ?? TESTS[edit.file] ?? ALL;
    const isFound = await copies.take([edit], (folder) => failsIn(folder, tests));
    if (!isFound) survivors += 1;
    say(`${isFound ? "found   " : "SURVIVED"}  ${name}`);
  }
  say(`${mutants.length - survivors} of ${mutants.length} mutants found`);
  return survivors === 0;
}
