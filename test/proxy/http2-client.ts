/** One HTTP/2 connection to the gateway; its answers in the form of the HTTP/1.1 client's. */
import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream } from "node:http2";
import type { IncomingHttpHeaders } from "node:http2";
import { certificate } from "../unit/http1/tls-identity.ts";
import { AUTHORITY, NoAnswer, PATIENCE_MS, type Ask, type Handlers, type Reply } from "./client.ts";
import { ContentMeter, type Head, type Line } from "./wire.ts";

/** Header lines of an answer at most: Node's own limit is lower. */
const MAX_LINES = 1_000;

export class Http2Client {
  readonly session: ClientHttp2Session;

  constructor(port: number) {
    this.session = connect(`https://127.0.0.1:${port}`, {
      ca: certificate,
      servername: AUTHORITY,
      settings: { enablePush: false },
      maxHeaderListPairs: MAX_LINES,
    });
    this.session.on("error", () => this.session.destroy());
  }

  get isOpen(): boolean {
    return !this.session.closed && !this.session.destroyed;
  }

  /** The stream that a request opens, before anything of its body is sent. */
  open({ method, target, lines = [], body, framing, trailers }: Ask): ClientHttp2Stream {
    // Raw pairs, so that they keep their order.
    const pseudo = [":method", method, ":path", target, ":authority", AUTHORITY];
    const headers = [...pseudo, ":scheme", "https"];
    for (const [name, value] of lines) headers.push(name.toLowerCase(), value);
    if (body !== undefined && framing !== "chunked") {
      headers.push("content-length", String(body.length));
    }
    return this.session.request(headers, {
      endStream: body === undefined,
      waitForTrailers: trailers !== undefined,
    });
  }

  /** Rejects with {@link NoAnswer}. */
  async ask(ask: Ask, handlers: Handlers = {}): Promise<Reply> {
    const stream = this.open(ask);
    const { body, trailers = [] } = ask;
    stream.on("wantTrailers", () => stream.sendTrailers(trailersOf(trailers)));
    if (body !== undefined) stream.end(body);
    return readReply(stream, handlers);
  }

  close(): void {
    this.session.destroy();
  }
}

function trailersOf(lines: readonly Line[]): Record<string, string[]> {
  const trailers: Record<string, string[]> = {};
  for (const [name, value] of lines) (trailers[name.toLowerCase()] ??= []).push(value);
  return trailers;
}

/** The answer to a stream that was opened. Rejects with {@link NoAnswer} when the stream is reset. */
export function readReply(stream: ClientHttp2Stream, handlers: Handlers = {}): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const meter = new ContentMeter();
  const interim: Head[] = [];
  let head: Head | undefined;
  let trailers: Line[] = [];
  let isEnded = false;
  const timer = setTimeout(() => stream.close(constants.NGHTTP2_CANCEL), PATIENCE_MS);
  stream.on("headers", (headers: IncomingHttpHeaders, _flags, raw?: string[]) => {
    interim.push(headOf(headers, raw));
  });
  stream.on("response", (headers: IncomingHttpHeaders, _flags, raw?: string[]) => {
    head = headOf(headers, raw);
    handlers.onHead?.(head);
  });
  stream.on("data", (chunk: Buffer) => {
    meter.take(chunk);
    handlers.onBody?.(chunk);
  });
  stream.on("trailers", (_headers, _flags, raw?: string[]) => {
    trailers = pairs(raw);
  });
  stream.on("end", () => {
    isEnded = true;
  });
  stream.on("error", () => undefined);
  stream.on("close", () => {
    clearTimeout(timer);
    const isWhole = isEnded && stream.rstCode === constants.NGHTTP2_NO_ERROR && head !== undefined;
    if (!isWhole || head === undefined) {
      reject(new NoAnswer(`the stream was reset with ${stream.rstCode}`, head, meter.length));
      return;
    }
    const content = meter.finish();
    const framing = content.length === 0 ? "none" : "length";
    resolve({ ...head, framing, content, trailers, interim, after: "open" });
  });
  return promise;
}

function headOf(headers: IncomingHttpHeaders, raw: readonly string[] | undefined): Head {
  const lines = pairs(raw).filter(([name]) => !name.startsWith(":"));
  return { startLine: `HTTP/2 ${String(headers[":status"])}`, lines };
}

/** Node hands raw lines on as UTF-8 or Latin-1, whichever fits; here they are Latin-1, as elsewhere. */
function pairs(raw: readonly string[] = []): Line[] {
  const lines: Line[] = [];
  for (let index = 0; index < raw.length; index += 2) {
    lines.push([raw[index] ?? "", raw[index + 1] ?? ""]);
  }
  return lines;
}
