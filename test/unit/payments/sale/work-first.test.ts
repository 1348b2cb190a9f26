/** Work that comes before the settlement: in which order things happen, and what a payer may have done for nothing. */
import { setImmediate as immediately } from "node:timers/promises";
import { describe, expect, it, test } from "vitest";
import { LedgerConflict, LedgerUnavailable } from "../../../../src/ledger/ledger.ts";
import type { Presented, WantedWork, Worked } from "../../../../src/payments/sale/admission.ts";
import {
  MAX_UNPAID_WORKS,
  UNPAID_WORK_MS,
  UnpaidWorks,
} from "../../../../src/payments/sale/unpaid-work.ts";
import { ManualTime } from "../../../support/manual-time.ts";
import { PAYER } from "../../ledger/example-payment.ts";
import {
  failing,
  paidOf,
  paywallStage,
  presented,
  SETTLED,
  sold,
  stateOf,
  tell,
  type PaywallStage,
} from "./paywall-stage.ts";

const ROUTE = "GET /premium-data";
const GOODS: Worked = { kind: "goods", sold: sold() };
const NOTHING: Worked = { kind: "nothing", isBackends: false };
const FAILED: Worked = { kind: "nothing", isBackends: true };
const REFUSED = {
  ...SETTLED,
  success: false,
  transaction: "",
  errorReason: "insufficient_funds",
} as const;

/** A request whose backend works so, and what was asked of it. */
function asked(
  number: number,
  come: Worked | (() => Promise<Worked>) = GOODS,
  more: Partial<Presented> = {},
) {
  const works: WantedWork[] = [];
  const work = async (wanted: WantedWork): Promise<Worked> => {
    works.push(wanted);
    return typeof come === "function" ? come() : come;
  };
  return { works, request: presented(number, { route: ROUTE, work, ...more }) };
}

const failure = (count: number, isDone = false) => ({
  count,
  isDone,
  error: new LedgerUnavailable("the database did not answer"),
});

/** A client that leaves when it is told to. */
function leaver() {
  let isGone = false;
  const listeners = new Set<() => void>();
  const leave = (): void => {
    isGone = true;
    for (const listener of listeners) listener();
  };
  const onGone = (listener: () => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  return { leave, client: { isGone: () => isGone, onGone } satisfies Partial<Presented> };
}

describe("the backend", () => {
  it("is asked when the payment is claimed and found good, and nobody settles before it has answered", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    const { works, request } = asked(1, async () => {
      expect(facilitator.verified).toHaveLength(1);
      expect(facilitator.settled).toEqual([]);
      expect(await stateOf(ledger)).toBe("CLAIMED");
      return GOODS;
    });
    facilitator.onSettle = async () => {
      expect(works).toHaveLength(1);
      return SETTLED;
    };
    const paid = paidOf(await paywall.admit(request));
    expect(paid).toMatchObject({ answer: "here", isRepeat: false });
    expect(works).toMatchObject([{ payer: PAYER, idempotencyKey: paid.idempotencyKey }]);
    // What was found before the work is not what it is settled by.
    expect(facilitator.settled).toMatchObject([{ claim: "found", verified: undefined }]);
    await paid.delivered(sold());
    expect(await stateOf(ledger)).toBe("DELIVERED");
  });

  test.each([NOTHING, FAILED])(
    "that has nothing to sell leaves the payment as it was: %o",
    async (come) => {
      const { paywall, facilitator, ledger } = await paywallStage();
      expect(tell(await paywall.admit(asked(1, come).request))).toBe("unsold");
      expect([await stateOf(ledger), facilitator.settled]).toEqual(["(none)", []]);
      await paidOf(await paywall.admit(asked(1).request)).delivered();
    },
  );

  it("is not asked for what is not good, and not for who is denied, paused or over his limits", async () => {
    const stage = await paywallStage({ rules: { perPayer: 15_000 } });
    const { paywall, facilitator, guard, rules, ledger } = stage;
    facilitator.onVerify = async () => ({
      isValid: false,
      invalidReason: "insufficient_funds",
      payer: PAYER,
    });
    const bad = asked(1);
    expect(tell(await paywall.admit(bad.request))).toBe("insufficient_funds");
    facilitator.onVerify = async () => ({ isValid: true, payer: PAYER });
    await paidOf(await paywall.admit(asked(2).request)).delivered();
    const second = asked(3);
    expect(await paywall.admit(second.request)).toMatchObject({ kind: "barred", status: 429 });
    guard.configure({ ...rules, deny: { has: () => true } });
    const denied = asked(4);
    expect(await paywall.admit(denied.request)).toMatchObject({ kind: "barred", status: 403 });
    expect([...bad.works, ...second.works, ...denied.works]).toEqual([]);
    for (const number of [1, 3, 4]) expect(await stateOf(ledger, number)).toBe("(none)");
  });

  it("gives back what was reserved of an hour where it has nothing to sell", async () => {
    const { paywall } = await paywallStage({ rules: { perPayer: 10_000 } });
    expect(tell(await paywall.admit(asked(1, NOTHING).request))).toBe("unsold");
    await paidOf(await paywall.admit(asked(2).request)).delivered();
    expect(await paywall.admit(asked(3).request)).toMatchObject({ kind: "barred" });
  });

  it("works once for what is presented many times at once", async () => {
    const { paywall, facilitator } = await paywallStage();
    const answered = Promise.withResolvers<Worked>();
    const first = asked(1, () => answered.promise);
    const others = [asked(1), asked(1)];
    const all = [first, ...others].map(({ request }) => paywall.admit(request));
    await immediately();
    answered.resolve(GOODS);
    const [admission] = await Promise.all(all.slice(0, 1));
    await paidOf(admission ?? { kind: "abandoned" }).delivered(sold());
    for (const each of all.slice(1)) expect((await each).kind).toBe("replayed");
    expect(others.flatMap(({ works }) => works)).toEqual([]);
    expect(facilitator.settled).toHaveLength(1);
  });
});

