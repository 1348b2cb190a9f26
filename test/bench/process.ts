/**
 * Child processes of a bench, and the CPU time they take, read from outside (Linux, /proc). All of them
 * end with the bench, whatever way that ends.
 */
import { execFileSync, fork, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import type { Server } from "node:http";
import { connect } from "node:net";
import { setTimeout as pause } from "node:timers/promises";

/** How long a process may take until it serves, milliseconds. */
const START_TIMEOUT_MS = 20_000;
const STOP_TIMEOUT_MS = 3_000;
const POLL_MS = 20;
const KEEP_ALIVE_MS = 300_000;

export const ticksPerSecond = Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));

export interface Running {
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/** A process of ours with a channel to it. */
export interface Program extends Running {
  /** Sends a message and resolves with the next one that comes back. */
  ask(message: object): Promise<unknown>;
}

/** Peers run as in production: express takes another path without it. */
const environment = { ...process.env, NODE_ENV: "production" };

/** Forks a program of this folder; it calls {@link ready} when it serves. */
export async function startProgram(file: URL, args: readonly string[] = []): Promise<Program> {
  const child = fork(file, [...args], { env: environment, serialization: "advanced" });
  const answer = async (): Promise<unknown> => {
    const waiting = new AbortController();
    const { signal } = waiting;
    try {
      const ended = once(child, "exit", { signal }).then(([code]) => {
        throw new Error(`${file.href} ended with ${String(code)}`);
      });
      const [message] = await Promise.race([once(child, "message", { signal }), ended]);
      return message;
    } finally {
      waiting.abort();
    }
  };
  const url = String(await answer());
  return {
    url,
    pid: pidOf(child),
    stop: () => end(child),
    ask(message) {
      const reply = answer();
      child.send(message);
      return reply;
    },
  };
}

/** In a forked program: tells the bench where it serves, and ends with the bench. */
export function ready(url: string): void {
  process.on("disconnect", () => process.exit());
  process.send?.(url);
}

/** In a forked program: serves on a port of its own. Idle connections outlast the bench. */
export function serve(server: Server): void {
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.listen(0, "127.0.0.1", () => {
    const address = server.address();
    if (typeof address === "object") ready(`http://127.0.0.1:${address?.port}`);
  });
}

export interface Command {
  readonly command: string;
  readonly args: readonly string[];
  /** What the process prints when it serves, with its URL as first group; or the URL where it will. */
  readonly serves: RegExp | string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts a command and waits until it serves. */
export async function startCommand({ command, args, serves, env }: Command): Promise<Running> {
  // The kernel ends the command when the bench dies, even of SIGKILL.
  const child = spawn("setpriv", ["--pdeathsig", "TERM", command, ...args], {
    // Nothing is written to its standard input; what ends when that closes stays while the bench runs.
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...environment, ...env },
  });
  let output = "";
  const collect = (text: Buffer): void => void (output = (output + text.toString()).slice(-16_384));
  child.stdout.on("data", collect);
  child.stderr.on("data", collect);
  const deadline = Date.now() + START_TIMEOUT_MS;
  for (;;) {
    const url =
      typeof serves === "string" ? (await accepts(serves)) && serves : serves.exec(output)?.[1];
    if (url) return { url, pid: pidOf(child), stop: () => end(child) };
    if (child.exitCode !== null || Date.now() > deadline) {
      await end(child);
      throw new Error(`${command} ${args.join(" ")} did not start\n${output}`);
    }
    await pause(POLL_MS);
  }
}

async function accepts(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

function pidOf({ pid }: ChildProcess): number {
  if (pid === undefined) throw new Error("the process did not start");
  return pid;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
  child.kill("SIGTERM");
  await ended;
  clearTimeout(timer);
}

/**
 * The same as {@link cpuMicros} to the nanosecond, for what takes few ticks; without processes and threads
 * that have ended meanwhile (sched-stats.rst: the first field is the time on a processor).
 */
export function preciseCpuMicros(pid: number): number {
  const tasks = `/proc/${pid}/task`;
  let micros = 0;
  for (const task of readdirSync(tasks)) {
    const [nanoseconds] = readFileSync(`${tasks}/${task}/schedstat`, "utf8").split(" ");
    micros += Number(nanoseconds) / 1000;
    const children = readFileSync(`${tasks}/${task}/children`, "utf8").split(" ").filter(Boolean);
    for (const child of children) micros += preciseCpuMicros(Number(child));
  }
  return micros;
}

/** User and system time of a process and all its descendants so far, microseconds. */
export function cpuMicros(pid: number): number {
  // utime, stime, and cutime, cstime of children that have ended (proc(5), fields 14 to 17).
  const ticks = statFields(pid)
    .slice(11, 15)
    .reduce((sum, field) => sum + Number(field), 0);
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ");
  const theirs = children.filter(Boolean).reduce((sum, child) => sum + cpuMicros(Number(child)), 0);
  return (ticks / ticksPerSecond) * 1e6 + theirs;
}

/** Of children of that very process that have ended, to the tick, microseconds: {@link preciseCpuMicros} has none of it. */
export function endedCpuMicros(pid: number): number {
  const [user, system] = statFields(pid).slice(13, 15).map(Number);
  return (((user ?? 0) + (system ?? 0)) / ticksPerSecond) * 1e6;
}

/** Of the thread that runs the program itself: no compiler's, no collector's. Microseconds. */
export function mainThreadMicros(pid: number): number {
  const [nanoseconds] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ");
  return Number(nanoseconds) / 1000;
}

/** From the third field of proc(5) on: the second is the command's name in brackets, with any character in it. */
function statFields(pid: number): readonly string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

/** The process of that name among our descendants that is nearest to us, and newest. @throws {Error} without one */
export function descendantNamed(name: string, pid = process.pid): number {
  const found = findDescendant(name, [pid]);
  if (found === undefined) throw new Error(`no process ${name} of ours runs`);
  return found;
}

function findDescendant(name: string, parents: readonly number[]): number | undefined {
  if (parents.length === 0) return undefined;
  const children = parents.flatMap((parent) =>
    readdirSync(`/proc/${parent}/task`).flatMap((task) =>
      readFileSync(`/proc/${parent}/task/${task}/children`, "utf8").split(" ").filter(Boolean),
    ),
  );
  const named = children.filter(
    (child) => readFileSync(`/proc/${child}/comm`, "utf8").trim() === name,
  );
  const newest = named.at(-1);
  return newest === undefined ? findDescendant(name, children.map(Number)) : Number(newest);
}
