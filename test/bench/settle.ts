/**
 * `POST /settle` with one key: our facilitator process, and express with npm `x402` and with `@x402/evm`.
 * First on a chain that includes each transaction at once, in turn: throughput, latency and CPU. Then many
 * payments at the same time, with a block for each transaction and with a block each second: how many are
 * settled, in how many blocks, at what gas.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent } from "undici";
import { startChain, type Chain } from "../support/chain.ts";
import { freshAccount, requirementsFor, signPayment } from "../support/payer.ts";
import { BEFORE, startCoinslot, type Version } from "./contenders/coinslot.ts";
import { preciseCpuMicros, startProgram, type Running } from "./process.ts";
import { columns, coinslotVersion, say, sayAim, sayHead, versionOf } from "./report.ts";
import { median } from "./rounds.ts";
import { IS_SHORT, sized } from "./size.ts";

/** Two versions of ours differ by little, so that it takes many rounds to tell; the peers are left out then. */
const [ROUNDS, WARM_UPS] = sized(BEFORE === undefined ? [4, 1] : [24, 6], [1, 0]);
/** Payments of one round, one after another and at the same time. */
const ALONE = sized(40, 2);
const TOGETHER = sized(64, 4);
const CROWD = sized(
  { payments: 200, payers: 50, atOnce: 64 },
  { payments: 8, payers: 4, atOnce: 4 },
);
/** How many at once, and how many in all. */
const PACES: readonly (readonly [atOnce: number, payments: number])[] = [
  [1, ALONE],
  [TOGETHER, TOGETHER],
];
/** Between blocks, seconds; undefined: a block for each transaction. */
const BLOCK_TIMES = sized([undefined, 1], [undefined]);
const VALID_SECONDS = 3_600;
const ANSWER_TIMEOUT_MS = 30_000;

interface Contender {
  readonly name: string;
  readonly server: Running;
  readonly signer: string;
}

interface Round {
  readonly settled: number;
  readonly asked: number;
  readonly seconds: number;
  readonly latencies: readonly number[];
  readonly cpuMicros: number;
  readonly transactions: readonly string[];
  readonly blocksWaited: readonly number[];
}

await using closing = new AsyncDisposableStack();
const folder = await mkdtemp(join(tmpdir(), "coinslot-bench-"));
closing.defer(() => rm(folder, { recursive: true, force: true }));
/** No limit on connections, and no time limit of its own. */
const agent = new Agent({ headersTimeout: 0, bodyTimeout: 0 });
closing.defer(() => agent.close());

const peers = ["x402", "@x402/evm", "express", "viem", "@foundry-rs/anvil-linux-amd64"];
sayHead("POST /settle, one key", [coinslotVersion(), ...peers.map(versionOf)]);

for (const [atOnce, payments] of sized(PACES, PACES.slice(1))) {
  // A chain of its own: after some thousand blocks the node takes tens of milliseconds longer for each transaction.
  await using chain = await startChain();
  const contenders = await startContenders(chain);
  try {
    await compare(chain, contenders, atOnce, payments);
  } finally {
    for (const { server } of contenders) await server.stop();
  }
}
for (const blockTime of BLOCK_TIMES) {
  for (const atOnce of sized([CROWD.atOnce, CROWD.payments], [CROWD.atOnce])) {
    await using chain = await startChain(blockTime === undefined ? {} : { blockTime });
    await crowd(chain, atOnce, blockTime);
  }
}

