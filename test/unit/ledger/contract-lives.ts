/** One life of a process after another, and where it can be, beside another. */
import { describe, expect, it } from "vitest";
import { LedgerConflict } from "../../../src/ledger/ledger.ts";
import type { LedgerCapabilities, OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, PAYER } from "./example-payment.ts";
import {
  ACCOUNT,
  bring,
  CALLER,
  FACILITATOR,
  leaseOf,
  NETWORK,
  OBSERVED,
  observe,
  OTHER_BINDING,
  SETTLEMENT,
  SALE,
  sign,
  signWith,
  termsOf,
  UNANSWERED,
  word,
  takeOffers,
} from "./ledger-driver.ts";
import { accountName } from "../../../src/ledger/submission-row.ts";
import { TRANSITIONS } from "./ledger-transitions.ts";

export function describeLives(open: OpenLedger, can: LedgerCapabilities): void {
  const place = eachTestIn(open);

  it("answers ping while it is open and refuses every call once closed", async () => {
    const { ledger } = place();
    await ledger.ping();
    await ledger.ping();
    await ledger.close();
    await ledger.close();
    const gone = { code: "LEDGER_UNAVAILABLE" };
    const { key, request } = examplePayment(1);
    await expect(ledger.ping()).rejects.toMatchObject(gone);
    await expect(
      ledger.step(key, { kind: "claim", terms: termsOf({ request }) }),
    ).rejects.toMatchObject(gone);
    await expect(ledger.recall(request.paymentPayload, SALE)).rejects.toMatchObject(gone);
    await expect(ledger.outcome(key)).rejects.toMatchObject(gone);
    await expect(ledger.signing.lease(NETWORK, ACCOUNT)).rejects.toMatchObject(gone);
    await expect(ledger.upkeep.reap()).rejects.toMatchObject(gone);
  });

  describe("after a restart", () => {
    it("drops claims that were never signed, so that the payer may use them again", async () => {
      const { ledger } = place();
      const states = ["claimed", "begun"] as const;
      for (const [number, state] of states.entries()) {
        await bring(ledger, examplePayment(number), state);
      }
      const next = await place().restart("second");
      await next.upkeep.reap();
      for (const number of states.keys()) {
        const payment = examplePayment(number);
        expect(await next.books.show(payment.key)).toBeUndefined();
        expect(await word(next.step(payment.key, { kind: "claim", terms: termsOf(payment) }))).toBe(
          "granted",
        );
      }
      expect(await next.upkeep.reap()).toBe(0);
    });

    it("leaves what was offered to whoever takes it: its buyer may wait elsewhere", async () => {
      const payment = examplePayment(1);
      await bring(place().ledger, payment, "offered");
      const next = await place().restart("second");
      await next.upkeep.reap();
      expect(await takeOffers(next, NETWORK, 10)).toMatchObject([{ key: payment.key }]);
    });

    it("offers what a transaction has shown to everybody, and nobody has it but who claimed it", async () => {
      const payment = examplePayment(1);
      await bring(place().ledger, payment, "public");
      const byThief = { claimant: "who has read the chain" };
      const elsewhere = { ...byThief, binding: OTHER_BINDING };
      for (const life of ["second", "third"]) {
        const next = await place().restart(life);
        await next.upkeep.reap();
        expect(await next.upkeep.reap()).toBe(0);
        expect(
          await word(next.step(payment.key, { kind: "claim", terms: termsOf(payment, byThief) })),
        ).toBe("withheld");
        expect(
          await word(next.step(payment.key, { kind: "claim", terms: termsOf(payment, elsewhere) })),
        ).toBe("busy");
        // Its payer is not charged for a new one before it has failed.
        const { paymentPayload } = examplePayment(2).request;
        expect((await next.recall(paymentPayload, SALE)).owed).toMatchObject([
          { key: payment.key },
        ]);
        // Whoever takes it may die, too.
        const taken = await takeOffers(next, NETWORK, 10);
        expect(taken).toMatchObject([{ key: payment.key, isPublic: true }]);
        expect(
          await word(next.step(payment.key, { kind: "claim", terms: termsOf(payment, byThief) })),
        ).toBe("withheld");
      }
      const last = place().ledger;
      expect(await word(last.step(payment.key, { kind: "claim", terms: termsOf(payment) }))).toBe(
        "unresolved",
      );
      await sign(last, [payment]);
    });

    it("offers what a transaction has shown to everybody for another resource server, too", async () => {
      const payment = examplePayment(1);
      await bring(place().ledger, payment, "begun");
      await sign(place().ledger, [payment]);
      await place().ledger.step(payment.key, { kind: "withdrawn" });
      expect(await word(place().ledger.step(payment.key, { kind: "abandoned" }))).toBe("conflict");
      const next = await place().restart("second");
      await next.upkeep.reap();
      expect(
        await word(
          next.step(payment.key, { kind: "begin", request: payment.request, caller: "another's" }),
        ),
      ).toBe("taken");
      expect(
        await word(
          next.step(payment.key, { kind: "begin", request: payment.request, caller: CALLER }),
        ),
      ).toBe("pending");
      expect(await takeOffers(next, NETWORK, 10)).toMatchObject([{ isPublic: true }]);
      const again = await next.step(payment.key, {
        kind: "begin",
        request: payment.request,
        caller: CALLER,
      });
      expect(again).toEqual({ kind: "granted", isPublic: true });
    });

    it("allows a delivery that our death cut off again: that was no attempt of the buyer's", async () => {
      const payment = examplePayment(1);
      await bring(place().ledger, payment, "retried");
      await place().ledger.step(payment.key, { kind: "delivering" });
      for (const life of ["second", "third", "fourth"]) {
        const next = await place().restart(life);
        await next.upkeep.reap();
        expect(
          await next.step(payment.key, { kind: "claim", terms: termsOf(payment) }),
        ).toMatchObject({
          kind: "settled",
          attempts: 1,
        });
        if (life !== "fourth")
          expect(await next.step(payment.key, { kind: "delivering" })).toBe(true);
      }
      const last = place().ledger;
      const events = (await last.books.show(payment.key))?.events ?? [];
      expect(events.at(-1)).toMatchObject({ state: "SETTLED", by: "fourth" });
    });

    it("finds every other state as it was", async () => {
      const paid = ["settled", "retried", "served", "exhausted", "delivered", "kept"];
      const signed = ["signed", "handed", "handedsigned"];
      const kept = [...signed, ...paid, "failed", "claimfailed", "begunfailed"];
      for (const [number, state] of kept.entries()) {
        const start = TRANSITIONS.find((row) => row.start === state)?.start ?? "none";
        await bring(place().ledger, examplePayment(number), start);
      }
      const next = await place().restart("second");
      await next.upkeep.reap();
      for (const [number, state] of kept.entries()) {
        expect(`${state}: ${await observe(next, examplePayment(number))}`).toBe(
          `${state}: ${OBSERVED[state]}`,
        );
      }
    });

    it("goes on with the account nonce where it was, and with what was signed", async () => {
      const [first, second] = [examplePayment(1), examplePayment(2)];
      await bring(place().ledger, first, "signed");
      const before = await place().ledger.signing.unfinished(NETWORK, ACCOUNT);
      const next = await place().restart("second");
      expect(await next.signing.unfinished(NETWORK, ACCOUNT)).toEqual(before);
      await bring(next, second, "begun");
      expect((await sign(next, [second])).variants).toEqual([signWith(1)]);
    });

    it("takes no payment out of another transaction than the one that did not move it", async () => {
      const payment = examplePayment(1);
      await bring(place().ledger, payment, "begun");
      const before = await sign(place().ledger, [payment]);
      const next = await place().restart("second");
      await next.upkeep.reap();
      await next.step(payment.key, { kind: "withdrawn", submission: before.id });
      const after = await sign(next, [payment]);
      expect(await word(next.step(payment.key, { kind: "withdrawn", submission: before.id }))).toBe(
        "conflict",
      );
      expect(await next.signing.unfinished(NETWORK, ACCOUNT)).toMatchObject([
        { id: before.id, payments: [] },
        { id: after.id, payments: [{ key: payment.key, state: "SIGNED" }] },
      ]);
    });

    it("signs what it finds signed in a transaction that did not move it", async () => {
      const payment = examplePayment(1);
      await bring(place().ledger, payment, "signed");
      const next = await place().restart("second");
      await next.upkeep.reap();
      await next.step(payment.key, { kind: "withdrawn" });
      expect(await word(next.step(payment.key, { kind: "claim", terms: termsOf(payment) }))).toBe(
        "unresolved",
      );
      await sign(next, [payment]);
    });
  });

  describe("remembers when a route's terms changed", () => {
    it("as the time of first sight, and then of each change", async () => {
      const { ledger } = place();
      expect(await ledger.termsChangedAt("GET /a", "one", 100)).toBe(100);
      expect(await ledger.termsChangedAt("GET /a", "one", 200)).toBe(100);
      expect(await ledger.termsChangedAt("GET /b", "one", 300)).toBe(300);
      expect(await ledger.termsChangedAt("GET /a", "two", 400)).toBe(400);
      expect(await ledger.termsChangedAt("GET /a", "one", 500)).toBe(500);
    });

    it("across restarts", async () => {
      await place().ledger.termsChangedAt("GET /a", "one", 100);
      const next = await place().restart("second");
      expect(await next.termsChangedAt("GET /a", "one", 200)).toBe(100);
    });
  });

  if (can.spoil !== undefined) {
    const { spoil } = can;
    it("gives recovery every row that can be read, and tells about the others", async () => {
      await place().ledger.close();
      const unreadable: string[] = [];
      const ledger = await place().live("second", {
        onUnreadable: (name, reason) => unreadable.push(`${name}: ${reason}`),
      });
      const [good, bad, handed, offered] = [1, 2, 3, 4].map(examplePayment);
      if (!good || !bad || !handed || !offered) throw new Error("four payments");
      await bring(ledger, good, "claimed");
      await bring(ledger, bad, "claimed");
      await sign(ledger, [good, bad]);
      await bring(ledger, handed, "handed");
      await bring(ledger, examplePayment(5), "handed");
      await bring(ledger, offered, "offered");
      await bring(ledger, examplePayment(6), "offered");
      for (const each of [bad, handed, offered]) await spoil(place().store, each.key, "{}");

      const [submission] = await ledger.signing.unfinished(NETWORK, ACCOUNT);
      expect(submission?.payments.map(({ key }) => key)).toEqual([good.key]);
      expect((await ledger.queues.handedOvers(1)).map(({ key }) => key)).toEqual([
        examplePayment(5).key,
      ]);
      const taken = await takeOffers(ledger, NETWORK, 1);
      expect(taken.map(({ key }) => key)).toEqual([examplePayment(6).key]);
      for (const { key } of [bad, handed, offered]) {
        expect(unreadable).toContainEqual(expect.stringContaining(key));
      }
      expect(await ledger.books.show(bad.key)).toMatchObject({ key: bad.key, state: "SIGNED" });
      expect(await ledger.books.list({ limit: 10 })).toHaveLength(6);
      await ledger.close();
      const third = await place().live("third");
      const claim = third.step(bad.key, { kind: "claim", terms: termsOf(bad) });
      await expect(claim).rejects.toMatchObject({ code: "LEDGER_UNAVAILABLE" });
    });
  }

  if (can.severalLives) describeSeveral(open);
}

