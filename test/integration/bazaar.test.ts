/** What registries of version 2 do with a running gateway: the official package reads each quote, lists and searches. */
import { HTTPFacilitatorClient } from "@x402/core/http";
import {
  validateDiscoveryExtension,
  validateDiscoveryExtensionSpec,
  withBazaar,
} from "@x402/extensions/bazaar";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startChain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";

const ROUTES = `
  GET /plain: $0.01
  GET /weather: { price: $0.01, description: Current weather, input: { queryParams: { city: { type: string, required: true } } } }
  GET /reports/:id: { price: $0.25, description: A report, input: { pathParams: { id: { type: string, example: a17 } } } }
  GET /files/*: { price: $0.02, description: Any file }
  HEAD /heads: { price: $0.01, description: A head }
  POST /summarize: { price: $0.02, description: A summary, input: { bodyType: json, bodyFields: { text: { type: string } } } }
  PUT /forms: { price: $0.03, description: A form, input: { bodyType: form-data, bodyFields: { name: { type: string } } } }
  PATCH /texts: { price: $0.04, description: A text, input: { bodyType: text } }
  DELETE /orders/:year/:id: { price: $0.05, description: Ends an order, metadata: { category: orders } }
  GET /typed: { price: $0.01, description: Typed, outputSchema: { type: object, properties: { temperature: { type: number } } }, input: { headerFields: { Accept-Language: { type: string } } } }
`;

/** One request for each of them, in their order. */
const REQUESTS = [
  ["GET", "/plain"],
  ["GET", "/weather?city=Oslo"],
  ["GET", "/reports/7"],
  ["GET", "/files/a/b.txt"],
  ["HEAD", "/heads"],
  ["POST", "/summarize"],
  ["PUT", "/forms"],
  ["PATCH", "/texts"],
  ["DELETE", "/orders/2026/7"],
  ["GET", "/typed"],
] as const;

const closing = new AsyncDisposableStack();
let gateway: RunningGateway;

beforeAll(async () => {
  const chain = closing.use(await startChain());
  gateway = closing.use(await startGateway({ chain, routes: ROUTES }));
});

afterAll(() => closing.disposeAsync());

test.each(REQUESTS)("the quote of %s %s has an extension without a fault", async (method, path) => {
  const answer = await fetch(gateway.url + path, { method });
  expect(answer.status).toBe(402);
  const { extensions } = JSON.parse(atob(answer.headers.get("PAYMENT-REQUIRED") ?? ""));
  expect(extensions.bazaar.info.input.method).toBe(method);
  expect(validateDiscoveryExtension(extensions.bazaar)).toEqual({ valid: true });
  expect(validateDiscoveryExtensionSpec(extensions.bazaar)).toEqual({ valid: true });
});

test("the official client lists all of them, and finds one by its words", async () => {
  const client = withBazaar(new HTTPFacilitatorClient({ url: `${gateway.url}/v2` }));
  const { items, pagination } = await client.extensions.bazaar.listResources({ limit: 100 });
  expect(pagination.total).toBe(REQUESTS.length);
  for (const { extensions } of items) {
    const extension = extensions?.["bazaar"] as Parameters<typeof validateDiscoveryExtension>[0];
    expect(validateDiscoveryExtension(extension)).toEqual({ valid: true });
  }
  const { resources } = await client.extensions.bazaar.search({ query: "current weather" });
  expect(resources.map(({ resource }) => new URL(resource).pathname)[0]).toBe("/weather");
});
