/**
 * The processes of one command: who gets one, how many there are, and when each of them ends. A session has a process of
 * its own; who calls by the revision without sessions has one for as long as he calls again, told from others by his
 * address: what one buyer leaves in a process is not for the next one.
 */
import { randomUUID } from "node:crypto";
import {
  classifyInboundRequest,
  isInitializeRequest,
  isJsonContentType,
} from "@modelcontextprotocol/server";
import { networkOf } from "../http/ip-address.ts";
import type { CommandMeter } from "../telemetry/command-meter.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Time } from "../time/time.ts";
import { StdioCaller, DISCOVER } from "./stdio-caller.ts";
import { StdioSession } from "./stdio-session.ts";
import { StdioProcess, type Command } from "./stdio-process.ts";

export interface CommandSettings extends Command {
  /** Of the upstream. */
  readonly name: string;
  /** At the same time, those that are ending among them. */
  readonly processes: number;
  /** Of those, for one address (of IPv6: one /64). */
  readonly perClient: number;
  /** Without a message of its client, milliseconds. */
  readonly idleMs: number;
  /** Of one process, milliseconds. */
  readonly lifeMs: number;
  /** Of which pages browsers may ask, beside those of this machine; `any`: of all. */
  readonly origins: ReadonlySet<string> | "any";
}

/** So often it is looked for what is idle, or too old, milliseconds. */
const SWEEP_MS = 500;
/** Until a process has answered for the first time, milliseconds. */
const START_MS = 30_000;
/** Where all are taken, one goes that is idle for so long, the longest first, milliseconds. */
const ROOM_MS = 10_000;
/** After a process that has ended by itself before it answered: until the next one, doubled each time, milliseconds. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;
/** Of a command that is not configured any more: what is under way may take so long, milliseconds. */
const FINISH_MS = 30_000;
/** Of sessions that have ended it is known why, for so many. */
const MAX_ENDED = 500;

const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** JSON-RPC's own, and those of MCP's servers. */
const INVALID_REQUEST = -32_600;
const METHOD_NOT_FOUND = -32_601;
const REFUSED = -32_000;
const NO_SESSION = -32_001;

interface Held<Talker extends StdioSession | StdioCaller = StdioSession | StdioCaller> {
  readonly talker: Talker;
  readonly network: string;
  readonly since: number;
  used: number;
  hasAnswered: boolean;
}

interface HouseGround {
  readonly logger: Logger;
  readonly time: Time;
  readonly meter: CommandMeter;
}

export class CommandHouse {
  readonly #ground: HouseGround;
  #settings: CommandSettings;
  readonly #sessions = new Map<string, Held<StdioSession>>();
  readonly #callers = new Map<string, Held<StdioCaller>>();
  /** All that live, by whose they are. */
  readonly #living = new Map<StdioProcess, string>();
  /** For whom room is being made: who asks many times at once has no more than his share. */
  readonly #waiting = new Map<symbol, string>();
  readonly #ended = new Map<string, string>();
  readonly #closing = new AbortController();
  #failures = 0;
  /** No process is begun before. */
  #notBefore = 0;
  /** It was asked for the revision without sessions, and does not know it. */
  #knowsSessionsOnly = false;

  constructor(settings: CommandSettings, ground: HouseGround) {
    this.#settings = settings;
    this.#ground = ground;
    void this.#sweep();
  }

