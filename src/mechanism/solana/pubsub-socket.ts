/**
 * One websocket connection to a node: opened within a limit, closed for certain, and asked now and then
 * whether anybody is still there. Its URL may hold a key, so nothing here repeats it.
 */
import type { Socket } from "node:net";
import { Agent, buildConnector, ping, WebSocket } from "undici";
import type { Time } from "../../time/time.ts";

/** Longest that opening may take, milliseconds. */
const OPEN_MS = 5_000;
/** Largest message that is taken, bytes: a notification has about 300. */
const MAX_MESSAGE_BYTES = 64 * 1024;
/** Frames of one message at most. */
const MAX_FRAGMENTS = 64;

/** Where a websocket may be, and what to show there. */
export interface PubsubTarget {
  /** `ws:` or `wss:`, without credentials. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface PubsubSocketOptions {
  readonly target: PubsubTarget;
  readonly time: Time;
  readonly onMessage: (text: string) => void;
  /** Ends the attempt, or the connection. */
  readonly signal: AbortSignal;
}

/**
 * Where the websocket of an HTTP endpoint is looked for, in this order: at the same address; and where that
 * names a port, at the next one, as `solana-test-validator` and a plain validator have it (8899, 8900).
 */
export function pubsubTargets(httpUrl: string): readonly PubsubTarget[] {
  const url = new URL(httpUrl);
  const credentials = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  const basic = `Basic ${Buffer.from(credentials).toString("base64")}`;
  const headers: Record<string, string> = credentials === ":" ? {} : { authorization: basic };
  url.username = "";
  url.password = "";
  // Of no matter over HTTP, and against the rules of a websocket's address.
  url.hash = "";
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const targets = [{ url: url.href, headers }];
  const port = Number(url.port);
  if (port > 0 && port < MAX_PORT) {
    url.port = String(port + 1);
    targets.push({ url: url.href, headers });
  }
  return targets;
}

const MAX_PORT = 65_535;

/** Undefined where no websocket opens. Never rejects. */
export async function openPubsub(options: PubsubSocketOptions): Promise<PubsubSocket | undefined> {
  try {
    const socket = new PubsubSocket(options);
    return (await socket.opened) ? socket : undefined;
  } catch {
    // An address that no websocket can have.
    return undefined;
  }
}

export class PubsubSocket {
  readonly #agent: Agent;
  readonly #socket: WebSocket;
  readonly #over = new AbortController();
  /** What carries the bytes, as soon as there is a connection. */
  #carrier: Socket | undefined;
  /** Bytes that had come when it was last asked whether anybody is there. */
  #heardBytes = -1;
  /** Why it was closed, for the log. */
  #reason = "was closed by the node";
  /** Whether it came to be open. */
  readonly opened: Promise<boolean>;

  constructor({ target, time, onMessage, signal }: PubsubSocketOptions) {
    const connect = buildConnector({ timeout: OPEN_MS, allowH2: false });
    this.#agent = new Agent({
      connect: (options, callback) => {
        connect(options, (...result) => {
          const [, carrier] = result;
          this.#carrier = carrier ?? undefined;
          callback(...result);
        });
      },
      allowH2: false,
      headersTimeout: OPEN_MS,
      webSocket: { maxPayloadSize: MAX_MESSAGE_BYTES, maxFragments: MAX_FRAGMENTS },
    });
    this.#socket = new WebSocket(target.url, { dispatcher: this.#agent, headers: target.headers });
    this.#socket.addEventListener("message", ({ data }) => {
      if (typeof data === "string") onMessage(data);
    });
    this.opened = this.#open(time);
    const end = (): void => this.end("was closed");
    signal.addEventListener("abort", end, { once: true });
    this.over.addEventListener("abort", () => signal.removeEventListener("abort", end));
    if (signal.aborted) end();
  }

  /** Aborts when the connection is over. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  /** Why it is over, as a predicate of a sentence. */
  get reason(): string {
    return this.#reason;
  }

  send(message: object): void {
    if (!this.over.aborted) this.#socket.send(JSON.stringify(message));
  }

  /** False when nothing has come since the last time this was asked, not even an answer to its ping. */
  checkAlive(): boolean {
    const heard = this.#carrier?.bytesRead ?? 0;
    const isAlive = heard !== this.#heardBytes;
    this.#heardBytes = heard;
    if (!this.over.aborted) ping(this.#socket);
    return isAlive;
  }

  /** Says goodbye and does not wait for an answer. */
  end(reason: string): void {
    if (this.over.aborted) return;
    this.#reason = reason;
    this.#socket.close();
    this.#finish();
  }

  async #open(time: Time): Promise<boolean> {
    const settled = new AbortController();
    let isOpen = false;
    this.#socket.addEventListener("open", () => {
      isOpen = true;
      settled.abort();
    });
    this.#socket.addEventListener("close", () => this.#finish());
    this.over.addEventListener("abort", () => settled.abort());
    await time.sleep(OPEN_MS, settled.signal);
    if (!isOpen) this.end("could not be opened");
    return isOpen && !this.over.aborted;
  }

  #finish(): void {
    if (this.over.aborted) return;
    this.#over.abort();
    // Whatever is written still goes out; a node that is gone would never close its side.
    this.#carrier?.destroySoon();
    this.#agent.destroy().catch(() => undefined);
  }
}
