/**
 * A call of a tool at a seller that speaks MCP over HTTP, of either revision. The price is asked and the payment is
 * shown in one connection; a call that is lost is made again with the same payment.
 */
import {
  Client,
  ProtocolError,
  SdkHttpError,
  StreamableHTTPClientTransport,
  type FetchLike,
} from "@modelcontextprotocol/client";
import { systemTime, type Time } from "../../time/time.ts";
import { PAYMENT_META } from "../../x402/mcp.ts";
import { err, messageOf, ok, type Result } from "../../x402/result.ts";
import { readHeaderJson, type Quote } from "../offer.ts";
import { placeOf } from "../place.ts";
import { PAUSES_MS } from "../presentation.ts";
import type { PaymentReceipt } from "../receipt.ts";
import type { AskFault, Errand, FirstAnswer, ErrandOutcome, PresentingOptions } from "./errand.ts";
import { quoteOfError, quoteOfResult, receiptOfResult } from "./mcp-tool-result.ts";
import { AnswerPot, type ToldAnswer } from "./told-answer.ts";

/** The most that is read of one HTTP answer of such a seller, bytes: more than is told, as streams say more. */
const MAX_READ_BYTES = 8 * 1024 * 1024;
/** How long a connection may take to be made, and to be taken leave of, milliseconds. */
const CONNECT_MS = 20_000;
const LEAVE_MS = 2_000;
/** Longest sentence of a seller that is told, characters. */
const MAX_REASON = 500;

export interface ToolCall {
  readonly url: URL;
  readonly tool: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** What one attempt has brought. */
type Heard =
  | { readonly kind: "price"; readonly quote: Quote; readonly receipt: PaymentReceipt | null }
  | {
      readonly kind: "answer";
      readonly answer: ToldAnswer;
      readonly isError: boolean;
      readonly receipt: PaymentReceipt | null;
    }
  | { readonly kind: "pending" }
  /** The seller says so itself. */
  | { readonly kind: "failed"; readonly reason: string }
  | { readonly kind: "lost"; readonly reason: string; readonly neverLeft: boolean };

export class McpErrand implements Errand {
  readonly what: string;
  readonly parts: readonly string[];
  readonly askSignedIn = null;
  readonly #call: ToolCall;
  readonly #silenceMs: number;
  readonly #time: Time;
  #client: Client | null = null;
  /** Of the connection that was made last. */
  #session: string | null = null;
  #onSession: PresentingOptions["onSession"] = () => undefined;
  /** A payment was shown in it, and it is not known what became of that. */
  #isNeeded = false;
  /** Told that a stream of events has ended which cannot be gone on with. */
  #onCut = (): void => undefined;

  /** @param silenceMs longest wait for a result, milliseconds */
  constructor(call: ToolCall, silenceMs: number, time: Time = systemTime) {
    this.#call = call;
    this.#silenceMs = silenceMs;
    this.#time = time;
    this.what = `tool ${call.tool} at ${placeOf(call.url)}`;
    this.parts = ["mcp", call.url.href, call.tool, canonical(call.arguments)];
  }

  get url(): URL {
    return this.#call.url;
  }

  get session(): string | null {
    return this.#session;
  }

  async ask(signal: AbortSignal): Promise<Result<FirstAnswer, AskFault>> {
    const heard = await this.#attempt(null, signal);
    if (heard.kind === "price") return ok(heard);
    if (heard.kind === "answer")
      return ok({ kind: "answer", answer: heard.answer, location: null });
    const reason = heard.kind === "pending" ? "it settles what nobody has paid" : heard.reason;
    return err({ reason, isAway: heard.kind === "lost" });
  }

  async present(options: PresentingOptions): Promise<ErrandOutcome> {
    this.#session ??= options.session;
    this.#onSession = options.onSession;
    this.#isNeeded = true;
    const outcome = await this.#present(options);
    // What is not over may be had there alone.
    this.#isNeeded = outcome.kind === "unserved";
    return outcome;
  }

