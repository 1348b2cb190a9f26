import { describe, expect, test } from "vitest";
import { MAX_WAYS, Shelf, type ShelfSale } from "../../../../src/app/hub/shelf.ts";
import { examplePayment } from "../../ledger/example-payment.ts";

const { paymentRequirements: requirements } = examplePayment(1).request;
const SALE: ShelfSale = {
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
  const shelf = new Shelf({ expiresMs: 500, maxResources }, () => clock.nowMs);
  return { shelf, clock };
}

function saleOf(name: string, soldMs: number, network = "base"): ShelfSale {
  return { ...SALE, resource: `https://weather.example.com/${name}`, soldMs, network };
}

const entriesOf = (shelf: Shelf) => shelf.since(0).put;

const revisionOf = (shelf: Shelf): number => shelf.since(0).revision;

const resourcesOn = (shelf: Shelf): readonly string[] =>
  entriesOf(shelf).map(({ resource, methods }) => `${methods?.join() ?? ""} ${resource.slice(-5)}`);

describe("what was sold", () => {
  test("is one entry for each method of a resource, with every way to pay in a fixed order", () => {
    const { shelf } = shelfAt();
    const dear = { ...requirements, maxAmountRequired: "2" };
    shelf.put({ ...SALE, network: "polygon", requirements: dear, changedAt: 300, soldMs: 900 });
    shelf.put(SALE);
    shelf.put({ ...SALE, method: "POST" });
    expect(resourcesOn(shelf)).toEqual(["GET today", "POST today"]);
    expect(entriesOf(shelf)[0]).toEqual({
      resource: SALE.resource,
      methods: ["GET"],
      accepts: [requirements, dear],
      metadata: {},
      isTemplate: false,
      pathParams: undefined,
      lastUpdated: 300,
    });
    expect([shelf.count("weather"), shelf.count("maps")]).toEqual([2, 0]);
  });

  test("is news where it is new or its terms are, and nothing changes where it is not", () => {
    const { shelf } = shelfAt();
    const news = (sale: Partial<ShelfSale>): boolean => {
      const before = revisionOf(shelf);
      const { isNews } = shelf.put({ ...SALE, ...sale });
      expect(revisionOf(shelf) !== before).toBe(isNews);
      return isNews;
    };
    expect(news({})).toBe(true);
    expect(news({ soldMs: 1_100, changedAt: 200 })).toBe(false);
    expect(news({ soldMs: 1_050, hash: "older" })).toBe(false);
    expect(news({ soldMs: 1_100, hash: "two", changedAt: 300 })).toBe(true);
    expect(entriesOf(shelf)[0]?.lastUpdated).toBe(300);
    // Somebody else noticed that it has been so for longer.
    expect(news({ soldMs: 1_200, hash: "two", changedAt: 250 })).toBe(true);
    expect(entriesOf(shelf)[0]?.lastUpdated).toBe(250);
  });

  test("expires, each way to pay by itself, at its moment and not before", () => {
    const { shelf, clock } = shelfAt();
    shelf.put(SALE);
    shelf.put({ ...SALE, network: "polygon", soldMs: 1_200 });
    const revision = revisionOf(shelf);
    clock.nowMs = 1_499;
    expect([revisionOf(shelf), entriesOf(shelf)[0]?.accepts.length]).toEqual([revision, 2]);
    clock.nowMs = 1_500;
    expect(revisionOf(shelf)).not.toBe(revision);
    expect(entriesOf(shelf)[0]?.accepts).toHaveLength(1);
    shelf.put({ ...SALE, network: "polygon", soldMs: 1_500 });
    clock.nowMs = 1_999;
    expect([entriesOf(shelf).length, shelf.count("weather")]).toEqual([1, 1]);
    clock.nowMs = 2_000;
    expect(revisionOf(shelf)).toBeGreaterThan(revision);
    expect([entriesOf(shelf), shelf.count("weather")]).toEqual([[], 0]);
    expect(shelf.put(SALE)).toMatchObject({ isNews: false, evicted: undefined });
    expect(entriesOf(shelf)).toEqual([]);
  });

  test("makes room where a gateway has as much as it may: the one that was sold longest ago", () => {
    const { shelf } = shelfAt();
    const sale = (name: string, soldMs: number): ShelfSale => {
      return { ...SALE, resource: `https://weather.example.com/${name}`, soldMs };
    };
    for (const [name, soldMs] of [
      ["one", 1_000],
      ["two", 1_001],
      ["six", 1_002],
    ] as const) {
      shelf.put(sale(name, soldMs));
    }
    shelf.put({ ...SALE, gateway: "maps" });
    shelf.put(sale("one", 1_003));
    expect(shelf.put(sale("ten", 1_004)).evicted).toEqual({
      gateway: "weather",
      resource: "https://weather.example.com/two",
      method: "GET",
    });
    // What is older than all of them does not come in.
    expect(shelf.put(sale("old", 900))).toMatchObject({ isNews: false, evicted: undefined });
    expect(
      entriesOf(shelf)
        .map(({ resource }) => resource.slice(-3))
        .toSorted(),
    ).toEqual(["day", "one", "six", "ten"]);
    expect(shelf.count("weather")).toBe(3);
  });

  test("is counted until it expires, though nobody asks for the listing", () => {
    const { shelf, clock } = shelfAt();
    shelf.put(SALE);
    expect(shelf.count("weather")).toBe(1);
    clock.nowMs = 1_500;
    expect(shelf.count("weather")).toBe(0);
  });

  test("makes room in the order of sales, whichever way was paid, and not of what was stored later", () => {
    const { shelf } = shelfAt(1_000, 2);
    shelf.put(saleOf("one", 1_000));
    shelf.put(saleOf("two", 1_001));
    shelf.put(saleOf("one", 1_002, "polygon"));
    // Read from the store again: no sale.
    shelf.put(saleOf("two", 1_001));
    expect(shelf.put(saleOf("six", 1_003)).evicted?.resource).toMatch(/two$/);
    expect(shelf.put(saleOf("ten", 1_004)).evicted?.resource).toMatch(/one$/);
  });

  test("has a limit of ways to pay for one resource", () => {
    const { shelf } = shelfAt();
    for (let number = 0; number <= MAX_WAYS; number += 1) {
      shelf.put({ ...SALE, asset: `0x${number}`, soldMs: 1_000 + number });
    }
    expect(entriesOf(shelf)[0]?.accepts).toHaveLength(MAX_WAYS);
  });
});