async function compare(
  chain: Chain,
  contenders: readonly Contender[],
  atOnce: number,
  payments: number,
): Promise<void> {
  const rounds = new Map(contenders.map(({ name }) => [name, [] as Round[]]));
  for (let round = 0; round < WARM_UPS + ROUNDS; round += 1) {
    for (const contender of round % 2 === 0 ? contenders : contenders.toReversed()) {
      const bodies = await preparePayments(chain, payments, Math.min(payments, CROWD.payers));
      const done = await run(chain, contender, bodies, atOnce);
      if (round >= WARM_UPS) rounds.get(contender.name)?.push(done);
    }
  }
  say(`\n${payments} payments a round, ${atOnce} at once, a block for each transaction`);
  say(`  ${ROUNDS} rounds in alternating order after ${WARM_UPS} to warm up; medians`);
  const measured = [...rounds].map(([name, all]) => ({
    name,
    settled: all.reduce((sum, { settled }) => sum + settled, 0),
    asked: all.reduce((sum, { asked }) => sum + asked, 0),
    perSecond: median(all.map(({ settled, seconds }) => settled / seconds)),
    p50: median(all.flatMap(({ latencies }) => latencies)),
    cpu: median(all.map((each) => each.cpuMicros / Math.max(each.settled, 1))),
  }));
  const head = ["", "settled", "settled/s", "p50 ms", "CPU µs/settled"];
  const rows = measured.map(({ name, settled, asked, perSecond, p50, cpu }) => [
    name,
    `${settled} of ${asked}`,
    perSecond.toFixed(1),
    p50.toFixed(1),
    cpu.toFixed(0),
  ]);
  for (const line of columns([head, ...rows])) say(`  ${line}`);
  const [ours, ...others] = measured;
  for (const other of others) {
    if (ours === undefined) break;
    const ratios = [
      `throughput ${(ours.perSecond / other.perSecond).toFixed(2)} ×`,
      `latency ${(ours.p50 / other.p50).toFixed(2)} ×`,
      `CPU ${(ours.cpu / other.cpu).toFixed(2)} ×`,
    ];
    say(`  coinslot / ${other.name}: ${ratios.join(", ")}`);
  }
}

async function crowd(chain: Chain, atOnce: number, blockTime: number | undefined): Promise<void> {
  const pace = blockTime === undefined ? "a block for each transaction" : "a block each second";
  say(`\n${CROWD.payments} payments of ${CROWD.payers} payers, ${atOnce} at once, ${pace}`);
  const contenders = await startContenders(chain, !IS_SHORT);
  const rows: string[][] = [];
  for (const contender of contenders) {
    const bodies = await preparePayments(chain, CROWD.payments, CROWD.payers);
    const done = await run(chain, contender, bodies, atOnce);
    await contender.server.stop();
    const gas = await gasOf(chain, done.transactions);
    const perPayment = Number(gas) / Math.max(done.settled, 1);
    const waited = Math.max(0, ...done.blocksWaited);
    rows.push([
      contender.name,
      `${done.settled} of ${done.asked}`,
      done.seconds.toFixed(1),
      String(new Set(done.transactions).size),
      String(waited),
      perPayment.toFixed(0),
    ]);
    if (contender !== contenders[0]) continue;
    say();
    sayAim({ text: "settled", value: done.settled, atLeast: CROWD.payments });
    sayAim({ text: "gas for one payment", value: perPayment, atMost: 55_000 });
    if (blockTime !== undefined) {
      sayAim({ text: "blocks from request to answer, the longest", value: waited, atMost: 3 });
    }
  }
  const head = ["", "settled", "seconds", "transactions", "blocks waited, most", "gas/payment"];
  for (const line of columns([head, ...rows])) say(`  ${line}`);
}

