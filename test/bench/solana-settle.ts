/**
 * `POST /settle` on Solana with one key: our facilitator process, and express with npm `x402` and with
 * `@x402/svm`, on a node of 400 ms slots that confirms a block with the next one. So many payments are in
 * flight at a time, the next one as soon as one is answered. What counts: the CPU of the facilitator's
 * process tree, what it asks of the node, the slots from request to answer, and whether what it says is true.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent } from "undici";
import { preciseCpuMicros } from "./process.ts";
import { columns, coinslotVersion, say, sayAim, sayHead, versionOf } from "./report.ts";
import { median } from "./rounds.ts";
import { SlotClock } from "./slot-clock.ts";
import {
  PEERS,
  SLOT_MS,
  SolanaStage,
  startContenders,
  startNode,
  type SolanaContender,
} from "./solana-stage.ts";
import { sized } from "./size.ts";

const BUYERS = sized(200, 4);
const PACES: readonly Pace[] = sized<readonly Pace[]>(
  [
    { inFlight: 20, payments: 80, rounds: 5, mostSlots: 2 },
    { inFlight: 100, payments: 200, rounds: 3, mostSlots: Infinity },
  ],
  [{ inFlight: 4, payments: 4, rounds: 1, mostSlots: Infinity }],
);
/**
 * Shorter slots than real ones, and long enough that a payment stays good until its turn comes; so many that
 * everybody's code is compiled, as in a process that has served for some minutes.
 */
const WARM_UP = { inFlight: 60, payments: 400, rounds: sized(6, 0), slotMs: 100 };
const ANSWER_TIMEOUT_MS = 30_000;

const AIMS = { cpu: 0.4, sends: 1, polls: 0.5 };
/** Calls that ask how a transaction fares, each for as many transactions as it likes. */
const POLLS: ReadonlySet<string> = new Set([
  "getSignatureStatuses",
  "getBlockHeight",
  "getEpochInfo",
  "getSlot",
  "isBlockhashValid",
]);

/** Calls for one settlement; what is fewer is the start and the idling of all who run. */
const LEAST_SHOWN = 0.005;

interface Pace {
  readonly inFlight: number;
  /** Of one round. */
  readonly payments: number;
  readonly rounds: number;
  /** The aim for the median; none where the node's own work on the same cores decides. */
  readonly mostSlots: number;
}

interface Answer {
  /** What went wrong; undefined when the payment is said to be settled. */
  readonly failure: string | undefined;
  readonly milliseconds: number;
  /** Slots that began between request and answer. */
  readonly slots: number;
}

interface Round {
  readonly answers: readonly Answer[];
  /** Payments that the seller received. */
  readonly paid: number;
  readonly seconds: number;
  readonly cpuMicros: number;
  /** Calls to the node by method, websocket messages included. */
  readonly calls: ReadonlyMap<string, number>;
}

await using closing = new AsyncDisposableStack();
const folder = await mkdtemp(join(tmpdir(), "coinslot-bench-"));
closing.defer(() => rm(folder, { recursive: true, force: true }));
/** No limit on connections, and no time limit of its own. */
const agent = new Agent({ headersTimeout: 0, bodyTimeout: 0 });
closing.defer(() => agent.close());

sayHead("POST /settle on Solana, one key", [coinslotVersion(), ...PEERS.map(versionOf)]);

const node = await startNode();
closing.defer(() => node.stop());
const clock = await SlotClock.open(node.url);
closing.defer(() => clock.close());
const stage = await SolanaStage.open(node, BUYERS);
const contenders = await startContenders(folder, node.url, stage.feePayer);
for (const { server } of contenders) closing.defer(() => server.stop());

const { payments: each, rounds: warmUps, slotMs } = WARM_UP;
say(`  load      payments of ${BUYERS} payers in turn, in rounds of alternating order; medians;`);
say(`            before that ${warmUps * each} in slots of ${slotMs} ms, to warm up`);
say("            CPU is that of the server's process tree, from /proc");
await node.rpc("svm_setSlotMs", [slotMs]);
for (let round = 0; round < warmUps; round += 1) {
  for (const contender of contenders) await run(contender, WARM_UP);
}
await node.rpc("svm_setSlotMs", [SLOT_MS]);
for (const pace of PACES) await compare(pace);

async function compare(pace: Pace): Promise<void> {
  const rounds = new Map(contenders.map((contender) => [contender, [] as Round[]]));
  for (let round = 0; round < pace.rounds; round += 1) {
    for (const contender of round % 2 === 0 ? contenders : contenders.toReversed()) {
      rounds.get(contender)?.push(await run(contender, pace));
    }
  }
  const measured = [...rounds].map(([{ name }, all]) => summarize(name, all));
  say(`\n${pace.inFlight} in flight, ${pace.rounds} rounds of ${pace.payments} payments`);
  sayMeasured(measured);
  sayAims(measured, pace);
}

/** Fresh payments, the same for everybody but for the blockhash. */
async function run(
  { server }: SolanaContender,
  { inFlight, payments }: Pick<Pace, "inFlight" | "payments">,
): Promise<Round> {
  const queue = await stage.signPayments(payments);
  const paidBefore = await stage.countPaid();
  await node.rpc("svm_resetCalls");
  const answers: Answer[] = [];
  const worker = async (): Promise<void> => {
    for (let body = queue.shift(); body !== undefined; body = queue.shift()) {
      const { slot } = clock;
      const begun = performance.now();
      const failure = await settle(server.url, body);
      const milliseconds = performance.now() - begun;
      answers.push({ failure, milliseconds, slots: clock.slot - slot });
    }
  };
  const cpu = preciseCpuMicros(server.pid);
  const started = performance.now();
  await Promise.all(Array.from({ length: inFlight }, worker));
  const seconds = (performance.now() - started) / 1000;
  const cpuMicros = preciseCpuMicros(server.pid) - cpu;
  const calls = new Map(Object.entries(Object(await node.rpc("svm_calls")) as object));
  const paid = (await stage.countPaid()) - paidBefore;
  return { answers, paid, seconds, cpuMicros, calls };
}

