/**
 * What buyers who pay nothing can burn of our gas on an EVM network, and what an honest buyer notices of it:
 * wallets that behave only in a simulation, and a payer who has code from one block to the next. One facilitator
 * process with one key, a real node with a block each second, real USDC.
 */
import { onTheWire } from "../../src/facilitator/wire-facilitator.ts";
import { setTimeout as pause } from "node:timers/promises";
import { encodeFunctionData, erc20Abi, multicall3Abi, toHex, type Address, type Hex } from "viem";
import { MULTICALL3_ADDRESS, startChain, type Chain } from "../support/chain.ts";
import { startFacilitator, type RunningFacilitator } from "../support/facilitator.ts";
import { ourTransactions } from "../support/our-transactions.ts";
import { freshAccount, requirementsFor, signPayment, type FreshAccount } from "../support/payer.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { delegation, LOOP, twoFacedCode, type Tell } from "../support/two-faced-wallet.ts";
import { columns, coinslotVersion, say, sayHead, versionOf } from "./report.ts";
import { median } from "./rounds.ts";
import { sized } from "./size.ts";

const BLOCK_MS = sized(1_000, 100);
const PRICE = 10_000n;
const PATIENCE_MS = 30_000;
/** What a lone transfer takes. */
const SETTLEMENT_GAS = 103_300;
/** Honest purchases are made as long as the attack lasts, and at least so many. */
const HONEST = sized(8, 1);
/** Buyers of whom each buys once beside an attack, at most. */
const STRANGERS = sized(100, 2);
const ROUNDS = 5;
const CROWD = 12;
/** How often new accounts get the same money, each of them for one payment. */
const WAVES = 10;

interface Stage {
  readonly chain: Chain;
  readonly running: RunningFacilitator;
  readonly payTo: Address;
  /** What is done just before each block, and undone after it. */
  readonly hooks: { before?: () => Promise<void>; after?: () => Promise<void> };
  /** Who pays for what the attack needs on chain, where that is told. */
  attacker?: Address;
}

interface Burnt {
  readonly failed: number;
  /** Of ours, and of the attacker's. */
  readonly gas: number;
  readonly his: number;
}

/** Gets ready; what it returns attacks, until every payment of the attacker's is answered. */
type Attack = (stage: Stage) => Promise<() => Promise<unknown>>;

sayHead("gas burnt by buyers who pay nothing", [
  coinslotVersion(),
  versionOf("@foundry-rs/anvil-linux-amd64"),
]);
say("  one key, a block each second; an honest buyer buys one thing after another beside it");
const sign = freshAccount().address;
const ways: readonly (readonly [string, Attack])[] = [
  ["nobody attacks", async () => () => Promise.resolve()],
  ["1 wallet with $0.01, 40 payments, tx.origin", (at) => wallets(at, "origin", 1, 40)],
  ["1 wallet with $0.01, 40 payments, gas price", (at) => wallets(at, "gas price", 1, 40)],
  ["1 wallet with $0.01, 40 payments, front-running", (at) => wallets(at, { sign }, 1, 40)],
  ["100 wallets with $0.01, 4 payments each, tx.origin", (at) => wallets(at, "origin", 100, 4)],
  ["100 wallets with $0.01, 4 each, front-running", (at) => wallets(at, { sign }, 100, 4)],
  ["1 EOA with $0.40, 40 payments, delegates in the air", delegateInTheAir],
  ["100 EOAs with $0.01, 4 each, emptied before each block", (at) => moveFirst(at, 100, 4)],
  [`${WAVES} times 100 new EOAs with $0.01, emptied in their batch`, (at) => newEachTime(at, 100)],
  [`${ROUNDS} poisoned batches of ${CROWD} honest payments`, poison],
];
const [only] = process.argv.slice(2);
const rows: string[][] = [];
for (const [name, attack] of ways) {
  if (only === undefined || name.includes(only)) rows.push([name, ...(await run(attack))]);
}
const head = [
  "",
  "seconds",
  "payments that failed",
  "gas burnt",
  "settlements",
  "his gas",
  "honest p50 ms",
  "max ms",
  "lost",
  "new p50 ms",
  "max ms",
  "lost",
];
for (const line of columns([head, ...rows])) say(`  ${line}`);