async function run(
  chain: Chain,
  { server }: Contender,
  bodies: readonly string[],
  atOnce: number,
): Promise<Round> {
  const queue = [...bodies];
  const latencies: number[] = [];
  const transactions: string[] = [];
  const asked: { transaction: string; block: number }[] = [];
  const cpu = preciseCpuMicros(server.pid);
  const started = performance.now();
  const worker = async (): Promise<void> => {
    for (let body = queue.pop(); body !== undefined; body = queue.pop()) {
      const block = Number(await chain.rpc("eth_blockNumber"));
      const begun = performance.now();
      const transaction = await settle(server.url, body);
      if (transaction === undefined) continue;
      latencies.push(performance.now() - begun);
      transactions.push(transaction);
      asked.push({ transaction, block });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  const seconds = (performance.now() - started) / 1000;
  const spent = preciseCpuMicros(server.pid) - cpu;
  const blocks = new Map<string, number>();
  for (const { transaction } of asked) {
    if (blocks.has(transaction)) continue;
    const receipt = Object(await chain.rpc("eth_getTransactionReceipt", [transaction]));
    blocks.set(transaction, Number(receipt.blockNumber));
  }
  return {
    settled: transactions.length,
    asked: bodies.length,
    seconds,
    latencies,
    cpuMicros: spent,
    transactions,
    blocksWaited: asked.map(({ transaction, block }) => (blocks.get(transaction) ?? 0) - block),
  };
}

/** The transaction, or undefined when it was not settled, for whatever reason. */
async function settle(url: string, body: string): Promise<string | undefined> {
  try {
    const answer = await agent.request({
      origin: url,
      path: "/settle",
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    const { success, transaction } = Object(await answer.body.json());
    return success === true && typeof transaction === "string" ? transaction : undefined;
  } catch {
    return undefined;
  }
}

async function gasOf(chain: Chain, transactions: readonly string[]): Promise<bigint> {
  let gas = 0n;
  for (const transaction of new Set(transactions)) {
    const receipt = Object(await chain.rpc("eth_getTransactionReceipt", [transaction]));
    gas += BigInt(receipt.gasUsed);
  }
  return gas;
}

async function startContenders(chain: Chain, withPeers = true): Promise<Contender[]> {
  const keys = Array.from({ length: 4 }, () => freshAccount());
  for (const { address } of keys) await chain.fund(address, 0n, 10n ** 20n);
  const [ours = "", x402 = "", evm = "", before = ""] = keys.map(({ privateKey }) => privateKey);
  const coinslot = async (signer: string, version?: Version): Promise<Contender> => {
    const name = version?.name ?? "coinslot";
    const config = `
facilitator:
  listen: 127.0.0.1:0
  embedded:
    networks:
      ${chain.network.name}: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
admin: 127.0.0.1:0
store: sqlite:${folder}/${name}-${new URL(chain.rpcUrl).port}-${Date.now()}.db
`;
    const env = { SIGNER: signer };
    return {
      name,
      server: await startCoinslot(folder, config, "facilitator", { env, version }),
      signer,
    };
  };
  const program = async (name: string, file: string, signer: string): Promise<Contender> => {
    const url = new URL(`./contenders/${file}`, import.meta.url);
    return { name, server: await startProgram(url, [chain.rpcUrl, signer]), signer };
  };
  if (BEFORE !== undefined) return [await coinslot(ours), await coinslot(before, BEFORE)];
  if (!withPeers) return [await coinslot(ours)];
  return [
    await coinslot(ours),
    await program("x402", "x402-facilitator.ts", x402),
    await program("@x402/evm", "x402-evm-facilitator.ts", evm),
  ];
}

/** Bodies for `/settle`; the payee has held the token before, as a seller has. */
async function preparePayments(chain: Chain, count: number, payerCount: number): Promise<string[]> {
  const payTo = freshAccount().address;
  await chain.fund(payTo, 1n);
  const requirements = requirementsFor(chain.network.name, { payTo });
  const payers = Array.from({ length: payerCount }, freshAccount);
  await Promise.all(payers.map(({ address }) => chain.fund(address, 1_000_000n)));
  const validBefore = String(Math.floor(Date.now() / 1000) + VALID_SECONDS);
  const bodies: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const { account } = payers[index % payers.length] ?? freshAccount();
    const signed = { account, requirements, overrides: { validBefore } };
    const paymentPayload = await signPayment(signed);
    bodies.push(
      JSON.stringify({ x402Version: 1, paymentPayload, paymentRequirements: requirements }),
    );
  }
  return bodies;
}
