/** What is sold now, and what was until a moment ago. */
import { expect, onTestFinished, test, vi } from "vitest";
import { Sales } from "../../../src/app/sales.ts";
import type { SaleRules } from "../../../src/payments/sale/sale-guard.ts";
import { systemTime } from "../../../src/time/time.ts";
import { configOf } from "./config-of.ts";

const FILE = `
publicUrl: https://api.example.com
upstream: http://localhost:3000
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
unmatched: deny
routes:
  GET /weather: { price: $0.01, description: Weather }
`;
const GROUND = {
  feePayers: { revision: 0, offered: () => undefined, isKnown: () => false },
  ledger: { termsChangedAt: async () => 0 },
};

/** How often somebody reads of an array. */
function watched<Each>(list: readonly Each[]): { list: readonly Each[]; reads: number } {
  const seen = { list, reads: 0 };
  seen.list = new Proxy(list, {
    get(target, key, receiver) {
      seen.reads += 1;
      return Reflect.get(target, key, receiver);
    },
  });
  return seen;
}

const HOSTS = `${FILE}hosts:
  shop.example.com: { routes: { GET /goods: { price: $0.02, description: Goods } } }
`;

test("whoever still goes by a configuration has its documents, and no others, of each of its hosts", async () => {
  const sales = await Sales.open(configOf(HOSTS), GROUND);
  const { publish } = sales;
  const listing = (at: typeof publish, site: string): string => {
    const { body } = at({ path: "/discovery/resources", query: "", ifNoneMatch: undefined }, site);
    return body;
  };
  const [own, shop] = [listing(publish, ""), listing(publish, "shop.example.com")];
  expect(shop).toContain("https://shop.example.com/goods");
  expect(shop).not.toContain("/weather");

  const putIn = await sales.prepare(configOf(FILE.replace("$0.01", "$0.03")));
  putIn();

  expect([listing(publish, ""), listing(publish, "shop.example.com")]).toEqual([own, shop]);
  expect(listing(sales.publish, "")).not.toBe(own);
  expect(() => listing(sales.publish, "shop.example.com")).toThrow(
    "no site named shop.example.com",
  );
});

test("routes of configurations that were replaced are read no more when another one is put in", async () => {
  const config = configOf(FILE);
  const first = watched(config.routes);
  const rules: SaleRules[] = [];
  const guard = { revision: 0, stops: new Map(), configure: (each: SaleRules) => rules.push(each) };
  const sales = await Sales.open({ ...config, routes: first.list }, { ...GROUND, guard });
  (await sales.prepare(configOf(FILE.replace("$0.01", "$0.02"))))();
  const putIn = await sales.prepare(configOf(FILE.replace("$0.01", "$0.03")));
  first.reads = 0;
  putIn();
  expect([first.reads, sales.earlier.length]).toEqual([0, 2]);
  expect(rules.map(({ prices }) => [...prices])).toEqual([
    [["GET /weather", 20_000]],
    [["GET /weather", 30_000]],
  ]);
});

test("what others have gone on to ask for counts from when they have ended", async () => {
  const replacedMs = 1_700_000_000_000;
  const clock = vi.spyOn(systemTime, "now").mockReturnValue(replacedMs);
  onTestFinished(() => clock.mockRestore());
  const sales = await Sales.open(configOf(FILE), GROUND);
  expect(sales.askedUntilNow()).toBeUndefined();
  (await sales.prepare(configOf(FILE.replace("$0.01", "$0.02"))))();
  clock.mockReturnValue(replacedMs + 7_000);
  expect(sales.askedUntilNow()).toEqual([replacedMs, replacedMs + 7_000]);
  clock.mockReturnValue(replacedMs + 66_999);
  expect(sales.earlier).toMatchObject([{ replacedMs: replacedMs + 7_000 }]);
  clock.mockReturnValue(replacedMs + 67_000);
  expect(sales.earlier).toEqual([]);
});
