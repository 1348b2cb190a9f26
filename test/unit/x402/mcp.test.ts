import { describe, expect, test } from "vitest";
import {
  ERROR_MEMBER,
  metaPayment,
  metaReceipt,
  PAYMENT_META,
  PAYMENT_REQUIRED_CODE,
  paymentRequiredOf,
  paymentRequiredOfError,
  paymentRequiredResult,
  RECEIPT_META,
  receiptOf,
  withPayment,
  withReceipt,
} from "../../../src/x402/mcp.ts";
import {
  ERROR_V1,
  FAILED_V2,
  PARAMS_V1,
  PARAMS_V2,
  RECEIPT_V2,
  REQUIRED_V1,
  REQUIRED_V2,
  RESULT_V2,
} from "./mcp-examples.ts";

describe("what a call costs", () => {
  test("is told as the specification shows it: as it is, and the same as a text", () => {
    const { isError, structuredContent, content } = paymentRequiredResult(REQUIRED_V2);
    expect({ isError, structuredContent }).toEqual({
      isError: true,
      structuredContent: REQUIRED_V2,
    });
    expect(content.map(({ type }) => type)).toEqual(["text"]);
    expect(content[0]?.text).toBe(JSON.stringify(structuredContent));
  });

  test("is told beside a settlement that failed, which is read back", () => {
    const told = paymentRequiredResult(REQUIRED_V2, { ...FAILED_V2, payer: "" });
    expect(told.structuredContent["x402/payment-response"]).toEqual({ ...FAILED_V2, payer: "" });
    expect(receiptOf(told)).toEqual({ ...FAILED_V2, payer: "" });
    expect(paymentRequiredOf(told)).toMatchObject(REQUIRED_V2);
  });

  test("is found in each place of version 2, in their order, also as earlier sellers wrote it, and in an error of version 1", () => {
    const { content, structuredContent } = paymentRequiredResult(REQUIRED_V2);
    const other = { ...REQUIRED_V2, error: "another" };
    const text = [{ type: "text", text: JSON.stringify(other) }];
    const wrapped = { "x402/error": { code: 402, message: "", data: REQUIRED_V2 } };
    for (const result of [
      { isError: true, content: text, structuredContent },
      { isError: true, content: text, structuredContent: wrapped },
      { isError: true, content },
      { isError: true, content: [{ type: "text", text: JSON.stringify(wrapped) }] },
    ]) {
      expect(paymentRequiredOf(result)).toEqual(REQUIRED_V2);
    }
    expect(paymentRequiredOf({ isError: true, content: text })).toEqual(other);
    expect(paymentRequiredOfError(ERROR_V1)).toEqual(REQUIRED_V1);
  });

  test("is nothing in a result that is none, or an error of another kind", () => {
    const { content, structuredContent } = paymentRequiredResult(REQUIRED_V2);
    expect(paymentRequiredOf({ content, structuredContent })).toBeUndefined();
    expect(paymentRequiredOf({ isError: true, content: [] })).toBeUndefined();
    expect(paymentRequiredOf({ isError: true, content: [{ text: "{" }] })).toBeUndefined();
    expect(paymentRequiredOf({ isError: true, structuredContent: { x402Version: 2 } })).toBe(
      undefined,
    );
    expect(paymentRequiredOf(null)).toBeUndefined();
    expect(paymentRequiredOfError({ ...ERROR_V1, code: -32602 })).toBeUndefined();
  });
});

describe("a payment in _meta", () => {
  test("is read in either version, as the specification shows it", () => {
    const newer = metaPayment(PARAMS_V2._meta);
    expect(newer).toMatchObject({
      ok: true,
      value: {
        version: 2,
        payment: { network: "base-sepolia", scheme: "exact" },
        accepted: { amount: "10000", network: "eip155:84532" },
      },
    });
    const older = metaPayment(PARAMS_V1._meta);
    expect(older).toMatchObject({
      ok: true,
      value: { version: 1, payment: { network: "kairos-testnet" } },
    });
  });

  test("is refused where it has not that shape, and is none where it is not there", () => {
    const code = (payment: unknown) => {
      const read = metaPayment({ "x402/payment": payment });
      return read === undefined || read.ok ? read : read.error.code;
    };
    expect(code("eyJ4NDAyVmVyc2lvbiI6Mn0=")).toBe("invalid_payload");
    expect(code(null)).toBe("invalid_payload");
    expect(code([])).toBe("invalid_payload");
    expect(code({})).toBe("invalid_payload");
    expect(code({ x402Version: 3 })).toBe("invalid_x402_version");
    expect(code({ x402Version: 2 })).toBe("invalid_payload");
    expect(metaPayment({ progressToken: 1 })).toBeUndefined();
    expect(metaPayment(Object.create({ "x402/payment": {} }))).toBeUndefined();
    expect(metaPayment(undefined)).toBeUndefined();
  });

  test("is put beside what else is there", () => {
    const { name, arguments: asked, _meta } = PARAMS_V2;
    const bare = { name, arguments: asked };
    expect(withPayment(bare, _meta["x402/payment"])).toEqual(PARAMS_V2);
    const other = { ...bare, _meta: { progressToken: 7 } };
    expect(withPayment(other, _meta["x402/payment"])["_meta"]).toEqual({
      progressToken: 7,
      ..._meta,
    });
  });
});

test("what became of a payment is in _meta, in the words of its version", () => {
  const settled = { ...RECEIPT_V2, network: "base-sepolia" };
  expect(metaReceipt(settled, 2)).toEqual(RECEIPT_V2);
  expect(metaReceipt(settled, 1)).toEqual(settled);
  const { content, _meta } = RESULT_V2;
  expect(withReceipt({ content }, metaReceipt(settled, 2))).toEqual(RESULT_V2);
  expect(receiptOf(RESULT_V2)).toEqual(_meta["x402/payment-response"]);
  expect(receiptOf({ content })).toBeUndefined();
});

test("the words are those of the specification", () => {
  expect([PAYMENT_META, RECEIPT_META, ERROR_MEMBER, PAYMENT_REQUIRED_CODE]).toEqual([
    "x402/payment",
    "x402/payment-response",
    "x402/error",
    402,
  ]);
});
