/** A free route: the whole gateway, nginx `proxy_pass`, and x402-express before http-proxy-3. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gatewayConfig, startCoinslot } from "./contenders/coinslot.ts";
import { NGINX_MISSING, nginxVersion, startNginx } from "./contenders/nginx.ts";
import { startProgram, type Running } from "./process.ts";
import { coinslotVersion, say, sayAim, sayHead, sayPace, sayTable, versionOf } from "./report.ts";
import { measure, type Contender, type Measured } from "./rounds.ts";

const CONNECTIONS = 64;
const PACE = { rounds: 5, roundMs: 1_200, warmUpMs: 2_000 };
const NGINX = "nginx, proxy_pass";
const EXPRESS = "x402-express, proxy";

await using closing = new AsyncDisposableStack();
const folder = await mkdtemp(join(tmpdir(), "coinslot-bench-"));
closing.defer(() => rm(folder, { recursive: true, force: true }));

const nginx = nginxVersion();
const peers = ["x402-express", "express", "http-proxy-3"].map(versionOf);
sayHead("Free route", [coinslotVersion(), nginx ?? "no nginx", ...peers]);
if (nginx === null) say(`  ${NGINX_MISSING}`);
say(
  "  setting   100 routes, 2 of them free; coinslot with metrics and default log; a backend of its own",
);

const load = await startProgram(new URL("./load.ts", import.meta.url));
closing.defer(() => load.stop());
const backend = await startProgram(new URL("./contenders/backend.ts", import.meta.url));
closing.defer(() => backend.stop());
const servers: [name: string, server: Running][] = [];
servers.push([
  "coinslot",
  await startCoinslot(folder, gatewayConfig(folder, backend.url), "gateway"),
]);
if (nginx !== null) {
  const http = `upstream backend { server ${new URL(backend.url).host}; keepalive 256;
    keepalive_requests 100000000; }`;
  const server = `location / {
    proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_set_header X-Forwarded-For $remote_addr;
  }`;
  servers.push([NGINX, await startNginx(folder, { server, http })]);
}
servers.push([
  EXPRESS,
  await startProgram(new URL("./contenders/x402-express.ts", import.meta.url), [backend.url]),
]);
for (const [, server] of servers) closing.defer(() => server.stop());

sayPace(PACE, CONNECTIONS);
const line = "HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: bench\r\n";
const length = "Content-Type: application/octet-stream\r\nContent-Length: 1024\r\n";
const rows = [
  ["GET, 1 KiB", `GET /files/1 ${line}\r\n`],
  ["POST, 1 KiB both ways", `POST /files/1 ${line}${length}\r\n${"x".repeat(1024)}`],
  ["GET, 64 KiB", `GET /files/64 ${line}\r\n`],
] as const;
const results: Measured[][] = [];
for (const [title, request] of rows) {
  const job = {
    connections: CONNECTIONS,
    requests: [Buffer.from(request)],
    expect: { status: 200, text: "\r\n\r\nxxxx" },
  };
  const contenders = servers.map(([name, server]): Contender => ({ name, server, job }));
  const measured = await measure(load, contenders, PACE);
  results.push(measured);
  sayTable(title, measured);
}

say("\nGET, 1 KiB");
const [ours, ...others] = results[0] ?? [];
for (const { name, cpuMicros } of others) {
  const value = (ours?.cpuMicros ?? Number.NaN) / cpuMicros;
  const atMost = name === NGINX ? 4.5 : 0.4;
  sayAim({ text: `CPU as a multiple of ${name}`, value, atMost });
}
