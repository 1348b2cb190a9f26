/** What a node answers to `simulateTransaction`, and the names of the errors in it. */
import { ChainError } from "../mechanism.ts";
import { type Rpc } from "../rpc.ts";
import { readRawAccount, type RawAccount } from "./raw-account.ts";
import { readContextSlot } from "./statuses.ts";
import { isRecord } from "../../x402/json.ts";

/** Characters of a node's own words that are repeated. */
const MAX_WORDS = 200;

/** Why a transaction fails, in the runtime's names. */
export interface Failure {
  /** `BlockhashNotFound`; within an instruction `InvalidAccountData`, or `Custom` with the program's number. */
  readonly name: string;
  /** The instruction that fails, from 0; undefined where the transaction does not even begin. */
  readonly instruction: number | undefined;
  /** The program's own number. */
  readonly custom: number | undefined;
  /** The account that it is about, from 0, where the runtime names one. */
  readonly account: number | undefined;
}

/** A transaction as the chain would run it now. */
export interface Simulation {
  /** The state that it ran on. */
  readonly slot: number;
  /** Null: it would succeed. */
  readonly failure: Failure | null;
  /** The account asked for, as the transaction leaves it; null also when the transaction fails. */
  readonly account: RawAccount | null;
}

/**
 * Runs a transaction without a trace, by the newest state, and shows one account afterwards. Signatures are
 * not looked at: the fee payer's is not there as yet.
 * @throws {ChainError} when the node cannot be asked, or answers something else
 */
export async function simulate(
  rpc: Rpc,
  transaction: Uint8Array,
  account: string,
  signal: AbortSignal,
): Promise<Simulation> {
  const options = {
    encoding: "base64",
    commitment: "processed",
    sigVerify: false,
    replaceRecentBlockhash: false,
    accounts: { encoding: "base64", addresses: [account] },
  };
  const raw = Buffer.from(transaction).toString("base64");
  const answer = await rpc.call("simulateTransaction", [raw, options], signal);
  const value = isRecord(answer) ? answer["value"] : undefined;
  const slot = readContextSlot(answer);
  if (slot === undefined || !isRecord(value) || value["err"] === undefined) {
    throw new ChainError("CHAIN_ANSWER", `simulateTransaction at ${rpc.host}: no result`);
  }
  const failure = readFailure(value["err"]);
  if (failure !== null) return { slot, failure, account: null };
  const accounts = value["accounts"];
  if (!Array.isArray(accounts) || accounts.length !== 1) {
    throw new ChainError(
      "CHAIN_ANSWER",
      `simulateTransaction at ${rpc.host}: not the one account that was asked for`,
    );
  }
  return { slot, failure, account: readRawAccount(accounts[0]) };
}

/** Reads an `err` as Agave writes it; one of an unknown shape is a failure all the same. */
function readFailure(error: unknown): Failure | null {
  if (error === null) return null;
  const nothing = { instruction: undefined, custom: undefined, account: undefined };
  if (typeof error === "string") return { ...nothing, name: error.slice(0, MAX_WORDS) };
  const [entry] = isRecord(error) ? Object.entries(error) : [];
  if (entry === undefined) return { ...nothing, name: shorten(error) };
  const [kind, value]: readonly [string, unknown] = entry;
  if (kind === "InstructionError" && Array.isArray(value)) return readInstructionError(value);
  const index = isRecord(value) ? value["account_index"] : undefined;
  const account = typeof index === "number" ? index : undefined;
  return { ...nothing, account, name: account === undefined ? shorten(error) : kind };
}

/** `[2, "InvalidAccountData"]`, or `[2, { Custom: 1 }]`. */
function readInstructionError([index, reason]: readonly unknown[]): Failure {
  const instruction = typeof index === "number" ? index : undefined;
  const number = isRecord(reason) ? reason["Custom"] : undefined;
  const custom = typeof number === "number" ? number : undefined;
  const said = typeof reason === "string" ? reason.slice(0, MAX_WORDS) : shorten(reason);
  const name = custom === undefined ? said : "Custom";
  return { name, instruction, custom, account: undefined };
}

function shorten(value: unknown): string {
  return (JSON.stringify(value) ?? "an error without a name").slice(0, MAX_WORDS);
}

/** `BlockhashNotFound`, `InvalidAccountData in instructions[2]`, `Custom 4 in instructions[2]`. */
export function describeFailure({ name, instruction, custom, account }: Failure): string {
  const what = custom === undefined ? name : `${name} ${custom}`;
  if (instruction !== undefined) return `${what} in instructions[${instruction}]`;
  return account === undefined ? what : `${what} of account ${account}`;
}
