/** When a refund is sent, sent again and given up: by what the ledger and the chain say, never by a guess. */
import { beforeEach, describe, expect, test } from "vitest";
import type { OpenRefund } from "../../../../src/ledger/ledger.ts";
import type { Confirmation } from "../../../../src/mechanism/mechanism.ts";
import { HeldPayment, Payment, type SettleOptions } from "../../../../src/payments/facilitator.ts";
import { Refunds, type RefundsOptions } from "../../../../src/payments/settlement/refunds.ts";
import { paymentKey } from "../../../../src/x402/payment-key.ts";
import { ok } from "../../../../src/x402/result.ts";
import type { FacilitatorRequest, SettleResponse } from "../../../../src/x402/x402.ts";
import { ManualTime } from "../../../support/manual-time.ts";
import { MemoryLedger, MemoryStore } from "../../../support/memory-ledger.ts";
import { silentTelemetry } from "../../../simulation/silent-telemetry.ts";
import { examplePayment, PAYER } from "../../ledger/example-payment.ts";
import { bring, NETWORK, SETTLEMENT } from "../../ledger/ledger-driver.ts";
import {
  behind,
  EXPIRED,
  OVER_MS,
  refused,
  RETRIABLE,
  SALE,
  settled,
  UNUSED,
  VALID_MS,
} from "./refund-parts.ts";

const { signal } = new AbortController();
let time: ManualTime;
let store: MemoryStore;
let ledger: MemoryLedger;
/** What was stored as signed, by number of its example, and what was asked to be settled. */
let signed: { readonly attempt: number; readonly number: number }[];
let asked: FacilitatorRequest[];
/** What it says of the sale, of transfers once they are signed, and of those that others have moved or used up, by key. */
let paid: Confirmation;
let chain: Confirmation;
let known: Map<string, Confirmation>;
let settle: (options: SettleOptions) => Promise<SettleResponse>;

beforeEach(async () => {
  time = new ManualTime();
  store = new MemoryStore();
  ledger = new MemoryLedger({ store, time, life: "one" });
  signed = [];
  asked = [];
  paid = { kind: "confirmed", transaction: SETTLEMENT.transaction };
  chain = UNUSED;
  known = new Map();
  settle = async () => {
    await drop();
    throw new Error("nobody answers");
  };
  await bring(ledger, SALE, "exhausted");
  const { submission } = (await ledger.books.show(SALE.key)) ?? {};
  await ledger.concluded(submission?.id ?? "", "CLOSED");
  const resolution = { verb: "refund", note: "", by: "operator", isSent: true } as const;
  await ledger.step(SALE.key, { kind: "resolve", resolution });
});

function open(maxAtomic = 10n ** 9n, changes: Partial<RefundsOptions> = {}): Refunds {
  return new Refunds({
    mechanisms: mechanismsOf(),
    facilitator: {
      read: (request) => Payment.read(request, () => undefined),
      settle: async ({ request }, options) => {
        asked.push(request);
        const answer = await settle(options);
        if (!answer.success) await drop();
        return answer;
      },
    },
    ledger: noting(ledger),
    gate: { isOpen: () => true },
    mostOf: () => maxAtomic,
    isBarred: () => false,
    telemetry: silentTelemetry(undefined),
    time,
    ...changes,
    ...(changes.ledger && { ledger: noting(changes.ledger) }),
  });
}

function mechanismsOf({
  address = PAYER,
  has = (_asset: string): boolean => true,
} = {}): RefundsOptions["mechanisms"] {
  return (["base", NETWORK] as const).map((network) => {
    return {
      network,
      parse: (request) => ok(request),
      reconcile: async (request) => look(Object(request)),
      refunder: {
        address,
        validMs: VALID_MS,
        hasNonces: true,
        has,
        balance: () => Promise.resolve(0n),
        transfer: async (back) => {
          const { paymentPayload, paymentRequirements } = examplePayment(100 + back.number).request;
          const description = String(time.now());
          return {
            paymentPayload,
            paymentRequirements: { ...paymentRequirements, description },
          };
        },
      },
    };
  });
}

