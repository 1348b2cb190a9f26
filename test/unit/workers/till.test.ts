import { Payment } from "../../../src/payments/facilitator.ts";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { FacilitatorFault } from "../../../src/payments/facilitator.ts";
import { LedgerConflict } from "../../../src/ledger/ledger.ts";
import { Channel } from "../../../src/workers/channel.ts";
import { systemTime } from "../../../src/time/time.ts";
import type { Worked } from "../../../src/payments/sale/admission.ts";
import { MAX_UNPAID_WORKS } from "../../../src/payments/sale/unpaid-work.ts";
import { RemotePaymentService } from "../../../src/workers/remote-payment-service.ts";
import { examplePayment, PAYER } from "../ledger/example-payment.ts";
import { termsOf } from "../ledger/ledger-driver.ts";
import {
  collectedOf,
  paidOf,
  presented,
  REVERTED,
  SETTLED,
  sold,
  stateOf,
  tell,
  TRANSACTION,
} from "../payments/sale/paywall-stage.ts";
import { portPair } from "./port-pair.ts";
import { workersStage } from "./workers-stage.ts";

const { key } = examplePayment(1);

/** All that a payment waits for where nothing holds it up. */
async function hasBeenLookedAt(): Promise<void> {
  for (let turns = 0; turns < 50; turns += 1) await turn();
}

