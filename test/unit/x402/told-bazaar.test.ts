import { declareDiscoveryExtension } from "@x402/extensions/bazaar";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import { readSoldTerms } from "../../../src/discovery/sold-resource.ts";
import { toldRequirements } from "../../../src/x402/told-bazaar.ts";
import { examplePayment } from "../ledger/example-payment.ts";

const { request } = examplePayment(1);
const { outputSchema: _, ...bare } = request.paymentRequirements;
const resource = "https://shop.example/users/7";
const paymentRequirements = { ...bare, resource };
const paymentPayload = { ...request.paymentPayload, x402Version: 2 };

function told(bazaar: unknown) {
  const payload = { ...paymentPayload, extensions: { bazaar } };
  return toldRequirements({ paymentPayload: payload, paymentRequirements });
}

/** Why it is not listed; "" where it may be. */
function fault(bazaar: unknown): string {
  const read = told(bazaar);
  return read?.ok === false ? read.error : "";
}

const info = {
  input: { type: "http", method: "GET", queryParams: { city: "Oslo" }, pathParams: { id: "7" } },
  output: { type: "json", example: { sunny: true } },
};
const schema = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: {
    input: {
      type: "object",
      properties: {
        type: { type: "string", const: "http" },
        method: { type: "string", enum: ["GET", "HEAD"] },
        queryParams: { type: "object", properties: { city: { $ref: "#/$defs/city" } } },
        pathParams: { type: "object", properties: { id: { type: "string" } } },
      },
      required: ["type", "method"],
    },
  },
  required: ["input"],
  $defs: { city: { type: "string", pattern: "^(O+)+$" } },
};
const bazaar = { info, schema, routeTemplate: "/users/:id" };

describe("a bazaar extension", () => {
  test("says what outputSchema says in version 1, and is listed by that", () => {
    const read = told(bazaar);
    if (read?.ok !== true) throw new Error("it is refused");
    expect(read.value.outputSchema).toEqual({
      input: {
        ...info.input,
        pathParams: { id: { type: "string" } },
        discoverable: true,
        routeTemplate: "/users/:id",
      },
      output: info.output,
    });
    const { pathParams: _pathParams, ...properties } = schema.properties.input.properties;
    const silent = { ...schema, properties: { input: { type: "object", properties } } };
    const other = told({ ...bazaar, schema: silent });
    expect(other?.ok === true && other.value.outputSchema?.["input"]).not.toHaveProperty(
      "pathParams",
    );
    expect(readSoldTerms(read.value, ["https://shop.example"])).toMatchObject({
      ok: true,
      value: { resource: "https://shop.example/users/:id", method: "GET" },
    });
  });

  test("of a body says the body's fields", () => {
    const post = { type: "http", method: "POST", bodyType: "json", body: { a: 1 }, headers: {} };
    const read = told({ info: { input: post }, schema: {} });
    expect(read?.ok === true && read.value.outputSchema).toEqual({
      input: {
        type: "http",
        method: "POST",
        bodyType: "json",
        bodyFields: { a: 1 },
        headerFields: {},
        discoverable: true,
      },
    });
  });

  test("as the official package declares it is well", () => {
    const declared = [
      declareDiscoveryExtension({
        input: { city: "Oslo" },
        inputSchema: { properties: { city: { type: "string" } }, required: ["city"] },
        output: { example: { sunny: true } },
      }),
      declareDiscoveryExtension({
        bodyType: "json",
        input: { text: "a" },
        inputSchema: { properties: { text: { type: "string" } } },
      }),
    ];
    for (const { bazaar: extension } of declared) {
      const { input } = Object(extension).info;
      // The server of that package adds the method of the request.
      const method = input.bodyType === undefined ? "GET" : "POST";
      const filled = {
        ...extension,
        info: { ...Object(extension).info, input: { ...input, method } },
      };
      expect(fault(filled)).toBe("");
      const wrong = {
        ...filled,
        info: { ...filled.info, input: { ...filled.info.input, type: 5 } },
      };
      expect(fault(wrong)).toMatch(/not as its schema says/);
    }
  });

  test("that is not there says nothing, and version 1 is as it was", () => {
    expect(told(undefined)).toBeUndefined();
    expect(told(null)).toBeUndefined();
    expect(toldRequirements(request)).toEqual({ ok: true, value: request.paymentRequirements });
  });

  const far = { properties: { input: { $ref: "https://evil.example/schema" } } };
  const loop = { $defs: { a: { properties: { b: { $ref: "#/$defs/a" } } } }, $ref: "#/$defs/a" };
  const again = { properties: { b: { allOf: [{ $ref: "#/$defs/a" }, { $ref: "#/$defs/a" }] } } };
  const older = { definitions: { a: again }, $ref: "#/$defs/a" };
  const many = Array.from({ length: 17 }, () => ({ $ref: "#/$defs/a" }));
  test.each([
    ["no object", 5, /no info or no schema/],
    ["no schema", { info }, /no info or no schema/],
    ["an input that is none", { info: { input: 5 }, schema: {} }, /no object/],
    [
      "info that does not fit",
      { ...bazaar, info: { input: { type: "mcp" } } },
      /not as its schema/,
    ],
    ["a schema elsewhere", { info, schema: far }, /its own \$defs/],
    ["a schema of another name", { info, schema: { $id: "https://a.example/" } }, /its own \$defs/],
    ["a schema that refers to itself", { info, schema: { $ref: "#" } }, /its own \$defs/],
    ["definitions that refer on", { info, schema: loop }, /its own \$defs/],
    ["definitions of an older name that do", { info, schema: older }, /its own \$defs/],
    [
      "too many references",
      { info, schema: { $defs: { a: {} }, allOf: many.slice(0, 9) } },
      /more branches/,
    ],
    ["too many branches", { info, schema: { anyOf: many.map(() => ({})) } }, /more branches/],
    [
      "a schema that nobody can judge",
      { info, schema: { type: "blah" } },
      /none that can be judged/,
    ],
    ["too many values", { info: { input: { a: Array(200).fill(1) } }, schema: {} }, /longer/],
    ["too much text", { ...bazaar, more: "x".repeat(4_096) }, /longer/],
  ])("with %s is not listed", (_name, spoilt, expected) => {
    expect(fault(spoilt)).toMatch(expected);
  });

  test.each([
    "users/:id",
    "/users/../admin",
    "/users/%2e%2e/admin",
    "/users/%252E%252e/admin",
    "/users/.%25252e/admin",
    "/users\\..\\admin",
    "/users/%5c:id",
    "/x?u=https://evil.example",
    "/%ff",
    7,
  ])("whose routeTemplate is %s is not listed", (routeTemplate) => {
    expect(fault({ ...bazaar, routeTemplate })).toMatch(/no path/);
  });

  test("leaves nothing behind, whatever its schema is called", () => {
    const named: unknown[] = [];
    const keep = vi.spyOn(z.globalRegistry, "add").mockImplementation((...added: unknown[]) => {
      named.push(added[1]);
      return z.globalRegistry;
    });
    onTestFinished(() => keep.mockRestore());
    expect(fault({ ...bazaar, schema: { ...schema, id: "mine" } })).toBe("");
    expect(named).toEqual([]);
  });
});
