/**
 * What it costs that the operator can look at recent requests: CPU of a 402 answer and of a free request where they
 * are not remembered, where they are, and while a browser follows them.
 */
import { mkdtemp, mkdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../support/free-port.ts";
import { startIdleFacilitator } from "../support/scripted-facilitator.ts";
import { gatewayConfig, startCoinslot } from "./contenders/coinslot.ts";
import { preciseCpuMicros, startProgram, type Running } from "./process.ts";
import { columns, coinslotVersion, say, sayAim, sayHead, sayPace } from "./report.ts";
import { median, runLoad } from "./rounds.ts";

const CONNECTIONS = 64;
const PACE = { rounds: 21, roundMs: 500, warmUpMs: 3_000 };
const MODES = ["off", "on", "watched"] as const;
type Mode = (typeof MODES)[number];
type Round = Readonly<Record<Mode, number>>;

const NAMES: Readonly<Record<Mode, string>> = {
  off: "not remembered",
  on: "remembered, nobody looks",
  watched: "a browser follows",
};

const requestOf = (path: string): Buffer =>
  Buffer.from(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n`);
const JOBS = [
  { name: "402 answer", path: "/products/item-7", status: 402 },
  { name: "free request, 1 KiB", path: "/files/1", status: 200 },
] as const;

const folder = await mkdtemp(join(tmpdir(), "coinslot-bench-"));
const aims: Parameters<typeof sayAim>[0][] = [];
try {
  await using closing = new AsyncDisposableStack();
  sayHead("The cost of remembered requests", [coinslotVersion()]);
  sayPace(PACE, CONNECTIONS);
  const load = await startProgram(new URL("load.ts", import.meta.url));
  closing.defer(() => load.stop());
  const backend = await startProgram(new URL("contenders/backend.ts", import.meta.url));
  closing.defer(() => backend.stop());
  const facilitator = closing.use(await startIdleFacilitator());
  const servers = new Map<Mode, Running>();
  for (const mode of MODES) {
    const place = join(folder, mode);
    await mkdir(place);
    const port = await freePort();
    const isOn = mode !== "off";
    const admin = `admin: { address: "127.0.0.1:${port}", timeline: ${isOn} }`;
    const config = gatewayConfig(place, backend.url, facilitator.url).replace(
      /^admin: .*$/m,
      admin,
    );
    const server = await startCoinslot(place, config, "gateway");
    closing.defer(() => server.stop());
    servers.set(mode, server);
    if (mode !== "watched") continue;
    const leaving = new AbortController();
    closing.defer(() => leaving.abort());
    const events = await fetch(`http://127.0.0.1:${port}/payments/events`, {
      signal: leaving.signal,
    });
    void events.text().catch(() => undefined);
  }
  for (const job of JOBS) {
    const cpuOf = async (mode: Mode, durationMs: number): Promise<number> => {
      const { pid = 0, url = "" } = servers.get(mode) ?? {};
      const before = preciseCpuMicros(pid);
      const requests = [requestOf(job.path)];
      const expect = { status: job.status };
      const asked = { url, durationMs, requests, expect, connections: CONNECTIONS };
      const { answers, fault } = await runLoad(load, asked);
      if (fault !== null) throw new Error(`a wrong answer: ${fault}`);
      return (preciseCpuMicros(pid) - before) / answers;
    };
    for (const mode of MODES) await cpuOf(mode, PACE.warmUpMs);
    const rounds: Round[] = [];
    for (let count = 0; count < PACE.rounds; count += 1) {
      const round = { off: 0, on: 0, watched: 0 };
      for (const mode of count % 2 === 0 ? MODES : MODES.toReversed()) {
        round[mode] = await cpuOf(mode, PACE.roundMs);
      }
      rounds.push(round);
    }
    say(`\n${job.name}`);
    const ratio = (mode: Mode) => median(rounds.map((round) => round[mode] / round.off));
    const rows = MODES.map((mode) => [
      NAMES[mode],
      median(rounds.map((round) => round[mode])).toFixed(1),
      ratio(mode).toFixed(3),
    ]);
    for (const line of columns([["", "CPU µs/answer", "ratio, median of rounds"], ...rows])) {
      say(`  ${line}`);
    }
    aims.push({ text: `${job.name}, % of its CPU`, value: (ratio("on") - 1) * 100, atMost: 3 });
  }
  say();
  for (const aim of aims) sayAim(aim);
} finally {
  await rm(folder, { recursive: true, force: true });
}
