/**
 * Which of a URL's requirements a presented payment answers. On EVM a payment names payee and amount, on
 * Solana not even those in the open: what it fits best is tried first, and the facilitator judges.
 */
import type { Facilitator, Payment } from "../facilitator.ts";
import { sameAddress } from "../../x402/address.ts";
import { parseUint256 } from "../../x402/amount.ts";
import { findNetwork } from "../../x402/network.ts";
import { isEvmPayload, solanaTransactionOf } from "../../x402/payment-key.ts";
import { printable } from "../../x402/printable.ts";
import { err, ok, refuse, type Refusal, type Result } from "../../x402/result.ts";
import { ADDRESS_BYTES, decodeBase58 } from "../../x402/solana-address.ts";
import type { SolanaTransaction } from "../../x402/solana-transaction.ts";
import { extensionsOf } from "../../x402/bazaar.ts";
import { memberOf } from "../../x402/json.ts";
import { isContained, mismatchOf, type RequirementsV2 } from "../../x402/version-2.ts";
import type { PaymentPayload, PaymentRequirements } from "../../x402/x402.ts";
import type { Presented } from "./admission.ts";
import { NO_STOPS, stopOn } from "./stops.ts";
import { feePayerOf, type FeePayers, type NetworkStates } from "./offers.ts";

export interface Choosing {
  readonly facilitator: Pick<Facilitator, "read" | "precheck">;
  readonly feePayers: Pick<FeePayers, "isKnown">;
  readonly networks: Pick<NetworkStates, "of" | "stops">;
}

/**
 * The first requirement that the payment fits and that is not refused at once. With the code
 * `unexpected_verify_error` it is not the payment's fault: nothing can be taken on that network now.
 */
export function choose(
  {
    payment,
    accepted,
    accepts,
    isSettledAfter,
    exactly,
  }: Pick<Presented, "payment" | "accepted" | "accepts" | "isSettledAfter" | "exactly">,
  choosing: Choosing,
): Result<Payment, Refusal> {
  const sameScheme = accepts.filter(({ scheme }) => scheme === payment.scheme);
  if (sameScheme.length === 0) {
    const scheme = JSON.stringify(printable(payment.scheme));
    return refuse("invalid_scheme", `scheme ${scheme} is not accepted here`);
  }
  const sameNetwork = sameScheme.filter(({ network }) => network === payment.network);
  if (sameNetwork.length === 0) {
    const network = JSON.stringify(printable(payment.network));
    return refuse("invalid_network", `network ${network} is not accepted here`);
  }
  const matching = matchesOf(payment, accepted, sameNetwork, isSettledAfter);
  if (!matching.ok) return matching;
  const { value: matched } = matching;
  const offers = exactly === undefined ? matched : matched.filter((each) => !isMore(payment, each));
  if (offers.length === 0) return PAYS_MORE;
  const candidates =
    findNetwork(payment.network)?.kind === "solana"
      ? solanaCandidates(payment, offers, choosing)
      : ok(inOrder(offers, (offer) => fits(payment, offer)));
  const chosen = candidates.ok ? firstOf(payment, candidates.value, choosing) : candidates;
  const { networks } = choosing;
  // What is only stopped is refused with better words, and not to those who have paid before.
  const isStopped = stopOn(networks.stops ?? NO_STOPS.stops, payment.network) !== undefined;
  const isClosed = chosen.ok && !isStopped && networks.of(payment.network) === "closed";
  return isClosed ? refuse("unexpected_verify_error", notTakenNow([payment.network])) : chosen;
}

/**
 * Version 2: the offers that a client has accepted as they are, with what they say of extensions, as far as it repeats
 * that. A client of version 1 says nothing of it, and has accepted them all.
 */
function matchesOf(
  { extensions: echo = {} }: PaymentPayload,
  accepted: RequirementsV2 | undefined,
  offers: readonly PaymentRequirements[],
  isSettledAfter?: boolean,
): Result<readonly PaymentRequirements[], Refusal> {
  if (accepted === undefined) return ok(offers);
  const mismatches = offers.map((offer) => mismatchOf(accepted, offer, isSettledAfter));
  const same = offers.filter((_, index) => mismatches[index] === undefined);
  if (same.length === 0) {
    const detail = `accepted.${mismatches[0]} is not what is asked for here`;
    return refuse("invalid_payment_requirements", detail);
  }
  const isSilent = Object.keys(echo).length === 0;
  const echoed = isSilent ? same : same.filter((offer) => repeats(echo, extensionsOf(offer)));
  if (echoed.length > 0) return ok(echoed);
  const detail = "what extensions say is not what was told here";
  return refuse("invalid_payload", detail, "extension_echo_mismatch");
}

