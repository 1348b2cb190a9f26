/** Routes of a configuration as tools: their names, what they take, and why others are none. */
import {
  validateDiscoveryExtension,
  validateDiscoveryExtensionSpec,
} from "@x402/extensions/bazaar";
import { describe, expect, it, test } from "vitest";
import { parseConfig } from "../../../src/config/config.ts";
import { toolExtension } from "../../../src/x402/tool-bazaar.ts";
import { toolRequest } from "../../../src/tools/tool-request.ts";
import { toolsOf, type Tool, type ToolSet } from "../../../src/tools/tools.ts";

function setOf(routes: string, more = ""): ToolSet {
  const text = `
publicUrl: https://shop.example.com
upstream: http://localhost:3000
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
unmatched: deny
${more}
routes:
${routes}
`;
  const parsed = parseConfig(text, { file: "gateway.yaml", env: {}, readFile: () => "" });
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
  return toolsOf(parsed.config);
}

function toolOf(routes: string): Tool {
  const [tool] = setOf(routes).tools;
  if (tool === undefined) throw new Error("it is no tool");
  return tool;
}

const namesOf = ({ tools }: ToolSet): readonly string[] => tools.map(({ name }) => name);

describe("a name", () => {
  it("is that of the method and the path", () => {
    const routes = `
  GET /: $0.01
  GET,POST /v1/reports/:id: $0.01
  /any: $0.01
  POST /chat/completions: $0.01
`;
    const names = [
      "get_root",
      "get_v1_reports_id",
      "post_v1_reports_id",
      "get_any",
      "post_chat_completions",
    ];
    expect(namesOf(setOf(routes))).toEqual(names);
  });

  it("says of two that would be one which is which, whatever other routes there are", () => {
    const [first, second] = namesOf(setOf("  GET /a-b: $0.01\n  GET /a_b: $0.01\n"));
    expect(first).toMatch(/^get_a_b_[0-9a-f]{6}$/);
    expect(second).toMatch(/^get_a_b_[0-9a-f]{6}$/);
    expect(first).not.toBe(second);
    expect(namesOf(setOf("  GET /a_b: $0.01\n  GET /z: $0.01\n  GET /a-b: $0.01\n"))).toEqual([
      second,
      "get_z",
      first,
    ]);
  });

  it("is no longer than clients take, and still one route's", () => {
    const long = "a".repeat(100);
    const names = namesOf(setOf(`  GET /${long}1: $0.01\n  GET /${long}2: $0.01\n`));
    expect(new Set(names).size).toBe(2);
    for (const name of names) expect(name).toMatch(/^[a-z0-9_]{48}$/);
  });
});

test("what a tool takes is flat, and each goes where it belongs", () => {
  const tool = toolOf(`
  POST /shops/:id/orders:
    price: $0.01
    input:
      bodyType: json
      queryParams: { id: { type: integer, description: Which page }, dry: { type: boolean } }
      headerFields: { X-Lang: { type: string }, Authorization: { type: string }, Cookie: { type: string } }
      bodyFields: { item: { type: string, required: true }, count: integer }
`);
  expect(tool.input.schema).toEqual({
    type: "object",
    additionalProperties: false,
    properties: {
      id: { type: "string" },
      query_id: { type: "integer", description: "Which page" },
      dry: { type: "boolean" },
      "X-Lang": { type: "string" },
      Authorization: { type: "string" },
      item: { type: "string" },
      count: { type: "integer" },
    },
    required: ["id", "item"],
  });
  const given = { id: "a b", query_id: 7, dry: false, "X-Lang": "de", item: "tea", count: 2 };
  const made = toolRequest(tool, given);
  if (!made.ok) throw new Error(made.error);
  const { method, target, headers, body } = made.value;
  expect([method, target]).toEqual(["POST", "/shops/a%20b/orders?id=7&dry=false"]);
  expect(headers).toEqual(
    expect.arrayContaining(["X-Lang", "de", "Content-Type", "application/json"]),
  );
  expect(JSON.parse(String(body))).toEqual({ item: "tea", count: 2 });
});