function describeSeveral(open: OpenLedger): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key } = payment;

  describe("for several lives at the same time", () => {
    it("grants each payment to one of them", async () => {
      const { ledger } = place();
      const second = await place().live("second");
      const payments = Array.from({ length: 25 }, (_, index) => examplePayment(index));
      const claims = payments.flatMap((each) =>
        [ledger, second].map(async (life) =>
          word(life.step(each.key, { kind: "claim", terms: termsOf(each) })),
        ),
      );
      const words = await Promise.all(claims);
      expect(words.filter((each) => each === "granted")).toHaveLength(payments.length);
      expect(words.filter((each) => each === "busy")).toHaveLength(payments.length);
    });

    it("leaves a claim to the life that made it", async () => {
      const { ledger } = place();
      const second = await place().live("second");
      await bring(ledger, payment, "claimed");
      expect(await word(second.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe("busy");
      expect(
        await word(
          second.step(key, { kind: "claim", terms: termsOf(payment, { binding: OTHER_BINDING }) }),
        ),
      ).toBe("busy");
      expect(await word(second.step(key, { kind: "released" }))).toBe("conflict");
      expect(await word(second.step(key, { kind: "handedOver", facilitator: FACILITATOR }))).toBe(
        "conflict",
      );
      expect(await second.step(key, { kind: "offer" })).toBe(false);
      expect(await word(sign(second, [payment]))).toBe("conflict");
      await ledger.step(key, { kind: "released" });
    });

    it("leaves a claim that was taken to its taker", async () => {
      const { ledger } = place();
      const second = await place().live("second");
      const begun = examplePayment(2);
      await bring(ledger, payment, "offered");
      await bring(ledger, begun, "begunoffered");
      expect(await takeOffers(second, NETWORK, 10)).toHaveLength(2);
      expect(await word(ledger.step(key, { kind: "released" }))).toBe("conflict");
      await ledger.step(begun.key, { kind: "abandoned" });
      expect(await word(sign(ledger, [payment]))).toBe("conflict");
      expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe("busy");
      await sign(second, [payment, begun], { address: PAYER });
      expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
        "unresolved",
      );
    });

    it("leases an account to one of them, until its life is over or it gives it back", async () => {
      const { ledger } = place();
      const second = await place().live("second");
      const lease = await leaseOf(ledger);
      expect(await second.signing.lease(NETWORK, ACCOUNT)).toBeUndefined();
      await ledger.signing.unlease(lease);
      const next = await leaseOf(second);
      expect(next.epoch).toBeGreaterThan(lease.epoch);
      expect(await ledger.signing.lease(NETWORK, ACCOUNT)).toBeUndefined();
      await second.close();
      expect((await leaseOf(ledger)).epoch).toBeGreaterThan(next.epoch);
    });

    it("tells which accounts left something that is not final, and are nobody else's", async () => {
      const { ledger } = place();
      const second = await place().live("second");
      await bring(ledger, payment, "claimed");
      expect(await ledger.signing.unattended()).toEqual([]);
      const { id } = await sign(ledger, [payment]);
      const { epoch } = await leaseOf(ledger);
      const account = { network: NETWORK, address: accountName(ACCOUNT), epoch };
      // To its holder it is as good as free, to all others it is in good hands.
      expect(await ledger.signing.unattended()).toEqual([account]);
      expect(await second.signing.unattended()).toEqual([]);
      await ledger.signing.concluded(id, "INCLUDED");
      await ledger.signing.unlease(await leaseOf(ledger));
      expect(await second.signing.unattended()).toEqual([account]);
      const next = await leaseOf(ledger);
      await ledger.close();
      expect(await second.signing.unattended()).toEqual([{ ...account, epoch: next.epoch }]);
      await second.signing.concluded(id, "CLOSED");
      expect(await second.signing.unattended()).toEqual([]);
    });

    it("lets nobody sign with a lease that has gone to another", async () => {
      const { ledger } = place();
      const second = await place().live("second");
      const [mine, theirs] = [examplePayment(1), examplePayment(2)];
      await bring(ledger, mine, "claimed");
      await bring(second, theirs, "claimed");
      const old = await leaseOf(ledger);
      const first = await sign(ledger, [mine]);
      await ledger.signing.unlease(old);
      await sign(second, [theirs]);
      const late = examplePayment(3);
      await bring(ledger, late, "claimed");
      const signed = ledger.signing.signed([late.key], { ...old, seed: 0 }, (nonce) =>
        signWith(nonce),
      );
      await expect(signed).rejects.toThrow(LedgerConflict);
      const raised = ledger.signing.replaced(old, first.id, signWith(0, ACCOUNT, 1));
      await expect(raised).rejects.toThrow(LedgerConflict);
      expect(await ledger.signing.nextAccountNonce(NETWORK, ACCOUNT)).toBe(2);
      expect(await ledger.signing.unfinished(NETWORK, ACCOUNT)).toHaveLength(2);
    });

    it("starts one delivery of each payment, and lets only that life end it", async () => {
      const { ledger } = place();
      const second = await place().live("second");
      await bring(ledger, payment, "settled");
      const started = await Promise.all([
        ledger.step(key, { kind: "delivering" }),
        second.step(key, { kind: "delivering" }),
      ]);
      expect(started.toSorted()).toEqual([false, true]);
      const [winner, loser] = started[0] ? [ledger, second] : [second, ledger];
      expect(await word(loser.step(key, { kind: "delivered" }))).toBe("conflict");
      expect(await word(loser.step(key, { kind: "undelivered", broken: UNANSWERED }))).toBe(
        "conflict",
      );
      await winner.step(key, { kind: "delivered" });
    });

    it("frees what a life left that is over, and nothing of one that is not", async () => {
      const { ledger } = place();
      const second = await place().live("second");
      const [claimed, delivering, alive] = [1, 2, 3].map(examplePayment);
      if (!claimed || !delivering || !alive) throw new Error("three payments");
      await bring(ledger, claimed, "claimed");
      await bring(ledger, delivering, "delivering");
      await bring(second, alive, "claimed");
      expect(await second.upkeep.reap()).toBe(0);
      expect(await word(second.step(claimed.key, { kind: "claim", terms: termsOf(claimed) }))).toBe(
        "busy",
      );
      await ledger.close();
      expect(await second.upkeep.reap()).toBe(2);
      expect(await word(second.step(claimed.key, { kind: "claim", terms: termsOf(claimed) }))).toBe(
        "granted",
      );
      expect(
        await word(second.step(delivering.key, { kind: "claim", terms: termsOf(delivering) })),
      ).toBe("settled");
      expect(await word(second.step(alive.key, { kind: "claim", terms: termsOf(alive) }))).toBe(
        "unresolved",
      );
    });

    it("wakes the others when a row changes, and when a claim is offered", async () => {
      const { ledger } = place();
      const second = await place().live("second");
      await bring(ledger, payment, "claimed");
      const outcome = await second.outcome(key);
      if (outcome.kind !== "pending") throw new Error(`the outcome is ${outcome.kind}`);
      const signal = AbortSignal.timeout(15_000);
      const waits = [second.changed(key, outcome.version, signal), second.queues.offered(signal)];
      await ledger.step(key, { kind: "offer" });
      await Promise.all(waits);
      expect(signal.aborted).toBe(false);
      expect(await takeOffers(second, NETWORK, 1)).toHaveLength(1);
      await second.step(key, { kind: "settled", settlement: SETTLEMENT });
    });
  });
}
