/** Payments that stand behind others of their payer: who goes on, who waits, how long, and how many. */
import { beforeEach, describe, expect, it } from "vitest";
import {
  ContestedPurses,
  MAX_WAITING,
  MAX_WAITING_OF_ONE,
} from "../../../../src/payments/settlement/contested-purses.ts";
import {
  PendingSettlement,
  type SignablePayment,
} from "../../../../src/payments/settlement/pending-payment.ts";
import type { Spend } from "../../../../src/ledger/purse.ts";
import type { PurseReader } from "../../../../src/mechanism/mechanism.ts";
import { paymentKey, type PaymentKey } from "../../../../src/x402/payment-key.ts";
import { ManualTime } from "../../../support/manual-time.ts";
import { examplePayment, PAYER } from "../../ledger/example-payment.ts";

const PRICE = 10_000n;
const WAIT_MS = 4_000;
const LAG_MS = 500;

let time: ManualTime;
let closing: AbortController;
/** What the ledger has under way, what the node shows of it, and what it says that the payer has. */
let under: Spend[];
let shown: Set<PaymentKey>;
let prices: number;
let reads: number;
let fault: Error | undefined;
let decided: PromiseWithResolvers<void>;
let admitted: SignablePayment[];
let refused: Map<PaymentKey, string>;
let unread: unknown[];
let purses: ContestedPurses;

const reader: PurseReader = {
  async read(_checked, nonces) {
    reads += 1;
    if (fault !== undefined) throw fault;
    const executed = nonces.map((nonce) => [...shown].some((key) => key.endsWith(nonce)));
    return { balanceAtomic: PRICE * BigInt(prices), askedMs: time.now(), executed };
  },
};

beforeEach(() => {
  time = new ManualTime();
  closing = new AbortController();
  [under, shown, prices, reads, fault] = [[], new Set(), 1, 0, undefined];
  [admitted, refused, unread] = [[], new Map(), []];
  decided = Promise.withResolvers();
  purses = new ContestedPurses(reader, {
    ledger: {
      signing: { spends: async () => under },
      changed: async (_key, _version, signal) => {
        const ended = new Promise((end) => signal.addEventListener("abort", end, { once: true }));
        await Promise.race([decided.promise, ended]);
      },
    },
    time,
    closing: closing.signal,
    admitted: (item) => admitted.push(item),
    refused: ({ key }, { detail }) => refused.set(key, detail),
    unread: (_item, cause) => unread.push(cause),
  });
});

/** A payment of one price, of the usual payer or another. */
function item(number: number, payer = PAYER): SignablePayment {
  const text = JSON.stringify(examplePayment(number).request).replaceAll(PAYER, payer);
  const request = JSON.parse(text) as SignablePayment["request"];
  const key = paymentKey(request);
  if (!key.ok) throw new Error(key.error.detail);
  const inspected = { authorization: {}, payer, proven: true, runsCode: false, fault: null };
  return {
    key: key.value,
    request,
    checked: inspected,
    judged: { inspected, atMs: time.now() },
    pending: new PendingSettlement(true),
    origin: "begun",
    account: undefined,
    isAlone: false,
    queuedMs: time.now(),
  };
}

const payer = (number: number): string => `0x${(number + 1).toString(16).padStart(40, "0")}`;

function spend(number: number, settledMs: number | null = null): Spend {
  return { key: examplePayment(number).key, version: 2, amountAtomic: PRICE, settledMs };
}

describe("a payment behind others of its payer", () => {
  it("goes on at once where the balance lacks what is under way already", async () => {
    under = [spend(1)];
    shown.add(spend(1).key);
    purses.hold(item(2));
    await time.advance(0);
    expect(admitted).toMatchObject([{ key: item(2).key, held: { reading: { seen: shown } } }]);
    expect(purses.size).toBe(0);
    expect(purses.isBehind(item(3))).toBe(false);
  });

  it("waits until those are decided, and is then told the truth", async () => {
    under = [spend(1)];
    for (const number of [2, 3]) purses.hold(item(number));
    await time.advance(1_000);
    expect({ reads, size: purses.size }).toEqual({ reads: 1, size: 2 });
    expect(purses.isBehind(item(4))).toBe(true);
    [under, prices] = [[spend(1, time.now())], 0];
    shown.add(spend(1).key);
    decided.resolve();
    await time.advance(0);
    const told = "the payer holds 0 of 10000 atomic units ($0 of $0.01)";
    expect([...refused.values()]).toEqual(Array(2).fill(told));
    expect(purses.size).toBe(0);
  });

  it("goes on with as many others as fit, in the order in which they came", async () => {
    [under, prices] = [[spend(1)], 3];
    for (const number of [2, 3, 4]) purses.hold(item(number));
    await time.advance(0);
    expect(admitted.map(({ key }) => key)).toEqual([item(2).key, item(3).key]);
    expect(purses.size).toBe(1);
  });

  it("is asked about once more when its time is over, and then refused", async () => {
    under = [spend(1)];
    purses.hold(item(2));
    await time.advance(WAIT_MS - 1);
    expect(refused.size).toBe(0);
    await time.advance(1);
    expect(reads).toBe(2);
    expect(refused.get(item(2).key)).toContain("try again when they are settled");
  });

  it("has no more time when it comes again", async () => {
    under = [spend(1)];
    const reading = { balanceAtomic: PRICE, askedMs: 0, seen: new Set<PaymentKey>() };
    purses.hold({ ...item(2), held: { untilMs: time.now(), reading } });
    await time.advance(0);
    expect(refused.size).toBe(1);
  });

  it("is asked about again where all is decided and the node does not show it yet", async () => {
    under = [spend(1, time.now())];
    purses.hold(item(2));
    await time.advance(LAG_MS - 1);
    expect(reads).toBe(1);
    shown.add(spend(1).key);
    await time.advance(1);
    expect(admitted).toHaveLength(1);
  });

  it("is given back where its purse cannot be read, and when we shut down", async () => {
    fault = new Error("no node");
    purses.hold(item(2));
    await time.advance(0);
    expect(unread).toEqual([fault]);
    fault = undefined;
    under = [spend(1)];
    purses.hold(item(2));
    await time.advance(0);
    closing.abort();
    await purses.drained();
    expect(unread).toHaveLength(2);
    expect(purses.size).toBe(0);
  });
});

describe("those who wait", () => {
  beforeEach(() => {
    under = [spend(100_000)];
  });

  it(`are ${MAX_WAITING_OF_ONE} of one purse; others are refused, until those are through`, async () => {
    for (let number = 0; number < MAX_WAITING_OF_ONE; number += 1) purses.hold(item(number));
    await time.advance(0);
    purses.hold(item(1_000));
    expect([...refused.keys()]).toEqual([item(1_000).key]);
    await time.advance(WAIT_MS);
    expect(refused.size).toBe(1 + MAX_WAITING_OF_ONE);
    under = [];
    purses.hold(item(1_001));
    await time.advance(0);
    expect(admitted).toHaveLength(1);
  });

  it(`are ${MAX_WAITING} in all`, async () => {
    for (let number = 0; number < MAX_WAITING; number += 1) {
      purses.hold(item(number, payer(Math.floor(number / 2))));
    }
    await time.advance(0);
    purses.hold(item(5_000, payer(5_000)));
    expect(refused.size).toBe(1);
    await time.advance(WAIT_MS);
    expect(purses.size).toBe(0);
  });
});
