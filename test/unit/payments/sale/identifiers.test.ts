/** Buyers who name their purchases: whoever signs anew for one that may be paid is not charged again. */
import { describe, expect, test } from "vitest";
import {
  failing,
  paidOf,
  paywallStage,
  presented,
  REVERTED,
  sold,
  tell,
  TRANSACTION,
} from "./paywall-stage.ts";

const identifier = "pay_0123456789abcdef";

/** One of the payments for one URL, or another, under that name. */
const named = (number: number, members: Parameters<typeof presented>[1] = {}) =>
  presented(number, { identifier, ...members });

describe("a purchase that is named", () => {
  test("is had again with its own payment, and is 409 for another one, which nobody verifies", async () => {
    const { paywall, facilitator } = await paywallStage();
    await paidOf(await paywall.admit(named(1))).delivered(sold());
    const { length } = facilitator.verified;
    const again = await paywall.admit(named(2));
    expect(again).toMatchObject({ kind: "owed", detail: expect.stringContaining("identifier") });
    expect(await paywall.admit(named(1))).toMatchObject({
      kind: "replayed",
      settlement: { transaction: TRANSACTION },
    });
    expect([facilitator.verified.length, facilitator.settled.length]).toEqual([length, 1]);
  });

  test("is 409 for a payment that would be refused at once, too", async () => {
    const { paywall, facilitator } = await paywallStage();
    await paidOf(await paywall.admit(named(1))).delivered(sold());
    facilitator.judge = () => ({ isValid: false, invalidReason: "invalid_payload", payer: "" });
    expect(tell(await paywall.admit(presented(2)))).toBe("invalid_payload");
    expect(tell(await paywall.admit(named(2)))).toBe("owed");
  });

  test.each([
    ["another URL", { binding: "GET /other", target: "/other" }],
    ["another method", { binding: "POST /premium-data" }],
    ["another query", { target: "/premium-data?day=2" }],
  ])("is 409 for %s, with its own payment, too", async (_, members) => {
    const { paywall, facilitator } = await paywallStage();
    await paidOf(await paywall.admit(named(1))).delivered(sold());
    for (const number of [1, 2])
      expect(tell(await paywall.admit(named(number, members)))).toBe("owed");
    expect(facilitator.settled).toHaveLength(1);
  });

  test("is 409 while it waits for its goods: another payment is no proof for it", async () => {
    const { paywall, facilitator } = await paywallStage();
    await paidOf(await paywall.admit(named(1))).undelivered({ sent: true, served: null });
    expect(tell(await paywall.admit(named(2)))).toBe("owed");
    expect(facilitator.verified).toHaveLength(1);
    expect(tell(await paywall.admit(named(1)))).toBe("admitted");
    expect(facilitator.settled).toHaveLength(1);
  });

  test("is one of ten that are paid for at once with payments of their own", async () => {
    const { paywall, facilitator } = await paywallStage();
    const all = Array.from({ length: 10 }, (_, number) => paywall.admit(named(number)));
    const told = (await Promise.all(all)).map(tell).sort();
    expect(told).toEqual(["admitted", ...Array.from({ length: 9 }, () => "owed")]);
    expect(facilitator.settled).toHaveLength(1);
  });

  test.each(["verified", "settled"] as const)(
    "may be paid with another payment where the first was refused as it was %s",
    async (step) => {
      const { paywall, facilitator } = await paywallStage();
      const { onVerify, onSettle } = facilitator;
      if (step === "settled") facilitator.onSettle = async () => REVERTED;
      else {
        facilitator.onVerify = async () => {
          return { isValid: false, invalidReason: "insufficient_funds", payer: "" };
        };
      }
      expect((await paywall.admit(named(1))).kind).toBe("refused");
      Object.assign(facilitator, { onVerify, onSettle });
      expect(tell(await paywall.admit(named(2)))).toBe("admitted");
    },
  );

  test("is not charged where it cannot be looked up", async () => {
    const { paywall, facilitator } = await paywallStage({
      redemptions: (ledger) => failing(ledger, { recall: { count: 1, error: new Error("gone") } }),
    });
    expect(tell(await paywall.admit(named(1)))).toBe("unavailable");
    expect(facilitator.verified).toHaveLength(0);
  });
});

test("purchases without a name, or with others, are not concerned", async () => {
  const { paywall } = await paywallStage();
  await paidOf(await paywall.admit(named(1))).delivered(sold());
  await paidOf(await paywall.admit(presented(2))).delivered(sold());
  const other = { identifier: `${identifier}2` };
  expect(tell(await paywall.admit(presented(3, other)))).toBe("admitted");
});
