/** API descriptions become routes: what is imported, what is not and why, and what a hostile one cannot do. */
import { describe, expect, test } from "vitest";
import { importOpenApi, type Imported } from "../../../src/openapi/openapi.ts";

function imported(text: string): Imported {
  const result = importOpenApi(text);
  if (!result.ok) throw new Error(result.error);
  return result.value;
}

/** A description with these paths, in JSON. */
function withPaths(paths: object, more: object = {}): Imported {
  return imported(JSON.stringify({ openapi: "3.0.3", info: { title: "T" }, paths, ...more }));
}

test("OpenAPI 3.1 in YAML, with servers, references and a path's own parameters", () => {
  const { form, title, server, routes, skipped } = imported(`
openapi: 3.1.0
info: { title: Pets, version: "1" }
servers: [{ url: "https://{region}.pets.example/api/{version}/", variables: { region: { default: eu }, version: { default: v2 } } }]
paths:
  /pets/{pet-id}/toys/{2nd}:
    parameters: [{ $ref: "#/components/parameters/Limit" }]
    get:
      summary: "  Toys of\\n a pet  "
      parameters:
        - { name: kind, in: query, required: true, description: Which, schema: { type: [string, "null"], enum: [ball, bone] } }
        - { name: X-Trace, in: header, schema: { type: string } }
      responses:
        200: { content: { text/csv: {}, application/json: {} } }
    head: {}
components:
  parameters:
    Limit: { name: limit, in: query, schema: { $ref: "#/components/schemas/Count" } }
  schemas:
    Count: { type: integer }
`);
  expect({ form, title, server }).toEqual({
    form: "OpenAPI 3.1.0",
    title: "Pets",
    server: "https://eu.pets.example",
  });
  expect(routes).toMatchObject([
    {
      headerFields: { "X-Trace": { type: "string" } },
      key: "GET /api/v2/pets/:pet_id/toys/:_2nd",
      description: "Toys of a pet",
      mimeType: "application/json",
      queryParams: {
        limit: { type: "integer" },
        kind: { type: "string", required: true, description: "Which", enum: ["ball", "bone"] },
      },
    },
  ]);
  expect(skipped).toEqual([
    {
      operation: "HEAD /pets/{pet-id}/toys/{2nd}",
      reason: 'matches the same requests as "GET /api/v2/pets/:pet_id/toys/:_2nd"',
    },
  ]);
});

test("Swagger 2 in JSON, with its host, base path, media types and parameters", () => {
  const { form, server, routes } = imported(
    JSON.stringify({
      swagger: "2.0",
      host: "pets.example",
      basePath: "/v1",
      produces: ["text/xml"],
      parameters: { Page: { name: "page", in: "query", type: "integer" } },
      paths: {
        "/pets": {
          get: { operationId: "listPets", parameters: [{ $ref: "#/parameters/Page" }] },
          post: {
            description: "Adds",
            produces: ["application/json"],
            parameters: [
              {
                name: "pet",
                in: "body",
                schema: { required: ["name"], properties: { name: { type: "string" } } },
              },
            ],
            responses: { 200: { schema: { type: "string" } } },
          },
        },
        "/photos": {
          post: {
            consumes: ["multipart/form-data"],
            parameters: [{ name: "photo", in: "formData", required: true, type: "string" }],
          },
        },
      },
    }),
  );
  expect({ form, server }).toEqual({ form: "Swagger 2.0", server: "https://pets.example" });
  expect(routes).toMatchObject([
    {
      key: "GET /v1/pets",
      description: "listPets",
      mimeType: "text/xml",
      queryParams: { page: { type: "integer" } },
    },
    {
      key: "POST /v1/pets",
      description: "Adds",
      mimeType: "application/json",
      queryParams: {},
      body: { type: "json", fields: { name: { type: "string", required: true } } },
      outputSchema: { type: "string" },
    },
    {
      key: "POST /v1/photos",
      body: { type: "multipart-form-data", fields: { photo: { type: "string", required: true } } },
    },
  ]);
});

test("an operation's own server goes before that of the whole", () => {
  const { routes } = withPaths(
    {
      "/a": {
        get: { servers: [{ url: "/own" }] },
        post: {},
        servers: [{ url: "https://b.example/path" }],
      },
    },
    { servers: [{ url: "/whole" }] },
  );
  expect(routes.map(({ key }) => key)).toEqual(["GET /own/a", "POST /path/a"]);
});

