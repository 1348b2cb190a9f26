/** Accounts as a node answers them when asked with base64, cut down to what is read here. */
import { ChainError } from "../mechanism.ts";
import { type Rpc } from "../rpc.ts";
import { isRecord } from "../../x402/json.ts";

/** What an account holds, and which program may change it. */
export interface RawAccount {
  /** Address of the program, base58. */
  readonly owner: string;
  readonly data: Uint8Array;
}

/** How accounts are read. */
export interface AccountReading<Commitment extends string> {
  readonly commitment: Commitment;
  /** So much of the data of each, from its beginning: anybody can make an account of ten megabytes. */
  readonly maxBytes: number;
}

/** The options of a call that reads accounts. */
export function readingOptions({ commitment, maxBytes }: AccountReading<string>): object {
  return { commitment, encoding: "base64", dataSlice: { offset: 0, length: maxBytes } };
}

/**
 * One account of `getAccountInfo` or `getMultipleAccounts`; null where there is none at that address.
 * @throws {ChainError} when it is neither
 */
export function readRawAccount(value: unknown): RawAccount | null {
  if (value === null) return null;
  if (isRecord(value) && typeof value["owner"] === "string" && Array.isArray(value["data"])) {
    const [text, encoding]: unknown[] = value["data"];
    if (typeof text === "string" && encoding === "base64") {
      return { owner: value["owner"], data: Buffer.from(text, "base64") };
    }
  }
  throw new ChainError("CHAIN_ANSWER", "the node answered something else than an account");
}

/**
 * Accounts in the order of their addresses, null where there is none; at most 100, as nodes allow no more.
 * @throws {ChainError} when the node cannot be asked, or answers something else
 */
export async function readAccounts(
  rpc: Rpc,
  addresses: readonly string[],
  reading: AccountReading<"finalized">,
  signal: AbortSignal,
): Promise<readonly (RawAccount | null)[]> {
  const params = [addresses, readingOptions(reading)];
  const answer = await rpc.call("getMultipleAccounts", params, signal);
  const values = isRecord(answer) ? answer["value"] : undefined;
  if (!Array.isArray(values) || values.length !== addresses.length) {
    throw new ChainError(
      "CHAIN_ANSWER",
      `getMultipleAccounts at ${rpc.host}: not one answer for each address`,
    );
  }
  return values.map(readRawAccount);
}
