/** What the requirements of a payment on Solana may say, V5 to V9, each from both sides of its edge. */
import { describe, expect, test } from "vitest";
import { readDemand, type RuleOptions } from "../../../../src/mechanism/solana/rules.ts";
import type { PaymentRequirements } from "../../../../src/x402/x402.ts";
import { testKey, USDC } from "../../../support/solana-messages.ts";
import { optionsFor, PAYMENT } from "./judging.ts";

const REQUIREMENTS: PaymentRequirements = {
  scheme: "exact",
  network: "solana",
  maxAmountRequired: "10000",
  asset: USDC,
  payTo: PAYMENT.payTo,
  resource: "https://api.example.com/report",
  description: "",
  maxTimeoutSeconds: 60,
  extra: { feePayer: PAYMENT.feePayer },
};

function read(changes: Partial<PaymentRequirements>, options: Partial<RuleOptions> = {}) {
  return readDemand({ ...REQUIREMENTS, ...changes }, optionsFor(PAYMENT, options));
}

function expectUnfit(result: ReturnType<typeof read>, detail: RegExp): void {
  expect(result).toMatchObject({
    ok: false,
    error: { code: "invalid_payment_requirements", detail: expect.stringMatching(detail) },
  });
}

test("requirements are read", () => {
  const { payTo, feePayer } = PAYMENT;
  expect(read({})).toEqual({
    ok: true,
    value: { amount: 10_000n, payTo, asset: USDC, feePayer, memo: undefined },
  });
});

test("requirements that others served are read whatever they name, so long as it can be read", () => {
  const [asset, payTo, feePayer] = [60, 61, 62].map((number) => testKey(number).address);
  const foreign = { ...REQUIREMENTS, asset: asset ?? "", payTo: payTo ?? "", extra: { feePayer } };
  expect(readDemand(foreign, null)).toMatchObject({ value: { asset, payTo, feePayer } });
  expectUnfit(readDemand({ ...foreign, maxAmountRequired: "0" }, null), /maxAmountRequired/);
  expectUnfit(readDemand({ ...foreign, asset: "USDC" }, null), /asset/);
  expectUnfit(readDemand({ ...foreign, extra: {} }, null), /^extra\.feePayer/);
});

describe("maxAmountRequired (V5)", () => {
  test.each(["1", "9007199254740993", "18446744073709551615"])("%s is an amount", (text) => {
    expect(read({ maxAmountRequired: text })).toMatchObject({ value: { amount: BigInt(text) } });
  });

  const wrong = ["0", "00", "01", "", " 1", "1 ", "+1", "-1", "1.0", "1e4", "0x10", "١", "1n"];
  test.each([...wrong, "18446744073709551616", "1".repeat(200)])("%s is none", (text) => {
    expectUnfit(read({ maxAmountRequired: text }), /from 1 to 18446744073709551615/);
  });
});

describe("addresses (V6)", () => {
  const wrong = [
    "",
    "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
    PAYMENT.payTo.slice(2),
    `${PAYMENT.payTo}1`,
    `1${PAYMENT.payTo}`,
    ` ${PAYMENT.payTo}`,
    PAYMENT.payTo.replace(/^./, "0"),
    "z".repeat(44),
  ];
  test.each(wrong)("%j is none", (text) => {
    expectUnfit(read({ payTo: text }), /^payTo is not a Solana address$/);
    expectUnfit(read({ asset: text }), /^asset is not a Solana address$/);
  });
});

describe("extra.feePayer (V7)", () => {
  test("is one of ours", () => {
    const other = testKey(8).address;
    const both = { feePayers: new Set([PAYMENT.feePayer, other]) };
    expect(read({ extra: { feePayer: other } }, both)).toMatchObject({
      value: { feePayer: other },
    });
    expectUnfit(read({ extra: { feePayer: other } }), /^extra\.feePayer is not an address of/);
  });

  test("is there, and a text", () => {
    const without: PaymentRequirements = { ...REQUIREMENTS };
    Reflect.deleteProperty(without, "extra");
    expectUnfit(readDemand(without, optionsFor(PAYMENT)), /^extra\.feePayer/);
    for (const feePayer of [undefined, null, 7, "", [PAYMENT.feePayer]]) {
      expectUnfit(read({ extra: { feePayer } }), /^extra\.feePayer/);
    }
  });
});

describe("what is served (V8, V9)", () => {
  test("an asset that is configured", () => {
    expectUnfit(read({ asset: testKey(9).address }), /^asset is not one that is served/);
  });

  test("also one whose mint has not been read, as its payments can be told apart without", () => {
    const tokens = new Map([[USDC, { address: USDC, symbol: "USDC", decimals: 6, program: null }]]);
    expect(read({}, { tokens })).toMatchObject({ ok: true });
  });

  test("recipients on the list, where there is one", () => {
    const { payTo } = PAYMENT;
    expect(read({}, { payTo: new Set([payTo]) })).toMatchObject({ ok: true });
    expectUnfit(read({}, { payTo: new Set([testKey(9).address]) }), /^payTo is not a recipient/);
    expectUnfit(read({}, { payTo: new Set() }), /^payTo is not a recipient/);
  });
});

describe("extra.memo", () => {
  const { feePayer } = PAYMENT;

  test("is what the payment has to say", () => {
    expect(read({ extra: { feePayer, memo: "order 7" } })).toMatchObject({
      value: { memo: "order 7" },
    });
  });

  test("asks for nothing where it is empty, as clients take it", () => {
    expect(read({ extra: { feePayer, memo: "" } })).toMatchObject({ value: { memo: undefined } });
  });

  test("is a text", () => {
    for (const memo of [null, 7, true, ["a"], {}]) {
      expectUnfit(read({ extra: { feePayer, memo } }), /^extra\.memo is not a string$/);
    }
  });
});

test("the first fault in the order of the rules is told", () => {
  const bad = { maxAmountRequired: "0", payTo: "x", asset: "y", extra: { memo: 7 } };
  expectUnfit(read(bad), /^maxAmountRequired/);
  expectUnfit(read({ ...bad, maxAmountRequired: "1" }), /^payTo is not a Solana/);
  const good = { ...bad, maxAmountRequired: "1", payTo: PAYMENT.payTo };
  expectUnfit(read(good), /^asset is not a Solana/);
  expectUnfit(read({ ...good, asset: USDC }), /^extra\.feePayer/);
});
