/** A process as the rest sees it: what it may say, and what becomes of it where there is no room for it. */
import { pino } from "pino";
import { expect, test, vi } from "vitest";
import { StdioProcess, type Command } from "../../../src/stdio/stdio-process.ts";
import { systemTime } from "../../../src/time/time.ts";
import { gone } from "../../support/mcp/stdio.ts";

interface Told {
  readonly process: StdioProcess;
  /** Messages, and why it ended. */
  readonly heard: unknown[];
  /** Lines for the log. */
  readonly said: string[];
  readonly ended: Promise<string>;
}

function begin(script: string, changes: Partial<Command> = {}): Told {
  const said: string[] = [];
  const settings: Command = {
    command: [process.execPath, "--eval", script],
    env: {},
    cwd: null,
    messageBytes: 64 * 1024,
    memoryBytes: null,
    ...changes,
  };
  const logger = pino({ level: "info" }, { write: (line: string) => void said.push(line) });
  const child = new StdioProcess(settings, { name: "tools", logger, time: systemTime });
  const heard: unknown[] = [];
  const { promise: ended, resolve } = Promise.withResolvers<string>();
  child.listen({ onMessage: (message) => void heard.push(message), onEnd: (why) => resolve(why) });
  return { process: child, heard, said, ended };
}

test("hears messages, and logs what is none", async () => {
  const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
  const { heard, said, ended } = begin(
    `console.log("Welcome"); console.log(${JSON.stringify(JSON.stringify(ping))}); console.log('{"a":1}');`,
  );
  expect(await ended).toBe("it has ended with code 0");
  expect(heard).toEqual([ping]);
  expect(said.join("")).toContain("no message of JSON-RPC");
});

test("logs so much of what it says on its error stream, and how much it did not", async () => {
  const { said, ended } = begin(
    `for (let at = 0; at < 5000; at += 1) console.error("line " + at);`,
  );
  await ended;
  expect(said.filter((line) => line.includes('"said":"line'))).toHaveLength(20);
});

test("is ended where it does not read what it is told", async () => {
  const { process: child, ended } = begin("setInterval(() => {}, 1000)");
  const params = { text: "x".repeat(32 * 1024) };
  for (let times = 0; times < 16; times += 1) {
    child.send({ jsonrpc: "2.0", method: "notifications/message", params });
  }
  expect(await ended).toBe("it does not read what it is told");
  await child.gone;
});

test("takes what it has started with it", async () => {
  const script = `
    const { spawn } = require("node:child_process");
    const child = spawn(process.execPath, ["--eval", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
    console.log(JSON.stringify({ jsonrpc: "2.0", method: "notifications/x", params: { pid: child.pid } }));
    setInterval(() => {}, 1000);`;
  const { process: child, heard } = begin(script);
  await expect.poll(() => heard.length).toBe(1);
  const { pid } = Object(Object(heard[0]).params);
  await child.end("the test ends");
  await gone(pid);
});

test("is ended for what it has started takes of memory, as for its own", async () => {
  const hoard = "const held = Buffer.alloc(256 * 1024 * 1024, 1); setInterval(() => held, 1000);";
  const script = `
    require("node:child_process").spawn(process.execPath, ["--eval", ${JSON.stringify(hoard)}]);
    setInterval(() => {}, 1000);`;
  const { process: child, ended } = begin(script, { memoryBytes: 300 * 1024 * 1024 });
  expect(await ended).toContain("bytes of memory");
  await child.gone;
});

test("is given up, and told of, where it may not be signalled", async () => {
  const { process: child, said } = begin("process.stdin.resume(); setInterval(() => {}, 1000)");
  const kill = vi.spyOn(process, "kill").mockImplementation(() => {
    throw Object.assign(new Error("kill EPERM"), { code: "EPERM" });
  });
  await child.end("the test ends");
  kill.mockRestore();
  expect(said.join("")).toContain("a command's process cannot be ended");
  process.kill(-(child.pid ?? 0), "SIGKILL");
  await child.gone;
}, 15_000);

test.each<[string, Partial<Command>]>([
  ["its folder is not there", { cwd: "/nowhere" }],
  ["it is no program", { command: ["/etc/passwd"] }],
])("is over at once where %s", async (_, changes) => {
  const { process: child, ended } = begin("", changes);
  expect(await ended).toContain("it cannot be started");
  await child.gone;
  expect(child.isOver).toBe(true);
});
