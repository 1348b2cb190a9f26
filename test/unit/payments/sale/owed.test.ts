/** What is owed is collected by the client that paid and by the payer, who proves it with a new payment. */
import type { Unanswered } from "../../../../src/http/unanswered.ts";
import { setImmediate as immediately } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import { LedgerUnavailable, MAX_OWED } from "../../../../src/ledger/ledger.ts";
import { FacilitatorFault } from "../../../../src/payments/facilitator.ts";
import type { Presented } from "../../../../src/payments/sale/admission.ts";

import { examplePayment } from "../../ledger/example-payment.ts";
import {
  elsewhere,
  failing,
  collectedOf,
  paidOf,
  paywallStage,
  presented,
  repriced,
  REVERTED,
  SETTLED,
  sold,
  stateOf,
  tell,
  TRANSACTION,
  WAIT_MS,
  type PaywallStage,
} from "./paywall-stage.ts";

const OTHER = "198.51.100.7";
/** Of the event loop, in which a request that nothing holds back has ended. */
const TURNS = 100;
const BROKEN = { sent: true, served: null } as const;
const AWAY: Unanswered = {
  kind: "unanswered",
  status: 503,
  reason: "saturated",
  detail: "All connections are busy.",
  sent: false,
  retriable: true,
};
const insufficient = async () =>
  ({ isValid: false, invalidReason: "insufficient_funds", payer: "" }) as const;
const forgery = async () =>
  ({ isValid: false, invalidReason: "invalid_exact_evm_payload_signature", payer: "" }) as const;

const unknownFault = () => new FacilitatorFault("unknown", "unexpected_settle_error", "lost");

/** One payment that is paid and was not delivered. */
async function indebted(attempts = 1): Promise<PaywallStage> {
  const stage = await paywallStage();
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    await paidOf(await stage.paywall.admit(presented(1))).undelivered(BROKEN);
  }
  stage.facilitator.verified.length = 0;
  return stage;
}