/** Undefined when the answer is that the payment is settled, else why not. */
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
    const said = Object(await answer.body.json());
    return said.success === true ? undefined : `${answer.statusCode} ${String(said.errorReason)}`;
  } catch (error) {
    return error instanceof Error ? error.name : String(error);
  }
}

interface Measured {
  readonly name: string;
  readonly asked: number;
  readonly settled: number;
  readonly paid: number;
  readonly failures: ReadonlyMap<string, number>;
  /** Medians of the rounds; the range in brackets. */
  readonly perSecond: number;
  readonly cpuMicros: number;
  readonly cpuRange: readonly [number, number];
  /** Of what was settled, in all rounds. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p50Slots: number;
  readonly mostSlots: number;
  /** For one settled payment. */
  readonly calls: ReadonlyMap<string, number>;
}

function summarize(name: string, all: readonly Round[]): Measured {
  const answers = all.flatMap((round) => round.answers);
  const settled = answers.filter(({ failure }) => failure === undefined);
  const milliseconds = settled.map((each) => each.milliseconds).sort((a, b) => a - b);
  const slots = settled.map((each) => each.slots);
  const cpu = all.map((round) => round.cpuMicros / Math.max(countSettled(round), 1));
  const calls = new Map<string, number>();
  const failures = new Map<string, number>();
  for (const [method, count] of all.flatMap((round) => [...round.calls])) {
    calls.set(method, (calls.get(method) ?? 0) + count / Math.max(settled.length, 1));
  }
  for (const { failure } of answers) {
    if (failure !== undefined) failures.set(failure, (failures.get(failure) ?? 0) + 1);
  }
  return {
    name,
    asked: answers.length,
    settled: settled.length,
    paid: all.reduce((sum, { paid }) => sum + paid, 0),
    failures,
    perSecond: median(all.map((round) => countSettled(round) / round.seconds)),
    cpuMicros: median(cpu),
    cpuRange: [Math.min(...cpu), Math.max(...cpu)],
    p50Ms: median(milliseconds),
    p99Ms: milliseconds[Math.floor(milliseconds.length * 0.99)] ?? Number.NaN,
    p50Slots: median(slots),
    mostSlots: Math.max(...slots),
    calls,
  };
}

function countSettled({ answers }: Round): number {
  return answers.filter(({ failure }) => failure === undefined).length;
}

function sayMeasured(all: readonly Measured[]): void {
  const head = ["", "settled", "paid", "settled/s", "CPU µs/settled", "(rounds)"];
  const latency = ["p50 ms", "p99 ms", "p50 slots", "most"];
  const rows = all.map((each) => [
    each.name,
    `${each.settled} of ${each.asked}`,
    String(each.paid),
    each.perSecond.toFixed(1),
    each.cpuMicros.toFixed(0),
    each.cpuRange.map((value) => value.toFixed(0)).join("–"),
    each.p50Ms.toFixed(0),
    each.p99Ms.toFixed(0),
    each.p50Slots.toFixed(1),
    String(each.mostSlots),
  ]);
  for (const line of columns([[...head, ...latency], ...rows])) say(`  ${line}`);
  say("  (paid: what the seller received; slots: those that began between request and answer)");
  say("  calls to the node for one settled payment, websocket messages included:");
  for (const { name, calls } of all) {
    const total = [...calls.values()].reduce((sum, count) => sum + count, 0);
    const byMethod = [...calls]
      .filter(([, count]) => count >= LEAST_SHOWN)
      .map(([method, count]) => `${method} ${count.toFixed(2)}`);
    say(`    ${name}: ${total.toFixed(2)} (${byMethod.join(", ")})`);
  }
  for (const { name, failures } of all) {
    const each = [...failures].map(([failure, count]) => `${count} × ${failure}`);
    if (each.length > 0) say(`  not settled by ${name}: ${each.join(", ")}`);
  }
}

function sayAims(
  [ours, x402, ...others]: readonly Measured[],
  { mostSlots }: Pick<Pace, "mostSlots">,
): void {
  if (ours === undefined || x402 === undefined) return;
  const cpu = ours.cpuMicros / x402.cpuMicros;
  sayAim({ text: `CPU as a multiple of ${x402.name}'s`, value: cpu, atMost: AIMS.cpu });
  for (const { name, cpuMicros } of others) {
    say(`           CPU as a multiple of ${name}'s: ${(ours.cpuMicros / cpuMicros).toFixed(2)}`);
  }
  if (mostSlots < Infinity) {
    sayAim({ text: "slots from request to answer, p50", value: ours.p50Slots, atMost: mostSlots });
  }
  const sends = ours.calls.get("sendTransaction") ?? Number.NaN;
  sayAim({ text: "sendTransaction for one settlement", value: sends, atMost: AIMS.sends });
  const polls = [...ours.calls].filter(([method]) => POLLS.has(method));
  const polled = polls.reduce((sum, [, count]) => sum + count, 0);
  sayAim({ text: "polls for one settlement", value: polled, atMost: AIMS.polls });
  sayAim({ text: "settled, share", value: ours.settled / ours.asked, atLeast: 1 });
  const untrue = Math.abs(ours.paid - ours.settled);
  sayAim({ text: "payments said to be settled less those paid", value: untrue, atMost: 0 });
}
