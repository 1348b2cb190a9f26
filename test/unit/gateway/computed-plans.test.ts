import { describe, expect, it } from "vitest";
import { AtPrices, KeptPrices, MAX_KEPT_PRICES } from "../../../src/gateway/computed-plans.ts";
import { ComputedPrice } from "../../../src/pricing/computed-price.ts";

function prices(kept = new KeptPrices<{ price: bigint }>()) {
  const terms = { by: "int(query.n)", from: "$0.000001", to: "$1" };
  const price = ComputedPrice.of(terms, { methods: null, segments: [], decimals: 6 });
  if (!price.ok) throw new Error(price.error.message);
  const made: bigint[] = [];
  const plans = new AtPrices(
    price.value,
    (each) => {
      made.push(each / 10n ** 12n);
      return { price: each };
    },
    kept,
  );
  const ask = (n: number | string) => {
    return plans.planFor({ method: "GET", target: `/a?n=${n}`, rawHeaders: [] });
  };
  return { ask, made, kept };
}

describe("what is prepared for a price", () => {
  it("is prepared once for all requests of it", () => {
    const { ask, made } = prices();
    const [first, again, other] = [ask(7), ask(7), ask(8)];
    expect(first.ok && again.ok && first.value === again.value).toBe(true);
    expect(other.ok && first.ok && other.value === first.value).toBe(false);
    expect(made).toEqual([7n, 8n]);
  });

  it("goes for other prices, what was asked for longest ago first, and takes no more room", () => {
    const { ask, made, kept } = prices();
    for (let n = 1; n <= MAX_KEPT_PRICES; n += 1) ask(n);
    ask(1);
    ask(MAX_KEPT_PRICES + 1);
    expect(kept.size).toBe(MAX_KEPT_PRICES);
    made.length = 0;
    ask(1);
    ask(2);
    expect(made).toEqual([2n]);
    for (let n = 1; n <= 3 * MAX_KEPT_PRICES; n += 1) ask(n);
    expect(kept.size).toBe(MAX_KEPT_PRICES);
  });

  it("is not that of another route", () => {
    const kept = new KeptPrices<{ price: bigint }>();
    const [one, other] = [prices(kept), prices(kept)];
    const [first, second] = [one.ask(5), other.ask(5)];
    expect(first.ok && second.ok && first.value === second.value).toBe(false);
  });

  it("is nothing where a request has no price", () => {
    const { ask, made } = prices();
    expect(ask("many").ok).toBe(false);
    expect(made).toEqual([]);
  });
});
