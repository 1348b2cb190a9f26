/** Whom nothing is sold to, what is sold to nobody for now, and how much of it in an hour. */
import { describe, expect, test, vi } from "vitest";
import { gasBudget, HOUR_MS, SALES } from "../../../../src/ledger/budgets.ts";
import type { Pause } from "../../../../src/ledger/pauses.ts";
import type { SaleRules } from "../../../../src/payments/sale/sale-guard.ts";
import { PayerList } from "../../../../src/x402/payer-list.ts";
import { examplePayment, PAYER } from "../../ledger/example-payment.ts";
import { sign } from "../../ledger/ledger-driver.ts";
import type { TextSigners } from "../../../../src/mechanism/mechanism.ts";
import {
  ALL_SOLD,
  paidOf,
  paywallStage,
  presented,
  REVERTED,
  sold,
  stateOf,
} from "./paywall-stage.ts";

const ROUTE = "GET /premium-data";
const NETWORK = "base-sepolia";
const UNTIL_SECONDS = 3_600 - ((1_700_000_000_000 / 1000) % 3_600);
const ALL: Pause = { scope: "all", untilMs: null, reason: "", by: "me", sinceMs: 0 };
const MOVED = { priorityAtomic: "0", moved: 1, priceAttodollars: null };
const OTHER = `0x${"12".repeat(20)}`;

const BARRED = { kind: "barred", status: 403 };
const UNSIGNED = { kind: "refused", refusal: { codeV2: expect.stringMatching(/signature/) } };

function listOf(...entries: readonly string[]): PayerList {
  const list = new PayerList("any");
  list.read(entries.join("\n"));
  return list;
}

async function stage(rules: Partial<SaleRules> = {}) {
  const opened = await paywallStage({ rules });
  const { paywall, guard, time } = opened;
  const buy = (number: number) => paywall.admit(presented(number, { route: ROUTE }));
  const look = async (): Promise<void> => time.advance(500);
  return { ...opened, guard, buy, look };
}

