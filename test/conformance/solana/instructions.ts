/**
 * How the case files write instructions. What a wallet sends has a word of its own; everything else is a
 * `call` of a program with its accounts and its bytes:
 *
 *     - limit: 20000                                     # ComputeBudget: compute units
 *     - price: 1                                         # ComputeBudget: millionths of a lamport for each
 *     - loaded accounts: 65536                           # ComputeBudget: bytes
 *     - transfer                                         # the TransferChecked that is asked for
 *     - transfer: { amount: $price - 1 }                 # the same, with something else in it
 *     - create account: { funder: $feePayer }            # the payee's, or with something else in it
 *     - memo: order 7                                    # or { text: order 7, signers: [$payer] }
 *     - guard: $feePayer                                 # a Lighthouse assertion, as wallets add them
 *     - call: { program: Token, accounts: [$source writable, $stranger writable, $payer signer], data: [9] }
 *
 * Data is a list of bytes, of `u32 7`, `u64 $price`, `key $stranger` and `text hello`; integers are
 * little-endian. A program is a name of the list below, or an address.
 */
import type { Instruction } from "@solana/kit";
import { z } from "zod";
import {
  ADDRESS_LOOKUP_TABLE_PROGRAM,
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  LIGHTHOUSE_PROGRAM,
  MEMO_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from "../../../src/mechanism/solana/programs.ts";
import {
  call,
  createAccount,
  integer,
  loadedAccountsLimit,
  memo,
  transfer,
  unitLimit,
  unitPrice,
  walletGuard,
  writable,
  signer,
  writableSigner,
  type Account,
  type Payment,
} from "../../support/solana-messages.ts";
import { fromBase58 } from "../../support/solana/base58.ts";
import { evaluateText, type Names } from "../references.ts";

const PROGRAMS: ReadonlyMap<string, string> = new Map([
  ["Address Lookup Table", ADDRESS_LOOKUP_TABLE_PROGRAM],
  ["Associated Token Account", ASSOCIATED_TOKEN_PROGRAM],
  ["ComputeBudget", COMPUTE_BUDGET_PROGRAM],
  ["Ed25519", "Ed25519SigVerify111111111111111111111111111"],
  ["Lighthouse", LIGHTHOUSE_PROGRAM],
  ["Memo", MEMO_PROGRAM],
  ["Memo of version 1", "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"],
  ["System", SYSTEM_PROGRAM],
  ["Token", TOKEN_PROGRAM],
  ["Token-2022", TOKEN_2022_PROGRAM],
]);

const transferChanges = z.strictObject({
  source: z.string().exactOptional(),
  destination: z.string().exactOptional(),
  mint: z.string().exactOptional(),
  authority: z.string().exactOptional(),
  amount: z.string().exactOptional(),
  decimals: z.int().exactOptional(),
  program: z.string().exactOptional(),
  "more accounts": z.array(z.string()).default([]),
});

const creationChanges = z.strictObject({
  funder: z.string().exactOptional(),
  account: z.string().exactOptional(),
  owner: z.string().exactOptional(),
  mint: z.string().exactOptional(),
  systemProgram: z.string().exactOptional(),
  tokenProgram: z.string().exactOptional(),
  data: z.array(z.int()).exactOptional(),
  "more accounts": z.array(z.string()).default([]),
});

const calling = z.strictObject({
  program: z.string(),
  accounts: z.array(z.string()).default([]),
  data: z.array(z.union([z.int().min(0).max(255), z.string()])).default([]),
});

const wholeNumber = z.int().min(0);
const instruction = z.union([
  z.enum(["transfer", "create account"]).transform((name) => ({ [name]: {} })),
  z.record(z.string(), z.unknown()),
]);
const written = instruction.pipe(
  z.union([
    z.strictObject({ limit: wholeNumber }),
    // Larger than what a number of YAML holds: as text.
    z.strictObject({ price: z.union([wholeNumber, z.string().regex(/^\d+$/)]) }),
    z.strictObject({ "loaded accounts": wholeNumber }),
    z.strictObject({ transfer: transferChanges }),
    z.strictObject({ "create account": creationChanges }),
    z.strictObject({
      memo: z.union([
        z.string(),
        z.strictObject({ text: z.string(), signers: z.array(z.string()) }),
      ]),
    }),
    z.strictObject({ guard: z.string() }),
    z.strictObject({ call: calling }),
  ]),
);

export { transferChanges, written as instructionSchema };
export type WrittenInstruction = z.infer<typeof written>;
export type TransferChanges = z.infer<typeof transferChanges>;

/** What instructions are written about. */
export interface Subject {
  readonly payment: Payment;
  /** Values of the case by name. */
  readonly names: Names;
}

/** @throws {Error} for a name that the case does not have, and for rights and data of another form */
export function instructionOf(each: WrittenInstruction, subject: Subject): Instruction {
  if ("limit" in each) return unitLimit(each.limit);
  if ("price" in each) return unitPrice(BigInt(each.price));
  if ("loaded accounts" in each) return loadedAccountsLimit(each["loaded accounts"]);
  if ("transfer" in each) return transferOf(each.transfer, subject);
  if ("create account" in each) return creationOf(each["create account"], subject);
  if ("guard" in each) return walletGuard(evaluateText(each.guard, subject.names));
  if ("memo" in each) return memoOf(each.memo, subject);
  const { program, accounts, data } = each.call;
  return call(
    addressOf(program, subject),
    data.flatMap((part) => [...bytesOf(part, subject)]),
    accounts.map((account) => accountOf(account, subject)),
  );
}

export function transferOf(changes: TransferChanges, subject: Subject): Instruction {
  const { "more accounts": more, amount, decimals, ...addresses } = changes;
  return transfer(subject.payment, {
    ...addressesOf(addresses, subject),
    ...(amount === undefined ? {} : { amount: BigInt(evaluateText(amount, subject.names)) }),
    ...(decimals === undefined ? {} : { decimals }),
    moreAccounts: more.map((account) => accountOf(account, subject)),
  });
}

function creationOf(changes: z.infer<typeof creationChanges>, subject: Subject): Instruction {
  const { "more accounts": more, data, ...addresses } = changes;
  return createAccount(subject.payment, {
    ...addressesOf(addresses, subject),
    ...(data === undefined ? {} : { data }),
    moreAccounts: more.map((account) => accountOf(account, subject)),
  });
}

function memoOf(said: string | { text: string; signers: string[] }, subject: Subject): Instruction {
  if (typeof said === "string") return memo(evaluateText(said, subject.names));
  const signers = said.signers.map((each) => addressOf(each, subject));
  return memo(evaluateText(said.text, subject.names), signers);
}

function addressesOf(
  written: Readonly<Record<string, string | undefined>>,
  subject: Subject,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(written).flatMap(([name, text]) =>
      text === undefined ? [] : [[name, addressOf(text, subject)]],
    ),
  );
}

