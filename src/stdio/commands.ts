/**
 * The commands of a configuration as backends: each is a server of streamable HTTP on a socket of the file system that
 * nobody else may open. So they are asked as any other backend is, by every process of the gateway, and a session is found
 * whichever of them a request comes to.
 */
import { randomUUID } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CommandMeter, CommandMeters } from "../telemetry/command-meter.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Time } from "../time/time.ts";
import { parseJson } from "../x402/json.ts";
import { boundOver } from "../x402/json-shape.ts";
import { CommandHouse, refused, type CommandSettings } from "./command-house.ts";
import { FOLDER_PREFIX, removeLeftFolders } from "./left-folders.ts";
import { MessageReading } from "./message-reading.ts";
import { MAX_LEVELS } from "./stdio-process.ts";

const OURS_ALONE = 0o700;

export type { CommandSettings } from "./command-house.ts";

/** Where a command is asked. @param folder as of {@link Commands.folder} */
export function socketOf(folder: string, name: string): string {
  return join(folder, name);
}

interface Opened {
  readonly house: CommandHouse;
  readonly server: Server;
  readonly meter: CommandMeter;
}

interface CommandsGround {
  readonly logger: Logger;
  readonly time: Time;
  readonly meters: CommandMeters;
}

export class Commands {
  readonly #ground: CommandsGround;
  readonly #opened = new Map<string, Opened>();
  readonly #leaving = new Set<Promise<void>>();
  readonly #most = new Map<string, number>();
  /** Ours alone (0700); it is made with the first command. */
  readonly folder = join(tmpdir(), FOLDER_PREFIX + randomUUID());

  constructor(ground: CommandsGround) {
    this.#ground = ground;
  }

  /** Listens for what is new. No process is begun before somebody asks. */
  async open(commands: readonly CommandSettings[]): Promise<void> {
    if (commands.length > 0) {
      if (this.#opened.size === 0) await this.#tidy();
      await mkdir(this.folder, { recursive: true, mode: OURS_ALONE });
    }
    for (const settings of commands) {
      if (!this.#opened.has(settings.name)) await this.#open(settings);
    }
  }

  async #tidy(): Promise<void> {
    const { logger, time } = this.#ground;
    const removed = await removeLeftFolders(tmpdir(), this.folder, time.now());
    if (removed.length > 0) logger.info({ removed }, "folders of killed gateways are removed");
  }

  /** Of what begins from now on; what runs stays as it was begun. */
  configure(commands: readonly CommandSettings[]): void {
    for (const settings of commands) {
      this.#most.set(settings.name, settings.messageBytes);
      this.#opened.get(settings.name)?.house.configure(settings);
    }
  }

  /** Ends those that are not among these, as soon as what they are asked is answered. */
  retain(commands: readonly CommandSettings[]): void {
    const names = new Set(commands.map(({ name }) => name));
    for (const [name, opened] of this.#opened) {
      if (names.has(name)) continue;
      this.#opened.delete(name);
      const leaving = opened.house.finish().then(() => close(opened));
      this.#leaving.add(leaving);
      void leaving.finally(() => this.#leaving.delete(leaving));
    }
  }

  /** Ends every process; what is asked is answered with that. */
  async close(): Promise<void> {
    const opened = [...this.#opened.values()];
    this.#opened.clear();
    await Promise.all([...opened.map(close), ...this.#leaving]);
    await rm(this.folder, { recursive: true, force: true });
  }

  async #open(settings: CommandSettings): Promise<void> {
    const { name } = settings;
    const { logger, time, meters } = this.#ground;
    const meter = meters.command(name, () => house.reading);
    const house: CommandHouse = new CommandHouse(settings, { logger, time, meter });
    const reading = new MessageReading();
    const server = createServer((request, response) => {
      const most = this.#most.get(name) ?? settings.messageBytes;
      void serve({ house, reading, most }, request, response);
    });
    // Whoever asks has deadlines of his own.
    server.requestTimeout = 0;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once("error", reject).listen({ path: socketOf(this.folder, name) }, resolve);
    await promise;
    this.#opened.set(name, { house, server, meter });
  }
}

async function close({ house, server, meter }: Opened): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  await house.close();
  server.closeAllConnections();
  await closed;
  meter.retire();
}

interface Served {
  readonly house: CommandHouse;
  readonly reading: MessageReading;
  /** Of one message, bytes. */
  readonly most: number;
}

async function serve(
  { house, reading, most }: Served,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const left = new AbortController();
  response.on("close", () => left.abort());
  try {
    const read = await readJson(request, { reading, most });
    let { pause } = NOBODY_WAITS;
    const answer =
      read instanceof Response
        ? read
        : await house.handle(webRequest(request, left.signal), read, (given) => {
            pause = given;
          });
    await write(response, answer, { left: left.signal, pause });
  } catch {
    // Who has left is told nothing, and of anything else the process behind it is gone.
    if (response.headersSent || response.destroyed) response.destroy();
    else await write(response, refused(502, "The server's process is gone."), NOBODY_WAITS);
  }
}

/** Of a message, its arguments among them: whoever checks it walks through all, while others wait. */
const MAX_VALUES = 16_384;

/** What the body says, and who asks: the gateway writes that, and nobody else can ask here. */
async function readJson(
  request: IncomingMessage,
  { reading, most }: Pick<Served, "reading" | "most">,
): Promise<Response | { readonly body: unknown; readonly address: string }> {
  const [address = ""] = String(request.headers["x-forwarded-for"] ?? "").split(",", 1);
  const read = await reading.read(request, most);
  if (read.kind === "large") return refused(413, `A message has at most ${most} bytes.`);
  if (read.kind === "slow") return refused(503, "Others needed the room meanwhile: say it faster.");
  if (read.bytes.length === 0) return { body: undefined, address };
  const over = boundOver(read.bytes, { depth: MAX_LEVELS, values: MAX_VALUES });
  if (over === "depth") return refused(400, `A message nests at most ${MAX_LEVELS} levels.`);
  if (over === "values") return refused(400, `A message has at most ${MAX_VALUES} values.`);
  const body = parseJson(read.bytes.toString());
  return body === undefined ? refused(400, "The body is no JSON.") : { body, address };
}

function webRequest({ method = "GET", headers }: IncomingMessage, signal: AbortSignal): Request {
  const lines = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    typeof value === "string" && !FRAMING.has(name) ? [[name, value]] : [],
  );
  return new Request("http://command.invalid/", { method, headers: lines, signal });
}

/** Of the body that has been read by now. */
const FRAMING = new Set(["content-length", "transfer-encoding", "connection", "expect"]);

interface Reading {
  readonly left: AbortSignal;
  readonly pause: (isPaused: boolean) => void;
}

const NOBODY_WAITS: Reading = { left: new AbortController().signal, pause: () => {} };

async function write(
  response: ServerResponse,
  answer: Response,
  { left, pause }: Reading,
): Promise<void> {
  const lines = [...answer.headers].filter(([name]) => name !== "connection");
  response.writeHead(answer.status, Object.fromEntries(lines));
  if (answer.body === null) {
    response.end();
    return;
  }
  response.flushHeaders();
  const reader = answer.body.getReader();
  const stop = (): void => void reader.cancel().catch(() => undefined);
  left.addEventListener("abort", stop, { once: true });
  if (left.aborted) stop();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (response.write(value) || left.aborted) continue;
    pause(true);
    await drained(response);
    pause(false);
  }
  response.end();
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      response.off("drain", end);
      response.off("close", end);
      resolve();
    };
    response.on("drain", end);
    response.on("close", end);
  });
}