describe("a payment at a worker", () => {
  it("is verified, settled and admitted, and delivered it is sold, its answer kept for its sibling", async () => {
    const { ledger, facilitator, worker } = await workersStage();
    const [one, other] = [worker("1"), worker("2")];
    const paid = paidOf(await one.paywall.admit(presented()));
    expect(paid.settlement).toEqual({
      transaction: TRANSACTION,
      network: "base-sepolia",
      payer: PAYER,
    });
    expect(await stateOf(ledger)).toBe("DELIVERING");
    await paid.delivered(sold("the goods"));
    const again = await other.paywall.admit(presented());
    expect(again).toMatchObject({ kind: "replayed", response: { status: 200 } });
    const body = again.kind === "replayed" ? again.response.body : new Uint8Array();
    expect(Buffer.from(body).toString()).toBe("the goods");
    expect(facilitator.settled).toHaveLength(1);
  });

  it("is owed again where its answer was not read, and is not where all of it was given again", async () => {
    const { ledger, facilitator, worker } = await workersStage();
    const [one, other] = [worker("1"), worker("2")];
    const reset = Promise.withResolvers<(how: "reset") => void>();
    const watched = presented(1, { onReset: reset.resolve });
    await paidOf(await one.paywall.admit(watched)).delivered(sold());
    (await reset.promise)("reset");
    const owed = async () => (await ledger.recall(presented(2).payment, presented(2))).owed;
    await expect.poll(owed).toHaveLength(1);
    await collectedOf(await other.paywall.admit(presented(2)))();
    await paidOf(await other.paywall.admit(presented(3))).delivered();
    expect(facilitator.settled).toHaveLength(2);
  });

  it("is owed at its sibling from when its download breaks off, before that is stored", async () => {
    const storing = Promise.withResolvers<void>();
    const { facilitator, worker } = await workersStage({}, { unread: storing.promise });
    const [one, other] = [worker("1"), worker("2")];
    const reset = Promise.withResolvers<(how: "reset") => void>();
    const watched = presented(1, { onReset: reset.resolve, repeats: 3 });
    await paidOf(await one.paywall.admit(watched)).delivered(undefined, 60_000);
    (await reset.promise)("reset");
    const again = other.paywall.admit(presented(2, { repeats: 3 }));
    await hasBeenLookedAt();
    storing.resolve();
    await paidOf(await again).delivered(undefined, 60_000);
    expect(facilitator.settled).toHaveLength(1);
  });

  it("is owed at its sibling before the one that delivers it has seen that it broke off", async () => {
    const reset = Promise.withResolvers<(how: "reset") => void>();
    // As a worker that is busy does: it sees that when it is asked.
    const notice = async (): Promise<void> => {
      (await reset.promise)("reset");
      await hasBeenLookedAt();
    };
    const { facilitator, worker } = await workersStage({}, {}, notice);
    const [one, other] = [worker("1"), worker("2")];
    const watched = presented(1, { onReset: reset.resolve, repeats: 3 });
    await paidOf(await one.paywall.admit(watched)).delivered(undefined, 60_000);
    await paidOf(await other.paywall.admit(presented(2, { repeats: 3 }))).delivered();
    expect(facilitator.settled).toHaveLength(1);
  });

  it("that is presented at both at once is settled once and sold once", async () => {
    const { facilitator, worker } = await workersStage();
    const workers = [worker("1"), worker("2")];
    const answers = await Promise.all(
      Array.from({ length: 50 }, async (_, index) => {
        const admission = await workers[index % 2]?.paywall.admit(presented());
        if (admission === undefined) throw new Error("no such worker");
        if (admission.kind === "admitted") await admission.paid.delivered();
        return tell(admission);
      }),
    );
    expect(answers.filter((answer) => answer === "admitted")).toHaveLength(1);
    // Four wait at each worker, and the others are told at once.
    expect(answers.filter((answer) => answer === "invalid_transaction_state")).toHaveLength(9);
    expect(answers.filter((answer) => answer === "unknown")).toHaveLength(40);
    expect(facilitator.settled).toHaveLength(1);
  });

  it("is refused with the facilitator's code, and may be presented again", async () => {
    const { ledger, facilitator, worker } = await workersStage();
    facilitator.onVerify = async () => ({
      isValid: false,
      invalidReason: "insufficient_funds",
      payer: PAYER,
      detail: "the payer has 0",
    });
    const refused = await worker("1").paywall.admit(presented());
    expect(refused).toMatchObject({ kind: "refused", refusal: { code: "insufficient_funds" } });
    expect(await stateOf(ledger)).toBe("(none)");
    facilitator.onVerify = async () => ({ isValid: true, payer: PAYER });
    facilitator.onSettle = async () => REVERTED;
    const failed = await worker("2").paywall.admit(presented());
    expect(failed).toMatchObject({ kind: "refused", settlement: { success: false } });
  });

  it("of a payer on a list is refused before it is claimed, and one over his hour after it was", async () => {
    const deny = { has: () => true };
    const denied = await workersStage({ deny });
    const admission = await denied.worker("1").paywall.admit(presented());
    expect(admission).toMatchObject({ kind: "barred", status: 403, seconds: null });
    // Whoever cannot sign for a payer does not hear who is on a list.
    expect(denied.facilitator.verified).toHaveLength(1);
    expect(denied.facilitator.settled).toEqual([]);
    expect(await stateOf(denied.ledger)).toBe("(none)");
    const { facilitator, ledger, worker } = await workersStage({ perPayer: 15_000 });
    expect(tell(await worker("1").paywall.admit(presented(1)))).toBe("admitted");
    expect(await worker("2").paywall.admit(presented(2))).toMatchObject({
      kind: "barred",
      status: 429,
      seconds: expect.any(Number),
    });
    expect(facilitator.settled).toHaveLength(1);
    expect(await stateOf(ledger, 2)).toBe("(none)");
  });

  it("whose outcome is not known is gone on with by whichever worker it comes to next", async () => {
    const { facilitator, worker } = await workersStage();
    const [one, other] = [worker("1"), worker("2")];
    facilitator.onSettle = async () => {
      throw new FacilitatorFault("unknown", "unexpected_settle_error", "no answer came");
    };
    expect(tell(await one.paywall.admit(presented()))).toBe("unknown");
    facilitator.onSettle = async () => SETTLED;
    expect(tell(await other.paywall.admit(presented()))).toBe("admitted");
    const keys = facilitator.settled.map(({ idempotencyKey }) => idempotencyKey);
    expect(new Set(keys).size).toBe(1);
  });

  it("in bytes of ours is asked for as such", async () => {
    const { ledger, facilitator, worker } = await workersStage();
    const terms = termsOf(examplePayment(1));
    await ledger.worker("gone").step(key, { kind: "claim", terms });
    await ledger.step(key, {
      kind: "begin",
      request: terms.request,
      caller: { claimedUnder: terms.idempotencyKey },
    });
    const { payments } = worker("1");
    const begun = { terms, facilitator: null, handedOverAt: null };
    const signal = AbortSignal.timeout(1_000);
    await payments.resume(key, { ...begun, isSigned: true }, signal);
    await payments.resume(key, begun, signal);
    const [signed, other] = facilitator.settled;
    expect(signed).toMatchObject({ isSigned: true });
    expect(other).not.toHaveProperty("isSigned");
  });

  it("that was refused after its hand-over is looked for as such", async () => {
    const { ledger, facilitator, worker } = await workersStage();
    const terms = termsOf(examplePayment(1));
    await ledger.step(key, { kind: "claim", terms });
    await ledger.step(key, { kind: "handedOver", facilitator: "https://f.example", head: 4711 });
    await ledger.step(key, {
      kind: "failed",
      failure: { code: "insufficient_funds", detail: "it has nothing" },
    });
    const heads: number[] = [];
    facilitator.onLookAgain = async ({ handedOverAt }) => void heads.push(handedOverAt);
    expect(await worker("1").paywall.admit(presented())).toMatchObject({
      kind: "refused",
      refusal: { detail: "it has nothing" },
    });
    expect([heads, facilitator.settled]).toEqual([[4711], []]);
  });

  it("that its upstream would not take is not claimed", async () => {
    const { ledger, worker } = await workersStage();
    const { paywall } = worker("1");
    const down = {
      kind: "unanswered",
      status: 503,
      reason: "down",
      detail: "",
      sent: false,
      retriable: true,
    } as const;
    const admission = await paywall.admit(presented(1, { refusal: () => down }));
    expect(admission).toEqual({ kind: "unservable", refusal: down });
    expect(await stateOf(ledger)).toBe("(none)");
  });
});

