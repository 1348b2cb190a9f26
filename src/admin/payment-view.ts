/**
 * A payment as the command line shows it. The names and meanings of {@link PaymentView} are a promise to
 * scripts, in JSON and in CSV: members may be added, none is renamed or removed.
 */
import type { PaymentDetail, PaymentSummary, UsedElsewhere } from "./books.ts";
import { creditsToken } from "../ledger/pots.ts";
import { isSameToken } from "../x402/token.ts";
import type { Config } from "../config/config.ts";
import { formatAmount, parseUint256 } from "../x402/amount.ts";
import { findNetwork, type Asset } from "../x402/network.ts";

export interface PaymentView {
  readonly key: string;
  /** CLAIMED, SIGNED, SETTLED, DELIVERING, DELIVERED or FAILED. */
  readonly state: string;
  readonly network: string;
  /** Address of the token. */
  readonly asset: string;
  /** Null for a token that neither the network nor the configuration knows. */
  readonly symbol: string | null;
  readonly amountAtomic: string;
  /** In whole tokens, exact; null where the symbol is. */
  readonly amount: string | null;
  readonly payer: string;
  readonly payTo: string;
  /** Method and path that were bought; null for a settlement that another resource server asked for. */
  readonly binding: string | null;
  readonly target: string | null;
  /** The remote facilitator that it was handed to. */
  readonly facilitator: string | null;
  /** Null until it is settled. */
  readonly transaction: string | null;
  readonly attempts: number;
  readonly failureCode: string | null;
  readonly failureDetail: string | null;
  /** ISO 8601, UTC. */
  readonly claimedAt: string;
  readonly updatedAt: string;
  /**
   * Paid the seller, and is not ours: with SIGNED the payment is held for the operator. With FAILED it is any
   * transaction whose payment the seller has paid back.
   */
  readonly heldTransaction: string | null;
  /** Null: nobody has asked for one, or the seller has paid it back by other means. */
  readonly refund: {
    /** ASKED, SENDING, REFUNDED or FAILED. */
    readonly state: string;
    /** Of the transfer to the payer, once it is there. */
    readonly transaction: string | null;
    /** Why it waits, or has failed. */
    readonly detail: string | null;
    /** Key of the transfer's own payment. */
    readonly transfer: string | null;
    /** What of the payment goes back out of its payer's balance, in whole tokens; null: all of the payment, or not known. */
    readonly credits: string | null;
    /** The same in atomic units; null: all of the payment. */
    readonly creditsAtomic: string | null;
  } | null;
  /** It is itself a refund: a transfer that pays another one back. */
  readonly isRefund: boolean;
}

/** A payment that was used before it was presented here; null as in {@link PaymentView}. */
export interface UsedElsewhereView {
  readonly key: string;
  readonly network: string;
  readonly asset: string;
  readonly symbol: string | null;
  readonly amountAtomic: string;
  readonly amount: string | null;
  readonly payer: string;
  readonly payTo: string;
  /** Method and path that were asked for. */
  readonly binding: string;
  /** ISO 8601, UTC. */
  readonly seenAt: string;
}

export interface PaymentDetailView extends PaymentView {
  readonly resource: string;
  readonly submission: PaymentDetail["submission"];
  readonly events: readonly {
    readonly at: string;
    readonly state: string;
    readonly note: string;
    /** The life of the process that did it. */
    readonly by: string;
  }[];
  readonly advice: string;
}

/** The tokens by which amounts are shown: those of the networks and of the configuration. */
export class Tokens {
  readonly #told: Pick<Config, "facilitator" | "routes"> | readonly KnownToken[];
  /** By {@link nameOf}; made when somebody asks for one that its network does not tell. */
  #named: ReadonlyMap<string, KnownToken> | undefined;

  constructor(told: Pick<Config, "facilitator" | "routes"> | readonly KnownToken[]) {
    this.#told = told;
  }

