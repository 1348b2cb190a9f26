/** Descriptions that are made to cost more than they are long, and what of a description is not for buyers. */
import { describe, expect, test } from "vitest";
import { documentOf, faultsOf } from "./published-document.ts";

const HEAD = { openapi: "3.0.3", info: { title: "Backend", version: "7" } };
const answer = (schema: object) => {
  return { "200": { description: "x", content: { "application/json": { schema } } } };
};
const published = (from: string) =>
  documentOf({ openapi: "{ from: backend.json }", unmatched: "free", from });
const describedBy = (paths: object, more: object = {}) =>
  published(JSON.stringify({ ...HEAD, paths, ...more }));
const repeated = <T>(count: number, of: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => of(index));

describe("a description that is made to cost much", () => {
  test("may have one id for all of its operations", () => {
    const get = { operationId: "same", responses: answer({}) };
    const paths = repeated(30_000, (index) => [`/p/${index}`, { get }] as const);
    const written = Object.values(describedBy(Object.fromEntries(paths)).paths);
    const ids = written.map((item) => Object(item).get?.operationId).filter(Boolean);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.slice(0, 3)).toEqual(["same", "same_2", "same_3"]);
  });

  test("grows by no more than a few megabytes, however often it refers to a large part", () => {
    const large = { enum: repeated(5_000, (index) => `number ${index}`) };
    const $ref = "#/paths/~1large/get/responses/200/content/application~1json/schema";
    const document = describedBy({
      "/large": { get: { responses: answer(large) } },
      "/many": { get: { responses: answer({ allOf: repeated(5_000, () => ({ $ref })) }) } },
    });
    expect(document.paths["/large"].get.responses).toEqual(answer(large));
    expect(JSON.stringify(document).length).toBeLessThan(8_000_000);
  });

  test("may refer any number of times to what refers to something far away", () => {
    const far = { $ref: `#${"/a".repeat(500_000)}` };
    const allOf = repeated(20_000, () => ({ $ref: "#/x-far" }));
    const document = describedBy(
      { "/a": { get: { responses: answer({ allOf }) } } },
      { "x-far": far },
    );
    expect(Object.keys(document.paths)).toContain("/a");
  });

  test("may have a list of any length", () => {
    const example = repeated(300_000, () => 1);
    const document = describedBy({ "/a": { get: { responses: answer({ example }) } } });
    expect(Object.keys(document.paths)).toContain("/a");
  });

  test.each([
    [
      "nests too deep",
      `{"openapi":"3.0.0","x":${"[".repeat(9_999)}${"]".repeat(9_999)}}`,
      /levels/,
    ],
    ["is YAML that would be read for minutes", `openapi: 3.0.0\nx: [${"1,".repeat(2e6)}1]`, /YAML/],
    [
      "is YAML that stands for much more",
      `openapi: 3.0.0\na: &a ${"x".repeat(9_999)}\nb: [${"*a,".repeat(5_000)}]`,
      /can be read/,
    ],
  ])("is refused where it %s", (_, from, said) => {
    expect(() => published(from)).toThrow(said);
  });
});

describe("a description of a backend behind other tools", () => {
  test("tells nothing of what was written for them, and all that is only called like it", async () => {
    const integration = { uri: "http://10.0.0.7/internal", credentials: "arn:aws:iam::1:role/x" };
    const extended = { "x-amazon-apigateway-integration": integration };
    const properties = { "x-left": { type: "string" }, links: { items: { type: "string" } } };
    const responses = answer({
      type: "object",
      properties,
      example: { "x-left": "a" },
      ...extended,
    });
    const headers = { "x-rate-limit": { schema: { type: "integer" } } };
    const document = describedBy(
      { "/a": { get: { ...extended, responses: { "200": { ...responses["200"], headers } } } } },
      { ...extended, info: { ...HEAD.info, ...extended } },
    );
    expect(JSON.stringify(document)).not.toMatch(/10\.0\.0\.7|arn:aws|amazon/);
    const { "200": answered } = document.paths["/a"].get.responses;
    expect(answered.headers).toEqual(headers);
    const { schema } = answered.content["application/json"];
    expect(schema).toEqual({ type: "object", properties, example: { "x-left": "a" } });
    expect(await faultsOf(document)).toEqual([]);
  });

  test("keeps a property called links that only says what its items are", () => {
    const properties = { links: { items: { $ref: "#/components/schemas/Link" } } };
    const document = describedBy(
      { "/a": { get: { responses: answer({ properties }) } } },
      { components: { schemas: { Link: { type: "string" } } } },
    );
    const { schema } = document.paths["/a"].get.responses["200"].content["application/json"];
    expect(schema).toEqual({ properties });
  });

  test("leads nowhere beside a reference that leads somewhere", () => {
    const schema = {
      $ref: "#/components/schemas/Link",
      properties: { more: { $ref: "internal.yaml#/More" } },
    };
    const document = describedBy(
      { "/a": { get: { responses: answer(schema) } } },
      { openapi: "3.1.0", components: { schemas: { Link: { type: "string" } } } },
    );
    expect(JSON.stringify(document)).not.toContain("internal.yaml");
    expect(JSON.stringify(document)).toContain("#/components/schemas/Link");
  });

  test("has references as URLs write them", () => {
    const schema = { $ref: "#/components/schemas/A%7E1B" };
    const document = describedBy(
      { "/a": { get: { responses: answer(schema) } } },
      { components: { schemas: { "A/B": { type: "number" } } } },
    );
    expect(document.components.schemas).toMatchObject({ "A/B": { type: "number" } });
    expect(JSON.stringify(document.paths)).toContain(schema.$ref);
  });
});
