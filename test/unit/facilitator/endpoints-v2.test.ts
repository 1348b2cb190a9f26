import { describe, expect, test } from "vitest";
import { Callers } from "../../../src/facilitator/callers.ts";
import {
  FacilitatorFault,
  HeldPayment,
  type SettleOptions,
} from "../../../src/payments/facilitator.ts";
import { failure, invalid } from "../../../src/payments/said-no.ts";
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
const OPEN = "unexpected_settle_error";

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

  test("is refused with a code of its own where there is one, of which version 1 hears nothing", async () => {
    const own = "invalid_exact_evm_payload_authorization_from_address_kyt";
    const refusal = { code: "invalid_payload", codeV2: own, detail } as const;
    const at = await stage({
      facilitator: {
        verify: async () => invalid(refusal, PAYER),
        settle: async () => failure(refusal, "base-sepolia", PAYER),
      },
    });
    const bodies = async (path: string) => {
      const [two, one] = [
        await ask(at, path, { body: goodV2 }),
        await ask(at, path, { body: good }),
      ];
      return [two.body, one.body];
    };
    expect(await bodies("/verify")).toEqual([
      { isValid: false, invalidReason: own, payer: PAYER, invalidMessage: detail },
      { isValid: false, invalidReason: "invalid_payload", payer: PAYER, detail },
    ]);
    const unsettled = { success: false, transaction: "", payer: PAYER };
    expect(await bodies("/settle")).toEqual([
      { ...unsettled, network, errorReason: own, errorMessage: detail },
      { ...unsettled, network: "base-sepolia", errorReason: "invalid_payload", detail },
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

  /** Which key each call of `/settle` was settled under, where those before the last end as given. */
  async function keysOf(
    calls: readonly { readonly fault?: Error; readonly bearer?: string; readonly body?: object }[],
  ): Promise<readonly (string | undefined)[]> {
    const keys: (string | undefined)[] = [];
    const callers = new Callers([
      { gateway: "north", bearer: "n" },
      { gateway: "south", bearer: "s" },
      { gateway: null, bearer: "shared" },
    ]);
    const at = await stage({
      callers,
      facilitator: {
        async settle(_, { idempotencyKey }) {
          const { fault } = calls[keys.length] ?? {};
          keys.push(idempotencyKey);
          if (fault !== undefined) throw fault;
          return { success: true, transaction: TRANSACTION, network: "base-sepolia", payer: PAYER };
        },
      },
    });
    for (const { bearer = "n", body = goodV2 } of calls) {
      const headers = { Authorization: `Bearer ${bearer}` };
      await ask(at, "/settle", { body, headers });
    }
    return keys;
  }

  test.each([
    ["our own", new Error("the ledger does not answer")],
    ["one for which nothing can be done now", new FacilitatorFault("unavailable", OPEN, "later")],
  ])("keeps its key over a fault that is %s", async (_, fault) => {
    const [first, second, third] = await keysOf([{ fault: lost(TRANSACTION) }, { fault }, {}]);
    expect([second, third]).toEqual([first, first]);
  });

  test("has its key after a first call that ended in a fault of ours", async () => {
    const [first, second] = await keysOf([{ fault: new Error("the ledger does not say") }, {}]);
    expect(second).toBe(first);
  });

  test("has a new key where certainly nothing was begun", async () => {
    const fault = new FacilitatorFault("unavailable", OPEN, "later");
    const [first, second] = await keysOf([{ fault }, {}]);
    expect(second).not.toBe(first);
  });

  test("is a gateway's own: nobody else who shows the same payment has its answer", async () => {
    const fault = lost(TRANSACTION);
    const [first, other, nameless, again] = await keysOf([
      { fault },
      { bearer: "s" },
      { bearer: "shared" },
      {},
    ]);
    expect([other, nameless]).not.toContain(first);
    expect(again).toBe(first);
  });

  test.each([
    [
      "another signature",
      {
        paymentPayload: {
          ...goodV2.paymentPayload,
          payload: { ...goodV2.paymentPayload.payload, signature: "0x00" },
        },
      },
    ],
    [
      "another resource",
      { paymentPayload: { ...goodV2.paymentPayload, resource: { url: "https://other.example/" } } },
    ],
    ["another price", { paymentRequirements: { ...goodV2.paymentRequirements, amount: "1" } }],
  ])("is not repeated by whoever shows the payment with %s", async (_, changes) => {
    const body = { ...goodV2, ...changes };
    const calls = [
      { fault: lost(TRANSACTION), bearer: "shared" },
      { body, bearer: "shared" },
    ];
    const [first, other, again] = await keysOf([...calls, { bearer: "shared" }]);
    expect(other).not.toBe(first);
    expect(again).toBe(first);
  });

  test("is answered in its shape where its payload is one of nobody's, however deep", async () => {
    const at = await stage({ facilitator: { settle: () => Promise.reject(lost()) } });
    const accepted = { ...goodV2.paymentPayload.accepted, network: "somewhere:1" };
    const text = JSON.stringify({
      ...goodV2,
      paymentPayload: { ...goodV2.paymentPayload, accepted, payload: { deep: "DEEP" } },
      paymentRequirements: { ...goodV2.paymentRequirements, network: "somewhere:1" },
    });
    const body = text.replace('"DEEP"', `${"[".repeat(25_000)}${"]".repeat(25_000)}`);
    expect((await ask(at, "/settle", { body })).body).toMatchObject({ success: false });
  });
});
