/** Shadow mode: everything passes, nothing is charged, and the access log and `forecast` tell what would have been. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { start, type Running } from "../../src/app.ts";
import { parseConfig } from "../../src/config/config.ts";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { runHere } from "./cli/run-here.ts";

const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const ENV = { NO_COLOR: "1" };

describe("a gateway in shadow mode", () => {
  const closing = new AsyncDisposableStack();
  let folder: string;
  let running: Running;
  let url: string;
  let file: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "coinslot-shadow-"));
    closing.defer(() => rm(folder, { recursive: true, force: true }));
    const backend = createServer((request, response) => {
      response.statusCode = request.url === "/reports/none" ? 404 : 200;
      response.end("goods");
    });
    const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
    closing.defer(() => drain(backend, AbortSignal.timeout(1_000)));
    file = join(folder, "gateway.yaml");
    const text = `
listen: 127.0.0.1:0
publicUrl: http://localhost:8402
upstream: http://127.0.0.1:${port}
payTo: "${PAYEE}"
accept: [base-sepolia]
facilitator: http://127.0.0.1:1
store: sqlite:${folder}/ledger.db
logging: { level: silent, access: { format: json, file: ${folder}/access.log } }
mode: shadow
unmatched: deny
routes:
  GET /weather: $0.01
  GET /reports/:id: { price: $0.25 }
  GET /by-query: { price: { by: "1000 * int(query.n)", from: $0.001, to: $0.05 } }
  POST /by-body: { price: { by: "1000 * int(body.n)", from: $0.001, to: $0.05 } }
  GET /sold: { price: $1, mode: sell }
  GET /free: free
`;
    await writeFile(file, text);
    const parsed = parseConfig(text, { file, env: {}, readFile: () => "" });
    expect(parsed.problems).toContainEqual(
      expect.objectContaining({
        severity: "note",
        message: "nothing is charged for 4 of 6 routes: mode: shadow",
      }),
    );
    if (!parsed.ok) throw new Error("the configuration is refused");
    running = await start(parsed.config, "test");
    closing.defer(() => running.close({ atOnce: true }));
    url = `http://127.0.0.1:${running.addresses.gateway[0]?.port ?? 0}`;
  });

  afterAll(() => closing.disposeAsync());

  const ask = async (path: string, headers: Record<string, string> = {}): Promise<number> => {
    const response = await fetch(url + path, { headers });
    await response.arrayBuffer();
    return response.status;
  };

  test("passes what would be sold, sells the rest, and says what it would have asked", async () => {
    expect(await ask("/weather", { "User-Agent": "curl/8" })).toBe(200);
    expect(await ask("/weather", { "User-Agent": "agent/1", "X-PAYMENT": "e30=" })).toBe(200);
    expect(await ask("/reports/7", { "User-Agent": "curl/8" })).toBe(200);
    expect(await ask("/reports/none", { "User-Agent": "curl/8" })).toBe(404);
    expect(await ask("/free")).toBe(200);
    expect([402, 503]).toContain(await ask("/sold"));
    const listing: unknown = await (await fetch(`${url}/discovery/resources`)).json();
    expect(JSON.stringify(listing)).not.toContain("/weather");

    const lines = await vi.waitUntil(async () => {
      const all = (await readFile(join(folder, "access.log"), "utf8")).trim().split("\n");
      return all.length >= 7 ? all.map((line): Record<string, unknown> => JSON.parse(line)) : null;
    });
    const told = lines.map(({ target, outcome, would }) => [target, outcome, would]);
    expect(told.slice(0, 5)).toEqual([
      ["/weather", "shadow", "$0.01"],
      ["/weather", "shadow-paid", "$0.01"],
      ["/reports/7", "shadow", "$0.25"],
      ["/reports/none", "shadow", "$0.25"],
      ["/free", "free", undefined],
    ]);
    const counted = await running.telemetry.metrics.registry.metrics();
    expect(counted).toMatch(/coinslot_http_requests_total\{[^}]*outcome="shadow-paid"[^}]*\} 1/);
  });

  test("says what each request would have cost where that is computed, as far as its head tells", async () => {
    expect(await ask("/by-query?n=7")).toBe(200);
    expect(await ask("/by-query?n=700")).toBe(200);
    const response = await fetch(`${url}/by-body`, { method: "POST", body: '{"n":3}' });
    expect([response.status, await response.text()]).toEqual([200, "goods"]);
    const lines = await vi.waitUntil(async () => {
      const all = (await readFile(join(folder, "access.log"), "utf8")).trim().split("\n");
      return all.length >= 10 ? all.map((line): Record<string, unknown> => JSON.parse(line)) : null;
    });
    expect(lines.slice(-3).map(({ target, would }) => [target, would])).toEqual([
      ["/by-query", "$0.007"],
      ["/by-query", "no price"],
      ["/by-body", "$0.001 to $0.05"],
    ]);
    const { stdout } = await runHere(["forecast", file, join(folder, "access.log"), "--json"], ENV);
    const routes: readonly { name: string }[] = JSON.parse(stdout).routes;
    expect(routes.filter(({ name }) => name.includes("by-"))).toEqual([
      // Without its query, which no log has, a request counts as the least.
      expect.objectContaining({ name: "GET /by-query", requests: 2, dollars: "0.002" }),
      expect.objectContaining({ name: "POST /by-body", requests: 1, dollars: "0.001" }),
    ]);
  });

  test("forecasts what the file would have earned by its own log, and by that of another web server", async () => {
    const log = join(folder, "access.log");
    const { code, stdout } = await runHere(["forecast", file, log, "--json"], ENV);
    expect(code).toBe(0);
    const { routes, agents, unread } = JSON.parse(stdout);
    expect(unread).toBe(0);
    expect(routes.filter(({ name }: { name: string }) => !name.includes("by-"))).toEqual([
      { name: "GET /reports/:id", requests: 1, paying: 0, clients: 1, dollars: "0.25" },
      { name: "GET /weather", requests: 2, paying: 1, clients: 1, dollars: "0.02" },
    ]);
    expect(agents).toContainEqual({
      name: "curl/8",
      requests: 2,
      paying: 0,
      clients: 1,
      dollars: "0.26",
    });

    const combined = join(folder, "nginx.log");
    const line = (path: string, status: number, agent: string): string =>
      `203.0.113.7 - - [27/Nov/2026:14:30:00 +0000] "GET ${path} HTTP/1.1" ${status} 5 "-" "${agent}"\n`;
    const text =
      line("/weather?city=Oslo", 200, "Mozilla/5.0") + line("/weather", 500, "x") + "junk\n";
    await writeFile(combined, text + line("/nowhere", 200, "x"));
    const people = await runHere(["forecast", file, combined], ENV);
    expect(people.stdout).toMatch(/^ROUTE +REQUESTS +CLIENTS/);
    expect(people.stdout).toMatch(/^GET \/weather +1 +1 +0 +\$0\.01$/m);
    expect(people.stdout).toMatch(/^Mozilla\/5\.0 +1 +1 +\$0\.01$/m);
    expect(people.stderr).toBe("not sold: 2 requests; no requests: 1 lines\n");
    const none = await runHere(["forecast", file, join(folder, "none.log")], ENV);
    expect(none.code).toBe(1);
  });
});
