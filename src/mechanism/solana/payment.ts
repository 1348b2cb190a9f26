/**
 * A Solana payment as a value, and everything about it that needs neither chain nor clock: what the
 * requirements ask (V2-V9), what the transaction is (V10-V13), who signed it (V14), and, where it names all
 * its accounts itself, what it does (V15-V26).
 */
import type { NetworkName } from "../../x402/network.ts";
import { solanaTransactionOf } from "../../x402/payment-key.ts";
import { err, ok, refuse, type Refusal, type Result } from "../../x402/result.ts";
import { messageHash, type SolanaTransaction } from "../../x402/solana-transaction.ts";
import { EXACT_SCHEME, isVersion, type FacilitatorRequest } from "../../x402/x402.ts";
import type { Checked } from "../mechanism.ts";
import { decodeMessage, resolve, type Message } from "./message.ts";
import { judge, readDemand, type Demand, type SolanaJudged, type RuleOptions } from "./rules.ts";
import { isSignedBy } from "./signing.ts";
import type { FundsReading } from "./source-funds.ts";

/** A payment that has been read. */
export interface SolanaAuthorization {
  readonly transaction: SolanaTransaction;
  readonly message: Message;
  /** Lower-case hex of sha256(message bytes). */
  readonly messageHash: string;
  /** Account key 1, base58, who has to sign the transfer; "" unless exactly two signatures are required. */
  readonly payer: string;
  /** Account key 0, base58. */
  readonly feePayer: string;
  /** Set when every rule was found kept by what the request alone says; else it is for `inspect`. */
  readonly judged: SolanaJudged | undefined;
  /** What `inspect` has found of it. */
  readonly reading?: SolanaReading;
  readonly demand: Demand;
}

/** What the simulation of a payment has shown, and what is judged of it. */
export interface SolanaReading extends FundsReading {
  readonly judged: SolanaJudged;
}

/** The second signer's place: the fee payer signs first. */
const PAYER_SLOT = 1;

/**
 * Reads a whole request for a network, without judging the payment.
 * @param rules null for a payment that others accepted, or an earlier life of ours did, whatever it served then
 */
export function readPayment(
  request: FacilitatorRequest,
  network: NetworkName,
  rules: RuleOptions | null,
): Result<SolanaAuthorization, Refusal> {
  const { paymentPayload, paymentRequirements } = request;
  if (!isVersion(paymentPayload.x402Version)) {
    return refuse("invalid_x402_version", "only versions 1 and 2 are served");
  }
  for (const part of [paymentPayload, paymentRequirements]) {
    if (part.scheme !== EXACT_SCHEME) {
      return refuse("invalid_scheme", `only ${EXACT_SCHEME} is served`);
    }
    if (part.network !== network) return refuse("invalid_network", `this is ${network}`);
  }
  const demand = readDemand(paymentRequirements, rules);
  if (!demand.ok) return demand;
  const transaction = solanaTransactionOf(paymentPayload);
  if (!transaction.ok) return transaction;
  const message = decodeMessage(transaction.value);
  if (!message.ok) return message;
  return ok({
    transaction: transaction.value,
    message: message.value,
    messageHash: messageHash(transaction.value),
    payer: transaction.value.payer ?? "",
    feePayer: transaction.value.feePayer,
    judged: undefined,
    demand: demand.value,
  });
}

/**
 * Reads and judges. A refusal is a request that cannot be read, or that names what is not served. The payer
 * is told when the signature is the payer's, whatever else is wrong (V30); and `judged` is set when every
 * rule is kept and nothing has to be read from the chain for that, neither lookup table nor mint.
 */
export function checkPayment(
  request: FacilitatorRequest,
  network: NetworkName,
  rules: RuleOptions,
): Result<Checked<SolanaAuthorization>, Refusal> {
  const read = readPayment(request, network, rules);
  if (!read.ok) return read;
  const authorization = read.value;
  const isSigned = isSignedByPayer(authorization);
  const payer = isSigned ? authorization.payer : "";
  const fault = findSignerFault(authorization) ?? (isSigned ? null : NOT_THE_PAYERS);
  const unjudged = { authorization, payer, proven: true, runsCode: false, fault };
  if (fault !== null || needsChain(authorization, rules)) return ok(unjudged);
  const judged = judgeResolved(authorization, NO_TABLES, rules);
  if (!judged.ok) return ok({ ...unjudged, fault: judged.error });
  return ok({ ...unjudged, authorization: { ...authorization, judged: judged.value } });
}

/** Before the start-up checks have read a mint, nothing in it is refused: the network is not open as yet. */
function needsChain({ message, demand }: SolanaAuthorization, rules: RuleOptions): boolean {
  return message.lookups.length > 0 || rules.tokens.get(demand.asset)?.program === null;
}

const NO_TABLES: ReadonlyMap<string, readonly string[]> = new Map();

/**
 * The rules that need all accounts to be known (V15-V26). `tables`: the addresses of each lookup table that
 * the message names; what is missing there is refused.
 */
export function judgeResolved(
  { message, demand }: SolanaAuthorization,
  tables: ReadonlyMap<string, readonly string[]>,
  rules: RuleOptions,
): Result<SolanaJudged, Refusal> {
  const resolved = resolve(message, tables);
  return resolved === undefined ? err(UNRESOLVED) : judge(resolved, demand, rules);
}

/** V12 and V13: who has to sign. */
function findSignerFault({ transaction, demand }: SolanaAuthorization): Refusal | null {
  if (transaction.feePayer !== demand.feePayer) {
    const detail = `the transaction's fee payer is ${transaction.feePayer}, not extra.feePayer`;
    return { code: "invalid_payload", detail };
  }
  if (transaction.payer !== undefined) return null;
  const count = transaction.signatures.length;
  const detail = `the transaction requires ${count} signatures, not two: the fee payer's and the payer's`;
  return { code: "invalid_payload", detail };
}

/** V14. The fee payer's place is ours to fill: whatever stands there is not looked at. */
function isSignedByPayer({ transaction }: SolanaAuthorization): boolean {
  const { payer, message } = transaction;
  const signature = transaction.signatures[PAYER_SLOT];
  return payer !== undefined && signature !== undefined && isSignedBy(message, signature, payer);
}

const NOT_THE_PAYERS: Refusal = {
  code: "invalid_payload",
  detail: "the transaction's second signature is not the payer's over this message",
};

const UNRESOLVED: Refusal = {
  code: "invalid_payload",
  detail:
    "the transaction takes an account from an address lookup table that is not there (as far as finalized), or names one twice",
};