describe("the death of a worker", () => {
  it("in the middle of a settlement lets it go on, for its sibling to deliver", async () => {
    const { facilitator, worker } = await workersStage();
    const [one, other] = [worker("1"), worker("2")];
    const asked = Promise.withResolvers<void>();
    const settled = Promise.withResolvers<typeof SETTLED>();
    facilitator.onSettle = () => {
      asked.resolve();
      return settled.promise;
    };
    const lost = one.paywall.admit(presented());
    await asked.promise;
    await one.die();
    expect(tell(await lost)).toBe("unknown");
    const waiting = other.paywall.admit(presented());
    settled.resolve(SETTLED);
    expect(tell(await waiting)).toBe("admitted");
    expect(facilitator.settled).toHaveLength(1);
  });

  it("drops a claim that nobody has begun to settle", async () => {
    const { ledger, worker } = await workersStage();
    const one = worker("1");
    const { request } = examplePayment(1);
    expect(await one.payments.step(key, { kind: "claim", terms: termsOf({ request }) })).toEqual({
      kind: "granted",
    });
    await one.die();
    expect(await stateOf(ledger)).toBe("(none)");
  });

  it("gives back what it worked for, and its payer's places for that", async () => {
    const { ledger, facilitator, worker } = await workersStage();
    const [one, other] = [worker("1"), worker("2")];
    let begun = 0;
    const all = Promise.withResolvers<void>();
    const never = (): Promise<Worked> => {
      begun += 1;
      if (begun === MAX_UNPAID_WORKS) all.resolve();
      return new Promise(() => undefined);
    };
    for (let number = 1; number <= MAX_UNPAID_WORKS; number += 1) {
      void one.paywall.admit(presented(number, { work: never }));
    }
    await all.promise;
    const work = async (): Promise<Worked> => ({ kind: "goods", sold: undefined });
    expect(await other.paywall.admit(presented(90, { work }))).toMatchObject({
      kind: "barred",
      status: 429,
    });
    expect(await stateOf(ledger)).toBe("CLAIMED");
    await one.die();
    expect(await stateOf(ledger)).toBe("(none)");
    expect(facilitator.settled).toEqual([]);
    for (const number of [1, 90]) {
      const paid = paidOf(await other.paywall.admit(presented(number, { work })));
      expect(paid.answer).toBe("here");
      await paid.delivered();
    }
  });

  it("leaves what it was delivering to whoever comes for it at once, and signs anew", async () => {
    const ending = Promise.withResolvers<void>();
    const { facilitator, worker } = await workersStage({}, { end: ending.promise });
    const [one, other] = [worker("1"), worker("2")];
    paidOf(await one.paywall.admit(presented(1)));
    const dead = one.die();
    const again = other.paywall.admit(presented(2));
    await hasBeenLookedAt();
    ending.resolve();
    await dead;
    await paidOf(await again).delivered();
    expect(facilitator.settled).toHaveLength(1);
  });

  it("leaves a download that it was giving once more to whoever comes for it, and signs anew", async () => {
    const { facilitator, worker } = await workersStage();
    const [one, other] = [worker("1"), worker("2")];
    await paidOf(await one.paywall.admit(presented(1, { repeats: 3 }))).delivered(
      undefined,
      60_000,
    );
    paidOf(await one.paywall.admit(presented(1, { repeats: 3 })));
    await one.die();
    await paidOf(await other.paywall.admit(presented(2, { repeats: 3 }))).delivered();
    expect(facilitator.settled).toHaveLength(1);
    // That one was given.
    await paidOf(await other.paywall.admit(presented(3, { repeats: 3 }))).delivered();
    expect(facilitator.settled).toHaveLength(2);
  });

  it("breaks its delivery, which its sibling tries again; its own end is not noted any more", async () => {
    const { ledger, worker } = await workersStage();
    const [one, other] = [worker("1"), worker("2")];
    const paid = paidOf(await one.paywall.admit(presented()));
    await one.die();
    expect(await stateOf(ledger)).toBe("SETTLED");
    const again = paidOf(await other.paywall.admit(presented()));
    // Resolves, as of a process that was taken for dead: it has nobody to tell.
    await paid.delivered();
    expect(await stateOf(ledger)).toBe("DELIVERING");
    await again.delivered();
    expect(await stateOf(ledger)).toBe("DELIVERED");
  });
});

