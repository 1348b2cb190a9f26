/** Nobody is charged who has left, and what a request had in its hands is nobody's once it is over. */
import { setImmediate as immediately } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { Presented } from "../../../../src/payments/sale/admission.ts";
import { Paywall } from "../../../../src/payments/sale/paywall.ts";
import { LocalPaymentService } from "../../../../src/payments/sale/payment-service.ts";
import { createLogger } from "../../../../src/telemetry/logger.ts";
import { ChannelFault } from "../../../../src/workers/fault.ts";
import { LedgerUnavailable } from "../../../../src/ledger/ledger.ts";
import {
  collectedOf,
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

const failure = (count: number, isDone = false) => ({
  count,
  isDone,
  error: new LedgerUnavailable("the database did not answer"),
});
const BROKEN = { sent: true, served: null } as const;

/** A stage whose ledger fails so. */
function faulty(failures: Parameters<typeof failing>[1]): Promise<PaywallStage> {
  return paywallStage({ redemptions: (ledger) => failing(ledger, failures) });
}

/** One payment that is paid and was not delivered. */
async function indebted(stage: PaywallStage, number = 1): Promise<void> {
  await paidOf(await stage.paywall.admit(presented(number))).undelivered(BROKEN);
}

describe("a payer whose request's body is waited for", () => {
  it("is not charged for what he has become owed meanwhile", async () => {
    const stage = await paywallStage();
    const { paywall, facilitator } = stage;
    const body = Promise.withResolvers<null>();
    let times = 0;
    const unfit = (): null | Promise<null> => (times++ === 0 ? body.promise : null);
    const slow = paywall.admit(presented(2, { unfit }));
    await immediately();
    await indebted(stage);
    body.resolve(null);
    await paidOf(await slow).delivered();
    expect(facilitator.settled).toHaveLength(1);
  });

  it("is charged once where he is owed nothing", async () => {
    const { paywall, facilitator } = await paywallStage();
    let times = 0;
    const unfit = (): null | Promise<null> => (times++ === 0 ? Promise.resolve(null) : null);
    await paidOf(await paywall.admit(presented(2, { unfit }))).delivered();
    expect(facilitator.settled).toHaveLength(1);
    expect(times).toBe(2);
  });
});

/** A stage whose download of payment 1 breaks off so, which is not stored before `storing` is. */
async function broken(how: "reset" | "closed", storing: Promise<void>): Promise<PaywallStage> {
  const stage = await paywallStage({
    redemptions: (ledger) =>
      new Proxy(ledger, {
        get(target, name) {
          const member: unknown = Reflect.get(target, name);
          if (typeof member !== "function") return member;
          if (name !== "step") return member.bind(target);
          return async (...words: [unknown, { readonly kind: string }]): Promise<unknown> => {
            if (words[1].kind === "unread") await storing;
            return Reflect.apply(member, target, words);
          };
        },
      }),
  });
  let broke: (how: "reset" | "closed") => void = () => undefined;
  const onReset: Presented["onReset"] = (listener) => void (broke = listener);
  const first = await stage.paywall.admit(presented(1, { onReset, repeats: 3 }));
  await paidOf(first).delivered(undefined, 60_000);
  broke(how);
  return stage;
}

describe("a payer whose download broke off", () => {
  it.each(["reset", "closed"] as const)(
    "is owed it however soon he comes again, and long it takes to store that (%s)",
    async (how) => {
      const storing = Promise.withResolvers<void>();
      const { paywall, facilitator } = await broken(how, storing.promise);
      const again = paywall.admit(presented(2, { repeats: 3 }));
      await immediately();
      storing.resolve();
      await paidOf(await again).delivered(undefined, 60_000);
      expect(facilitator.settled).toHaveLength(1);
    },
  );

  it("is owed it for as long as any, where an earlier one of it was closed in good order", async () => {
    const { paywall, facilitator, time } = await broken("closed", Promise.resolve());
    await time.advance(29_000);
    const again = await paywall.admit(presented(1, { repeats: 3 }));
    await paidOf(again).undelivered(BROKEN);
    await time.advance(2_000);
    await paidOf(await paywall.admit(presented(2, { repeats: 3 }))).delivered(undefined, 60_000);
    expect(facilitator.settled).toHaveLength(1);
  });

  it("is owed it for half a minute where it was closed in good order, counted from the last time", async () => {
    const { paywall, facilitator, time } = await broken("closed", Promise.resolve());
    await time.advance(29_000);
    let broke: (how: "closed") => void = () => undefined;
    const onReset: Presented["onReset"] = (listener) => void (broke = listener);
    const again = await paywall.admit(presented(1, { onReset, repeats: 3 }));
    await paidOf(again).delivered(undefined, 60_000);
    broke("closed");
    await time.advance(29_000);
    const third = await paywall.admit(presented(2, { onReset, repeats: 3 }));
    await paidOf(third).delivered(undefined, 60_000);
    expect(facilitator.settled).toHaveLength(1);
    broke("closed");
    await time.advance(31_000);
    await paidOf(await paywall.admit(presented(3, { repeats: 3 }))).delivered();
    expect(facilitator.settled).toHaveLength(2);
  });

  it("has nobody else wait for that", async () => {
    const { paywall, facilitator } = await broken("reset", new Promise<void>(() => undefined));
    const { payment } = presented(2);
    const from = "0x1111111111111111111111111111111111111111";
    const payload = {
      ...payment.payload,
      authorization: { ...Object(payment.payload).authorization, from },
    };
    const other = presented(2, { payment: { ...payment, payload } });
    await paidOf(await paywall.admit(other)).delivered();
    expect(facilitator.settled).toHaveLength(2);
  });
});

describe("a client that has left before its payment was claimed", () => {
  it("is not charged", async () => {
    const { paywall, facilitator, ledger } = await paywallStage();
    const gone = presented(1, { isGone: () => true });
    expect(tell(await paywall.admit(gone))).toBe("abandoned");
    expect(facilitator.verified).toEqual([]);
    expect(await stateOf(ledger)).toBe("(none)");
  });

  it("is not charged where it leaves while the ledger is asked", async () => {
    let isGone = false;
    const stage = await paywallStage({
      redemptions: (ledger) =>
        new Proxy(ledger, {
          get(target, name) {
            const member: unknown = Reflect.get(target, name);
            if (name === "step") isGone = true;
            return typeof member === "function" ? member.bind(target) : member;
          },
        }),
    });
    const leaving = presented(1, { isGone: () => isGone });
    expect(tell(await stage.paywall.admit(leaving))).toBe("abandoned");
    expect(stage.facilitator.verified).toEqual([]);
    expect(await stateOf(stage.ledger)).toBe("(none)");
  });
});

describe("a payment whose request is over", () => {
  it("is owed to its payer where a delivery could not be begun", async () => {
    const { paywall, facilitator } = await faulty({ delivering: failure(1) });
    expect(tell(await paywall.admit(presented(1)))).toBe("unknown");
    await paidOf(await paywall.admit(presented(2))).delivered();
    expect(facilitator.settled).toHaveLength(1);
  });

  it("is charged to nobody where the answer to its claim was lost", async () => {
    const { paywall, facilitator, ledger } = await faulty({ claim: failure(1, true) });
    expect(tell(await paywall.admit(presented(1)))).toBe("unavailable");
    await paidOf(await paywall.admit(presented(2))).delivered();
    expect(facilitator.settled).toHaveLength(1);
    expect([await stateOf(ledger, 1), await stateOf(ledger, 2)]).toEqual(["(none)", "DELIVERED"]);
  });

  it("is not left by what is stored late, once the next request has it", async () => {
    let leave: PromiseWithResolvers<void> | undefined;
    const { paywall, time, ledger, facilitator } = await paywallStage({
      redemptions: (real) =>
        new Proxy(real, {
          get(target, name) {
            const member: unknown = Reflect.get(target, name);
            if (typeof member !== "function") return member;
            if (name !== "step" || leave === undefined) return member.bind(target);
            const { promise } = leave;
            return async (...values: unknown[]) => {
              if (Object(values[1]).kind === "leave") await promise;
              return member.apply(target, values);
            };
          },
        }),
    });
    leave = Promise.withResolvers();
    facilitator.onSettle = async () => Promise.reject(new Error("lost"));
    const first = paywall.admit(presented(1));
    while (facilitator.settled.length === 0) await time.advance(0);
    await time.advance(1_000);
    expect(tell(await first)).toBe("unknown");
    const next = paywall.admit(presented(1));
    await time.advance(1_000);
    expect(facilitator.settled).toHaveLength(1);
    leave.resolve();
    await next;
    expect(facilitator.settled).toHaveLength(2);
    expect(await stateOf(ledger)).toBe("CLAIMED");
  });
});

describe("a payment that was had", () => {
  const gone: readonly [string, Partial<Presented>][] = [
    ["waits for it and has gone", { isGone: () => true }],
    ["goes while he is told", { onGone: (leave) => (leave(), () => undefined) }],
  ];
  const clients = ["192.0.2.1", "198.51.100.7"];
  it.each(gone.flatMap(([how, members]) => clients.map((client) => ({ how, client, members }))))(
    "is not owed again for who shows it from $client and $how",
    async ({ client, members }) => {
      const { paywall, facilitator } = await paywallStage();
      const paid = paidOf(await paywall.admit(presented(1)));
      const other = paywall.admit(presented(1, { client, target: "/premium-data?x", ...members }));
      await paid.delivered(sold());
      await other;
      await paidOf(await paywall.admit(presented(2))).delivered();
      expect(facilitator.settled).toHaveLength(2);
    },
  );
});

describe("a payer who is owed something", () => {
  it("is told to try again where his new payment cannot be looked at", async () => {
    const stage = await paywallStage();
    await indebted(stage);
    const { facilitator, ledger: redemptions, time } = stage;
    const logger = createLogger({ level: "silent", format: "json" });
    const payments = new LocalPaymentService({ facilitator, redemptions, logger, time });
    // As across the pipe to a process that is busy.
    payments.prove = () => Promise.reject(new ChannelFault("late", "no answer in time"));
    const paywall = new Paywall({ payments, logger, settlementWaitMs: WAIT_MS, time });
    expect(tell(await paywall.admit(presented(2)))).toBe("unavailable");
    expect(facilitator.settled).toHaveLength(1);
  });

  it("gets what can be delivered, whatever stands before it", async () => {
    const stage = await paywallStage();
    const { paywall, facilitator, time } = stage;
    const outcome = Promise.withResolvers<never>();
    facilitator.onSettle = () => outcome.promise;
    const first = paywall.admit(presented(1));
    while (facilitator.settled.length === 0) await time.advance(0);
    facilitator.onSettle = async () => SETTLED;
    await indebted(stage, 2);
    outcome.reject(new Error("lost"));
    expect(tell(await first)).toBe("unknown");
    facilitator.onSettle = async () => Promise.reject(new Error("lost"));
    await paidOf(await paywall.admit(presented(3))).delivered();
    expect(tell(await paywall.admit(presented(4)))).toBe("unknown");
  });

  it("is not told to pay where nothing can be charged to him just now", async () => {
    const stage = await paywallStage();
    await indebted(stage);
    stage.facilitator.onVerify = async () => ({
      isValid: false,
      invalidReason: "invalid_transaction_state",
      payer: "",
    });
    const elsewhere = presented(2, { client: "198.51.100.7" });
    expect(tell(await stage.paywall.admit(elsewhere))).toBe("owed");
    await paidOf(await stage.paywall.admit(presented(2))).delivered();
    expect(stage.facilitator.settled).toHaveLength(1);
  });
});

describe("a kept answer that is given again", () => {
  const uncollected = { ...sold(), isUncollected: true };

  it.each(["the ledger's word is lost", "it is not known to be sent"])(
    "is still owed where %s",
    async (what) => {
      const isLost = what.startsWith("the ledger");
      const { paywall, facilitator } = await faulty(isLost ? { replay: failure(1, true) } : {});
      await paidOf(await paywall.admit(presented(1))).delivered(uncollected);
      const lost = isLost ? "unavailable" : "replayed";
      expect(tell(await paywall.admit(presented(2)))).toBe(lost);
      await collectedOf(await paywall.admit(presented(3)))();
      // Had by now: the next one is another purchase.
      await paidOf(await paywall.admit(presented(4))).delivered();
      expect(facilitator.settled).toHaveLength(2);
    },
  );

  it("is owed once more where its connection was reset just after it was sent", async () => {
    const { paywall, facilitator } = await paywallStage();
    await paidOf(await paywall.admit(presented(1))).delivered(uncollected);
    const resets: Parameters<Presented["onReset"]>[0][] = [];
    const onReset: Presented["onReset"] = (listener) => void resets.push(listener);
    await collectedOf(await paywall.admit(presented(2, { onReset })))();
    for (const reset of resets) reset("reset");
    await immediately();
    await collectedOf(await paywall.admit(presented(3)))();
    await paidOf(await paywall.admit(presented(4))).delivered();
    expect(facilitator.settled).toHaveLength(2);
  });
});