  async #present({ payment, wasSent, signal }: PresentingOptions): Promise<ErrandOutcome> {
    const told = { location: null, answer: null, isOver: false, neverLeft: false, reason: "" };
    const envelope = readHeaderJson(payment.value);
    let receipt: PaymentReceipt | null = null;
    let mayBePaid = wasSent;
    let reason = "";
    for (const pauseMs of [...PAUSES_MS, null]) {
      const heard = await this.#attempt(envelope, signal);
      if (heard.kind === "price" || heard.kind === "answer") {
        if (receipt?.success !== true) receipt = heard.receipt ?? receipt;
      }
      const isPaid = receipt?.success === true;
      if (heard.kind === "price") {
        const isDoubtful = isPaid || (mayBePaid && receipt?.success !== false);
        const kind = isDoubtful ? "unserved" : "refused";
        return { ...told, kind, receipt, reason: heard.quote.error, isOver: true };
      }
      if (heard.kind === "answer") {
        const { answer, isError } = heard;
        if (!isError) return { ...told, kind: "served", receipt, answer };
        // A tool that fails may be charged for, by whoever settles first: only its receipt tells.
        return {
          ...told,
          kind: "unserved",
          receipt,
          answer,
          reason: `the tool failed: ${answer.body.slice(0, MAX_REASON)}`,
        };
      }
      if (heard.kind === "failed")
        return { ...told, kind: "unserved", receipt, reason: heard.reason };
      mayBePaid ||= heard.kind === "pending" || !heard.neverLeft;
      reason = heard.kind === "lost" ? heard.reason : "the payment is being settled";
      if (pauseMs === null || signal.aborted) break;
      await this.#time.sleep(pauseMs, signal);
    }
    if (mayBePaid || receipt?.success === true)
      return { ...told, kind: "unserved", receipt, reason };
    return { ...told, kind: "refused", receipt, reason, neverLeft: true };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { transport } = this.#client ?? {};
    if (transport instanceof StreamableHTTPClientTransport && !this.#isNeeded) {
      const leaving = new AbortController();
      const left = transport
        .terminateSession()
        .catch(() => undefined)
        .then(() => leaving.abort());
      await Promise.race([left, this.#time.sleep(LEAVE_MS, leaving.signal)]);
    }
    await this.#leave();
  }

  async #leave(): Promise<void> {
    const client = this.#client;
    this.#client = null;
    await client?.close().catch(() => undefined);
  }

