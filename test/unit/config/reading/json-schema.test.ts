import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { describe, expect, test } from "vitest";
import { parse as parseYaml, stringify } from "yaml";
import { parseConfig, type Config } from "../../../../src/config/config.ts";
import { jsonSchema, jsonSchemaText } from "../../../../src/config/reading/json-schema.ts";
import { environment, PAYEE, SOLANA_ADDRESS } from "../fixture.ts";

const FOLDER = join(import.meta.dirname, "../../../../config");

type Json = Readonly<Record<string, unknown>>;

function isJson(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The alternatives of a schema, or the only one. */
function alternatives(schema: Json): readonly Json[] {
  return Array.isArray(schema["anyOf"]) ? schema["anyOf"].filter(isJson) : [schema];
}

/** The keys of the map that a schema allows, with the schema of each; none where it allows no map. */
function keysOf(schema: Json): readonly (readonly [string, Json])[] {
  return alternatives(schema).flatMap(({ properties }) =>
    isJson(properties)
      ? Object.entries(properties).flatMap(([key, each]) =>
          isJson(each) ? [[key, each] as const] : [],
        )
      : [],
  );
}

/** What a schema says of the elements of a list, or of the values of a map with names for keys. */
function elementsOf(schema: Json): readonly Json[] {
  return alternatives(schema)
    .flatMap(({ items, additionalProperties }) => [items, additionalProperties])
    .filter(isJson);
}

/** Every key that the schema knows, by its path; `*` is a name or an element. */
function walk(schema: Json, path: readonly string[] = []): readonly (readonly [string, Json])[] {
  const keys = keysOf(schema).flatMap(([key, each]) => {
    const here = [...path, key];
    return [[here.join("."), each] as const, ...walk(each, here)];
  });
  return [...keys, ...elementsOf(schema).flatMap((each) => walk(each, [...path, "*"]))];
}

/** A map of all the defaults in the keys of a schema; what has none is left out. */
function defaultsOf(schema: Json): Json {
  const found = keysOf(schema).flatMap(([key, each]) => {
    if ("default" in each) return [[key, each["default"]]];
    const below = defaultsOf(each);
    return Object.keys(below).length > 0 ? [[key, below]] : [];
  });
  return Object.fromEntries(found);
}

/** What a document has at a path, in each of its entries where that has `*`. */
function valuesAt(value: unknown, [step, ...rest]: readonly string[]): readonly unknown[] {
  if (step === undefined) return [value];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) =>
    step === "*" || key === step ? valuesAt(each, rest) : [],
  );
}

function schemaAt(path: string): Json {
  const found = walk(jsonSchema()).find(([each]) => each === path);
  if (found === undefined) throw new Error(`the schema has no ${path}`);
  return found[1];
}

function parse(document: Json): Config {
  const text = stringify(document);
  const result = parseConfig(text, { file: "/etc/coinslot/gateway.yaml", ...environment });
  if (!result.ok) throw new Error(result.problems.map((each) => each.message).join("\n"));
  return result.config;
}

