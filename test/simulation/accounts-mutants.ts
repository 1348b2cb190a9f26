/** The ledger's accounts with one sum that does not hold. */
import { caughtBy, type Mutant } from "./mutant.ts";

const CONTRACT = "test/unit/ledger/sqlite/sqlite-contract.test.ts";

export const ACCOUNTS_MUTANTS: readonly Mutant[] = [
  caughtBy(CONTRACT, "shares the gas of a transaction more than once", {
    file: "src/ledger/accounts.ts",
    find: "feeAtomic: String(fee - share)",
    put: "feeAtomic: String(fee)",
  }),
  caughtBy(CONTRACT, "forgets what was sold when it is swept", {
    file: "src/ledger/sqlite/sqlite-sweep.ts",
    find: "if (isGone && closing !== undefined) closePayment(database, closing);",
    put: "",
  }),
  caughtBy(CONTRACT, "forgets gas that moved nothing when it is swept", {
    file: "src/ledger/accounts.ts",
    find: `if (cost !== null && cost.feeAtomic !== "0")`,
    put: "if (cost !== null && cost.moved > 0)",
  }),
  caughtBy(CONTRACT, "counts the gas of a block that is gone", {
    file: "src/ledger/submission-row.ts",
    find: `cost ?? (state === "OPEN" ? null : row.cost)`,
    put: "cost ?? row.cost",
  }),
  caughtBy(CONTRACT, "forgets a payer to whom something is owed", {
    file: "src/ledger/forgetting.ts",
    find: `if (fate === "kept") unfinished.push({ key, state, fromMs: null });`,
    put: `if (fate === "kept") continue;`,
  }),
  caughtBy(CONTRACT, "forgets what the limits of the day count", {
    file: "src/ledger/forgetting.ts",
    find: "else if (fromMs > nowMs) unfinished.push({ key, state, fromMs });",
    put: "",
  }),
  caughtBy(CONTRACT, "forgets what may have been paid after all", {
    file: "src/ledger/forgetting.ts",
    find: `payment.isDoubted ? "kept" : fateOf`,
    put: "fateOf",
  }),
  caughtBy(CONTRACT, "forgets when it is only asked what would go", {
    file: "src/ledger/sqlite/sqlite-forgetting.ts",
    find: "  if (step.isTried) return forgottenIn(step, looked, judged);\n",
    put: "",
  }),
  caughtBy("test/unit/ledger/sqlite/sqlite.test.ts", "goes on writing a file that was taken away", {
    file: "src/ledger/sqlite/sqlite-database.ts",
    find: "fileAt(this.#file.path) !== this.#file.id",
    put: 'this.#file.path === ""',
  }),
];
