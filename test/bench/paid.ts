/**
 * Paid requests through the whole gateway, each with a payment of its own, on a chain that includes each
 * transaction at once: coinslot with its embedded facilitator, and what a user assembles today, x402-express
 * before http-proxy-middleware with npm `x402` as its facilitator. The same backend, one key each. What counts is the
 * CPU time of all that is needed to sell (gateway and facilitator) for one answer that was paid and served.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent } from "undici";
import { encodePaymentHeader } from "../../src/x402/header.ts";
import { startChain } from "../support/chain.ts";
import { freshAccount, requirementsFor, signPayment } from "../support/payer.ts";
import { BEFORE, startCoinslot, type Version } from "./contenders/coinslot.ts";
import { PAY_TO, PRICED_ROUTES } from "./contenders/wares.ts";
import { preciseCpuMicros, startProgram, type Running } from "./process.ts";
import { columns, coinslotVersion, say, sayAim, sayHead, versionOf } from "./report.ts";
import { median } from "./rounds.ts";
import { sized } from "./size.ts";

/** Two versions of ours differ by little, so that it takes many rounds to tell; the peer is left out then. */
const [ROUNDS, WARM_UPS] = sized(BEFORE === undefined ? [4, 1] : [16, 3], [1, 0]);
const PAYMENTS = sized(100, 2);
const PAYERS = sized(50, 2);
const AIM = 5;
const ANSWER_TIMEOUT_MS = 90_000;

interface Contender {
  readonly name: string;
  readonly url: string;
  /** Every process that selling needs, the backend and the chain excepted. */
  readonly processes: readonly Running[];
}

interface Round {
  readonly served: number;
  readonly seconds: number;
  readonly cpuMicros: number;
  readonly p50Ms: number;
}

await using closing = new AsyncDisposableStack();
const folder = await mkdtemp(join(tmpdir(), "coinslot-bench-"));
closing.defer(() => rm(folder, { recursive: true, force: true }));
const agent = new Agent({ headersTimeout: 0, bodyTimeout: 0 });
closing.defer(() => agent.close());

const peers = ["x402-express", "x402", "express", "http-proxy-middleware", "viem"].map(versionOf);
sayHead("Paid requests through the whole gateway", [coinslotVersion(), ...peers]);

const chain = await startChain();
closing.defer(() => chain.stop());
const payers = Array.from({ length: PAYERS }, freshAccount);
for (const { address } of payers) await chain.fund(address, 1_000_000_000n);
// A seller has been paid before.
await chain.fund(PAY_TO, 1n);
const backend = await startProgram(new URL("./contenders/backend.ts", import.meta.url));
closing.defer(() => backend.stop());
const contenders = [
  await startOurs(),
  await (BEFORE === undefined ? startTheirs() : startOurs(BEFORE)),
];

for (const atOnce of [1, 16]) await compare(atOnce);

async function compare(atOnce: number): Promise<void> {
  const rounds = new Map(contenders.map(({ name }) => [name, [] as Round[]]));
  for (let round = 0; round < WARM_UPS + ROUNDS; round += 1) {
    for (const contender of round % 2 === 0 ? contenders : contenders.toReversed()) {
      const done = await run(contender, await prepareHeaders(), atOnce);
      if (round >= WARM_UPS) rounds.get(contender.name)?.push(done);
    }
  }
  say(`\n${PAYMENTS} purchases a round, ${atOnce} at once; ${ROUNDS} rounds in alternating order`);
  const measured = [...rounds].map(([name, all]) => {
    const served = all.reduce((sum, each) => sum + each.served, 0);
    const cpuMicros = median(all.map((each) => each.cpuMicros / Math.max(each.served, 1)));
    return {
      name,
      served,
      perCpuSecond: 1e6 / cpuMicros,
      perSecond: median(all.map((each) => each.served / each.seconds)),
      p50: median(all.map(({ p50Ms }) => p50Ms)),
    };
  });
  const head = ["", "paid and served", "per CPU second", "per second", "p50 ms"];
  const rows = measured.map((each) => [
    each.name,
    `${each.served} of ${PAYMENTS * ROUNDS}`,
    each.perCpuSecond.toFixed(0),
    each.perSecond.toFixed(1),
    each.p50.toFixed(1),
  ]);
  for (const line of columns([head, ...rows])) say(`  ${line}`);
  const [ours, other] = measured;
  const value = (ours?.perCpuSecond ?? NaN) / (other?.perCpuSecond ?? NaN);
  const whose = BEFORE === undefined ? "a multiple" : "a multiple of the version before's";
  const atLeast = BEFORE === undefined ? AIM : 1;
  sayAim({
    text: `paid requests per CPU second as ${whose}, ${atOnce} at once`,
    value,
    atLeast,
  });
}

