/**
 * A route whose price is computed, at the prices that it turns out to have. What is asked for is prepared once for each
 * price, and kept for the next request of that price, as far as there is room.
 */
import {
  type Attodollars,
  type ComputedPrice,
  type PricedRequest,
} from "../pricing/computed-price.ts";
import { ok, type Result } from "../x402/result.ts";

/** Prices for which all is kept ready, of all routes of a site. Another one is prepared anew. */
export const MAX_KEPT_PRICES = 256;

/** What is kept ready, by route and price; what was not asked for longest goes first. */
export class KeptPrices<Kept> {
  readonly #kept = new Map<string, Kept>();
  #routes = 0;

  /** Names a route. */
  next(): string {
    this.#routes += 1;
    return String(this.#routes);
  }

  get size(): number {
    return this.#kept.size;
  }

  take(name: string, make: () => Kept): Kept {
    const known = this.#kept.get(name);
    const kept = known ?? make();
    if (known !== undefined) this.#kept.delete(name);
    this.#kept.set(name, kept);
    if (this.#kept.size > MAX_KEPT_PRICES) {
      const [oldest] = this.#kept.keys();
      if (oldest !== undefined) this.#kept.delete(oldest);
    }
    return kept;
  }
}

/** @typeParam Plan what a price is prepared as */
export class AtPrices<Plan> {
  readonly #price: ComputedPrice;
  readonly #planAt: (price: Attodollars) => Plan;
  readonly #kept: KeptPrices<Plan>;
  readonly #name: string;

  constructor(
    price: ComputedPrice,
    planAt: (price: Attodollars) => Plan,
    kept: KeptPrices<Plan> = new KeptPrices(),
  ) {
    this.#price = price;
    this.#planAt = planAt;
    this.#kept = kept;
    this.#name = kept.next();
  }

  /** Whether the request's body is needed. */
  get readsBody(): boolean {
    return this.#price.readsBody;
  }

  /** The plan at the price of that request, or a sentence on why it has none. Throws nothing. */
  planFor(request: PricedRequest): Result<Plan, string> {
    const price = this.#price.priceOf(request);
    if (!price.ok) return price;
    return ok(this.#kept.take(`${this.#name} ${price.value}`, () => this.#planAt(price.value)));
  }
}

/** What a request costs, or cost a short while ago, as whoever sells it sees it. */
export type ComputedPlans<Plan> = Pick<AtPrices<Plan>, "readsBody" | "planFor">;