describe("the JSON Schema of configuration files", () => {
  test("is committed as it is; `npm run schema` renews it", () => {
    const committed = readFileSync(join(FOLDER, "gateway.schema.json"), "utf8");

    expect(committed === jsonSchemaText(), "stale: run `npm run schema`").toBe(true);
  });

  test("explains every key", () => {
    const keys = walk(jsonSchema());

    expect(keys.length).toBeGreaterThan(120);
    const unexplained = keys.filter(([, each]) => !/^.{10,}\.$/s.test(String(each["description"])));
    expect(unexplained.map(([path]) => path)).toEqual([]);
  });

  test("knows no key that gateway.example.yaml does not show", () => {
    const example = readFileSync(join(FOLDER, "gateway.example.yaml"), "utf8");

    const absent = walk(jsonSchema())
      .map(([path]) => path.split(".").at(-1) ?? "")
      .filter((key) => !new RegExp(`\\b${key}:`).test(example));

    expect([...new Set(absent)]).toEqual([]);
  });

  test("lets no pattern through that an editor could not compile", () => {
    const patterns = [...jsonSchemaText().matchAll(/"pattern": (".*")/g)].map(([, written = ""]) =>
      String(JSON.parse(written)),
    );

    expect(patterns.length).toBeGreaterThan(40);
    for (const pattern of patterns) expect(() => new RegExp(pattern, "u")).not.toThrow();
  });

  test("has the defaults that gateway.example.yaml shows", () => {
    const example: unknown = parseYaml(readFileSync(join(FOLDER, "gateway.example.yaml"), "utf8"));
    const shown = walk(jsonSchema()).flatMap(([path, schema]) =>
      "default" in schema
        ? valuesAt(example, path.split(".")).map((value) => ({ path, value, schema }))
        : [],
    );

    expect(new Set(shown.map(({ path }) => path)).size).toBeGreaterThan(40);
    const others = shown.filter(
      ({ value, schema }) => !isDeepStrictEqual(value, schema["default"]),
    );
    expect(others.map(({ path, value }) => `${path}: ${JSON.stringify(value)}`)).toEqual([
      'listen: [":8402"]',
      // What the long form says is the default of its keys.
      'shutdown: {"within":"30s","delay":"0s"}',
      "upstreams.*.targets.*.weight: 3",
      'upstreams.*.timeouts.response: "5m"',
      'facilitator.remote.*.confirm: "receipt"',
      'routes.*.repeat.for: "1h"',
      "routes.*.repeat.times: 100",
      "routes.*.credits: true",
      "routes.*.tools.*.credits: true",
      "discovery.wellKnown: true",
      "discovery.openapi: true",
      "discovery.llms: true",
      'store: {"url":"sqlite:./data/coinslot.db","keep":"90d","archive":"./data/archive"}',
      'logging.access: {"format":"json","file":"./data/access.log","query":false}',
      'mcp: {"path":"/mcp"}',
    ]);
  });

  test("has the defaults that hold where a key is left out", () => {
    // What stands beside a sidecar has no listeners and no backends.
    const { sidecar, refunds, credits, upstream: only, ...root } = defaultsOf(jsonSchema());
    // What pays back needs a key.
    expect(refunds).toEqual({ automatic: false });
    // A command stands in place of targets, and needs a program.
    expect(Object.keys(Object(only))).toEqual(["command"]);
    // What is prepaid has packs.
    expect(credits).toEqual({ atRisk: "$1" });
    expect(Object.keys(Object(sidecar)).sort()).toEqual(["delivery", "peers", "reportWithin"]);
    const routes = { "GET /weather": { price: "$0.01", description: "Weather" } };
    const upstream = { targets: ["http://localhost:3000"] };
    const network = { rpc: ["https://rpc.example.com"], signers: ["env:SOLANA_KEY"] };
    const remote = { url: "https://facilitator.example.com" };
    const document = (filled: (path: string) => Json, top: Json) => ({
      ...top,
      publicUrl: "https://api.example.com",
      payTo: { evm: PAYEE, solana: SOLANA_ADDRESS },
      accept: ["base", "solana"],
      unmatched: "deny",
      upstreams: {
        default: {
          ...withoutCommand(filled("upstreams.*")),
          ...upstream,
          health: { ...filled("upstreams.*.health"), path: "/" },
        },
      },
      facilitator: {
        embedded: {
          networks: { solana: { ...filled("facilitator.embedded.networks.*"), ...network } },
        },
        remote: [{ ...filled("facilitator.remote.*"), ...remote }],
      },
      routes: {
        "GET /weather": { ...filled("routes.*"), ...routes["GET /weather"] },
      },
    });

    const written = parse(document((path) => namedDefaults(path), root));
    const implied = parse(document(() => ({}), {}));

    expect(Object.keys(root)).toEqual(
      expect.arrayContaining(["listen", "limits", "store", "logging", "workers", "cors"]),
    );
    expect(Object.keys(namedDefaults("upstreams.*"))).toContain("retry");
    expect(Object.keys(namedDefaults("routes.*"))).toContain("maxTimeoutSeconds");
    const { line: _line, ...route } = written.routes[0] ?? { line: 0 };
    expect({ ...written, routes: [{ ...route, line: implied.routes[0]?.line }] }).toEqual(implied);
  });
});

function withoutCommand({ command: _command, ...usual }: Json): Json {
  return usual;
}

/** The defaults of the entries of a list, or of a map with names for keys: `upstreams.*`. */
function namedDefaults(path: string): Json {
  if (!path.endsWith(".*")) return defaultsOf(schemaAt(path));
  const elements = elementsOf(schemaAt(path.slice(0, -2)));
  return defaultsOf(elements.find((each) => keysOf(each).length > 0) ?? {});
}
