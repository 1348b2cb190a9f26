/** How long an answer takes that many begin each second, far from what any proxy can bear. */
import { runLoad, median } from "../rounds.ts";
import { columns, say } from "../report.ts";
import { PROXIES, type ProxyName, type Stage } from "./stage.ts";

const PER_SECOND = 1_000;
const CONNECTIONS = 64;
const ROUNDS = 3;
const ROUND_MS = 1_000;

export async function compareLatency(stage: Stage): Promise<void> {
  const servers = await stage.servers(PROXIES);
  const all = new Map<ProxyName, { p50: number[]; p99: number[] }>();
  const request = "GET /files/1 HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { name, server } of round % 2 === 0 ? servers : servers.toReversed()) {
      const { p50Ms, p99Ms, fault } = await runLoad(stage.load, {
        url: server.url,
        connections: CONNECTIONS,
        durationMs: ROUND_MS,
        requests: [Buffer.from(request)],
        expect: { status: 200, text: "\r\n\r\nxxxx" },
        perSecond: PER_SECOND,
      });
      if (fault !== null) throw new Error(`${name} gave a wrong answer: ${fault}`);
      const rounds = all.get(name) ?? { p50: [], p99: [] };
      all.set(name, rounds);
      rounds.p50.push(p50Ms);
      rounds.p99.push(p99Ms);
    }
  }
  say(`\nGET, 1 KiB, ${PER_SECOND} requests each second, over ${CONNECTIONS} connections`);
  const head = ["", "p50 ms", "least", "p99 ms", "least"];
  const rows = [...all].map(([name, { p50, p99 }]) => [
    name,
    ...[p50, p99].flatMap((values) => [median(values), Math.min(...values)]).map(figure),
  ]);
  for (const line of columns([head, ...rows])) say(`  ${line}`);
}

const figure = (value: number): string => value.toFixed(2);
