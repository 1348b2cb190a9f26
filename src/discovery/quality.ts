/** What our own books say of how well a route was delivered, as the listing tells it. */

/** Members of the large catalogues have their names; what is known of too few sales is left out. */
export interface RouteQuality {
  /** Payments that were taken, from `since` on. */
  readonly sales: number;
  /** RFC 3339. */
  readonly since: string;
  readonly lastCalledAt: string;
  readonly lastDeliveredAt?: string;
  /** Of the sales that are no longer under way, 0 to 1. */
  readonly deliveredShare?: number;
  /** From the payment to the last byte of the answer, settlement included. */
  readonly medianDeliveryMs?: number;
  /** Only where `since` is those 30 days ago, or less than a day more recently. */
  readonly l30DaysTotalCalls?: number;
  readonly l30DaysUniquePayers?: number;
}

/** By the key of the route. */
export type ToldQualities = readonly (readonly [route: string, quality: RouteQuality])[];

export interface Qualities {
  /** Another number with each change. */
  readonly revision: number;
  of(route: string): RouteQuality | undefined;
}

/** As the process with the ledger has told them. */
export class QualityNews implements Qualities {
  #told: ReadonlyMap<string, RouteQuality> = new Map();
  #json = "[]";
  #revision = 0;

  get revision(): number {
    return this.#revision;
  }

  get told(): ToldQualities {
    return [...this.#told];
  }

  tell(told: ToldQualities): void {
    const json = JSON.stringify(told);
    if (json === this.#json) return;
    this.#json = json;
    this.#told = new Map(told);
    this.#revision += 1;
  }

  of(route: string): RouteQuality | undefined {
    return this.#told.get(route);
  }
}
