/** When a refund is sent, sent again and given up: by what the ledger and the chain say, never by a guess. */
import { beforeEach, describe, expect, test } from "vitest";
import type { OpenRefund } from "../../../../src/ledger/ledger.ts";
import type { Confirmation, TransferBack } from "../../../../src/mechanism/mechanism.ts";
import { HeldPayment, Payment, type SettleOptions } from "../../../../src/payments/facilitator.ts";
import { Refunds, type RefundsOptions } from "../../../../src/payments/settlement/refunds.ts";
import { ok } from "../../../../src/x402/result.ts";
import type { FacilitatorRequest, SettleResponse } from "../../../../src/x402/x402.ts";
import { ManualTime } from "../../../support/manual-time.ts";
import { MemoryLedger, MemoryStore } from "../../../support/memory-ledger.ts";
import { silentTelemetry } from "../../../simulation/silent-telemetry.ts";
import { examplePayment, PAYER } from "../../ledger/example-payment.ts";
import { bring, NETWORK } from "../../ledger/ledger-driver.ts";

const { signal } = new AbortController();
const SALE = examplePayment(1);
const VALID_MS = 600_000;
const OVER_MS = 900_000;
const UNUSED: Confirmation = { kind: "unknown", detail: "unused", isUnused: true };
const refusal = { code: "invalid_transaction_state", detail: "expired unused" } as const;
const EXPIRED: Confirmation = { kind: "failed", refusal, retriable: false };
const RETRIABLE: Confirmation = { kind: "failed", refusal, retriable: true };

const settled: SettleResponse = {
  success: true,
  transaction: "0xback",
  network: NETWORK,
  payer: PAYER,
};
const refused: SettleResponse = {
  success: false,
  errorReason: "insufficient_funds",
  detail: "the wallet is empty",
  transaction: "",
  network: NETWORK,
  payer: PAYER,
};

let time: ManualTime;
let store: MemoryStore;
let ledger: MemoryLedger;
/** What was signed, and what was asked to be settled, by the number of its example. */
let signed: TransferBack[];
let asked: FacilitatorRequest[];
let chain: Confirmation;
let settle: (options: SettleOptions) => Promise<SettleResponse>;

beforeEach(async () => {
  time = new ManualTime();
  store = new MemoryStore();
  ledger = new MemoryLedger({ store, time, life: "one" });
  signed = [];
  asked = [];
  chain = UNUSED;
  settle = async () => {
    await drop();
    throw new Error("nobody answers");
  };
  await bring(ledger, SALE, "exhausted");
  const resolution = { verb: "refund", note: "", by: "operator", isSent: true } as const;
  await ledger.step(SALE.key, { kind: "resolve", resolution });
});

function open(maxAtomic = 10n ** 9n, changes: Partial<RefundsOptions> = {}): Refunds {
  return new Refunds({
    mechanisms: (["base", NETWORK] as const).map((network) => {
      return {
        network,
        parse: (request) => ok(request),
        reconcile: () => Promise.resolve(chain),
        refunder: {
          address: PAYER,
          validMs: VALID_MS,
          balance: () => Promise.resolve(0n),
          transfer: async (back) => {
            signed.push(back);
            return examplePayment(100 + back.attempt).request;
          },
        },
      };
    }),
    facilitator: {
      read: (request) => Payment.read(request, () => undefined),
      settle: async ({ request }, options) => {
        asked.push(request);
        const answer = await settle(options);
        if (!answer.success) await drop();
        return answer;
      },
    },
    ledger,
    gate: { isOpen: () => true },
    mostOf: () => maxAtomic,
    telemetry: silentTelemetry(undefined),
    time,
    ...changes,
  });
}

/** As the engine does with what it has begun and not signed. */
const drop = () => ledger.step(transferKey(signed.length), { kind: "abandoned" });
const transferKey = (attempt: number) => examplePayment(100 + attempt).key;
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
    expect(signed).toMatchObject([{ amountAtomic: 10_000n, payment: SALE.key, attempt: 1 }]);
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
    expect(signed.map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(await found()).toMatchObject({ attempt: 2, transfer: { key: transferKey(2) } });
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
    const refunds = async (network: string, limit: number) =>
      [...waiting, sale].filter((each) => each.network === network).slice(0, limit);
    const step = ledger.step.bind(ledger);
    const outcome = ledger.outcome.bind(ledger);
    const isOpen = (network: string) => network === NETWORK;
    settle = () => Promise.resolve(settled);
    await open(undefined, { ledger: { refunds, step, outcome }, gate: { isOpen } }).round(signal);
    expect(await shown()).toMatchObject({ state: "REFUNDED" });
    expect(signed).toHaveLength(1);
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
