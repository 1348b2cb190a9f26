import {
  declareDiscoveryExtension,
  extractDiscoveryInfo,
  isValidRouteTemplate,
  validateDiscoveryExtension,
  validateDiscoveryExtensionSpec,
  type DiscoveryExtension,
} from "@x402/extensions";
import * as fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { outputSchemaOf, type ExchangeDescription } from "../../../src/discovery/discovery.ts";
import { extensionsOf, hasBazaar } from "../../../src/x402/bazaar.ts";
import { paymentV2, requirementsV2 } from "../../../src/x402/version-2.ts";
import { exampleRequest } from "./example-request.ts";

const { paymentRequirements } = exampleRequest();
const NOTHING = { method: "GET", discoverable: true, input: {}, output: null } as const;

function bazaarOf(exchange: Partial<ExchangeDescription>): Bazaar {
  const outputSchema = outputSchemaOf({ ...NOTHING, ...exchange });
  expect(hasBazaar({ outputSchema })).toBe(true);
  // As whoever reads it gets it.
  return JSON.parse(JSON.stringify(extensionsOf({ outputSchema })?.["bazaar"]));
}

/** What the official catalogue takes of it; null: nothing. */
function catalogued(bazaar: Bazaar) {
  const [accepted, url] = [paymentRequirements, "https://api.example.com/users/7?verbose=1"];
  const asked = { ...exampleRequest(), paymentRequirements: { ...accepted, resource: url } };
  const { paymentPayload } = asked;
  const envelope = paymentV2({
    ...asked,
    paymentPayload: { ...paymentPayload, extensions: { bazaar } },
  });
  return extractDiscoveryInfo(envelope as never, requirementsV2(paymentRequirements) as never);
}

type Bazaar = Extract<DiscoveryExtension, { routeTemplate?: string }>;

function expectValid(bazaar: Bazaar): void {
  expect(validateDiscoveryExtension(bazaar)).toEqual({ valid: true });
  expect(validateDiscoveryExtensionSpec({ ...bazaar })).toEqual({ valid: true });
  expect(catalogued(bazaar)?.discoveryInfo).toEqual(bazaar.info);
}

