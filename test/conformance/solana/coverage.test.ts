/** What the case files say in all: that no rule is left out, and that nothing in their language is idle. */
import { describe, expect, test } from "vitest";
import { MINT_NAMES } from "./mints.ts";
import { readCaseFiles, readRules } from "./solana-case.ts";
import { FACILITATORS, NODE_FAULTS } from "./stage.ts";
import { MESSAGE_FAULTS, SIGNED_FAULTS, TEXT_FAULTS } from "./wire-faults.ts";

const LEAST_CASES = 100;
const RULES = Array.from({ length: 30 }, (_, index) => `V${index + 1}`);

const cases = readCaseFiles().flatMap((file) => file.cases);
const accepted = cases.filter((each) => each.expect.verify.code === "valid");
const refused = cases.filter((each) => each.expect.verify.code !== "valid");

describe("the rules", () => {
  test("are V1 to V30, each with its sentence", () => {
    expect(Object.keys(readRules())).toEqual(RULES);
  });

  test("have cases on both sides of their edge, each of them", () => {
    const missing = RULES.flatMap((rule) => [
      ...(accepted.some((each) => each.rule.includes(rule)) ? [] : [`${rule} accepted`]),
      ...(refused.some((each) => each.rule.includes(rule)) ? [] : [`${rule} refused`]),
    ]);
    expect(missing).toEqual([]);
  });

  test("have a hundred cases in all, at least", () => {
    expect(cases.length).toBeGreaterThanOrEqual(LEAST_CASES);
  });
});

describe("the cases", () => {
  test("have names of their own, all of them together", () => {
    const names = cases.map(({ name }) => name);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  test("answer the same to both endpoints, but for whose error it is and how a replay is found", () => {
    const different = cases.filter(({ expect }) => expect.verify.code !== expect.settle.code);
    const pairs = different.map(({ expect }) => `${expect.verify.code} ${expect.settle.code}`);
    expect([...new Set(pairs)]).toEqual(["unexpected_verify_error unexpected_settle_error"]);
  });

  test("are accepted on both networks, in all versions and all layouts, with tables and without", () => {
    const kinds = new Set(
      accepted.map(({ given, pay }) => {
        return `${given.network} ${pay.layout} ${pay.version}${pay.tables ? " tables" : ""}`;
      }),
    );
    const networks = ["solana-devnet", "solana"];
    const layouts = ["x402", "phantom"].flatMap((layout) =>
      ["legacy", "0", "0 tables", "1"].map((version) => `${layout} ${version}`),
    );
    const wanted = networks.flatMap((network) => layouts.map((layout) => `${network} ${layout}`));
    expect(wanted.filter((kind) => !kinds.has(kind))).toEqual([]);
  });

  test("tell every code that a judged payment on Solana can be refused with", () => {
    const codes = new Set(refused.map((each) => each.expect.verify.code));
    expect([...codes].toSorted()).toEqual([
      "insufficient_funds",
      "invalid_network",
      "invalid_payload",
      "invalid_payment_requirements",
      "invalid_transaction_state",
      "invalid_x402_version",
      "unexpected_verify_error",
      "unsupported_scheme",
    ]);
  });

  test("use every fault, facilitator and mint that has a name", () => {
    const used = new Set(
      cases.flatMap(({ given, message, signed, text }) => [
        given.facilitator,
        given.mint,
        ...message,
        ...signed,
        ...(text === undefined ? [] : [text]),
        ...(given.node === undefined ? [] : [given.node]),
      ]),
    );
    const named = [
      ...FACILITATORS,
      ...MINT_NAMES,
      ...NODE_FAULTS,
      ...MESSAGE_FAULTS,
      ...SIGNED_FAULTS,
      ...TEXT_FAULTS,
    ];
    expect(named.filter((name) => !used.has(name))).toEqual([]);
  });
});