  get reading(): { readonly processes: number; readonly limit: number } {
    return { processes: this.#living.size, limit: this.#settings.processes };
  }

  /** Of what begins from now on; what runs has been begun as it was told then. */
  configure(settings: CommandSettings): void {
    this.#settings = settings;
    this.#failures = 0;
    this.#notBefore = 0;
    this.#knowsSessionsOnly = false;
  }

  /** Resolves when nothing is under way any more, or was for long enough. Nobody is to ask from here on. */
  async finish(): Promise<void> {
    const { time } = this.#ground;
    const until = time.now() + FINISH_MS;
    const { signal } = this.#closing;
    const isBusy = (): boolean => [...this.#held()].some(({ talker }) => talker.isBusy);
    while (isBusy() && time.now() < until && !signal.aborted) await time.sleep(SWEEP_MS, signal);
  }

  /** Ends every process. */
  async close(): Promise<void> {
    this.#closing.abort();
    for (const { talker } of this.#held()) void talker.end("the gateway ends");
    await Promise.all([...this.#living.keys()].map((process) => process.gone));
  }

  /**
   * Answers one request of streamable HTTP.
   * @param body what its JSON says; undefined: it has none
   * @param pausing is given what keeps the process behind the answer waiting while its client does not read
   */
  async handle(
    request: Request,
    { body, address }: { readonly body: unknown; readonly address: string },
    pausing: (pause: (isPaused: boolean) => void) => void,
  ): Promise<Response> {
    if (this.#closing.signal.aborted) return refused(503, "The gateway ends.");
    if (Array.isArray(body)) {
      return told(
        400,
        INVALID_REQUEST,
        "Batches are no part of the protocol any more: one at a time.",
      );
    }
    const { headers, method } = request;
    if (!this.#mayAsk(headers.get("origin"))) return refused(403, "Not for pages of that origin.");
    if (method === "POST") {
      if (!isJsonContentType(headers.get("content-type"))) {
        return refused(415, "Content-Type must be application/json.");
      }
      const route = classifyInboundRequest({
        httpMethod: method,
        body,
        ...headerOf(headers, "protocolVersionHeader", "mcp-protocol-version"),
        ...headerOf(headers, "mcpMethodHeader", "mcp-method"),
        ...headerOf(headers, "mcpNameHeader", "mcp-name"),
      });
      if (route.kind === "reject") return told(route.httpStatus, route.code, route.message);
      if (route.kind === "modern") return this.#call(route, request, { address, pausing });
    }
    const id = headers.get("mcp-session-id");
    const held = id === null ? await this.#begin(body, address) : this.#sessions.get(id);
    if (held instanceof Response) return held;
    if (held === undefined) return told(404, NO_SESSION, this.#whyOver(id));
    if (held.talker.isFull && method === "POST") return refused(429, "Too many calls at a time.");
    if (held.talker.isAsked(body)) {
      return told(400, INVALID_REQUEST, "A call of that id is under way in this session.");
    }
    held.used = this.#ground.time.now();
    pausing((isPaused) => held.talker.pause(isPaused));
    return held.talker.handle(request, body);
  }

  /**
   * A page of anywhere may ask what runs on its reader's machine, whatever name it says (DNS rebinding): servers have to
   * look who it is.
   */
  #mayAsk(origin: string | null): boolean {
    const { origins } = this.#settings;
    if (origin === null || origins === "any" || origins.has(origin)) return true;
    return URL.canParse(origin) && LOOPBACK.has(new URL(origin).hostname);
  }

  #whyOver(id: string | null): string {
    const why = this.#ended.get(id ?? "");
    return why === undefined ? "Session not found" : `Session not found: it is over, ${why}`;
  }

  async #call(
    route: Extract<ReturnType<typeof classifyInboundRequest>, { kind: "modern" }>,
    request: Request,
    { address, pausing }: { address: string; pausing: (pause: (is: boolean) => void) => void },
  ): Promise<Response> {
    const network = networkOf(address);
    const { message, classification, messageKind } = route;
    let held = this.#callers.get(network);
    if (held === undefined) {
      // Nobody is there who could want it.
      if (messageKind === "notification") return new Response(null, { status: 202 });
      if (this.#knowsSessionsOnly && message.method === DISCOVER) return unknownMethod(message.id);
      const begun = await this.#place(network);
      if (begun instanceof Response) return begun;
      const other = this.#callers.get(network);
      if (other !== undefined) void begun.end("its caller has one");
      held = other ?? this.#beginCaller(begun, network);
    }
    if (held.talker.isFull) return refused(429, "Too many calls at a time.");
    held.used = this.#ground.time.now();
    const { talker } = held;
    pausing((isPaused) => talker.pause(isPaused));
    return talker.handle(message, classification, request);
  }

  #beginCaller(process: StdioProcess, network: string): Held<StdioCaller> {
    const talker = new StdioCaller({
      process,
      onEnd: (why, byItself) => {
        if (this.#callers.get(network) === held) this.#callers.delete(network);
        this.#noteEnd(held, why, byItself);
      },
      onAnswer: () => this.#noteAnswer(held),
      onUnknown: () => {
        this.#knowsSessionsOnly = true;
      },
    });
    const held: Held<StdioCaller> = this.#heldOf(talker, network);
    this.#callers.set(network, held);
    return held;
  }

  async #begin(body: unknown, address: string): Promise<Held<StdioSession> | Response> {
    if (!isInitializeRequest(body)) {
      return refused(400, "Mcp-Session-Id is missing, and this is no initialize request.");
    }
    const network = networkOf(address);
    const process = await this.#place(network);
    if (process instanceof Response) return process;
    const id = randomUUID();
    const talker = new StdioSession({
      id,
      process,
      onEnd: (why, byItself) => {
        this.#sessions.delete(id);
        this.#noteOver(id, why);
        this.#noteEnd(held, why, byItself);
      },
      onAnswer: () => this.#noteAnswer(held),
    });
    const held: Held<StdioSession> = this.#heldOf(talker, network);
    this.#sessions.set(id, held);
    await talker.start();
    return held;
  }

  #heldOf<Talker extends StdioSession | StdioCaller>(
    talker: Talker,
    network: string,
  ): Held<Talker> {
    const now = this.#ground.time.now();
    return { talker, network, since: now, used: now, hasAnswered: false };
  }

  /** A process for somebody, or why there is none. */
  async #place(network: string): Promise<StdioProcess | Response> {
    const { processes, perClient } = this.#settings;
    const { meter } = this.#ground;
    const now = this.#ground.time.now();
    if (now < this.#notBefore) {
      meter.refused("failing");
      const seconds = Math.ceil((this.#notBefore - now) / 1000);
      return refused(503, "The server ends as soon as it is started.", seconds);
    }
    const theirs = [...this.#living.values(), ...this.#waiting.values()];
    if (theirs.filter((each) => each === network).length >= perClient) {
      meter.refused("client");
      return refused(429, `At most ${perClient} sessions for one client.`);
    }
    if (theirs.length >= processes) {
      const waiting = Symbol("for a place");
      this.#waiting.set(waiting, network);
      await this.#makeRoom().finally(() => this.#waiting.delete(waiting));
      if (this.#living.size >= processes) {
        meter.refused("full");
        return refused(503, "All sessions are taken.");
      }
    }
    const { name } = this.#settings;
    const process = new StdioProcess(this.#settings, { ...this.#ground, name });
    meter.begun();
    this.#living.set(process, network);
    void process.gone.then(() => this.#living.delete(process));
    return process;
  }

  /** Ends the one that is idle for longest, where that is long enough. */
  async #makeRoom(): Promise<void> {
    const before = this.#ground.time.now() - ROOM_MS;
    let longest: Held | undefined;
    for (const held of this.#held()) {
      if (held.talker.isBusy || held.used > before) continue;
      if (longest === undefined || held.used < longest.used) longest = held;
    }
    await longest?.talker.end("another one needed its place, and nothing was asked for a while");
  }

  *#held(): Generator<Held> {
    yield* this.#sessions.values();
    yield* this.#callers.values();
  }

  #noteAnswer(held: Held): void {
    held.hasAnswered = true;
    this.#failures = 0;
  }

  #noteOver(id: string, why: string): void {
    this.#ended.set(id, why);
    if (this.#ended.size <= MAX_ENDED) return;
    const [oldest = ""] = this.#ended.keys();
    this.#ended.delete(oldest);
  }

  #noteEnd({ hasAnswered }: Held, why: string, byItself: boolean): void {
    const { logger, time, meter } = this.#ground;
    const { name } = this.#settings;
    meter.ended(!byItself ? "ended" : hasAnswered ? "crashed" : "failed");
    if (!byItself) {
      logger.debug({ upstream: name, why }, "a command's process was ended");
      return;
    }
    logger.warn({ upstream: name, why }, "a command's process is gone");
    if (hasAnswered) return;
    const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures);
    this.#failures += 1;
    this.#notBefore = time.now() + pause;
  }

  async #sweep(): Promise<void> {
    const { signal } = this.#closing;
    const { time } = this.#ground;
    for (;;) {
      await time.sleep(SWEEP_MS, signal);
      if (signal.aborted) return;
      const now = time.now();
      for (const held of this.#held()) {
        const why = this.#whyNow(held, now);
        if (why !== null) void held.talker.end(why);
      }
    }
  }

  #whyNow({ talker, since, used, hasAnswered }: Held, now: number): string | null {
    const { idleMs, lifeMs } = this.#settings;
    if (now - since > lifeMs) return "it has lived as long as one may";
    if (!hasAnswered && now - since > START_MS) return "it does not answer";
    if (!talker.isBusy && now - used > idleMs) return "nothing was asked for too long";
    return null;
  }
}

function headerOf<Key extends string>(
  headers: Headers,
  key: Key,
  name: string,
): { readonly [each in Key]?: string } {
  const value = headers.get(name);
  return (value === null ? {} : { [key]: value }) as { readonly [each in Key]?: string };
}

/** An answer of the gateway's own, in the words of JSON-RPC. */
function told(status: number, code: number, message: string, retryAfter?: number): Response {
  const headers: Record<string, string> =
    retryAfter === undefined ? {} : { "Retry-After": String(retryAfter) };
  return Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status, headers });
}

/** Seconds after which one that was refused for want of a place may try again. */
const RETRY_AFTER = 5;

export function refused(status: number, message: string, retryAfter?: number): Response {
  const isFull = status === 429 || status === 503;
  return told(status, REFUSED, message, retryAfter ?? (isFull ? RETRY_AFTER : undefined));
}

function unknownMethod(id: string | number | undefined): Response {
  const error = { code: METHOD_NOT_FOUND, message: "Method not found" };
  return Response.json({ jsonrpc: "2.0", id: id ?? null, error });
}
