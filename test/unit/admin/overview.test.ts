import { expect, test, vi } from "vitest";
import { Overview } from "../../../src/admin/overview.ts";
import { lastDays, moneyOf } from "../../../src/admin/overview-money.ts";
import { Tokens } from "../../../src/admin/payment-view.ts";
import type { Entry } from "../../../src/ledger/accounts.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { ManualTime } from "../../support/manual-time.ts";
import { configOf } from "../app/config-of.ts";

const config = configOf(`
publicUrl: http://localhost:8402
upstream: http://localhost:3000
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
unmatched: deny
routes: { GET /weather: $0.01 }
`);
const tokens = new Tokens(config);
const NOW_MS = Date.parse("2026-08-30T12:00:00Z");
const DAYS = ["2026-08-28", "2026-08-29", "2026-08-30"];
const USDC = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";

function entry(more: Partial<Entry>): Entry {
  return {
    day: "2026-08-30",
    kind: "sale",
    route: "GET /weather",
    network: "base-sepolia",
    asset: USDC,
    account: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
    count: 1,
    amount: 10_000n,
    attodollars: null,
    ...more,
  };
}

test("money is summed up by day, route and network; what was not earned is told apart", () => {
  const unknown = "0x00000000000000000000000000000000000000aa";
  const money = moneyOf(
    [
      entry({ count: 3, amount: 30_000n }),
      entry({ day: "2026-08-29", count: 6, amount: 60_000n }),
      entry({ route: "GET /<b>", amount: 1n }),
      entry({ kind: "refund", amount: 10_000n }),
      entry({ kind: "others", amount: 7_000_000n }),
      entry({ kind: "held", amount: 7_000_000n }),
      entry({ kind: "gas", asset: "native", count: 0, amount: 10n ** 15n }),
      entry({ asset: unknown, amount: 5n }),
    ],
    DAYS,
    tokens,
    NOW_MS,
  );
  expect(money.units).toEqual([
    {
      symbol: "USDC",
      today: "0.030001",
      all: "0.090001",
      refunded: "0.01",
      sales: 10,
      days: [
        { day: "2026-08-28", amount: "0", share: 0 },
        { day: "2026-08-29", amount: "0.06", share: 1 },
        { day: "2026-08-30", amount: "0.030001", share: 0.5 },
      ],
    },
    expect.objectContaining({ symbol: unknown, all: "5", sales: 1 }),
  ]);
  expect(money.routes).toEqual({
    shown: [
      {
        name: "GET /weather",
        sales: 10,
        today: `0.03 USDC, 5 ${unknown}`,
        all: `0.09 USDC, 5 ${unknown}`,
        gas: "",
      },
      { name: "GET /<b>", sales: 1, today: "0.000001 USDC", all: "0.000001 USDC", gas: "" },
    ],
    more: 0,
  });
  expect(money.networks).toMatchObject([{ name: "base-sepolia", sales: 11, gas: "0.001 ETH" }]);
});

test("thirty days are shown, today among them", () => {
  const days = lastDays(NOW_MS);
  expect([days.length, days[0], days.at(-1)]).toEqual([30, "2026-08-01", "2026-08-30"]);
});

function overviewOf(accounts: () => Promise<readonly Entry[]>, metrics = new Metrics("test")) {
  const time = new ManualTime();
  const counts = {
    unresolved: 0,
    held: 1,
    undelivered: 2,
    offered: 0,
    refunding: 0,
    unrefunded: 1,
  };
  const overview = new Overview({
    metrics: () => metrics.registry.snapshot(),
    readiness: async () => ({ isReady: false, said: ["nothing can be served"] }),
    counts: async () => counts,
    money: async (nowMs) => moneyOf(await accounts(), DAYS, tokens, nowMs),
    file: "/etc/it's here/gateway.yaml",
    time,
  });
  return { overview, time, metrics };
}

