/**
 * The language of the case files beside this one, and their reader. A file is a YAML list; a case is a good
 * payment on Solana with something changed, and what `POST /verify` and `POST /settle` must answer to it:
 *
 *     - name: a transfer of one atomic unit less than asked is refused     # a sentence
 *       rule: V24                                                          # of `rules.yaml`; or several
 *       cites: protocol section 7                                          # what demands it
 *       pay: { transfer: { amount: $price - 1 } }                          # what is changed
 *       expect: { code: invalid_payload, detail: moves 9999 atomic units } # what is answered
 *
 * The good payment: a cent in USDC on devnet, as `@x402/svm` lays it out (limit, price, transfer, memo) in
 * version 0, by a buyer who has a hundred of them, to a seller who has a token account. Each case has a
 * buyer and a seller of its own. The stages, in order; each may be left out:
 *
 * - `given`: the world before the request. `network`; `facilitator`, another one than the usual (`stage.ts`);
 *   `mint`, another token (`mints.ts`); `tokens` of the buyer in atomic units, null for no token account;
 *   `buyer lamports`; `seller`; `frozen`: whose token account; `lent`: tokens of somebody else that the buyer
 *   may spend, at `$lent`; `table`: the last addresses in a lookup table, of `table entries` in all, and
 *   what is the matter with the `table account`; `fee payer lamports`; `paid`: what was done with this payment
 *   before; `slots` that pass between signature and request; `node`: what the RPC endpoint has to say.
 * - `ask`: members of the payment requirements that the buyer reads and pays by.
 * - `pay`: how the transaction is made. `layout`: `x402` 1.2.0 (limit, price, transfer), `svm` (and a memo) or
 *   `phantom` (and guards); `version`; `budget`: instead of limit and price; `transfer`: what it says that is
 *   not asked for; `transfers`, `memos`: instead of the one; `memo`: its text; `first`, `last`: more
 *   instructions; `reversed`: all of them in the other order; `config` of version 1; `fee payer`; `signers`;
 *   `blockhash`; `tables`: whether accounts are looked up in the table; `size`: so many bytes, filled up by
 *   the memo. Instructions are written as `instructions.ts` says.
 * - `message`, `signed`, `text`: faults in the bytes, by their names in `wire-faults.ts`.
 * - `set`, `remove`: JSON pointers (RFC 6901) into the request body. `fill`: spaces behind it, to so many
 *   bytes in all.
 * - `envelope: 2`: the request is written in version 2, with `accepted` and the requirements alike, and answered in
 *   its words; pointers lead into that.
 * - `executable: true`: refused though the chain would execute it, were it signed; which is tried.
 *
 * A string `$name` is a value of the case (`scenario.ts`); `$name + 1`, `$name - 1` count on from it.
 *
 * `each: { field: [a, b] }` makes a case of every value (of every combination, where there are several
 * lists); `<field>` stands for it, and keeps its type where it stands alone.
 *
 * `expect`: `status` (200), `code` (one of the fifteen, or `valid`), a piece of the `detail`, `fee` in
 * lamports, and `payer`: `known`, or "" where the payer has not signed. It is known where the status is 200,
 * else "". `verify` and `settle` may differ.
 */
import { readdirSync, readFileSync } from "node:fs";
import { parse } from "yaml";
import { z } from "zod";
import { ERROR_CODES } from "../../../src/x402/error-code.ts";
import { readCases } from "../conformance-case.ts";
import { instructionSchema, transferChanges } from "./instructions.ts";
import { MINT_NAMES } from "./mints.ts";
import { FACILITATORS, NODE_FAULTS } from "./stage.ts";
import { MESSAGE_FAULTS, SIGNED_FAULTS, TEXT_FAULTS } from "./wire-faults.ts";

const pointer = z.string().startsWith("/");
const amount = z.string().regex(/^(?:\d+|\$.+)$/);
const instructions = z.array(instructionSchema);

