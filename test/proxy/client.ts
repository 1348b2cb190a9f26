/** A client of bytes over TCP or TLS: asks, and reads every answer by the letter. */
import { connect as connectTcp, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { certificate } from "../unit/http1/tls-identity.ts";
import {
  chunked,
  headText,
  MessageReader,
  valueOf,
  type Head,
  type Line,
  type Message,
} from "./wire.ts";

/** A request without what belongs to its connection: Host and framing are written by who sends it. */
export interface Ask {
  readonly method: string;
  readonly target: string;
  readonly lines?: readonly Line[];
  readonly body?: Buffer;
  /** Default: a length where there is a body. */
  readonly framing?: "length" | "chunked";
  readonly trailers?: readonly Line[];
  readonly version?: "1.0" | "1.1";
  /** The value of `Connection`; none by default. */
  readonly connection?: "close" | "keep-alive";
}

export interface Reply extends Message {
  readonly interim: readonly Head[];
  /** What the connection is worth after the answer. */
  readonly after: "open" | "closed";
}

/** Host of every request: one that the gateway serves. */
export const AUTHORITY = "backend.example";
/** Longest wait for anything that must come, milliseconds: far more than a slow machine needs. */
export const PATIENCE_MS = 15_000;

export interface Place {
  readonly port: number;
  readonly isTls?: boolean;
}

/** The answer was cut off, is no HTTP, or did not come in time. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
  /** The head that came before, if any. */
  readonly head: Head | undefined;
  /** Bytes of body that came before. */
  readonly received: number;

  constructor(reason: string, head: Head | undefined, received: number) {
    super(reason);
    this.head = head;
    this.received = received;
  }
}

export function openSocket({ port, isTls = false }: Place): Socket {
  const options = { port, host: "127.0.0.1", allowHalfOpen: true };
  const socket = isTls
    ? connectTls({
        ...options,
        ca: certificate,
        servername: AUTHORITY,
        ALPNProtocols: ["http/1.1"],
      })
    : connectTcp({ ...options, noDelay: true });
  socket.on("error", () => socket.destroy());
  return socket;
}

/** The request's bytes, head and body. */
export function requestBytes(ask: Ask): { readonly head: string; readonly body: Buffer } {
  const { method, target, lines = [], body, version = "1.1", connection } = ask;
  const framing = ask.framing ?? (body === undefined ? undefined : "length");
  const all: Line[] = [["Host", AUTHORITY], ...lines];
  if (framing === "length") all.push(["Content-Length", String(body?.length ?? 0)]);
  if (framing === "chunked") all.push(["Transfer-Encoding", "chunked"]);
  if (connection !== undefined) all.push(["Connection", connection]);
  const content = body ?? Buffer.alloc(0);
  return {
    head: headText(`${method} ${target} HTTP/${version}`, all),
    body: framing === "chunked" ? chunked(content, 10_000, ask.trailers) : content,
  };
}

export interface Handlers {
  readonly onHead?: (head: Head) => void;
  readonly onBody?: (chunk: Buffer) => void;
}

/** One connection, one request at a time. */
export class Client {
  readonly socket: Socket;
  readonly #reader: MessageReader;
  #method = "GET";
  #handlers: Handlers = {};
  #head: Head | undefined;
  #received = 0;
  #interim: Head[] = [];
  #answer: PromiseWithResolvers<Message> | undefined;
  #isReset = false;
  #end: string | undefined;

  constructor(place: Place) {
    this.socket = openSocket(place);
    this.#reader = new MessageReader({
      kind: "response",
      method: () => this.#method,
      onInterim: (head) => void this.#interim.push(head),
      onHead: (head) => {
        this.#head = head;
        this.#handlers.onHead?.(head);
      },
      onBody: (chunk) => {
        this.#received += chunk.length;
        this.#handlers.onBody?.(chunk);
      },
      onMessage: (message) => this.#answer?.resolve(message),
    });
    this.socket.on("data", (chunk) => this.#read(() => this.#reader.push(chunk)));
    this.socket.on("end", () => {
      this.#read(() => this.#reader.end());
      this.#fail("the connection has ended");
      this.socket.end();
    });
    this.socket.on("error", () => {
      this.#isReset = true;
    });
    this.socket.on("close", () => this.#fail(this.#isReset ? "it was reset" : "it was closed"));
  }

  get isOpen(): boolean {
    return this.#end === undefined && !this.socket.destroyed;
  }

  /** Rejects with {@link NoAnswer}. */
  async ask(ask: Ask, handlers: Handlers = {}): Promise<Reply> {
    const { head, body } = requestBytes(ask);
    const reply = this.expect(ask.method, handlers);
    if (valueOf(ask.lines ?? [], "expect") === undefined) {
      this.socket.write(Buffer.concat([Buffer.from(head, "latin1"), body]));
    } else {
      this.socket.write(head, "latin1");
      await this.#until(() => this.#interim.length > 0 || this.#head !== undefined);
      if (this.#head === undefined) this.socket.write(body);
    }
    return reply;
  }

  /** The answer to what is sent by other means. */
  async expect(method: string, handlers: Handlers = {}): Promise<Reply> {
    this.#method = method;
    this.#handlers = handlers;
    this.#head = undefined;
    this.#received = 0;
    this.#interim = [];
    const answer = Promise.withResolvers<Message>();
    this.#answer = answer;
    if (this.#end !== undefined) this.#fail(this.#end);
    const timer = setTimeout(() => this.#refuse("no answer in time"), PATIENCE_MS);
    try {
      const message = await answer.promise;
      const isLast = await this.#isLast(message);
      return { ...message, interim: this.#interim, after: isLast ? "closed" : "open" };
    } finally {
      clearTimeout(timer);
      this.#answer = undefined;
    }
  }

  /** An answer that says so, or whose end is the connection's, is the last one: it has to end then. */
  async #isLast({ startLine, lines, framing }: Message): Promise<boolean> {
    const says = (valueOf(lines, "connection") ?? "").toLowerCase();
    const isOld = startLine.startsWith("HTTP/1.0") && says !== "keep-alive";
    if (!(says === "close" || framing === "close" || isOld)) {
      if (!this.#reader.isIdle) throw new NoAnswer("there is more than the answer", this.#head, 0);
      return false;
    }
    await this.#until(() => this.#end !== undefined);
    return true;
  }

  async #until(isSo: () => boolean): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS;
    while (!isSo()) {
      if (performance.now() > deadline) throw new NoAnswer("it did not come to that", undefined, 0);
      await pause(1);
    }
  }

  #read(step: () => void): void {
    try {
      step();
    } catch (error) {
      this.#refuse(String(error));
      this.socket.destroy();
    }
  }

  #fail(reason: string): void {
    this.#end ??= reason;
    this.#refuse(reason);
  }

  #refuse(reason: string): void {
    this.#answer?.reject(new NoAnswer(reason, this.#head, this.#received));
  }

  close(): void {
    this.socket.destroy();
  }
}

/** One request on a connection of its own. */
export async function askOnce(place: Place, ask: Ask, handlers: Handlers = {}): Promise<Reply> {
  const client = new Client(place);
  try {
    return await client.ask(ask, handlers);
  } finally {
    client.close();
  }
}