async function run(attack: Attack): Promise<string[]> {
  await using chain = await startChain();
  // What others bid does not change what we bid.
  await using proxy = await startRpcProxy(chain.rpcUrl, { sync: true });
  proxy.inject({ method: "eth_maxPriorityFeePerGas", result: toHex(10n ** 9n) });
  await using running = await startFacilitator({ chain, rpcUrl: proxy.url });
  const payTo = freshAccount().address;
  // A seller has held the token before.
  await chain.fund(payTo, 1n);
  await running.facilitator.recover();
  const buyer = freshAccount();
  await chain.fund(buyer.address, 1_000_000_000n);
  const strangers = Array.from({ length: STRANGERS }, freshAccount);
  for (const { address } of strangers) await chain.fund(address, PRICE);
  const stage: Stage = { chain, running, payTo, hooks: {} };
  if (!(await buy(stage, buyer))) throw new Error("nobody attacks yet");
  const start = await attack(stage);
  await chain.rpc("evm_setAutomine", [false]);
  const over = new AbortController();
  const mining = mine(stage, over.signal);
  const started = performance.now();
  const done = new AbortController();
  const attacking = start().finally(() => done.abort());
  const [known, fresh] = await Promise.all([
    purchases(stage, done.signal, () => buyer),
    purchases(stage, done.signal, () => strangers.pop()),
  ]);
  await attacking;
  const seconds = (performance.now() - started) / 1000;
  over.abort();
  await mining;
  const { failed, gas, his } = await burnt(stage);
  return [
    seconds.toFixed(0),
    String(failed),
    gas.toLocaleString("en"),
    (gas / SETTLEMENT_GAS).toFixed(1),
    his.toLocaleString("en"),
    ...known,
    ...fresh,
  ];
}

/** One after another, by whoever is next: median and longest time, and how many were not served. */
async function purchases(
  stage: Stage,
  over: AbortSignal,
  next: () => FreshAccount | undefined,
): Promise<string[]> {
  const latencies: number[] = [];
  let lost = 0;
  for (let count = 0; count < HONEST || !over.aborted; count += 1) {
    const buyer = next();
    if (buyer === undefined) break;
    const begun = performance.now();
    if (await buy(stage, buyer)) latencies.push(performance.now() - begun);
    else lost += 1;
  }
  const longest = latencies.length === 0 ? "-" : Math.max(...latencies).toFixed(0);
  return [latencies.length === 0 ? "-" : median(latencies).toFixed(0), longest, String(lost)];
}

async function mine({ chain, hooks }: Stage, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await pause(BLOCK_MS);
    await hooks.before?.();
    await chain.mine();
    await hooks.after?.();
  }
}

async function buy(stage: Stage, payer: FreshAccount, from?: Address): Promise<boolean> {
  const { chain, running, payTo } = stage;
  const requirements = requirementsFor(chain.network.name, { payTo, maxTimeoutSeconds: 300 });
  const overrides = from === undefined ? {} : { from };
  const paymentPayload = await signPayment({ account: payer.account, requirements, overrides });
  const request = { paymentPayload, paymentRequirements: requirements };
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const { facilitator } = running;
  try {
    const { isValid } = await onTheWire(facilitator).verify(request, signal);
    return isValid && (await onTheWire(facilitator).settle(request, { signal })).success;
  } catch {
    return false;
  }
}

async function wallets(
  stage: Stage,
  tell: Tell,
  count: number,
  each: number,
): Promise<() => Promise<unknown>> {
  const { chain, hooks } = stage;
  if (typeof tell === "object") {
    hooks.before = async () => void (await chain.rpc("anvil_setCode", [tell.sign, "0x00"]));
    hooks.after = async () => void (await chain.rpc("anvil_setCode", [tell.sign, "0x"]));
  }
  const owner = freshAccount();
  const addresses = Array.from({ length: count }, () => freshAccount().address);
  for (const address of addresses) {
    await chain.rpc("anvil_setCode", [address, twoFacedCode(tell)]);
    await chain.fund(address, PRICE);
  }
  const all = addresses.flatMap((address) => Array.from({ length: each }, () => address));
  return () => Promise.all(all.map((address) => buy(stage, owner, address)));
}

async function delegateInTheAir(stage: Stage): Promise<() => Promise<void>> {
  const { chain, hooks } = stage;
  const payer = freshAccount();
  const target = freshAccount().address;
  await chain.rpc("anvil_setCode", [target, LOOP]);
  await chain.fund(payer.address, 40n * PRICE);
  const become = (code: string) => chain.rpc("anvil_setCode", [payer.address, code]);
  hooks.before = async () => void (await become(delegation(target)));
  hooks.after = async () => void (await become("0x"));
  return async () => {
    // One after another, so that each goes alone.
    const buying: Promise<boolean>[] = [];
    for (let count = 0; count < 40; count += 1) {
      buying.push(buy(stage, payer));
      await pause(BLOCK_MS / 8);
    }
    await Promise.all(buying);
  };
}

