/** Payments that a facilitator elsewhere has refused, where the chain can be asked whether it settled them. */
import { expect, it } from "vitest";
import { FIRST_DOUBT_MS, type Ledger } from "../../../src/ledger/ledger.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, type ExamplePayment } from "./example-payment.ts";
import {
  bring,
  CALLER,
  FACILITATOR,
  FAILURE,
  forged,
  OTHER_BINDING,
  SETTLEMENT,
  sign,
  storedTermsOf,
  termsOf,
  word,
} from "./ledger-driver.ts";

const HEAD = 31_337;
const payment = examplePayment(1);
const { key, request } = payment;

/** Handed over where a chain could be asked. */
async function hand(ledger: Ledger, each: ExamplePayment = payment, head?: number): Promise<void> {
  await bring(ledger, each, "claimed");
  await ledger.step(each.key, { kind: "handedOver", facilitator: FACILITATOR, head: head ?? HEAD });
}

async function doubt(ledger: Ledger, each: ExamplePayment = payment): Promise<void> {
  await hand(ledger, each);
  await ledger.step(each.key, { kind: "failed", failure: FAILURE });
}

export function describeDoubts(open: OpenLedger): void {
  const place = eachTestIn(open);

  it("keep the head of their first hand-over, whoever is asked after it", async () => {
    const { ledger } = place();
    await hand(ledger);
    await ledger.step(key, {
      kind: "handedOver",
      facilitator: "https://second.example.com",
      head: HEAD + 1,
    });
    const unresolved = { kind: "unresolved", handedOverAt: HEAD };
    expect(await ledger.step(key, { kind: "claim", terms: termsOf(payment) })).toMatchObject(
      unresolved,
    );
    expect(await ledger.queues.handedOvers(1)).toMatchObject([{ key, handedOverAt: HEAD }]);
    const granted = { kind: "granted", handedOverAt: HEAD };
    expect(await ledger.step(key, { kind: "begin", request, caller: CALLER })).toMatchObject(
      granted,
    );
  });

  it("get no head later that they had not at first", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "handed");
    await ledger.step(key, {
      kind: "handedOver",
      facilitator: "https://second.example.com",
      head: HEAD,
    });
    expect(await ledger.queues.handedOvers(1)).toMatchObject([{ key, handedOverAt: null }]);
    await ledger.step(key, { kind: "failed", failure: FAILURE });
    expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe("failed");
  });

  it("are unresolved for whoever presents them, and for nothing else", async () => {
    const { ledger } = place();
    await doubt(ledger);
    expect(await ledger.step(key, { kind: "claim", terms: termsOf(payment) })).toEqual({
      kind: "unresolved",
      terms: storedTermsOf(payment),
      facilitator: FACILITATOR,
      handedOverAt: HEAD,
      failure: FAILURE,
    });
    expect(
      await word(
        ledger.step(key, { kind: "claim", terms: termsOf(payment, { binding: OTHER_BINDING }) }),
      ),
    ).toBe("foreign");
    expect(
      await word(ledger.step(key, { kind: "claim", terms: termsOf({ request: forged(request) }) })),
    ).toBe("forged");
  });

  it("are begun anew by nobody", async () => {
    const { ledger } = place();
    await doubt(ledger);
    const failed = { kind: "failed", failure: FAILURE };
    for (const caller of ["another key", undefined]) {
      expect(await ledger.step(key, { kind: "begin", request, caller })).toEqual(failed);
    }
    // What the chain may show is for whoever began it.
    const doubted = { facilitator: FACILITATOR, handedOverAt: HEAD };
    expect(await ledger.step(key, { kind: "begin", request, caller: CALLER })).toEqual({
      ...failed,
      doubted,
    });
    expect(
      await word(ledger.step(key, { kind: "begin", request: forged(request), caller: undefined })),
    ).toBe("taken");
  });

  it("are due some time after they were refused, and again when that is said", async () => {
    const { ledger, time } = place();
    await doubt(ledger);
    expect(await ledger.queues.doubted(10)).toEqual([]);
    time.nowMs += FIRST_DOUBT_MS;
    const sinceMs = time.nowMs - FIRST_DOUBT_MS;
    const due = { key, request, route: null, idempotencyKey: CALLER, facilitator: FACILITATOR };
    expect(await ledger.queues.doubted(10)).toEqual([{ ...due, handedOverAt: HEAD, sinceMs }]);
    await ledger.step(key, { kind: "lookedAgain", nextMs: time.nowMs + 60_000 });
    expect(await ledger.queues.doubted(10)).toEqual([]);
    time.nowMs += 60_000;
    expect(await ledger.queues.doubted(10)).toMatchObject([{ key, sinceMs: time.nowMs - 60_000 }]);
  });

  it("are listed as long as they are due, the longest due first, so many at a time", async () => {
    const { ledger, time } = place();
    const numbers = [4, 2, 3];
    for (const number of numbers) {
      await doubt(ledger, examplePayment(number));
      time.nowMs += 1;
    }
    time.nowMs += FIRST_DOUBT_MS;
    const keys = numbers.map((number) => examplePayment(number).key);
    expect((await ledger.queues.doubted(10)).map((each) => each.key)).toEqual(keys);
    expect((await ledger.queues.doubted(2)).map((each) => each.key)).toEqual(keys.slice(0, 2));
  });

  it("are failed for good when the chain says so, and then nothing is asked any more", async () => {
    const { ledger, time } = place();
    await doubt(ledger);
    await ledger.step(key, { kind: "lookedAgain", nextMs: null });
    await ledger.step(key, { kind: "lookedAgain", nextMs: time.nowMs });
    time.nowMs += FIRST_DOUBT_MS;
    expect(await ledger.queues.doubted(10)).toEqual([]);
    const failed = { kind: "failed", failure: FAILURE };
    expect(await ledger.step(key, { kind: "claim", terms: termsOf(payment) })).toEqual(failed);
    expect(await ledger.step(key, { kind: "begin", request, caller: CALLER })).toEqual(failed);
    expect(await word(ledger.step(key, { kind: "begin", request, caller: "another key" }))).toBe(
      "granted",
    );
  });

  it("are for sale once the chain shows them", async () => {
    const { ledger, time } = place();
    await doubt(ledger);
    await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
    time.nowMs += FIRST_DOUBT_MS;
    expect(await ledger.queues.doubted(10)).toEqual([]);
    expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
      "settled",
    );
    expect(await ledger.step(key, { kind: "delivering" })).toBe(true);
  });

  it("are held where the chain shows them in a transaction of nobody that we know", async () => {
    const { ledger, time } = place();
    await doubt(ledger);
    await ledger.step(key, { kind: "held", transaction: SETTLEMENT.transaction });
    time.nowMs += FIRST_DOUBT_MS;
    expect(await ledger.queues.doubted(10)).toEqual([]);
    expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe("held");
  });

  it("are not those that failed with bytes of ours, or without a hand-over", async () => {
    const { ledger, time } = place();
    await hand(ledger);
    await sign(ledger, [payment]);
    await ledger.step(key, { kind: "failed", failure: FAILURE });
    const claimed = examplePayment(2);
    await bring(ledger, claimed, "claimfailed");
    time.nowMs += FIRST_DOUBT_MS;
    expect(await ledger.queues.doubted(10)).toEqual([]);
    for (const each of [payment, claimed]) {
      expect(await word(ledger.step(each.key, { kind: "claim", terms: termsOf(each) }))).toBe(
        "failed",
      );
    }
  });
}
