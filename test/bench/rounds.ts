/**
 * Contenders measured against each other: in one run, in turn, in alternating order, several rounds, so
 * that whatever else the machine does hits all of them. The median of the rounds counts.
 */
import type { LoadJob, LoadResult } from "./load.ts";
import { preciseCpuMicros, type Program, type Running } from "./process.ts";
import { IS_SHORT } from "./size.ts";

export interface Contender {
  readonly name: string;
  readonly server: Running;
  readonly job: Omit<LoadJob, "durationMs" | "url">;
}

export interface Pace {
  readonly rounds: number;
  readonly roundMs: number;
  readonly warmUpMs: number;
  /** Warmed up again until a server has given so many answers, or {@link MAX_WARM_UPS} times. Default: once. */
  readonly warmUpAnswers?: number;
}

/** What shows that there are answers. */
const SHORT_PACE: Pace = { rounds: 1, roundMs: 50, warmUpMs: 50 };
const SHORT_CONNECTIONS = 2;

/** On a busy machine a second is too short for a compiler, and no time is long enough for a slow server. */
const MAX_WARM_UPS = 5;

/** Medians of the rounds. */
export interface Measured {
  readonly name: string;
  /** CPU time of the server's process tree for one answer, microseconds. */
  readonly cpuMicros: number;
  /** The smallest and the largest of the rounds. */
  readonly cpuRange: readonly [number, number];
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export type Round = Omit<Measured, "name" | "cpuRange">;

/** @param contenders those of one name are processes of the same, whose rounds are put together */
export async function measure(
  load: Program,
  contenders: readonly Contender[],
  pace: Pace,
): Promise<Measured[]> {
  const { rounds, roundMs, warmUpMs, warmUpAnswers = 0 } = IS_SHORT ? SHORT_PACE : pace;
  for (const contender of contenders) {
    let answers = 0;
    for (
      let times = 0;
      times === 0 || (times < MAX_WARM_UPS && answers < warmUpAnswers);
      times += 1
    ) {
      answers += ((await runRound(load, contender, warmUpMs)).perSecond * warmUpMs) / 1000;
    }
  }
  const all = new Map(contenders.map(({ name }) => [name, [] as Round[]]));
  for (let round = 0; round < rounds; round += 1) {
    const order = round % 2 === 0 ? contenders : contenders.toReversed();
    for (const contender of order) {
      all.get(contender.name)?.push(await runRound(load, contender, roundMs));
    }
  }
  return [...all].map(([name, measured]) => summarize(name, measured));
}

async function runRound(
  load: Program,
  { name, server, job }: Contender,
  durationMs: number,
): Promise<Round> {
  const before = preciseCpuMicros(server.pid);
  const connections = IS_SHORT ? SHORT_CONNECTIONS : job.connections;
  const result = await runLoad(load, { ...job, connections, url: server.url, durationMs });
  const spent = preciseCpuMicros(server.pid) - before;
  if (result.fault !== null) throw new Error(`${name} gave a wrong answer: ${result.fault}`);
  const { answers, seconds, p50Ms, p99Ms } = result;
  return { cpuMicros: spent / answers, perSecond: answers / seconds, p50Ms, p99Ms };
}

/** A whole HTTP request, as the load generator sends it. */
export function post(path: string, body: string): Uint8Array {
  const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json`;
  return Buffer.from(`${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}

export async function runLoad(load: Program, job: LoadJob): Promise<LoadResult> {
  return (await load.ask(job)) as LoadResult;
}

export function summarize(name: string, rounds: readonly Round[]): Measured {
  const cpu = rounds.map((round) => round.cpuMicros);
  return {
    name,
    cpuMicros: median(cpu),
    cpuRange: [Math.min(...cpu), Math.max(...cpu)],
    perSecond: median(rounds.map((round) => round.perSecond)),
    p50Ms: median(rounds.map((round) => round.p50Ms)),
    p99Ms: median(rounds.map((round) => round.p99Ms)),
  };
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2;
}
