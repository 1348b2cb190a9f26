/** Who gets a process of a command, by a clock of the test; the processes are real. */
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import { CommandHouse, type CommandSettings } from "../../../src/stdio/command-house.ts";
import { noting } from "../../support/mcp/command-notes.ts";
import { MovableTime } from "../../support/movable-time.ts";
import { stdioCommand } from "../../support/mcp/stdio.ts";
import { listTools } from "./stateless-call.ts";

const open: CommandHouse[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((house) => house.close()));
});

function houseOf(changes: Partial<CommandSettings>) {
  const time = new MovableTime();
  const settings: CommandSettings = {
    name: "tools",
    command: stdioCommand("deaf"),
    env: {},
    cwd: null,
    messageBytes: 1024 * 1024,
    memoryBytes: null,
    processes: 2,
    perClient: 2,
    idleMs: 3_600_000,
    lifeMs: 3_600_000,
    origins: new Set(["https://shop.example"]),
    ...changes,
  };
  const logger = pino({ level: "silent" });
  const counted: string[] = [];
  const house = new CommandHouse(settings, { time, logger, meter: noting(counted) });
  open.push(house);
  return { house, time, counted };
}

const PARAMS = {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { name: "stranger", version: "1" },
};

async function begin(house: CommandHouse, address: string, origin?: string): Promise<Response> {
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    ...(origin !== undefined && { Origin: origin }),
  };
  const request = new Request("http://command.invalid/", { method: "POST", headers });
  const body = { jsonrpc: "2.0", id: 1, method: "initialize", params: PARAMS };
  const answer = await house.handle(request, { body, address }, () => {});
  return answer;
}

/** The client gives its call up: nothing is under way in its session. */
async function cancel(house: CommandHouse, answer: Response, address: string): Promise<void> {
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "Mcp-Session-Id": answer.headers.get("mcp-session-id") ?? "",
  };
  const request = new Request("http://command.invalid/", { method: "POST", headers });
  const params = { requestId: 1 };
  const body = { jsonrpc: "2.0", method: "notifications/cancelled", params };
  expect((await house.handle(request, { body, address }, () => {})).status).toBe(202);
}

test("where all are taken, the one that was silent for longest makes room, and no busy one", async () => {
  const { house, time } = houseOf({});
  const busy = await begin(house, "203.0.113.1");
  const silent = await begin(house, "203.0.113.2");
  await cancel(house, silent, "203.0.113.2");
  // It says whose doing that was.
  expect(await silent.text()).toContain('"code":-32800');
  expect((await begin(house, "203.0.113.3")).status).toBe(503);
  time.offsetMs += 10_001;
  expect((await begin(house, "203.0.113.3")).status).toBe(200);
  // Nobody was answered yet, and both of them are asked something.
  time.offsetMs += 10_001;
  expect((await begin(house, "203.0.113.4")).status).toBe(503);
  expect(busy.status).toBe(200);
});

test("a client has his share, whatever is free", async () => {
  const { house } = houseOf({ processes: 10 });
  const statuses: number[] = [];
  for (let at = 0; at < 3; at += 1) statuses.push((await begin(house, "2001:db8::1")).status);
  // The same network.
  statuses.push((await begin(house, "2001:db8::2")).status);
  statuses.push((await begin(house, "2001:db8:0:1::1")).status);
  expect(statuses).toEqual([200, 200, 429, 429, 200]);
});

test("a process that does not answer is ended, and its call hears so", async () => {
  const { house, time } = houseOf({});
  const answer = await begin(house, "203.0.113.1");
  time.offsetMs += 30_001;
  expect(await answer.text()).toContain("it does not answer");
});

test("what ends before it has answered is begun again later each time, until it answers or is configured anew", async () => {
  const { house, time } = houseOf({ command: [process.execPath, "--eval", "process.exit(7)"] });
  const fails = async (): Promise<void> => {
    const answer = await begin(house, "203.0.113.1");
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain("it has ended with code 7");
  };
  await fails();
  for (const seconds of [1, 2, 4, 8, 16, 32, 60, 60]) {
    const refused = await begin(house, "203.0.113.1");
    expect(refused.status).toBe(503);
    expect(refused.headers.get("Retry-After")).toBe(String(seconds));
    time.offsetMs += seconds * 1_000;
    await fails();
  }
});

test("it is counted who got a process and who did not, and how each has ended", async () => {
  const { house, time, counted } = houseOf({ perClient: 1 });
  const silent = await begin(house, "203.0.113.1");
  await begin(house, "203.0.113.1");
  await begin(house, "203.0.113.2");
  await begin(house, "203.0.113.3");
  expect(house.reading).toEqual({ processes: 2, limit: 2 });
  expect(counted).toEqual(["begun", "client", "begun", "full"]);
  time.offsetMs += 30_001;
  await silent.text();
  await house.close();
  expect(counted.slice(4)).toEqual(["ended", "ended"]);
  expect(house.reading).toEqual({ processes: 0, limit: 2 });

  const command = [process.execPath, "--eval", "process.exit(7)"];
  const { house: failing, counted: told } = houseOf({ command });
  await (await begin(failing, "203.0.113.1")).text();
  await begin(failing, "203.0.113.1");
  expect(told).toEqual(["begun", "failed", "failing"]);

  const dying = `process.stdin.once("data", () => process.stdout.write('{"jsonrpc":"2.0","id":1,"result":{}}\\n', () => process.exit(1)));`;
  const { house: crashing, counted: also } = houseOf({
    command: [process.execPath, "--eval", dying],
  });
  await (await begin(crashing, "203.0.113.1")).text();
  await expect.poll(() => also).toEqual(["begun", "crashed"]);
});

test("a page of elsewhere asks nothing", async () => {
  const { house } = houseOf({ processes: 10, perClient: 10 });
  const statusOf = async (origin: string): Promise<number> =>
    (await begin(house, "203.0.113.1", origin)).status;
  expect(await statusOf("http://evil.example")).toBe(403);
  expect(await statusOf("null")).toBe(403);
  expect(await statusOf("https://shop.example")).toBe(200);
  expect(await statusOf("http://localhost:6274")).toBe(200);
});

test("a call without a session hears of the end of its process, and the next one has another", async () => {
  const { house, time } = houseOf({ command: [process.execPath, "--eval", "process.exit(7)"] });
  expect(await (await listTools(house)).json()).toMatchObject({
    id: 1,
    error: { message: expect.stringContaining("has ended with code 7") },
  });
  time.offsetMs += 1_000;
  expect((await listTools(house)).status).toBe(200);
}, 10_000);

// Else goods that are paid for come in the stream of a free call of the same id, and their own stream has nothing.
test("two calls of a session that are under way have two ids", async () => {
  const { house } = houseOf({});
  const address = "203.0.113.1";
  const begun = await begin(house, address);
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "Mcp-Session-Id": begun.headers.get("mcp-session-id") ?? "",
  };
  const ask = (id: unknown) => {
    const request = new Request("http://command.invalid/", { method: "POST", headers });
    const body = { jsonrpc: "2.0", id, method: "ping" };
    return house.handle(request, { body, address }, () => {});
  };
  const again = await ask(1);
  expect([again.status, await again.json()]).toMatchObject([400, { error: { code: -32_600 } }]);
  expect((await ask(2)).status).toBe(200);
  expect((await ask(2)).status).toBe(400);
  // Some programs make numbers of digits.
  expect((await ask("2")).status).toBe(400);
});
