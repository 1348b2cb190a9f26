/**
 * `X-PAYMENT-RESPONSE` and `PAYMENT-RESPONSE` as a buyer reads them (protocol section 2.3; version 2, section 5.3):
 * whatever a seller writes there.
 */
import { explorerLink, findNetwork } from "../x402/network.ts";
import { decodeBase58 } from "../x402/solana-address.ts";
import { nameOfCaip2 } from "../x402/version-2.ts";
import type { BuyerAnswer } from "./exchange.ts";
import { readHeaderJson } from "./offer.ts";
import { isRecord } from "../x402/json.ts";

export interface PaymentReceipt {
  readonly success: boolean;
  /** "" where nothing was settled. */
  readonly transaction: string;
  /** The name that version 1 has for it, where it is known here. */
  readonly network: string;
  readonly payer: string;
  /** Why it was not settled, in the protocol's words; "" where it was. */
  readonly errorReason: string;
  /** Where the transaction can be looked at; null for what is no transaction of a known network. */
  readonly explorer: string | null;
}

/** Longest header that is decoded, characters. */
const MAX_HEADER = 16 * 1024;
/** Longest member that is kept, characters. */
const MAX_MEMBER = 128;
/** Bytes of a Solana transaction's first signature, which is its name. */
const SIGNATURE_BYTES = 64;

/** Null where there is none, or what is there is no receipt. */
export function readReceipt(header: string): PaymentReceipt | null {
  if (header === "" || header.length > MAX_HEADER) return null;
  return readReceiptJson(readHeaderJson(header));
}

/** The same of a document that stands in no header. */
export function readReceiptJson(json: unknown): PaymentReceipt | null {
  if (!isRecord(json) || typeof json["success"] !== "boolean") return null;
  const transaction = member(json["transaction"]);
  const network = nameOfCaip2(member(json["network"]));
  return {
    success: json["success"],
    transaction,
    network,
    payer: member(json["payer"]),
    errorReason: member(json["errorReason"]),
    explorer: transactionLink(network, transaction),
  };
}

/** Where it can be looked at; null for what is no transaction of a known network. */
export function transactionLink(name: string, transaction: string): string | null {
  const network = findNetwork(name);
  if (network === undefined) return null;
  const isTransaction =
    network.kind === "evm"
      ? /^0x[0-9a-fA-F]{64}$/.test(transaction)
      : decodeBase58(transaction, SIGNATURE_BYTES) !== undefined;
  return isTransaction ? explorerLink(network, transaction) : null;
}

function member(value: unknown): string {
  return typeof value === "string" ? value.slice(0, MAX_MEMBER).toWellFormed() : "";
}

/** What an answer has cost of what was prepaid. */
const CHARGED = "x-402-charged";

/** `0.001 USDC`; null: nothing, or nothing that can be read. */
export function chargedBy(answer: Pick<BuyerAnswer, "header">): string | null {
  const told = answer.header(CHARGED);
  return /^[0-9]{1,40}(?:\.[0-9]{1,36})? [\w.]{1,20}$/.test(told) ? told : null;
}
