import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseConfig, type Problem } from "../../../src/config/config.ts";
import { environment } from "./fixture.ts";

const NAME = "twenty-faults.yaml";
const TEXT = readFileSync(join(import.meta.dirname, NAME), "utf8");

/** Line, column, what is marked there, the kind of fault, and what to do about it. */
const PLANTED: readonly (readonly [number, number, string, Problem["code"], string])[] = [
  [2, 10, '"::1:8402"', "bad-value", "put an IPv6 address in brackets: [::1]:8402"],
  [3, 12, "api.example.com", "bad-value", "begin with http:// or https://"],
  [4, 1, "limts", "unknown-key", 'did you mean "limits"?'],
  [5, 19, "16KB", "bad-value", "write 16KiB"],
  [6, 11, "30", "bad-type", "write 30s for seconds"],
  [11, 14, "least-request", "bad-value", 'did you mean "least-requests"?'],
  [
    12,
    35,
    "${UPSTREAM KEY}",
    "bad-placeholder",
    "write ${NAME} or ${NAME:-default}; $${ stands for a literal ${",
  ],
  [14, 8, '"0x209693bc6afc0C5328bA36FaF03C514EF312287C"', "bad-checksum", "copy the address again"],
  [15, 10, "bas", "unknown-network", 'did you mean "base"?'],
  [15, 39, "USDT", "unknown-asset", 'did you mean "USDC"?'],
  [
    21,
    16,
    "${RPC_OF_BASE}",
    "unset-variable",
    "set RPC_OF_BASE or RPC_OF_BASE_FILE, or give a default: ${RPC_OF_BASE:-…}",
  ],
  [22, 19, `"0x${"5a".repeat(32)}"`, "literal-key", "write env:NAME or file:PATH"],
  [
    25,
    17,
    "0.01",
    "ambiguous-price",
    'write $0.01, or price: { amount: "10000", asset: USDC } in atomic units',
  ],
  [26, 3, "GTE /forecast", "unknown-method", 'did you mean "GET"?'],
  [27, 3, "GET /maps//tiles", "bad-route", 'write "GET /maps/tiles"'],
  [28, 30, "$0.00000001", "bad-price", "write at most 6 digits behind the point"],
  [
    29,
    3,
    "GET /reports/:name",
    "duplicate-route",
    "remove one of them, or give them different methods",
  ],
  [30, 44, "42", "bad-type", 'put quotes around it: "42"'],
  [30, 58, "apo", "unknown-upstream", 'did you mean "api"?'],
  [33, 1, "unmatched", "duplicate-key", "remove one of the two"],
];

test("twenty faults of a file are found in one run, each at its place with its way out, and no more", () => {
  const lines = TEXT.split("\n");

  const { ok, problems } = parseConfig(TEXT, { file: NAME, ...environment });

  const found = problems.map(({ line, column, length, code, suggestion }) => {
    const marked = lines[line - 1]?.slice(column - 1, column - 1 + length);
    return [line, column, marked, code, suggestion];
  });
  expect(ok).toBe(false);
  expect(found).toEqual(PLANTED);
  expect(problems.filter(({ severity }) => severity === "error")).toHaveLength(20);
});
