/**
 * What registries of version 2 do with a running gateway: the official package reads each quote, lists and searches, and
 * the package of one that reads OpenAPI finds no fault with the document, the quotes, or what it makes of both.
 */
import {
  checkEndpointSchema,
  checkL2ForOpenAPI,
  checkL4ForOpenAPI,
  getOpenAPI,
  getWarningsFor402Body,
  getWarningsForL2,
  getWarningsForL3,
  getWarningsForL4,
  getWarningsForOpenAPI,
  isOpenApiParseFailure,
} from "@agentcash/discovery";
import { HTTPFacilitatorClient } from "@x402/core/http";
import {
  validateDiscoveryExtension,
  validateDiscoveryExtensionSpec,
  withBazaar,
} from "@x402/extensions/bazaar";
import { afterAll, beforeAll, expect, test } from "vitest";
import { headerJson } from "../support/buyer.ts";
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
  const more = "discovery: { openapi: true, contact: api@example.com }";
  gateway = closing.use(await startGateway({ chain, routes: ROUTES, more }));
});

afterAll(() => closing.disposeAsync());

test.each(REQUESTS)("the quote of %s %s has an extension without a fault", async (method, path) => {
  const answer = await fetch(gateway.url + path, { method });
  expect(answer.status).toBe(402);
  const { extensions } = headerJson(answer.headers, "PAYMENT-REQUIRED");
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

test("a registry that reads OpenAPI finds all of them, paid for and open to everybody", async () => {
  const document = (await getOpenAPI(gateway.url)).unwrapOr(null);
  expect(getWarningsForOpenAPI(document)).toEqual([]);
  if (document === null || isOpenApiParseFailure(document)) throw new Error("not read");
  expect(document.info.contactEmail).toBe("api@example.com");
  const found = checkL2ForOpenAPI(document);
  expect(getWarningsForL2(found)).toEqual([]);
  expect(getWarningsForL4(checkL4ForOpenAPI(document))).toEqual([]);
  const modes = found.routes.map(({ authMode }) => authMode);
  expect(modes).toEqual(REQUESTS.map(() => "paid"));
});

test.each(REQUESTS)("it finds no fault with %s %s and its quote", async (method, path) => {
  const url = gateway.url + path;
  const answer = await fetch(url, { method });
  const quote = headerJson(answer.headers, "PAYMENT-REQUIRED");
  expect(getWarningsFor402Body(quote)).toEqual([]);
  const checked = await checkEndpointSchema({ url, probe: true });
  if (!checked.found) throw new Error(checked.message);
  const told = checked.advisories.find((each) => each.method === method) ?? null;
  // A probe does not ask with HEAD, but with GET, which is not sold there.
  if (method !== "HEAD") expect(told?.paymentOptions).toMatchObject([{ version: 2 }]);
  expect(getWarningsForL3(told)).toEqual([]);
});
