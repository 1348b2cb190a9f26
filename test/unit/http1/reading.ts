/** One answer as three readers take it: ours, undici's and that of node:http. */
import { request as httpRequest, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { Client, type Dispatcher } from "undici";
import { AnswerReader } from "../../../src/http1/answer-reader.ts";
import type { AnswerHead } from "../../../src/http1/answer-head.ts";
import { H1Fault } from "../../../src/http1/fault.ts";
import type { MutatedAnswer } from "./mutated-answers.ts";

export interface Read {
  readonly status: number;
  readonly statusText: string;
  readonly lines: readonly string[];
  /** Latin1. */
  readonly body: string;
  readonly trailers: readonly string[];
}

/** What was read, or what was wrong. */
export type Reading =
  | { readonly read: Read; readonly fault: null }
  | { readonly read: null; readonly fault: Error };

const HEAD_LIMIT = 64 * 1024;

/** Ours says also whether it would use the connection again. */
export type OurReading = Reading & { readonly isReusable: boolean };

export function readOurs({ method, pieces, ending }: MutatedAnswer): OurReading {
  let head: AnswerHead | undefined;
  let body = "";
  let trailers: string[] | undefined;
  const sink = {
    onHead: (got: AnswerHead) => void (head = got),
    onData: (chunk: Buffer) => void (body += chunk.toString("latin1")),
    onEnd: (got: string[]) => void (trailers = got),
  };
  const reader = new AnswerReader(sink, HEAD_LIMIT);
  reader.begin(method);
  try {
    for (const piece of pieces) reader.take(Buffer.from(piece), piece.length);
    if (ending === "fin") reader.end();
    else if (trailers === undefined) throw new H1Fault("broken", "reset");
  } catch (thrown) {
    return { read: null, fault: thrown as Error, isReusable: false };
  }
  if (head === undefined || trailers === undefined) throw new Error("no end and no fault");
  const { status, statusText, lines } = head;
  const read = { status, statusText, lines, body, trailers };
  return { read, fault: null, isReusable: reader.isReusable };
}

/** A connection in memory: the answer arrives as it was cut, a piece in each turn of the event loop. */
class ScriptedSocket extends Duplex {
  readonly #answer: MutatedAnswer;
  #isAsked = false;

  constructor(answer: MutatedAnswer) {
    super();
    this.#answer = answer;
    this.on("error", () => {});
  }

  override _read(): void {}

  override _write(_chunk: unknown, _encoding: string, done: () => void): void {
    done();
    if (!this.#isAsked) setImmediate(() => this.#play(0));
    this.#isAsked = true;
  }

  #play(at: number): void {
    if (this.destroyed) return;
    const piece = this.#answer.pieces[at];
    if (piece !== undefined) {
      this.push(Buffer.from(piece));
      setImmediate(() => this.#play(at + 1));
    } else if (this.#answer.ending === "fin") {
      this.push(null);
    } else {
      this.destroy(Object.assign(new Error("reset"), { code: "ECONNRESET" }));
    }
  }

  ref(): void {}
  unref(): void {}
  setTimeout(): void {}
  setNoDelay(): void {}
  setKeepAlive(): void {}
}

export function readByNode(answer: MutatedAnswer): Promise<Reading> {
  return new Promise((resolve) => {
    let fault = new Error("closed");
    let response: IncomingMessage | null = null;
    let body = "";
    let isEnded = false;
    const finish = (): void => {
      if (response === null || !isEnded || !response.complete) {
        resolve({ read: null, fault });
        return;
      }
      const { statusCode: status = 0, statusMessage: statusText = "" } = response;
      const { rawHeaders: lines, rawTrailers: trailers } = response;
      resolve({ read: { status, statusText, lines, body, trailers }, fault: null });
    };
    const request = httpRequest({
      method: answer.method,
      host: "a",
      createConnection: () => new ScriptedSocket(answer),
      maxHeaderSize: HEAD_LIMIT,
    });
    // No limit: beyond it lines would be dropped.
    request.maxHeadersCount = 0;
    request.on("error", (error) => (fault = error));
    request.on("upgrade", (_response, socket: Duplex) => {
      fault = new Error("upgrade");
      socket.destroy();
    });
    request.on("response", (got: IncomingMessage) => {
      response = got;
      got.on("data", (chunk: Buffer) => (body += chunk.toString("latin1")));
      got.on("error", (error) => (fault = error));
      got.on("end", () => (isEnded = true));
    });
    // A response that is complete may end after its connection has.
    request.on("close", () => setImmediate(finish));
    request.end();
  });
}

export function readByUndici(answer: MutatedAnswer): Promise<Reading> {
  const client = new Client("http://a", {
    allowH2: false,
    maxHeaderSize: HEAD_LIMIT,
    connect: (_options, callback) => {
      const socket = new ScriptedSocket(answer) as Duplex as Socket;
      // Called at once it would be taken for a part of the dispatch.
      queueMicrotask(() => callback(null, socket));
    },
  });
  return new Promise((resolve) => {
    let [status, statusText, body] = [0, "", ""];
    let lines: string[] = [];
    const end = (reading: Reading): void => {
      resolve(reading);
      void client.destroy();
    };
    client.dispatch(
      { method: answer.method, path: "/", reset: false },
      {
        onRequestStart() {},
        onResponseStart(controller, code, _headers, text = "") {
          [status, statusText] = [code, text];
          lines = latin1(controller.rawHeaders);
        },
        onResponseData(_controller, chunk) {
          body += chunk.toString("latin1");
        },
        onResponseEnd(controller) {
          const trailers = latin1(controller.rawTrailers);
          end({ read: { status, statusText, lines, body, trailers }, fault: null });
        },
        onResponseError(_controller, fault) {
          end({ read: null, fault });
        },
      },
    );
  });
}

function latin1(raw: Dispatcher.DispatchController["rawHeaders"]): string[] {
  if (!Array.isArray(raw)) return [];
  return raw.map((text) => (typeof text === "string" ? text : text.toString("latin1")));
}
