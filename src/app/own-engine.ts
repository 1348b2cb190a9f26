/**
 * Answers a route of the gateway's own (`config/routes/own.ts`) in place of a backend: a small JSON document for what was paid. It is an
 * engine as any other, so that the sale is judged, kept, and told to its buyer as any other; it has nothing that could be away.
 */
import type { Unanswered } from "../http/unanswered.ts";
import { responseLines } from "../gateway/message/field-lines.ts";
import { keptBody, type InboundRequest } from "../gateway/message/inbound.ts";
import { hashAsked, hashBody, readBodyHash } from "../gateway/message/request-body.ts";
import { UNREAD_MS } from "../gateway/message/unread.ts";
import { KeptAnswer } from "../gateway/upstream/kept-answer.ts";
import type {
  Delivery,
  Engine,
  Sale,
  Switching,
  UpstreamExchange,
} from "../gateway/upstream/upstream.ts";
import { whenSent } from "../gateway/visitor.ts";

/** What was bought: for whom, and what it was asked for with. */
export type OwnPurchase = NonNullable<Sale["paid"]>;

/** Of a request's body, which says nothing here, bytes. */
const MAX_BODY_BYTES = 64 * 1024;

const NO_TUNNEL = declined("No WebSocket is answered here.");
const UNPAID = declined("Nothing is answered here that was not paid for.");

export class OwnEngine implements Engine {
  readonly #answer: (bought: OwnPurchase) => object;

  /** @param answer what the buyer is told, as JSON; called for each delivery */
  constructor(answer: (bought: OwnPurchase) => object) {
    this.#answer = answer;
  }

  refusal({ headers }: InboundRequest, switching: Switching | null): Unanswered | null {
    if (switching !== null) return NO_TUNNEL;
    if (Number(headers["content-length"] ?? 0) <= MAX_BODY_BYTES) return null;
    return { ...declined("The request body is too large."), status: 413, reason: "too-large" };
  }

  /** A purchase whose body never ends is delivered as soon as that is known, and is not kept. */
  async forward(exchange: UpstreamExchange): Promise<Delivery> {
    const { request, response, sale, begin, wrote, waits } = exchange;
    if (sale?.paid === undefined) return UNPAID;
    const startedAt = performance.now();
    begin?.();
    const bodyHash = await hashOf(request);
    const body = Buffer.from(JSON.stringify(this.#answer(sale.paid)));
    const raw = ["Content-Type", "application/json", "Content-Length", String(body.length)];
    const isSold = sale.judge(STATUS, raw) === "goods";
    const lines = responseLines(raw, exchange.responseSet, exchange.responseAdded);
    const kept = isSold && bodyHash !== null ? keptOf(request, lines, { sale, body }) : null;
    const sold =
      kept === null || bodyHash === null
        ? {}
        : { kept: { bodyHash: hashAsked(request, bodyHash), response: kept.finish() } };
    if (!isSold) await sale.refused();
    if (response.destroyed) return { kind: "abandoned", status: STATUS, sent: true, ...sold };
    const upstreamMs = performance.now() - startedAt;
    response.writeHead(STATUS, lines);
    wrote?.(body.length);
    response.end(request.method === "HEAD" ? undefined : body);
    if (response.writableLength > 0) {
      request.socket.setTimeout(UNREAD_MS);
      waits?.();
    }
    return (await whenSent(response))
      ? { kind: "delivered", status: STATUS, upstreamMs, ...sold }
      : { kind: "abandoned", status: STATUS, sent: true, ...sold };
  }

  async upgrade(): Promise<Delivery> {
    return NO_TUNNEL;
  }

  async close(): Promise<void> {}
}

const STATUS = 200;

/** Null: there was too much of it, or its client has left. */
function hashOf(request: InboundRequest): Promise<string | null> {
  const known = keptBody(request);
  if (known !== undefined && known !== null) return Promise.resolve(hashBody(known));
  return readBodyHash(request, MAX_BODY_BYTES);
}

function keptOf(
  { method = "" }: InboundRequest,
  lines: readonly string[],
  { sale, body }: { readonly sale: Sale; readonly body: Buffer },
): KeptAnswer | null {
  const kept = KeptAnswer.begin({ method, status: STATUS }, lines, sale.keepBytes);
  return kept !== null && kept.take(body) ? kept : null;
}

function declined(detail: string): Unanswered {
  const never = { status: 502, sent: false, retriable: false } as const;
  return { kind: "unanswered", reason: "declined", detail, ...never };
}