test("what is not described is taken as it comes", () => {
  const made = (routes: string, given: object) => toolRequest(toolOf(routes), { ...given });
  const told = (routes: string, given: object) => {
    const read = made(routes, given);
    return read.ok ? [read.value.target, read.value.body?.toString()] : read.error;
  };
  expect(told("  GET /a: $0.01\n", {})).toEqual(["/a", undefined]);
  expect(told("  GET /a: $0.01\n", { query: { q: "x y", n: [1, 2], o: { a: 1 } } })).toEqual([
    "/a?q=x+y&n=1&n=2&o=%7B%22a%22%3A1%7D",
    undefined,
  ]);
  expect(told("  GET /a: $0.01\n", { query: "q=1" })).toBe("query is no map of parameters");
  expect(told("  POST /a: $0.01\n", { body: { deep: [1] } })).toEqual(["/a", '{"deep":[1]}']);
  expect(told("  POST /a: $0.01\n", {})).toEqual(["/a", undefined]);
  const form =
    "  POST /a: { price: $0.01, input: { bodyType: form-data, bodyFields: { a: string } } }\n";
  expect(told(form, { a: "1&b=2" })).toEqual(["/a", "a=1%26b%3D2"]);
  const text = "  POST /a: { price: $0.01, input: { bodyType: text } }\n";
  expect(told(text, { body: "said" })).toEqual(["/a", "said"]);
  expect(told(text, { body: {} })).toBe("body is no text");
  expect(told("  GET /f/*: $0.01\n", { rest: "a/b c" })).toEqual(["/f/a/b%20c", undefined]);
  expect(told("  GET /f/*: $0.01\n", { rest: "" })).toEqual(["/f/", undefined]);
  const many = { query: { q: Array.from({ length: 101 }, () => 1) } };
  expect(told("  GET /a: $0.01\n", many)).toBe("q has more than 100 values");
});

test("no part of a path leads elsewhere, or is none", () => {
  const report = toolOf("  GET /reports/:id: $0.01\n");
  const file = toolOf("  GET /files/*: $0.01\n");
  for (const id of ["..", ".", "", null, {}, []])
    expect(toolRequest(report, { id }).ok).toBe(false);
  for (const rest of ["..", "a/../b", "a//b", "a/", "/a", "./a"]) {
    expect(toolRequest(file, { rest }).ok).toBe(false);
  }
  const made = toolRequest(report, { id: "a/../b" });
  expect(made).toMatchObject({ ok: true, value: { target: "/reports/a%2F..%2Fb" } });
});

test("what cannot be a tool says why", () => {
  const { tools, others } = setOf(`
  GET /page: { price: $0.01, mimeType: text/html }
  GET /stream: { price: $0.01, mimeType: text/event-stream }
  POST /upload: { price: $0.01, input: { bodyType: multipart-form-data } }
  HEAD /thing: $0.01
  GET /hidden: { price: $0.01, discoverable: false }
  GET /free: free
  /denied: deny
  /server: { tools: { get_a: $0.01, "*": free } }
`);
  expect(tools).toEqual([]);
  expect(others).toEqual([
    { route: "GET /page", why: "its answers are text/html" },
    { route: "GET /stream", why: "its answers are text/event-stream" },
    { route: "POST /upload", why: "it is sent files (bodyType: multipart-form-data)" },
    { route: "HEAD /thing", why: "none of its methods is one that an agent asks with" },
    { route: "GET /hidden", why: "it is not listed (discoverable: false)" },
  ]);
});

test("a price that is not the same for each call is told as the most", () => {
  const routes = `
  POST /chat: { meter: { of: json("usage.total_tokens"), each: $0.000002, max: $0.50 }, description: A model }
  GET /news: { price: $0.02, description: The news!, free: 2/d by address }
`;
  const [chat, news] = setOf(routes, "credits: { packs: [$1] }").tools;
  expect(chat?.description).toContain("Price: at most $0.50 a call, paid by x402.");
  expect(news?.description).toBe(
    "The news! Price: $0.02 a call, paid by x402. 2 requests of an address are free each day (UTC).",
  );
});

test("the official package takes what is told of a tool for a catalogue", () => {
  const tool = toolOf(`
  GET /weather/:place:
    price: $0.01
    description: Weather
    input: { queryParams: { unit: { type: string, enum: [C, F] } } }
`);
  const { name, description, input } = tool;
  const told = { name, description, inputSchema: input.schema, example: input.example };
  for (const output of [undefined, { degrees: 7 }]) {
    const { bazaar } = Object(JSON.parse(JSON.stringify(toolExtension({ ...told, output }))));
    expect(validateDiscoveryExtension(bazaar)).toMatchObject({ valid: true });
    expect(validateDiscoveryExtensionSpec(bazaar)).toMatchObject({ valid: true });
  }
});
