/** What other gateways sold through us. */
import { describe, expect, it } from "vitest";
import type { SoldOffer } from "../../../src/ledger/sold-offers.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";

const SALE: SoldOffer = {
  gateway: "weather",
  resource: "https://weather.example.com/today",
  method: "GET",
  network: "base",
  asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
  terms: '{"maxAmountRequired":"10000"}',
  hash: "one",
  changedAt: 100,
  soldMs: 100_000,
};
const EVERYTHING = 100;

export function describeSoldOffers(open: OpenLedger): void {
  const place = eachTestIn(open);

  describe("remembers what other gateways sold", () => {
    it("each way to pay once, the newest sale first", async () => {
      const { sold } = place().ledger;
      const others = [
        { ...SALE, gateway: "maps", soldMs: 101_000 },
        { ...SALE, resource: "https://weather.example.com/tomorrow", soldMs: 102_000 },
        { ...SALE, method: "POST", soldMs: 103_000 },
        { ...SALE, network: "polygon", soldMs: 104_000 },
        { ...SALE, asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e", soldMs: 105_000 },
      ];
      for (const each of [SALE, ...others, SALE]) await sold.note(each);
      expect(await sold.since(0, EVERYTHING)).toEqual([...others.toReversed(), SALE]);
      expect(await sold.since(0, 2)).toEqual(others.slice(3).toReversed());
      expect(await sold.since(105_000, EVERYTHING)).toEqual(others.slice(4));
      expect(await sold.since(105_001, EVERYTHING)).toEqual([]);
    });

    it("with the time of the last change of the terms, not of the last sale", async () => {
      const { sold } = place().ledger;
      await sold.note(SALE);
      await sold.note({ ...SALE, changedAt: 200, soldMs: 200_000 });
      expect(await sold.since(0, EVERYTHING)).toEqual([{ ...SALE, soldMs: 200_000 }]);
      const dearer = { ...SALE, hash: "two", terms: "{}", changedAt: 300, soldMs: 300_000 };
      await sold.note(dearer);
      expect(await sold.since(0, EVERYTHING)).toEqual([dearer]);
      // A word that was long on its way.
      await sold.note({ ...SALE, hash: "older", changedAt: 250, soldMs: 250_000 });
      expect(await sold.since(0, EVERYTHING)).toEqual([dearer]);
    });

    it("across restarts", async () => {
      await place().ledger.sold.note(SALE);
      const next = await place().restart("second");
      expect(await next.sold.since(0, EVERYTHING)).toEqual([SALE]);
    });

    it("until it is told to forget a resource, or everything of before a time", async () => {
      const { sold } = place().ledger;
      const offers = [
        SALE,
        { ...SALE, network: "polygon" },
        { ...SALE, method: "POST" },
        { ...SALE, gateway: "maps", soldMs: 200_000 },
      ];
      for (const each of offers) await sold.note(each);
      await sold.forget(SALE);
      await sold.forget({ ...SALE, resource: "https://weather.example.com/never" });
      expect(await sold.since(0, EVERYTHING)).toEqual([offers[3], offers[2]]);
      expect(await sold.forgetBefore(200_000)).toBe(1);
      expect(await sold.forgetBefore(200_000)).toBe(0);
      expect(await sold.since(0, EVERYTHING)).toEqual([offers[3]]);
    });

    it("whatever texts there are in it", async () => {
      const { sold } = place().ledger;
      const resource = `https://weather.example.com/${'ü%27"'.repeat(4_000)}`;
      const odd = {
        ...SALE,
        resource,
        gateway: "'; --",
        terms: '{"description":"\\u0000\\ud800"}',
      };
      await sold.note(odd);
      await sold.note(odd);
      expect(await sold.since(0, EVERYTHING)).toEqual([odd]);
      await sold.forget(odd);
      expect(await sold.since(0, EVERYTHING)).toEqual([]);
    });
  });
}