const given = z.strictObject({
  network: z.enum(["solana-devnet", "solana"]).default("solana-devnet"),
  facilitator: z.enum(FACILITATORS).default("usual"),
  mint: z.enum(MINT_NAMES).default("USDC"),
  tokens: amount.nullable().default("1000000"),
  "buyer lamports": amount.default("0"),
  seller: z
    .enum(["has an account", "has no account", "is a program", "is on the list"])
    .default("has an account"),
  frozen: z.enum(["buyer", "seller"]).exactOptional(),
  lent: z
    .strictObject({
      by: z.string(),
      account: z.enum(["associated", "another"]).default("associated"),
      amount: amount.default("$price"),
    })
    .exactOptional(),
  table: z.array(z.string()).exactOptional(),
  "table account": z
    .enum(["is there", "is missing", "belongs to another program", "is not initialized"])
    .default("is there"),
  "table entries": z.int().min(1).max(256).exactOptional(),
  "fee payer lamports": amount.exactOptional(),
  paid: z
    .enum(["already", "just now", "by somebody else with our key", "another one already"])
    .exactOptional(),
  slots: z.int().min(0).default(0),
  node: z.enum(NODE_FAULTS).exactOptional(),
});

const ask = z.strictObject({
  maxAmountRequired: z.string().exactOptional(),
  asset: z.string().exactOptional(),
  payTo: z.string().exactOptional(),
  feePayer: z.string().exactOptional(),
  memo: z.string().exactOptional(),
});

const pay = z.strictObject({
  layout: z.enum(["x402", "svm", "phantom"]).default("svm"),
  version: z.union([z.literal("legacy"), z.literal(0), z.literal(1)]).default(0),
  budget: instructions.exactOptional(),
  transfer: transferChanges.prefault({}),
  transfers: instructions.exactOptional(),
  memo: z.string().exactOptional(),
  memos: instructions.exactOptional(),
  first: instructions.default([]),
  last: instructions.default([]),
  reversed: z.literal(true).exactOptional(),
  config: z
    .strictObject({
      priorityFeeLamports: z.int().exactOptional(),
      computeUnitLimit: z.int().exactOptional(),
      loadedAccountsDataSizeLimit: z.int().exactOptional(),
      heapSize: z.int().exactOptional(),
    })
    .exactOptional(),
  "fee payer": z.string().default("$feePayer"),
  signers: z.array(z.string()).default(["$payer"]),
  blockhash: z.string().default("$blockhash"),
  tables: z.boolean().default(false),
  size: z.int().exactOptional(),
});

const answer = z
  .strictObject({
    status: z.int().default(200),
    code: z.enum([...ERROR_CODES, "valid"]),
    detail: z.string().exactOptional(),
    fee: z.int().exactOptional(),
    payer: z.enum(["known", ""]).exactOptional(),
  })
  .refine(({ code, detail }) => (code === "valid") === (detail === undefined), {
    error: "a refusal, and nothing else, has a detail",
  });

const RULE = /^V([1-9]|[12][0-9]|30)$/;
const rule = z.string().regex(RULE, "is no rule of rules.yaml");

const solanaCase = z.strictObject({
  name: z.string(),
  rule: z.union([rule.transform((one) => [one]), z.array(rule).min(1)]),
  cites: z.string(),
  given: given.prefault({}),
  ask: ask.default({}),
  pay: pay.prefault({}),
  message: z.array(z.enum(MESSAGE_FAULTS)).default([]),
  signed: z.array(z.enum(SIGNED_FAULTS)).default([]),
  text: z.enum(TEXT_FAULTS).exactOptional(),
  set: z.record(pointer, z.unknown()).default({}),
  remove: z.array(pointer).default([]),
  fill: z.int().exactOptional(),
  envelope: z.literal(2).exactOptional(),
  executable: z.literal(true).exactOptional(),
  expect: z.union([
    answer.transform((same) => ({ verify: same, settle: same })),
    z.strictObject({ verify: answer, settle: answer }),
  ]),
});

export type SolanaCase = z.infer<typeof solanaCase>;
export type ExpectedAnswer = z.infer<typeof answer>;

/** The cases about one subject. */
interface CaseFile {
  /** File name without its extension. */
  readonly subject: string;
  readonly cases: readonly SolanaCase[];
}

const RULES_FILE = "rules.yaml";

/** Every file of this folder that holds cases. Throws at the first fault in one. */
export function readCaseFiles(): readonly CaseFile[] {
  const files = readdirSync(import.meta.dirname).filter((file) => file.endsWith(".yaml"));
  return files
    .filter((file) => file !== RULES_FILE)
    .map((file) => ({
      subject: file.replace(".yaml", ""),
      cases: readCases(`solana/${file}`, solanaCase),
    }));
}

/** The rules by their numbers, in words. */
export function readRules(): Readonly<Record<string, string>> {
  const text = readFileSync(new URL(RULES_FILE, import.meta.url), "utf8");
  return z.record(rule, z.string()).parse(parse(text));
}