function addressOf(text: string, { names }: Subject): string {
  return PROGRAMS.get(text) ?? evaluateText(text, names);
}

const RIGHTS: ReadonlyMap<string, (address: string) => Account> = new Map([
  ["writable", writable],
  ["signer", signer],
  ["writable signer", writableSigner],
]);
const WITH_RIGHTS = /^(.+?)(?: (writable signer|writable|signer))?$/;

function accountOf(text: string, subject: Subject): Account {
  const [, written = "", rights = ""] = WITH_RIGHTS.exec(text) ?? [];
  const address = addressOf(written, subject);
  return RIGHTS.get(rights)?.(address) ?? address;
}

const U32_BYTES = 4;
const U64_BYTES = 8;

function bytesOf(part: number | string, { names }: Subject): Uint8Array {
  if (typeof part === "number") return Uint8Array.of(part);
  const [kind = "", ...rest] = part.split(" ");
  const value = evaluateText(rest.join(" "), names);
  switch (kind) {
    case "u32":
      return integer(BigInt(value), U32_BYTES);
    case "u64":
      return integer(BigInt(value), U64_BYTES);
    case "key":
      return fromBase58(value);
    case "text":
      return Buffer.from(value);
    default:
      throw new Error(`${part} is no data of an instruction`);
  }
}
