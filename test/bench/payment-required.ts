/** The 402 answer: the whole gateway, nginx with the same body as a constant, and x402-express. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gatewayConfig, PRICED_ROUTES, startCoinslot } from "./contenders/coinslot.ts";
import { NGINX_MISSING, nginxVersion, startNginx } from "./contenders/nginx.ts";
import { startProgram } from "./process.ts";
import { coinslotVersion, say, sayAim, sayHead, sayPace, sayTable, versionOf } from "./report.ts";
import { measure, type Contender } from "./rounds.ts";

const CONNECTIONS = 64;
const PACE = { rounds: 7, roundMs: 2_000, warmUpMs: 2_000 };
const NGINX = "nginx, constant";
const EXPRESS = "x402-express";

await using closing = new AsyncDisposableStack();
const folder = await mkdtemp(join(tmpdir(), "coinslot-bench-"));
closing.defer(() => rm(folder, { recursive: true, force: true }));

const nginx = nginxVersion();
const peers = [nginx ?? "no nginx", versionOf("x402-express"), versionOf("express")];
sayHead("402 Payment Required", [coinslotVersion(), ...peers]);
if (nginx === null) say(`  ${NGINX_MISSING}`);
say(
  "  setting   100 routes, 98 of them priced and asked in turn; coinslot with metrics and default log",
);

const load = await startProgram(new URL("./load.ts", import.meta.url));
closing.defer(() => load.stop());
const gateway = await startCoinslot(folder, gatewayConfig(folder, "http://127.0.0.1:9"), "gateway");
closing.defer(() => gateway.stop());
const express = await startProgram(new URL("./contenders/x402-express.ts", import.meta.url), [
  "http://127.0.0.1:9",
]);
closing.defer(() => express.stop());

const requests = PRICED_ROUTES.map((path) =>
  Buffer.from(
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: bench\r\n\r\n`,
  ),
);
const job = { connections: CONNECTIONS, requests, expect: { status: 402, text: '"accepts":[' } };
const contenders: Contender[] = [{ name: "coinslot", server: gateway, job }];
if (nginx !== null) {
  const body = await (await fetch(`${gateway.url}${PRICED_ROUTES[0]}`)).text();
  const server = `location / {
    default_type application/json; add_header Cache-Control no-store always; return 402 '${body}';
  }`;
  const constant = await startNginx(folder, { server });
  closing.defer(() => constant.stop());
  contenders.push({ name: NGINX, server: constant, job });
}
contenders.push({ name: EXPRESS, server: express, job });

sayPace(PACE, CONNECTIONS);
const measured = await measure(load, contenders, PACE);
sayTable("402 answers", measured);
const [ours, ...others] = measured;
say();
for (const { name, cpuMicros } of others) {
  const value = (ours?.cpuMicros ?? Number.NaN) / cpuMicros;
  const atMost = name === NGINX ? 4 : 0.3;
  sayAim({ text: `CPU as a multiple of ${name}`, value, atMost });
}
