import { describe, expect, test } from "vitest";
import type { FeePayers } from "../../../src/payments/sale/offers.ts";
import { documentOf, faultsOf } from "./published-document.ts";

/** Each version's header: one of them is enough. */
const PAYMENT = ["X402Payment", "X402PaymentSignature"].map((name) => ({
  $ref: `#/components/parameters/${name}`,
}));

describe("the OpenAPI document of the routes", () => {
  const document = documentOf();

  test("is valid OpenAPI 3.1, whatever kinds of routes there are", async () => {
    expect(await faultsOf(document)).toEqual([]);
    expect(await faultsOf(documentOf({ routes: "\n  GET /a: free" }))).toEqual([]);
  });

  test("has what is sold and may be known, under the public URL, and nothing else", () => {
    expect(document.servers).toEqual([{ url: "https://api.example.com/shop" }]);
    const operations = Object.entries<object>(document.paths).map(([path, item]) => {
      return `${Object.keys(item).join(",")} ${path}`;
    });
    // On Solana nobody is known who pays the network fee, so nothing can be sold there now.
    expect(operations).toEqual([
      "get /weather",
      "post /v1/chat",
      "put /upload",
      "get,delete /reports/{id}",
      "get,post,put,patch,delete /any/{rest}/{rest2}",
      "get /",
      "get /euro",
    ]);
    expect(document["x-discovery"]).toEqual({
      listing: "https://api.example.com/shop/discovery/resources",
      listingV2: "https://api.example.com/shop/v2/discovery/resources",
    });
  });

  test("says what each costs, how it is paid, and what the answers are", () => {
    const { get } = document.paths["/weather"];
    expect(get["x-payment-info"]).toEqual({
      price: { mode: "fixed", currency: "USD", amount: "0.01" },
      protocols: [
        {
          x402: {
            version: 1,
            accepts: [
              {
                scheme: "exact",
                network: "base",
                maxAmountRequired: "10000",
                asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
                payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
              },
            ],
          },
        },
        {
          x402: {
            version: 2,
            accepts: [
              {
                scheme: "exact",
                network: "eip155:8453",
                amount: "10000",
                asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
                payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
              },
            ],
          },
        },
      ],
    });
    expect([get.security, get.parameters.slice(-2)]).toEqual([[], PAYMENT]);
    expect(document.components.parameters).toMatchObject({
      X402Payment: { in: "header", name: "X-PAYMENT" },
      X402PaymentSignature: { in: "header", name: "PAYMENT-SIGNATURE" },
    });
    expect(document.info["x-guidance"]).toContain("`PAYMENT-SIGNATURE`");
    expect(document.components.responses.X402PaymentRequired.headers).toHaveProperty(
      "PAYMENT-REQUIRED",
    );
    expect(get.responses["200"].headers).toHaveProperty("PAYMENT-RESPONSE");
    expect(get.responses["402"].$ref).toBe("#/components/responses/X402PaymentRequired");
    expect(get.responses["200"].headers).toHaveProperty("X-PAYMENT-RESPONSE");
    expect(get.responses["200"].content["application/json"].schema.properties).toEqual({
      temperature: { type: "number" },
    });
  });

  test.each([
    [undefined, {}, undefined],
    [undefined, { name: "Backend" }, { name: "Backend" }],
    ["api@example.com", { name: "Backend" }, { name: "Backend", email: "api@example.com" }],
    ["https://example.com/x", { url: "http://b" }, { url: "https://example.com/x" }],
  ])("names %s beside what a description says of %j", async (contact, said, told) => {
    const info = {
      title: "Backend",
      version: "7",
      ...(Object.keys(said).length > 0 && { contact: said }),
    };
    const from = JSON.stringify({ openapi: "3.1.0", info, paths: {} });
    const named = documentOf({
      openapi: "{ from: backend.json }",
      from,
      ...(contact !== undefined && { contact }),
    });
    expect(named.info.contact).toEqual(told);
    expect(await faultsOf(named)).toEqual([]);
  });

  test("names no dollars where the token is none", () => {
    expect(document.paths["/euro"].get["x-payment-info"]).not.toHaveProperty("price");
  });

  test("describes what a buyer has to send", () => {
    const { get } = document.paths["/weather"];
    expect(get.parameters).toEqual([
      {
        name: "city",
        in: "query",
        required: true,
        description: "Which one",
        schema: { type: "string" },
      },
      { name: "days", in: "query", schema: { type: "integer" } },
      { name: "odd", in: "query", schema: { type: "string" } },
      { name: "Accept-Language", in: "header", schema: { type: "string" } },
      { name: "X-Trace", in: "header", description: "the trace", schema: { type: "string" } },
      ...PAYMENT,
    ]);
    expect(document.paths["/v1/chat"].post.requestBody).toEqual({
      required: true,
      content: {
        "application/json": {
          schema: {
            type: "object",
            properties: { prompt: { type: "string" }, n: { type: "number" } },
            required: ["prompt"],
          },
        },
      },
    });
    expect(document.paths["/upload"].put.requestBody.content).toEqual({
      "application/octet-stream": {},
    });
    expect(document.paths["/reports/{id}"].get.parameters).toEqual([
      { name: "id", in: "path", required: true, schema: { type: "integer", example: 7 } },
      ...PAYMENT,
    ]);
    const { delete: ending } = document.paths["/reports/{id}"];
    expect(ending.parameters).toMatchObject([{ name: "id" }, ...PAYMENT]);
  });

  test("has what is sold on Solana as soon as it can be paid there", () => {
    let revision = 0;
    const feePayers: FeePayers = {
      get revision() {
        return revision;
      },
      offered: () => (revision === 0 ? undefined : "2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4"),
      isKnown: () => true,
    };
    expect(documentOf({ feePayers }).paths).not.toHaveProperty("/sol");
    revision = 1;
    expect(documentOf({ feePayers }).paths).toHaveProperty("/sol");
  });

  test("stays below its limit, and says so", async () => {
    const many = Array.from({ length: 2_100 }, (_, n) => `\n  GET /r${n}: $0.01`).join("");
    const large = documentOf({ routes: many });
    expect(Object.keys(large.paths)).toHaveLength(2_000);
    expect(large.info.description).toContain("100 more are in the discovery listing only");
  });
});

