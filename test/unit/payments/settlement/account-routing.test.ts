import { onTheWire } from "../../../../src/facilitator/wire-facilitator.ts";
import { describe, expect, test } from "vitest";
import type { Mechanism } from "../../../../src/mechanism/mechanism.ts";
import { isEvmPayload } from "../../../../src/x402/payment-key.ts";
import type { FacilitatorRequest } from "../../../../src/x402/x402.ts";
import { faultOf } from "../../../support/fault-of.ts";
import { keyOf, openEngine, payerAddress, payment, settle } from "./engine-stage.ts";
import { ACCOUNT, OTHER_ACCOUNT } from "./scripted-mechanism.ts";

/** As on Solana: the payment names its fee payer, and transactions stand alone. Payer 1's names the first. */
const members: Partial<Mechanism<{ nonce: string }>> = {
  rules: {
    isOrdered: false,
    maxOpen: 1_024,
    looksAtOnce: 256,
    firstLookMs: 250,
    maxLookMs: 400,
    attendedLookMs: 0,
    lateLookMs: 14_000,
    resendMs: 200,
    forgetMs: 180_000,
  },
  accountFor: ({ payer }) => (payer === payerAddress(1) ? ACCOUNT : OTHER_ACCOUNT),
};
const accounts = [ACCOUNT, OTHER_ACCOUNT];

const nonceIn = ({ paymentPayload: { payload } }: FacilitatorRequest): string =>
  isEvmPayload(payload) ? payload.authorization.nonce : "";

/** Payments of payer 1 or 2. */
const first = (number: number) => payment(number, 1);
const second = (number: number) => payment(number, 2);

describe("payments that name the account that settles them", () => {
  test("are signed by it, however free the other one is", async () => {
    const at = await openEngine({ accounts, members });
    const all = [second(1), second(2), first(3), second(4)].map((each) => settle(at, each));
    await at.time.of(Promise.all(all));
    const signed = at.chain.sent.map((transaction) => transaction.split("/").length);
    // The first account's transactions are named by the nonce alone.
    expect(signed.filter((parts) => parts === 1)).toHaveLength(1);
    expect(signed.filter((parts) => parts === 2)).toHaveLength(3);
  });

  test("do not wait for each other on the chain", async () => {
    const at = await openEngine({ accounts, members });
    at.chain.automines = false;
    for (let number = 1; number <= 40; number += 1) void settle(at, first(number));
    await at.time.until(() => new Set(at.chain.sent).size === 40);
    expect(new Set(at.chain.sent).size).toBe(40);
  });

  test("do not wait for each other to be signed", async () => {
    const at = await openEngine({ accounts, members });
    const signed = at.ledger.signing.signed.bind(at.ledger.signing);
    const together = Promise.withResolvers<void>();
    let asked = 0;
    at.ledger.signing.signed = async (...parameters) => {
      asked += 1;
      if (asked === 3) together.resolve();
      await together.promise;
      return signed(...parameters);
    };
    const all = [first(1), first(2), first(3)].map((each) => settle(at, each));
    await at.time.of(Promise.all(all));
    expect(asked).toBe(3);
    expect(new Set(at.chain.sent).size).toBe(3);
  });

  test("are not settled by the other one while theirs cannot pay the fee", async () => {
    const at = await openEngine({ accounts, members });
    at.chain.poor.add(ACCOUNT);
    const poor = settle(at, first(1));
    const solvent = settle(at, second(2));
    expect(await at.time.of(solvent)).toMatchObject({ success: true });
    expect(await at.time.of(faultOf(poor))).toMatchObject({ kind: "unavailable" });
    expect(at.chain.sent).toHaveLength(1);
  });

  test("are offered where another life has their account, and not judged again and again", async () => {
    let offers = 0;
    const at = await openEngine({ accounts, members, isStarted: false });
    const { ledger } = at;
    const real = {
      lease: ledger.signing.lease.bind(ledger.signing),
      step: ledger.step.bind(ledger),
    };
    ledger.signing.lease = async (network, address) =>
      address === ACCOUNT ? undefined : real.lease(network, address);
    ledger.step = async (key, transition) => {
      if (transition.kind === "offer") offers += 1;
      return real.step(key, transition);
    };
    await at.facilitator.recover();
    const key = keyOf(first(1));
    void settle(at, first(1), { key: "caller" });
    await at.time.until(() => offers >= 2);
    for (let round = 0; round < 5; round += 1) {
      await at.time.advance(2_000);
      await at.facilitator.recover();
    }
    expect(offers).toBeGreaterThan(4);
    expect(at.chain.calls.filter((call) => call === "inspect")).toHaveLength(1);
    expect(await ledger.outcome(key)).toMatchObject({ kind: "pending" });
    expect(at.chain.sent).toEqual([]);

    ledger.signing.lease = real.lease;
    await at.time.advance(2_000);
    await at.facilitator.recover();
    await at.time.until(async () => (await ledger.outcome(key)).kind === "settled");
    expect(await ledger.outcome(key)).toMatchObject({ kind: "settled" });
  });
});

