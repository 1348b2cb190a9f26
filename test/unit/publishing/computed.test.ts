/** What catalogues and documents tell of a price that each request has of its own: between what it lies. */
import { expect, test } from "vitest";
import { saleRules } from "../../../src/app/sale-rules.ts";
import { priceOf } from "../../../src/config/config.ts";
import { Publications } from "../../../src/publishing/publishing.ts";
import { NO_FEE_PAYERS } from "../../../src/payments/sale/offers.ts";
import { configOf } from "../app/config-of.ts";

const config = configOf(
  `
publicUrl: http://localhost:8402
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
upstream: http://localhost:3000
unmatched: deny
discovery: { openapi: true, llms: true, page: /catalogue }
routes:
  POST /generate: { price: { by: 'usd("0.001") + 20 * size(body.prompt)', from: $0.001, to: $0.05 }, description: Generated }
  GET /fixed: { price: $0.01, description: Fixed }
`,
  {},
);
const { publish, list } = new Publications(config, {
  changes: new Map(),
  feePayers: NO_FEE_PAYERS,
});
const document = (path: string): string =>
  publish({ path, query: "", ifNoneMatch: undefined }).body;

test("the listing has the most, and both in what is told beside it", () => {
  const { items } = JSON.parse(list("").body);
  const told = items.map(({ resource, accepts, metadata = {} }: Listed) => {
    return [resource, accepts[0]?.maxAmountRequired, metadata["price"]];
  });
  expect(told.toSorted()).toEqual([
    ["http://localhost:8402/fixed", "10000", undefined],
    ["http://localhost:8402/generate", "50000", { from: "$0.001", to: "$0.05" }],
  ]);
});

test("OpenAPI has a price that is dynamic", () => {
  const { paths } = JSON.parse(document("/openapi.json"));
  expect(paths["/generate"].post["x-payment-info"].price).toEqual({
    mode: "dynamic",
    min: "0.001",
    max: "0.05",
    currency: "USD",
  });
  expect(paths["/fixed"].get["x-payment-info"].price).toEqual({
    mode: "fixed",
    amount: "0.01",
    currency: "USD",
  });
});

test("llms.txt and the catalogue say it in words", () => {
  expect(document("/llms.txt")).toContain("Price: from $0.001, at most 0.05 USDC on base-sepolia.");
  const page = document("/catalogue");
  expect(page).toContain('<span class="price">$0.001 to $0.05</span>');
  expect(page).toContain("<b>0.001 to 0.05 USDC</b>");
  expect(page).toContain('<span class="price">$0.01</span>');
});

test("nowhere is the expression told", () => {
  const paths = ["/openapi.json", "/llms.txt", "/catalogue", "/.well-known/x402"];
  for (const path of paths) expect(document(path)).not.toContain("body.prompt");
  expect(list("").body).not.toContain("body.prompt");
});

test("what an hour allows has room for a request as long as it has for the cheapest", () => {
  expect([...saleRules(config).prices]).toEqual([
    ["POST /generate", 1_000],
    ["GET /fixed", 10_000],
  ]);
  expect(config.routes.map(priceOf)).toEqual(["$0.001 to $0.05", "$0.01"]);
});

interface Listed {
  readonly resource: string;
  readonly accepts: readonly { readonly maxAmountRequired: string }[];
  readonly metadata?: Readonly<Record<string, unknown>>;
}
