/** A free route: the whole gateway before a backend, and every other proxy before the same one. */
import { LARGE_KIB } from "../contenders/wares.ts";
import { measure, type Contender } from "../rounds.ts";
import { report, type AimRow } from "./aims.ts";
import { against, paceOf, PROXIES, type Stage } from "./stage.ts";

const CONNECTIONS = 64;
/** The first one also gives every contender time to compile. */
const SMALL = { rounds: 7, roundMs: 450, warmUpMs: 800, warmUpAnswers: 15_000 };
const NEXT = { rounds: 7, roundMs: 400, warmUpMs: 300 };
/** Every connection finishes its download, so that a round takes longer. */
const LARGE = { rounds: 4, roundMs: 200, warmUpMs: 100 };
const LARGE_CONNECTIONS = 32;

const line = "HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: bench\r\n";
const length = "Content-Type: application/octet-stream\r\nContent-Length: 1024\r\n";

const ROWS = [
  {
    title: "GET, 1 KiB",
    request: `GET /files/1 ${line}\r\n`,
    connections: CONNECTIONS,
    pace: SMALL,
    bounds: { nginx: { aim: 4.5, stretch: 2.3 }, x402: { aim: 0.4, stretch: 0.2 } },
  },
  {
    title: "POST, 1 KiB both ways",
    request: `POST /files/1 ${line}${length}\r\n${"x".repeat(1024)}`,
    connections: CONNECTIONS,
    pace: NEXT,
  },
  {
    title: "GET, 64 KiB",
    request: `GET /files/64 ${line}\r\n`,
    connections: CONNECTIONS,
    pace: NEXT,
  },
  {
    title: "GET, 10 MB",
    request: `GET /files/${LARGE_KIB} ${line}\r\n`,
    connections: LARGE_CONNECTIONS,
    pace: LARGE,
    bounds: { nginx: { aim: 1.1, stretch: 0.8 } },
  },
] as const;

export async function compareFreeRoute(stage: Stage): Promise<AimRow[]> {
  const servers = await stage.servers(against(PROXIES));
  const aims: AimRow[] = [];
  for (const row of ROWS) {
    const job = {
      connections: row.connections,
      requests: [Buffer.from(row.request)],
      expect: { status: 200, text: "\r\n\r\nxxxx" },
    };
    const contenders = servers.map(({ name, server }): Contender => ({ name, server, job }));
    const measured = await measure(stage.load, contenders, paceOf(row.pace));
    aims.push(...report(row.title, measured, "bounds" in row ? row.bounds : {}));
  }
  return aims;
}
