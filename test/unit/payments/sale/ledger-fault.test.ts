import { describe, expect, it } from "vitest";
import { LedgerConflict, LedgerUnavailable } from "../../../../src/ledger/ledger.ts";
import { examplePayment } from "../../ledger/example-payment.ts";
import {
  elsewhere,
  failing,
  paidOf,
  paywallStage,
  presented,
  SETTLED,
  stateOf,
  tell,
} from "./paywall-stage.ts";

const down = () => new LedgerUnavailable("disk full");

describe("a ledger that fails", () => {
  it.each(["claim", "handedOver", "settled", "delivered"] as const)(
    "after it has stored what became %s does no harm",
    async (name) => {
      const error = down();
      const { paywall, facilitator, ledger, time } = await paywallStage({
        redemptions: (whole) => failing(whole, { [name]: { count: 1, error, isDone: true } }),
      });
      facilitator.onSettle = elsewhere(async () => SETTLED);
      let admission = await paywall.admit(presented());
      if (name !== "delivered") {
        expect(["unknown", "unavailable"]).toContain(tell(admission));
        admission = await paywall.admit(presented());
      }
      const recorded = paidOf(admission).delivered();
      await time.advance(1_000);
      await recorded;
      expect(await stateOf(ledger)).toBe("DELIVERED");
      expect(new Set(facilitator.settled.map((each) => each.idempotencyKey)).size).toBe(1);
    },
  );

  it.each(["recall", "claim"] as const)("at the %s takes no payment", async (name) => {
    const error = down();
    const { paywall, facilitator } = await paywallStage({
      redemptions: (ledger) => failing(ledger, { [name]: { count: 1, error } }),
    });
    expect(tell(await paywall.admit(presented()))).toBe("unavailable");
    expect(facilitator.verified).toHaveLength(0);
    expect(tell(await paywall.admit(presented()))).toBe("admitted");
  });

  it.each([false, true])(
    "at the beginning of a delivery delivers nothing, and the next request does (stored: %s)",
    async (isDone) => {
      const error = down();
      const { paywall, ledger } = await paywallStage({
        redemptions: (whole) => failing(whole, { delivering: { count: 1, error, isDone } }),
      });
      expect(tell(await paywall.admit(presented()))).toBe("unknown");
      const paid = paidOf(await paywall.admit(presented()));
      expect(await ledger.books.list({ limit: 1 })).toMatchObject([
        { state: "DELIVERING", attempts: 1 },
      ]);
      await paid.delivered();
    },
  );

  it.each(["delivered", "undelivered"] as const)(
    "when a payment is %s is asked until it stores that, and the payment stays in flight",
    async (name) => {
      const error = down();
      const { paywall, time, log } = await paywallStage({
        redemptions: (ledger) => failing(ledger, { [name]: { count: 3, error } }),
      });
      const paid = paidOf(await paywall.admit(presented()));
      const recorded =
        name === "delivered" ? paid.delivered() : paid.undelivered({ sent: true, served: null });
      const second = paywall.admit(presented());
      for (let pause = 0; pause < 3; pause += 1) await time.advance(1_000);
      await recorded;
      expect(tell(await second)).toBe(
        name === "delivered" ? "invalid_transaction_state" : "admitted",
      );
      expect(log.filter(({ msg }) => msg === "a delivery was not recorded")).toHaveLength(3);
    },
  );

  it.each(["delivered", "undelivered"] as const)(
    "for a quarter of an hour as a payment is %s leaves none that is neither sold nor for sale",
    async (name) => {
      const failure = { count: Infinity, error: down() };
      const { paywall, time, ledger } = await paywallStage({
        redemptions: (whole) => failing(whole, { [name]: failure }),
      });
      const paid = paidOf(await paywall.admit(presented()));
      const recorded =
        name === "delivered" ? paid.delivered() : paid.undelivered({ sent: true, served: null });
      for (let second = 0; second < 900; second += 1) await time.advance(1_000);
      failure.count = 0;
      for (let second = 0; second < 60; second += 1) await time.advance(1_000);
      await recorded;
      expect(await stateOf(ledger)).toBe(name === "delivered" ? "DELIVERED" : "SETTLED");
    },
  );

  it("because others took us for dead ends the flight: the client has been served", async () => {
    const error = new LedgerConflict("not ours");
    const { paywall, ledger, log } = await paywallStage({
      redemptions: (whole) => failing(whole, { delivered: { count: 1, error } }),
    });
    const paid = paidOf(await paywall.admit(presented()));
    await paid.delivered();
    expect(log.at(-1)?.["msg"]).toContain("taken for dead");
    // What those others have done with it meanwhile.
    await ledger.step(examplePayment(1).key, {
      kind: "undelivered",
      broken: { sent: true, served: null },
    });
    expect(tell(await paywall.admit(presented()))).toBe("admitted");
  });
});