describe("a payer who is owed something and signs a new payment", () => {
  it.each(["192.0.2.1", OTHER])("gets the old one delivered at %s, uncharged", async (client) => {
    const { paywall, facilitator, ledger } = await indebted();
    const paid = paidOf(await paywall.admit(presented(2, { client })));
    expect(paid.settlement.transaction).toBe(TRANSACTION);
    await paid.delivered();
    expect(facilitator.verified).toHaveLength(1);
    expect(facilitator.settled).toHaveLength(1);
    // The new one was never used, and a client that repeats it has not signed another.
    expect(await ledger.books.show(examplePayment(2).key)).toBeUndefined();
    expect(tell(await paywall.admit(presented(2, { client })))).toBe("invalid_transaction_state");
    await paidOf(await paywall.admit(presented(3, { client }))).delivered();
    expect(facilitator.settled).toHaveLength(2);
  });

  it("is told the same however often he repeats it, and never charged for it", async () => {
    const { paywall, facilitator, ledger } = await indebted();
    await paidOf(await paywall.admit(presented(2))).delivered();
    for (let times = 0; times < 4; times += 1) {
      expect(tell(await paywall.admit(presented(2)))).toBe("invalid_transaction_state");
      expect(await ledger.books.show(examplePayment(2).key)).toBeUndefined();
    }
    const atOnce = await Promise.all(Array.from({ length: 4 }, () => paywall.admit(presented(2))));
    expect(atOnce.map(tell)).toEqual(Array(4).fill("invalid_transaction_state"));
    expect(facilitator.settled).toHaveLength(1);
  });

  it("has nothing of the proof stored or logged", async () => {
    const { paywall, ledger, log } = await indebted();
    const { payment } = presented(2);
    const secret = `0x${"5e".repeat(65)}`;
    const signed = { ...payment, payload: { ...payment.payload, signature: secret } };
    await paidOf(await paywall.admit(presented(2, { payment: signed }))).delivered();
    expect(JSON.stringify(log)).not.toContain(secret.slice(2));
    expect(JSON.stringify(await ledger.books.list({ limit: 9 }))).not.toContain(secret.slice(2));
    expect((await ledger.recall(signed as typeof payment, presented(2))).request).toBeUndefined();
  });

  it("gets attempts again where they were used up", async () => {
    const { paywall, facilitator } = await indebted(3);
    expect(tell(await paywall.admit(presented(1)))).toBe("owed");
    await paidOf(await paywall.admit(presented(2))).delivered();
    expect(facilitator.settled).toHaveLength(1);
  });

  it("is not told to pay when all attempts of a day are used up, either", async () => {
    const { paywall, facilitator } = await indebted(3);
    for (let attempt = 0; attempt < 9; attempt += 1) {
      await paidOf(await paywall.admit(presented(2))).undelivered(BROKEN);
    }
    expect(await paywall.admit(presented(2))).toMatchObject({
      kind: "owed",
      detail: expect.stringContaining("those of the last day included"),
    });
    expect(facilitator.settled).toHaveLength(1);
  });

  it("gets a kept answer while the backend is away, and is told of that for what only it can deliver", async () => {
    const { paywall, facilitator } = await paywallStage();
    const first = paidOf(await paywall.admit(presented(1)));
    const second = paidOf(await paywall.admit(presented(2)));
    await first.undelivered(BROKEN);
    const away = { refusal: () => AWAY };
    expect(tell(await paywall.admit(presented(3, away)))).toBe("unservable");
    await second.delivered({ ...sold(), isUncollected: true });
    await collectedOf(await paywall.admit(presented(3, away)))();
    expect(tell(await paywall.admit(presented(4, away)))).toBe("unservable");
    await paidOf(await paywall.admit(presented(5))).delivered();
    expect(facilitator.settled).toHaveLength(2);
  });

  it("is owed what may be paid as before, where the backend was away", async () => {
    const { paywall, facilitator } = await paywallStage();
    facilitator.onSettle = elsewhere(async () => Promise.reject(unknownFault()));
    expect(tell(await paywall.admit(presented(1)))).toBe("unknown");
    const away = presented(2, { refusal: () => AWAY });
    expect(tell(await paywall.admit(away))).toBe("unservable");
    expect(facilitator.settled).toHaveLength(1);
    facilitator.onSettle = async () => SETTLED;
    await paidOf(await paywall.admit(presented(3))).delivered();
    const paidFor = facilitator.settled.map(({ request }) => request);
    expect(paidFor).toEqual([examplePayment(1).request, examplePayment(1).request]);
  });

  it("claims nothing anew, where the backend was away, of what has failed meanwhile", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    facilitator.onSettle = async () => Promise.reject(unknownFault());
    expect(tell(await paywall.admit(presented(1)))).toBe("unknown");
    expect(tell(await paywall.admit(presented(2)))).toBe("unknown");
    facilitator.onSettle = async () => REVERTED;
    expect(tell(await paywall.admit(presented(1)))).toBe("invalid_transaction_state");
    expect(await stateOf(ledger)).toBe("(none)");
    expect(tell(await paywall.admit(presented(2, { refusal: () => AWAY })))).toBe("unservable");
    expect(await stateOf(ledger)).toBe("(none)");
  });

  it("is not charged by what failed that he was to collect before, where another is owed", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    facilitator.onSettle = async () => Promise.reject(unknownFault());
    expect(tell(await paywall.admit(presented(1)))).toBe("unknown");
    expect(tell(await paywall.admit(presented(2)))).toBe("unknown");
    facilitator.onSettle = async () => REVERTED;
    expect(tell(await paywall.admit(presented(1)))).toBe("invalid_transaction_state");
    facilitator.onSettle = async () => SETTLED;
    const binding = "GET /other";
    await paidOf(await paywall.admit(presented(3, { binding }))).undelivered(BROKEN);
    facilitator.settled.length = 0;
    await paidOf(await paywall.admit(presented(2, { binding }))).delivered();
    expect(facilitator.settled).toEqual([]);
    expect(await stateOf(ledger)).toBe("(none)");
  });

  it("waits for what may be paid, and is charged once that has failed for certain", async () => {
    const { paywall, facilitator } = await paywallStage();
    facilitator.onSettle = elsewhere(async () => Promise.reject(unknownFault()));
    expect(tell(await paywall.admit(presented(1)))).toBe("unknown");
    expect(tell(await paywall.admit(presented(2)))).toBe("unknown");
    expect(facilitator.settled.map(({ request }) => request)).toEqual(
      Array(2).fill(examplePayment(1).request),
    );
    facilitator.onSettle = async () =>
      facilitator.settled.length === 3
        ? REVERTED
        : { success: true, transaction: TRANSACTION, network: "base-sepolia", payer: "" };
    await paidOf(await paywall.admit(presented(2))).delivered();
    expect(facilitator.settled).toHaveLength(4);
  });

  it("is charged for another binding, and for another target than the one that has begun", async () => {
    const { paywall, facilitator } = await indebted();
    await paidOf(await paywall.admit(presented(2, { binding: "GET /other" }))).delivered();
    expect(facilitator.settled).toHaveLength(2);
    const cut = paidOf(await paywall.admit(presented(1)));
    await cut.undelivered({ sent: true, served: "/premium-data" });
    const target = "/premium-data?day=2";
    await paidOf(await paywall.admit(presented(3, { target }))).delivered();
    expect(facilitator.settled).toHaveLength(3);
    await paidOf(await paywall.admit(presented(4))).delivered();
    expect(facilitator.settled).toHaveLength(3);
  });

  it("is charged for what he buys beside a request that waits for the other", async () => {
    const { paywall, facilitator } = await paywallStage();
    const first = paidOf(await paywall.admit(presented(1)));
    const second = paidOf(await paywall.admit(presented(2)));
    await Promise.all([first.delivered(), second.delivered()]);
    expect(facilitator.settled).toHaveLength(2);
  });

  it("two at once collect it once, and the other pays", async () => {
    const { paywall, facilitator } = await indebted();
    const [one, other] = [paywall.admit(presented(2)), paywall.admit(presented(3))];
    const first = await Promise.race([one, other]);
    await paidOf(first).delivered();
    const both = await Promise.all([one, other]);
    const last = both.find((each) => each !== first);
    if (last === undefined) throw new Error("both were one");
    await paidOf(last).delivered();
    expect(facilitator.settled).toHaveLength(2);
  });

  it("is not charged for the one that others have had when another is owed by then", async () => {
    const { paywall, facilitator } = await paywallStage();
    const late = paidOf(await paywall.admit(presented(1)));
    await paidOf(await paywall.admit(presented(2))).undelivered(BROKEN);
    const both = [paywall.admit(presented(3)), paywall.admit(presented(4))];
    const first = await Promise.race(both);
    await late.undelivered(BROKEN);
    await paidOf(first).delivered();
    const last = (await Promise.all(both)).find((each) => each !== first);
    if (last === undefined) throw new Error("both were one");
    await paidOf(last).delivered();
    expect(facilitator.settled).toHaveLength(2);
  });

  it("is not told to sign another while one of his requests pays with it elsewhere", async () => {
    const { paywall, ledger, time } = await indebted();
    await paidOf(await paywall.admit(presented(2))).delivered();
    const recall = ledger.recall.bind(ledger);
    const recalls = vi.spyOn(ledger, "recall").mockImplementation(async (...asked) => {
      const found = await recall(...asked);
      // Just after it was looked up that nobody has it.
      if (recalls.mock.calls.length === 2) {
        const { key, request } = examplePayment(2);
        const { binding, target } = presented(2);
        const sale = { binding, target, claimant: "192.0.2.1", idempotencyKey: "another's" };
        await ledger.step(key, { kind: "claim", terms: { ...sale, request } });
      }
      return found;
    });
    const told = paywall.admit(presented(2));
    await vi.waitFor(() => expect(recalls.mock.calls).toHaveLength(2));
    for (let turn = 0; turn < TURNS; turn += 1) await immediately();
    await time.advance(WAIT_MS);
    expect(tell(await told)).toBe("unknown");
  });

  it("is not charged where he has shown it for another sale before", async () => {
    const { paywall, facilitator } = await indebted();
    await paidOf(await paywall.admit(presented(2, { binding: "GET /other" }))).undelivered(BROKEN);
    await paidOf(await paywall.admit(presented(3))).undelivered(BROKEN);
    await paidOf(await paywall.admit(presented(3, { binding: "GET /other" }))).delivered();
    await paidOf(await paywall.admit(presented(3))).delivered();
    expect(facilitator.settled).toHaveLength(2);
  });

  it("is remembered for so many debts and no more, however many sales he shows it for", async () => {
    const { ledger, paywall } = await paywallStage();
    const step = vi.spyOn(ledger, "step");
    const sales = Array.from({ length: MAX_OWED + 1 }, (_, number) => `GET /${number}`);
    for (const [number, binding] of sales.entries()) {
      await paidOf(await paywall.admit(presented(number + 2, { binding }))).undelivered(BROKEN);
      await paidOf(await paywall.admit(presented(1, { binding }))).undelivered(BROKEN);
    }
    step.mockClear();
    await paywall.admit(presented(1, { binding: "GET /new" }));
    const claims = step.mock.calls.filter(([, { kind }]) => kind === "claim");
    expect(claims).toHaveLength(MAX_OWED + 1);
  });

  describe("at another gateway on the same ledger", () => {
    const asking = (resource: string, maxAmountRequired: string, number: number): Presented =>
      repriced({ resource, maxAmountRequired }, number);
    const elsewhere = "https://other.example/premium-data";

    it("gets nothing dearer for what he paid there", async () => {
      const { paywall, facilitator } = await indebted();
      const shown = await paywall.admit(asking(elsewhere, "20000", 1));
      expect(tell(shown)).toBe("invalid_payload");
      await paidOf(await paywall.admit(asking(elsewhere, "20000", 2))).delivered();
      expect(facilitator.settled).toHaveLength(2);
      // There it is owed as before.
      await paidOf(await paywall.admit(presented(3))).delivered();
      expect(facilitator.settled).toHaveLength(2);
    });

    it.each([
      ["the price is the same, as where it has moved", elsewhere, "10000"],
      ["it is the same one, with another price", "https://api.example.com/premium-data", "20000"],
    ])("gets what he paid for where %s", async (_, resource, price) => {
      const { paywall, facilitator } = await indebted();
      await paidOf(await paywall.admit(asking(resource, price, 2))).undelivered(BROKEN);
      await paidOf(await paywall.admit(asking(resource, price, 1))).delivered();
      expect(facilitator.settled).toHaveLength(1);
    });
  });

  it("is not charged for a new one that comes twice at once, or again", async () => {
    const { paywall, facilitator } = await indebted();
    const [one, other] = [paywall.admit(presented(2)), paywall.admit(presented(2))];
    await paidOf(await one).delivered(sold());
    expect(tell(await other)).toBe("replayed");
    expect(tell(await paywall.admit(presented(2)))).toBe("replayed");
    expect(facilitator.settled).toHaveLength(1);
  });

  it("is charged once, and told nothing else, for a new one that comes twice at once in vain", async () => {
    const { paywall, facilitator, ledger } = await indebted();
    const recall = ledger.recall.bind(ledger);
    const recalls = vi.spyOn(ledger, "recall").mockImplementation(async (...asked) => {
      const found = await recall(...asked);
      // What the first of both hears when it looks again; the other may go on meanwhile.
      const turns = recalls.mock.calls.length === 4 ? TURNS : 0;
      for (let turn = 0; turn < turns; turn += 1) await immediately();
      return found;
    });
    const served = paywall.admit(presented(3));
    const both = [paywall.admit(presented(2)), paywall.admit(presented(2))];
    await paidOf(await served).delivered();
    const first = await Promise.race(both);
    await paidOf(first).delivered(sold());
    const told = (await Promise.all(both)).filter((each) => each !== first);
    expect(told.map((each) => tell(each))).toEqual(["replayed"]);
    expect(facilitator.settled).toHaveLength(2);
  });

  it("is charged once for a new one that comes twice at once when the old one has failed", async () => {
    const { paywall, facilitator } = await paywallStage();
    facilitator.onSettle = elsewhere(async () => Promise.reject(unknownFault()));
    expect(tell(await paywall.admit(presented(1)))).toBe("unknown");
    facilitator.onSettle = async ({ paymentPayload }) =>
      paymentPayload === examplePayment(1).request.paymentPayload ? REVERTED : SETTLED;
    const [one, other] = [paywall.admit(presented(2)), paywall.admit(presented(2))];
    await paidOf(await one).delivered(sold());
    expect(tell(await other)).toBe("replayed");
  });

  it("is known by what he signed, whatever payer a facilitator has told", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    facilitator.onSettle = async () => ({ ...SETTLED, payer: `0x${"01".repeat(20)}` });
    await paidOf(await paywall.admit(presented(1))).undelivered(BROKEN);
    // Has all of it stored.
    await ledger.books.list({ limit: 1 });
    await paidOf(await paywall.admit(presented(2, { client: OTHER }))).delivered();
    expect(facilitator.settled).toHaveLength(1);
  });

  it("whose purse is empty is known where he paid, and told to prove himself elsewhere", async () => {
    const { paywall, facilitator } = await indebted();
    facilitator.onVerify = insufficient;
    expect(tell(await paywall.admit(presented(2, { client: OTHER })))).toBe("owed");
    await paidOf(await paywall.admit(presented(2))).delivered();
    expect(tell(await paywall.admit(presented(3)))).toBe("insufficient_funds");
    expect(facilitator.settled).toHaveLength(1);
  });

  it("is known where he paid, and nowhere else, by what no chain was asked about", async () => {
    const { paywall, facilitator } = await indebted();
    facilitator.isRemote = () => true;
    expect(tell(await paywall.admit(presented(2, { client: OTHER })))).toBe("owed");
    await paidOf(await paywall.admit(presented(2))).undelivered(BROKEN);
    facilitator.seesUse = () => true;
    await paidOf(await paywall.admit(presented(2, { client: OTHER }))).delivered();
    expect(facilitator.settled).toHaveLength(1);
  });

  it("gets the kept answer that he had left, once", async () => {
    const { paywall, facilitator } = await paywallStage();
    const answer = sold("late goods");
    await paidOf(await paywall.admit(presented(1))).delivered({ ...answer, isUncollected: true });
    const given = await paywall.admit(presented(2, { client: OTHER }));
    expect(given).toMatchObject({ kind: "replayed", settlement: { transaction: TRANSACTION } });
    await collectedOf(given)();
    expect(facilitator.settled).toHaveLength(1);
    await paidOf(await paywall.admit(presented(3))).delivered();
    expect(facilitator.settled).toHaveLength(2);
  });
});

