/**
 * Paid requests through the whole gateway, each with a payment of its own, on a chain that includes each
 * transaction at once: coinslot with its embedded facilitator, and what a user assembles today, x402-express
 * before http-proxy-middleware with npm `x402` as its facilitator. The same backend, one key each. What counts is the
 * CPU time of all that is needed to sell (gateway and facilitator) for one answer that was paid and served. Beside them
 * requests that are paid from a prepaid balance, without a payment of their own.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent } from "undici";
import { encodePaymentHeader } from "../../src/x402/header.ts";
import { startChain } from "../support/chain.ts";
import { freshAccount, requirementsFor, signPayment } from "../support/payer.ts";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { prepay } from "../support/prepaid.ts";
import { openSessionAt } from "../support/sign-in.ts";
import { BEFORE, startCoinslot, type Version } from "./contenders/coinslot.ts";
import { PAY_TO, PRICED_ROUTES } from "./contenders/wares.ts";
import { preciseCpuMicros, startProgram, type Running } from "./process.ts";
import { columns, coinslotVersion, say, sayAim, sayHead, versionOf } from "./report.ts";
import { median } from "./rounds.ts";
import { sized } from "./size.ts";

/** Two versions of ours differ by little, so that it takes many rounds to tell; the peer is left out then. */
const [ROUNDS, WARM_UPS] = sized(BEFORE === undefined ? [4, 1] : [16, 3], [1, 0]);
const PAYMENTS = sized(100, 2);
/** Rounds before anything is measured: what a process takes for a payment halves in its first two thousand. */
const RUN_IN = sized(20, 0);
const PAYERS = sized(50, 2);
const AIM = 5;
/** Requests from a balance for each payment of a round: one takes so little that a hundred of them are not seen. */
const FROM_BALANCE = sized(50, 2);
const [AIM_BESIDE_OURS, AIM_BESIDE_THEIRS] = [20, 100];
const ANSWER_TIMEOUT_MS = 90_000;

interface Contender {
  readonly name: string;
  readonly url: string;
  /** Every process that selling needs, the backend and the chain excepted. */
  readonly processes: readonly Running[];
  /** What requests of a round bring, each once. Default: a payment each. */
  readonly brings?: () => Promise<readonly Readonly<Record<string, string>>[]>;
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
const contenders =
  BEFORE === undefined
    ? [await startOurs(), await startTheirs(), await startPrepaid()]
    : [await startOurs(), await startOurs(BEFORE)];

for (const contender of contenders) {
  for (let round = 0; round < RUN_IN; round += 1) {
    await run(contender, await (contender.brings ?? preparePayments)(), 16);
  }
}
for (const atOnce of [1, 16]) await compare(atOnce);

async function compare(atOnce: number): Promise<void> {
  const rounds = new Map(contenders.map(({ name }) => [name, [] as Round[]]));
  for (let round = 0; round < WARM_UPS + ROUNDS; round += 1) {
    for (const contender of round % 2 === 0 ? contenders : contenders.toReversed()) {
      const done = await run(contender, await (contender.brings ?? preparePayments)(), atOnce);
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
    String(each.served),
    each.perCpuSecond.toFixed(0),
    each.perSecond.toFixed(1),
    each.p50.toFixed(1),
  ]);
  for (const line of columns([head, ...rows])) say(`  ${line}`);
  const [ours, other, prepaid] = measured;
  const value = (ours?.perCpuSecond ?? NaN) / (other?.perCpuSecond ?? NaN);
  const whose = BEFORE === undefined ? "a multiple" : "a multiple of the version before's";
  const atLeast = BEFORE === undefined ? AIM : 1;
  sayAim({
    text: `paid requests per CPU second as ${whose}, ${atOnce} at once`,
    value,
    atLeast,
  });
  if (prepaid === undefined) return;
  for (const [beside, least] of [
    [ours, AIM_BESIDE_OURS],
    [other, AIM_BESIDE_THEIRS],
  ] as const) {
    const text = `requests from a balance per CPU second as a multiple of those of ${beside?.name}, ${atOnce} at once`;
    sayAim({ text, value: prepaid.perCpuSecond / (beside?.perCpuSecond ?? NaN), atLeast: least });
  }
}

async function run(
  contender: Contender,
  brought: readonly Readonly<Record<string, string>>[],
  atOnce: number,
): Promise<Round> {
  const queue = [...brought];
  const latencies: number[] = [];
  const before = cpuOf(contender);
  const started = performance.now();
  const worker = async (): Promise<void> => {
    for (let headers = queue.pop(); headers !== undefined; headers = queue.pop()) {
      const begun = performance.now();
      if (await buy(contender.url, headers)) latencies.push(performance.now() - begun);
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

async function buy(url: string, headers: Readonly<Record<string, string>>): Promise<boolean> {
  const answer = await agent.request({
    origin: url,
    path: PRICED_ROUTES[0] ?? "/",
    method: "GET",
    headers,
    signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
  });
  await answer.body.dump();
  const told = answer.headers["x-payment-response"] ?? answer.headers["x-402-charged"];
  return answer.statusCode === 200 && told !== undefined;
}

function cpuOf({ processes }: Contender): number {
  return processes.reduce((sum, { pid }) => sum + preciseCpuMicros(pid), 0);
}

function startOurs(version?: Version): Promise<Contender> {
  return startGateway(version?.name ?? "coinslot", { version });
}

/** Who pays has bought a balance before; its session goes along. */
async function startPrepaid(): Promise<Contender> {
  const name = "coinslot, from a balance";
  const buyers = payers.slice(0, 16);
  const balances = Object.fromEntries(buyers.map(({ address }) => [address, 10n ** 15n]));
  await prepay(`${folder}/${name}.db`, balances);
  const more = "credits: { packs: [$1], atRisk: $1 }";
  const contender = await startGateway(name, { more, route: "{ price: $0.01, credits: true }" });
  const sessions = await Promise.all(buyers.map((each) => openSessionAt(contender.url, each)));
  const brings = Array.from({ length: PAYMENTS * FROM_BALANCE }, (_, index) => {
    return { [SESSION_HEADER]: sessions[index % sessions.length] ?? "" };
  });
  return { ...contender, brings: () => Promise.resolve(brings) };
}

async function startGateway(
  name: string,
  {
    version,
    more = "",
    route = "$0.01",
  }: { readonly version?: Version | undefined; readonly more?: string; readonly route?: string },
): Promise<Contender> {
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
${more}
routes:
${PRICED_ROUTES.map((path) => `  GET ${path}: ${route}`).join("\n")}
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

async function preparePayments(): Promise<Record<string, string>[]> {
  const requirements = requirementsFor(chain.network.name, { payTo: PAY_TO });
  const headers: Record<string, string>[] = [];
  for (let index = 0; index < PAYMENTS; index += 1) {
    const { account } = payers[index % PAYERS] ?? freshAccount();
    const payment = encodePaymentHeader(await signPayment({ account, requirements }));
    headers.push({ "x-payment": payment });
  }
  return headers;
}
