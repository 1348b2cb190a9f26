import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { randomUUID } from "node:crypto";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getAddress, parseTransaction } from "viem";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { EmbeddedFacilitator } from "../../../src/payments/settlement/embedded.ts";
import { NetworkGate } from "../../../src/payments/settlement/network-gate.ts";
import { startRecovery } from "../../../src/payments/settlement/recovery.ts";
import type { Ledger, StoredSubmission } from "../../../src/ledger/ledger.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite/sqlite.ts";
import { createEvmMechanism } from "../../../src/mechanism/evm/evm.ts";
import { systemTime } from "../../../src/time/time.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { faultOf } from "../../support/fault-of.ts";
import { freshAccount, type FreshAccount } from "../../support/payer.ts";
import { startRpcProxy, type RpcProxy } from "../../support/rpc-proxy.ts";
import { newPayment, patience, silent, type Payment } from "./stage.ts";

const BROADCAST = "eth_sendRawTransaction";
const RECEIPT = "eth_getTransactionReceipt";

/** One life of a process: everything that a restart builds anew. */
interface Life {
  readonly facilitator: EmbeddedFacilitator;
  readonly ledger: Ledger;
  readonly telemetry: ReturnType<typeof silent>;
  /** What is signed and not final. */
  unfinished(): Promise<readonly StoredSubmission[]>;
  [Symbol.asyncDispose](): Promise<void>;
}

let chain: Chain;
let proxy: RpcProxy;
let signer: FreshAccount;
let folder: string;

beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain.stop());
beforeEach(async () => {
  proxy = await startRpcProxy(chain.rpcUrl);
  signer = freshAccount();
  await chain.fund(signer.address, 0n, 10n ** 18n);
  folder = await mkdtemp(join(tmpdir(), "coinslot-recovery-"));
});
afterEach(async () => {
  await proxy[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

const ledgerPath = (): string => join(folder, "data", "ledger.db");

/** Starts a process on the ledger file and the account that the one before it left. */
async function begin(clock: () => number = Date.now, path = ledgerPath()): Promise<Life> {
  await using closing = new AsyncDisposableStack();
  const telemetry = silent();
  const time = { ...systemTime, now: clock };
  const ledger = await openSqliteLedger({ path, time, life: randomUUID() });
  closing.defer(() => ledger.close());
  const mechanism = createEvmMechanism({
    network: chain.network,
    assets: [chain.network.asset],
    rpcUrls: [proxy.url],
    keys: [signer.privateKey],
    clock: () => Math.floor(clock() / 1000),
    allowPayTo: "any",
  });
  closing.defer(() => mechanism.close());
  const gate = new NetworkGate([mechanism], telemetry, time);
  closing.defer(() => gate.close());
  await gate.probe();
  const { asset } = chain.network;
  const facilitator = new EmbeddedFacilitator({
    mechanisms: [mechanism],
    ledger,
    gate,
    telemetry,
    time,
    describeAsset: () => asset,
  });
  closing.defer(() => facilitator.close());
  const owned = closing.move();
  return {
    facilitator,
    ledger,
    telemetry,
    unfinished: () => ledger.signing.unfinished(mechanism.network, signer.address),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Settles until `event`, when the process ends: what it signed it leaves behind. */
async function beginAndStop(payment: Payment, event: () => Promise<void>): Promise<string> {
  await using life = await begin();
  const caller = new AbortController();
  const options = { signal: caller.signal, idempotencyKey: "key" };
  const settling = faultOf(onTheWire(life.facilitator).settle(payment.request, options));
  await event();
  caller.abort();
  expect(await settling).toMatchObject({ kind: "unknown" });
  const [left] = await life.unfinished();
  if (left === undefined) throw new Error("nothing was signed");
  return left.id;
}

/** Recovery as it runs at every start, until nothing is in the air any more. */
async function recover(life: Life): Promise<void> {
  const recovery = startRecovery(life.facilitator, life.telemetry, systemTime);
  try {
    await vi.waitFor(async () => expect(await inTheAir(life)).toBe(0), { timeout: 10_000 });
  } finally {
    await recovery.stop();
  }
}

async function inTheAir(life: Life): Promise<number> {
  return (await life.unfinished()).filter(({ state }) => state === "OPEN").length;
}

const ask = (life: Life, { request }: Payment) =>
  onTheWire(life.facilitator).settle(request, { signal: patience(), idempotencyKey: "key" });
const received = ({ requirements }: Payment) => chain.balanceOf(getAddress(requirements.payTo));

describe("a settlement that an earlier process signed", () => {
  test("and could not send is sent and finished with nobody asking", async () => {
    const payment = await newPayment(chain);
    const lost = proxy.inject({ method: BROADCAST, status: 503 });
    const transaction = await beginAndStop(payment, () => lost.hit());
    expect(await received(payment)).toBe(0n);
    lost.lift();
    await using life = await begin();
    await recover(life);
    expect(await received(payment)).toBe(10_000n);
    // Its client asks again: the bytes were the first ones, and nothing more is sent.
    const sent = proxy.count(BROADCAST);
    expect(await ask(life, payment)).toMatchObject({ success: true, transaction });
    expect(proxy.count(BROADCAST)).toBe(sent);
  });

  test("and sent, but did not see on the chain, is finished with nobody asking", async () => {
    const payment = await newPayment(chain, { funds: 20_000n });
    const withheld = proxy.inject({ method: RECEIPT, result: null });
    const transaction = await beginAndStop(payment, () => withheld.hit());
    withheld.lift();
    await using life = await begin();
    await recover(life);
    expect(await received(payment)).toBe(10_000n);
    expect(await ask(life, payment)).toMatchObject({ success: true, transaction });
    expect(await received(payment)).toBe(10_000n);
  });

  test("is held under the transaction of whoever submitted it meanwhile", async () => {
    const payment = await newPayment(chain, { funds: 20_000n });
    const lost = proxy.inject({ method: BROADCAST, status: 503 });
    await beginAndStop(payment, () => lost.hit());
    const { raw } = await storedTransaction();
    const { to, data } = parseTransaction(raw);
    if (!to || !data) throw new Error("a settlement calls the token");
    const theirs = await chain.submit(to, data);
    lost.lift();
    await using life = await begin();
    await recover(life);
    expect(await faultOf(ask(life, payment))).toMatchObject({ transaction: theirs });
    expect(await received(payment)).toBe(10_000n);
  });

  test("leaves its account nonce to it: the next payment takes the next one", async () => {
    const first = await newPayment(chain);
    const lost = proxy.inject({ method: BROADCAST, status: 503 });
    await beginAndStop(first, () => lost.hit());
    lost.lift();
    await using life = await begin();
    const second = await newPayment(chain);
    const settling = onTheWire(life.facilitator).settle(second.request, { signal: patience() });
    await proxy.asked(BROADCAST, 2);
    await recover(life);
    expect(await settling).toMatchObject({ success: true });
    expect([await received(first), await received(second)]).toEqual([10_000n, 10_000n]);
    expect(await life.ledger.signing.nextAccountNonce("base-sepolia", signer.address)).toBe(2);
    const count = await chain.rpc("eth_getTransactionCount", [signer.address, "latest"]);
    expect(Number(count)).toBe(2);
  });

  test("waits as long as its network has not proven itself", async () => {
    const payment = await newPayment(chain);
    const lost = proxy.inject({ method: BROADCAST, status: 503 });
    await beginAndStop(payment, () => lost.hit());
    lost.lift();
    const sent = proxy.count(BROADCAST);
    const wrong = proxy.inject({ method: "eth_chainId", result: "0x1" });
    {
      await using life = await begin();
      await life.facilitator.recover();
      expect(await inTheAir(life)).toBe(1);
      const signal = AbortSignal.timeout(1_000);
      const settling = onTheWire(life.facilitator).settle(payment.request, {
        signal,
        idempotencyKey: "key",
      });
      expect(await faultOf(settling)).toMatchObject({ kind: "unknown" });
      expect(proxy.count(BROADCAST)).toBe(sent);
    }
    wrong.lift();
    await using life = await begin();
    await recover(life);
    expect(await received(payment)).toBe(10_000n);
  });

  test("is one for the next process again when this one ends first", async () => {
    const payment = await newPayment(chain);
    const lost = proxy.inject({ method: BROADCAST, status: 503 });
    await beginAndStop(payment, () => lost.hit());
    {
      const life = await begin();
      const sent = proxy.count(BROADCAST);
      const recovery = startRecovery(life.facilitator, life.telemetry, systemTime);
      await proxy.asked(BROADCAST, sent + 1);
      await life.facilitator.close();
      await recovery.stop();
      expect(await inTheAir(life)).toBe(1);
      await life[Symbol.asyncDispose]();
    }
    lost.lift();
    await using life = await begin();
    await recover(life);
    expect(await received(payment)).toBe(10_000n);
  });
});

test("a claim that an earlier process never signed is free again", async () => {
  const payment = await newPayment(chain);
  const crashed = await begin();
  const held = proxy.inject({ method: "eth_call", hold: true, times: 1 });
  const caller = new AbortController();
  const settling = faultOf(
    onTheWire(crashed.facilitator).settle(payment.request, {
      signal: caller.signal,
      idempotencyKey: "old",
    }),
  );
  await held.hit();
  // A crash leaves the files as they are in the middle of the work.
  await cp(join(folder, "data"), join(folder, "left"), { recursive: true });
  caller.abort();
  held.lift();
  expect(await settling).toMatchObject({ kind: "unavailable" });
  await using life = await begin(Date.now, join(folder, "left", "ledger.db"));
  const answer = await onTheWire(life.facilitator).settle(payment.request, { signal: patience() });
  expect(answer).toMatchObject({ success: true });
  expect(await received(payment)).toBe(10_000n);
  await crashed[Symbol.asyncDispose]();
});

// Last: it moves the chain's clock.
test("a settlement that expired while nobody could send it is a failure, and costs the payer nothing", async () => {
  const payment = await newPayment(chain);
  const lost = proxy.inject({ method: BROADCAST, status: 503 });
  await beginAndStop(payment, () => lost.hit());
  const laterMs = 10 * 60_000;
  await chain.setNextBlockTimestamp(Math.floor((Date.now() + laterMs) / 1000));
  await chain.mine();
  lost.lift();
  await using life = await begin(() => Date.now() + laterMs);
  await recover(life);
  expect(await ask(life, payment)).toMatchObject({
    success: false,
    errorReason: "invalid_transaction_state",
    transaction: "",
  });
  expect(await chain.balanceOf(payment.payer.address)).toBe(10_000n);
});

/** The bytes that the last process left in the file. */
async function storedTransaction(): Promise<{ readonly raw: `0x${string}` }> {
  const path = ledgerPath();
  const ledger = await openSqliteLedger({ path, time: systemTime, life: randomUUID() });
  const [left] = await ledger.signing.unfinished(chain.network.name, signer.address);
  await ledger.close();
  return { raw: left?.variants[0]?.raw as `0x${string}` };
}
