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
];