describe("lists", () => {
  test.each<[string, Partial<SaleRules>]>([
    ["on the list of those who may not", { deny: listOf(PAYER.toLowerCase()) }],
    ["not on the list of those who alone may", { allow: listOf(OTHER) }],
  ])("a payer %s is told so, and nothing of his is claimed or looked at", async (_, rules) => {
    const { buy, facilitator, ledger } = await stage(rules);
    facilitator.isProven = () => true;
    const admission = await buy(1);
    expect(admission).toMatchObject({
      kind: "barred",
      status: 403,
      seconds: null,
      refusal: { codeV2: "invalid_exact_evm_payload_authorization_from_address_kyt" },
    });
    expect(facilitator.verified).toEqual([]);
    expect(await stateOf(ledger)).toBe("(none)");
  });

  test.each([false, true])(
    "a payer whose signature only others can judge is told so when they have (%s)",
    async (isDoubtful) => {
      const { buy, facilitator, ledger } = await stage({ deny: listOf(PAYER) });
      facilitator.isDoubtful = () => isDoubtful;
      expect(await buy(1)).toMatchObject({ kind: "barred", status: 403 });
      expect([facilitator.verified.length, facilitator.settled]).toEqual([1, []]);
      expect(await stateOf(ledger)).toBe("(none)");
    },
  );

  test.each(["at once", "by those who are asked"])(
    "whoever only names a payer on a list hears nothing of lists: refused %s",
    async (when) => {
      const { buy, facilitator } = await stage({ deny: listOf(PAYER) });
      const forged = {
        isValid: false,
        invalidReason: "invalid_payload",
        payer: PAYER,
        detail: "the signature is not the payer's",
      } as const;
      if (when === "at once") facilitator.judge = () => forged;
      else facilitator.onVerify = async () => forged;
      expect(await buy(1)).toMatchObject({
        kind: "refused",
        refusal: { detail: "the signature is not the payer's" },
      });
    },
  );

  test.each<[string, Partial<SaleRules>]>([
    ["others may not", { deny: listOf(OTHER) }],
    ["he may", { allow: listOf(PAYER) }],
  ])("where %s he buys", async (_, rules) => {
    const { buy } = await stage(rules);
    expect((await buy(1)).kind).toBe("admitted");
  });

  test("who is denied while his payment is settled gets what he pays for, and no more", async () => {
    const { buy, guard, facilitator, rules } = await stage();
    const { onSettle } = facilitator;
    facilitator.onSettle = async (...asked) => {
      guard.configure({ ...rules, deny: listOf(PAYER) });
      return onSettle(...asked);
    };
    const paid = paidOf(await buy(1));
    await paid.undelivered({ sent: true, served: null });
    expect((await buy(1)).kind).toBe("admitted");
    expect(await buy(2)).toMatchObject({ kind: "barred", status: 403 });
  });

  test.each([false, true])(
    "who is denied after he was looked up is not charged: the claim decides, and is dropped (%s)",
    async (isAwaited) => {
      const { guard, facilitator, ledger, paywall, rules } = await stage();
      facilitator.isProven = () => true;
      const deny = (): null => {
        guard.configure({ ...rules, deny: listOf(PAYER) });
        return null;
      };
      // Where a body is read for that he is looked up once more.
      const unfit = isAwaited ? async () => deny() : deny;
      const admission = await paywall.admit(presented(1, { route: ROUTE, unfit }));
      expect(admission).toMatchObject({ kind: "barred", status: 403 });
      expect([facilitator.verified, facilitator.settled]).toEqual([[], []]);
      expect(await stateOf(ledger)).toBe("(none)");
    },
  );

  test.each(["denied", "paused"])(
    "what is owed goes to whoever signs anew for it, %s or not",
    async (why) => {
      const { buy, guard, ledger, look, facilitator, rules } = await stage();
      await paidOf(await buy(1)).undelivered({ sent: true, served: null });
      if (why === "denied") guard.configure({ ...rules, deny: listOf(PAYER) });
      else await ledger.pauses.pause(ALL);
      await look();
      await paidOf(await buy(2)).delivered(sold());
      expect(facilitator.settled).toHaveLength(1);
      expect((await buy(3)).kind).toBe("barred");
    },
  );

  test("who is denied while it is looked at his payment is not charged", async () => {
    const { buy, guard, facilitator, ledger, rules } = await stage();
    facilitator.isProven = () => true;
    const { onVerify } = facilitator;
    facilitator.onVerify = async (...asked) => {
      guard.configure({ ...rules, deny: listOf(PAYER) });
      return onVerify(...asked);
    };
    expect(await buy(1)).toMatchObject({ kind: "barred", status: 403 });
    expect(facilitator.settled).toEqual([]);
    expect(await stateOf(ledger)).toBe("(none)");
  });

  test.each<[string, Partial<Record<keyof TextSigners, unknown>>, boolean, object]>([
    ["with his key", { hasKeySigned: () => true }, false, BARRED],
    ["by his code", { hasCodeSigned: async () => true }, true, BARRED],
    ["by code that does not know it", { hasCodeSigned: async () => false }, true, UNSIGNED],
    ["and has only named him", {}, false, UNSIGNED],
  ])(
    "who is denied and signs in %s is told so only if it is he",
    async (_, by, hasBought, told) => {
      const signers = { hasKeySigned: () => false, hasCodeSigned: async () => false, ...by };
      const rules = { ...ALL_SOLD };
      const opened = await paywallStage({ rules, signers: signers as TextSigners });
      const { paywall, time, guard } = opened;
      if (hasBought) await paidOf(await paywall.admit(presented(1))).delivered(sold());
      guard.configure({ ...rules, deny: listOf(PAYER) });
      const { payment: _payment, accepts: _accepts, ...asked } = presented();
      const said = { address: PAYER, network: NETWORK, message: "", signature: "0x" } as const;
      const signIn = { ...said, nonce: "ab", untilMs: time.now() + 1_000 };
      const counted = vi.spyOn(guard, "barOfAccount");
      expect(await paywall.admitSignedIn(signIn, asked)).toMatchObject(told);
      // Nor is it counted as his.
      expect(counted).toHaveBeenCalledTimes(told === BARRED ? 1 : 0);
    },
  );
});

