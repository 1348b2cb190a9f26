/** What the gateway's own routes sell: what a payment for one fills, and what its buyer is told of it. */
import type { Config, OwnGoods, PassGoods } from "../config/config.ts";
import type { BalanceTerms } from "../gateway/balances.ts";
import type { PricedPlan } from "../gateway/decision.ts";
import type { Engine } from "../gateway/upstream/upstream.ts";
import { creditsPot, type PotFill } from "../ledger/ledger.ts";
import type { Filling } from "../payments/sale/admission.ts";
import { sameAddress } from "../x402/address.ts";
import { formatAmount } from "../x402/amount.ts";
import { findNetwork, type Network } from "../x402/network.ts";
import { BALANCE_PATH, CREDITS_PATH } from "../x402/prepaid.ts";
import { SESSION_HEADER } from "../x402/session.ts";
import { SIGN_IN_PATH } from "../x402/sign-in.ts";
import type { PaymentRequirements } from "../x402/x402.ts";
import { OwnEngine, type OwnPurchase } from "./own-engine.ts";

/** Where nothing is sold for a balance any more, it is still told what was. */
export function balanceTerms({ routes }: Pick<Config, "routes">, publicUrl: string): BalanceTerms {
  const isSold = routes.some(
    ({ pattern, action }) => pattern === CREDITS_PATH && action.kind === "priced" && action.own,
  );
  return { path: BALANCE_PATH, buy: isSold ? publicUrl + CREDITS_PATH : null };
}

/** What answers an own route, and what a payment for it fills. */
export interface OwnSide {
  readonly engine: Engine;
  /** Undefined: nothing. */
  readonly fills?: PricedPlan["fills"];
}

/** @param publicUrl of the site that sells, without a trailing slash */
export function ownSide(own: OwnGoods, publicUrl: string): OwnSide {
  switch (own.kind) {
    case "credits":
      return {
        engine: new OwnEngine((bought) => creditsBought(bought, publicUrl)),
        fills: creditsFill,
      };
    case "pass":
      return { engine: new OwnEngine((bought) => passBought(own, bought, publicUrl)) };
  }
}

/**
 * What was asked for, and not what was signed: an authorization of more is the seller's, as everywhere. Throws where it
 * is not in the token that credits are counted in: then nothing is claimed.
 */
function creditsFill({ payer, hasKey, terms }: Filling): PotFill {
  const network = creditsNetwork(terms);
  return {
    pot: creditsPot(network, payer, hasKey ? undefined : network.name),
    amount: BigInt(terms.maxAmountRequired),
  };
}

/** The network in whose stablecoin something is asked for. */
function creditsNetwork({ network: name, asset }: PaymentRequirements): Network {
  const network = findNetwork(name);
  if (network === undefined || !sameAddress(asset, network.asset.address))
    throw new TypeError(`credits are not sold for ${asset} on ${name}`);
  return network;
}

/** From when on it counts is the payment's to say. */
function passBought(
  { name, routes, forMs, times }: PassGoods,
  { settlement }: OwnPurchase,
  publicUrl: string,
): object {
  const { payer, network, transaction } = settlement;
  return {
    pass: name,
    opens: routes,
    seconds: Math.floor(forMs / 1000),
    requests: times,
    payer,
    network,
    transaction,
    session: `${publicUrl}${SIGN_IN_PATH}`,
    header: SESSION_HEADER,
    use:
      "Sign in with the account that has paid (SIGN-IN-WITH-X), where a route of `opens` asks who you are, or once at `session`, " +
      `and send the session in the header ${SESSION_HEADER}: what \`opens\` names is then had without a payment.`,
  };
}

function creditsBought({ settlement, terms }: OwnPurchase, publicUrl: string): object {
  const { symbol, decimals } = creditsNetwork(terms).asset;
  const { payer, network, transaction } = settlement;
  const amount = terms.maxAmountRequired;
  return {
    bought: { token: symbol, amount, decimals, dollars: formatAmount(BigInt(amount), decimals) },
    payer,
    network,
    transaction,
    balance: `${publicUrl}${BALANCE_PATH}`,
    session: `${publicUrl}${SIGN_IN_PATH}`,
    header: SESSION_HEADER,
    use:
      "Sign in at `session` with the account that has paid (SIGN-IN-WITH-X), and send the session in the header " +
      `${SESSION_HEADER}: requests for routes that take credits are then paid from the balance, without a payment for each.`,
  };
}
