/** What was sold and is fetched again, and a payment that a redirect has led elsewhere. */
import { expect, it } from "vitest";
import type { BrokenDelivery, ClaimTerms, Ledger } from "../../../src/ledger/ledger.ts";
import { MAX_DELIVERY_ATTEMPTS } from "../../../src/ledger/ledger.ts";
import type { LedgerCapabilities, OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, PAYER } from "./example-payment.ts";
import {
  ANSWER,
  ASKED,
  bring,
  CLAIMANT,
  CUT_OFF,
  OTHER_BINDING,
  OTHER_TARGET,
  replayed,
  SALE,
  SETTLEMENT,
  TARGET,
  termsOf,
  word,
} from "./ledger-driver.ts";

const FOR_MS = 60_000;
const AGAIN = { target: TARGET, forMs: FOR_MS };
const FETCH = { target: TARGET, claimant: CLAIMANT, times: 3 };
/** Where a redirect leads: another path with another query. */
const LED = { binding: "GET /elsewhere", target: "/elsewhere?a=1" };
const LED_ON = {
  sent: true,
  served: null,
  uncounted: 2,
  led: { from: TARGET, to: "GET /elsewhere?a=1" },
} as const;

export function describeAgain(open: OpenLedger, { age }: LedgerCapabilities): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key } = payment;

  const claim = (ledger: Ledger, changes: Parameters<typeof termsOf>[1] = {}): Promise<unknown> =>
    ledger.step(key, { kind: "claim", terms: termsOf(payment, changes) });

  const breakOff = async (ledger: Ledger, broken: BrokenDelivery): Promise<void> => {
    expect(await ledger.step(key, { kind: "delivering" })).toBe(true);
    await ledger.step(key, { kind: "undelivered", broken });
  };

  it("is fetched again by who has it, so often and so long, also after a restart", async () => {
    const { ledger, time } = place();
    await bring(ledger, payment, "delivering");
    await ledger.step(key, { kind: "delivered", again: AGAIN });
    expect(await claim(ledger)).toMatchObject({
      kind: "sold",
      isKept: false,
      settlement: SETTLEMENT,
    });
    expect(await word(claim(ledger, { claimant: "another client" }))).toBe("spent");
    expect(await word(claim(ledger, { target: OTHER_TARGET }))).toBe("spent");
    const fetch = (into: Ledger, change: object = {}): Promise<boolean> =>
      into.step(key, { kind: "repeat", asked: { ...FETCH, ...change } });
    expect(await fetch(ledger, { claimant: "another client" })).toBe(false);
    expect(await fetch(ledger, { target: OTHER_TARGET })).toBe(false);
    expect(await fetch(ledger, { claimant: "another client", proof: "valid" })).toBe(true);
    expect(await fetch(ledger, { claimant: "another client" })).toBe(true);
    const next = await place().restart("second");
    expect(await fetch(next, { claimant: "another client" })).toBe(true);
    expect(await fetch(next, { claimant: "another client" })).toBe(false);
    expect(await fetch(next, { claimant: "another client", times: 4 })).toBe(true);
    time.nowMs += FOR_MS;
    expect(await fetch(next, { claimant: "another client", times: 9 })).toBe(false);
    expect(await word(next.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe("spent");
  });

  it("is not where it was sold without that, or is not sold", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "settled");
    expect(await ledger.step(key, { kind: "repeat", asked: FETCH })).toBe(false);
    await ledger.step(key, { kind: "delivering" });
    await ledger.step(key, { kind: "delivered" });
    expect(await ledger.step(key, { kind: "repeat", asked: FETCH })).toBe(false);
    expect(await word(claim(ledger))).toBe("spent");
  });

  it("is fetched beside an answer that is kept", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "delivering");
    await ledger.step(key, {
      kind: "delivered",
      sold: { ...ASKED, response: ANSWER },
      again: AGAIN,
    });
    expect(await claim(ledger)).toMatchObject({ kind: "sold", isKept: true });
    expect(await ledger.step(key, { kind: "repeat", asked: FETCH })).toBe(true);
  });

  it("is owed to its payer once its client has not read it, until it has been fetched again", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "delivering");
    await ledger.step(key, { kind: "delivered", again: AGAIN });
    const owed = async (): Promise<number> => {
      const { paymentPayload } = examplePayment(2).request;
      return (await ledger.recall(paymentPayload, SALE)).owed.length;
    };
    expect(await owed()).toBe(0);
    await ledger.step(key, { kind: "unread" });
    expect(await owed()).toBe(1);
    expect(await word(claim(ledger, { claimant: "another client" }))).toBe("withheld");
    const byPayer = { ...FETCH, claimant: "another client", proof: "valid" } as const;
    expect(await ledger.step(key, { kind: "repeat", asked: byPayer })).toBe(true);
    // Whoever gives it may die before it is.
    expect(await owed()).toBe(1);
    await ledger.step(key, { kind: "collected" });
    expect(await owed()).toBe(0);
    await ledger.step(key, { kind: "unread" });
    expect(await owed()).toBe(1);
    place().time.nowMs += FOR_MS;
    expect(await owed()).toBe(0);
  });

  it("does not count attempts that led on, up to their number", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "settled");
    await breakOff(ledger, LED_ON);
    await breakOff(ledger, LED_ON);
    expect(await claim(ledger)).toMatchObject({ kind: "settled", attempts: 0 });
    for (let attempt = 1; attempt <= MAX_DELIVERY_ATTEMPTS; attempt += 1) {
      await breakOff(ledger, LED_ON);
    }
    expect(await word(claim(ledger))).toBe("exhausted");
  });

  it("is for where it was led, and for its own request, and for nothing else", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "settled");
    expect(await word(claim(ledger, LED))).toBe("foreign");
    await breakOff(ledger, LED_ON);
    expect(await word(claim(ledger, LED))).toBe("settled");
    expect(await word(claim(ledger))).toBe("settled");
    const stranger = { ...LED, claimant: "another client" };
    expect(await word(claim(ledger, stranger))).toBe("withheld");
    expect(await claim(ledger, { ...LED, target: "/elsewhere?a=2" })).toEqual({
      kind: "foreign",
      bought: "GET /elsewhere?a=1",
      settlement: SETTLEMENT,
    });
    expect(await word(claim(ledger, { ...LED, binding: "POST /elsewhere" }))).toBe("foreign");
    expect(await claim(ledger, { binding: OTHER_BINDING, claimant: "another client" })).toEqual({
      kind: "foreign",
    });
    // What has begun there is had there only.
    await breakOff(ledger, { ...CUT_OFF, served: LED.target });
    expect(await word(claim(ledger))).toBe("spent");
    expect(await word(claim(ledger, LED))).toBe("settled");
    // From then on another redirect leads nowhere.
    await breakOff(ledger, { ...LED_ON, led: { from: LED.target, to: "GET /third" } });
    expect(await word(claim(ledger, { binding: "GET /third", target: "/third" }))).toBe("spent");
  });

  it("is owed to its payer where it was led, too", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "settled");
    await breakOff(ledger, LED_ON);
    const owed = async (sale: Pick<ClaimTerms, "binding" | "target">): Promise<number> => {
      const { paymentPayload } = examplePayment(2).request;
      return (await ledger.recall(paymentPayload, sale)).owed.length;
    };
    expect(await owed(SALE)).toBe(1);
    expect(await owed(LED)).toBe(1);
    expect(await owed({ ...LED, target: "/elsewhere?a=2" })).toBe(0);
    expect(await owed({ ...LED, binding: "POST /elsewhere" })).toBe(0);
    await ledger.step(key, { kind: "delivering" });
    expect(await owed(LED)).toBe(0);
  });

  it("leads on again from where it was led, once it is sold, and from nowhere else", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "settled");
    await breakOff(ledger, LED_ON);
    await ledger.step(key, { kind: "delivering" });
    await ledger.step(key, { kind: "delivered", again: { ...AGAIN, target: LED.target } });
    expect(await claim(ledger, LED)).not.toHaveProperty("at");
    expect(await claim(ledger)).toMatchObject({ kind: "sold", at: LED.target });
    expect(await word(claim(ledger, { target: OTHER_TARGET }))).toBe("spent");
    expect(await word(claim(ledger, { claimant: "another client" }))).toBe("spent");
    const fetch = (target: string): Promise<boolean> =>
      ledger.step(key, { kind: "repeat", asked: { ...FETCH, target } });
    expect(await fetch(TARGET)).toBe(false);
    expect(await fetch(LED.target)).toBe(true);
  });

  it("leads nowhere where another target of its path was sold", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "settled");
    await breakOff(ledger, LED_ON);
    await ledger.step(key, { kind: "delivering" });
    await ledger.step(key, { kind: "delivered", again: { ...AGAIN, target: OTHER_TARGET } });
    expect(await word(claim(ledger))).toBe("spent");
    expect(await word(claim(ledger, LED))).toBe("spent");
    expect(await word(claim(ledger, { target: OTHER_TARGET }))).toBe("sold");
  });

  it("keeps its name where it was led", async () => {
    const { ledger } = place();
    const named = { identifier: "a purchase" };
    await ledger.step(key, { kind: "claim", terms: termsOf(payment, named) });
    await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
    expect(await word(claim(ledger, { ...LED, ...named }))).toBe("misnamed");
    await breakOff(ledger, LED_ON);
    expect(await word(claim(ledger, { ...LED, ...named }))).toBe("settled");
  });

  if (age !== undefined) {
    const older = async (servedTarget: string | null, life: string): Promise<Ledger> => {
      const { store, ledger } = place();
      await ledger.close();
      await age(store, key, { target: TARGET, servedTarget });
      return place().live(life);
    };
    const owed = async (ledger: Ledger, target: string, binding = SALE.binding) => {
      const { paymentPayload } = examplePayment(2).request;
      const recalled = await ledger.recall(paymentPayload, { binding, target });
      return recalled.owed.map((each) => each.key);
    };
    const bought = async (ledger: Ledger, target: string) =>
      (await ledger.signIns.bought(PAYER, { ...SALE, target })).map((each) => each.key);

    it("is known by its query where that is stored whole: a kept answer", async () => {
      await bring(place().ledger, payment, "kept");
      const ledger = await older(TARGET, "second");
      expect(await claim(ledger)).toMatchObject({ kind: "sold", isKept: true });
      expect(await word(claim(ledger, { target: OTHER_TARGET }))).toBe("spent");
      expect(await bought(ledger, TARGET)).toEqual([key]);
      expect(await bought(ledger, OTHER_TARGET)).toEqual([]);
      expect(await replayed(ledger, key, { ...ASKED, target: OTHER_TARGET })).toBeUndefined();
      expect(await replayed(ledger, key)).toEqual(ANSWER);
      expect(await owed(ledger, TARGET)).toEqual([key]);
      expect(await owed(ledger, OTHER_TARGET)).toEqual([]);
    });

    it("is known by its query where that is stored whole: a delivery that broke", async () => {
      await bring(place().ledger, payment, "served");
      const ledger = await older(TARGET, "second");
      expect(await owed(ledger, TARGET)).toEqual([key]);
      expect(await owed(ledger, OTHER_TARGET)).toEqual([]);
      expect(await bought(ledger, TARGET)).toEqual([key]);
      expect(await word(claim(ledger, { target: OTHER_TARGET }))).toBe("spent");
      expect(await word(claim(ledger))).toBe("settled");
    });

    it("is known by its query where that is stored whole: where it was led", async () => {
      await bring(place().ledger, payment, "settled");
      await breakOff(place().ledger, LED_ON);
      const led = await older(null, "second");
      expect(await owed(led, TARGET)).toEqual([key]);
      expect(await owed(led, LED.target, LED.binding)).toEqual([key]);
      await led.step(key, { kind: "delivering" });
      await led.step(key, { kind: "delivered", again: { ...AGAIN, target: LED.target } });
      const sold = await older(LED.target, "third");
      expect(await claim(sold)).toMatchObject({ kind: "sold", at: LED.target });
      expect(await bought(sold, TARGET)).toEqual([key]);
      const asked = { ...FETCH, target: LED.target };
      expect(await sold.step(key, { kind: "repeat", asked })).toBe(true);
    });
  }
}
