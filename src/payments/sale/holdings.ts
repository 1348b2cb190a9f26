/**
 * Who holds a token, asked of its chain: only of accounts that are proven, or anybody could have it asked of anybody; one
 * question about one account at a time, whoever wants to know. What was answered is remembered by whoever asked.
 */
import type { Observer, TextSigners } from "../../mechanism/mechanism.ts";
import type { HolderMeter } from "../../telemetry/holder-meter.ts";
import type { Logger } from "../../telemetry/logger.ts";
import type { Time } from "../../time/time.ts";
import { holdingKey, type HolderTerms, type Holding } from "../../x402/holding.ts";
import { isAccountOn, type BuyerSession, type ProvenAccount } from "../../x402/session.ts";
import type { SignIn } from "../../x402/sign-in.ts";
import type { FacilitatorRequest } from "../../x402/x402.ts";
import type { SaleGuard } from "./sale-guard.ts";

/** Longest that an answer is waited for, milliseconds: a buyer waits for it. */
export const HOLDING_MS = 3_000;

/** By what somebody shows whose account it is: a sign-in, a session of ours, or a payment. */
export type ShownHolder = SignIn | BuyerSession | FacilitatorRequest;

interface HoldingsGround {
  /** By network. */
  readonly observers: ReadonlyMap<string, Pick<Observer, "holding">>;
  readonly signers: Pick<TextSigners, "hasKeySigned">;
  readonly guard: Pick<SaleGuard, "barOfAccount">;
  readonly meter: HolderMeter;
  readonly logger: Logger;
  readonly time: Time;
}

export class Holdings {
  readonly #ground: HoldingsGround;
  /** What is being asked: no more than the lanes of the chains let in. */
  readonly #asking = new Map<string, Promise<Holding>>();

  constructor(ground: HoldingsGround) {
    this.#ground = ground;
  }

  /**
   * The account that has signed in by a key, or has a session. Null: it is not proven, or nothing is sold to it. The code of a
   * wallet is not asked whether it has signed in: it would be run for whoever has bought nothing.
   */
  accountOf(shown: SignIn | BuyerSession): ProvenAccount | null {
    const { address, network } = shown;
    const { signers, guard } = this.#ground;
    const hasKey = "kind" in shown ? shown.hasKey : signers.hasKeySigned(network, shown);
    if (!hasKey && !("kind" in shown)) return null;
    return guard.barOfAccount(network, address) === undefined ? { address, network, hasKey } : null;
  }

  /** @param claimant who asks: of what may be asked at a time each has a share */
  of(
    account: ProvenAccount,
    terms: readonly HolderTerms[],
    claimant: string,
  ): Promise<readonly Holding[]> {
    return Promise.all(terms.map((each) => this.#ofOne(account, each, claimant)));
  }

  #ofOne(account: ProvenAccount, terms: HolderTerms, claimant: string): Promise<Holding> {
    if (!isAccountOn(terms.network, account)) return Promise.resolve(false);
    const key = holdingKey(terms, account.address);
    const asked = this.#asking.get(key);
    if (asked !== undefined) return asked;
    const asking = this.#ask(account, terms, claimant).finally(() => this.#asking.delete(key));
    this.#asking.set(key, asking);
    return asking;
  }

  async #ask(
    { address: owner }: ProvenAccount,
    { network, token, least }: HolderTerms,
    claimant: string,
  ): Promise<Holding> {
    const { observers, meter, logger, time } = this.#ground;
    try {
      const signal = time.timeout(HOLDING_MS);
      const held = await observers.get(network)?.holding?.({ token, owner }, signal, claimant);
      if (held === undefined) throw new Error("no endpoint of that chain is known");
      meter.asked(network, held >= least ? "held" : "lacking");
      return held >= least;
    } catch (cause) {
      meter.asked(network, "unknown");
      logger.warn({ err: cause, network, token }, "it could not be asked who holds a token");
      return null;
    }
  }
}
