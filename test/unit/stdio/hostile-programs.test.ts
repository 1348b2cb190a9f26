/** Programs that mean harm, or are broken: what becomes of calls to them, and of the gateway that asks them. */
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import { CommandHouse, type CommandSettings } from "../../../src/stdio/command-house.ts";
import { noting } from "../../support/mcp/command-notes.ts";
import { MovableTime } from "../../support/movable-time.ts";
import { listTools } from "./stateless-call.ts";

const open: CommandHouse[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((house) => house.close()));
});

function houseOf(script: string, changes: Partial<CommandSettings> = {}) {
  const time = new MovableTime();
  const settings: CommandSettings = {
    name: "tools",
    command: [process.execPath, "--eval", script],
    env: {},
    cwd: null,
    messageBytes: 1024 * 1024,
    memoryBytes: null,
    processes: 4,
    perClient: 2,
    idleMs: 3_600_000,
    lifeMs: 3_600_000,
    origins: "any",
    ...changes,
  };
  const logger = pino({ level: "silent" });
  const house = new CommandHouse(settings, { time, logger, meter: noting([]) });
  open.push(house);
  return { house, time };
}

const JSON_LINES = {
  "Content-Type": "application/json",
  Accept: "application/json, text/event-stream",
};

/** By the revision with sessions: the first call of one. */
function begin(house: CommandHouse, address = "203.0.113.1"): Promise<Response> {
  const request = new Request("http://command.invalid/", { method: "POST", headers: JSON_LINES });
  const clientInfo = { name: "stranger", version: "1" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  const body = { jsonrpc: "2.0", id: 1, method: "initialize", params };
  return house.handle(request, { body, address }, () => {});
}

/** A program that does that with each request, whose `id` and `params` are there. */
const answering = (does: string): string => `
  require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, params } = JSON.parse(line);
    const say = (text) => process.stdout.write('{"jsonrpc":"2.0",' + text + '}\\n');
    if (id !== undefined) { ${does} }
  });`;

const DEEP = `"[".repeat(20_000) + "]".repeat(20_000)`;

// It would be written by what calls itself for each level: an exception that nobody waits for ends the whole gateway.
test("an answer that nests without an end is told as none, and ends nothing", async () => {
  const says = `say('"id":' + id + ',"result":{"content":' + ${DEEP} + '}')`;
  const { house } = houseOf(answering(says));
  expect(await (await begin(house)).text()).toContain("nested too deeply");
  expect(await (await listTools(house)).json()).toMatchObject({
    id: 1,
    error: { code: -32_000, message: "The server's answer is nested too deeply." },
  });
  // A stream that has begun ends, too.
  const token = `say('"method":"notifications/progress","params":{"progressToken":' + params._meta.progressToken + ',"progress":1,"deep":' + ${DEEP} + '}');`;
  const { house: streaming } = houseOf(answering(token + token.replace(DEEP, "0") + says));
  const told = await (await listTools(streaming, { progressToken: 7 })).text();
  expect(told).toContain('"progressToken":7');
  expect(told).toContain("nested too deeply");
});

test("a program that lives and has closed its output is ended, and its call hears so", async () => {
  const script = `require("node:fs").closeSync(1); setInterval(() => {}, 1_000);`;
  const { house } = houseOf(script);
  expect(await (await begin(house)).text()).toContain("it has closed its standard output");
});

test("so is one that has closed its input, when it is told something", async () => {
  const closed = JSON.stringify({ jsonrpc: "2.0", method: "notifications/closed" });
  const script = `require("node:fs").closeSync(0); console.log('${closed}'); setInterval(() => {}, 1_000);`;
  const { house } = houseOf(script);
  const first = await begin(house);
  const decoder = new TextDecoder();
  let told = "";
  for await (const part of first.body ?? []) {
    const isFirst = !told.includes("notifications/closed");
    told += decoder.decode(part);
    if (isFirst && told.includes("notifications/closed")) {
      const named = { ...JSON_LINES, "Mcp-Session-Id": first.headers.get("mcp-session-id") ?? "" };
      const request = new Request("http://command.invalid/", { method: "POST", headers: named });
      const body = { jsonrpc: "2.0", method: "notifications/initialized" };
      await house.handle(request, { body, address: "203.0.113.1" }, () => {});
    }
  }
  expect(told).toContain("it has closed its standard input");
});

test("who asks for many at once has his share, and ends no more than that of others", async () => {
  const result = JSON.stringify({
    protocolVersion: "2025-11-25",
    capabilities: {},
    serverInfo: { name: "s", version: "1" },
  });
  const { house, time } = houseOf(
    answering(`say('"id":' + id + ',"result":' + ${JSON.stringify(result)})`),
    {
      perClient: 1,
    },
  );
  const others: Response[] = [];
  for (const at of [1, 2, 3, 4]) others.push(await begin(house, `203.0.113.${at}`));
  for (const each of others) await each.text();
  time.offsetMs += 10_001;
  const asked = await Promise.all([1, 2, 3, 4].map(() => begin(house, "198.51.100.1")));
  expect(asked.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 429, 429, 429]);
  const alive = await Promise.all(
    others.map(async ({ headers }) => {
      const named = { ...JSON_LINES, "Mcp-Session-Id": headers.get("mcp-session-id") ?? "" };
      const request = new Request("http://command.invalid/", { method: "POST", headers: named });
      const body = { jsonrpc: "2.0", method: "notifications/initialized" };
      const answer = await house.handle(request, { body, address: "203.0.113.1" }, () => {});
      return answer.status;
    }),
  );
  expect(alive.toSorted((a, b) => a - b)).toEqual([202, 202, 202, 404]);
});
