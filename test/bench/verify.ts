/**
 * `POST /verify`: our facilitator process, and npm `x402` behind the smallest express server. The same
 * distinct valid payments, and the same chain: first a tape of a real node's answers, so that the
 * facilitators and not the node are measured, then the node itself.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startChain, type Chain } from "../support/chain.ts";
import { freshAccount, requirementsFor, signPayment } from "../support/payer.ts";
import { BEFORE, startCoinslot, type Version } from "./contenders/coinslot.ts";
import { startProgram, type Program } from "./process.ts";
import { coinslotVersion, say, sayAim, sayHead, sayPace, sayTable, versionOf } from "./report.ts";
import { measure, post, runLoad, type Contender, type Measured } from "./rounds.ts";
import type { TapeState } from "./rpc-tape.ts";
import { IS_SHORT, sized } from "./size.ts";

const CONNECTIONS = 16;
const TAPE_PACE = { rounds: 5, roundMs: 2_000, warmUpMs: 2_000 };
const NODE_PACE = { rounds: 3, roundMs: 2_000, warmUpMs: 2_000 };
const PAYERS = sized(20, 2);
const PAYMENTS = sized(600, 16);
/** Longer than any run. */
const VALID_SECONDS = 3_600;

await using closing = new AsyncDisposableStack();
const folder = await mkdtemp(join(tmpdir(), "coinslot-bench-"));
closing.defer(() => rm(folder, { recursive: true, force: true }));

const peers = ["x402", "express", "viem", "@foundry-rs/anvil-linux-amd64"].map(versionOf);
sayHead("POST /verify", [coinslotVersion(), ...peers]);

const chain = await startChain();
closing.defer(() => chain.stop());
const tape = await startProgram(new URL("./rpc-tape.ts", import.meta.url), [chain.rpcUrl]);
closing.defer(() => tape.stop());
const load = await startProgram(new URL("./load.ts", import.meta.url));
closing.defer(() => load.stop());
const signer = freshAccount();
await chain.fund(signer.address, 0n, 10n ** 18n);

const requests = await preparePayments(chain);
const job = { connections: CONNECTIONS, requests, expect: { status: 200, text: '"isValid":true' } };
say(
  `  setting   ${PAYMENTS} distinct signed payments of ${PAYERS} payers, sent in turn; USDC's contract`,
);

const onTape = await startContenders(tape.url);
const perVerify: string[] = [];
const callsOf = new Map<string, number>();
for (const contender of onTape) {
  await rewind(tape, false);
  const once = { ...job, url: contender.server.url, durationMs: 0, once: true };
  const { answers, fault } = await runLoad(load, once);
  if (fault !== null) throw new Error(`${contender.name} refused a payment: ${fault}`);
  const { calls } = await rewind(tape, false);
  const total = Object.values(calls).reduce((sum, count) => sum + count, 0);
  const byMethod = Object.entries(calls).map(([method, count]) => `${method} ${count}`);
  callsOf.set(contender.name, total / answers);
  perVerify.push(`${contender.name}: ${total} for ${answers} payments (${byMethod.join(", ")})`);
}
sayPace(TAPE_PACE, CONNECTIONS);
say("\nCalls to the node, counted in a run of their own");
for (const line of perVerify) say(`  ${line}`);

await rewind(tape, true);
const replayed = await measure(load, onTape, TAPE_PACE);
const { misses } = await rewind(tape, true);
if (misses > 0) throw new Error(`${misses} calls had no recorded answer`);
sayTable(
  "With a tape of the node's answers instead of the node, whose own work would count otherwise",
  replayed,
);

const onNode = IS_SHORT ? [] : await startContenders(chain.rpcUrl);
const real = await measure(load, onNode, NODE_PACE);
sayTable("With the real node on the same two cores", real);

say();
sayAim({
  text: "calls to the node for one verification",
  value: callsOf.get("coinslot") ?? NaN,
  atMost: 1,
});
sayAims("tape", replayed);
sayAims("real node", real);

function sayAims(where: string, [ours, theirs, before]: readonly Measured[]): void {
  if (ours === undefined || theirs === undefined) return;
  const throughput = ours.perSecond / theirs.perSecond;
  const cpu = ours.cpuMicros / theirs.cpuMicros;
  sayAim({ text: `throughput as a multiple of x402's, ${where}`, value: throughput, atLeast: 5 });
  sayAim({ text: `CPU as a multiple of x402's, ${where}`, value: cpu, atMost: 0.2 });
  if (before === undefined) return;
  const times = ours.cpuMicros / before.cpuMicros;
  sayAim({ text: `CPU as a multiple of the version before, ${where}`, value: times, atMost: 1 });
}

async function startContenders(rpcUrl: string): Promise<Contender[]> {
  const coinslot = async (version?: Version): Promise<Contender> => {
    const name = version?.name ?? "coinslot";
    const config = `
facilitator:
  listen: 127.0.0.1:0
  embedded:
    networks:
      ${chain.network.name}: { rpc: ["${rpcUrl}"], signers: [env:SIGNER] }
admin: 127.0.0.1:0
store: sqlite:${folder}/${name}-${new URL(rpcUrl).port}.db
`;
    const env = { SIGNER: signer.privateKey };
    const server = await startCoinslot(folder, config, "facilitator", { env, version });
    closing.defer(() => server.stop());
    return { name, server, job };
  };
  const ours = await coinslot();
  const theirs = await startProgram(new URL("./contenders/x402-facilitator.ts", import.meta.url), [
    rpcUrl,
  ]);
  closing.defer(() => theirs.stop());
  const before = BEFORE === undefined ? [] : [await coinslot(BEFORE)];
  return [ours, { name: "x402 + express", server: theirs, job }, ...before];
}

/** Whole HTTP requests, each with a payment of its own. */
async function preparePayments(on: Chain): Promise<Uint8Array[]> {
  const payTo = freshAccount().address;
  const requirements = requirementsFor(on.network.name, { payTo });
  const payers = Array.from({ length: PAYERS }, freshAccount);
  for (const { address } of payers) await on.fund(address, 1_000_000n);
  const validBefore = String(Math.floor(Date.now() / 1000) + VALID_SECONDS);
  const prepared: Uint8Array[] = [];
  for (let index = 0; index < PAYMENTS; index += 1) {
    const { account } = payers[index % PAYERS] ?? freshAccount();
    const signed = { account, requirements, overrides: { validBefore } };
    const paymentPayload = await signPayment(signed);
    const body = { x402Version: 1, paymentPayload, paymentRequirements: requirements };
    prepared.push(post("/verify", JSON.stringify(body)));
  }
  return prepared;
}

/** What the tape counted since it was asked last; then it records or replays. */
async function rewind(program: Program, replay: boolean): Promise<TapeState> {
  return (await program.ask({ replay })) as TapeState;
}
