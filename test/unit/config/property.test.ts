import { readFileSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import {
  array,
  assert,
  constant,
  constantFrom,
  nat,
  oneof,
  property,
  record,
  string,
  tuple,
} from "fast-check";
import { describe, expect, test } from "vitest";
import { formatProblems, parseConfig, type ParseResult } from "../../../src/config/config.ts";
import {
  environment,
  FILE_KEY,
  KEY,
  keypairFile,
  OTHER_SOLANA_HEX,
  SOLANA_BASE58,
  SOLANA_HEX,
  TOKEN,
} from "./fixture.ts";
import { effort } from "../../support/effort.ts";

const EXAMPLE = readFileSync(
  join(import.meta.dirname, "../../../config/gateway.example.yaml"),
  "utf8",
).replaceAll(/#.*$/gm, "");
const RPC_KEY = "rpc-key-1f2e3d";
const LITERAL_KEY = "7d".repeat(32);
/** Keypairs that stand in the file itself, as a wallet and as `solana-keygen` writes them. */
const LITERAL_BASE58 =
  "3WX7SVkN9sy3t6rtytFwKUFdE9oJuVSab5bt6NP9bMKxbNZAbc5jFU78pbpD1dnJsiXxZnfruytAy4J7MJTdq53f";
const LITERAL_LIST = keypairFile("7d".repeat(64));
const WEATHER_TOKEN = "another-very-secret-token";
const ENV = {
  SOLANA_KEY: SOLANA_BASE58,
  REFUND_KEY: `0x${"07".repeat(32)}`,
  WEBHOOK_SECRET: `whsec_${"A".repeat(43)}=`,
  REFUND_SOLANA_KEY: keypairFile(OTHER_SOLANA_HEX),
  SOLANA_RPC: `https://rpc.example.com/?api-key=${RPC_KEY}`,
  FACILITATOR_TOKEN: TOKEN,
  WEATHER_TOKEN,
  REMOTE_TOKEN: TOKEN,
  BASE_KEY: KEY,
  BASE_RPC: `https://rpc.example.com/v2/${RPC_KEY}`,
};
/** What no remark may show; of a list of numbers, a part that is long enough to be masked, or unmistakable. */
const SECRETS = [
  TOKEN,
  WEATHER_TOKEN,
  KEY.slice(2),
  FILE_KEY,
  RPC_KEY,
  LITERAL_KEY,
  LITERAL_BASE58,
  "125,".repeat(33),
  SOLANA_BASE58,
  SOLANA_HEX,
  OTHER_SOLANA_HEX,
  "13,117,80,117,78",
  "13, 117, 80, 117, 78",
  "131,32,165,25,119",
];

function parse(text: string): ParseResult {
  const env = { ...environment.env, ...ENV };
  return parseConfig(text, { file: "gateway.yaml", readFile: environment.readFile, env });
}

/** What holds for every text whatsoever. */
function expectSound(text: string): void {
  const result = parse(text);
  const lines = text.split("\n");
  expect(result.text.length).toBe(text.length);
  expect(result.ok).toBe(!result.problems.some((each) => each.severity === "error"));
  const misplaced = result.problems.filter(({ line, column, length }) => {
    const end = (lines[line - 1] ?? "").length + 1;
    return line < 1 || line > lines.length || column < 1 || column > end || length < 1;
  });
  expect(misplaced).toEqual([]);
  expectNoSecrets(
    formatProblems(result.problems, result.text, { color: true }),
    JSON.stringify(result.problems),
  );
}

function expectNoSecrets(...shown: readonly string[]): void {
  const text = shown.join("\n");
  for (const secret of SECRETS) expect(text).not.toContain(secret);
}

const token = constantFrom(
  ..."- |: |, |[|]|{|}|\n|\n  |\t|'|\"|#|&a |*a|!!x |? |---\n|...\n|%YAML 1.1\n|~|<<: |>|@|`|\\|\u0000|\ufeff".split(
    "|",
  ),
  "${KEY}",
  "${",
  "$${",
  "${TOKEN}",
  "env:KEY",
  "routes",
  "GET /a",
  "$0.01",
  "free",
  "accept",
  "base",
  "facilitator",
  "__proto__",
  "constructor",
  "0x",
  LITERAL_KEY,
  LITERAL_BASE58,
  LITERAL_LIST,
  "1e999",
  "upstreams",
  "networks",
);
const scrap = oneof(token, string({ unit: "binary", maxLength: 8 }));

describe("parseConfig", () => {
  test("never throws on arbitrary text, and every problem lies inside the text", () => {
    assert(property(string({ unit: "binary" }), expectSound), { numRuns: effort(80, 200) });
    const scraps = array(scrap, { maxLength: 40 }).map((parts) => parts.join(""));
    assert(property(scraps, expectSound), { numRuns: effort(200, 500) });
  });

  test("never throws on a valid document with parts cut out, doubled or replaced", () => {
    const edit = record({
      at: nat(EXAMPLE.length),
      remove: nat(30),
      insert: oneof(scrap, constant("")),
    });
    const mutated = array(edit, { minLength: 1, maxLength: 4 }).map((edits) => {
      let text = EXAMPLE;
      for (const { at, remove, insert } of edits) {
        text = text.slice(0, at) + insert + text.slice(at + remove);
      }
      return text;
    });

    assert(property(mutated, expectSound), { numRuns: effort(60, 150) });
  });

  test("mentions a secret of the environment in no problem, wherever it is filled in", () => {
    const values = [...EXAMPLE.matchAll(/(?<=: |\[|- )[^\s{}[\],]+(?=[\s\]},])/g)];
    const secret = constantFrom(
      "${TOKEN}",
      "${KEY}",
      "env:KEY",
      "file:/run/secrets/key",
      "${SOLANA_KEY}",
      "${SOLANA_JSON}",
      "env:SOLANA_MIXED",
      "file:/run/secrets/solana.json",
    );
    const planted = tuple(constantFrom(...values), secret).map(([value, reference]) => {
      const end = value.index + value[0].length;
      return `${EXAMPLE.slice(0, value.index)}"${reference}"${EXAMPLE.slice(end)}`;
    });

    assert(property(planted, expectSound), { numRuns: effort(60, 150) });
  });

  test("hides the secrets of an accepted configuration, and gives them when asked", () => {
    const result = parse(EXAMPLE);

    expectNoSecrets(
      inspect(result, { depth: Infinity, showHidden: true, maxArrayLength: null }),
      JSON.stringify(result, (_, value: unknown) =>
        typeof value === "bigint" ? value.toString() : value,
      ),
    );
    const { embedded, bearer } = result.ok ? result.config.facilitator : {};
    expect(bearer?.reveal()).toBe(TOKEN);
    expect(String(bearer)).toBe("[secret]");
    expect(inspect(bearer)).toBe("[secret]");
    expect(JSON.stringify({ bearer })).toBe('{"bearer":"[secret]"}');
    expect(embedded?.[0]?.signers[0]?.key.reveal()).toBe(KEY);
    expect(embedded?.[0]?.rpc[0]?.url.reveal()).toContain(RPC_KEY);
    expect(embedded?.[1]?.signers[0]?.key.reveal()).toBe(SOLANA_HEX);
  });

  test("survives nesting, aliases and sizes that are made to exhaust it", () => {
    for (const text of [
      "[".repeat(50_000),
      "{a: ".repeat(20_000),
      "- ".repeat(20_000),
      Array.from({ length: 2000 }, (_, depth) => `${" ".repeat(depth)}a:`).join("\n"),
      `a: &a [${"x,".repeat(100)}]\nb: [${"*a,".repeat(5000)}]`,
      "x".repeat(17 * 1024 * 1024),
      "a".repeat(17 * 1024 * 1024),
      "1,".repeat(8 * 1024 * 1024),
    ]) {
      expect(parse(text).ok).toBe(false);
    }
  });

  test("shows no end of a word that is longer than is looked at", () => {
    const long = "!".repeat(4096);
    const { ok, ...told } = parse(`routes: [\n  GET /x, ${long}tail1\n`);
    expect(ok).toBe(false);
    expect(JSON.stringify(told)).not.toContain("tail1");
  });
});