function noting(kept: RefundsOptions["ledger"]): RefundsOptions["ledger"] {
  return {
    queues: kept.queues,
    outcome: (key) => kept.outcome(key),
    async step(key, transition) {
      const outcome = await kept.step(key, transition);
      const { to } = Object(transition);
      if (to?.kind === "sending" && outcome === "done") {
        const { attempt, transfer } = to;
        signed.push({ attempt, number: Number(BigInt(`0x${transfer.key.slice(-4)}`)) - 100 });
      }
      return outcome;
    },
  };
}

function look(request: FacilitatorRequest): Confirmation {
  const key = paymentKey(request);
  if (!key.ok) throw new Error(key.error.detail);
  if (key.value === SALE.key) return paid;
  const isDrawnNow = request.paymentRequirements.description === String(time.now());
  return known.get(key.value) ?? (isDrawnNow ? UNUSED : chain);
}

/** As the engine does with what it has begun and not signed. */
const drop = () => ledger.step(transferKey(signed.at(-1)?.number ?? 0), { kind: "abandoned" });
const transferKey = (number: number) => examplePayment(100 + number).key;
const found = async (): Promise<OpenRefund | undefined> => (await ledger.refunds(NETWORK, 9))[0];
const shown = async () => (await ledger.books.show(SALE.key))?.refund;

async function rounds(refunds: Refunds, count: number, pauseMs = 31_000): Promise<void> {
  for (let times = 0; times < count; times += 1) {
    await refunds.round(signal);
    await time.advance(pauseMs);
  }
}

