/**
 * A server of MCP as a process of ours that reads and writes messages by its standard streams: begun without a shell and
 * without our environment, bounded in what it says, and gone with all that it has started.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { readFile } from "node:fs/promises";
import { ReadBuffer, serializeMessage, type JSONRPCMessage } from "@modelcontextprotocol/server";
import type { Logger } from "../telemetry/logger.ts";
import type { Time } from "../time/time.ts";
import { nestsAtMost } from "../x402/json.ts";

/** What is begun, and what it may take. */
export interface Command {
  /** The program and its arguments. */
  readonly command: readonly string[];
  /** All of its environment beside PATH. */
  readonly env: Readonly<Record<string, string>>;
  /** Null: where the gateway itself was started. */
  readonly cwd: string | null;
  /** Of one message, in either direction, bytes. */
  readonly messageBytes: number;
  /** Of what it has in memory, bytes; null: nobody looks. Read where there is `/proc`. */
  readonly memoryBytes: number | null;
}

/** From the end of its input to SIGTERM, and from there to SIGKILL, milliseconds. */
const LEAVE_MS = 500;
const END_MS = 2_000;
/** A stream that closes is followed by the end of its program, or the program is ended, milliseconds. */
const CLOSED_MS = 1_000;
/** So often its memory is looked at, milliseconds. */
const MEMORY_SWEEP_MS = 1_000;
/** Of what it says on its error stream so many lines are logged in each {@link SAID_MS}, each of so many characters. */
const SAID_LINES = 20;
const SAID_CHARS = 1_000;
const SAID_MS = 10_000;
/** Messages that wait for a process that does not read, as many times as the largest one. */
const UNREAD_MESSAGES = 2;
/** Levels of a message in either direction: what writes JSON calls itself for each. */
export const MAX_LEVELS = 256;
/** Of JSON-RPC's range for servers: the call ends without an answer of the server. */
const NO_ANSWER = -32_000;
/** Of memory as `/proc` tells it, bytes in one page. */
const PAGE_BYTES = 4_096;

interface ProcessGround {
  readonly logger: Logger;
  readonly time: Time;
  /** Under which name it is logged. */
  readonly name: string;
}

export interface ProcessEvents {
  readonly onMessage: (message: JSONRPCMessage) => void;
  /** Once, when it can be told nothing any more, and why. `byItself`: nobody has ended it. */
  readonly onEnd: (why: string, byItself: boolean) => void;
}

export class StdioProcess {
  /** Without streams where the system has no room for them. */
  readonly #child: ChildProcess;
  readonly #ground: ProcessGround;
  readonly #settings: Command;
  readonly #gone = Promise.withResolvers<void>();
  readonly #ending = new AbortController();
  #events: ProcessEvents | null = null;
  /** Why it has ended; null: it has not. */
  #over: { readonly why: string; readonly byItself: boolean } | null = null;
  /** Answers whose clients do not read. */
  #pauses = 0;
  #saidLines = 0;
  #hushed = 0;
  #saidSince = 0;

