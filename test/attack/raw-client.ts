/**
 * A client of bytes: sends what it is told, and reads answers by the letter of RFC 9112, so that an
 * answer which only a lenient client understands counts as none.
 */
import { connect, type Socket } from "node:net";
import { connect as connectSecurely } from "node:tls";
import { setTimeout as pause } from "node:timers/promises";
import { CUT_OFF, type Answer, type Dialogue, type Step } from "./dialogue.ts";
import { readHttp2 } from "./http2-frames.ts";
import { AUTHORITY } from "./shop.ts";

export interface RawClientOptions {
  readonly port: number;
  /** Of the requests that will be sent, since HEAD has answers without bodies. */
  readonly methods?: readonly string[];
  /** Behind TLS; `h2` reads frames. */
  readonly tls?: "h2" | "http/1.1";
}

export class RawClient {
  readonly #connection: Socket;
  /** The same, or TLS on it. */
  readonly #socket: Socket;
  readonly #options: RawClientOptions;
  #received = "";
  #isClosed = false;
  #wake = Promise.withResolvers<void>();

  constructor(options: RawClientOptions) {
    const { port, tls } = options;
    this.#options = options;
    const place = { port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true };
    const trust = { servername: AUTHORITY, rejectUnauthorized: false };
    this.#connection = connect(place);
    this.#socket =
      tls === undefined
        ? this.#connection
        : connectSecurely({ socket: this.#connection, ...trust, ALPNProtocols: [tls] });
    this.#socket.on("data", (chunk) => {
      this.#received += chunk.toString("latin1");
      this.#notify();
    });
    this.#connection.on("error", () => this.#socket.destroy());
    this.#socket.on("error", () => this.#socket.destroy());
    this.#socket.on("end", () => {
      this.#isClosed = true;
      this.#socket.end();
      this.#notify();
    });
    this.#socket.on("close", () => {
      this.#isClosed = true;
      this.#notify();
    });
  }

  #notify(): void {
    this.#wake.resolve();
    this.#wake = Promise.withResolvers();
  }

  async perform(steps: readonly Step[], signal: AbortSignal): Promise<void> {
    for (const step of steps) {
      if (this.#isClosed || signal.aborted) return;
      await this.#step(step, signal);
    }
  }

  async #step(step: Step, signal: AbortSignal): Promise<void> {
    switch (step.kind) {
      case "send":
        this.#socket.write(step.bytes, "latin1");
        return;
      case "pause":
        await this.#orOver(pause(step.ms, undefined, { ref: false }), signal);
        return;
      case "until":
        await this.until(({ received }) => received.includes(step.text), signal);
        return;
      case "drip":
        while (!this.#isClosed && !signal.aborted) {
          this.#socket.write(step.bytes, "latin1");
          await this.#orOver(pause(step.everyMs, undefined, { ref: false }), signal);
        }
        return;
      case "end":
        this.#socket.end();
        return;
      case "reset":
        // What was written has to be on its way first.
        await pause(1);
        this.#connection.resetAndDestroy();
    }
  }

  /** Waits until the dialogue is as wanted, or can never be. */
  async until(isWanted: (dialogue: Dialogue) => boolean, signal: AbortSignal): Promise<Dialogue> {
    for (;;) {
      const dialogue = this.dialogue();
      const isOver = dialogue.isClosed || dialogue.fault !== undefined || signal.aborted;
      if (isOver || isWanted(dialogue)) return dialogue;
      await this.#orOver(this.#wake.promise, signal);
    }
  }

  async #orOver(event: Promise<unknown>, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const aborted = Promise.withResolvers<void>();
    const abort = (): void => aborted.resolve();
    signal.addEventListener("abort", abort, { once: true });
    await Promise.race([event, aborted.promise]);
    signal.removeEventListener("abort", abort);
  }

  dialogue(): Dialogue {
    const { tls, methods = [] } = this.#options;
    if (tls === "h2") return readHttp2(this.#received, this.#isClosed);
    return readAnswers(this.#received, methods, this.#isClosed);
  }

  close(): void {
    this.#socket.destroy();
  }
}

function readAnswers(received: string, methods: readonly string[], isClosed: boolean): Dialogue {
  const answers: Answer[] = [];
  let interim = 0;
  let rest = received;
  let fault: string | undefined;
  while (rest !== "") {
    const read = readAnswer(rest, methods[answers.length] ?? "GET", isClosed);
    if (read === "incomplete") break;
    if (typeof read === "string") {
      fault = read;
      break;
    }
    rest = rest.slice(read.length);
    const { answer } = read;
    if (answer.status >= 200 || answer.status === 101) answers.push(answer);
    else interim += 1;
    // What follows belongs to the other protocol.
    if (answer.status === 101) break;
  }
  return { received, answers, interim, fault, isClosed };
}

type Read = { readonly answer: Answer; readonly length: number };

const STATUS_LINE = /^HTTP\/1\.1 ([1-9]\d\d) [\t\x20-\x7e]*$/;
const HEADER_LINE =
  /^([!#$%&'*+.^`|~\w-]+):[ \t]*((?:[\x21-\x7e\x80-\xff][\t\x20-\x7e\x80-\xff]*)?)$/;

/** One answer; `incomplete`; or what is wrong with it. */
function readAnswer(text: string, method: string, isClosed: boolean): Read | string {
  const end = text.indexOf("\r\n\r\n");
  if (end === -1) return isClosed ? "a head without an end" : "incomplete";
  const [first = "", ...others] = text.slice(0, end).split("\r\n");
  const status = Number(STATUS_LINE.exec(first)?.[1] ?? "0");
  if (status === 0) return `no status line: ${JSON.stringify(first.slice(0, 100))}`;
  const lines = readLines(others);
  if (typeof lines === "string") return lines;
  const head = end + 4;
  if (isBodiless(status, method)) return { answer: { status, lines, body: "" }, length: head };
  const body = readBody(text.slice(head), lines, isClosed);
  if (typeof body === "string") return body;
  return { answer: { status, lines, body: body.text }, length: head + body.length };
}

/** RFC 9112 section 6.3. */
function isBodiless(status: number, method: string): boolean {
  return status < 200 || status === 204 || status === 304 || method === "HEAD";
}

/** Header lines with names in lower case, or the fault. */
function readLines(texts: readonly string[]): [string, string][] | string {
  const lines: [string, string][] = [];
  for (const text of texts) {
    const [, name, value] = HEADER_LINE.exec(text) ?? [];
    if (name === undefined || value === undefined) return `no header line: ${JSON.stringify(text)}`;
    lines.push([name.toLowerCase(), value.trim()]);
  }
  return lines;
}

function readBody(
  bytes: string,
  lines: readonly (readonly [string, string])[],
  isClosed: boolean,
): { readonly text: string; readonly length: number } | string {
  const all = (wanted: string) => lines.filter(([name]) => name === wanted).map(([, v]) => v);
  const lengths = all("content-length");
  const codings = all("transfer-encoding");
  if (lengths.length + codings.length > 1) return "an answer with more than one framing";
  const [length] = lengths;
  const cut = isClosed ? CUT_OFF : "incomplete";
  if (codings.length > 0) return readChunks(bytes) ?? cut;
  if (length === undefined) {
    return isClosed ? { text: bytes, length: bytes.length } : "incomplete";
  }
  if (!/^\d+$/.test(length)) return "an answer whose length is no number";
  const count = Number(length);
  return bytes.length < count ? cut : { text: bytes.slice(0, count), length: count };
}

function readChunks(bytes: string): { readonly text: string; readonly length: number } | undefined {
  let text = "";
  let from = 0;
  for (;;) {
    const [line, digits = ""] = /^([0-9a-f]+)\r\n/i.exec(bytes.slice(from)) ?? [];
    if (line === undefined) return undefined;
    from += line.length;
    const size = Number.parseInt(digits, 16);
    if (size === 0) break;
    text += bytes.slice(from, from + size);
    from += size + 2;
    if (from > bytes.length) return undefined;
  }
  const end = bytes.startsWith("\r\n", from) ? from + 2 : bytes.indexOf("\r\n\r\n", from) + 4;
  return end < from ? undefined : { text, length: end };
}
