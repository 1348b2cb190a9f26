/** What a backend has answered before its payment is settled. */
import { expect, it } from "vitest";
import { ANSWERED_MS, MAX_STORED_BODY_BYTES } from "../../../src/ledger/ledger.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment } from "./example-payment.ts";
import {
  ANSWER,
  ASKED,
  bring,
  CALLER,
  OTHER_TARGET,
  replayed,
  SETTLEMENT,
  sign,
  termsOf,
  UNANSWERED,
} from "./ledger-driver.ts";

export function describeAnswered(open: OpenLedger): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key } = payment;
  const sold = { ...ASKED, response: ANSWER };
  const answered = { kind: "answered", idempotencyKey: CALLER, sold } as const;
  const KEPT = { ...ANSWER, bodyHash: ASKED.bodyHash };

  it("is kept with the claim, settled with it, and given again once it is delivered", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "claimed");
    expect(await ledger.step(key, answered)).toBe(true);
    expect(await ledger.answer(key)).toEqual(KEPT);
    // Whoever asks for something else with it waits, and goes on with nothing.
    const elsewhere = termsOf(payment, { target: OTHER_TARGET });
    expect(await ledger.step(key, { kind: "claim", terms: elsewhere })).toMatchObject({
      kind: "busy",
    });
    await sign(ledger, [payment]);
    await ledger.step(key, { kind: "leave" });
    expect(await ledger.step(key, { kind: "claim", terms: elsewhere })).toMatchObject({
      kind: "busy",
    });
    expect(await ledger.step(key, { kind: "claim", terms: termsOf(payment) })).toMatchObject({
      kind: "unresolved",
    });
    await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
    expect(await ledger.answer(key)).toEqual(KEPT);
    const shown = await ledger.books.show(key);
    expect(shown?.events.map(({ note }) => note)).toContain(
      "answered by the backend and kept, to be settled",
    );
    // For its own target alone.
    expect(await ledger.step(key, { kind: "claim", terms: elsewhere })).toMatchObject({
      kind: "spent",
      delivered: false,
    });
    // What breaks leaves it there.
    expect(await ledger.step(key, { kind: "delivering" })).toBe(true);
    await ledger.step(key, { kind: "undelivered", broken: UNANSWERED });
    expect(await ledger.answer(key)).toEqual(KEPT);
    expect(await ledger.step(key, { kind: "delivering" })).toBe(true);
    await ledger.step(key, { kind: "delivered", sold });
    expect(await replayed(ledger, key)).toMatchObject(ANSWER);
  });

  it("goes with its claim, and the next one has its own", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "claimed");
    await ledger.step(key, answered);
    await ledger.step(key, { kind: "released" });
    expect(await ledger.answer(key)).toBeUndefined();
    await bring(ledger, payment, "claimed");
    expect(await ledger.answer(key)).toBeUndefined();
    const other = { ...ANSWER, body: new Uint8Array([7]) };
    await ledger.step(key, answered);
    expect(await ledger.step(key, { ...answered, sold: { ...sold, response: other } })).toBe(true);
    expect((await ledger.answer(key))?.body).toEqual(other.body);
  });

  it("is a step of the claim alone where it is too large", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "claimed");
    const body = new Uint8Array(MAX_STORED_BODY_BYTES + 1);
    const large = { ...sold, response: { ...ANSWER, body } };
    expect(await ledger.step(key, { ...answered, sold: large })).toBe(true);
    expect(await ledger.answer(key)).toBeUndefined();
    expect(await ledger.step(key, { kind: "answered", idempotencyKey: CALLER })).toBe(true);
    await sign(ledger, [payment]);
    await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
    // Any other target of its path is as good.
    const elsewhere = termsOf(payment, { target: OTHER_TARGET });
    expect(await ledger.step(key, { kind: "claim", terms: elsewhere })).toMatchObject({
      kind: "settled",
    });
  });

  it.each([
    "none",
    "offered",
    "begun",
    "signed",
    "handed",
    "settled",
    "delivered",
    "failed",
  ] as const)("is none of a payment that is %s", async (state) => {
    const { ledger } = place();
    await bring(ledger, payment, state);
    expect(await ledger.step(key, answered)).toBe(false);
    expect(await ledger.answer(key)).toBeUndefined();
  });

  it("is none of somebody else's claim", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "claimed");
    expect(await ledger.step(key, { ...answered, idempotencyKey: "another" })).toBe(false);
    const worker = ledger.worker("one");
    expect(await worker.step(key, answered)).toBe(false);
    expect(await ledger.answer(key)).toBeUndefined();
  });

  it("is forgotten when it has waited for an hour", async () => {
    const { ledger, time } = place();
    await bring(ledger, payment, "claimed");
    await ledger.step(key, answered);
    await sign(ledger, [payment]);
    await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
    time.nowMs += ANSWERED_MS - 1;
    await ledger.upkeep.reap();
    expect(await ledger.answer(key)).toEqual(KEPT);
    time.nowMs += 1;
    await ledger.upkeep.reap();
    expect(await ledger.answer(key)).toBeUndefined();
  });
}
