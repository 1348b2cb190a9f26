/** What a gateway without anything behind it says of prices that each request has of its own. */
import { expect, test } from "vitest";
import { DryGateway } from "../../../src/diagnosis/dry-gateway.ts";
import { routeQuotes } from "../../../src/diagnosis/route-quotes.ts";
import { configOf } from "../app/config-of.ts";

const config = configOf(
  `
publicUrl: http://localhost:8402
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
upstream: http://localhost:3000
unmatched: deny
routes:
  GET /many: { price: { by: "1000 * int(query.n)", from: $0.001, to: $0.05 } }
  POST /generate: { price: { by: "1000 * int(body.n)", from: $0.001, to: $0.05 } }
  GET /fixed: $0.01
`,
  {},
);
const dry = new DryGateway(config);

test("a request that has no price is asked for nothing, so that the doctor takes another one", () => {
  expect(dry.accepts("GET", "/many")).toEqual([]);
  expect(dry.ask({ method: "GET", target: "/many" })).toMatchObject({
    answer: { status: 400 },
    price: { dollars: null, why: "it cannot be computed: No such key: n" },
  });
  const [asked] = dry.accepts("GET", "/many?n=5");
  expect(asked?.maxAmountRequired).toBe("5000");
});

test("a browser is shown the price of its URL", () => {
  const headers = ["Accept", "text/html"];
  const shown = (target: string) => dry.ask({ method: "GET", target, headers }).answer?.body ?? "";
  expect(shown("/many?n=5")).toContain("0.005 USDC on Base Sepolia");
  expect(shown("/many?n=7")).toContain("0.007 USDC on Base Sepolia");
  expect(shown("/many?n=7")).not.toContain("0.05 USDC");
});

test("a body decides at once, since it is there already", () => {
  const body = Buffer.from('{"n":7}');
  const { answer, price } = dry.ask({ method: "POST", target: "/generate", body });
  expect(price).toEqual({ dollars: "$0.007", why: null });
  expect(JSON.parse(answer?.body ?? "").accepts[0].maxAmountRequired).toBe("7000");
});

test("quotes are reviewed of what can be quoted: without its body, by the most", () => {
  const quotes = [...routeQuotes(config)].map(({ route, accepts }) => {
    return [route.key, accepts[0]?.maxAmountRequired];
  });
  expect(quotes).toEqual([
    ["POST /generate", "50000"],
    ["GET /fixed", "10000"],
  ]);
});
