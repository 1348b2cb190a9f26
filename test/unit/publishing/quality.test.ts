import { expect, test } from "vitest";
import { QualityNews, type RouteQuality } from "../../../src/discovery/quality.ts";
import type { SaleRecord, SalesPage } from "../../../src/ledger/books.ts";
import { startQuality } from "../../../src/publishing/quality.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";
import { ManualTime } from "../../support/manual-time.ts";
import { configOf } from "../app/config-of.ts";

const DAY_MS = 86_400_000;
/** Noon. */
const NOW = Date.UTC(2026, 5, 30, 12);
const FIRST = Date.UTC(2026, 5, 1);

const text = (more = "") => `
publicUrl: http://localhost:8402
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
upstream: http://localhost:3000
unmatched: deny
${more}
routes:
  GET /weather: $0.01
  GET,POST /reports/:id: $0.25
  GET /free: free
`;

type Sold = Pick<SaleRecord, "binding" | "claimedMs"> & Partial<SaleRecord>;

/** What buyers are told after one reading of these sales; `asked`: how the books were read. */
async function told(sold: readonly Sold[], keepMs: number | null = null, more = "") {
  const all = sold
    .map((each, index): SaleRecord => {
      const state = each.deliveredMs === undefined ? "SETTLED" : "DELIVERED";
      return { key: `${index}` as PaymentKey, payer: "0xA", state, deliveredMs: null, ...each };
    })
    .toSorted((left, right) => right.claimedMs - left.claimedMs);
  const asked: SalesPage[] = [];
  const sales = async (page: SalesPage): Promise<readonly SaleRecord[]> => {
    asked.push(page);
    const from = all.findIndex(({ key }) => key === page.after?.key) + 1;
    return all.filter(({ claimedMs }) => claimedMs >= page.sinceMs).slice(from, from + page.limit);
  };
  const time = new ManualTime(NOW);
  const news = new QualityNews();
  const config = configOf(text(more), {});
  const logger = createLogger({ level: "silent", format: "json" });
  const ground = { books: { sales }, config: () => config, keepMs, news, logger, time };
  const quality = startQuality(ground);
  await time.until(() => time.now() > NOW + 59_000 || news.revision > 0);
  await quality.stop();
  const routes: Readonly<Record<string, RouteQuality>> = Object.fromEntries(news.told);
  return { routes, weather: routes["GET /weather"], asked };
}

/** So many of the weather, a minute apart, each delivered after 100, 200, 300 … ms. */
function salesOf(count: number, from = NOW - DAY_MS): readonly Sold[] {
  return Array.from({ length: count }, (_, index) => {
    const claimedMs = from - index * 60_000;
    return { binding: "GET /weather", claimedMs, deliveredMs: claimedMs + (index + 1) * 100 };
  });
}

test("a route has its sales, the share that was delivered, the middle time and the last delivery", async () => {
  const failed = { binding: "GET /weather", claimedMs: NOW - 7_200_000, payer: "0xb" };
  const { weather: quality, routes } = await told([...salesOf(19), failed]);
  expect(quality).toEqual({
    sales: 20,
    since: "2026-06-01T00:00:00.000Z",
    lastCalledAt: "2026-06-30T10:00:00.000Z",
    lastDeliveredAt: "2026-06-29T12:00:00.100Z",
    deliveredShare: 0.95,
    medianDeliveryMs: 1000,
    l30DaysTotalCalls: 20,
    l30DaysUniquePayers: 2,
  });
  // The others have none, and no letter case makes one payer two.
  expect(Object.keys(routes)).toEqual(["GET /weather"]);
  const { weather: same } = await told([...salesOf(1), { ...failed, payer: "0xa" }]);
  expect(same).toMatchObject({ l30DaysUniquePayers: 1 });
});

test("of a few sales no share and no time is told", async () => {
  const { weather: few } = await told(salesOf(9));
  expect(few).toMatchObject({ sales: 9, lastDeliveredAt: expect.any(String) });
  expect(Object.keys(few ?? {})).not.toContain("deliveredShare");
  expect(Object.keys(few ?? {})).not.toContain("medianDeliveryMs");
  const { weather: enough } = await told(salesOf(10));
  expect(enough).toMatchObject({ deliveredShare: 1, medianDeliveryMs: 600 });
});

test("what may be under way is no failure, and one in a thousand is not rounded away", async () => {
  const binding = "GET /weather";
  const underWay: readonly Sold[] = [
    { binding, claimedMs: NOW - 59_000 },
    { binding, claimedMs: NOW - DAY_MS, state: "DELIVERING" },
  ];
  const { weather: fine } = await told([...salesOf(10), ...underWay]);
  expect(fine).toMatchObject({ sales: 12, deliveredShare: 1 });
  const failed = { binding, claimedMs: NOW - 61_000 };
  const { weather: one } = await told([...salesOf(2_000), failed]);
  expect(one).toMatchObject({ sales: 2_001, deliveredShare: 0.999 });
});

test("a route with parameters has the sales of all its paths and methods; what is not sold has none", async () => {
  const claimedMs = NOW - DAY_MS;
  const sold = await told([
    { binding: "GET /reports/1", claimedMs },
    { binding: "POST /reports/2", claimedMs },
    { binding: "GET /gone", claimedMs },
    { binding: "POST /weather", claimedMs },
  ]);
  expect(Object.keys(sold.routes)).toEqual(["GET,POST /reports/:id"]);
  expect(sold.routes["GET,POST /reports/:id"]).toMatchObject({ sales: 2 });
});

test("what is older, or was kept for a part of a day only, is not looked at", async () => {
  const sales = [...salesOf(1), ...salesOf(1, FIRST), ...salesOf(1, FIRST - 1)];
  expect((await told(sales)).weather).toMatchObject({ sales: 2 });
  const { weather: kept } = await told(sales, 7 * DAY_MS);
  expect(kept).toMatchObject({ sales: 1, since: "2026-06-24T00:00:00.000Z" });
  expect(Object.keys(kept ?? {})).not.toContain("l30DaysTotalCalls");
  expect((await told(sales, 90 * DAY_MS)).weather).toMatchObject({ l30DaysTotalCalls: 2 });
});

test("of more sales than are read the newest count, from the oldest of them on", async () => {
  const sold = await told(salesOf(10_100));
  const oldest = NOW - DAY_MS - 9_999 * 60_000;
  expect(sold.weather).toMatchObject({
    sales: 10_000,
    since: new Date(oldest).toISOString(),
  });
  expect(sold.weather).not.toHaveProperty("l30DaysTotalCalls");
  expect(sold.asked).toHaveLength(50);
});

test("nothing is read where buyers are not to know", async () => {
  const sold = await told(salesOf(20), null, "discovery: { quality: false }");
  expect(sold).toEqual({ routes: {}, weather: undefined, asked: [] });
});

test("the same path at another host has sales of its own", async () => {
  const claimedMs = NOW - DAY_MS;
  const hosts = `hosts:\n  shop.example:\n    routes: { GET /weather: $0.01 }\n`;
  const there = { binding: "GET shop.example/weather", claimedMs };
  const gone = { binding: "GET gone.example/weather", claimedMs };
  const { routes } = await told([...salesOf(1), there, there, gone], null, hosts);
  expect(Object.keys(routes).toSorted()).toEqual(["GET /weather", "shop.example GET /weather"]);
  expect(routes["shop.example GET /weather"]).toMatchObject({ sales: 2 });
  expect(routes["GET /weather"]).toMatchObject({ sales: 1 });
});