describe("a settlement that comes to nothing after the work", () => {
  it("delivers nothing, and says why", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    facilitator.onSettle = async () => REFUSED;
    expect(await paywall.admit(asked(1).request)).toMatchObject({
      kind: "refused",
      refusal: { code: "insufficient_funds" },
    });
    expect(await stateOf(ledger)).toBe("(none)");
  });

  it("is unknown: the same payment has what was answered, and nobody works again", async () => {
    const { paywall, facilitator } = await paywallStage();
    facilitator.onSettle = async () => Promise.reject(new Error("nobody knows"));
    expect(tell(await paywall.admit(asked(1).request))).toBe("unknown");
    facilitator.onSettle = async () => SETTLED;
    const again = asked(1);
    const paid = paidOf(await paywall.admit(again.request));
    expect(paid.answer).toMatchObject({ status: 200, body: Buffer.from("the goods") });
    expect(again.works).toEqual([]);
    await paid.delivered(sold());
    expect((await paywall.admit(asked(1).request)).kind).toBe("replayed");
  });
});

describe("a buyer who leaves", () => {
  it("while the backend works is not charged, and holds nobody up", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    const { leave, client } = leaver();
    const begun = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<Worked>();
    const { request } = asked(
      1,
      () => {
        begun.resolve();
        return answered.promise;
      },
      client,
    );
    const admission = paywall.admit(request);
    await begun.promise;
    leave();
    await immediately();
    // Also for whoever asks another process.
    expect(await stateOf(ledger)).toBe("(none)");
    answered.resolve(GOODS);
    expect(tell(await admission)).toBe("abandoned");
    expect(facilitator.settled).toEqual([]);
    await paidOf(await paywall.admit(asked(1).request)).delivered();
  });

  it("as it is settled is owed what was answered", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    const { leave, client } = leaver();
    facilitator.onSettle = async () => {
      leave();
      return SETTLED;
    };
    expect(tell(await paywall.admit(asked(1, GOODS, client).request))).toBe("abandoned");
    expect(await stateOf(ledger)).toBe("SETTLED");
    const again = asked(2);
    const paid = paidOf(await paywall.admit(again.request));
    expect(paid.answer).toMatchObject({ status: 200 });
    expect(again.works).toEqual([]);
  });
});

describe("a ledger that fails", () => {
  it.each(["answered", "released"] as const)(
    "as `%s` is stored charges nobody for work that nobody has done",
    async (kind) => {
      const stage = await paywallStage({
        redemptions: (ledger) => failing(ledger, { [kind]: failure(1) }),
      });
      const { paywall, facilitator, ledger } = stage;
      const come = kind === "released" ? NOTHING : GOODS;
      expect(["unknown", "unavailable"]).toContain(
        tell(await paywall.admit(asked(1, come).request)),
      );
      // Dropped, and not left for the next one to be charged.
      expect(await stateOf(ledger)).toBe("(none)");
      expect(facilitator.settled).toEqual([]);
      const again = asked(1);
      await paidOf(await paywall.admit(again.request)).delivered();
      expect(again.works).toHaveLength(1);
    },
  );

  it("that has given the claim to somebody else charges nothing", async () => {
    const stage = await paywallStage();
    const { paywall, facilitator, ledger } = stage;
    const { request } = asked(1, async () => {
      const [key] = (await ledger.books.list({ limit: 1 })).map((each) => each.key);
      if (key !== undefined) await ledger.step(key, { kind: "released" });
      return GOODS;
    });
    expect(tell(await paywall.admit(request))).toBe("unknown");
    expect(facilitator.settled).toEqual([]);
  });

  it("of which this life is dead charges nothing", async () => {
    const dead = { count: 1, error: new LedgerConflict("another life has it") };
    const stage = await paywallStage({
      redemptions: (ledger) => failing(ledger, { answered: dead }),
    });
    expect(tell(await stage.paywall.admit(asked(1).request))).toBe("unknown");
    expect(stage.facilitator.settled).toEqual([]);
  });
});

