/**
 * What a second worker brings: the whole gateway with one process and with several, the same load on each in
 * turn. Load generator and backend take their share of the same cores, so that the throughput of many workers
 * shows only on a machine with more cores than all of them need; the CPU time of a request shows on any.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startIdleFacilitator } from "../support/scripted-facilitator.ts";
import { gatewayConfig, startCoinslot } from "./contenders/coinslot.ts";
import { PRICED_ROUTES } from "./contenders/wares.ts";
import { startProgram } from "./process.ts";
import { coinslotVersion, sayHead, sayPace, sayTable } from "./report.ts";
import { measure, type Contender } from "./rounds.ts";

const WORKERS = [1, 2, 4];
const CONNECTIONS = 64;
const PACE = { rounds: 7, roundMs: 600, warmUpMs: 800, warmUpAnswers: 15_000 };

const rest = "HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: bench\r\n\r\n";
const ROWS = [
  { title: "GET of a free route, 1 KiB", request: `GET /files/1 ${rest}`, status: 200 },
  { title: "402", request: `GET ${PRICED_ROUTES[0] ?? "/"} ${rest}`, status: 402 },
];

async function main(): Promise<void> {
  await using closing = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "coinslot-bench-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const load = await startProgram(new URL("load.ts", import.meta.url));
  closing.defer(() => load.stop());
  const backend = await startProgram(new URL("contenders/backend.ts", import.meta.url));
  closing.defer(() => backend.stop());
  const facilitator = closing.use(await startIdleFacilitator());
  const servers = [];
  for (const workers of WORKERS) {
    const own = await mkdtemp(join(folder, "workers-"));
    const config = `${gatewayConfig(own, backend.url, facilitator.url)}workers: ${workers}\n`;
    const server = await startCoinslot(own, config, "gateway");
    closing.defer(() => server.stop());
    servers.push({ name: `${workers} worker${workers === 1 ? "" : "s"}`, server });
  }
  sayHead("One worker and several", [coinslotVersion()]);
  sayPace(PACE, CONNECTIONS);
  for (const { title, request, status } of ROWS) {
    const job = { connections: CONNECTIONS, requests: [Buffer.from(request)], expect: { status } };
    const contenders = servers.map((each): Contender => ({ ...each, job }));
    sayTable(title, await measure(load, contenders, PACE));
  }
}

await main();