describe("the bazaar extension of a route", () => {
  test("that is asked for with a query has examples, types and what has to be there", () => {
    const bazaar = bazaarOf({
      input: {
        queryParams: {
          city: { type: "string", required: true, description: "Where.", example: "Paris" },
          days: { type: "integer", default: 3 },
          unit: { enum: ["C", "F"] },
          lang: "string",
          note: "Whatever you like.",
        },
        headerFields: { "X-Trace": { type: "integer", description: "A number." } },
      },
      output: {
        type: "object",
        properties: { celsius: { type: "number", example: 21.5 }, sky: { type: "string" } },
        required: ["celsius"],
      },
    });
    expect(bazaar).toEqual({
      info: {
        input: {
          type: "http",
          method: "GET",
          queryParams: {
            city: "Paris",
            days: 3,
            unit: "C",
            lang: "string",
            note: "string",
          },
          headers: { "X-Trace": "1" },
        },
        output: { type: "json", example: { celsius: 21.5, sky: "string" } },
      },
      schema: {
        $schema: "https://json-schema.org/draft/2020-12/schema",
        type: "object",
        properties: {
          input: {
            type: "object",
            properties: {
              type: { type: "string", enum: ["http"] },
              method: { type: "string", enum: ["GET"] },
              queryParams: {
                type: "object",
                properties: {
                  city: { type: "string", description: "Where." },
                  days: { type: "integer" },
                  unit: { enum: ["C", "F"] },
                  lang: { type: "string" },
                  note: { type: "string", description: "Whatever you like." },
                },
                required: ["city"],
              },
              headers: {
                type: "object",
                properties: { "X-Trace": { type: "string", description: "A number." } },
              },
            },
            required: ["type", "method", "queryParams"],
          },
          output: {
            type: "object",
            properties: {
              type: { type: "string" },
              example: {
                type: "object",
                properties: { celsius: { type: "number" }, sky: { type: "string" } },
                required: ["celsius"],
              },
            },
            required: ["type"],
          },
        },
        required: ["input"],
      },
    });
    expectValid(bazaar);
  });

  test.each([
    ["json", "json"],
    ["form-data", "form-data"],
    ["multipart-form-data", "form-data"],
    ["text", "text"],
    ["binary", "text"],
    [undefined, "json"],
  ] as const)("that takes a body of %s says so in words of version 2", (written, bodyType) => {
    const bodyFields = {
      prompt: { type: "string", required: true },
      options: { type: "object", properties: { deep: { type: "boolean" } }, required: ["deep"] },
      tags: { type: "array", items: { type: "string", example: "new" } },
    };
    const input = { bodyFields, ...(written !== undefined && { bodyType: written }) };
    const bazaar = bazaarOf({ method: "POST", input });
    const body = { prompt: "string", options: { deep: true }, tags: ["new"] };
    expect(bazaar.info.input).toEqual({ type: "http", method: "POST", bodyType, body });
    const { body: schema } = bazaar.schema.properties.input.properties as Body;
    expect(schema).toMatchObject({
      required: ["prompt"],
      properties: { options: { required: ["deep"] } },
    });
    expectValid(bazaar);
  });

  test.each(["POST", "PUT", "PATCH"])("that takes nothing by %s has an empty body", (method) => {
    const bazaar = bazaarOf({ method });
    expect(bazaar.info.input).toEqual({ type: "http", method, bodyType: "json", body: {} });
    expectValid(bazaar);
  });

  test.each(["GET", "HEAD", "DELETE"])("by %s has no body, whatever is declared", (method) => {
    const bazaar = bazaarOf({ method, input: { bodyType: "json", bodyFields: { a: "string" } } });
    expect(bazaar.info.input).toEqual({ type: "http", method, queryParams: {} });
    expectValid(bazaar);
  });

  test("with parameters has its template and an example of each", () => {
    const pathParams = { id: { type: "integer", example: 7, description: "Whose." } };
    const routeTemplate = "/users/:id/:part";
    const bazaar = bazaarOf({ input: { pathParams }, routeTemplate });
    expect(bazaar.routeTemplate).toBe(routeTemplate);
    expect(bazaar.info.input).toMatchObject({ pathParams: { id: 7, part: "string" } });
    expect(bazaar.schema.properties.input.required).toContain("pathParams");
    expect(catalogued(bazaar)).toMatchObject({
      resourceUrl: `https://api.example.com${routeTemplate}`,
      routeTemplate,
    });
    expectValid(bazaar);
    const rest = bazaarOf({ routeTemplate: "/files/:rest/*" });
    expect(rest.routeTemplate).toBe("/files/:rest/:rest2");
    expect(rest.info.input).toMatchObject({ pathParams: { rest: "string", rest2: "string" } });
    expectValid(rest);
  });

  test("names no template that official catalogues would refuse", () => {
    const part = fc.constantFrom(
      "a",
      ":id",
      "..",
      ":",
      "",
      "%2e",
      "%252E",
      "é",
      "a@b",
      "%3a",
      "x.y",
      "%zz",
    );
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 5 }), (parts) => {
        const { routeTemplate } = bazaarOf({ routeTemplate: `/${parts.join("/")}` });
        if (routeTemplate !== undefined) expect(isValidRouteTemplate(routeTemplate)).toBe(true);
      }),
    );
  });

  test("is none where a catalogue is not to know of it, or does not know the method", () => {
    const none = [
      outputSchemaOf({ ...NOTHING, discoverable: false }),
      outputSchemaOf({ ...NOTHING, method: "OPTIONS" }),
      { input: { method: "GET", discoverable: true } },
      { input: "GET" },
      undefined,
    ];
    for (const outputSchema of none) {
      const declared = outputSchema === undefined ? {} : { outputSchema };
      expect(extensionsOf(declared)).toBeUndefined();
      expect(hasBazaar(declared)).toBe(false);
    }
  });

  test("keeps the type where an example or a choice does not fit it", () => {
    const queryParams = {
      count: { type: "integer", example: "many", enum: ["one", "two"] },
      when: { type: ["null", "string"], example: 5 },
      odd: { type: "float" },
      empty: { type: "string", enum: [] },
    };
    const { info, schema } = bazaarOf({ input: { queryParams } });
    expect(info.input).toMatchObject({
      queryParams: { count: 1, when: null, odd: "string", empty: "string" },
    });
    expect(schema.properties.input.properties.queryParams?.properties).toEqual({
      count: { type: "integer" },
      when: { type: ["null", "string"] },
      odd: {},
      empty: { type: "string" },
    });
  });

  test("refers to nothing, and says nothing of an answer of which nothing is known", () => {
    const bazaar = bazaarOf({
      input: { queryParams: { $ref: "string", a: { $ref: "https://example.com/a" } } },
      output: { $id: "https://example.com/b", oneOf: [{ $ref: "#/$defs/x" }] },
    });
    expect(JSON.stringify(bazaar)).not.toMatch(/\$(?:ref|id)/);
    expect(bazaar.info.output).toEqual({ type: "json" });
    expectValid(bazaar);
  });

  test("has the form that the official declaration has", () => {
    const official = declareDiscoveryExtension({
      bodyType: "json",
      input: { prompt: "Hi" },
      inputSchema: {
        type: "object",
        properties: { prompt: { type: "string" } },
        required: ["prompt"],
      },
    });
    const ours = bazaarOf({
      method: "POST",
      input: {
        bodyType: "json",
        bodyFields: { prompt: { type: "string", required: true, example: "Hi" } },
      },
    });
    expect({ ...ours.info.input, method: undefined }).toEqual(official["bazaar"]?.info.input);
    const bodyOf = (each: DiscoveryExtension | undefined) => {
      const { properties } = each?.schema.properties.input ?? {};
      return (properties as Body | undefined)?.body;
    };
    expect(bodyOf(ours)).toEqual(bodyOf(official["bazaar"]));
    expect(bodyOf(ours)).toBeDefined();
  });

  test("is valid whatever is declared", () => {
    const warn = vi.spyOn(console, "warn");
    const word = fc.constantFrom(
      "string",
      "number",
      "integer",
      "boolean",
      "array",
      "object",
      "null",
    );
    const name = fc.oneof(
      fc.constantFrom("a", "$ref", "__proto__", "toString", "$id", "é/~"),
      fc.string(),
    );
    const { declared } = fc.letrec((tie) => ({
      schema: fc.record(
        {
          type: fc.oneof(word, fc.array(word), fc.jsonValue()),
          description: fc.oneof(fc.string(), fc.jsonValue({ maxDepth: 1 })),
          required: fc.oneof(fc.boolean(), fc.array(name), fc.jsonValue({ maxDepth: 1 })),
          enum: fc.oneof(fc.array(fc.jsonValue({ maxDepth: 1 })), fc.jsonValue({ maxDepth: 1 })),
          example: fc.jsonValue(),
          default: fc.jsonValue(),
          items: tie("declared"),
          properties: fc.dictionary(name, tie("declared")),
          $ref: fc.string(),
          pattern: fc.string(),
          minimum: fc.jsonValue({ maxDepth: 0 }),
        },
        { requiredKeys: [] },
      ),
      declared: fc.oneof(
        { depthSize: "small" },
        word,
        fc.jsonValue({ maxDepth: 1 }),
        tie("schema"),
      ),
    }));
    const fields = fc.dictionary(name, declared, { maxKeys: 4 });
    const exchange = fc.record({
      method: fc.constantFrom("GET", "HEAD", "DELETE", "POST", "PUT", "PATCH"),
      input: fc.record(
        {
          queryParams: fields,
          bodyType: fc.constantFrom("json", "form-data", "multipart-form-data", "text", "binary"),
          bodyFields: fields,
          headerFields: fields,
          pathParams: fields,
        },
        { requiredKeys: [] },
      ),
      output: fc.oneof(fc.constant(null), fields),
      routeTemplate: fc.constantFrom(null, "/a/:a", "/*", "/a/:toString/*"),
    });
    fc.assert(
      fc.property(exchange, (each) => {
        const bazaar = bazaarOf(JSON.parse(JSON.stringify(each)));
        expect(catalogued(bazaar)?.discoveryInfo).toEqual(bazaar.info);
        expect(validateDiscoveryExtensionSpec({ ...bazaar })).toEqual({ valid: true });
      }),
      // A schema takes the official validator tens of milliseconds.
      { numRuns: 30 },
    );
    expect(warn).not.toHaveBeenCalled();
  });
});

interface Body {
  readonly body: unknown;
}
