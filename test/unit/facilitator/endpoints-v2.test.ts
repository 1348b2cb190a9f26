import { describe, expect, test } from "vitest";
import {
  FacilitatorFault,
  HeldPayment,
  type SettleOptions,
} from "../../../src/payments/facilitator.ts";
import { codeV2, PAYMENT_FLOW, paymentV2, requirementsV2 } from "../../../src/x402/version-2.ts";
import { exampleRequest, PAYER, TRANSACTION } from "../payments/settlement/example-request.ts";
import { ask, good, stage } from "./endpoints-stage.ts";

const goodV2 = {
  x402Version: 2,
  paymentPayload: paymentV2(exampleRequest),
  paymentRequirements: requirementsV2(exampleRequest.paymentRequirements, PAYMENT_FLOW),
};
const network = "eip155:84532";
const VALUE = "invalid_exact_evm_payload_authorization_value";
const detail = "it is less";

const lost = (transaction?: string) =>
  new FacilitatorFault("unknown", "unexpected_settle_error", "lost", { transaction });

describe("a call in version 2", () => {
  test("is answered in its words, and one of version 1 beside it in its own", async () => {
    const at = await stage();
    expect((await ask(at, "/verify", { body: goodV2 })).body).toEqual({
      isValid: true,
      payer: PAYER,
    });
    const settled = { success: true, transaction: TRANSACTION, payer: PAYER };
    const later = await ask(at, "/settle", { body: goodV2 });
    expect([later.status, later.body]).toEqual([200, { ...settled, network }]);
    const former = await ask(at, "/settle", { body: good });
    expect(former.body).toEqual({ ...settled, network: "base-sepolia" });
    expect(at.asked.map(({ request }) => request.paymentPayload.x402Version)).toEqual([2, 2, 1]);
    expect(at.asked[1]?.request.paymentRequirements).toMatchObject({
      network: "base-sepolia",
      maxAmountRequired: "10000",
      resource: exampleRequest.paymentRequirements.resource,
    });
  });

  test("is refused with its codes and its names for our sentence", async () => {
    const refused = { payer: PAYER, detail } as const;
    const at = await stage({
      facilitator: {
        verify: async () => ({ ...refused, isValid: false, invalidReason: VALUE }),
        settle: async () => ({
          ...refused,
          success: false,
          errorReason: VALUE,
          transaction: "",
          network: "base-sepolia",
        }),
      },
    });
    const said = { status: 200, payer: PAYER, code: codeV2(VALUE) };
    const verified = await ask(at, "/verify", { body: goodV2 });
    expect([verified.status, verified.body]).toEqual([
      said.status,
      { isValid: false, invalidReason: said.code, payer: PAYER, invalidMessage: detail },
    ]);
    const settled = await ask(at, "/settle", { body: goodV2 });
    expect([settled.status, settled.body]).toEqual([
      said.status,
      {
        success: false,
        errorReason: said.code,
        transaction: "",
        network,
        payer: PAYER,
        errorMessage: detail,
      },
    ]);
  });

  test.each([
    ["no requirements", { paymentRequirements: null }, "invalid_payment_requirements"],
    ["a version beside it that is no number", { x402Version: "2" }, "invalid_payload"],
    [
      "a payload that is none",
      { paymentPayload: { ...goodV2.paymentPayload, payload: {} } },
      "invalid_payload",
    ],
    [
      "the names of version 1",
      {
        paymentPayload: {
          ...goodV2.paymentPayload,
          accepted: { ...goodV2.paymentPayload.accepted, network: "base-sepolia" },
        },
      },
      "invalid_network",
    ],
  ])("with %s is refused with status 200, which every client reads", async (_, spoilt, code) => {
    const at = await stage();
    const body = { ...goodV2, ...spoilt };
    expect(await ask(at, "/verify", { body })).toMatchObject({
      status: 200,
      body: { isValid: false, invalidReason: code, invalidMessage: expect.any(String) },
    });
    expect(await ask(at, "/settle", { body })).toMatchObject({
      status: 200,
      body: {
        success: false,
        errorReason: code,
        transaction: "",
        errorMessage: expect.any(String),
      },
    });
    expect(at.asked).toEqual([]);
  });

  test("that is not worth its gas is told the amount by its name", async () => {
    const at = await stage({ leastAmount: () => 10_001n });
    expect((await ask(at, "/verify", { body: goodV2 })).body).toMatchObject({
      invalidMessage: "amount must be 10001 or more to be settled here",
    });
  });

  test("is 500 in its words where it could not be judged", async () => {
    const fail = async () => {
      throw new FacilitatorFault("unavailable", "unexpected_verify_error", "secret");
    };
    const at = await stage({ facilitator: { verify: fail } });
    const answer = await ask(at, "/verify", { body: goodV2 });
    expect([answer.status, answer.body]).toEqual([
      500,
      {
        isValid: false,
        invalidReason: "unexpected_verify_error",
        payer: PAYER,
        invalidMessage: expect.any(String),
      },
    ]);
  });
});

describe("a settlement of version 2 whose outcome is not known", () => {
  const pending = { errorReason: "settlement_pending", transaction: TRANSACTION };
  const open = { errorReason: "unexpected_settle_error", transaction: "" };

  test.each([
    ["with what was sent", lost(TRANSACTION), 200, pending],
    ["that is held", new HeldPayment(TRANSACTION), 200, pending],
    ["without it", lost(), 500, open],
  ])("%s", async (_, fault, status, said) => {
    const at = await stage({ facilitator: { settle: () => Promise.reject(fault) } });
    const answer = await ask(at, "/settle", { body: goodV2 });
    expect([answer.status, answer.body]).toEqual([
      status,
      {
        ...said,
        success: false,
        network,
        payer: PAYER,
        errorMessage: expect.any(String),
      },
    ]);
    const former = await ask(at, "/settle", { body: good });
    expect([former.status, former.body]).toEqual([
      500,
      {
        success: false,
        errorReason: "unexpected_settle_error",
        transaction: "",
        network: "base-sepolia",
        payer: PAYER,
        detail: expect.any(String),
      },
    ]);
  });

  test("is repeated under its key by the next call without one, once for each such answer", async () => {
    const keys: Pick<SettleOptions, "idempotencyKey" | "isNewKey">[] = [];
    let isKnown = false;
    const at = await stage({
      facilitator: {
        async settle(_, { idempotencyKey, isNewKey }) {
          keys.push({
            ...(idempotencyKey !== undefined && { idempotencyKey }),
            ...(isNewKey !== undefined && { isNewKey }),
          });
          if (!isKnown) throw lost(TRANSACTION);
          return { success: true, transaction: TRANSACTION, network: "base-sepolia", payer: PAYER };
        },
      },
    });
    const call = (headers = {}) => ask(at, "/settle", { body: goodV2, headers });
    await call();
    await call();
    isKnown = true;
    await call({ "Idempotency-Key": "theirs" });
    expect((await call()).body).toMatchObject({ success: true });
    await call();
    await ask(at, "/settle", { body: good });
    const [first, second, third, fourth, fifth, sixth] = keys;
    expect(first).toEqual({ idempotencyKey: expect.any(String), isNewKey: true });
    const again = { idempotencyKey: first?.idempotencyKey };
    expect([second, fourth]).toEqual([again, again]);
    expect(third).toEqual({ idempotencyKey: "theirs" });
    expect(fifth?.isNewKey).toBe(true);
    expect(fifth?.idempotencyKey).not.toBe(first?.idempotencyKey);
    expect(sixth).toEqual({});
  });
});
