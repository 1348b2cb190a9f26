/** Balances while everything dies: the short form of `npm run chaos -- --credits`. */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { MutatedCopies, type Edit } from "../support/mutated-copy.ts";
import { runCredits, type CreditsOptions } from "./credits.ts";

const SHORT: CreditsOptions = {
  requests: 250,
  kills: 3,
  replicas: 2,
  workers: 2,
  store: "postgres",
  storeRestarts: 1,
  sessions: 12,
  seed: 402,
  say: () => undefined,
};
const PATIENCE_MS = 240_000;

describe("balances, whatever dies", () => {
  it(
    "are what the chain says, and nobody is debited for what failed",
    async () => {
      const { violations, counts } = await runCredits(SHORT);
      expect(violations).toEqual([]);
      expect(counts).toMatchObject({
        "kill -9": 1,
        "kill -9 of workers": 1,
        "SIGTERM restarts": 1,
        "restarts of PostgreSQL": 1,
        "balances, and payers of single answers": 8,
        "answers sold by use": 3,
      });
      const some = ["packs bought", "credits used", "credits refunded", "looks at the books"];
      const tried = ["quote whole", "quote fails", "chat streams", "chat breaks", "chat untold"];
      const names = [...some, ...tried.map((each) => `backend: ${each}`), "answers 200"];
      expect(names.filter((name) => !(Number(counts[name]) > 0))).toEqual([]);
    },
    PATIENCE_MS,
  );
});

/** Nothing dies: what a guard is worth shows without that. */
const PEACE: CreditsOptions = {
  ...SHORT,
  requests: 40,
  kills: 0,
  replicas: 1,
  workers: 1,
  store: "sqlite",
  storeRestarts: 0,
};

const MUTANTS: readonly (readonly [name: string, edit: Edit, notices: RegExp])[] = [
  [
    "what fails is debited",
    {
      file: "src/gateway/spending.ts",
      find: "if (isBought) used =",
      put: "used =",
    },
    /life 0-0: debited \d+ for what cost \d+/,
  ],
  [
    "what is answered is not debited",
    {
      file: "src/gateway/spending.ts",
      find: "share?.settle(used, route);",
      put: "share?.settle(0n, route);",
    },
    /life 0-0: \d+ were lost, of 0 that 0 dead may lose/,
  ],
];

describe("the audit notices where", () => {
  it.each(MUTANTS)(
    "%s",
    async (_name, edit, notices) => {
      await using copies = new MutatedCopies(["src", "package.json"]);
      const { violations } = await copies.take([edit], (folder) =>
        runCredits({ ...PEACE, main: join(folder, "src/main.ts") }),
      );
      expect(violations.join("\n")).toMatch(notices);
    },
    PATIENCE_MS,
  );
});
