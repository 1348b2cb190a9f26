/**
 * Lighthouse assertions (V20): wallets add them to a transaction before their user signs it, so that it fails
 * where it would do something else than what was shown. They read accounts and change nothing; but one that
 * fails in its block costs us the network fee, and the payer nothing. So what Phantom adds is allowed, read to
 * the last byte, and nothing else: nothing that time or strangers can make untrue (decision record 42).
 */
import type { Found } from "./message.ts";
import { err, ok, type Result } from "../../x402/result.ts";

/** Whose accounts may be asserted on. Base58. */
export interface Asserted {
  readonly feePayer: string;
  readonly payer: string;
  /** The payer's associated account, which wallets pay from. */
  readonly payerTokens: () => string;
  /** The payee's token account. */
  readonly destination: string;
}

/** Assertions at most: Phantom adds up to four to a payment. */
const MAX_ASSERTIONS = 4;
/** What one of them compares at most: Phantom's are of one to four. */
const MAX_COMPARISONS = 8;
/** First bytes of AssertAccountInfoMulti and AssertTokenAccountMulti, the two instructions that Phantom adds. */
const ACCOUNT_INFO = 6;
const TOKEN_ACCOUNT = 10;
/** Log levels that call no other program; Phantom's is 4, to log as text what fails. */
const LOG_LEVELS: ReadonlySet<number> = new Set([0, 1, 2, 4, 5]);

/** Lighthouse's numbers of comparing operators. */
const EQUAL = 0;
const AT_LEAST = 4;
const AT_MOST = 5;

const U64_BYTES = 8;
const KEY_BYTES = 32;
const HASH_BYTES = 32;

/** What is compared: bytes of the value, and the operator that is allowed; none where it has no operator. */
type Comparison = (reader: Reader) => boolean;

const compares =
  (bytes: number, operator: number): Comparison =>
  (reader) => {
    reader.skip(bytes);
    return reader.byte() === operator;
  };
/** Of an optional key: only that there is none. */
const isNone: Comparison = (reader) => reader.byte() === 0 && reader.byte() === EQUAL;
/** Hash, start and length; always an equality. */
const hashes: Comparison = (reader) => {
  reader.skip(HASH_BYTES);
  reader.skipCompact();
  reader.skipCompact();
  return true;
};

type Comparisons = ReadonlyMap<number, Comparison>;

/** By Lighthouse's numbers of fields. */
const LAMPORTS = 0;
const OWNERS: Comparisons = new Map([
  [1, compares(U64_BYTES, EQUAL)], // bytes of data
  [2, compares(KEY_BYTES, EQUAL)], // the program that owns it
  [3, compares(1, EQUAL)], // the same, by its number
]);
const WALLET: Comparisons = new Map([...OWNERS, [LAMPORTS, compares(U64_BYTES, AT_LEAST)]]);
const OWN_ACCOUNT: Comparisons = new Map([...OWNERS, [8, hashes]]);
/** Nothing that a payment changes: the payee's account is changed by everybody's. */
const ANY_TOKENS: Comparisons = new Map([
  [0, compares(KEY_BYTES, EQUAL)], // mint
  [1, compares(KEY_BYTES, EQUAL)], // owner
  [3, isNone], // delegate
  [6, compares(U64_BYTES, AT_MOST)], // delegated amount
  [8, (): boolean => true], // that it is the owner's associated account
]);
const OWN_TOKENS: Comparisons = new Map([...ANY_TOKENS, [2, compares(U64_BYTES, AT_LEAST)]]);

/** What may be compared of an account by an instruction; undefined: nothing. */
function comparisonsOf(
  opcode: number,
  account: string,
  asserted: Asserted,
): Comparisons | undefined {
  const { feePayer, payer, payerTokens, destination } = asserted;
  const isWallet = account === feePayer || account === payer;
  if (isWallet) return opcode === ACCOUNT_INFO ? WALLET : undefined;
  if (account === destination) return opcode === TOKEN_ACCOUNT ? ANY_TOKENS : undefined;
  if (account !== payerTokens()) return undefined;
  return opcode === TOKEN_ACCOUNT ? OWN_TOKENS : OWN_ACCOUNT;
}

/** Whether an instruction of Lighthouse is one of those that wallets add. */
export function isAssertion(data: Uint8Array): boolean {
  return data[0] === ACCOUNT_INFO || data[0] === TOKEN_ACCOUNT;
}

