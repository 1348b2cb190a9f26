import { describe, expect, test } from "vitest";
import { documentOf, faultsOf } from "./published-document.ts";

const json = (schema: object) => ({ "application/json": { schema } });
const answer = (schema: object) => ({ "200": { description: "x", content: json(schema) } });

const described = (more: object, health: object = {}) =>
  documentOf({
    openapi: "{ from: backend.json }",
    from: JSON.stringify({
      openapi: "3.0.3",
      info: { title: "Backend", version: "7" },
      paths: {
        "/health": { get: { responses: answer({ type: "string" }), ...health } },
        "/secret": { get: { responses: answer({ type: "string", title: "Of the secret" }) } },
      },
      ...more,
    }),
  });
const schemaOf = (document: ReturnType<typeof described>) =>
  document.paths["/health"].get.responses["200"].content["application/json"].schema;

describe("a backend's description that a part of alone would not stand", () => {
  test("keeps the whole of what it refers into", async () => {
    const Foo = { type: "object", properties: { bar: { $ref: "#/components/schemas/Bar" } } };
    const document = described(
      { components: { schemas: { Foo, Bar: { type: "number" }, Other: {} } } },
      { responses: answer({ $ref: "#/components/schemas/Foo/properties/bar" }) },
    );
    expect(await faultsOf(document)).toEqual([]);
    expect(document.components.schemas).toMatchObject({ Foo, Bar: { type: "number" } });
    expect(document.components.schemas).not.toHaveProperty("Other");
  });

  test("has in place what it refers to in an operation that is not shown", async () => {
    const at = "#/paths/~1secret/get/responses/200/content/application~1json/schema";
    const document = described({}, { responses: answer({ $ref: at }) });
    expect(await faultsOf(document)).toEqual([]);
    expect(document.paths).not.toHaveProperty("/secret");
    expect(schemaOf(document)).toEqual({ type: "string", title: "Of the secret" });
  });

  test("ends where a part that is not kept holds itself", async () => {
    const tree = { type: "object", properties: { next: { $ref: "#/x-parts/tree" } } };
    const document = described(
      { "x-parts": { tree } },
      { responses: answer({ $ref: "#/x-parts/tree" }) },
    );
    expect(await faultsOf(document)).toEqual([]);
    expect(schemaOf(document).properties.next.type).toBe("object");
    expect(JSON.stringify(document).length).toBeLessThan(20_000);
  });

  test("leaves out what leads to another file or to nothing, and its name", async () => {
    const document = described(
      {},
      {
        parameters: [
          { $ref: "internal/parameters.yaml#/a" },
          { $ref: "#/components/parameters/none" },
        ],
        requestBody: { $ref: "internal/bodies.yaml" },
        responses: {
          "200": { description: "x", content: json({ allOf: [{ $ref: "internal/s.yaml" }] }) },
          "404": { $ref: "internal/answers.yaml" },
        },
      },
    );
    expect(await faultsOf(document)).toEqual([]);
    expect(JSON.stringify(document)).not.toContain("internal/");
    expect(schemaOf(document)).toEqual({ allOf: [{}] });
    const silent = described({}, { responses: { "200": { $ref: "internal/answers.yaml" } } });
    expect(await faultsOf(silent)).toEqual([]);
  });

  test("has no links to operations and servers, and what is only called like them", async () => {
    const links = {
      next: { operationId: "secret", server: { url: "https://internal.example.com" } },
      other: { $ref: "#/components/links/Other" },
    };
    const properties = { links: { type: "object", properties: { self: { type: "string" } } } };
    const document = described(
      { components: { links: { Other: { operationId: "secret" } } } },
      { responses: { "200": { description: "x", content: json({ properties }), links } } },
    );
    expect(await faultsOf(document)).toEqual([]);
    expect(JSON.stringify(document)).not.toMatch(/operationId":"secret|internal/);
    expect(schemaOf(document)).toEqual({ properties });
  });

  test("says in the words of 3.1 also what is called like a keyword", () => {
    const bound = { type: "number", minimum: 1, exclusiveMinimum: true };
    const text = { type: "string", nullable: true };
    const document = described(
      {},
      {
        responses: {
          default: {
            description: "x",
            content: json({ properties: { default: text, example: bound, enum: text } }),
          },
        },
      },
    );
    const { schema } = document.paths["/health"].get.responses.default.content["application/json"];
    expect(schema.properties).toEqual({
      default: { type: ["string", "null"] },
      example: { type: "number", exclusiveMinimum: 1 },
      enum: { type: ["string", "null"] },
    });
  });

  test("tells of no way to log in that nothing shown asks for", async () => {
    const key = { type: "apiKey", in: "header", name: "X-Api-Key" };
    const tokenUrl = "https://internal.example.com/token";
    const other = { type: "oauth2", flows: { clientCredentials: { tokenUrl, scopes: {} } } };
    const components = { securitySchemes: { key, other } };
    const document = described({ components, security: "none" }, { security: [{ key: [] }] });
    expect(await faultsOf(document)).toEqual([]);
    expect(Object.keys(document.components.securitySchemes)).toEqual(["key"]);
  });

  test("has the payment as our parameters alone, also where the backend has one of its own", () => {
    const payment = { name: "x-payment", in: "header", schema: { type: "string" } };
    const document = documentOf({
      openapi: "{ from: backend.json }",
      from: JSON.stringify({
        openapi: "3.1.0",
        info: { title: "Backend", version: "7" },
        paths: {
          "/weather": { get: { parameters: [payment] } },
          "/v1/chat": { post: { parameters: [{ $ref: "#/components/parameters/Payment" }] } },
        },
        components: { parameters: { Payment: payment } },
      }),
    });
    const ours = ["X402Payment", "X402PaymentSignature"];
    const parameters = ours.map((name) => ({ $ref: `#/components/parameters/${name}` }));
    expect(document.paths["/weather"].get.parameters).toEqual(parameters);
    expect(document.paths["/v1/chat"].post.parameters).toEqual(parameters);
    expect(Object.keys(document.components.parameters)).toEqual(ours);
  });
});
