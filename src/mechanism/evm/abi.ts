/**
 * The little of the contract ABI that a payment needs, over hex text without `0x`: a payment's words
 * are written once and then only joined. The general encoders of the large libraries take longer than
 * everything else in a verification.
 */
import { isRecord } from "../../x402/json.ts";

/** Hex digits of one ABI word (32 bytes). */
export const WORD = 64;

/** The longest part of a revert message that is kept, characters. */
const MAX_REVERT_TEXT = 160;
/** `Error(string)` and `Panic(uint256)`, what Solidity reverts with. */
const ERROR_SELECTOR = "08c379a0";
const PANIC_SELECTOR = "4e487b71";
const AGGREGATE3_SELECTOR = "82ad56cb";

export function uintWord(value: bigint | number): string {
  return value.toString(16).padStart(WORD, "0");
}

/** An address (with `0x`, any letter case) as a word. */
export function addressWord(address: string): string {
  return address.slice(2).toLowerCase().padStart(WORD, "0");
}

/** `bytes` as the ABI writes them: length, then the bytes padded to whole words. */
export function bytesWords(hex: string): string {
  return uintWord(hex.length / 2) + hex.padEnd(Math.ceil(hex.length / WORD) * WORD, "0");
}

export interface ContractCall {
  /** With `0x`. */
  readonly target: string;
  /** Selector and arguments. */
  readonly callData: string;
}

/** One call's answer within an aggregate. */
export interface CallResult {
  readonly success: boolean;
  readonly returnData: string;
}

/** Call data of Multicall3's `aggregate3((address target, bool allowFailure, bytes callData)[])`. */
export function encodeAggregate3(calls: readonly ContractCall[]): string {
  let offsets = "";
  let tuples = "";
  for (const { target, callData } of calls) {
    offsets += uintWord((calls.length * WORD + tuples.length) / 2);
    tuples += addressWord(target) + uintWord(1) + uintWord(0x60) + bytesWords(callData);
  }
  return AGGREGATE3_SELECTOR + uintWord(0x20) + uintWord(calls.length) + offsets + tuples;
}

/** The `(bool success, bytes returnData)[]` of an aggregate; undefined when it does not decode. */
export function decodeAggregate3(hex: string): readonly CallResult[] | undefined {
  const start = readSize(hex, 0);
  if (start === undefined) return undefined;
  const count = readSize(hex, start);
  if (count === undefined) return undefined;
  const base = start + WORD;
  const results: CallResult[] = [];
  for (let index = 0; index < count / 2; index += 1) {
    const offset = readSize(hex, base + index * WORD);
    if (offset === undefined) return undefined;
    const success = readWord(hex, base + offset);
    const dataOffset = readSize(hex, base + offset + WORD);
    if (success === undefined || dataOffset === undefined) return undefined;
    const returnData = readBytes(hex, base + offset + dataOffset);
    if (returnData === undefined) return undefined;
    results.push({ success: success === 1n, returnData });
  }
  return results;
}

/** The word at a position (in hex digits), or undefined beyond the end. */
export function readWord(hex: string, at: number): bigint | undefined {
  const digits = hex.slice(at, at + WORD);
  return digits.length === WORD ? BigInt(`0x${digits}`) : undefined;
}

/** A length or offset in bytes, turned into hex digits; undefined when it points out of the text. */
function readSize(hex: string, at: number): number | undefined {
  const bytes = readWord(hex, at);
  return bytes !== undefined && bytes <= BigInt(hex.length) ? Number(bytes) * 2 : undefined;
}

function readBytes(hex: string, at: number): string | undefined {
  const length = readSize(hex, at);
  if (length === undefined) return undefined;
  const bytes = hex.slice(at + WORD, at + WORD + length);
  return bytes.length === length ? bytes : undefined;
}

/** The `bytes` that are that argument of a call, counted from 0, in hex; undefined where they do not decode. */
export function readBytesArgument(words: string, index: number): string | undefined {
  const at = readSize(words, index * WORD);
  return at === undefined ? undefined : readBytes(words, at);
}

/** What a contract said when it reverted, as short printable text; "" when it said nothing. */
export function revertText(returnData: string): string {
  const selector = returnData.slice(0, 8);
  const body = returnData.slice(8);
  if (selector === PANIC_SELECTOR) return `panic ${readWord(body, 0) ?? ""}`.trimEnd();
  if (selector !== ERROR_SELECTOR) return selector === "" ? "" : `error 0x${selector}`;
  const start = readSize(body, 0);
  const bytes = start === undefined ? undefined : readBytes(body, start);
  const text = Buffer.from(bytes ?? "", "hex").toString("utf8");
  return text.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, MAX_REVERT_TEXT);
}

const HEX_DATA = /^0x(?:[0-9a-fA-F]{2})*$/;
const HEX_QUANTITY = /^0x[0-9a-fA-F]{1,64}$/;

/** Data as nodes write it (`0x` and whole bytes), lower case without `0x`; undefined for all else. */
export function parseHexData(value: unknown): string | undefined {
  if (typeof value !== "string" || !HEX_DATA.test(value)) return undefined;
  return value.slice(2).toLowerCase();
}

/** A number as nodes write it (`0x` and digits); undefined for all else. */
export function parseQuantity(value: unknown): bigint | undefined {
  return typeof value === "string" && HEX_QUANTITY.test(value) ? BigInt(value) : undefined;
}

export function toQuantity(value: bigint | number): string {
  return `0x${value.toString(16)}`;
}

/** A member of a node's answer that is a quantity; undefined for all else. */
export function quantityOf(answer: unknown, member: string): bigint | undefined {
  return isRecord(answer) ? parseQuantity(answer[member]) : undefined;
}
