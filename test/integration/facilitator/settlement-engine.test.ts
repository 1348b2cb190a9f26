/** Many settlements at once, before a real chain whose blocks take their time and whose node has faults. */
import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { randomUUID } from "node:crypto";
import { getAddress, type Hex } from "viem";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { startRecovery } from "../../../src/payments/settlement/recovery.ts";
import { systemTime } from "../../../src/time/time.ts";
import type { SettleResponse } from "../../../src/x402/x402.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { startFacilitator, type RunningFacilitator } from "../../support/facilitator.ts";
import { MemoryLedger, MemoryStore } from "../../support/memory-ledger.ts";
import { freshAccount } from "../../support/payer.ts";
import { startRpcProxy, type RpcProxy } from "../../support/rpc-proxy.ts";
import { newPayment, openStage, silent, transactionOf, type Payment } from "./stage.ts";

const BROADCAST = "eth_sendRawTransaction";
const PRICE = 10_000n;
/** Longer than anything here takes, milliseconds. */
const PATIENCE_MS = 60_000;

/** Payments of one cent, `count` of them by `payers` payers, to one payee. */
async function payments(chain: Chain, count: number, payers: number): Promise<readonly Payment[]> {
  const payTo = freshAccount().address;
  const accounts = Array.from({ length: payers }, freshAccount);
  const all: Payment[] = [];
  for (let index = 0; index < count; index += 1) {
    const payer = accounts[index % payers] ?? freshAccount();
    const requirements = { payTo, maxTimeoutSeconds: 300 };
    all.push(await newPayment(chain, { payer, funds: PRICE, requirements }));
  }
  return all;
}

function settleAll(
  { facilitator }: Pick<RunningFacilitator, "facilitator">,
  all: readonly Payment[],
): Promise<readonly SettleResponse[]> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  return Promise.all(
    all.map(({ request, nonce }) =>
      onTheWire(facilitator).settle(request, { signal, idempotencyKey: nonce }),
    ),
  );
}

/** Each payment moved once, in the transaction that was answered; no account nonce was left out. */
async function expectBooks(
  chain: Chain,
  signers: readonly string[],
  all: readonly Payment[],
  answers: readonly SettleResponse[],
): Promise<number> {
  expect(answers.map(({ success }) => success)).toEqual(all.map(() => true));
  const used = new Map<Hex, string>();
  const hashes = [...new Set(answers.map(({ transaction }) => transaction))];
  for (const hash of hashes) {
    for (const { args } of (await transactionOf(chain, hash)).events) {
      if ("nonce" in args) used.set(args.nonce, hash);
    }
  }
  for (const [index, { nonce }] of all.entries()) {
    expect(used.get(nonce as Hex)).toBe(answers[index]?.transaction);
  }
  const payTo = all[0]?.requirements.payTo ?? "";
  expect(await chain.balanceOf(getAddress(payTo))).toBe(PRICE * BigInt(all.length));
  const counts = await Promise.all(
    signers.map((signer) => chain.rpc("eth_getTransactionCount", [signer, "latest"])),
  );
  return counts.map(Number).reduce((sum, count) => sum + count, 0);
}

describe("64 settlements from 50 payers at the same time", () => {
  let chain: Chain;
  beforeAll(async () => {
    chain = await startChain({ blockTime: 1 });
  });
  afterAll(() => chain.stop());

  test("are settled once each, many to a transaction", { timeout: PATIENCE_MS }, async () => {
    const all = await payments(chain, 64, 50);
    await using running = await startFacilitator({ chain });
    const answers = await settleAll(running, all);
    const transactions = await expectBooks(chain, running.signers, all, answers);
    expect(transactions).toBeLessThan(20);
    expect(await running.ledger.signing.nextAccountNonce("base-sepolia", running.signer)).toBe(
      transactions,
    );
  });

  test("are shared by several accounts", { timeout: PATIENCE_MS }, async () => {
    const all = await payments(chain, 64, 50);
    await using running = await startFacilitator({ chain, signers: 3 });
    const answers = await settleAll(running, all);
    await expectBooks(chain, running.signers, all, answers);
    const senders = new Set<string>();
    for (const { transaction } of answers) {
      senders.add((await transactionOf(chain, transaction)).from);
    }
    expect(senders.size).toBe(3);
  });

  test(
    "are settled although the node loses, delays and refuses what it is asked",
    { timeout: PATIENCE_MS },
    async () => {
      const all = await payments(chain, 64, 50);
      await using proxy = await startRpcProxy(chain.rpcUrl);
      await using running = await startFacilitator({ chain, signers: 2, rpcUrl: proxy.url });
      // Both accounts are ours before the faults begin; what is asked after that may fail at any time.
      await running.facilitator.recover();
      faulty(proxy);
      const recovery = startRecovery(running.facilitator, silent(), systemTime);
      onTestFinished(() => recovery.stop());
      const answers = await settleUntilDone(running, all);
      await expectBooks(chain, running.signers, all, answers);
    },
  );
});

