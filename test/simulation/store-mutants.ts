/** The store that is shipped with one promise broken about what is stored, and when. */
import { caughtBy, type Mutant } from "./mutant.ts";

const BATCH = "src/ledger/sqlite/sqlite-batch.ts";
const CORE = "src/ledger/sqlite/sqlite-core.ts";
const HAND = "src/ledger/sqlite/payments-in-hand.ts";

export const STORE_MUTANTS: readonly Mutant[] = [
  caughtBy(
    "test/integration/ledger/postgres-schema.test.ts",
    "changes tables while others are between the lock of a row and its write",
    {
      file: "src/ledger/postgres/postgres-schema.ts",
      find: `"LOCK TABLE coinslot.payments IN ACCESS EXCLUSIVE MODE"`,
      put: `"SELECT 1"`,
    },
  ),
  caughtBy(
    "test/unit/ledger/sqlite/sqlite.test.ts",
    "tells a buyer to pay anew before it has stored that he is paid back",
    { file: CORE, find: "isStoredNow || isFailed ||", put: "isStoredNow ||" },
  ),
  {
    name: "answers before it has stored what no crash may undo",
    changes: [
      {
        file: CORE,
        find: "if (!UNDOABLE.has(transition.kind)) return this.write(",
        put: 'if (transition.kind === "resolve") return this.write(',
      },
    ],
  },
  {
    name: "answers for what it never writes",
    changes: [{ file: HAND, find: "    this.#rows.write(key, known.stored, known);\n", put: "" }],
  },
  {
    name: "runs a batch twice",
    changes: [
      {
        file: BATCH,
        find: "answers = this.#runTogether(batch) ?? this.#runApart(batch);",
        put: "this.#runTogether(batch); answers = this.#runApart(batch);",
      },
    ],
  },
  {
    name: "stores the first of several steps, not the last",
    changes: [{ file: HAND, find: "      row: next,\n", put: "      row: known?.row ?? next,\n" }],
  },
  {
    name: "forgets what was answered and not stored when the next step is stored",
    changes: [
      {
        file: CORE,
        find: "    this.#hand.apply(change);\n    this.#hand.store(key);",
        put: `    const isSoon = this.#hand.unstored > 0;
    this.#hand.apply(change);
    if (!isSoon) this.#hand.store(key);`,
      },
    ],
  },
  {
    name: "never stores what it has answered, but with the next step",
    changes: [
      {
        file: CORE,
        find: "this.#timers.after(LOOK_MS, () => void this.#storeOld());",
        put: "this.#isStoringSoon = true;",
      },
    ],
  },
  {
    name: "takes what it remembers for what is there",
    changes: [
      {
        file: HAND,
        find: "    this.#remembered.delete(key);\n    if (next === null) {",
        put: "    if (next === null) {",
      },
    ],
  },
];
