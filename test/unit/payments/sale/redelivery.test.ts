import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { MAX_REPLAYS, REPLAY_MS, type Ledger } from "../../../../src/ledger/ledger.ts";
import { MemoryLedger, MemoryStore } from "../../../support/memory-ledger.ts";
import { ManualTime } from "../../gateway/manual-time.ts";
import {
  failing,
  paidOf,
  paywallStage,
  presented,
  SETTLED,
  sold,
  stateOf,
  tell,
  WAIT_MS,
  type PaywallStage,
} from "./paywall-stage.ts";

const OTHER_BODY = "0".repeat(64);

async function withSold(): Promise<PaywallStage> {
  const stage = await paywallStage();
  await paidOf(await stage.paywall.admit(presented())).delivered(sold());
  return stage;
}

async function twoLives(): Promise<{ time: ManualTime; one: PaywallStage; two: PaywallStage }> {
  const time = new ManualTime();
  const store = new MemoryStore();
  const open = (life: string): Ledger => new MemoryLedger({ store, time, life });
  const one = await paywallStage({ time, ledger: open("one") });
  const two = await paywallStage({ time, ledger: open("two") });
  return { time, one, two };
}

describe("a paid delivery that broke", () => {
  it("is tried three times in all, with one upstream key, and the last one says so", async () => {
    const { paywall, facilitator } = await paywallStage();
    const keys = new Set<string>();
    const isLast: boolean[] = [];
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const paid = paidOf(await paywall.admit(presented()));
      keys.add(paid.idempotencyKey);
      isLast.push(paid.isLast);
      await paid.undelivered({ sent: true, served: null });
    }
    expect(await paywall.admit(presented())).toMatchObject({
      kind: "owed",
      detail: expect.stringMatching(/^paid in 0x.* sign a new payment: it is not charged/),
    });
    expect(isLast).toEqual([false, false, true]);
    expect(keys.size).toBe(1);
    const [key = ""] = keys;
    expect(key).toMatch(/^[0-9a-f]{64}$/);
    expect(facilitator.settled[0]?.idempotencyKey).not.toBe(key);
    expect(facilitator.settled).toHaveLength(1);
  });

  it("gets another upstream key than the next payment's", async () => {
    const { paywall } = await paywallStage();
    const [one, two] = [
      paidOf(await paywall.admit(presented(1))),
      paidOf(await paywall.admit(presented(2))),
    ];
    expect(one.idempotencyKey).not.toBe(two.idempotencyKey);
  });

  it("costs no attempt when the buyer was gone before the upstream was asked", async () => {
    const { paywall, ledger } = await paywallStage();
    const gone = presented(1, { isGone: () => true });
    expect(tell(await paywall.admit(gone))).toBe("abandoned");
    // Nobody is charged who has left by then.
    expect(await stateOf(ledger)).toBe("(none)");
    await paidOf(await paywall.admit(presented())).undelivered({ sent: false, served: null });
    for (let round = 0; round < 4; round += 1) {
      expect(tell(await paywall.admit(gone))).toBe("abandoned");
      expect(await stateOf(ledger)).toBe("SETTLED");
    }
    expect(paidOf(await paywall.admit(presented())).isLast).toBe(false);
  });

  it("may ask for something else after a refusal, and for nothing else after a good answer", async () => {
    const { paywall } = await paywallStage();
    const corrected = presented(1, { target: "/premium-data?day=1" });
    const first = paidOf(await paywall.admit(presented()));
    await first.undelivered({ sent: true, served: null });
    const second = paidOf(await paywall.admit(corrected));
    await second.undelivered({ sent: true, served: "/premium-data?day=1" });
    expect(tell(await paywall.admit(presented()))).toBe("invalid_transaction_state");
    expect(tell(await paywall.admit(corrected))).toBe("admitted");
  });
});

