/**
 * Messages to the tools of a site: each is read whole and bounded, and what a call asks for becomes a request to this very
 * gateway, so that it is sold, limited, logged and counted like any other. Nothing here knows of money.
 */
import { once } from "node:events";
import { memberOf } from "../../x402/json.ts";
import { boundOver } from "../../x402/json-shape.ts";
import { PAYMENT_META } from "../../x402/mcp.ts";
import type { Telemetry } from "../../telemetry/telemetry.ts";
import {
  corsLines,
  crowdedAnswer,
  errorAnswer,
  limitedAnswer,
  type Answer,
  type CrossOrigin,
} from "../answers.ts";
import { endWith, type RequestEnding } from "../ending.ts";
import { HeldBytes, HeldResponse } from "../held-response.ts";
import type { InboundRequest, InboundResponse } from "../message/inbound.ts";
import { readTarget } from "../paths/target.ts";
import type { ClientOf } from "../tellings.ts";
import type { Visitor } from "../visitor.ts";
import type { Generation, ServedSite, Work } from "../work.ts";
import { CallRequest } from "./call-request.ts";
import type { CallOutcome, RoutedCall } from "./tool-service.ts";

/** Largest message, bytes: a call with all its arguments and its payment. */
export const MAX_MESSAGE_BYTES = 1024 * 1024;
/** Larger ones share what is held of them while what they ask for waits: the others are few bytes each, and have places. */
const LARGE_MESSAGE_BYTES = 64 * 1024;
/** How deep a message may nest: whoever walks through it may rely on that. */
export const MAX_MESSAGE_DEPTH = 64;
/**
 * Values of a message beside what its arguments and its payment hold. Whoever checks a message names each that is wrong:
 * of 90,000 he made 23 MB, and took more than a second for it.
 */
export const MAX_MESSAGE_VALUES = 256;
/** All of them: the longest that a message of that size keeps everybody else waiting is for their sake. */
export const MAX_ALL_VALUES = 16_384;
const OVER = {
  depth: `a message nests at most ${MAX_MESSAGE_DEPTH} levels`,
  values: `a message has at most ${MAX_ALL_VALUES} values`,
} as const;
/** What may hold more than few: nobody looks into it but the route. */
const FREE_PLACES: readonly (readonly string[])[] = [
  ["params", "arguments", "*"],
  ["params", "_meta", PAYMENT_META],
];

type Handle = (request: InboundRequest, response: InboundResponse) => void;

export class ToolCalls {
  readonly #telemetry: Telemetry;
  readonly #work: Pick<Work, "inPlace" | "generation">;
  readonly #clientOf: ClientOf;
  readonly #handle: Handle;
  /** Answers that wait to be told. */
  readonly #held = new HeldBytes();
  /** Large messages that are being answered. */
  readonly #large = new HeldBytes();

  /** @param handle what any request goes through */
  constructor(
    telemetry: Telemetry,
    work: Pick<Work, "inPlace" | "generation">,
    clientOf: ClientOf,
    handle: Handle,
  ) {
    this.#telemetry = telemetry;
    this.#work = work;
    this.#clientOf = clientOf;
    this.#handle = handle;
  }

