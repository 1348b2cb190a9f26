/**
 * Who is served where the data path is another proxy's: the proxy, which is told to let a request pass, with what
 * its backend and its client are to be told, or is given the whole answer for its client.
 */
import type { Sold } from "../../payments/sale/admission.ts";
import type { Unanswered } from "../../http/unanswered.ts";
import type { Passage } from "../upstream/passage.ts";
import { valueOf, valuesOf } from "../message/field-values.ts";
import { createHash } from "node:crypto";
import type { StoredResponse } from "../../ledger/ledger.ts";
import type { Answer } from "../answers.ts";
import type { AccessNote } from "../../telemetry/access-log.ts";
import type { TimelineEntry } from "../../telemetry/timeline.ts";
import type { InboundResponse } from "../message/inbound.ts";

import type { RequestTrace } from "../request-trace.ts";
import { toldAgain } from "../upstream/kept-answer.ts";
import type { Delivery, Engine } from "../upstream/upstream.ts";
import {
  headOf,
  JSON_TYPE,
  onResponseGone,
  whenSent,
  type AlwaysTold,
  type Replaying,
  type Visitor,
  type VisitorGround,
} from "../visitor.ts";
import type { Dialect } from "./dialect.ts";
import type { HeldAnswers } from "./held-answers.ts";
import type { OriginalRequest } from "./original-request.ts";
import type { Passes } from "./passes.ts";

/** Says that a request may pass, `free` or `paid`; no other answer has it. */
const PASS = "X-402-Pass";
/** Names a pass in the report about it. */
export const REPORT = "X-402-Report";
/** Names the answer that is fetched. */
export const HELD = "X-402-Answer";

/** Methods that change nothing, so that asking once more has the same to offer. */
const REPEATABLE: ReadonlySet<string> = new Set(["GET", "HEAD"]);
const EMPTY_HASH = createHash("sha256").digest("hex");

/** How a proxy is answered, and what a payment is sold for. */
export interface Manner {
  /** `final`: the proxy passes the answer on, whatever it is, and nothing passes. */
  readonly answers: Dialect["answers"] | "final";
  readonly held: HeldAnswers;
  /** Null where nobody reports. */
  readonly passes: Passes | null;
  /** Whether the same client may ask for the same once more. */
  readonly isRepeatable: boolean;
}

export interface CheckTerms {
  readonly manner: Manner;
  /** The same payment is being looked at for another request. */
  readonly isBeside: boolean;
}

export class CheckVisitor implements Visitor {
  speech = null;
  readonly id: string;
  readonly request: OriginalRequest;
  trace: RequestTrace | null = null;
  entry: TimelineEntry | null = null;
  access: AccessNote | null = null;
  /** A place is held for the proxy, never for its client. */
  readonly stalledMs = 0;
  /** The body is the proxy's to wait for. */
  readonly isLate = false;
  readonly replaying: Replaying | null;
  readonly #response: InboundResponse;
  readonly #manner: Manner;
  readonly #told: AlwaysTold;

  constructor(
    request: OriginalRequest,
    response: InboundResponse,
    { manner, isBeside }: CheckTerms,
    { ids, told }: Pick<VisitorGround, "ids" | "told">,
  ) {
    this.id = ids.nameOf(ids.next());
    this.#told = told;
    this.request = request;
    this.#response = response;
    this.#manner = manner;
    // Whoever asks again because an answer was bad asks after it.
    this.replaying = isBeside ? null : this.#replaying();
  }