/** What to do about an assertion that is not allowed. */
const ADVICE =
  "sign with a wallet that adds no assertions, or with that wallet's protection turned off";

/**
 * The lamports that a message's assertions want the fee payer to keep, 0 where none asks for any; or the
 * first fault of its Lighthouse instructions, a sentence.
 */
export function judgeAssertions(
  instructions: readonly Found[],
  mode: "assertions" | "deny",
  asserted: Asserted,
): Result<bigint, string> {
  const [first] = instructions;
  if (first === undefined) return ok(0n);
  if (mode === "deny") {
    return err(
      `instructions[${first.index}] calls Lighthouse, which this facilitator does not allow; sign with a wallet that adds no assertions`,
    );
  }
  const other = instructions.find(({ data }) => !isAssertion(data));
  if (other !== undefined) {
    return err(
      `instructions[${other.index}] is Lighthouse instruction ${other.data[0] ?? "without data"}; only ${ACCOUNT_INFO} and ${TOKEN_ACCOUNT}, which Phantom adds, are allowed: ${ADVICE}`,
    );
  }
  if (instructions.length > MAX_ASSERTIONS) {
    return err(
      `the transaction has ${instructions.length} Lighthouse assertions; ${MAX_ASSERTIONS} are allowed`,
    );
  }
  let keeps = 0n;
  for (const instruction of instructions) {
    const judged = judgeAssertion(instruction, asserted);
    if (!judged.ok) return err(`instructions[${instruction.index}] ${judged.error}: ${ADVICE}`);
    if (judged.value > keeps && instruction.accounts[0] === asserted.feePayer) keeps = judged.value;
  }
  return ok(keeps);
}

/** The lamports that it asserts, or what is wrong with it. */
function judgeAssertion({ accounts, data }: Found, asserted: Asserted): Result<bigint, string> {
  const [account, more] = accounts;
  const [opcode = 0] = data;
  const comparisons =
    account === undefined || more !== undefined
      ? undefined
      : comparisonsOf(opcode, account, asserted);
  if (comparisons === undefined) {
    return err(
      `is Lighthouse assertion ${opcode} about ${accounts.join(", ") || "no account"}; it may be about the fee payer, the payer and their payment's token accounts only`,
    );
  }
  const reader = new Reader(data, 1);
  if (!LOG_LEVELS.has(reader.byte())) {
    return err("is a Lighthouse assertion that calls another program to log");
  }
  const count = reader.byte();
  if (count === 0 || count > MAX_COMPARISONS) {
    return err(
      `is a Lighthouse assertion of ${count} comparisons; 1 to ${MAX_COMPARISONS} are allowed`,
    );
  }
  const lamports = readComparisons(reader, count, comparisons);
  if (!lamports.ok || reader.isAtEnd) return lamports;
  return err("is a Lighthouse assertion of another length than its comparisons have");
}

/** The most lamports that are compared with. */
function readComparisons(
  reader: Reader,
  count: number,
  comparisons: Comparisons,
): Result<bigint, string> {
  let lamports = 0n;
  for (let index = 0; index < count; index += 1) {
    const field = reader.byte();
    const wanted = comparisons === WALLET && field === LAMPORTS ? reader.peekUint64() : 0n;
    if (wanted > lamports) lamports = wanted;
    if (comparisons.get(field)?.(reader) !== true) {
      return err(
        `is a Lighthouse assertion whose comparison ${index} (field ${field}) is none of Phantom's`,
      );
    }
  }
  return ok(lamports);
}

/** Reads behind the end find 255, which means nothing, and are not at the end. */
class Reader {
  readonly #data: Uint8Array;
  #at: number;

  constructor(data: Uint8Array, at: number) {
    this.#data = data;
    this.#at = at;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#data.length;
  }

  byte(): number {
    const byte = this.#data[this.#at] ?? 0xff;
    this.#at += 1;
    return byte;
  }

  skip(bytes: number): void {
    this.#at += bytes;
  }

  /** An integer of seven bits a byte, as long as the bytes' highest bits are set. */
  skipCompact(): void {
    while (this.byte() >= 0x80 && this.#at <= this.#data.length);
  }

  /** Without moving on; 0 where there are not so many bytes left. */
  peekUint64(): bigint {
    if (this.#at + U64_BYTES > this.#data.length) return 0n;
    const { buffer, byteOffset } = this.#data;
    return new DataView(buffer, byteOffset + this.#at, U64_BYTES).getBigUint64(0, true);
  }
}
