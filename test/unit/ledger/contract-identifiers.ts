/** What clients call their purchases: one payment and one request have a name, as long as that may be paid. */
import { describe, expect, it } from "vitest";
import type { ClaimOutcome, Redemptions, Transition } from "../../../src/ledger/ledger.ts";
import type { LedgerCapabilities, OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, type ExamplePayment } from "./example-payment.ts";
import {
  bring,
  FACILITATOR,
  FAILURE,
  keep,
  OTHER_BINDING,
  OTHER_TARGET,
  SALE,
  SETTLEMENT,
  sign,
  sweep,
  termsOf,
} from "./ledger-driver.ts";

const IDENTIFIER = "pay_0123456789abcdef";
const MISNAMED = { kind: "misnamed" };
const GRANTED = { kind: "granted" };
const [first, second] = [examplePayment(1), examplePayment(2)];

function claim(
  ledger: Pick<Redemptions, "step">,
  payment: ExamplePayment,
  changes: Partial<typeof SALE & { readonly identifier: string }> = {},
): Promise<ClaimOutcome> {
  const terms = termsOf(payment, { identifier: IDENTIFIER, ...changes });
  return ledger.step(payment.key, { kind: "claim", terms });
}

/** Whether a look says that something else has the name. */
async function isMisnamed(
  ledger: Pick<Redemptions, "recall">,
  { request }: ExamplePayment,
  changes: Partial<typeof SALE & { readonly identifier: string }> = {},
): Promise<boolean> {
  const sale = { ...SALE, identifier: IDENTIFIER, ...changes };
  const recalled = await ledger.recall(request.paymentPayload, sale);
  return recalled.isMisnamed === true;
}