describe("what a payer may have done for nothing", () => {
  async function spoil(stage: PaywallStage, times: number, from = 1): Promise<string[]> {
    const told: string[] = [];
    for (let number = from; number < from + times; number += 1) {
      told.push(tell(await stage.paywall.admit(asked(number).request)));
    }
    return told;
  }

  it("is so much, and then he waits", async () => {
    const stage = await paywallStage();
    const { paywall, facilitator, time, ledger } = stage;
    facilitator.onSettle = async () => REFUSED;
    const all = Array.from({ length: MAX_UNPAID_WORKS }, () => "insufficient_funds");
    expect(await spoil(stage, MAX_UNPAID_WORKS)).toEqual(all);
    const over = asked(90);
    expect(await paywall.admit(over.request)).toMatchObject({
      kind: "barred",
      status: 429,
      seconds: UNPAID_WORK_MS / 1000,
    });
    expect([over.works, await stateOf(ledger, 90)]).toEqual([[], "(none)"]);
    // What he pays for uses up none of it.
    await time.advance(UNPAID_WORK_MS);
    facilitator.onSettle = async () => SETTLED;
    for (const number of [91, 92, 93])
      await paidOf(await paywall.admit(asked(number).request)).delivered();
    facilitator.onSettle = async () => REFUSED;
    expect(await spoil(stage, 2, 94)).toEqual(["insufficient_funds", "barred"]);
  });

  it("is not what its backend has failed, nor what nobody knows the outcome of", async () => {
    const stage = await paywallStage();
    const { paywall, facilitator } = stage;
    for (let number = 1; number <= MAX_UNPAID_WORKS + 1; number += 1) {
      expect(tell(await paywall.admit(asked(1, FAILED).request))).toBe("unsold");
    }
    facilitator.onSettle = async () => Promise.reject(new Error("nobody knows"));
    expect(new Set(await spoil(stage, MAX_UNPAID_WORKS + 1))).toEqual(new Set(["unknown"]));
    facilitator.onSettle = async () => SETTLED;
    await paidOf(await paywall.admit(asked(90).request)).delivered();
  });

  it("is what he asks for in vain, and what he leaves", async () => {
    const stage = await paywallStage();
    const { paywall } = stage;
    for (let number = 1; number < MAX_UNPAID_WORKS; number += 1) {
      expect(tell(await paywall.admit(asked(1, NOTHING).request))).toBe("unsold");
    }
    const { leave, client } = leaver();
    const leaving = asked(
      1,
      async () => {
        leave();
        return GOODS;
      },
      client,
    );
    expect(tell(await paywall.admit(leaving.request))).toBe("abandoned");
    expect(tell(await paywall.admit(asked(1).request))).toBe("barred");
  });

  it("at one time is what is in his purse", async () => {
    const { paywall, facilitator, time } = await paywallStage();
    facilitator.meansAtomic = 10_000n;
    const answered = Promise.withResolvers<Worked>();
    const first = paywall.admit(asked(1, () => answered.promise).request);
    await immediately();
    const second = asked(2);
    const waiting = paywall.admit(second.request);
    await time.advance(4_000);
    expect(tell(await waiting)).toBe("insufficient_funds");
    expect(second.works).toEqual([]);
    answered.resolve(GOODS);
    await paidOf(await first).delivered();
    await paidOf(await paywall.admit(asked(3).request)).delivered();
  });

  it("is taken for as long as a work lasts: time gives back what is spoilt, and nothing else", async () => {
    const time = new ManualTime();
    const works = new UnpaidWorks(time);
    const { signal } = new AbortController();
    const begin = async () => {
      const begun = await works.begin("one", undefined, signal);
      return typeof begun === "object" ? begun : undefined;
    };
    const underWay = await Promise.all(Array.from({ length: MAX_UNPAID_WORKS }, begin));
    expect(underWay.every((each) => each !== undefined)).toBe(true);
    await time.advance(10 * UNPAID_WORK_MS);
    expect(await begin()).toBeUndefined();
    for (const each of underWay.slice(1)) each?.end("spoilt");
    underWay[0]?.end("paid");
    // The one that was paid for has its own place back, and none of a spoilt one.
    expect(await begin()).toBeDefined();
    expect(await begin()).toBeUndefined();
    await time.advance(UNPAID_WORK_MS);
    expect(await begin()).toBeDefined();
    expect(await begin()).toBeUndefined();
  });

  it("is his own: nobody else waits for it", async () => {
    const works = new UnpaidWorks(new ManualTime());
    const { signal } = new AbortController();
    for (let count = 0; count < MAX_UNPAID_WORKS; count += 1) {
      expect(await works.begin("one", undefined, signal)).toBeTypeOf("object");
    }
    expect(await works.begin("one", undefined, signal)).toBe(UNPAID_WORK_MS / 1000);
    expect(await works.begin("other", undefined, signal)).toBeTypeOf("object");
  });
});