describe("a payer whose payments failed on chain", () => {
  test("has the rest turned away that were judged before, and no more of them signed", async () => {
    const at = await openEngine({ accounts, members, maxTogether: 1 });
    at.chain.automines = false;
    const failing = Array.from({ length: 6 }, (_, index) => first(index + 1));
    for (const request of failing) at.chain.fails.add(nonceIn(request));
    const all = Promise.all(failing.map((request) => settle(at, request)));
    await at.time.until(() => new Set(at.chain.sent).size === 6);
    at.chain.mine();
    expect((await at.time.of(all)).every(({ success }) => !success)).toBe(true);
    const sent = at.chain.sent.length;
    const more = await at.time.of(settle(at, first(99)));
    expect(more).toMatchObject({ success: false, errorReason: "invalid_transaction_state" });
    expect(at.chain.sent.length).toBe(sent);
  });

  test("finds out also where the payment was judged a moment before", async () => {
    const at = await openEngine({ accounts, members });
    const waiting = first(50);
    const { signal } = new AbortController();
    expect(await onTheWire(at.facilitator).verify(waiting, signal)).toMatchObject({
      isValid: true,
    });
    const failing = [first(1), first(2), first(3)];
    for (const request of failing) at.chain.fails.add(nonceIn(request));
    await at.time.of(Promise.all(failing.map((request) => settle(at, request))));
    const sent = at.chain.sent.length;
    expect(await at.time.of(settle(at, waiting))).toMatchObject({ success: false });
    expect(at.chain.sent.length).toBe(sent);
  });
});

describe("late looks", () => {
  test("keep up with a hundred sales a second", async () => {
    const at = await openEngine({ accounts, members });
    at.chain.isFinal = false;
    const count = 400;
    const sales = Array.from({ length: count }, (_, index) => settle(at, first(index + 1)));
    await at.time.of(Promise.all(sales));
    at.chain.isFinal = true;
    await at.time.advance(15_000);
    await at.time.of(at.facilitator.recover());
    const left = await at.ledger.signing.unfinished("base-sepolia", ACCOUNT);
    expect(left).toEqual([]);
  });
});

describe("transactions that stand alone", () => {
  test("are never replaced, however long they take, and sent again every so often", async () => {
    const at = await openEngine({ accounts, members });
    at.chain.automines = false;
    void settle(at, first(1));
    const startMs = at.time.now();
    await at.time.until(() => at.time.now() - startMs > 30_000);
    expect(at.chain.calls).not.toContain("raise");
    expect(at.chain.sent.length).toBeGreaterThan(10);
    expect(new Set(at.chain.sent).size).toBe(1);
  });

  test("fail for good when they expired, and are let go after a while", async () => {
    const at = await openEngine({
      accounts,
      members: {
        ...members,
        look: async ({ authorizations }) => ({
          payments: authorizations.map(() => ({
            kind: "failed",
            refusal: { code: "invalid_transaction_state", detail: "expired" },
            retriable: false,
          })),
          included: null,
          isSpent: true,
        }),
      },
    });
    const answer = settle(at, first(1));
    expect(await at.time.of(answer)).toMatchObject({ errorReason: "invalid_transaction_state" });
    const open = () => at.ledger.signing.unfinished("base-sepolia", ACCOUNT);
    expect(await open()).toMatchObject([{ state: "INCLUDED" }]);
    for (let round = 0; round < 10; round += 1) {
      await at.time.advance(30_000);
      await at.time.of(at.facilitator.recover());
    }
    expect(await open()).toEqual([]);
    expect(at.lines.join("")).not.toContain("nonce was used");
  });
});
