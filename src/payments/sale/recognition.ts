/**
 * Who has signed in, or shows a session, and what he has here for that: what he has bought, what a purchase grants him,
 * and what he is told to be a member of.
 */
import {
  spendablePots,
  usesPot,
  type ClaimTerms,
  type Pots,
  type Redemptions,
} from "../../ledger/ledger.ts";
import type { PaidSale } from "../../ledger/sign-ins.ts";
import type { TextSigners } from "../../mechanism/mechanism.ts";
import type { Logger } from "../../telemetry/logger.ts";
import type { Time } from "../../time/time.ts";
import { checksumAddress } from "../../x402/address.ts";
import { networkOf } from "../../x402/network.ts";
import { payerOf } from "../../x402/payment-key.ts";
import { err, ok, type Refusal, type Result } from "../../x402/result.ts";
import { isAccountOn, type ProvenAccount, type BuyerSession } from "../../x402/session.ts";
import type { SignIn } from "../../x402/sign-in.ts";
import type { FacilitatorRequest } from "../../x402/x402.ts";
import type { Payment } from "../facilitator.ts";
import { refusedSignIn, type Declined, type Granted, type GoodsRequest } from "./admission.ts";
import { isOfOtherPrice } from "./cheaper-shop.ts";
import type { SaleGuard } from "./sale-guard.ts";

/** Whoever has too many sign-ins that still count waits for so long, seconds. */
const CROWDED_SECONDS = 60;

/** Counted purchases of which one request may take its use. */
const MAX_COUNTED = 8;

const NOTHING_BOUGHT = refusedSignIn(
  "no_purchase",
  "this account has bought nothing here that is still to be had",
);
const NO_SESSION = refusedSignIn(
  "no_purchase",
  "this account is no member, has prepaid nothing, and has paid for nothing here that is still known; pay first, then sign in",
);
const USED_SIGN_IN = refusedSignIn("nonce", "it was used before; ask for another challenge");
const UNSIGNED = refusedSignIn(
  "signature",
  "its signature is not that of an account which has bought this here",
);
const UNASKED = {
  kind: "unavailable",
  refusal: {
    code: "unexpected_verify_error",
    detail: "the wallet could not be asked whether it has signed in; sign in again a little later",
  },
} as const satisfies Declined;

/** Whoever has signed in has sent no payment that he could send again. */
export const NOT_RECOGNIZED = {
  kind: "unavailable",
  refusal: {
    code: "unexpected_settle_error",
    detail:
      "what this account has here could not be looked up, and nothing was charged; ask again a little later",
  },
} as const satisfies Declined;

/** What a route is to an account: it costs it what it costs anybody, something else, or nothing. */
export type Membership = "none" | "priced" | "free";

/** By how an account proves that it is whoever asks: see {@link ProvenAccount.hasKey}. */
export interface Memberships {
  readonly key: Membership;
  readonly code: Membership;
}

/** Of whom nothing is known but what he has bought. */
export const NO_MEMBERSHIP = {
  memberships: { key: "none", code: "none" },
  grants: [],
  hasQuota: false,
} as const;

/** For how long, and how often, who has paid for a route has what is asked for: one for each route. */
export interface Grant {
  /** Key of the route that has sold it. */
  readonly route: string;
  readonly forMs: number;
  /** Requests for one purchase; null: as many as he likes. */
  readonly times: number | null;
}

/** Who says who he is, and what he asks for with that. */
export interface SigningIn extends Pick<ClaimTerms, "binding" | "target"> {
  readonly signIn: SignIn | BuyerSession;
  readonly memberships: Memberships;
  readonly grants: readonly Grant[];
  /** Who has signed in has some of what is asked for in any case, by a key of his. */
  readonly hasQuota: boolean;
  /** See `GoodsRequest.exactly`. */
  readonly exactly?: GoodsRequest["exactly"];
}

/** Who has signed in, and what he gets for it. */
export interface Recognized {
  readonly account: ProvenAccount;
  readonly membership: Membership;
  /** Purchases by which he has what is asked for, without being a member: one is enough, in this order; none: nothing. */
  readonly granted: readonly Granted[];
  /** What he has bought by such a request that may be had, in the order in which it is to be tried. */
  readonly bought: readonly Payment[];
}