describe("a kept answer", () => {
  it("is given to the identical request three times, and then the payment is used", async () => {
    const { paywall, facilitator } = await withSold();
    for (let replay = 0; replay < MAX_REPLAYS; replay += 1) {
      const admission = await paywall.admit(presented());
      expect(admission).toMatchObject({
        kind: "replayed",
        settlement: { transaction: SETTLED.transaction },
        response: { status: 200, headers: [["Content-Type", "text/plain"]] },
      });
      if (admission.kind !== "replayed") continue;
      expect(Buffer.from(admission.response.body).toString()).toBe("the goods");
    }
    expect(tell(await paywall.admit(presented()))).toBe("invalid_transaction_state");
    expect(facilitator.settled).toHaveLength(1);
  });

  it.each([
    [
      "another target",
      presented(1, { target: "/premium-data?day=2" }),
      "invalid_transaction_state",
    ],
    [
      "another body",
      presented(1, { readBodyHash: async () => OTHER_BODY }),
      "invalid_transaction_state",
    ],
    [
      "another address, which may have read the payment off the chain",
      presented(1, { client: "203.0.113.7" }),
      "invalid_transaction_state",
    ],
    [
      "a body that cannot be read",
      presented(1, { readBodyHash: async () => null }),
      "invalid_transaction_state",
    ],
    ["another path", presented(1, { binding: "GET /other" }), "invalid_payload"],
  ])("is not given for %s, and is not used up by it", async (_name, other, code) => {
    const { paywall } = await withSold();
    for (let round = 0; round <= MAX_REPLAYS; round += 1) {
      expect(tell(await paywall.admit(other))).toBe(code);
    }
    expect(tell(await paywall.admit(presented()))).toBe("replayed");
  });

  it("is forgotten after its time", async () => {
    const { paywall, time } = await withSold();
    await time.advance(REPLAY_MS - 1);
    expect(tell(await paywall.admit(presented()))).toBe("replayed");
    await time.advance(1);
    expect(tell(await paywall.admit(presented()))).toBe("invalid_transaction_state");
  });

  it("does not hold others up while a request's body is read", async () => {
    const { paywall } = await withSold();
    const reading = Promise.withResolvers<string>();
    const slow = paywall.admit(presented(1, { readBodyHash: () => reading.promise }));
    expect(tell(await paywall.admit(presented()))).toBe("replayed");
    const { bodyHash } = sold();
    reading.resolve(bodyHash);
    expect(tell(await slow)).toBe("replayed");
  });

  it("that the ledger cannot read now is asked for again, and no payment is asked for", async () => {
    const error = new Error("disk full");
    const { paywall } = await paywallStage({
      redemptions: (ledger) => failing(ledger, { replay: { count: 1, error } }),
    });
    await paidOf(await paywall.admit(presented())).delivered(sold());
    expect(tell(await paywall.admit(presented()))).toBe("unavailable");
    expect(tell(await paywall.admit(presented()))).toBe("replayed");
  });

  it("is not there where none was kept", async () => {
    const { paywall } = await paywallStage();
    await paidOf(await paywall.admit(presented())).delivered();
    expect(tell(await paywall.admit(presented()))).toBe("invalid_transaction_state");
  });
});

describe("two lives on one ledger", () => {
  it("settle a payment once: the loser waits for the row and gets the kept answer", async () => {
    const { one, two } = await twoLives();
    const settling = Promise.withResolvers<typeof SETTLED>();
    one.facilitator.onSettle = () => settling.promise;
    const first = one.paywall.admit(presented());
    while (one.facilitator.settled.length === 0) await turn();
    const second = two.paywall.admit(presented());
    await turn();
    settling.resolve(SETTLED);
    const paid = paidOf(await first);
    await turn();
    await paid.delivered(sold());
    expect(tell(await second)).toBe("replayed");
    expect(two.facilitator.settled).toHaveLength(0);
    expect(two.facilitator.verified).toHaveLength(0);
  });

  it("deliver one after the other when the first delivery breaks", async () => {
    const { one, two } = await twoLives();
    const paid = paidOf(await one.paywall.admit(presented()));
    const second = two.paywall.admit(presented());
    await turn();
    await paid.undelivered({ sent: true, served: null });
    expect(tell(await second)).toBe("admitted");
    expect(two.facilitator.settled).toHaveLength(0);
  });

  it("answer unknown, never 402, when the wait for the other is over", async () => {
    const { time, one, two } = await twoLives();
    paidOf(await one.paywall.admit(presented()));
    for (const binding of ["GET /premium-data", "GET /other"]) {
      const waiting = two.paywall.admit(presented(1, { binding }));
      await time.advance(WAIT_MS - 1);
      await time.advance(1);
      expect(tell(await waiting)).toBe(binding === "GET /other" ? "invalid_payload" : "unknown");
    }
  });

  it("never send a buyer away to sign anew while its claim is open under another path", async () => {
    const { time, one, two } = await twoLives();
    one.facilitator.onSettle = () => new Promise(() => undefined);
    void one.paywall.admit(presented());
    while (one.facilitator.settled.length === 0) await turn();
    const waiting = two.paywall.admit(presented(1, { binding: "GET /other" }));
    await time.advance(WAIT_MS);
    expect(tell(await waiting)).toBe("unknown");
  });

  it("let go of a request whose buyer left while it waited", async () => {
    const { one, two } = await twoLives();
    const paid = paidOf(await one.paywall.admit(presented()));
    // Woken for nothing, as the contract allows.
    const redemptions = new Proxy(two.ledger, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name);
        if (name === "changed") return () => turn();
        return typeof member === "function" ? member.bind(target) : member;
      },
    });
    const { paywall } = await paywallStage({ time: two.time, ledger: redemptions });
    expect(tell(await paywall.admit(presented(1, { isGone: () => true })))).toBe("abandoned");
    await paid.undelivered({ sent: true, served: null });
    expect(await stateOf(two.ledger)).toBe("SETTLED");
  });

  it("deliver once when both find the payment settled at the same moment", async () => {
    const { one, two } = await twoLives();
    const gone = presented(1, { isGone: () => true });
    expect(tell(await one.paywall.admit(gone))).toBe("abandoned");
    const [first, second] = [one.paywall.admit(presented()), two.paywall.admit(presented())];
    const paid = paidOf(await Promise.race([first, second]));
    await paid.delivered(sold());
    expect([tell(await first), tell(await second)].sort()).toEqual(["admitted", "replayed"]);
  });

  it("do not take each other's claims back", async () => {
    const { one, two } = await twoLives();
    one.facilitator.onSettle = () => new Promise(() => undefined);
    void one.paywall.admit(presented());
    while (one.facilitator.settled.length === 0) await turn();
    const second = two.paywall.admit(presented());
    await two.time.advance(WAIT_MS);
    expect(tell(await second)).toBe("unknown");
    expect(await stateOf(one.ledger)).toBe("CLAIMED");
  });
});
