/**
 * `POST /verify` on Solana: our facilitator process, and npm `x402` and `@x402/svm` behind the smallest
 * express server. The same distinct valid payments for all, each of a buyer of its own: first with a tape of
 * a real node's answers, so that the facilitators and not the node are measured, then with the node itself.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LoadJob } from "./load.ts";
import { startProgram } from "./process.ts";
import { coinslotVersion, say, sayAim, sayHead, sayPace, sayTable, versionOf } from "./report.ts";
import { measure, post, runLoad, type Contender, type Measured } from "./rounds.ts";
import type { TapeState } from "./rpc-tape.ts";
import { PEERS, SolanaStage, startContenders, startNode } from "./solana-stage.ts";
import { IS_SHORT, sized } from "./size.ts";

const CONNECTIONS = 16;
const TAPE_PACE = { rounds: 5, roundMs: 1_500, warmUpMs: 2_000 };
/** With the warm-up, shorter than a payment is good for. */
const NODE_PACE = { rounds: 3, roundMs: 1_500, warmUpMs: 1_500 };
/** More than any cache of payers' keys or accounts holds: each payment comes as a new one. */
const PAYMENTS = sized(1_200, 20);
const MOST_CPU = 0.4;

await using closing = new AsyncDisposableStack();
const folder = await mkdtemp(join(tmpdir(), "coinslot-bench-"));
closing.defer(() => rm(folder, { recursive: true, force: true }));

sayHead("POST /verify on Solana", [coinslotVersion(), ...PEERS.map(versionOf)]);

const node = await startNode();
closing.defer(() => node.stop());
const tape = await startProgram(new URL("./rpc-tape.ts", import.meta.url), [node.url]);
closing.defer(() => tape.stop());
const load = await startProgram(new URL("./load.ts", import.meta.url));
closing.defer(() => load.stop());
const stage = await SolanaStage.open(node, PAYMENTS);
say(`  setting   ${PAYMENTS} distinct signed payments, each of a payer of its own, sent in turn`);
say("            (limit, price, transfer: as x402's own client lays them out)");

const onTape = await startAll(tape.url);
const perVerify = await countCalls(onTape);
sayPace(TAPE_PACE, CONNECTIONS);
say("\nCalls to the node, counted in a run of their own; all payments were found valid");
for (const { name, total, byMethod } of perVerify) {
  say(`  ${name}: ${total} for ${PAYMENTS} payments (${byMethod})`);
}

await rewind(true);
const replayed = await measure(load, onTape, TAPE_PACE);
const { misses } = await rewind(true);
if (misses > 0) throw new Error(`${misses} calls had no recorded answer`);
await stopAll(onTape);
sayTable(
  "With a tape of the node's answers instead of the node, whose own work would count otherwise",
  replayed,
);

const onNode = IS_SHORT ? [] : await startAll(node.url);
const real = await measure(load, onNode, NODE_PACE);
await stopAll(onNode);
sayTable("With the real node on the same two cores", real);

say();
sayAim({
  text: "calls to the node for one verification",
  value: (perVerify[0]?.total ?? Number.NaN) / PAYMENTS,
  atMost: 1,
});
sayCpu("tape", replayed);
sayCpu("real node", real);

function sayCpu(where: string, [ours, x402, ...others]: readonly Measured[]): void {
  if (ours === undefined || x402 === undefined) return;
  const value = ours.cpuMicros / x402.cpuMicros;
  sayAim({ text: `CPU as a multiple of ${x402.name}'s, ${where}`, value, atMost: MOST_CPU });
  for (const { name, cpuMicros } of others) {
    const ratio = (ours.cpuMicros / cpuMicros).toFixed(2);
    say(`           CPU as a multiple of ${name}'s, ${where}: ${ratio}`);
  }
}

/** Each with the same payments, which are fresh. */
async function startAll(rpcUrl: string): Promise<Contender[]> {
  const bodies = await stage.signPayments(PAYMENTS);
  const job: Omit<LoadJob, "durationMs" | "url"> = {
    connections: CONNECTIONS,
    requests: bodies.map((body) => post("/verify", body)),
    expect: { status: 200, text: '"isValid":true' },
  };
  const started = await startContenders(folder, rpcUrl, stage.feePayer);
  for (const { server } of started) closing.defer(() => server.stop());
  return started.map(({ name, server }) => ({ name, server, job }));
}

async function stopAll(contenders: readonly Contender[]): Promise<void> {
  for (const { server } of contenders) await server.stop();
}

interface Counted {
  readonly name: string;
  readonly total: number;
  readonly byMethod: string;
}

/** Every payment once, which also records the tape. */
async function countCalls(contenders: readonly Contender[]): Promise<Counted[]> {
  const counted: Counted[] = [];
  for (const { name, server, job } of contenders) {
    await rewind(false);
    const { fault } = await runLoad(load, { ...job, url: server.url, durationMs: 0, once: true });
    if (fault !== null) throw new Error(`${name} refused a payment: ${fault}`);
    const { calls } = await rewind(false);
    const total = Object.values(calls).reduce((sum, count) => sum + count, 0);
    const byMethod = Object.entries(calls).map(([method, count]) => `${method} ${count}`);
    counted.push({ name, total, byMethod: byMethod.join(", ") });
  }
  return counted;
}

/** What the tape counted since it was asked last; then it records or replays. */
async function rewind(replay: boolean): Promise<TapeState> {
  return (await tape.ask({ replay })) as TapeState;
}
