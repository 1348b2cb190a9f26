/** Processes of commands when the gateway ends, is killed, reloads, or is several processes. */
import { request } from "node:http";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectSdk, connectWeb } from "../../support/mcp/clients.ts";
import { gone, isAlive, selfOf, stdioCommand, type StdioKind } from "../../support/mcp/stdio.ts";
import { Site } from "../../support/serve.ts";
import { startSeller, type Seller } from "../workers/stage.ts";

let seller: Seller;

beforeAll(async () => {
  seller = await startSeller();
});
afterAll(() => seller.chain[Symbol.asyncDispose]());

const ROUTES = "  /mcp: free\n";
/** `workers: 2` is what the seller's file has. */
const yamlOf = (kind: StdioKind, env = "", routes = ROUTES): string => {
  const run = JSON.stringify(stdioCommand(kind));
  const url = `{ command: { run: ${run}, perClient: 8${env} } }`;
  return seller.yaml({ url }, routes);
};

test("a session is found by whichever worker is asked, and so is a caller's process", async () => {
  await using site = await Site.create();
  const served = await site.serve(yamlOf("web"), seller.env);
  await served.untilReady();
  await using session = await connectSdk(`${served.url}/mcp`);
  await using caller = await connectWeb()(`${served.url}/mcp`);
  expect(caller.revision).toBe("2026-07-28");
  for (const client of [session, caller]) {
    const { pid } = await selfOf(client);
    for (let times = 2; times < 20; times += 1) {
      expect(await selfOf(client)).toMatchObject({ pid, calls: times });
      // Another connection each time, and so one of either worker.
      await askAnew(`${served.url}/mcp`, session.sessionId ?? "");
    }
  }
});

test.each(["sdk", "stubborn"] as const)(
  "a gateway that ends takes its processes with it: %s",
  async (kind) => {
    await using site = await Site.create();
    const served = await site.serve(yamlOf(kind), seller.env);
    await served.untilReady();
    const client = await connectSdk(`${served.url}/mcp`);
    const { pid } = await selfOf(client);
    await client[Symbol.asyncDispose]();
    expect(isAlive(pid)).toBe(true);
    expect(await served.end("SIGTERM")).toBe(0);
    await gone(pid);
  },
);

test("the processes of a gateway that is killed see the end of their input, and end", async () => {
  await using site = await Site.create();
  const served = await site.serve(yamlOf("sdk"), seller.env);
  await served.untilReady();
  await using client = await connectSdk(`${served.url}/mcp`);
  const { pid } = await selfOf(client);
  await served.end("SIGKILL");
  await gone(pid);
});

test("a reload is for sessions that begin: those before go on as they were, until their command is gone", async () => {
  await using site = await Site.create();
  // Workers are replaced, and wait for the streams of their clients.
  const alone = (yaml: string): string => yaml.replace("workers: 2", "workers: 1");
  const served = await site.serve(alone(yamlOf("sdk", ", env: { STEP: one }")), seller.env);
  await served.untilReady();
  await using before = await connectSdk(`${served.url}/mcp`);
  const { pid } = await selfOf(before);
  await reload(site, served.adminUrl, alone(yamlOf("sdk", ", env: { STEP: two }")));
  await using after = await connectSdk(`${served.url}/mcp`);
  expect(await selfOf(before)).toMatchObject({ pid, env: { STEP: "one" } });
  const { pid: next, env } = await selfOf(after);
  expect(env["STEP"]).toBe("two");
  await reload(site, served.adminUrl, alone(seller.yaml({ url: "http://127.0.0.1:9" }, ROUTES)));
  await Promise.all([gone(pid), gone(next)]);
});

async function reload(site: Site, adminUrl: string, yaml: string): Promise<void> {
  await site.write(yaml);
  const answer = await fetch(`${adminUrl}/-/reload`, { method: "POST" });
  expect(await answer.json()).toMatchObject({ reloaded: true });
}

/** Asks the session on a connection of its own. */
async function askAnew(url: string, session: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "Mcp-Session-Id": session,
  };
  const asking = request(url, { method: "POST", headers, agent: false }, (response) => {
    expect(response.statusCode).toBe(200);
    text(response).then(resolve, reject);
  });
  asking.on("error", reject);
  const params = { name: "echo", arguments: { text: "pong" } };
  asking.end(JSON.stringify({ jsonrpc: "2.0", id: "own", method: "tools/call", params }));
  expect(await promise).toContain("pong");
}
