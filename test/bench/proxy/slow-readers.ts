/**
 * Fifty buyers of a 10 MB download who read slowly: what each of them costs the gateway in resident memory
 * over what it has with nobody there. Every contender is a process of its own that has sold a little before.
 */
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { LARGE_PATH, PRICED_ROUTES } from "../contenders/wares.ts";
import type { Running } from "../process.ts";
import { columns, say } from "../report.ts";
import { runLoad } from "../rounds.ts";
import type { AimRow } from "./aims.ts";
import { paidRequest, newPayments } from "./payments.ts";
import { OURS, X402, type Stage } from "./stage.ts";
import { sized } from "../size.ts";

const READERS = sized(50, 2);
const WARM_UPS = sized(100, 2);
/** From when the last one has begun to read. */
const WATCH_MS = sized(3_000, 100);
/** How long that may take. */
const BEGIN_MS = 20_000;
const SAMPLE_MS = 25;
/** Each reader takes so much so often: 320 KB a second. */
const READ_BYTES = 16 * 1024;
const READ_PAUSE_MS = 50;
const AIM_MB = 2;

export async function compareSlowReaders(stage: Stage): Promise<AimRow[]> {
  const rows: (readonly string[])[] = [["", "idle MB", "peak MB", "MB a reader"]];
  const aims: AimRow[] = [];
  for (const name of [OURS, X402] as const) {
    const { idle, peak } = await watch(stage, await stage.fresh(name));
    const each = (peak - idle) / READERS;
    rows.push([name, idle.toFixed(0), peak.toFixed(0), each.toFixed(2)]);
    if (name === OURS) {
      aims.push({ text: "50 slow buyers of 10 MB: MB for each", value: each, aim: AIM_MB });
    }
  }
  say(`\n${READERS} slow buyers of 10 MB: resident memory`);
  for (const line of columns(rows)) say(`  ${line}`);
  return aims;
}

async function watch({ load }: Stage, server: Running) {
  const payments = newPayments(WARM_UPS + READERS);
  const warmUps = payments.splice(0, WARM_UPS);
  const [path = "/"] = PRICED_ROUTES;
  const { fault } = await runLoad(load, {
    url: server.url,
    connections: READERS,
    durationMs: 0,
    requests: warmUps.map((payment) => paidRequest(path, payment)),
    expect: { status: 200 },
    once: true,
  });
  if (fault !== null) throw new Error(fault);
  await pause(1_000);
  const idle = residentMb(server.pid);
  const readers = payments.map(
    (payment) => new Reader(server.url, paidRequest(LARGE_PATH, payment)),
  );
  const unread = (): number => readers.filter(({ taken }) => taken === 0).length;
  let peak = idle;
  const last = performance.now() + BEGIN_MS;
  let end = Infinity;
  while (performance.now() < Math.min(end, last)) {
    peak = Math.max(peak, residentMb(server.pid));
    if (end === Infinity && unread() === 0) end = performance.now() + WATCH_MS;
    await pause(SAMPLE_MS);
  }
  for (const { socket } of readers) socket.destroy();
  await server.stop();
  if (end === Infinity) throw new Error(`${unread()} slow buyers were sent nothing`);
  return { idle, peak };
}

class Reader {
  readonly socket: Socket;
  taken = 0;

  constructor(url: string, request: Buffer) {
    const { hostname, port } = new URL(url);
    this.socket = connect({ host: hostname, port: Number(port) });
    this.socket.on("error", () => this.socket.destroy());
    this.socket.write(request);
    const timer = setInterval(() => {
      // Node itself reads 64 KiB ahead and no more.
      const part: Buffer | null = this.socket.read(READ_BYTES) ?? this.socket.read();
      this.taken += part?.length ?? 0;
    }, READ_PAUSE_MS);
    this.socket.once("close", () => clearInterval(timer));
  }
}

function residentMb(pid: number): number {
  const kib = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kib) / 1024;
}