  /** A place is taken while the message comes; what it asks for takes its own. */
  async serve(
    visitor: Visitor,
    { settings, challenge }: Generation,
    site: ServedSite,
  ): Promise<RequestEnding> {
    const { request } = visitor;
    const lines = corsLines(site.cors, request);
    const end = (answer: Answer): RequestEnding => {
      return endWith(visitor, {
        answer,
        outcome: answer.status < 400 ? "free" : "rejected",
        meter: null,
      });
    };
    const { tools = null, cors, snapshot } = site;
    if (tools === null) return end(errorAnswer(404, "not found", lines));
    if (!mayAsk(request, cors, snapshot.publicUrl)) {
      return end(errorAnswer(403, "not for pages of that origin", lines));
    }
    const client = this.#clientOf(request, settings, site);
    const read = await this.#work.inPlace(client.address, visitor, () => readMessage(request));
    if (read === undefined) return end(crowdedAnswer(lines));
    if (read.kind === "gone")
      return { status: 499, outcome: "rejected", meter: null, upstreamMs: 0 };
    if (read.kind === "refused") return end(protocolError(read, lines));
    // What a call comes to is counted where it is asked for; what wants no answer tells nobody anything.
    const isTold = memberOf(read.body, "id") !== undefined && !isCall(read.body);
    const seconds = isTold ? challenge.waitForWord(client) : 0;
    if (seconds > 0) {
      const answer = limitedAnswer(seconds, undefined, lines);
      return endWith(visitor, { answer, outcome: "limited", meter: null });
    }
    const large = read.bytes > LARGE_MESSAGE_BYTES ? read.bytes : 0;
    if (!this.#large.take(large)) return end(crowdedAnswer(lines));
    const leaving = new AbortController();
    const stop = visitor.onGone(() => leaving.abort());
    try {
      const { signal } = leaving;
      const message = { body: read.body, headers: request.headers, signal };
      const told = await tools.answer(message, (call) => this.#ask(visitor, call, signal));
      const { status, type, body } = told;
      return end({
        status,
        lines,
        body: body === "" ? null : body,
        ...(type !== null && { type }),
      });
    } catch (cause) {
      const { logger } = this.#telemetry;
      logger.error({ err: cause, requestId: visitor.id }, "a message to the tools failed");
      const fault = { status: 500, code: INTERNAL_ERROR, detail: "internal error" };
      return end(protocolError(fault, lines));
    } finally {
      stop();
      this.#large.free(large);
    }
  }

  /** By the settings that are in force now: between the look at the route and the request nothing can change. */
  async #ask(
    visitor: Visitor,
    { route, ...asked }: RoutedCall,
    signal: AbortSignal,
  ): Promise<CallOutcome> {
    const request = new CallRequest(visitor.request, asked);
    const { snapshot } = this.#work.generation.siteOf(request);
    const target = readTarget(asked.method, asked.target, snapshot.authorities);
    if (target.kind === "ok") {
      const match = snapshot.router.match(asked.method, target.path);
      const isRoute = match.kind === "route" && match.value.kind === "priced";
      if (!isRoute || match.value.label !== route) return { kind: "elsewhere" };
    }
    return heldCall({ request, held: this.#held, signal }, this.#handle);
  }
}

interface HeldCall {
  readonly request: CallRequest;
  /** What all answers take. */
  readonly held: HeldBytes;
  /** Its client has left. */
  readonly signal: AbortSignal;
}

/** Hands a call on as any request, and resolves with its answer, as far as that is held. */
export async function heldCall(
  { request, held, signal }: HeldCall,
  handle: Handle,
): Promise<Exclude<CallOutcome, { kind: "elsewhere" }>> {
  const response = new HeldResponse(request.method, held);
  const cut = (): void => void response.destroy();
  if (signal.aborted) cut();
  signal.addEventListener("abort", cut, { once: true });
  const closed = once(response, "close");
  try {
    handle(request, response);
    await closed;
    const { whole, lines } = response;
    if (whole === null) return { kind: "not-held", why: response.why, headers: pairsOf(lines) };
    return { kind: "answered", status: whole.status, headers: whole.headers, body: whole.body };
  } finally {
    signal.removeEventListener("abort", cut);
    response.free();
  }
}

const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;
const INTERNAL_ERROR = -32_603;

interface ProtocolFault {
  readonly status: number;
  /** Of JSON-RPC. */
  readonly code: number;
  readonly detail: string;
}

type ReadMessage =
  | { readonly kind: "read"; readonly body: unknown; readonly bytes: number }
  | ({ readonly kind: "refused" } & ProtocolFault)
  | { readonly kind: "gone" };

function protocolError({ status, code, detail }: ProtocolFault, lines: readonly string[]): Answer {
  const body = JSON.stringify({ jsonrpc: "2.0", id: null, error: { code, message: detail } });
  return { status, lines: status === 413 ? [...lines, "Connection", "close"] : lines, body };
}

async function readMessage(request: InboundRequest): Promise<ReadMessage> {
  const bytes = await readBytes(request);
  if (bytes === "gone") return { kind: "gone" };
  if (bytes === "too-large") {
    const detail = `a message has at most ${MAX_MESSAGE_BYTES} bytes`;
    return { kind: "refused", status: 413, code: INVALID_REQUEST, detail };
  }
  const over = boundOver(bytes, { depth: MAX_MESSAGE_DEPTH, values: MAX_ALL_VALUES });
  if (over !== null)
    return { kind: "refused", status: 400, code: INVALID_REQUEST, detail: OVER[over] };
  let body: unknown;
  try {
    body = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return { kind: "refused", status: 400, code: PARSE_ERROR, detail: "the message is no JSON" };
  }
  if (Array.isArray(body)) {
    const detail = "batches are not taken: each message is posted by itself (MCP 2025-06-18)";
    return { kind: "refused", status: 400, code: INVALID_REQUEST, detail };
  }
  if (!isPlain(body)) {
    const detail = `a message has at most ${MAX_MESSAGE_VALUES} values beside its arguments and its payment`;
    return { kind: "refused", status: 400, code: INVALID_REQUEST, detail };
  }
  return { kind: "read", body, bytes: bytes.length };
}

function isCall(body: unknown): boolean {
  return memberOf(body, "method") === "tools/call";
}

/** Whether there are few values in it, but for the places that may hold many. It is shallow. */
function isPlain(body: unknown): boolean {
  let left = MAX_MESSAGE_VALUES;
  const count = (value: unknown, places: typeof FREE_PLACES): void => {
    if (typeof value !== "object" || value === null) return;
    for (const [name, member] of Object.entries(value)) {
      left -= 1;
      if (left < 0) return;
      const inner = places
        .filter(([first]) => first === name || first === "*")
        .map(([, ...rest]) => rest);
      if (!inner.some((rest) => rest.length === 0)) count(member, inner);
    }
  };
  count(body, FREE_PLACES);
  return left >= 0;
}

function readBytes(request: InboundRequest): Promise<Buffer | "too-large" | "gone"> {
  if (Number(request.headers["content-length"] ?? 0) > MAX_MESSAGE_BYTES) {
    return Promise.resolve("too-large");
  }
  return new Promise((resolve) => {
    const parts: Buffer[] = [];
    let length = 0;
    request.on("data", (part) => {
      length += part.length;
      if (length > MAX_MESSAGE_BYTES) resolve("too-large");
      else parts.push(part);
    });
    request.on("end", () => resolve(Buffer.concat(parts)));
    request.on("close", () => resolve("gone"));
    request.resume();
  });
}

/**
 * Whether a page may post messages: one of the seller's own, or of an origin that may read answers (MCP, streamable HTTP:
 * the Origin is to be looked at, against DNS rebinding). Programs send none.
 */
function mayAsk(
  { headers: { origin } }: InboundRequest,
  cors: CrossOrigin,
  publicUrl: string,
): boolean {
  if (origin === undefined || cors === "any") return true;
  return origin === URL.parse(publicUrl)?.origin || (cors !== "off" && cors.has(origin));
}

function pairsOf(lines: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let index = 0; index < lines.length; index += 2) {
    pairs.push([lines[index] ?? "", lines[index + 1] ?? ""]);
  }
  return pairs;
}