describe("the OpenAPI document of a backend's own description", () => {
  const BACKEND = JSON.stringify({
    openapi: "3.0.3",
    info: { title: "Backend", version: "7", description: "Its own words" },
    servers: [{ url: "https://internal.example.com" }],
    security: [{ key: [] }],
    tags: [{ name: "a" }, { name: "internal" }],
    paths: {
      "/weather": {
        parameters: [{ $ref: "#/components/parameters/Lang" }],
        get: {
          operationId: "weather",
          tags: ["a"],
          servers: [{ url: "https://internal.example.com" }],
          security: [{ key: [] }],
          parameters: [{ name: "X-Payment", in: "header", schema: { type: "string" } }],
          responses: {
            "200": {
              description: "The weather",
              content: { "application/json": { schema: { $ref: "#/components/schemas/W" } } },
            },
            "402": { description: "old" },
            default: { $ref: "#/components/responses/Fault" },
          },
        },
        delete: { responses: { "204": { description: "gone" } } },
      },
      "/reports/{report}": {
        parameters: [{ name: "report", in: "path", required: true, schema: { type: "string" } }],
        get: { operationId: "weather", responses: { "200": { description: "A report" } } },
      },
      "/secret": { get: { responses: { "200": { description: "no" } } } },
      "/admin/users": { get: { responses: { "200": { description: "no" } } } },
      "/health": { get: { responses: { "200": { description: "ok" } } } },
      "/internal": { get: { responses: { "200": { description: "no" } } } },
      "/half-{a}": { get: { responses: { "200": { description: "no route can be it" } } } },
      "x-note": {},
    },
    components: {
      parameters: { Lang: { name: "lang", in: "query", schema: { type: "string" } } },
      responses: { Fault: { description: "A fault" } },
      pathItems: { Admin: { get: { summary: "Who may do what", responses: {} } } },
      callbacks: { Told: { "{$request.body#/url}": {} } },
      examples: { Hidden: { value: "nobody is to know" } },
      schemas: {
        Hidden: { type: "object", description: "nobody is to know" },
        Deep: { type: "string" },
        Kind: { type: "object", properties: { deep: { $ref: "#/components/schemas/Deep" } } },
        W: {
          type: "object",
          discriminator: { propertyName: "kind", mapping: { a: "Kind" } },
          properties: {
            t: { type: "number", nullable: true, minimum: 0, exclusiveMinimum: true },
            u: { type: "string", enum: ["C", "F"], nullable: true, example: { nullable: true } },
            nullable: { type: "boolean" },
          },
        },
      },
      securitySchemes: { key: { type: "apiKey", in: "header", name: "X-Api-Key" } },
    },
  });
  const merged = documentOf({ openapi: "{ from: backend.json }", from: BACKEND });

  test("is valid OpenAPI 3.1, although the backend's is 3.0", async () => {
    expect(await faultsOf(merged)).toEqual([]);
    expect(merged.info).toMatchObject({
      title: "Backend",
      version: "7",
      description: "Its own words",
    });
  });

  test("shows of the backend what buyers may ask for, and adds the routes that it does not describe", () => {
    expect(Object.keys(merged.paths["/weather"])).toEqual(["parameters", "get"]);
    expect(Object.keys(merged.paths)).toEqual([
      "/weather",
      "/reports/{report}",
      "/health",
      "/v1/chat",
      "/upload",
      "/any/{rest}/{rest2}",
      "/",
      "/euro",
    ]);
    expect(Object.keys(merged.paths["/reports/{report}"])).toEqual(["parameters", "get", "delete"]);
    const { delete: ending } = merged.paths["/reports/{report}"];
    expect(ending.parameters).toMatchObject([{ name: "report" }, ...PAYMENT]);
  });

  test("has prices in place of the backend's own security, and no address of the backend", () => {
    const { get } = merged.paths["/weather"];
    expect(get["x-payment-info"].price.amount).toBe("0.01");
    expect(get.security).toEqual([]);
    expect(get.responses["402"].$ref).toBe("#/components/responses/X402PaymentRequired");
    expect(get.responses["200"].headers).toHaveProperty("X-PAYMENT-RESPONSE");
    expect(get.responses.default).toEqual({ $ref: "#/components/responses/Fault" });
    expect(JSON.stringify(merged)).not.toContain("internal.example.com");
    expect(merged.paths["/health"].get).not.toHaveProperty("x-payment-info");
  });

  test("says in the words of 3.1 what 3.0 says of null and bounds", () => {
    expect(merged.components.schemas.W.properties).toEqual({
      t: { type: ["number", "null"], exclusiveMinimum: 0 },
      u: { type: ["string", "null"], enum: ["C", "F", null], example: { nullable: true } },
      nullable: { type: "boolean" },
    });
  });

  test("tells nothing of what is not shown", () => {
    const { components, tags } = merged;
    expect(Object.keys(components.schemas).toSorted()).toEqual([
      "Deep",
      "Kind",
      "W",
      "X402PaymentRequired",
      "X402PaymentRequirements",
    ]);
    expect(components).not.toHaveProperty("pathItems");
    expect(components).not.toHaveProperty("callbacks");
    expect(tags).toEqual([{ name: "a" }]);
    expect(JSON.stringify(merged)).not.toMatch(/nobody is to know|Who may do what/);
  });

  test("has no id twice", () => {
    expect(merged.paths["/reports/{report}"].get.operationId).toBe("weather_2");
  });

  test("shows what no route has where such requests are passed on", () => {
    const open = documentOf({ openapi: "{ from: b }", from: BACKEND, unmatched: "free" });
    expect(open.paths).toHaveProperty("/internal");
    expect(open.paths).not.toHaveProperty("/admin/users");
    expect(open.paths).not.toHaveProperty("/secret");
  });
});
