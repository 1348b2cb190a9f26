/** What an operator sees of a gateway that runs, and changes while it does. */
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { expect, test, vi } from "vitest";
import { Site } from "../../support/serve.ts";
import { COMES_TRUE } from "../workers/stage.ts";

vi.setConfig({ testTimeout: 60_000 });

const TOKENS = {
  UPSTREAM: "upstream-token-in-the-clear",
  FACILITATOR: "facilitator-token",
  PROVIDER: "key-in-a-path",
};

const CONFIG = `
upstreams:
  default: { targets: ["http://127.0.0.1:9"], headers: { set: { Authorization: "Bearer \${UPSTREAM}" } } }
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator:
  remote: [{ url: "http://127.0.0.1:9", headers: { Authorization: "Bearer \${FACILITATOR}" } }]
  rpc: { base-sepolia: ["http://127.0.0.1:9/v2/\${PROVIDER}"] }
unmatched: deny
workers: 2
logging: { level: info, access: json }
routes:
  GET /weather: $0.01
  GET /news: $0.02
  GET /health: free
`;

test("lines of the access log, a level that changes at once, and what is in force without its secrets", async () => {
  await using site = await Site.create();
  const served = await site.serve(CONFIG, TOKENS);
  await served.untilReady();
  const ask = async (path: string, method = "GET", headers: Record<string, string> = {}) => {
    const answer = await fetch(`${served.adminUrl}${path}`, { method, headers });
    return [answer.status, await answer.text()] as const;
  };
  const lines = () =>
    served
      .output()
      .stdout.split("\n")
      .filter((line) => line.startsWith("{"))
      .map((line): Record<string, unknown> => JSON.parse(line));
  const accessOf = (path: string) => lines().filter(({ target }) => target === path);
  const detailsOf = (path: string) =>
    lines().filter((line) => line["msg"] === "request answered" && line["path"] === path);
  // On a connection of its own: either worker may have it.
  const visit = async (path: string): Promise<number | undefined> => {
    const headers = { "User-Agent": "a visitor" };
    const asking = get(`${served.url}${path}`, { agent: false, headers });
    const [answer] = (await once(asking, "response")) as [IncomingMessage];
    await text(answer);
    return answer.statusCode;
  };

  const status = await visit("/weather?from=here");
  await expect.poll(() => accessOf("/weather"), COMES_TRUE).toHaveLength(1);
  expect(accessOf("/weather")).toMatchObject([
    { client: "127.0.0.1", status, route: "GET /weather", agent: "a visitor" },
  ]);

  // Nothing is told in detail before, and of both workers after.
  expect(detailsOf("/weather")).toEqual([]);
  expect(await ask("/-/log-level/debug", "GET")).toEqual([405, "use POST\n"]);
  expect(await ask("/-/log-level/loud", "POST")).toMatchObject([400, /one of trace, debug/]);
  const page = { origin: "http://evil.example" };
  expect(await ask("/-/log-level/debug", "POST", page)).toMatchObject([403, "not for browsers\n"]);
  expect(await ask("/-/log-level/debug", "POST")).toEqual([200, "debug\n"]);
  const workers = async () => {
    await visit("/weather");
    return new Set(detailsOf("/weather").map(({ worker }) => worker)).size;
  };
  await expect.poll(workers, COMES_TRUE).toBe(2);

  const [, config] = await ask("/-/config");
  expect(JSON.parse(config)).toMatchObject({
    unmatched: "deny",
    metrics: { routeHistograms: true },
    limits: { connections: expect.any(Number) },
    routes: [{ key: "GET /weather" }, { key: "GET /news" }, { key: "GET /health" }],
    upstreams: [{ headers: { set: [{ name: "Authorization", value: "[secret]" }] } }],
  });
  for (const secret of Object.values(TOKENS)) expect(config).not.toContain(secret);

  // A reload says what counts from there on, and what is told of a route ends with it.
  expect((await ask("/metrics"))[1]).toContain('route="GET /weather"');
  await site.write(
    CONFIG.replace("level: info", "level: error").replace("GET /weather", "GET /now"),
  );
  await expect.poll(async () => (await ask("/-/config"))[1], COMES_TRUE).toContain('"GET /now"');
  await expect
    .poll(async () => (await ask("/metrics"))[1], COMES_TRUE)
    .not.toContain("GET /weather");
  const before = detailsOf("/now").length;
  for (let count = 0; count < 20; count += 1) await visit("/now");
  await expect.poll(() => accessOf("/now"), COMES_TRUE).toHaveLength(20);
  expect(detailsOf("/now")).toHaveLength(before);
});