/** As whom somebody would be known here, and who asks. */
interface Asking {
  readonly memberships: Memberships;
  readonly claimant: string;
  readonly signal: AbortSignal;
}

interface RecognitionGround {
  readonly redemptions: Pick<Redemptions, "signIns"> & {
    readonly pots: Pick<Pots, "balances">;
  };
  /** Default: nobody has signed anything. */
  readonly signers?: TextSigners | undefined;
  /** Default: all is sold to everybody. */
  readonly guard?: Pick<SaleGuard, "barOfAccount"> | undefined;
  readonly logger: Logger;
  readonly time: Time;
}

export class Recognition {
  readonly #ground: RecognitionGround;
  readonly #read: (request: FacilitatorRequest) => Result<Payment, Refusal>;

  /** @param read makes a payment of what the ledger has kept */
  constructor(
    ground: RecognitionGround,
    read: (request: FacilitatorRequest) => Result<Payment, Refusal>,
  ) {
    this.#ground = ground;
    this.#read = read;
  }

  async signedIn(
    { signIn, memberships, grants, hasQuota, ...sale }: SigningIn,
    claimant: string,
    signal: AbortSignal,
  ): Promise<Result<Recognized, Declined>> {
    const asking = { memberships, claimant, signal };
    const found = await this.#recognize(signIn, asking, async (account, membership) => {
      const isFree = membership === "free";
      const granted = isFree || grants.length === 0 ? [] : await this.#granted(account, grants);
      const hasAll = isFree || granted.length > 0;
      const bought = hasAll ? [] : await this.#boughtBy(account, sale);
      const isKnown = membership !== "none" || granted.length > 0 || bought.length > 0;
      return { account, membership, granted, bought, isKnown };
    });
    if (!found.ok) return found;
    const { account, membership, granted, bought } = found.value;
    if (membership === "free" || granted.length > 0 || bought.length > 0)
      return this.#use(signIn, found);
    // Not remembered: accounts that cost nothing would fill the room of those who have paid. Shown again while it counts, it
    // takes of the same quota.
    if (hasQuota && account.hasKey) return found;
    // What it costs may be asked for again with a sign-in, and with a session whatever comes of it.
    return membership === "priced" || "kind" in signIn ? found : err(NOTHING_BOUGHT);
  }

  async openSession(
    signIn: SignIn,
    memberships: Memberships,
    claimant: string,
    signal: AbortSignal,
  ): Promise<Result<ProvenAccount, Declined>> {
    const asking = { memberships, claimant, signal };
    const found = await this.#recognize(signIn, asking, async (account, membership) => {
      const isKnown =
        membership !== "none" ||
        (await this.#hasPaid(account)) ||
        (await this.#hasCredits(account));
      return { account, isKnown };
    });
    if (!found.ok) return found;
    const { account, isKnown } = found.value;
    if (!isKnown) return err(NO_SESSION);
    return this.#use(signIn, ok(account));
  }

  async #hasPaid(account: ProvenAccount): Promise<boolean> {
    const purchases = await this.#ground.redemptions.signIns.purchases(account.address, null);
    return purchases.some(({ network }) => isAccountOn(network, account));
  }

  /** What he has prepaid is his longer than his purchases are known. */
  async #hasCredits(account: ProvenAccount): Promise<boolean> {
    const pots = [...spendablePots(account).keys()];
    const balances = await this.#ground.redemptions.pots.balances(pots);
    return [...balances.values()].some(({ free, leased }) => free + leased > 0n);
  }

  /**
   * Proves who has signed in, and looks up what hangs on that.
   * @param look what an account has here, and whether that is anything
   */
  async #recognize<Had extends { readonly isKnown: boolean }>(
    signIn: SignIn | BuyerSession,
    { memberships, claimant, signal }: Asking,
    look: (account: ProvenAccount, membership: Membership) => Promise<Had>,
  ): Promise<Result<Had, Declined>> {
    const { address: told, network } = signIn;
    const isSession = "kind" in signIn;
    const hasKey = isSession
      ? signIn.hasKey
      : (this.#ground.signers?.hasKeySigned(network, signIn) ?? false);
    const isProven = isSession || hasKey;
    // Asked, and counted, as soon as it is proven who signs in, and not of whom somebody names.
    const barOf = () => this.#ground.guard?.barOfAccount(network, told);
    const bar = isProven ? barOf() : undefined;
    if (bar !== undefined) return err(bar);
    const address = networkOf(network).kind === "evm" ? checksumAddress(told) : told;
    const membership = hasKey ? memberships.key : memberships.code;
    const had = await look({ address, network, hasKey }, membership);
    if (isProven) return ok(had);
    // Code is asked only where something hangs on it: else anybody could have any code run, for nothing.
    if (!had.isKnown) return err(UNSIGNED);
    const isSigned = await this.#askCode(signIn, claimant, signal);
    if (isSigned === undefined) return err(UNASKED);
    const barred = isSigned ? barOf() : undefined;
    if (barred !== undefined) return err(barred);
    return isSigned ? ok(had) : err(UNSIGNED);
  }

  /** Each sign-in is used once; a session for as long as it lasts. */
  async #use<Had>(
    signIn: SignIn | BuyerSession,
    had: Result<Had, Declined>,
  ): Promise<Result<Had, Declined>> {
    if ("kind" in signIn) return had;
    const { nonce, address: payer, untilMs } = signIn;
    const verdict = await this.#ground.redemptions.signIns.use({ nonce, payer, untilMs });
    if (verdict === "crowded") return err({ kind: "limited", seconds: CROWDED_SECONDS });
    return verdict === "again" ? err(USED_SIGN_IN) : had;
  }

  /**
   * By what he has paid for one of those routes and that is not over: one that is not counted, or else those that have
   * some of their uses left, the oldest first.
   */
  async #granted(account: ProvenAccount, grants: readonly Grant[]): Promise<readonly Granted[]> {
    const { redemptions, time } = this.#ground;
    const routes = grants.map(({ route }) => route);
    const purchases = await redemptions.signIns.purchases(account.address, routes);
    const nowMs = time.now();
    const known = purchases
      .filter(({ network }) => isAccountOn(network, account))
      .flatMap((purchase) => grantedBy(purchase, grants))
      .filter(({ untilMs }) => nowMs < untilMs);
    const whole = known.find(({ times }) => times === null);
    if (whole !== undefined) return [whole];
    if (known.length === 0) return [];
    const counted = known.toReversed();
    const pots = await redemptions.pots.balances(counted.map(({ key }) => usesPot(key)));
    const hasLeft = ({ key }: Granted): boolean => {
      const pot = pots.get(usesPot(key));
      // None: it was not used yet.
      return pot === undefined || pot.free + pot.leased > 0n;
    };
    return counted.filter(hasLeft).slice(0, MAX_COUNTED);
  }

  /** One key is the same account on all chains of a kind; code is so on its own chain alone. */
  async #boughtBy(
    account: ProvenAccount,
    { exactly, ...sale }: Pick<SigningIn, "binding" | "target" | "exactly">,
  ): Promise<readonly Payment[]> {
    const { address } = account;
    const all = await this.#ground.redemptions.signIns.bought(address, sale);
    return all.flatMap(({ request }) => {
      const { paymentPayload } = request;
      const isTheirs =
        isAccountOn(paymentPayload.network, account) && payerOf(paymentPayload) === address;
      const read = this.#read(request);
      if (isOfOtherPrice(request, { exactly })) return [];
      return isTheirs && read.ok ? [read.value] : [];
    });
  }

  /** Undefined: the chain does not answer. */
  async #askCode(
    signIn: SignIn,
    claimant: string,
    signal: AbortSignal,
  ): Promise<boolean | undefined> {
    const { network } = signIn;
    try {
      return await this.#ground.signers?.hasCodeSigned(network, signIn, signal, claimant);
    } catch (cause) {
      this.#ground.logger.warn(
        { err: cause, network },
        "a wallet's code could not be asked who signs in",
      );
      return undefined;
    }
  }
}

function grantedBy({ key, route, createdMs }: PaidSale, grants: readonly Grant[]): Granted[] {
  const own = grants.find((each) => each.route === route);
  return own === undefined ? [] : [{ key, untilMs: createdMs + own.forMs, times: own.times }];
}