test.each([
  ["/a/{b}.json", /only a part of its segment/],
  ["/a/{b}-{c}", /more than one parameter/],
  ["/a/{b:[0-9]+}", /regular expression/],
  ["/a/{path+}", /regular expression or a rest/],
  ["/a/:token", /would mean something else in a route/],
  ["/a/*", /would mean something else in a route/],
  ["/a?b={c}", /./],
  ["/a/../b", /\. and \.\./],
  ["/a b", /./],
  ["a", /a path begins with \//],
])("%s is not imported, and it is said why", (path, reason) => {
  const { routes, skipped } = withPaths({ [path]: { get: {} } });
  expect(routes).toEqual([]);
  expect(skipped).toEqual([
    { operation: expect.stringContaining(path), reason: expect.stringMatching(reason) },
  ]);
});

test("methods that cannot be sold and patterns that are there already are named", () => {
  const { routes, skipped } = withPaths({
    "/a/{x}": { get: {}, options: {}, trace: {} },
    "/a/{y}": { get: {}, put: {} },
    "/b": { $ref: "other.yaml#/b" },
    "x-note": {},
  });
  expect(routes.map(({ key }) => key)).toEqual(["GET /a/:x", "PUT /a/:y"]);
  expect(skipped.map(({ operation }) => operation)).toEqual([
    "OPTIONS /a/{x}",
    "TRACE /a/{x}",
    "GET /a/{y}",
    "/b",
  ]);
});

test("descriptions are one line of at most 200 characters, cut between words", () => {
  const { routes } = withPaths({
    "/a": { get: { summary: `word\u001b[31m ${"word ".repeat(100)}` } },
    "/b": { get: { summary: "", description: 7 } },
  });
  const [first, second] = routes.map(({ description }) => description);
  expect(first).toMatch(/^word \[31m (?:word )+word…$/);
  expect(first?.length).toBeLessThanOrEqual(200);
  expect(second).toBe("One request");
});

describe("a description that is none, or means harm", () => {
  test.each([
    ["another format", "openapi: 4.0.0\npaths: {}", /says neither `openapi: 3.0.x`/],
    ["no paths", 'swagger: "2.0"', /describes no paths/],
    ["no YAML", "openapi: 3.0.0\npaths:\n  /a: [", /there is a mistake at line 3/],
    ["text", "hello", /says neither/],
    ["nothing", "", /says neither/],
    ["a list", "[1, 2]", /says neither/],
    ["too much", " ".repeat(33 * 1024 * 1024), /is longer than/],
    ["nested too deep", `{"openapi":"3.0.0","paths":${"[".repeat(100_000)}`, /./],
    [
      "aliases of aliases",
      `openapi: 3.0.0\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\npaths: {/a: *e}`,
      /aliases that stand for too much/,
    ],
  ])("with %s is refused", (_, text, message) => {
    const result = importOpenApi(text);
    expect(result.ok ? "" : result.error).toMatch(message);
  });

  test("with references in circles loses only what they are for", () => {
    const { routes } = withPaths(
      { "/a": { get: { parameters: [{ $ref: "#/loop" }, { $ref: "#/__proto__/x" }] } } },
      { loop: { $ref: "#/loop" } },
    );
    expect(routes).toMatchObject([{ key: "GET /a", queryParams: {} }]);
  });

  test("with names of the language's own is read as any other", () => {
    const text = `{"openapi":"3.0.0","paths":{"/__proto__":{"get":{"parameters":[
      {"in":"query","name":"__proto__"},{"in":"query","name":"constructor"}]}},"__proto__":{"get":{}}}}`;
    const { routes, skipped } = imported(text);
    expect(routes).toMatchObject([{ key: "GET /__proto__" }]);
    expect(Object.keys(routes[0]?.queryParams ?? {})).toEqual(["constructor"]);
    expect(skipped).toMatchObject([{ operation: "__proto__" }]);
  });

  test("with odd types everywhere is still read", () => {
    const odd = [null, 1, "x", [], {}, [null], { get: null }, { get: [] }];
    for (const value of odd) {
      const paths = { "/a": value, "/b": { get: { parameters: value, responses: value } } };
      const { routes } = withPaths(paths, { servers: value, info: value, components: value });
      expect(routes.map(({ key }) => key)).toContain("GET /b");
    }
  });
});
