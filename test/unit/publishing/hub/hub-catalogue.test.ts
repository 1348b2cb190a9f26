import { describe, expect, test } from "vitest";
import {
  MAX_WAYS,
  HubCatalogue,
  type CataloguedSale,
} from "../../../../src/publishing/hub/hub-catalogue.ts";
import { examplePayment } from "../../ledger/example-payment.ts";

const { paymentRequirements: requirements } = examplePayment(1).request;
const SALE: CataloguedSale = {
  gateway: "weather",
  resource: "https://weather.example.com/today",
  method: "GET",
  network: "base",
  asset: "0x0a",
  requirements,
  hash: "one",
  changedAt: 100,
  soldMs: 1_000,
};

function shelfAt(nowMs = 1_000, maxResources = 3) {
  const clock = { nowMs };
  const shelved = new HubCatalogue({ expiresMs: 500, maxResources }, () => clock.nowMs);
  return { shelved, clock };
}

function saleOf(name: string, soldMs: number, network = "base"): CataloguedSale {
  return { ...SALE, resource: `https://weather.example.com/${name}`, soldMs, network };
}

const entriesOf = (shelved: HubCatalogue) => shelved.since(0).put;

const revisionOf = (shelved: HubCatalogue): number => shelved.since(0).revision;

const resourcesOn = (shelved: HubCatalogue): readonly string[] =>
  entriesOf(shelved).map(
    ({ resource, methods }) => `${methods?.join() ?? ""} ${resource.slice(-5)}`,
  );

describe("what was sold", () => {
  test("is one entry for each method of a resource, with every way to pay in a fixed order", () => {
    const { shelved } = shelfAt();
    const dear = { ...requirements, maxAmountRequired: "2" };
    shelved.put({ ...SALE, network: "polygon", requirements: dear, changedAt: 300, soldMs: 900 });
    shelved.put(SALE);
    shelved.put({ ...SALE, method: "POST" });
    expect(resourcesOn(shelved)).toEqual(["GET today", "POST today"]);
    expect(entriesOf(shelved)[0]).toEqual({
      resource: SALE.resource,
      methods: ["GET"],
      accepts: [requirements, dear],
      metadata: {},
      isTemplate: false,
      pathParams: undefined,
      lastUpdated: 300,
    });
    expect([shelved.count("weather"), shelved.count("maps")]).toEqual([2, 0]);
  });

  test("is news where it is new or its terms are, and nothing changes where it is not", () => {
    const { shelved } = shelfAt();
    const news = (sale: Partial<CataloguedSale>): boolean => {
      const before = revisionOf(shelved);
      const { isNews } = shelved.put({ ...SALE, ...sale });
      expect(revisionOf(shelved) !== before).toBe(isNews);
      return isNews;
    };
    expect(news({})).toBe(true);
    expect(news({ soldMs: 1_100, changedAt: 200 })).toBe(false);
    expect(news({ soldMs: 1_050, hash: "older" })).toBe(false);
    expect(news({ soldMs: 1_100, hash: "two", changedAt: 300 })).toBe(true);
    expect(entriesOf(shelved)[0]?.lastUpdated).toBe(300);
    // Somebody else noticed that it has been so for longer.
    expect(news({ soldMs: 1_200, hash: "two", changedAt: 250 })).toBe(true);
    expect(entriesOf(shelved)[0]?.lastUpdated).toBe(250);
  });

  test("expires, each way to pay by itself, at its moment and not before", () => {
    const { shelved, clock } = shelfAt();
    shelved.put(SALE);
    shelved.put({ ...SALE, network: "polygon", soldMs: 1_200 });
    const revision = revisionOf(shelved);
    clock.nowMs = 1_499;
    expect([revisionOf(shelved), entriesOf(shelved)[0]?.accepts.length]).toEqual([revision, 2]);
    clock.nowMs = 1_500;
    expect(revisionOf(shelved)).not.toBe(revision);
    expect(entriesOf(shelved)[0]?.accepts).toHaveLength(1);
    shelved.put({ ...SALE, network: "polygon", soldMs: 1_500 });
    clock.nowMs = 1_999;
    expect([entriesOf(shelved).length, shelved.count("weather")]).toEqual([1, 1]);
    clock.nowMs = 2_000;
    expect(revisionOf(shelved)).toBeGreaterThan(revision);
    expect([entriesOf(shelved), shelved.count("weather")]).toEqual([[], 0]);
    expect(shelved.put(SALE)).toMatchObject({ isNews: false, evicted: undefined });
    expect(entriesOf(shelved)).toEqual([]);
  });

  test("makes room where a gateway has as much as it may: the one that was sold longest ago", () => {
    const { shelved } = shelfAt();
    const sale = (name: string, soldMs: number): CataloguedSale => {
      return { ...SALE, resource: `https://weather.example.com/${name}`, soldMs };
    };
    for (const [name, soldMs] of [
      ["one", 1_000],
      ["two", 1_001],
      ["six", 1_002],
    ] as const) {
      shelved.put(sale(name, soldMs));
    }
    shelved.put({ ...SALE, gateway: "maps" });
    shelved.put(sale("one", 1_003));
    expect(shelved.put(sale("ten", 1_004)).evicted).toEqual({
      gateway: "weather",
      resource: "https://weather.example.com/two",
      method: "GET",
    });
    // What is older than all of them does not come in.
    expect(shelved.put(sale("old", 900))).toMatchObject({ isNews: false, evicted: undefined });
    expect(
      entriesOf(shelved)
        .map(({ resource }) => resource.slice(-3))
        .toSorted(),
    ).toEqual(["day", "one", "six", "ten"]);
    expect(shelved.count("weather")).toBe(3);
  });

  test("is counted until it expires, though nobody asks for the listing", () => {
    const { shelved, clock } = shelfAt();
    shelved.put(SALE);
    expect(shelved.count("weather")).toBe(1);
    clock.nowMs = 1_500;
    expect(shelved.count("weather")).toBe(0);
  });

  test("makes room in the order of sales, whichever way was paid, and not of what was stored later", () => {
    const { shelved } = shelfAt(1_000, 2);
    shelved.put(saleOf("one", 1_000));
    shelved.put(saleOf("two", 1_001));
    shelved.put(saleOf("one", 1_002, "polygon"));
    // Read from the store again: no sale.
    shelved.put(saleOf("two", 1_001));
    expect(shelved.put(saleOf("six", 1_003)).evicted?.resource).toMatch(/two$/);
    expect(shelved.put(saleOf("ten", 1_004)).evicted?.resource).toMatch(/one$/);
  });

  test("has a limit of ways to pay for one resource", () => {
    const { shelved } = shelfAt();
    for (let number = 0; number <= MAX_WAYS; number += 1) {
      shelved.put({ ...SALE, asset: `0x${number}`, soldMs: 1_000 + number });
    }
    expect(entriesOf(shelved)[0]?.accepts).toHaveLength(MAX_WAYS);
  });
});
