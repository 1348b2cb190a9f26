/** Lives of workers within the life of a process: what each holds, what its death frees, who settles. */
import { expect, it } from "vitest";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment } from "./example-payment.ts";
import { CALLER, NETWORK, SETTLEMENT, sign, termsOf, UNANSWERED, word } from "./ledger-driver.ts";

const NONE: ReadonlySet<PaymentKey> = new Set();

export function describeWorkers(open: OpenLedger): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key, request } = payment;
  const terms = termsOf(payment);

  it("a claim of one is busy for its siblings, and its own to go on with", async () => {
    const [one, other] = [place().ledger.worker("1"), place().ledger.worker("2")];
    expect(await word(one.claim(key, terms))).toBe("granted");
    expect(await word(other.claim(key, terms))).toBe("busy");
    expect(await word(one.claim(key, terms))).toBe("unresolved");
    expect(await word(other.released(key))).toBe("conflict");
    expect(await word(one.released(key))).toBe("ok");
    expect(await word(other.claim(key, terms))).toBe("granted");
  });

  it("the process settles what its workers claim, and no sibling can drop it meanwhile", async () => {
    const { ledger } = place();
    const [one, other] = [ledger.worker("1"), ledger.worker("2")];
    await one.claim(key, terms);
    expect(await ledger.begin(key, request, { claimedUnder: CALLER })).toEqual({ kind: "granted" });
    await sign(ledger, [payment]);
    expect(await word(one.released(key))).toBe("conflict");
    expect(await word(other.claim(key, terms))).toBe("busy");
    await ledger.settled(key, SETTLEMENT);
    expect(await word(other.claim(key, terms))).toBe("busy");
    expect(await other.delivering(key)).toBe(false);
    await one.leave(key);
    expect(await other.claim(key, terms)).toMatchObject({ kind: "settled", attempts: 0 });
    expect(await other.delivering(key)).toBe(true);
    expect(await one.delivering(key)).toBe(false);
    expect(await word(one.delivered(key))).toBe("conflict");
    expect(await word(one.undelivered(key, UNANSWERED))).toBe("conflict");
    await other.delivered(key);
    expect(await word(one.claim(key, terms))).toBe("spent");
  });

  it("a claim that no account here can sign is offered, and taken by the process", async () => {
    const { ledger } = place();
    await ledger.worker("1").claim(key, terms);
    expect(await ledger.offer(key)).toBe(true);
    expect(await ledger.takeOffered(NETWORK, 10)).toMatchObject([{ key }]);
    await sign(ledger, [payment]);
    expect(await word(ledger.outcome(key))).toBe("pending");
  });

  it("a claim that is left is taken over by whoever has the payment next, and by no other", async () => {
    const { ledger } = place();
    const [one, other, third] = [ledger.worker("1"), ledger.worker("2"), ledger.worker("3")];
    await one.claim(key, terms);
    await other.leave(key);
    expect(await word(other.claim(key, terms))).toBe("busy");
    await one.leave(key);
    expect(await word(other.claim(key, terms))).toBe("unresolved");
    expect(await word(third.claim(key, terms))).toBe("busy");
    expect(await word(one.released(key))).toBe("conflict");
    expect(await word(other.released(key))).toBe("ok");
    await one.leave(key);
    expect(await ledger.books.show(key)).toBeUndefined();
  });

  it("the end of one drops its claims, but for those whose settlement goes on", async () => {
    const { ledger } = place();
    const [one, other] = [ledger.worker("1"), ledger.worker("2")];
    const [first, second, third] = [examplePayment(1), examplePayment(2), examplePayment(3)];
    await one.claim(first.key, termsOf(first));
    await one.claim(second.key, termsOf(second));
    await other.claim(third.key, termsOf(third));
    expect(await one.end(new Set([second.key]))).toBe(2);
    expect(await word(other.claim(first.key, termsOf(first)))).toBe("granted");
    expect(await word(other.claim(second.key, termsOf(second)))).toBe("busy");
    expect(await word(other.claim(third.key, termsOf(third)))).toBe("unresolved");
    expect(await one.end(NONE)).toBe(1);
    expect(await one.end(NONE)).toBe(0);
  });

  it("a settlement that goes on beyond the end of one leaves its claim to whoever comes next", async () => {
    const { ledger } = place();
    const [one, other] = [ledger.worker("1"), ledger.worker("2")];
    await one.claim(key, terms);
    await one.end(new Set([key]));
    expect(await word(other.claim(key, terms))).toBe("busy");
    await one.leave(key);
    expect(await word(other.claim(key, terms))).toBe("unresolved");
  });

  it("the end of one breaks its deliveries, which are tried again without an attempt less", async () => {
    const { ledger } = place();
    const [one, other] = [ledger.worker("1"), ledger.worker("2")];
    await one.claim(key, terms);
    await ledger.settled(key, SETTLEMENT);
    expect(await one.delivering(key)).toBe(true);
    expect(await word(other.claim(key, terms))).toBe("busy");
    expect(await other.end(NONE)).toBe(0);
    expect(await one.end(new Set([key]))).toBe(1);
    expect(await other.claim(key, terms)).toMatchObject({ kind: "settled", attempts: 0 });
    expect(await other.delivering(key)).toBe(true);
    expect(await word(one.undelivered(key, UNANSWERED))).toBe("conflict");
  });

  it("what lives of workers hold is kept while their process lives, and freed when it is gone", async () => {
    const { ledger } = place();
    await ledger.worker("1").claim(key, terms);
    expect(await ledger.reap()).toBe(0);
    const next = await place().restart("second");
    await next.reap();
    expect(await next.books.show(key)).toBeUndefined();
    expect(await word(next.worker("1").claim(key, terms))).toBe("granted");
  });
}
