/** What the access log is told of a request: noted while it is served, and written when it was answered. */
import type { CreditDraw } from "../payments/credits/credit-price.ts";
import type { PricedRequest } from "../pricing/computed-price.ts";
import type { PaymentOutcome } from "../telemetry/metrics.ts";
import { paymentId } from "../telemetry/request-context.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { formatAmount } from "../x402/amount.ts";
import { PAYMENT_NAMES } from "../x402/header.ts";
import { networkOf } from "../x402/network.ts";
import type { ProvenAccount } from "../x402/session.ts";
import { isSameToken } from "../x402/token.ts";
import type { PaymentRequirements, SettleResponse } from "../x402/x402.ts";
import { readClient } from "./client/client.ts";
import type { TrustedProxies } from "./client/trusted-proxies.ts";
import type { PricedPlan } from "./decision.ts";
import type { Visitor } from "./visitor.ts";

export function beginAccess(
  { access }: Telemetry,
  visitor: Visitor,
  trusted: TrustedProxies,
): void {
  if (access === undefined) return;
  visitor.access = {
    client: readClient(visitor.request, trusted).address,
    bytes: 0,
    sale: null,
    would: null,
  };
}

/** Notes what would have been asked; resolves with whether it would have been paid, as far as a payment was shown. */
export function noteShadow(
  { access, request }: Visitor,
  price: string | ((request: PricedRequest) => string),
  target: string,
): Extract<PaymentOutcome, "shadow" | "shadow-paid"> {
  if (access !== null) {
    const { method = "", rawHeaders } = request;
    access.would = typeof price === "string" ? price : price({ method, target, rawHeaders });
  }
  const shows = Object.values(PAYMENT_NAMES).some((name) => request.headers[name] !== undefined);
  return shows ? "shadow-paid" : "shadow";
}

/** That of a route that something was paid with; undefined: the route names it no more. */
export function tokenOf(
  tokens: PricedPlan["tokens"],
  { network, asset }: Pick<PaymentRequirements, "network" | "asset">,
): PricedPlan["tokens"][number] | undefined {
  return tokens.find((each) => {
    return each.network === network && isSameToken(network, each.address, asset);
  });
}

/** `terms`: what it was paid with now; null: it was paid before. */
export function noteSale(
  { access }: Visitor,
  { tokens }: Pick<PricedPlan, "tokens">,
  { network, payer, transaction }: Pick<SettleResponse, "network" | "payer" | "transaction">,
  terms: PaymentRequirements | null,
): void {
  if (access === null) return;
  const token = terms === null ? undefined : tokenOf(tokens, { network, asset: terms.asset });
  const amount = terms?.maxAmountRequired ?? null;
  access.sale = {
    // Of a token that the route names no more only the atomic units are known.
    amount: amount === null ? null : formatAmount(BigInt(amount), token?.decimals ?? 0),
    asset: token?.symbol ?? terms?.asset ?? null,
    network,
    payer: payer ?? "",
    transaction,
  };
}

/** What a request has cost of a balance. */
export function noteCredits(
  { access }: Visitor,
  { address: payer }: Pick<ProvenAccount, "address">,
  { amount, network }: CreditDraw,
): void {
  if (access === null) return;
  const { decimals, symbol: asset } = networkOf(network).asset;
  access.sale = {
    amount: formatAmount(amount, decimals),
    asset,
    network,
    payer,
    transaction: null,
  };
}

export function endAccess(
  { access: log }: Telemetry,
  visitor: Visitor,
  end: {
    readonly status: number;
    readonly outcome: PaymentOutcome;
    readonly ms: number;
    readonly route: string;
  },
): void {
  const { access, request, trace } = visitor;
  if (access === null || log === undefined) return;
  const { method = "", url = "", httpVersion, headers } = request;
  const key = trace?.context.facts?.payment ?? null;
  // As whoever else logs the connection has it; metrics and traces have what the answer is.
  const { sent: status = end.status, ...noted } = access;
  log.write({
    ...noted,
    ...end,
    status,
    method,
    target: url,
    host: headers.host ?? null,
    version: httpVersion,
    payment: key === null ? null : paymentId(key),
    referrer: headers.referer ?? null,
    agent: headers["user-agent"] ?? null,
    requestId: visitor.id,
  });
}

/** What of it was charged, whole tokens, since its answer has used so much; null: it did not say. */
export function noteUsage(
  { access }: Pick<Visitor, "access">,
  used: { readonly charged: string; readonly usage: string | null },
): void {
  if (access?.sale) access.sale = { ...access.sale, ...used };
}