export function describeIdentifiers(open: OpenLedger, can: LedgerCapabilities): void {
  const place = eachTestIn(open);

  it("belong to the payment and the request of the first use", async () => {
    const { ledger } = place();
    expect(await isMisnamed(ledger, first)).toBe(false);
    expect(await claim(ledger, first)).toEqual(GRANTED);
    expect(await claim(ledger, first)).toMatchObject({ kind: "unresolved" });
    expect(await isMisnamed(ledger, first)).toBe(false);
    const others: Parameters<typeof claim>[] = [
      [ledger, second],
      [ledger, first, { binding: OTHER_BINDING }],
      [ledger, first, { target: OTHER_TARGET }],
    ];
    for (const other of others) {
      expect(await claim(...other)).toEqual(MISNAMED);
      const [, payment, changes] = other;
      expect(await isMisnamed(ledger, payment, changes)).toBe(true);
    }
    expect(await ledger.books.show(second.key)).toBeUndefined();
    expect(await claim(ledger, second, { identifier: `${IDENTIFIER}2` })).toEqual(GRANTED);
  });

  it("mean nothing for a payment that was claimed without one, or by another", async () => {
    const { ledger } = place();
    await bring(ledger, first, "claimed");
    expect(await claim(ledger, first)).toMatchObject({ kind: "unresolved" });
    expect(await claim(ledger, second)).toEqual(GRANTED);
    expect(await claim(ledger, first)).toEqual(MISNAMED);
    const another = { identifier: `${IDENTIFIER}2` };
    expect(await claim(ledger, second, another)).toMatchObject({ kind: "unresolved" });
    expect(await claim(ledger, examplePayment(3), another)).toEqual(GRANTED);
  });

  it("go to one of fifty payments that claim one at once", async () => {
    const { ledger } = place();
    const claims = Array.from({ length: 50 }, (_, number) => claim(ledger, examplePayment(number)));
    const kinds = (await Promise.all(claims)).map(({ kind }) => kind).sort();
    expect(kinds).toEqual(["granted", ...Array.from({ length: 49 }, () => "misnamed")]);
    const listed = await ledger.books.list({ limit: 100 });
    expect(listed).toHaveLength(1);
  });

  it("go to one of two workers' payments", async () => {
    const { ledger } = place();
    const claims = Array.from({ length: 20 }, (_, number) =>
      claim(ledger.worker(`w${number % 2}`), examplePayment(number)),
    );
    const kinds = (await Promise.all(claims)).map(({ kind }) => kind).sort();
    expect(kinds).toEqual(["granted", ...Array.from({ length: 19 }, () => "misnamed")]);
  });

  if (can.severalLives) {
    it("go to one of two replicas' payments", async () => {
      const lives = [place().ledger, await place().live("second")];
      const claims = Array.from({ length: 40 }, (_, number) => {
        const ledger = lives[number % 2] ?? place().ledger;
        return claim(ledger, examplePayment(number));
      });
      const kinds = (await Promise.all(claims)).map(({ kind }) => kind).sort();
      expect(kinds).toEqual(["granted", ...Array.from({ length: 39 }, () => "misnamed")]);
    });
  }

  it.each(["signed", "delivered"] as const)("outlive a restart, %s", async (state) => {
    const { ledger } = place();
    await claim(ledger, first);
    await sign(ledger, [first]);
    if (state === "delivered") {
      await ledger.step(first.key, { kind: "settled", settlement: SETTLEMENT });
      await ledger.step(first.key, { kind: "delivering" });
      await keep(ledger, first);
    }
    const next = await place().restart("second");
    expect(await claim(next, second)).toEqual(MISNAMED);
    expect(await isMisnamed(next, second)).toBe(true);
    expect(await isMisnamed(next, first)).toBe(false);
    const expected = state === "delivered" ? "sold" : "unresolved";
    await next.upkeep.reap();
    expect(await claim(next, first)).toMatchObject({ kind: expected });
  });

  describe("may be used again", () => {
    const released: Transition = { kind: "released" };
    const failed: Transition = { kind: "failed", failure: FAILURE };

    it.each([
      ["given back", released],
      ["failed", failed],
    ] as const)("once their payment is %s, at once and after a restart", async (_, end) => {
      const { ledger } = place();
      await claim(ledger, first);
      await ledger.step(first.key, end);
      expect(await isMisnamed(ledger, second)).toBe(false);
      expect(await claim(ledger, second)).toEqual(GRANTED);
      await sign(ledger, [second]);
      const next = await place().restart("second");
      expect(await claim(next, examplePayment(3))).toEqual(MISNAMED);
    });

    it("while nobody has claimed: who shows a payment that was dropped takes nothing", async () => {
      const { ledger } = place();
      for (const payment of [first, second, first]) {
        expect(await claim(ledger, payment)).toEqual(GRANTED);
        await ledger.step(payment.key, { kind: "released" });
      }
      const next = await place().restart("second");
      expect(await claim(next, second)).toEqual(GRANTED);
    });

    it("not before the chain has decided of one that was refused elsewhere", async () => {
      const { ledger } = place();
      await claim(ledger, first);
      await ledger.step(first.key, { kind: "handedOver", facilitator: FACILITATOR, head: 1 });
      await ledger.step(first.key, { kind: "failed", failure: FAILURE });
      expect(await claim(ledger, second)).toEqual(MISNAMED);
      await ledger.step(first.key, { kind: "lookedAgain", nextMs: 1 });
      expect(await claim(ledger, second)).toEqual(MISNAMED);
      await ledger.step(first.key, { kind: "lookedAgain", nextMs: null });
      expect(await claim(ledger, second)).toEqual(GRANTED);
      await sign(ledger, [second]);
      const next = await place().restart("second");
      expect(await claim(next, examplePayment(3))).toEqual(MISNAMED);
    });

    it("once their payment is paid back, or swept away", async () => {
      const { ledger } = place();
      await claim(ledger, first);
      const { id } = await sign(ledger, [first]);
      await ledger.step(first.key, { kind: "settled", settlement: SETTLEMENT });
      const resolution = { verb: "refund", note: "", by: "cli" } as const;
      expect(await ledger.step(first.key, { kind: "resolve", resolution })).toMatchObject({
        kind: "done",
      });
      expect(await claim(ledger, second)).toEqual(GRANTED);
      await ledger.signing.concluded(id, "CLOSED");

      const submission = await sign(ledger, [second]);
      await ledger.step(second.key, { kind: "settled", settlement: SETTLEMENT });
      await ledger.step(second.key, { kind: "delivering" });
      await ledger.step(second.key, { kind: "delivered" });
      await ledger.signing.concluded(submission.id, "CLOSED");
      expect(await claim(ledger, examplePayment(3))).toEqual(MISNAMED);
      place().time.nowMs += 1;
      await sweep(ledger, place().time.nowMs);
      expect(await ledger.books.show(second.key)).toBeUndefined();
      expect(await claim(ledger, examplePayment(3))).toEqual(GRANTED);
    });
  });

  it("are given to no settlement that another seller asks for", async () => {
    const { ledger } = place();
    await claim(ledger, first);
    await ledger.step(first.key, { kind: "failed", failure: FAILURE });
    const { request } = first;
    await ledger.step(first.key, { kind: "begin", request, caller: "another key" });
    expect(await claim(ledger, second)).toEqual(GRANTED);
  });
}