async function run(
  contender: Contender,
  headers: readonly string[],
  atOnce: number,
): Promise<Round> {
  const queue = [...headers];
  const latencies: number[] = [];
  const before = cpuOf(contender);
  const started = performance.now();
  const worker = async (): Promise<void> => {
    for (let header = queue.pop(); header !== undefined; header = queue.pop()) {
      const begun = performance.now();
      if (await buy(contender.url, header)) latencies.push(performance.now() - begun);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  const seconds = (performance.now() - started) / 1000;
  return {
    served: latencies.length,
    seconds,
    cpuMicros: cpuOf(contender) - before,
    p50Ms: median(latencies),
  };
}

async function buy(url: string, header: string): Promise<boolean> {
  const answer = await agent.request({
    origin: url,
    path: PRICED_ROUTES[0] ?? "/",
    method: "GET",
    headers: { "x-payment": header },
    signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
  });
  await answer.body.dump();
  return answer.statusCode === 200 && answer.headers["x-payment-response"] !== undefined;
}

function cpuOf({ processes }: Contender): number {
  return processes.reduce((sum, { pid }) => sum + preciseCpuMicros(pid), 0);
}

async function startOurs(version?: Version): Promise<Contender> {
  const name = version?.name ?? "coinslot";
  const signer = freshAccount();
  await chain.fund(signer.address, 0n, 10n ** 20n);
  const config = `
listen: 127.0.0.1:0
publicUrl: http://localhost:8402
admin: 127.0.0.1:0
upstream: ${backend.url}
payTo: "${PAY_TO}"
accept: [${chain.network.name}]
facilitator:
  embedded:
    networks:
      ${chain.network.name}: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
unmatched: deny
store: sqlite:${folder}/${name}.db
routes:
${PRICED_ROUTES.map((path) => `  GET ${path}: $0.01`).join("\n")}
`;
  const env = { SIGNER: signer.privateKey };
  const server = await startCoinslot(folder, config, "gateway", { env, version });
  closing.defer(() => server.stop());
  return { name, url: server.url, processes: [server] };
}

async function startTheirs(): Promise<Contender> {
  const signer = freshAccount();
  await chain.fund(signer.address, 0n, 10n ** 20n);
  const facilitator = await program("x402-facilitator.ts", [chain.rpcUrl, signer.privateKey]);
  const server = await program("x402-express.ts", [backend.url, facilitator.url]);
  return { name: "x402-express", url: server.url, processes: [server, facilitator] };
}

async function program(file: string, args: readonly string[]): Promise<Running> {
  const started = await startProgram(new URL(`./contenders/${file}`, import.meta.url), args);
  closing.defer(() => started.stop());
  return started;
}

async function prepareHeaders(): Promise<string[]> {
  const requirements = requirementsFor(chain.network.name, { payTo: PAY_TO });
  const headers: string[] = [];
  for (let index = 0; index < PAYMENTS; index += 1) {
    const { account } = payers[index % PAYERS] ?? freshAccount();
    headers.push(encodePaymentHeader(await signPayment({ account, requirements })));
  }
  return headers;
}
