/**
 * A request that is paid from a prepaid balance, beside a free one of the same gateway: `npm run bench:credits-http`. The
 * same answer of the same backend; what counts is the CPU time of the gateway for one answer, with the debits written
 * as they always are. How it compares with a payment for each request: `npm run bench:paid`.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { freshAccount } from "../support/payer.ts";
import { prepay } from "../support/prepaid.ts";
import { openSessionAt } from "../support/sign-in.ts";
import { startCoinslot } from "./contenders/coinslot.ts";
import { NETWORK, PAY_TO } from "./contenders/wares.ts";
import { startProgram } from "./process.ts";
import { columns, coinslotVersion, say, sayAim, sayHead } from "./report.ts";
import { measure } from "./rounds.ts";

const CONNECTIONS = 64;
const PACE = { rounds: 30, roundMs: 250, warmUpMs: 800, warmUpAnswers: 15_000 };
const BUYERS = 16;
const AIM = 1.3;

await using closing = new AsyncDisposableStack();
const folder = await mkdtemp(join(tmpdir(), "coinslot-bench-"));
closing.defer(() => rm(folder, { recursive: true, force: true }));
const start = async (file: string) => {
  const program = await startProgram(new URL(file, import.meta.url));
  closing.defer(() => program.stop());
  return program;
};
const load = await start("./load.ts");
const backend = await start("./contenders/backend.ts");
const facilitator = await start("./contenders/stub-facilitator.ts");
sayHead("A request from a balance, and a free one", [coinslotVersion()]);

const buyers = Array.from({ length: BUYERS }, freshAccount);
const balances = Object.fromEntries(buyers.map(({ address }) => [address, 10n ** 15n]));
await prepay(join(folder, "ledger.db"), balances);
const config = `
listen: 127.0.0.1:0
publicUrl: http://localhost:8402
upstream: ${backend.url}
payTo: "${PAY_TO}"
accept: [${NETWORK}]
facilitator: ${facilitator.url}
unmatched: deny
store: sqlite:${folder}/ledger.db
credits: { packs: [$1], atRisk: $1 }
routes:
  GET /files/*: free
  GET /products/*: { price: $0.001, credits: true }
`;
const server = await startCoinslot(folder, config, "gateway");
closing.defer(() => server.stop());
const sessions = await Promise.all(buyers.map((buyer) => openSessionAt(server.url, buyer)));

const requestOf = (path: string, more: string): Uint8Array =>
  Buffer.from(
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: bench\r\n${more}\r\n`,
  );
const jobOf = (requests: readonly Uint8Array[]) => ({
  connections: CONNECTIONS,
  requests,
  expect: { status: 200, text: "\r\n\r\nx" },
});
const measured = await measure(
  load,
  [
    { name: "free", server, job: jobOf([requestOf("/files/1", "")]) },
    {
      name: "from a balance",
      server,
      job: jobOf(
        sessions.map((session) =>
          requestOf("/products/item-1", `${SESSION_HEADER}: ${session}\r\n`),
        ),
      ),
    },
  ],
  PACE,
);
const rows = measured.map(({ name, cpuMicros, cpuRange, perSecond, p50Ms }) => [
  name,
  `${cpuMicros.toFixed(1)} µs (${cpuRange.map((each) => each.toFixed(1)).join(" to ")})`,
  perSecond.toFixed(0),
  p50Ms.toFixed(2),
]);
for (const line of columns([["", "CPU for an answer", "per second", "p50 ms"], ...rows]))
  say(`  ${line}`);
const [free, credits] = measured;
const value = (credits?.cpuMicros ?? NaN) / (free?.cpuMicros ?? NaN);
sayAim({ text: "CPU of a request from a balance, a free one = 1", value, atMost: AIM });