describe("somebody who is not the payer", () => {
  it("collects nothing with the payment itself, however often, and is not asked to pay", async () => {
    const { paywall, facilitator } = await indebted();
    for (let attempt = 0; attempt < 5; attempt += 1) {
      expect(tell(await paywall.admit(presented(1, { client: OTHER })))).toBe("owed");
    }
    await paidOf(await paywall.admit(presented(1))).delivered(sold());
    expect(tell(await paywall.admit(presented(1, { client: OTHER })))).toBe(
      "invalid_transaction_state",
    );
    expect(facilitator.settled).toHaveLength(1);
  });

  it("collects nothing with a payment that names the payer and is not his", async () => {
    const { paywall, facilitator } = await indebted();
    facilitator.onVerify = forgery;
    const refused = "invalid_exact_evm_payload_signature";
    expect(tell(await paywall.admit(presented(2, { client: OTHER })))).toBe(refused);
    expect(tell(await paywall.admit(presented(2)))).toBe(refused);
    expect(facilitator.settled).toHaveLength(1);
  });

  it("within one /64 of IPv6 is taken for the same client, and outside it is not", async () => {
    const { paywall } = await paywallStage();
    const at = (client: string) => paywall.admit(presented(1, { client }));
    await paidOf(await at("2001:db8:0:1::1")).undelivered(BROKEN);
    expect(tell(await at("2001:db8:0:2::1"))).toBe("owed");
    await paidOf(await at("2001:db8:0:1:ffff::2")).undelivered(BROKEN);
    expect(tell(await at("2001:db8:1:1::1"))).toBe("owed");
  });
});

