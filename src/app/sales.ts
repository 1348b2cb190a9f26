/**
 * What is sold now, and what was asked for a short while ago: the part of a configuration that may change while
 * the process runs, and the listing that shows it.
 */
import type { Config } from "../config/config.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { atOnce, inTurns } from "../time/breath.ts";
import { systemTime } from "../time/time.ts";
import type { SaleGuard } from "../payments/sale/sale-guard.ts";
import type { StopSource } from "../payments/sale/stops.ts";
import type { FeePayers } from "../payments/sale/offers.ts";
import type { Qualities } from "../discovery/quality.ts";
import type { OtherEntries } from "../discovery/shared-entries.ts";
import {
  readTermsChanges,
  type PublicationsGround,
  type TermsChanges,
} from "../publishing/publishing.ts";
import { SitePublications, type SitesPublisher } from "../publishing/site-publications.ts";
import { saleRuleSteps, type TokenDecimals } from "./sale-rules.ts";
import { longestQuoteMs, type EarlierTerms } from "./request-snapshot.ts";

/** Configurations whose prices are remembered at most: the oldest is forgotten first. */
export const MAX_EARLIER = 64;

/** What of a configuration that was replaced is still of use. */
export interface EarlierConfig {
  readonly config: EarlierTerms;
  /** Milliseconds since the epoch. */
  readonly replacedMs: number;
}

/** The same, with all that is to be known of it until it counts no more. */
interface Replaced extends EarlierConfig {
  readonly untilMs: number;
  readonly decimals: TokenDecimals;
}

export interface SalesGround {
  readonly ledger: Pick<Ledger, "termsChangedAt">;
  readonly feePayers: FeePayers;
  /** What others sell that is listed here; default: nothing. */
  readonly others?: OtherEntries | undefined;
  readonly quality?: Qualities | undefined;
  /** Hears of each change. Default: all is sold to everybody. */
  readonly guard?: StopSource & Pick<SaleGuard, "configure">;
}

export class Sales {
  readonly #ground: SalesGround;
  #config: Config;
  #termsChanges: TermsChanges;
  #publications: SitePublications;
  #decimals: TokenDecimals;
  #earlier: readonly Replaced[] = [];

  private constructor(config: Config, termsChanges: TermsChanges, ground: SalesGround) {
    this.#ground = ground;
    this.#config = config;
    this.#termsChanges = termsChanges;
    this.#publications = atOnce(SitePublications.steps(config, this.#publishing(termsChanges)));
    this.#decimals = atOnce(saleRuleSteps(config)).decimals;
  }

  static async open(config: Config, ground: SalesGround): Promise<Sales> {
    return new Sales(config, await readTermsChanges(config, ground.ledger), ground);
  }

  get config(): Config {
    return this.#config;
  }

  /** When the terms of each route changed, for listings elsewhere. */
  get termsChanges(): TermsChanges {
    return this.#termsChanges;
  }

  /** The newest first; only those of which a price may still be paid. */
  get earlier(): readonly EarlierConfig[] {
    return this.#stillPayable().map(({ config, replacedMs }) => ({ config, replacedMs }));
  }

  /** The discovery listing of what is sold when it is asked. */
  readonly list: SitePublications["list"] = (...asked) => this.#publications.list(...asked);

  /** The documents about what is sold now, the listing among them: whoever has it goes on to give those. */
  get publish(): SitesPublisher {
    return this.#publications.publish;
  }

  /** Rejects where the ledger cannot note the new terms; what it resolves with puts them in force. */
  async prepare(config: Config): Promise<() => void> {
    const changes = await readTermsChanges(config, this.#ground.ledger);
    const publications = await inTurns(SitePublications.steps(config, this.#publishing(changes)));
    const known = [...this.#stillPayable().map((each) => each.decimals), this.#decimals];
    const { rules, decimals } = await inTurns(saleRuleSteps(config, ...known));
    return () => {
      const { routes, sites, publicUrl, unmatched, protocol, members } = this.#config;
      const terms = { routes, sites, publicUrl, unmatched, protocol, members };
      const replacedMs = systemTime.now();
      const untilMs = replacedMs + longestQuoteMs(routes);
      const replaced = { config: terms, replacedMs, untilMs, decimals: this.#decimals };
      this.#earlier = [replaced, ...this.#stillPayable()].slice(0, MAX_EARLIER);
      this.#decimals = decimals;
      this.#config = config;
      this.#termsChanges = changes;
      this.#publications = publications;
      this.#ground.guard?.configure(rules);
    };
  }

  /**
   * What was replaced last was asked for until now, by processes that went on with it: what it asked for counts from
   * here. Returns when it was replaced here, and now, milliseconds since the epoch; undefined: nothing was.
   */
  askedUntilNow(): readonly [replacedMs: number, untilMs: number] | undefined {
    const [last, ...others] = this.#earlier;
    if (last === undefined) return undefined;
    const nowMs = systemTime.now();
    const untilMs = last.untilMs + nowMs - last.replacedMs;
    this.#earlier = [{ ...last, replacedMs: nowMs, untilMs }, ...others];
    return [last.replacedMs, nowMs];
  }

  #stillPayable(): readonly Replaced[] {
    return this.#earlier.filter(({ untilMs }) => systemTime.now() < untilMs);
  }

  #publishing(changes: TermsChanges): PublicationsGround {
    const { guard: stopped, ...ground } = this.#ground;
    return { ...ground, stopped, changes };
  }
}