describe("pauses", () => {
  test.each<[Pause["scope"], string | undefined]>([
    ["all", ROUTE],
    [`route ${ROUTE}`, ROUTE],
    [`network ${NETWORK}`, ROUTE],
  ])("of %s are heard of within a second, charge nothing, and end", async (scope) => {
    const { buy, ledger, look, facilitator, guard, time } = await stage();
    const paid = paidOf(await buy(1));
    await ledger.pauses.pause({ ...ALL, scope, untilMs: time.now() + 60_000 });
    await look();
    expect(await buy(2)).toMatchObject({ kind: "barred", status: 503, seconds: 60 });
    expect(facilitator.verified).toHaveLength(1);
    expect(await stateOf(ledger, 2)).toBe("(none)");
    // What was paid before is delivered.
    await paid.undelivered({ sent: true, served: null });
    expect((await buy(1)).kind).toBe("admitted");
    await time.advance(60_000);
    await look();
    expect(guard.stops.size).toBe(0);
    expect((await buy(2)).kind).toBe("admitted");
  });

  test("of another route or network keep nobody from buying", async () => {
    const { buy, ledger, look, guard } = await stage();
    await ledger.pauses.pause({ ...ALL, scope: "route GET /other" });
    await ledger.pauses.pause({ ...ALL, scope: "network base" });
    await look();
    expect(guard.stops.size).toBe(2);
    expect((await buy(1)).kind).toBe("admitted");
  });

  test("are told to the log with who and why, once, and so is their end", async () => {
    const { ledger, look, log, guard } = await stage();
    await ledger.pauses.pause({ ...ALL, reason: "a leak" });
    await look();
    await look();
    const { revision } = guard;
    await ledger.pauses.resume();
    await look();
    expect(guard.revision).toBe(revision + 1);
    expect(log).toMatchObject([
      { level: "warn", scope: "all", pause: { reason: "a leak", by: "me" } },
      { level: "info", scope: "all", msg: "sales go on" },
    ]);
  });

  test("stay known while the ledger cannot be asked", async () => {
    const { ledger, look, guard, log } = await stage();
    await ledger.pauses.pause(ALL);
    await look();
    await ledger.close();
    await look();
    await look();
    expect([...guard.stops.keys()]).toEqual(["all"]);
    expect(log.filter(({ msg }) => msg === "it cannot be looked up what is paused")).toHaveLength(
      1,
    );
  });
});