test("what needs the operator is told with a command; of requests what became of them; no text is markup", async () => {
  const { overview, metrics } = overviewOf(async () => [entry({ route: "GET /<b>" })]);
  metrics.configuration.loaded(false, NOW_MS, []);
  metrics.networks.observeClosed(async () => new Map([["base", "rpc"]]) as never);
  const wallet = { address: "0xabc", balanceAtomic: 1_000n, decimals: 18, settlementAtomic: 100n };
  metrics.wallets.feePayer("base", wallet);
  const route = metrics.route("GET /<b>");
  for (let count = 0; count < 100; count += 1) route.finished(402, "challenged", 0.001, 0);
  for (let count = 0; count < 20; count += 1) route.finished(200, "paid", 2, 0.02);
  route.finished(502, "undelivered", 2, 1.5);
  const page = await overview.page();
  for (const told of [
    "--held",
    "2 payments were settled",
    "coinslot payments &#39;/etc/it&#39;\\&#39;&#39;s here/gateway.yaml&#39; --undelivered",
    "A refund has failed",
    "gateway.yaml&#39; --unrefunded",
    "base is closed: rpc",
    "The account 0xabc pays for 10 more settlements on base: send it ETH",
    "The configuration was refused when it was last read, and an older one is in use, or it is in force only in part",
    "Not ready",
    "<span>asked to pay</span><b>100</b>",
    "<span>payment shown</span><b>21</b>",
    "<span>paid</span><b>21</b>",
    "<span>delivered</span><b>20</b>",
    '<td>GET /&lt;b&gt;</td><td class="n">21</td><td class="n">18 ms</td><td class="n">25 ms</td>',
  ]) {
    expect(page).toContain(told);
  }
  expect(page).not.toContain("<b>&");
  expect(Buffer.byteLength(page)).toBeLessThan(15_000);
});

test("the books are read once a minute at most, seldomer where that takes long, and a fault is told", async () => {
  let readings = 0;
  let isBroken = false;
  const { overview, time } = overviewOf(async () => {
    readings += 1;
    if (isBroken) throw new Error("the ledger is <gone>");
    return [];
  });
  expect(await overview.page()).toContain("Nothing was sold");
  await overview.page();
  expect(readings).toBe(1);
  isBroken = true;
  await time.advance(60_001);
  await overview.page();
  expect(readings).toBe(2);
  expect(await overview.page()).toContain("cannot be read: the ledger is &lt;gone&gt;");
});

test("all who look at once see one page, and one that took long to make is shown again for a while", async () => {
  const { overview, time, metrics } = overviewOf(async () => []);
  const snapshot = metrics.registry.snapshot.bind(metrics.registry);
  let readings = 0;
  let tookMs = 0;
  metrics.registry.snapshot = async () => {
    readings += 1;
    await time.advance(tookMs);
    return snapshot();
  };
  await Promise.all([overview.page(), overview.page(), overview.page()]);
  expect(readings).toBe(1);
  tookMs = 100;
  await overview.page();
  await time.advance(1_999);
  await overview.page();
  expect(readings).toBe(2);
  tookMs = 3_000;
  await time.advance(1);
  await overview.page();
  await time.advance(4_999);
  await overview.page();
  expect(readings).toBe(3);
  await time.advance(1);
  await overview.page();
  expect(readings).toBe(4);
});

test("a clock that is set while they are read keeps neither the books nor the page from being read again", async () => {
  let sleptMs = 8 * 3_600_000;
  let readings = 0;
  const { overview, time, metrics } = overviewOf(async () => {
    await time.advance(sleptMs);
    readings += 1;
    return [];
  });
  const shown = vi.spyOn(metrics.registry, "snapshot");
  await overview.page();
  await vi.waitFor(() => expect(readings).toBe(1));
  sleptMs = 0;
  await time.advance(3_600_000);
  await overview.page();
  await vi.waitFor(() => expect([readings, shown.mock.calls.length]).toEqual([2, 2]));
  await time.advance(-86_400_000);
  await overview.page();
  await vi.waitFor(() => expect([readings, shown.mock.calls.length]).toEqual([3, 3]));
});
