/** Lives of workers within the life of a process: what each holds, what its death frees, who settles. */
import { expect, it } from "vitest";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment } from "./example-payment.ts";
import {
  CALLER,
  NETWORK,
  SETTLEMENT,
  sign,
  termsOf,
  UNANSWERED,
  word,
  takeOffers,
} from "./ledger-driver.ts";

const NONE: ReadonlySet<PaymentKey> = new Set();

export function describeWorkers(open: OpenLedger): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key, request } = payment;
  const terms = termsOf(payment);

  it("a claim of one is busy for its siblings, and its own to go on with", async () => {
    const [one, other] = [place().ledger.worker("1"), place().ledger.worker("2")];
    expect(await word(one.step(key, { kind: "claim", terms }))).toBe("granted");
    expect(await word(other.step(key, { kind: "claim", terms }))).toBe("busy");
    expect(await word(one.step(key, { kind: "claim", terms }))).toBe("unresolved");
    expect(await word(other.step(key, { kind: "released" }))).toBe("conflict");
    expect(await word(one.step(key, { kind: "released" }))).toBe("ok");
    expect(await word(other.step(key, { kind: "claim", terms }))).toBe("granted");
  });

  it("the process settles what its workers claim, and no sibling can drop it meanwhile", async () => {
    const { ledger } = place();
    const [one, other] = [ledger.worker("1"), ledger.worker("2")];
    await one.step(key, { kind: "claim", terms });
    expect(
      await ledger.step(key, { kind: "begin", request, caller: { claimedUnder: CALLER } }),
    ).toEqual({ kind: "granted" });
    await sign(ledger, [payment]);
    expect(await word(one.step(key, { kind: "released" }))).toBe("conflict");
    expect(await word(other.step(key, { kind: "claim", terms }))).toBe("busy");
    await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
    expect(await word(other.step(key, { kind: "claim", terms }))).toBe("busy");
    expect(await other.step(key, { kind: "delivering" })).toBe(false);
    await one.step(key, { kind: "leave" });
    expect(await other.step(key, { kind: "claim", terms })).toMatchObject({
      kind: "settled",
      attempts: 0,
    });
    expect(await other.step(key, { kind: "delivering" })).toBe(true);
    expect(await one.step(key, { kind: "delivering" })).toBe(false);
    expect(await word(one.step(key, { kind: "delivered" }))).toBe("conflict");
    expect(await word(one.step(key, { kind: "undelivered", broken: UNANSWERED }))).toBe("conflict");
    await other.step(key, { kind: "delivered" });
    expect(await word(one.step(key, { kind: "claim", terms }))).toBe("spent");
  });

  it("a claim that no account here can sign is offered, and taken by the process", async () => {
    const { ledger } = place();
    await ledger.worker("1").step(key, { kind: "claim", terms });
    expect(await ledger.step(key, { kind: "offer" })).toBe(true);
    expect(await takeOffers(ledger, NETWORK, 10)).toMatchObject([{ key }]);
    await sign(ledger, [payment]);
    expect(await word(ledger.outcome(key))).toBe("pending");
  });

  it("a claim that is left is taken over by whoever has the payment next, and by no other", async () => {
    const { ledger } = place();
    const [one, other, third] = [ledger.worker("1"), ledger.worker("2"), ledger.worker("3")];
    await one.step(key, { kind: "claim", terms });
    await other.step(key, { kind: "leave" });
    expect(await word(other.step(key, { kind: "claim", terms }))).toBe("busy");
    await one.step(key, { kind: "leave" });
    expect(await word(other.step(key, { kind: "claim", terms }))).toBe("unresolved");
    expect(await word(third.step(key, { kind: "claim", terms }))).toBe("busy");
    expect(await word(one.step(key, { kind: "released" }))).toBe("conflict");
    expect(await word(other.step(key, { kind: "released" }))).toBe("ok");
    await one.step(key, { kind: "leave" });
    expect(await ledger.books.show(key)).toBeUndefined();
  });

  it("the end of one drops its claims, but for those whose settlement goes on", async () => {
    const { ledger } = place();
    const [one, other] = [ledger.worker("1"), ledger.worker("2")];
    const [first, second, third] = [examplePayment(1), examplePayment(2), examplePayment(3)];
    await one.step(first.key, { kind: "claim", terms: termsOf(first) });
    await one.step(second.key, { kind: "claim", terms: termsOf(second) });
    await other.step(third.key, { kind: "claim", terms: termsOf(third) });
    expect(await one.end(new Set([second.key]))).toBe(2);
    expect(await word(other.step(first.key, { kind: "claim", terms: termsOf(first) }))).toBe(
      "granted",
    );
    expect(await word(other.step(second.key, { kind: "claim", terms: termsOf(second) }))).toBe(
      "busy",
    );
    expect(await word(other.step(third.key, { kind: "claim", terms: termsOf(third) }))).toBe(
      "unresolved",
    );
    expect(await one.end(NONE)).toBe(1);
    expect(await one.end(NONE)).toBe(0);
  });

  it("a settlement that goes on beyond the end of one leaves its claim to whoever comes next", async () => {
    const { ledger } = place();
    const [one, other] = [ledger.worker("1"), ledger.worker("2")];
    await one.step(key, { kind: "claim", terms });
    await one.end(new Set([key]));
    expect(await word(other.step(key, { kind: "claim", terms }))).toBe("busy");
    await one.step(key, { kind: "leave" });
    expect(await word(other.step(key, { kind: "claim", terms }))).toBe("unresolved");
  });

  it("the end of one breaks its deliveries, which are tried again without an attempt less", async () => {
    const { ledger } = place();
    const [one, other] = [ledger.worker("1"), ledger.worker("2")];
    await one.step(key, { kind: "claim", terms });
    await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
    expect(await one.step(key, { kind: "delivering" })).toBe(true);
    expect(await word(other.step(key, { kind: "claim", terms }))).toBe("busy");
    expect(await other.end(NONE)).toBe(0);
    expect(await one.end(new Set([key]))).toBe(1);
    expect(await other.step(key, { kind: "claim", terms })).toMatchObject({
      kind: "settled",
      attempts: 0,
    });
    expect(await other.step(key, { kind: "delivering" })).toBe(true);
    expect(await word(one.step(key, { kind: "undelivered", broken: UNANSWERED }))).toBe("conflict");
  });

  it("what lives of workers hold is kept while their process lives, and freed when it is gone", async () => {
    const { ledger } = place();
    await ledger.worker("1").step(key, { kind: "claim", terms });
    expect(await ledger.upkeep.reap()).toBe(0);
    const next = await place().restart("second");
    await next.upkeep.reap();
    expect(await next.books.show(key)).toBeUndefined();
    expect(await word(next.worker("1").step(key, { kind: "claim", terms }))).toBe("granted");
  });
}