  /** Of the configuration, each once. */
  get known(): readonly KnownToken[] {
    return [...this.#byName.values()];
  }

  /** Of credits: the family of networks, and the symbol. */
  find(network: string, address: string): Pick<Asset, "symbol" | "decimals"> | undefined {
    const own = findNetwork(network)?.asset;
    if (own !== undefined && isSameToken(network, own.address, address)) return own;
    return this.#byName.get(nameOf(network, address))?.[1] ?? creditsToken(network, address);
  }

  get #byName(): ReadonlyMap<string, KnownToken> {
    if (this.#named !== undefined) return this.#named;
    const named = new Map<string, KnownToken>();
    const told = "routes" in this.#told ? tokensIn(this.#told) : this.#told;
    for (const [network, { address, symbol, decimals }] of told) {
      const name = nameOf(network, address);
      if (!named.has(name)) named.set(name, [network, { address, symbol, decimals }]);
    }
    return (this.#named = named);
  }
}

/** A token and its network. */
export type KnownToken = readonly [network: string, Pick<Asset, "address" | "symbol" | "decimals">];

function* tokensIn({
  facilitator,
  routes,
}: Pick<Config, "facilitator" | "routes">): Generator<KnownToken> {
  for (const { network, assets } of facilitator.embedded) {
    for (const asset of assets) yield [network, asset];
  }
  for (const { action } of routes) {
    if (action.kind !== "priced") continue;
    for (const { network, asset } of action.offers) yield [network, asset];
  }
}

/** As of {@link isSameToken}. */
function nameOf(network: string, address: string): string {
  return `${network} ${findNetwork(network)?.kind === "evm" ? address.toLowerCase() : address}`;
}

export function viewOf(payment: PaymentSummary, tokens: Tokens): PaymentView {
  const { key, state, network, asset, payer, payTo, binding, target, facilitator } = payment;
  const { transaction, attempts, failureCode, failureDetail } = payment;
  return {
    key,
    state,
    network,
    asset,
    ...amountOf(payment, tokens),
    payer,
    payTo,
    binding,
    target,
    facilitator,
    transaction,
    attempts,
    failureCode,
    failureDetail,
    claimedAt: timeOf(payment.claimedMs),
    updatedAt: timeOf(payment.updatedMs),
    heldTransaction: payment.heldTransaction,
    refund: refundOf(payment, tokens),
    isRefund: payment.isTransferBack,
  };
}

function refundOf(payment: PaymentSummary, tokens: Tokens): PaymentView["refund"] {
  const { refund, network, asset } = payment;
  if (refund === null) return null;
  const { creditsAtomic } = refund;
  if (creditsAtomic === null) return { ...refund, credits: null };
  return { ...refund, credits: amountOf({ network, asset, amount: creditsAtomic }, tokens).amount };
}

export function usedElsewhereView(
  { seenMs, amount, ...rest }: UsedElsewhere,
  tokens: Tokens,
): UsedElsewhereView {
  return { ...rest, ...amountOf({ ...rest, amount }, tokens), seenAt: timeOf(seenMs) };
}

function amountOf(
  { network, asset, amount }: Pick<PaymentSummary, "network" | "asset" | "amount">,
  tokens: Tokens,
): Pick<PaymentView, "symbol" | "amountAtomic" | "amount"> {
  const token = tokens.find(network, asset);
  const atomic = parseUint256(amount);
  const isReadable = token !== undefined && atomic !== undefined;
  return {
    symbol: token?.symbol ?? null,
    amountAtomic: amount,
    amount: isReadable ? formatAmount(atomic, token.decimals) : null,
  };
}

export function detailOf(
  payment: PaymentDetail,
  advice: string,
  tokens: Tokens,
): PaymentDetailView {
  const { resource, submission, events } = payment;
  return {
    ...viewOf(payment, tokens),
    resource,
    submission,
    events: events.map(({ atMs, state, note, by }) => ({ at: timeOf(atMs), state, note, by })),
    advice,
  };
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}
