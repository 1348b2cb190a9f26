/**
 * What it costs to be watched: how long a scrape of 500 routes keeps the event loop, and which part of a free
 * request's CPU goes into metrics and logging.
 */
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { preciseCpuMicros, startProgram, type Program } from "./process.ts";
import { columns, coinslotVersion, say, sayAim, sayHead, sayPace } from "./report.ts";
import { median, runLoad } from "./rounds.ts";
import { sized } from "./size.ts";

const SCRAPES = sized(40, 1);
const WARM_UP_SCRAPES = sized(40, 0);
/** What a process still does after its answer, milliseconds. */
const SETTLE_MS = 20;
const CONNECTIONS = sized(64, 2);
const PACE = sized(
  { rounds: 31, roundMs: 500, warmUpMs: 3_000 },
  { rounds: 1, roundMs: 50, warmUpMs: 50 },
);

const TEXT = "text/plain;version=0.0.4";
const OPEN_METRICS = "application/openmetrics-text;version=1.0.0";

interface Cost {
  /** Of the median scrape, milliseconds. */
  readonly ms: number;
  readonly kib: number;
}

async function scrape({ url }: Program, accept: string): Promise<number> {
  const answer = await fetch(`${url}/metrics`, { headers: { accept } });
  return (await answer.arrayBuffer()).byteLength;
}

/**
 * The time that the thread of the event loop works for a scrape, from its first byte to the end of its answer: what
 * the loop is busy for where nobody else wants the core.
 */
async function costOf(server: Program, accept: string): Promise<Cost> {
  let bytes = 0;
  const all: number[] = [];
  for (let count = 0; count < WARM_UP_SCRAPES + SCRAPES; count += 1) {
    const before = mainThreadMs(server.pid);
    bytes = await scrape(server, accept);
    await pause(SETTLE_MS);
    if (count >= WARM_UP_SCRAPES) all.push(mainThreadMs(server.pid) - before);
  }
  return { ms: median(all), kib: bytes / 1024 };
}

/** What the scheduler gave it so far (Linux, /proc). */
function mainThreadMs(pid: number): number {
  const [nanoseconds = ""] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ");
  return Number(nanoseconds) / 1e6;
}

async function measureScrapes(): Promise<number> {
  await using closing = new AsyncDisposableStack();
  const file = new URL("contenders/scraped.ts", import.meta.url);
  const rows: string[][] = [["", "event loop ms", "KiB"]];
  let worst = 0;
  for (const workers of sized([0, 2], [0])) {
    const server = await startProgram(file, [String(workers)]);
    closing.defer(() => server.stop());
    for (const [name, accept] of [
      ["text", TEXT],
      ["OpenMetrics", OPEN_METRICS],
    ] as const) {
      const { ms, kib } = await costOf(server, accept);
      const who = workers === 0 ? "one process" : `${workers} workers`;
      rows.push([`${name}, ${who}`, ms.toFixed(1), kib.toFixed(0)]);
      if (workers === 0) worst = Math.max(worst, ms);
    }
  }
  say("\nA scrape of 500 routes on which everything has happened");
  for (const line of columns(rows)) say(`  ${line}`);
  return worst;
}

const MODES = ["off", "on", "debug"] as const;
type Mode = (typeof MODES)[number];
type Round = Readonly<Record<Mode, number>>;

/** For each mode the ratio of its CPU to that without metrics and log, in each round by itself. */
async function measureRequests(): Promise<number> {
  await using closing = new AsyncDisposableStack();
  const open = async (file: string, args: readonly string[] = []): Promise<Program> => {
    const program = await startProgram(new URL(file, import.meta.url), args);
    closing.defer(() => program.stop());
    return program;
  };
  const load = await open("load.ts");
  const backend = await open("contenders/backend.ts");
  const servers = new Map<Mode, Program>();
  for (const mode of MODES) {
    servers.set(mode, await open("contenders/metered-gateway.ts", [backend.url, mode]));
  }
  const cpuOf = async (mode: Mode, durationMs: number): Promise<number> => {
    const { pid = 0, url = "" } = servers.get(mode) ?? {};
    const before = preciseCpuMicros(pid);
    const { answers, fault } = await runLoad(load, { ...JOB, url, durationMs });
    if (fault !== null) throw new Error(`a wrong answer: ${fault}`);
    return (preciseCpuMicros(pid) - before) / answers;
  };
  sayPace(PACE, CONNECTIONS);
  for (const mode of MODES) await cpuOf(mode, PACE.warmUpMs);
  const rounds: Round[] = [];
  for (let count = 0; count < PACE.rounds; count += 1) {
    const round = { off: 0, on: 0, debug: 0 };
    for (const mode of count % 2 === 0 ? MODES : MODES.toReversed()) {
      round[mode] = await cpuOf(mode, PACE.roundMs);
    }
    rounds.push(round);
  }
  say("\nGET of a free route, 1 KiB, 500 routes");
  const rows = MODES.map((mode) => [
    NAMES[mode],
    median(rounds.map((round) => round[mode])).toFixed(1),
    ratioOf(rounds, mode).toFixed(3),
  ]);
  for (const line of columns([["", "CPU µs/answer", "ratio, median of rounds"], ...rows])) {
    say(`  ${line}`);
  }
  return (ratioOf(rounds, "on") - 1) * 100;
}

const NAMES: Readonly<Record<Mode, string>> = {
  off: "neither metrics nor log",
  on: "metrics and log, as by default",
  debug: "with a line for each request",
};

function ratioOf(rounds: readonly Round[], mode: Mode): number {
  return median(rounds.map((round) => round[mode] / round.off));
}

const JOB = {
  connections: CONNECTIONS,
  requests: [
    Buffer.from(
      "GET /files/1 HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: bench\r\n\r\n",
    ),
  ],
  expect: { status: 200 },
};

sayHead("The cost of being watched", [coinslotVersion()]);
const worst = await measureScrapes();
const share = await measureRequests();
say();
sayAim({ text: "event loop of one scrape, ms", value: worst, atMost: 20 });
sayAim({ text: "metrics and log of a free request, % of its CPU", value: share, atMost: 5 });
