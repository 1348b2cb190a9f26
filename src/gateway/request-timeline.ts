/** What the operator's page is told of a request to a priced route: who asks for what, with which payment. */
import { notesOf } from "./message/inbound.ts";
import type { AskedPrice, PresentedPayment, RequestEnd } from "../telemetry/timeline.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { isEvmPayload, payerOf } from "../x402/payment-key.ts";
import { findNetwork } from "../x402/network.ts";
import { EXACT_SCHEME, type PaymentPayload } from "../x402/x402.ts";
import { acceptable } from "./challenge.ts";
import type { Client } from "./client/client.ts";
import type { PresentedDecision, PricedDecision } from "./decision.ts";
import type { Refused } from "./refused.ts";
import type { Visitor } from "./visitor.ts";

/** Prices that are told of one request at most. */
const MAX_ASKED = 16;

export function beginEntry(
  { timeline }: Telemetry,
  visitor: Visitor,
  decision: PricedDecision,
  client: Client,
): void {
  if (timeline === undefined) return;
  const { method = "" } = visitor.request;
  const { path, target, plan } = decision;
  const isPresented = decision.kind === "presented";
  visitor.entry = timeline.begin(visitor.id, {
    method,
    path,
    route: plan.label,
    connection: connectionOf(visitor, client),
    target,
    presented: isPresented ? presentedOf(decision.payment) : null,
    asked: isPresented ? askedBy(decision) : NONE,
  });
}

/** Null where it may carry the requests of several buyers. */
function connectionOf({ id, request }: Visitor, { isDirect }: Client): string | null {
  if (!isDirect) return null;
  return (notesOf(request.socket.beneath ?? request.socket).firstRequest ??= id);
}

/** The client is told that its payment is not taken, or that there was none. */
export function refuseEntry({ timeline }: Telemetry, { entry }: Visitor, { error }: Refused): void {
  if (entry !== null) timeline?.refuse(entry, error);
}

export function endEntry({ timeline }: Telemetry, visitor: Visitor, end: RequestEnd): void {
  const { entry, trace } = visitor;
  if (entry !== null) timeline?.end(entry, end, trace?.context.facts?.payment ?? null);
}

const NONE: readonly AskedPrice[] = [];

function askedBy(decision: PresentedDecision): readonly AskedPrice[] {
  const offers = acceptable(decision).slice(0, MAX_ASKED);
  return offers.map(({ network, asset, maxAmountRequired: amount, payTo }) => {
    return { network, asset, amount, payTo };
  });
}

/** The signature alone makes a payment of it, and a Solana transaction holds one: of those only the size is told. */
function presentedOf(payment: PaymentPayload): PresentedPayment {
  const { x402Version: version, scheme, network, payload } = payment;
  // Of any other scheme or network it is opaque, and holds whatever the client wrote.
  const isRead = scheme === EXACT_SCHEME && findNetwork(network) !== undefined;
  const members = isRead ? membersOf(payload) : [];
  return { version, scheme, network, payer: payerOf(payment), members };
}

function membersOf(payload: PaymentPayload["payload"]): PresentedPayment["members"] {
  if ("transaction" in payload && typeof payload.transaction === "string") {
    return [["transaction", `${payload.transaction.length} characters of base64, not shown`]];
  }
  if (!isEvmPayload(payload)) return [];
  const { from, to, value, validAfter, validBefore, nonce } = payload.authorization;
  const { length } = payload.signature;
  return [
    ["from", from],
    ["to", to],
    ["value", value],
    ["validAfter", validAfter],
    ["validBefore", validBefore],
    ["nonce", nonce],
    ["signature", `${length} characters, not shown`],
  ];
}
