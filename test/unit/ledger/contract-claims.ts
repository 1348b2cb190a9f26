/** Claims, settlements that begin, and every transition between the states. */
import { describe, expect, it } from "vitest";
import { isEvmPayload } from "../../../src/x402/payment-key.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment } from "./example-payment.ts";
import {
  BINDING,
  bring,
  CALLER,
  FACILITATOR,
  FAILURE,
  forged,
  observe,
  OBSERVED,
  OTHER_TARGET,
  perform,
  repriced,
  SETTLEMENT,
  SALE,
  sign,
  storedTermsOf,
  termsOf,
  word,
} from "./ledger-driver.ts";
import { TRANSITIONS } from "./ledger-transitions.ts";

export function describeClaims(open: OpenLedger): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key, request } = payment;

  describe("answers every transition from every state as its contract says", () => {
    for (const { start, cells } of TRANSITIONS) {
      it(`from ${start}`, async () => {
        const { ledger } = place();
        let number = 0;
        for (const { operation, answer, next } of cells) {
          number += 1;
          const each = examplePayment(number);
          await bring(ledger, each, start);
          const met = await perform(ledger, each, operation);
          expect(`${operation}: ${met}`).toBe(`${operation}: ${answer}`);
          const state = await observe(ledger, each);
          expect(`after ${operation}: ${state}`).toBe(`after ${operation}: ${OBSERVED[next]}`);
        }
      });
    }
  });

  it("grants one of fifty concurrent claims, and to the others it is unresolved", async () => {
    const { ledger } = place();
    const claims = Array.from({ length: 50 }, async () =>
      word(ledger.step(key, { kind: "claim", terms: termsOf(payment) })),
    );
    const words = (await Promise.all(claims)).sort();
    expect(words).toEqual(["granted", ...Array.from({ length: 49 }, () => "unresolved")]);
  });

  it("grants one of fifty concurrent settlements that show no key", async () => {
    const { ledger } = place();
    const begun = Array.from({ length: 50 }, async () =>
      word(ledger.step(key, { kind: "begin", request, caller: undefined })),
    );
    const words = (await Promise.all(begun)).sort();
    expect(words).toEqual(["granted", ...Array.from({ length: 49 }, () => "taken")]);
  });

  it("starts one of fifty concurrent deliveries", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "settled");
    const started = Array.from({ length: 50 }, () => ledger.step(key, { kind: "delivering" }));
    expect((await Promise.all(started)).filter(Boolean)).toHaveLength(1);
  });

  it("gives an unresolved claim the terms of its first use, word for word", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "handed");
    const later = termsOf(payment, { idempotencyKey: "a later key", target: OTHER_TARGET });
    expect(await ledger.step(key, { kind: "claim", terms: later })).toEqual({
      kind: "unresolved",
      terms: storedTermsOf(payment),
      facilitator: FACILITATOR,
      handedOverAt: null,
    });
    const signed = examplePayment(2);
    await bring(ledger, signed, "signed");
    expect(await ledger.step(signed.key, { kind: "claim", terms: termsOf(signed) })).toEqual({
      kind: "unresolved",
      terms: storedTermsOf(signed),
      facilitator: null,
      isSigned: true,
      handedOverAt: null,
    });
  });

  it("remembers the facilitator that a payment was handed to last", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "handed");
    await ledger.step(key, { kind: "handedOver", facilitator: "https://second.example.com" });
    expect(await ledger.step(key, { kind: "claim", terms: termsOf(payment) })).toMatchObject({
      facilitator: "https://second.example.com",
    });
  });

  it("tells who settles a payment again the facilitator that it was handed to", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "begunHanded");
    expect(await ledger.step(key, { kind: "begin", request, caller: CALLER })).toEqual({
      kind: "granted",
      facilitator: FACILITATOR,
      handedOverAt: null,
    });
    const [listed] = await ledger.queues.handedOvers(10);
    expect(listed).toMatchObject({ key, idempotencyKey: CALLER, facilitator: FACILITATOR });
  });

  it("hands over nothing that could not be asked for again", async () => {
    const { ledger } = place();
    await ledger.step(key, { kind: "begin", request, caller: undefined });
    expect(await word(ledger.step(key, { kind: "handedOver", facilitator: FACILITATOR }))).toBe(
      "conflict",
    );
    expect(await ledger.queues.handedOvers(10)).toEqual([]);
  });

  it("recalls what a payment was first used for, whatever it asks for now, and makes no row", async () => {
    const { ledger } = place();
    const unseen = examplePayment(2);
    await bring(ledger, payment, "failed");
    expect((await ledger.recall(request.paymentPayload, SALE)).request).toEqual(request);
    expect((await ledger.recall(unseen.request.paymentPayload, SALE)).request).toBeUndefined();
    expect((await ledger.recall(forged(request).paymentPayload, SALE)).request).toBeUndefined();
    expect(await word(ledger.step(unseen.key, { kind: "claim", terms: termsOf(unseen) }))).toBe(
      "granted",
    );
  });

  it("recalls a payment by another spelling, and one of several assets by its signature", async () => {
    const { ledger } = place();
    const asset = "0x5dEaC602762362FE5f135FA5904351916053cF70";
    const other = repriced(forged(request), { asset });
    const otherKey = key.replace(/0x[0-9a-f]{40}/u, asset.toLowerCase()) as typeof key;
    await ledger.step(otherKey, { kind: "begin", request: other, caller: undefined });
    await ledger.step(key, { kind: "begin", request, caller: undefined });
    expect((await ledger.recall(other.paymentPayload, SALE)).request).toEqual(other);
    const { payload } = request.paymentPayload;
    if (!isEvmPayload(payload)) throw new Error("not an EVM payment");
    const authorization = {
      ...payload.authorization,
      from: payload.authorization.from.toLowerCase(),
      nonce: payload.authorization.nonce.toUpperCase().replace("0X", "0x"),
    };
    const loud = { ...request.paymentPayload, payload: { ...payload, authorization } };
    expect((await ledger.recall(loud, SALE)).request).toEqual(request);
  });

  it("recalls nothing of a payload that nobody can read", async () => {
    const { ledger } = place();
    const payload = { transaction: "AQAB" };
    const opaque = { x402Version: 1, scheme: "exact", network: "solana", payload } as const;
    expect((await ledger.recall(opaque, SALE)).request).toBeUndefined();
  });

  it("gives back what was settled and why it failed", async () => {
    const { ledger } = place();
    const refused = examplePayment(2);
    await bring(ledger, payment, "settled");
    await bring(ledger, refused, "failed");
    const settled = { kind: "settled", settlement: SETTLEMENT };
    expect(await ledger.step(key, { kind: "claim", terms: termsOf(payment) })).toEqual({
      ...settled,
      attempts: 0,
      idempotencyKey: CALLER,
    });
    expect(await ledger.step(key, { kind: "begin", request, caller: CALLER })).toEqual(settled);
    expect(await ledger.outcome(key)).toEqual(settled);
    const failed = { kind: "failed", failure: FAILURE };
    expect(await ledger.step(refused.key, { kind: "claim", terms: termsOf(refused) })).toEqual(
      failed,
    );
    expect(await ledger.outcome(refused.key)).toEqual(failed);
  });

  it("keeps the first reason of a payment that fails twice", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "failed");
    await ledger.step(key, {
      kind: "failed",
      failure: { code: "invalid_transaction_state", detail: "again" },
    });
    expect(await ledger.outcome(key)).toEqual({ kind: "failed", failure: FAILURE });
  });

  it("has no failure of a payment that the chain says was paid after all", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "failed");
    await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
    expect(await ledger.step(key, { kind: "claim", terms: termsOf(payment) })).toMatchObject({
      kind: "settled",
    });
    expect(await ledger.books.show(key)).toMatchObject({ failureCode: null, failureDetail: null });
  });

  it("signs a payment that failed without bytes for another caller, on that one's terms", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "begunfailed");
    expect(
      await word(
        ledger.step(key, { kind: "begin", request: repriced(request), caller: "another key" }),
      ),
    ).toBe("granted");
    expect(await ledger.outcome(key)).toEqual({ kind: "pending", version: 3 });
    expect(await word(ledger.step(key, { kind: "begin", request, caller: "another key" }))).toBe(
      "taken",
    );
    const { id: transaction } = await sign(ledger, [payment]);
    expect(await ledger.outcome(key)).toEqual({ kind: "pending", version: 4, transaction });
  });

  it("lists what was handed over and waits for its outcome, oldest first", async () => {
    const { ledger, time } = place();
    const numbers = [3, 1, 2];
    for (const number of numbers) {
      time.nowMs += 1000;
      await bring(ledger, examplePayment(number), "handed");
    }
    for (const [number, state] of ["claimed", "handedsigned", "signed", "settled"].entries()) {
      const start = TRANSITIONS.find((row) => row.start === state)?.start ?? "none";
      await bring(ledger, examplePayment(10 + number), start);
    }
    const listed = await ledger.queues.handedOvers(100);
    expect(listed).toEqual(
      numbers.map((number, index) => ({
        key: examplePayment(number).key,
        request: examplePayment(number).request,
        idempotencyKey: CALLER,
        facilitator: FACILITATOR,
        handedOverAt: null,
        route: null,
        sinceMs: time.nowMs - 2000 + index * 1000,
      })),
    );
    expect(await ledger.queues.handedOvers(2)).toEqual(listed.slice(0, 2));
  });

  it("binds a payment to its first use", async () => {
    const { ledger } = place();
    await ledger.step(key, { kind: "claim", terms: termsOf(payment, { binding: BINDING }) });
    expect(await ledger.books.show(key)).toMatchObject({ binding: BINDING, state: "CLAIMED" });
  });
}