  answer(answer: Answer): void {
    const { status, lines, body, bytes } = answer;
    // The connection is that of the proxy, and none of the client's affair.
    const own = lines.filter((_, index) => lines[index - (index % 2)] !== "Connection");
    const all = headOf({ ...answer, lines: own }, this, this.#told);
    if (body !== null) all.push("Content-Type", answer.type ?? JSON_TYPE);
    const { answers, held } = this.#manner;
    const full = { status, lines: all, body, ...(bytes && { bytes }) };
    if (answers === "held") {
      this.#write({ status: 401, lines: [HELD, held.hold(full)], body: null });
    } else if (answers === "refusal" && status < 300) this.#write(UNDELIVERABLE);
    else this.#write(full);
  }

  /** Whether the backend is there is the proxy's to know. */
  refusal(): Unanswered | null {
    return null;
  }

  async forward(_engine: Engine, passage: Passage): Promise<Delivery> {
    if (this.isGone()) return { kind: "abandoned", status: null, sent: false };
    if (this.#manner.answers === "final") {
      this.#write(NOT_HERE);
      return { kind: "delivered", status: NOT_HERE.status, upstreamMs: 0 };
    }
    const { sale } = passage;
    const { passes } = this.#manner;
    const pass = sale === null ? null : (passes?.open() ?? null);
    const lines = this.#passLines(passage);
    if (pass !== null) lines.push(REPORT, pass.id);
    this.#write({ status: 200, lines, body: null });
    const status = pass === null ? 200 : await pass.status;
    const kept = sale === null ? {} : this.#keep(lines);
    return { kind: "delivered", status, upstreamMs: 0, ...kept };
  }

  evict(): void {
    this.#response.destroy();
  }

  isGone(): boolean {
    return this.#response.destroyed || this.request.socket.destroyed;
  }

  onGone(listener: () => void): () => void {
    return onResponseGone(this.#response, listener);
  }

  onReset(): void {
    // The connection is the proxy's: it says nothing of the client.
  }

  /** What the proxy sets for its backend, then what it sets for its client. */
  #passLines({ requestHeaders, responseSet, responseAdded, sale }: Passage): string[] {
    const lines = [PASS, sale === null ? "free" : "paid", ...requestHeaders, ...responseSet];
    lines.push(...responseAdded);
    const links = valuesOf(lines, "link");
    // Proxies pass one line of a name on.
    if (links.length > 1)
      return this.#withKey([...without(lines, "link"), "Link", links.join(", ")], sale);
    return this.#withKey(lines, sale);
  }

  #withKey(lines: string[], sale: Passage["sale"]): string[] {
    const key = valueOf(this.request.rawHeaders, "idempotency-key") ?? sale?.idempotencyKey;
    if (key !== undefined) lines.push("Idempotency-Key", key);
    return lines;
  }

  /** In place of the backend's answer, which is never seen here: the pass. */
  #keep(lines: readonly string[]): { readonly kept?: Sold } {
    const { isRepeatable } = this.#manner;
    if (!isRepeatable || !REPEATABLE.has(this.request.method)) return {};
    const headers: [string, string][] = [];
    for (let index = 0; index < lines.length; index += 2) {
      headers.push([lines[index] ?? "", lines[index + 1] ?? ""]);
    }
    const response = { status: 200, headers, body: new Uint8Array() };
    return { kept: { bodyHash: EMPTY_HASH, response } };
  }

  #replaying(): Replaying {
    return {
      readBodyHash: () => Promise.resolve(EMPTY_HASH),
      replay: (kept: StoredResponse, to) => {
        const sent = whenSent(this.#response);
        this.#write({ status: kept.status, lines: toldAgain(kept, to), body: null });
        return sent;
      },
    };
  }

  #write(answer: Answer): void {
    writeAnswer(this.#response, answer);
  }
}

/** All lines but those of a name in lower case. */
function without(lines: readonly string[], name: string): string[] {
  return lines.filter((_, index) => lines[index - (index % 2)]?.toLowerCase() !== name);
}

/** Hands an answer to the proxy as it is. */
export function writeAnswer(
  response: InboundResponse,
  { status, lines, body, bytes }: Pick<Answer, "status" | "lines" | "body" | "bytes">,
): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const sent = bytes ?? Buffer.from(body ?? "");
  const length = status === 204 ? [] : ["Content-Length", String(sent.length)];
  response.writeHead(status, [...lines, ...length]);
  response.end(sent);
}

const JSON_LINES = ["Content-Type", "application/json", "Cache-Control", "no-store"];

const UNDELIVERABLE: Answer = {
  status: 403,
  lines: JSON_LINES,
  body: JSON.stringify({
    error: "the proxy would take this answer for leave to pass: lead such requests to /answer",
  }),
};

const NOT_HERE: Answer = {
  status: 404,
  lines: JSON_LINES,
  body: JSON.stringify({ error: "only what needs no backend is answered here" }),
};
