import { Validator } from "@seriousme/openapi-schema-validator";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { Publications } from "../../../src/publishing/publishing.ts";
import { parseConfig } from "../../../src/config/config.ts";
import { NO_FEE_PAYERS } from "../../../src/payments/sale/offers.ts";

const RUNS = 40;

const word = fc.constantFrom("a", "b", "reports", "caf%C3%A9", "x.json", "%7Bid%7D");
const segment = fc.oneof(
  word,
  word.map((name) => `:${name.replace(/\W/g, "_")}`),
);
const pattern = fc
  .tuple(fc.array(segment, { maxLength: 4 }), fc.boolean())
  .map(([parts, hasRest]) => `/${[...parts, ...(hasRest ? ["*"] : [])].join("/")}`);
const methods = fc.constantFrom("", "GET ", "POST,PUT ", "DELETE ", "PROPFIND ", "GET,HEAD ");
/** As people write them: a type, a sentence, or a schema with or without its own words. */
const field = fc.oneof(
  fc.constantFrom("string", "integer", "Which one", "date"),
  fc.record(
    {
      type: fc.constantFrom<unknown>("string", "array", ["string", "null"], "date", 7, null),
      required: fc.constantFrom<unknown>(true, false, "yes", ["a"]),
      description: fc.constantFrom<unknown>("Said", 5),
      enum: fc.constant(["a", "b"]),
      example: fc.jsonValue({ maxDepth: 1 }),
      items: fc.constant({ type: "string" }),
    },
    { requiredKeys: [] },
  ),
);
const fields = fc.dictionary(fc.constantFrom("city", "q", "X-Key", "accept", "id", "a b"), field, {
  maxKeys: 3,
});
const block = fc.record(
  {
    price: fc.constantFrom("$0.01", "$12"),
    description: fc.string({ unit: "grapheme", maxLength: 30 }),
    mimeType: fc.constantFrom("application/json", "image/*", "text/plain; charset=utf-8"),
    outputSchema: fc.constantFrom({}, { type: "object", properties: { a: { type: "number" } } }),
    input: fc.record(
      {
        queryParams: fields,
        headerFields: fields,
        bodyFields: fields,
        pathParams: fields,
        bodyType: fc.constantFrom("json", "form-data", "multipart-form-data", "text", "binary"),
      },
      { requiredKeys: [] },
    ),
    discoverable: fc.boolean(),
  },
  { requiredKeys: ["price"] },
);
const action = fc.oneof(
  { weight: 4, arbitrary: block },
  { weight: 1, arbitrary: fc.constantFrom("free", "deny") },
);
const routes = fc.dictionary(
  fc.tuple(methods, pattern).map(([some, path]) => some + path),
  action,
  { minKeys: 1, maxKeys: 12 },
);
const description = fc.constantFrom(null, {
  openapi: "3.0.2",
  info: { title: "Backend", version: "1" },
  paths: {
    "/a": { get: { responses: { "200": { description: "A" } } } },
    "/{x}/b": {
      parameters: [
        { name: "x", in: "path", required: true, schema: { type: "string", nullable: true } },
      ],
      post: {
        responses: { "200": { description: "B" }, "2XX": { $ref: "#/components/responses/R" } },
      },
    },
  },
  components: { responses: { R: { description: "R" } } },
});

test("every accepted configuration has a valid OpenAPI 3.1 document", async () => {
  // One for all: to compile the schema of OpenAPI takes longest.
  const validator = new Validator();
  let accepted = 0;
  await fc.assert(
    fc.asyncProperty(routes, description, async (table, backend) => {
      const file = {
        upstream: "http://localhost:3000",
        publicUrl: "https://api.example.com",
        payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
        accept: ["base", "avalanche"],
        facilitator: "https://facilitator.example.com",
        unmatched: "deny",
        discovery: { openapi: backend === null ? true : { from: "backend.json" } },
        routes: table,
      };
      const readFile = () => JSON.stringify(backend);
      const parsed = parseConfig(JSON.stringify(file), { file: "x.yaml", env: {}, readFile });
      if (!parsed.ok) return;
      accepted += 1;
      const { publish } = new Publications(parsed.config, {
        changes: new Map(),
        feePayers: NO_FEE_PAYERS,
      });
      const { body } = publish({ path: "/openapi.json", query: "", ifNoneMatch: undefined });
      const { valid, errors } = await validator.validate(JSON.parse(body));
      expect(valid ? [] : errors).toEqual([]);
      validator.resolveRefs();
      const { paths } = Object(JSON.parse(body));
      const shapes = Object.keys(paths).map((path) => path.replace(/\{[^{}]*\}/g, "{}"));
      expect(new Set(shapes).size).toBe(shapes.length);
    }),
    { numRuns: RUNS },
  );
  // Two routes that match the same requests are refused; where all were, nothing was tried.
  expect(accepted).toBeGreaterThan(RUNS / 6);
});