describe("a client that leaves", () => {
  it("leaves what it has paid for to its next request at once, while it is settled", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    const settling = Promise.withResolvers<void>();
    facilitator.onSettle = async () => {
      await settling.promise;
      return { success: true, transaction: TRANSACTION, network: "base-sepolia", payer: "" };
    };
    let leave = (): void => undefined;
    let isGone = false;
    const onGone = (listener: () => void) => {
      leave = listener;
      return () => undefined;
    };
    const first = paywall.admit(presented(1, { onGone, isGone: () => isGone }));
    await expect.poll(() => facilitator.settled.length).toBe(1);
    const sale = { binding: "GET /premium-data", target: "/premium-data" };
    const next = presented(2);
    expect((await ledger.recall(next.payment, sale)).owed).toEqual([]);
    isGone = true;
    leave();
    expect((await ledger.recall(next.payment, sale)).owed).toHaveLength(1);
    const second = paywall.admit(next);
    settling.resolve();
    expect((await first).kind).toBe("abandoned");
    await paidOf(await second).delivered();
    expect(facilitator.settled).toHaveLength(1);
  });

  it("is told of a settlement that is not known, after it is stored that it is owed", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    facilitator.onSettle = elsewhere(async () => Promise.reject(unknownFault()));
    const { payment, ...sale } = presented(2);
    const told = paywall.admit(presented(1)).then(() => ledger.recall(payment, sale));
    expect((await told).owed).toHaveLength(1);
  });

  it("is told within a second when that cannot be stored, and it is stored later", async () => {
    const error = new LedgerUnavailable("full");
    const stage = await paywallStage({
      redemptions: (ledger) => failing(ledger, { leave: { count: 1, error } }),
    });
    const { paywall, facilitator, ledger, time } = stage;
    facilitator.onSettle = elsewhere(async () => Promise.reject(unknownFault()));
    const admission = paywall.admit(presented(1));
    await expect.poll(() => facilitator.settled.length).toBe(1);
    await time.advance(1_000);
    expect(tell(await admission)).toBe("unknown");
    const { payment, ...sale } = presented(2);
    await expect
      .poll(async () => {
        await time.advance(1_000);
        return (await ledger.recall(payment, sale)).owed.length;
      })
      .toBe(1);
  });
});