describe("limits of an hour", () => {
  test("one payer buys for no more, of twenty payments at once; in the next hour he buys again", async () => {
    const { buy, facilitator, time, guard, look } = await stage({ perPayer: 35_000 });
    const all = await Promise.all(Array.from({ length: 20 }, (_, number) => buy(number)));
    expect(all.filter(({ kind }) => kind === "admitted")).toHaveLength(3);
    const refused = all.filter(({ kind }) => kind === "barred");
    expect(refused).toHaveLength(17);
    expect(refused[0]).toMatchObject({ status: 429, seconds: UNTIL_SECONDS });
    expect(facilitator.settled).toHaveLength(3);
    // Nobody else is kept from buying by that.
    await look();
    expect(guard.stops.size).toBe(0);
    await time.advance(HOUR_MS);
    expect((await buy(21)).kind).toBe("admitted");
  });

  test("a payment that is refused or fails takes nothing of it", async () => {
    const { buy, facilitator, ledger } = await stage({ perPayer: 15_000 });
    const { onVerify } = facilitator;
    facilitator.onVerify = async () => {
      return { isValid: false, invalidReason: "insufficient_funds", payer: PAYER };
    };
    expect((await buy(1)).kind).toBe("refused");
    // Before it is known to be good it has not even been counted for a moment.
    facilitator.onVerify = async (...asked) => {
      expect((await ledger.budgets.counted([SALES])).get(SALES) ?? 0).toBe(0);
      return onVerify(...asked);
    };
    facilitator.onSettle = async () => REVERTED;
    expect((await buy(2)).kind).toBe("refused");
    facilitator.onVerify = onVerify;
    facilitator.onSettle = async () => {
      throw new Error("it may have moved");
    };
    expect((await buy(3)).kind).toBe("unknown");
    // What may have moved counts until it is known.
    expect((await ledger.budgets.counted([SALES])).get(SALES)).toBe(10_000);
  });

  describe("that is everybody's, of one purse", () => {
    /** Payments of a cent, of whom the purse is good for so many, and that are decided when the test says so. */
    async function purse(count: number) {
      const at = await stage({ sales: 1_000_000 });
      const { facilitator, ledger, buy } = at;
      facilitator.meansAtomic = 10_000n * BigInt(count);
      const settling: (() => void)[] = [];
      facilitator.onSettle = () => new Promise((resolve) => settling.push(() => resolve(REVERTED)));
      const counted = async () => (await ledger.budgets.counted([SALES])).get(SALES) ?? 0;
      const all = Array.from({ length: 20 }, (_, number) => buy(number));
      await expect.poll(counted).toBe(10_000 * count);
      return { ...at, settling, counted, all };
    }

    test("no more is reserved than it has, however many payments are good by themselves", async () => {
      const { counted, time, all } = await purse(2);
      await time.advance(3_900);
      expect(await counted()).toBe(20_000);
      await time.advance(200);
      const refused = await Promise.race(all.slice(-1));
      expect(refused).toMatchObject({
        kind: "refused",
        refusal: { code: "insufficient_funds", detail: expect.stringMatching(/under way/) },
      });
    });

    test("what is decided makes room for those that wait, and nobody else's purse matters", async () => {
      const { counted, settling, facilitator } = await purse(1);
      expect(facilitator.settled).toHaveLength(1);
      settling.shift()?.();
      await expect.poll(() => facilitator.settled.length).toBe(2);
      expect(await counted()).toBe(10_000);
    });

    test.each<[Partial<SaleRules>, bigint | undefined]>([
      [{ sales: 1_000_000 }, undefined],
      [{ perPayer: 1_000_000 }, 10_000n],
    ])(
      "is no matter where nobody says what it has, or an hour is each payer's own: %j",
      async (limits, means) => {
        const { buy, facilitator, ledger } = await stage(limits);
        facilitator.meansAtomic = means;
        facilitator.onSettle = () => new Promise(() => undefined);
        for (const number of [1, 2]) void buy(number);
        await expect
          .poll(async () => (await ledger.budgets.counted([SALES])).get(SALES))
          .toBe(20_000);
      },
    );
  });

  test("what is sold again, or is a second delivery, counts once", async () => {
    const { buy, ledger } = await stage({ perPayer: 15_000 });
    const paid = paidOf(await buy(1));
    await paid.undelivered({ sent: true, served: null });
    const again = paidOf(await buy(1));
    await again.delivered(sold());
    expect((await buy(1)).kind).toBe("replayed");
    expect((await ledger.budgets.counted([SALES])).get(SALES)).toBe(10_000);
  });

  test("all sales together end when the hour's are made, and what costs more than is left before", async () => {
    const prices = new Map([
      [ROUTE, 10_000],
      ["GET /cheap", 4_000],
    ]);
    const { buy, guard, look, time, log } = await stage({ sales: 25_000, prices });
    expect((await buy(1)).kind).toBe("admitted");
    expect((await buy(2)).kind).toBe("admitted");
    expect(await buy(3)).toMatchObject({ kind: "barred", status: 503, seconds: UNTIL_SECONDS });
    await look();
    const stop = { why: "sales", untilMs: (Math.floor(time.now() / HOUR_MS) + 1) * HOUR_MS };
    expect([...guard.stops]).toEqual([[`route ${ROUTE}`, stop]]);
    expect(log.at(-1)).toMatchObject({ level: "error", scope: `route ${ROUTE}` });
    await time.advance(HOUR_MS);
    await look();
    expect(guard.stops.size).toBe(0);
    expect((await buy(3)).kind).toBe("admitted");
  });

  test("where no price fits any more all of it is one stop", async () => {
    const { buy, guard, look } = await stage({ sales: 10_000, prices: new Map([[ROUTE, 10_000]]) });
    await buy(1);
    await look();
    expect([...guard.stops.keys()]).toEqual(["sales"]);
    expect(guard.barOf({ network: NETWORK, payer: PAYER })).toBeUndefined();
  });

  test("gas closes its network until the hour is over, also for others", async () => {
    const gas = new Map([
      [NETWORK, 100],
      ["base", 100],
    ]);
    const { buy, ledger, guard, look, time } = await stage({ gas });
    const other = examplePayment(10);
    const caller = "a gateway";
    await ledger.step(other.key, { kind: "begin", request: other.request, caller });
    const { id } = await sign(ledger, [other]);
    await ledger.signing.concluded(id, "INCLUDED", { feeAtomic: "100", ...MOVED });
    expect((await ledger.budgets.counted([gasBudget(NETWORK)])).get(gasBudget(NETWORK))).toBe(100);
    await look();
    expect([...guard.stops.keys()]).toEqual([`network ${NETWORK}`]);
    expect(await buy(11)).toMatchObject({ kind: "barred", status: 503 });
    expect(guard.barOf({ network: NETWORK, payer: PAYER })?.status).toBe(503);
    expect(guard.barOf({ network: "base", payer: PAYER })).toBeUndefined();
    await time.advance(HOUR_MS);
    await look();
    expect((await buy(11)).kind).toBe("admitted");
  });

  test("a sale that cannot be counted is not made", async () => {
    const { buy, ledger, facilitator } = await stage({ perPayer: 15_000 });
    const { onVerify } = facilitator;
    facilitator.onVerify = async (...asked) => {
      Object.assign(ledger.budgets, { reserve: () => Promise.reject(new Error("full disk")) });
      return onVerify(...asked);
    };
    expect((await buy(1)).kind).toBe("unavailable");
    expect(facilitator.settled).toEqual([]);
    expect(await stateOf(ledger)).toBe("(none)");
  });
});