describe("a refund", () => {
  test("is stored before anybody is asked to settle it, and ends with its transaction", async () => {
    settle = async ({ idempotencyKey }) => {
      expect(await found()).toMatchObject({
        state: "SENDING",
        attempt: 1,
        transfer: { key: transferKey(1), idempotencyKey },
      });
      return settled;
    };
    await open().round(signal);
    expect(await shown()).toMatchObject({ state: "REFUNDED", transaction: "0xback" });
    expect(signed).toEqual([{ attempt: 1, number: 1 }]);
  });

  test("is settled again with the same transfer as long as that counts", async () => {
    const refunds = open();
    settle = () => Promise.resolve(refused);
    await rounds(refunds, 3);
    expect(signed).toHaveLength(1);
    expect(asked.length).toBeGreaterThan(1);
    for (const each of asked) expect(each).toEqual(asked[0]);
    expect(await shown()).toMatchObject({
      state: "SENDING",
      detail: "insufficient_funds: the wallet is empty",
    });
    settle = () => Promise.resolve(settled);
    await rounds(refunds, 1);
    expect(await shown()).toMatchObject({ state: "REFUNDED" });
  });

  test("is not signed again before the chain has said for long that it can never be moved", async () => {
    const refunds = open();
    await rounds(refunds, 3);
    chain = RETRIABLE;
    await rounds(refunds, 40);
    expect(signed).toHaveLength(1);
    chain = EXPIRED;
    await rounds(refunds, Math.floor(OVER_MS / 31_000) - 1);
    expect(signed).toHaveLength(1);
    // One look that says otherwise, and the wait begins anew.
    chain = UNUSED;
    await rounds(refunds, 1);
    chain = EXPIRED;
    await rounds(refunds, Math.floor(OVER_MS / 31_000) - 1);
    expect(signed).toHaveLength(1);
    await rounds(refunds, 3);
    // With the same nonce: should the first be moved nevertheless, the token refuses the other.
    expect(signed).toEqual([
      { attempt: 1, number: 1 },
      { attempt: 2, number: 1 },
    ]);
    expect(await found()).toMatchObject({ attempt: 2, transfer: { key: transferKey(1) } });
  });

  test("fails where it was refused, once its transfer can never be moved", async () => {
    const refunds = open();
    settle = () => Promise.resolve(refused);
    await rounds(refunds, 2);
    chain = EXPIRED;
    await rounds(refunds, Math.ceil(OVER_MS / 31_000) + 2);
    expect(await shown()).toMatchObject({
      state: "FAILED",
      detail: "insufficient_funds: the wallet is empty",
    });
    expect(signed).toHaveLength(1);
  });

  test("what is refused after its time was refused by nobody", async () => {
    settle = async () => {
      await time.advance(VALID_MS);
      return refused;
    };
    await open().round(signal);
    expect(await found()).toMatchObject({ state: "SENDING", detail: null });
  });

  test("that somebody else has moved is done, and stands in its own row", async () => {
    settle = () => Promise.reject(new HeldPayment("0xtheirs"));
    await open().round(signal);
    expect(await shown()).toMatchObject({ state: "REFUNDED", transaction: "0xtheirs" });
    expect(await ledger.outcome(transferKey(1))).toMatchObject({
      kind: "settled",
      settlement: { transaction: "0xtheirs" },
    });
  });

  test("that the chain shows is done, though its claim was dropped", async () => {
    const refunds = open();
    settle = () => Promise.resolve(refused);
    await rounds(refunds, 1);
    chain = { kind: "confirmed", transaction: "0xseen" };
    await rounds(refunds, 1);
    expect(await shown()).toMatchObject({ state: "REFUNDED", transaction: "0xseen" });
    expect(await ledger.outcome(transferKey(1))).toMatchObject({ kind: "settled" });
  });

  test("that was begun and then left by a fault is settled by the same process", async () => {
    const refunds = open();
    settle = () => Promise.reject(new Error("the ledger does not answer"));
    await refunds.round(signal);
    expect(await ledger.outcome(transferKey(1))).toMatchObject({ kind: "pending" });
    settle = () => Promise.resolve(settled);
    await time.advance(31_000);
    await rounds(refunds, 1);
    expect(await shown()).toMatchObject({ state: "REFUNDED" });
    expect(signed).toHaveLength(1);
  });

  test("is left to whoever is at it", async () => {
    const refunds = open();
    settle = () =>
      new Promise((_, reject) => {
        time.timeout(1).addEventListener("abort", reject);
      });
    const working = refunds.round(signal);
    await time.until(() => asked.length === 1);
    const another = new MemoryLedger({ store, time, life: "two" });
    const other = open(undefined, { ledger: another });
    await other.round(signal);
    chain = EXPIRED;
    await rounds(other, 40);
    await working;
    expect(asked).toHaveLength(1);
    expect(signed).toHaveLength(1);
  });

  test("waits for nothing on another network, however much waits there", async () => {
    const [sale] = await ledger.refunds(NETWORK, 1);
    if (sale === undefined) throw new Error("it is asked for");
    const waiting = Array.from({ length: 1_000 }, (_, index) => {
      return { ...sale, key: examplePayment(1_000 + index).key, network: "base" };
    });
    const isOpen = (network: string) => network === NETWORK;
    settle = () => Promise.resolve(settled);
    await open(undefined, { ledger: behind(ledger, waiting, sale), gate: { isOpen } }).round(
      signal,
    );
    expect(await shown()).toMatchObject({ state: "REFUNDED" });
    expect(signed).toHaveLength(1);
  });

  test("waits for none that are refused, however many of them there are", async () => {
    const [sale] = await ledger.refunds(NETWORK, 1);
    if (sale === undefined) throw new Error("it is asked for");
    const waiting = Array.from({ length: 1_000 }, (_, index): OpenRefund => {
      const { key, request } = examplePayment(3_000 + index);
      const transfer = { key, request, idempotencyKey: `back ${index}`, signedMs: time.now() };
      return {
        ...sale,
        key: examplePayment(1_000 + index).key,
        state: "SENDING",
        attempt: 1,
        transfer,
      };
    });
    const ours = transferKey(1);
    const facilitator: RefundsOptions["facilitator"] = {
      read: (request) => Payment.read(request, () => undefined),
      settle: async ({ key }) => {
        if (key === ours) return settled;
        await ledger.step(key, { kind: "abandoned" });
        return refused;
      },
    };
    const at = open(undefined, { ledger: behind(ledger, waiting, sale), facilitator });
    await rounds(at, 2);
    expect(await shown()).toMatchObject({ state: "REFUNDED" });
  });

  test("in a token that is not taken any more is for the operator, and holds up no other", async () => {
    const [sale] = await ledger.refunds(NETWORK, 1);
    if (sale === undefined) throw new Error("it is asked for");
    const failed = new Map<string, string>();
    const waiting = Array.from({ length: 600 }, (_, index): OpenRefund => {
      return { ...sale, key: examplePayment(1_000 + index).key, asset: "0xgone" };
    });
    const kept = behind(ledger, waiting, sale, (key, detail) => failed.set(key, detail));
    settle = () => Promise.resolve(settled);
    const has = (asset: string): boolean => asset !== "0xgone";
    await rounds(open(undefined, { ledger: kept, mechanisms: mechanismsOf({ has }) }), 3);
    expect(await shown()).toMatchObject({ state: "REFUNDED" });
    expect(failed.size).toBe(waiting.length);
    expect(failed.get(waiting[0]?.key ?? "")).toMatch(/^its token 0xgone is not one that is taken/);
  });

  /** Until its first transfer is over, and the next one signed. */
  async function signAgain(refunds: Refunds): Promise<void> {
    await rounds(refunds, 2);
    chain = EXPIRED;
    await rounds(refunds, Math.ceil(OVER_MS / 31_000) + 2);
  }

  test("whose transfer has left a row, or whose nonce is used up, has the next nonce", async () => {
    settle = async () => {
      const failure = { code: "invalid_transaction_state", detail: "reverted" } as const;
      await ledger.step(transferKey(1), { kind: "failed", failure });
      throw new Error("nobody answers");
    };
    known.set(transferKey(2), EXPIRED);
    await signAgain(open());
    expect(signed).toEqual([
      { attempt: 1, number: 1 },
      { attempt: 2, number: 3 },
    ]);
  });

  test.each([1, 3])(
    "that a ledger from before it does not know of is not sent again: nonce %i",
    async (number) => {
      known.set(transferKey(number), { kind: "confirmed", transaction: "0xbefore" });
      // However much was paid back on that day.
      await open(0n).round(signal);
      expect(asked).toEqual([]);
      expect(await shown()).toMatchObject({ state: "REFUNDED", transaction: "0xbefore" });
      expect(await ledger.outcome(transferKey(number))).toMatchObject({ kind: "settled" });
    },
  );

  test("waits as long as the chain cannot say whether a nonce was used", async () => {
    known.set(transferKey(1), { kind: "unknown", detail: "in a young block" });
    const refunds = open();
    await rounds(refunds, 40);
    expect([signed, await found()]).toMatchObject([[], { state: "ASKED" }]);
    known.clear();
    settle = () => Promise.resolve(settled);
    await rounds(refunds, 1);
    expect(await shown()).toMatchObject({ state: "REFUNDED" });
  });

  test("of a payment that the chain does not show is not sent, and fails where that stays so", async () => {
    const refunds = open();
    settle = () => Promise.resolve(settled);
    paid = UNUSED;
    await rounds(refunds, 2);
    paid = EXPIRED;
    await rounds(refunds, Math.floor(OVER_MS / 31_000) - 2);
    expect([signed, await found()]).toMatchObject([[], { state: "ASKED" }]);
    await rounds(refunds, 4);
    expect(await shown()).toMatchObject({ state: "FAILED", detail: expect.stringMatching(/show/) });
    expect(signed).toEqual([]);
  });

  describe("whose transfer is of a key that was replaced", () => {
    const address = "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955";

    const newer = () => open(undefined, { mechanisms: mechanismsOf({ address }) });

    test.each([
      ["another key", { address }, /replaced/],
      ["other tokens", { has: () => false }, /^its token/],
    ])(
      "is signed again, whoever is first, where a replica with %s only kept it back",
      async (_, other, said) => {
        const refunds = open();
        await rounds(refunds, 1);
        settle = () => Promise.resolve(refused);
        await rounds(open(undefined, { mechanisms: mechanismsOf(other) }), 1);
        expect(await found()).toMatchObject({ detail: expect.stringMatching(said), refusal: null });
        chain = EXPIRED;
        await rounds(refunds, Math.ceil(OVER_MS / 31_000) + 2);
        expect(await shown()).toMatchObject({ state: "SENDING" });
        expect(signed.map(({ attempt }) => attempt)).toEqual([1, 2]);
      },
    );

    test("fails for what it was refused for, whatever was told since", async () => {
      settle = () => Promise.resolve(refused);
      const refunds = open();
      await rounds(refunds, 1);
      await rounds(newer(), 1);
      chain = EXPIRED;
      await rounds(refunds, Math.ceil(OVER_MS / 31_000) + 2);
      expect(await shown()).toMatchObject({
        state: "FAILED",
        detail: "insufficient_funds: the wallet is empty",
      });
    });

    test("says so, and has another signed when that is over, whatever was said of it", async () => {
      settle = () => Promise.resolve(refused);
      await rounds(open(), 1);
      const refunds = newer();
      await rounds(refunds, 2);
      expect(asked).toHaveLength(1);
      const detail = expect.stringMatching(/replaced/);
      expect(await found()).toMatchObject({ state: "SENDING", attempt: 1, detail });
      chain = EXPIRED;
      await rounds(refunds, Math.ceil(OVER_MS / 31_000) + 2);
      expect(signed.map(({ attempt }) => attempt)).toEqual([1, 2]);
    });
  });

  describe("to somebody who is on a list", () => {
    let isListed: boolean;
    const isBarred = (network: string, payer: string) =>
      network === NETWORK && payer === PAYER && isListed;

    beforeEach(() => {
      isListed = true;
    });

    test("is not signed: the operator decides", async () => {
      await open(undefined, { isBarred }).round(signal);
      expect([signed, asked]).toEqual([[], []]);
      expect(await shown()).toMatchObject({
        state: "FAILED",
        detail: expect.stringMatching(/payers\.deny/),
      });
    });

    test("is not settled any more, as long as he is", async () => {
      isListed = false;
      const refunds = open(undefined, { isBarred });
      await refunds.round(signal);
      expect(asked).toHaveLength(1);
      isListed = true;
      await rounds(refunds, 3);
      expect(asked).toHaveLength(1);
      expect(await found()).toMatchObject({ detail: expect.stringMatching(/payers\.deny/) });
      isListed = false;
      settle = () => Promise.resolve(settled);
      await rounds(refunds, 2);
      expect(await shown()).toMatchObject({ state: "REFUNDED" });
    });

    test("is dropped where it was begun and left by a fault, and fails in the end", async () => {
      isListed = false;
      const refunds = open(undefined, { isBarred });
      settle = () => Promise.reject(new Error("the ledger does not answer"));
      await refunds.round(signal);
      expect(await ledger.outcome(transferKey(1))).toMatchObject({ kind: "pending" });
      isListed = true;
      await time.advance(31_000);
      await rounds(refunds, 1);
      expect(await ledger.outcome(transferKey(1))).toMatchObject({ kind: "gone" });
      chain = EXPIRED;
      await rounds(refunds, Math.ceil(OVER_MS / 31_000) + 2);
      expect(await shown()).toMatchObject({ state: "FAILED" });
      expect(signed).toHaveLength(1);
    });
  });

  test("over what may be paid back on a day is for the operator", async () => {
    await open(9_999n).round(signal);
    expect(await shown()).toMatchObject({
      state: "FAILED",
      detail: expect.stringMatching(/maxPerDay/),
    });
    expect(asked).toEqual([]);
  });
});