  constructor(settings: Command, ground: ProcessGround) {
    this.#settings = settings;
    this.#ground = ground;
    const [program = "", ...args] = settings.command;
    const { PATH = "" } = process.env;
    // A group of its own: what it starts itself ends with it, and a signal to ours is not one to it.
    const child: ChildProcess = spawn(program, args, {
      env: { PATH, ...settings.env },
      cwd: settings.cwd ?? undefined,
      detached: true,
      shell: false,
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#child = child;
    child.once("error", (error) => this.#end(`it cannot be started: ${error.message}`, true));
    for (const stream of child.stdio ?? []) stream?.on("error", () => {});
    // It lives, and nobody hears of it, or is heard, any more.
    child.stdout?.once("close", () => void this.#noteDeaf("output"));
    child.stdin?.once("close", () => void this.#noteDeaf("input"));
    const buffer = new ReadBuffer({ maxBufferSize: settings.messageBytes });
    child.stdout?.on("data", (chunk: Buffer) => this.#read(buffer, chunk));
    child.stderr?.setEncoding("utf8").on("data", (text: string) => this.#say(text));
    child.once("exit", (code, signal) => {
      this.#killGroup();
      this.#end(
        signal === null ? `it has ended with code ${code}` : `${signal} has ended it`,
        true,
      );
      this.#gone.resolve();
    });
    if (settings.memoryBytes !== null) void this.#watchMemory(settings.memoryBytes);
  }

  /** Undefined where it was not started. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  get isOver(): boolean {
    return this.#over !== null;
  }

  /** Who hears of it from now on; of its end at once, where it has ended. */
  listen(events: ProcessEvents): void {
    this.#events = events;
    if (this.#over !== null) events.onEnd(this.#over.why, this.#over.byItself);
  }

  /** What it does not read ends it. */
  send(message: JSONRPCMessage): void {
    if (this.isOver) return;
    const { stdin } = this.#child;
    stdin?.write(serializeMessage(message));
    if (stdin !== null && stdin.writableLength > UNREAD_MESSAGES * this.#settings.messageBytes) {
      void this.end("it does not read what it is told");
    }
  }

  /** Whether it is listened to: what it says meanwhile waits in its pipe, and then it waits. */
  pause(isPaused: boolean): void {
    this.#pauses += isPaused ? 1 : -1;
    if (this.isOver) return;
    if (this.#pauses > 0) this.#child.stdout?.pause();
    else this.#child.stdout?.resume();
  }

  /** Resolves when nothing of it is left. */
  get gone(): Promise<void> {
    return this.#gone.promise;
  }

  /** Ends it, first by the end of its input, then by signals. Resolves when it is gone. */
  end(why: string): Promise<void> {
    this.#end(why, false);
    return this.#gone.promise;
  }

  #end(why: string, byItself: boolean): void {
    if (this.#over !== null) return;
    this.#over = { why, byItself };
    this.#ending.abort();
    this.#child.stdin?.end();
    this.#child.stdout?.resume();
    this.#events?.onEnd(why, byItself);
    if (this.#child.pid === undefined) this.#gone.resolve();
    else if (this.#child.exitCode === null && this.#child.signalCode === null) void this.#leave();
  }

  /** Whose streams close as it ends says by its end why. */
  async #noteDeaf(which: "input" | "output"): Promise<void> {
    await this.#ground.time.sleep(CLOSED_MS, this.#ending.signal);
    this.#end(`it has closed its standard ${which}`, true);
  }

  async #leave(): Promise<void> {
    const { time } = this.#ground;
    const gone = this.#gone.promise;
    await Promise.race([gone, time.sleep(LEAVE_MS)]);
    this.#signal("SIGTERM");
    await Promise.race([gone, time.sleep(END_MS)]);
    this.#signal("SIGKILL");
  }

  #signal(signal: NodeJS.Signals): void {
    const { exitCode, signalCode } = this.#child;
    if (exitCode === null && signalCode === null) this.#killGroup(signal);
  }

  #killGroup(signal: NodeJS.Signals = "SIGKILL"): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      process.kill(-pid, signal);
    } catch {
      // Nobody of it is left.
    }
  }

  #read(buffer: ReadBuffer, chunk: Buffer): void {
    if (this.isOver) return;
    try {
      buffer.append(chunk);
    } catch {
      const most = this.#settings.messageBytes;
      void this.end(`it has said more than ${most} bytes in one message`);
      return;
    }
    for (;;) {
      try {
        const message = buffer.readMessage();
        if (message === null || this.isOver) return;
        const told = writable(message);
        if (told === null) this.#say("a message of its standard output is nested too deeply\n");
        else this.#events?.onMessage(told);
      } catch {
        this.#say("a line of its standard output is no message of JSON-RPC\n");
      }
    }
  }

  /** Everything that it says beside its messages is for the log, as far as there is room. */
  #say(text: string): void {
    const { logger, name, time } = this.#ground;
    const now = time.now();
    if (now - this.#saidSince >= SAID_MS) {
      const hushed = this.#hushed;
      [this.#saidSince, this.#saidLines, this.#hushed] = [now, 0, 0];
      if (hushed > 0) logger.info({ upstream: name, hushed }, "a command's process said more");
    }
    for (const line of text.split("\n")) {
      if (line.trim() === "") continue;
      this.#saidLines += 1;
      if (this.#saidLines > SAID_LINES) this.#hushed += 1;
      else {
        const facts = { upstream: name, pid: this.pid, said: line.slice(0, SAID_CHARS) };
        logger.info(facts, "a command's process says");
      }
    }
  }

  async #watchMemory(most: number): Promise<void> {
    const { signal } = this.#ending;
    for (;;) {
      await this.#ground.time.sleep(MEMORY_SWEEP_MS, signal);
      if (signal.aborted || this.pid === undefined) return;
      const bytes = await residentBytes(this.pid);
      if (bytes === null) return;
      if (bytes > most) void this.end(`it has taken more than ${most} bytes of memory`);
    }
  }
}

/** What is read may be nested too deeply to be written again: whoever waits for it hears that. Null: nobody does. */
function writable(message: JSONRPCMessage): JSONRPCMessage | null {
  if (nestsAtMost(message, MAX_LEVELS)) return message;
  const id = "id" in message ? message.id : undefined;
  return id === undefined || "method" in message
    ? null
    : failure(id, "The server's answer is nested too deeply.");
}

/** An answer that is no answer of the server's own. */
export function failure(id: string | number, message: string, code = NO_ANSWER) {
  return { jsonrpc: "2.0" as const, id, error: { code, message } };
}

/** Null where that is not told. */
async function residentBytes(pid: number): Promise<number | null> {
  try {
    const [, pages = ""] = (await readFile(`/proc/${pid}/statm`, "utf8")).split(" ");
    return Number.parseInt(pages, 10) * PAGE_BYTES;
  } catch {
    return null;
  }
}