/** Every third broadcast is lost or its answer is, and some reads fail. */
function faulty(proxy: RpcProxy): void {
  let count = 0;
  const every = (times: number) => () => {
    count += 1;
    return count % times === 0;
  };
  proxy.inject({ method: BROADCAST, when: every(3), status: 503, times: 6 });
  proxy.inject({ method: BROADCAST, when: every(3), at: "answer", drop: true, times: 6 });
  proxy.inject({ method: "eth_getTransactionReceipt", when: every(4), result: null, times: 10 });
  proxy.inject({ method: "eth_getTransactionReceipt", when: every(4), status: 500, times: 10 });
  proxy.inject({ method: "eth_call", when: every(5), status: 502, times: 4 });
  proxy.inject({ when: every(7), delayMs: 300, times: 20 });
}

/** As a client does: whatever is not answered is asked again with the same key. */
async function settleUntilDone(
  { facilitator }: RunningFacilitator,
  all: readonly Payment[],
): Promise<readonly SettleResponse[]> {
  const until = AbortSignal.timeout(PATIENCE_MS);
  return Promise.all(
    all.map(async ({ request, nonce: idempotencyKey }) => {
      for (;;) {
        const signal = AbortSignal.timeout(10_000);
        try {
          return await onTheWire(facilitator).settle(request, { signal, idempotencyKey });
        } catch (cause) {
          if (until.aborted) throw cause;
        }
      }
    }),
  );
}

describe("a settlement", () => {
  let chain: Chain;
  beforeAll(async () => {
    chain = await startChain();
  });
  afterAll(() => chain.stop());

  test(
    "that stays out of the blocks is replaced, and settled by its replacement",
    { timeout: PATIENCE_MS },
    async () => {
      await using stage = await openStage({ chain });
      const payment = await newPayment(chain, { requirements: { maxTimeoutSeconds: 300 } });
      await chain.rpc("evm_setAutomine", [false]);
      try {
        // Once the node has it.
        const sent = stage.proxy.inject({ method: BROADCAST, at: "answer", delayMs: 0, times: 1 });
        const settling = settleAll(stage.inner, [payment]);
        settling.catch(() => undefined);
        await sent.hit();
        // The next block asks for more than was offered.
        const { variants } = (await stage.inner.unfinished())[0] ?? { variants: [] };
        const pending = await chain.rpc("eth_getTransactionByHash", [variants[0]?.transaction]);
        const { maxFeePerGas } = pending as { maxFeePerGas: Hex };
        const baseFee = (BigInt(maxFeePerGas) * 101n) / 100n;
        await chain.rpc("anvil_setNextBlockBaseFeePerGas", [`0x${baseFee.toString(16)}`]);
        await chain.mine();
        await vi.waitFor(
          async () => {
            const [left] = await stage.inner.unfinished();
            expect(left?.variants.length).toBeGreaterThan(1);
          },
          { timeout: 30_000, interval: 200 },
        );
        await vi.waitFor(
          async () => {
            await chain.mine();
            expect(await chain.balanceOf(getAddress(payment.requirements.payTo))).toBe(PRICE);
          },
          { timeout: 20_000, interval: 200 },
        );
        const [answer] = await settling;
        expect(answer).toMatchObject({ success: true });
        expect(answer?.transaction).not.toBe(variants[0]?.transaction);
        const count = await chain.rpc("eth_getTransactionCount", [stage.inner.signer, "latest"]);
        expect(Number(count)).toBe(1);
      } finally {
        await chain.rpc("evm_setAutomine", [true]);
      }
    },
  );

  test(
    "whose block leaves the chain is sent again, byte for byte, and stays paid",
    { timeout: PATIENCE_MS },
    async () => {
      await using stage = await openStage({ chain });
      const { inner } = stage;
      const payment = await newPayment(chain);
      const snapshot = await chain.rpc("evm_snapshot");
      const [answer] = await settleAll(inner, [payment]);
      expect(answer).toMatchObject({ success: true });
      const payTo = getAddress(payment.requirements.payTo);
      expect(await chain.rpc("evm_revert", [snapshot])).toBe(true);
      expect(await chain.balanceOf(payTo)).toBe(0n);
      const recovery = startRecovery(inner.facilitator, silent(), systemTime);
      try {
        await vi.waitFor(async () => expect(await chain.balanceOf(payTo)).toBe(PRICE), {
          timeout: 20_000,
          interval: 200,
        });
      } finally {
        await recovery.stop();
      }
      const { succeeded } = await transactionOf(chain, answer?.transaction ?? "");
      expect(succeeded).toBe(true);
      const metric = "coinslot_settlement_reorganizations_total";
      expect(await inner.metrics.registry.getSingleMetricAsString(metric)).toContain(
        'delivered="false"} 1',
      );
    },
  );
});

describe("two facilitators on one ledger", () => {
  let chain: Chain;
  beforeAll(async () => {
    chain = await startChain();
  });
  afterAll(() => chain.stop());

  test("settle with the accounts of whoever has some, and each payment once", async () => {
    const store = new MemoryStore();
    const open = (): MemoryLedger =>
      new MemoryLedger({ store, time: systemTime, life: randomUUID() });
    const all = await payments(chain, 12, 12);
    await using one = await startFacilitator({ chain, ledger: open(), signers: 2 });
    await one.facilitator.recover();
    await using two = await startFacilitator({ chain, ledger: open() });
    const [mine, theirs, again] = await Promise.all([
      settleAll(one, all.slice(0, 6)),
      settleAll(two, all.slice(6)),
      settleAll(one, all.slice(6)),
    ]);
    expect(again).toEqual(theirs);
    const signers = [...one.signers, ...two.signers];
    await expectBooks(chain, signers, all, [...mine, ...theirs]);
  });
});