/** Whether what is said of our extensions holds all that we said; to say nothing of one is no fault. */
function repeats(
  echo: NonNullable<PaymentPayload["extensions"]>,
  ours: ReturnType<typeof extensionsOf> = {},
): boolean {
  return Object.entries(ours).every(([name, { info }]) => {
    return !Object.hasOwn(echo, name) || isContained(info, memberOf(echo[name], "info"));
  });
}

function firstOf(
  payment: PaymentPayload,
  candidates: readonly PaymentRequirements[],
  { facilitator }: Choosing,
): Result<Payment, Refusal> {
  let first: Result<never, Refusal> | undefined;
  for (const offer of candidates) {
    // Neither a facilitator nor the ledger has to know what a buyer has written into a query.
    const [resource = ""] = offer.resource.split("?", 1);
    const request = { paymentPayload: payment, paymentRequirements: { ...offer, resource } };
    const read = facilitator.read(request);
    const refusal = read.ok ? facilitator.precheck(read.value) : read.error;
    if (refusal === undefined) return read;
    first ??= err(refusal);
  }
  return first ?? refuse("unexpected_verify_error", noFeePayer([payment.network]));
}

/**
 * A payment names its fee payer as it was told when it was signed, and who was told then may still settle
 * it: so a known one takes the place of the one that is told now.
 */
function solanaCandidates(
  payment: PaymentPayload,
  offers: readonly PaymentRequirements[],
  { feePayers }: Choosing,
): Result<readonly PaymentRequirements[], Refusal> {
  const read = solanaTransactionOf(payment);
  if (!read.ok) return read;
  const transaction = read.value;
  const { feePayer } = transaction;
  const isKnown = feePayers.isKnown(payment.network, feePayer);
  const payable = isKnown
    ? offers.map((offer) => ({ ...offer, extra: { ...offer.extra, feePayer } }))
    : offers.filter((offer) => feePayerOf(offer) !== undefined);
  return ok(inOrder(payable, (offer) => fitsTransfer(transaction, offer)));
}

/** Those that fit first, else in the order given. */
function inOrder(
  offers: readonly PaymentRequirements[],
  fits: (offer: PaymentRequirements) => boolean,
): readonly PaymentRequirements[] {
  if (offers.length < 2) return offers;
  const fitting = offers.filter(fits);
  return [...fitting, ...offers.filter((offer) => !fitting.includes(offer))];
}

/** Whether a payment is for exactly that offer, as far as it says what it is for. */
function fits({ payload }: PaymentPayload, offer: PaymentRequirements): boolean {
  if (!isEvmPayload(payload)) return false;
  const { to, value } = payload.authorization;
  return sameAddress(to, offer.payTo) && value === offer.maxAmountRequired;
}

/**
 * Whether a payment is for more than is asked for: where every request has a price of its own, that is the price of
 * another one, or the most that it may have cost. On Solana nothing but the exact amount is ever taken.
 */
function isMore({ payload }: PaymentPayload, { maxAmountRequired }: PaymentRequirements): boolean {
  if (!isEvmPayload(payload)) return false;
  return (parseUint256(payload.authorization.value) ?? 0n) > BigInt(maxAmountRequired);
}

const PAYS_MORE = refuse(
  "invalid_exact_evm_payload_authorization_value",
  "the payment is for more than this request costs",
);

/** First byte of a token program's TransferChecked instruction; the amount follows, a u64. */
const TRANSFER_CHECKED = 0x0c;
const U64_BYTES = 8;
const MAX_U64 = 2n ** 64n - 1n;

/** Whether the mint and such a transfer of the amount stand anywhere in what was signed. */
function fitsTransfer({ message }: SolanaTransaction, offer: PaymentRequirements): boolean {
  const mint = decodeBase58(offer.asset, ADDRESS_BYTES);
  const amount = parseUint256(offer.maxAmountRequired);
  if (mint === undefined || amount === undefined || amount > MAX_U64) return false;
  const transfer = Buffer.alloc(1 + U64_BYTES, TRANSFER_CHECKED);
  transfer.writeBigUInt64LE(amount, 1);
  const signed = Buffer.from(message.buffer, message.byteOffset, message.byteLength);
  return signed.includes(Buffer.from(mint)) && signed.includes(transfer);
}

/** For buyers who have signed for one of these networks, or who could pay on no other one. */
export function notTakenNow(networks: readonly string[]): string {
  const places = networks.join(" and ");
  return `payments on ${places} are not taken at the moment, and nothing was charged; try again later`;
}

/** For buyers, who can only wait. */
export function noFeePayer(networks: readonly string[]): string {
  const places = networks.join(" and ");
  return `it is not known at the moment who pays the network fee on ${places}; try again later`;
}