async function poison(stage: Stage): Promise<() => Promise<void>> {
  const { chain, hooks } = stage;
  const target = freshAccount().address;
  await chain.rpc("anvil_setCode", [target, LOOP]);
  const rounds = Array.from({ length: ROUNDS }, () => {
    return Array.from({ length: CROWD + 1 }, freshAccount);
  });
  for (const { address } of rounds.flat()) await chain.fund(address, PRICE);
  return async () => {
    for (const crowd of rounds) {
      const poisonous = crowd[CROWD / 2]?.address;
      hooks.before = async () => {
        await chain.rpc("anvil_setCode", [poisonous, delegation(target)]);
      };
      await Promise.all(crowd.map((each) => buy(stage, each)));
    }
  };
}

/** Plain accounts, of which one call of the attacker's takes everything before each block, and gives it back. */
async function moveFirst(
  stage: Stage,
  count: number,
  each: number,
): Promise<() => Promise<unknown>> {
  const { chain, hooks } = stage;
  const pot = freshAccount();
  const payers = Array.from({ length: count }, freshAccount);
  const move = await mover(stage, [pot, ...payers]);
  for (const { address } of payers) await chain.fund(address, PRICE);
  hooks.before = () => move(payers.map((payer) => [payer, pot]));
  hooks.after = async () => {
    await move(payers.map((payer) => [pot, payer]));
    await chain.mine();
  };
  return () =>
    Promise.all(
      payers.map(async (payer) => {
        for (let round = 0; round < each; round += 1) await buy(stage, payer);
      }),
    );
}

/** The same money before each block in accounts that nobody has seen yet, each of which pays once. */
async function newEachTime(stage: Stage, count: number): Promise<() => Promise<unknown>> {
  const { chain, hooks } = stage;
  const waves = Array.from({ length: WAVES + 1 }, () =>
    Array.from({ length: count }, freshAccount),
  );
  const move = await mover(stage, waves.flat());
  for (const { address } of waves[0] ?? []) await chain.fund(address, PRICE);
  return async () => {
    const buying: Promise<boolean>[] = [];
    for (const [index, wave] of waves.slice(0, WAVES).entries()) {
      const moved = Promise.withResolvers<void>();
      buying.push(...wave.map((payer) => buy(stage, payer)));
      hooks.before = () => move(wave.map((payer, at) => [payer, waves[index + 1]?.[at] ?? payer]));
      hooks.after = async () => moved.resolve();
      await moved.promise;
    }
    hooks.before = async () => {};
    await Promise.all(buying);
  };
}

type Move = (transfers: readonly (readonly [FreshAccount, FreshAccount])[]) => Promise<void>;

/** One call of the attacker's for a price from each to each, which stands first in its block. */
async function mover(stage: Stage, accounts: readonly FreshAccount[]): Promise<Move> {
  const { chain } = stage;
  const attacker = freshAccount().address;
  const send = async (from: Address, to: Address, data: Hex): Promise<void> => {
    await chain.rpc("anvil_setBalance", [from, toHex(10n ** 20n)]);
    await chain.rpc("anvil_impersonateAccount", [from]);
    const bid = { maxFeePerGas: toHex(10n ** 11n), maxPriorityFeePerGas: toHex(10n ** 11n) };
    await chain.rpc("eth_sendTransaction", [{ from, to, data, gas: toHex(15_000_000n), ...bid }]);
  };
  const args = [MULTICALL3_ADDRESS, 2n ** 255n] as const;
  const approval = encodeFunctionData({ abi: erc20Abi, functionName: "approve", args });
  for (const { address } of accounts) {
    await send(address, chain.asset, approval);
    // The node makes a block of each, and falls behind.
    while ((await chain.rpc("eth_getTransactionCount", [address, "latest"])) === "0x0");
  }
  stage.attacker = attacker;
  return async (transfers) => {
    const calls = transfers.map(([from, to]) => {
      const callData = encodeFunctionData({
        abi: erc20Abi,
        functionName: "transferFrom",
        args: [from.address, to.address, PRICE],
      });
      return { target: chain.asset, allowFailure: true, callData };
    });
    const taking = { abi: multicall3Abi, functionName: "aggregate3", args: [calls] } as const;
    await send(attacker, MULTICALL3_ADDRESS, encodeFunctionData(taking));
  };
}

async function burnt({ chain, running, attacker }: Stage): Promise<Burnt> {
  const ours = await ourTransactions(chain, running.signers);
  const his = attacker === undefined ? undefined : await ourTransactions(chain, [attacker]);
  const failed = ours.carried - ours.moved;
  return { failed, gas: Number(ours.gasOfNothing), his: Number(his?.gas ?? 0n) };
}