  async #attempt(payment: unknown, signal: AbortSignal): Promise<Heard> {
    let client: Client;
    try {
      client = this.#client ??= await this.#connect(signal);
    } catch (cause) {
      return { kind: "lost", reason: this.#said(cause), neverLeft: true };
    }
    const { tool, arguments: args } = this.#call;
    const meta = payment === null ? {} : { _meta: { [PAYMENT_META]: payment } };
    const cut = new AbortController();
    const { version, id, event } = readSession(this.#session);
    // Once: where that brings nothing the call is made again.
    if (event !== undefined) this.#session = sessionOf(version, id);
    this.#onCut = () => cut.abort(new Error("the answer was cut"));
    try {
      const options = {
        timeout: this.#silenceMs,
        resetTimeoutOnProgress: true,
        signal: AbortSignal.any([signal, cut.signal]),
        ...(payment !== null && { onresumptiontoken: this.#mark() }),
        ...(payment !== null && event !== undefined && { resumptionToken: event }),
      };
      const result = await client.callTool({ name: tool, arguments: args, ...meta }, options);
      const { receipt, isPending } = receiptOfResult(result);
      if (isPending) return { kind: "pending" };
      const quote = quoteOfResult(result);
      if (quote !== undefined) return { kind: "price", quote, receipt };
      const isError = result.isError === true;
      return { kind: "answer", answer: await toldOf(result), isError, receipt };
    } catch (cause) {
      if (cause instanceof ProtocolError) {
        const quote = quoteOfError(cause);
        return quote === undefined
          ? { kind: "failed", reason: this.#said(cause) }
          : { kind: "price", quote, receipt: null };
      }
      // Whatever it was, this connection is not trusted with another attempt; its session is, unless it is gone.
      if (isGone(cause)) this.#session = null;
      await this.#leave();
      return { kind: "lost", reason: this.#said(cause), neverLeft: false };
    }
  }

  /** What hears of events, of which the first is enough: whoever goes on behind it gets all the others. */
  #mark(): (event: string) => void {
    let isMarked = false;
    return (event) => {
      const { version, id } = readSession(this.#session);
      const marked = sessionOf(version, id, event);
      if (isMarked || marked === null) return;
      isMarked = true;
      this.#onSession(marked);
    };
  }

  async #connect(signal: AbortSignal): Promise<Client> {
    const info = { name: "coinslot", version: "1" };
    const client = new Client(info, { versionNegotiation: { mode: "auto" } });
    const { version, id } = readSession(this.#session);
    const transport = new StreamableHTTPClientTransport(this.#call.url, {
      // With these nothing is said before the call: the session goes on.
      ...(id !== undefined && version !== undefined && { sessionId: id, protocolVersion: version }),
      fetch: boundedFetch(signal, () => this.#onCut, this.#time),
      requestInit: { redirect: "error" },
    });
    await client.connect(transport, { timeout: CONNECT_MS, signal });
    const { sessionId } = transport;
    if (id === undefined)
      this.#session = sessionOf(client.getNegotiatedProtocolVersion(), sessionId);
    return client;
  }

  #said(cause: unknown): string {
    const { host } = this.#call.url;
    const inner =
      cause instanceof Error && cause.cause !== undefined ? `: ${messageOf(cause.cause)}` : "";
    // What is the seller's own sentence stands as one.
    if (cause instanceof ProtocolError || cause instanceof SdkHttpError)
      return `${host} says ${JSON.stringify(messageOf(cause).slice(0, MAX_REASON))}`.toWellFormed();
    return `${host}: ${messageOf(cause)}${inner}`.slice(0, MAX_REASON).toWellFormed();
  }
}

/** Longest session that is kept, characters. */
const MAX_SESSION = 512;

/** What a blank stands in, or more than a line, is no name of a session's. */
const WORD = /^[\x21-\x7e]+$/;

/** As it is kept: the revision, the session, and the event behind which its answer comes; null: there is none. */
function sessionOf(...words: readonly (string | undefined)[]): string | null {
  const session = words.join(" ");
  const isWhole = words.every((word) => word !== undefined && WORD.test(word));
  return isWhole && session.length <= MAX_SESSION ? session : null;
}

interface KeptSession {
  readonly version?: string | undefined;
  readonly id?: string | undefined;
  readonly event?: string | undefined;
}

function readSession(session: string | null): KeptSession {
  const [version, id, event] = session?.split(" ") ?? [];
  return { version, id, event };
}

/** What servers answer whose session is over: 404, and 400 where they have forgotten what it was. */
function isGone(cause: unknown): boolean {
  return cause instanceof SdkHttpError && (cause.status === 404 || cause.status === 400);
}

/** By then the SDK has read what came last, milliseconds: a result in it has ended the attempt. */
const READ_BY_MS = 1_000;
/** What names an event, so that a stream can be gone on with behind it. */
const EVENT_ID = /(?:^|\n)id:/;

/**
 * No answer may be larger than is read, and none goes on when everything ends. The SDK waits for a result until its
 * time is up when the stream that was to bring it has ended without: `onCut` is told.
 */
function boundedFetch(signal: AbortSignal, current: () => () => void, time: Time): FetchLike {
  return async (url, init) => {
    // Of the attempt that asks.
    const onCut = current();
    const ends = init?.signal ? AbortSignal.any([init.signal, signal]) : signal;
    const response = await fetch(url, { ...init, signal: ends });
    if (response.body === null) return response;
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
    const isCounted = isStream && init?.method === "POST";
    const onEnd = (): void => void time.sleep(READ_BY_MS, signal).then(onCut);
    const body = bounded(response.body, isCounted ? onEnd : () => undefined);
    const { status, statusText, headers } = response;
    return new Response(ReadableStream.from(body), { status, statusText, headers });
  };
}

async function* bounded(
  body: AsyncIterable<Uint8Array>,
  onEnd: () => void,
): AsyncGenerator<Uint8Array> {
  let [read, canGoOn] = [0, false];
  try {
    for await (const part of body) {
      read += part.length;
      if (read > MAX_READ_BYTES) throw new Error(`an answer of more than ${MAX_READ_BYTES} bytes`);
      canGoOn ||= EVENT_ID.test(Buffer.from(part).toString("latin1"));
      yield part;
    }
  } finally {
    if (!canGoOn) onEnd();
  }
}

async function toldOf(result: Awaited<ReturnType<Client["callTool"]>>): Promise<ToldAnswer> {
  const { content, structuredContent, isError } = result;
  const said = {
    content,
    ...(structuredContent !== undefined && { structuredContent }),
    ...(isError === true && { isError }),
  };
  const pot = new AnswerPot();
  await pot.write(Buffer.from(JSON.stringify(said)));
  return pot.told(null, "application/json");
}

/** JSON with the members of objects in one order, so that the same arguments are the same text. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => {
    const isObject = typeof each === "object" && each !== null && !Array.isArray(each);
    return isObject
      ? Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)))
      : each;
  });
}