/** A payment service before somebody who answers all the same. */
function tillBefore(answer: unknown): RemotePaymentService {
  const [near, far] = portPair();
  const serves = Object.fromEntries(
    ["identify", "step", "vet", "charge", "answer", "signedIn", "openSession"].map((name) => [
      name,
      () => answer,
    ]),
  );
  const other = new Channel(far, { serves, time: systemTime });
  onTestFinished(() => other.close());
  return new RemotePaymentService(new Channel(near, { serves: {}, time: systemTime }), 1_000);
}

describe("a till at the other end", () => {
  const said = { address: "0x", network: "base", message: "", signature: "", nonce: "" } as const;
  const signIn = { ...said, untilMs: 0 };
  const { request } = examplePayment(1);
  const { signal } = new AbortController();

  it.each([
    undefined,
    null,
    "granted",
    {},
    { kind: "generous" },
    { kind: "settled", settlement: { transaction: "0x" }, attempts: 0, idempotencyKey: "k" },
    { kind: "busy", version: "1" },
    { kind: "unresolved", terms: { binding: "GET /" }, facilitator: null },
    { kind: "unresolved", terms: termsOf({ request }), facilitator: null },
    { kind: "refused" },
    { ok: true, value: { request: {}, isClaimed: false } },
  ])("takes %j for no answer", async (answer) => {
    const payments = tillBefore(answer);
    const unreadable = { name: "ChannelFault", kind: "unreadable" };
    const offers = { payment: request.paymentPayload, accepts: [request.paymentRequirements] };
    const sale = { binding: "GET /", target: "/" };
    const asked = { ...offers, ...sale };
    const memberships = { key: "free", code: "none" } as const;
    await expect(
      payments.step(key, { kind: "claim", terms: termsOf({ request }) }),
    ).rejects.toMatchObject(unreadable);
    await expect(payments.identify(asked)).rejects.toMatchObject(unreadable);
    await expect(
      payments.signedIn({ signIn, memberships, grants: [], hasQuota: false, ...sale }, "", signal),
    ).rejects.toMatchObject(unreadable);
    await expect(payments.openSession(signIn, memberships, "", signal)).rejects.toMatchObject(
      unreadable,
    );
    await expect(
      payments.charge(new Payment(key, request), termsOf({ request }), signal),
    ).rejects.toMatchObject(unreadable);
    await expect(
      payments.vet(new Payment(key, request), termsOf({ request }), signal),
    ).rejects.toMatchObject(unreadable);
    await expect(payments.step(key, { kind: "delivering" })).rejects.toMatchObject(unreadable);
  });

  it("cannot note the end of a delivery when it is gone: that is a delivery lost", async () => {
    const [near, far] = portPair();
    const payments = new RemotePaymentService(
      new Channel(near, { serves: {}, time: systemTime }),
      1_000,
    );
    far.close();
    await expect(payments.step(key, { kind: "delivered" })).rejects.toThrow(LedgerConflict);
    await expect(
      payments.step(key, { kind: "undelivered", broken: { sent: true, served: null } }),
    ).rejects.toThrow(LedgerConflict);
    await expect(
      payments.step(key, { kind: "claim", terms: termsOf({ request }) }),
    ).rejects.toMatchObject({ kind: "closed" });
  });
});
