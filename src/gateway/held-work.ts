/**
 * What a backend does before its payment is settled (`settle: after`), and what becomes of its answer: it is held, and
 * given to its buyer once that is paid, or without any payment where it is no goods.
 */
import { MAX_STORED_BODY_BYTES, type StoredResponse } from "../ledger/ledger.ts";
import type { Sold, WantedWork, Worked } from "../payments/sale/admission.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { errorAnswer, upstreamAnswer, type OwnAnswer } from "./answers.ts";
import { shownIn } from "./decision.ts";
import {
  deliveryNote,
  leftUnanswered,
  AnsweredSale,
  unserved,
  type PricedVisit,
} from "./delivery.ts";
import type { RequestEnding } from "./ending.ts";
import { HeldResponse, MAX_HELD_BYTES, type HeldBytes, type NotHeld } from "./held-response.ts";
import { forward } from "./request-trace.ts";
import type { Passage } from "./upstream/passage.ts";
import type { Delivery, Sale } from "./upstream/upstream.ts";

/** What is answered in place of something that is not held, and what the operator is told. */
const NOT_HELD: Readonly<Record<NotHeld, { readonly status: 502 | 503; readonly detail: string }>> =
  {
    stream: { status: 502, detail: "a stream of events cannot be held until it is paid" },
    "too-large": {
      status: 502,
      detail: `an answer of more than ${MAX_HELD_BYTES} bytes cannot be held until it is paid`,
    },
    crowded: { status: 503, detail: "answers that wait to be paid take all of their room" },
  };

const NOTHING_TAKEN = "the upstream has given no answer that is sold here; nothing was charged";

/** What is sold, and waits for its payment. */
interface HeldGoods {
  /** With its cookies. */
  readonly response: StoredResponse;
  readonly answered: AnsweredSale;
  /** As it may be kept; undefined: it is too large. */
  readonly sold: Sold | undefined;
  readonly upstreamMs: number;
}

/** One request's, for as long as it is served. */
export class HeldWork {
  readonly #visit: PricedVisit;
  readonly #room: HeldBytes;
  readonly #telemetry: Telemetry;
  #response: HeldResponse | null = null;
  #goods: Omit<HeldGoods, "response"> | null = null;
  /** How it is answered where nothing is sold. */
  #end: (() => RequestEnding | Promise<RequestEnding>) | null = null;

  constructor(visit: PricedVisit, room: HeldBytes, telemetry: Telemetry) {
    this.#visit = visit;
    this.#room = room;
    this.#telemetry = telemetry;
  }

  /** Null where it is settled before its backend is asked. */
  static of(visit: PricedVisit, room: HeldBytes, telemetry: Telemetry): HeldWork | null {
    const { visitor, decision } = visit;
    const isFirst = decision.plan.isSettledAfter && visitor.replaying !== null;
    return isFirst ? new HeldWork(visit, room, telemetry) : null;
  }

  /** Null: there are none. */
  get goods(): HeldGoods | null {
    const response = this.#response?.whole ?? null;
    return response && this.#goods && { response, ...this.#goods };
  }

  /** As of {@link GoodsRequest.work}. Never rejects. */
  async work(wanted: WantedWork): Promise<Worked> {
    const { visitor, decision } = this.#visit;
    const step = this.#telemetry.timeline?.beginStep("work");
    const answered = new AnsweredSale(this.#visit, () => wanted.terms);
    const delivery = await this.#ask(wanted, answered);
    const { status } = delivery;
    const isWhole = delivery.kind === "delivered";
    const whole = this.#response?.whole ?? null;
    if (isWhole && whole !== null) this.#visit.decision.conversation?.judgeHeld(whole);
    const isGoods =
      isWhole && answered.isGoods(delivery.status) && !answered.leadsOn(delivery.status);
    step?.end(isGoods, deliveryNote(delivery, GIVEN_UP));
    if (isGoods) {
      const { kept: sold, upstreamMs } = delivery;
      this.#goods = { answered, sold, upstreamMs };
      return { kind: "goods", sold };
    }
    const why = this.#response?.why ?? null;
    const facts = {
      requestId: visitor.id,
      route: decision.plan.label,
      delivery: delivery.kind,
      status,
    };
    this.#telemetry.logger.info({ ...facts, why }, "not sold, and nothing was charged");
    this.#end = () => this.#endOf(delivery, why);
    return { kind: "nothing", isBackends: this.#isBackends(delivery, why) };
  }

  /** The answer to a request whose payment was given back. */
  async end(): Promise<RequestEnding> {
    const { meter } = this.#visit.decision.plan;
    const ending = await this.#end?.();
    return ending ?? { status: 499, outcome: "unsold", meter, upstreamMs: 0 };
  }

  /** It is not needed any more. */
  free(): void {
    this.#response?.free();
    this.#response = null;
  }

  async #ask(
    { payer, network, idempotencyKey }: WantedWork,
    answered: AnsweredSale,
  ): Promise<Delivery> {
    const { visitor, decision, client, lines, help } = this.#visit;
    const { plan } = decision;
    const sale: Sale = {
      idempotencyKey,
      failureLines: [],
      keepBytes: MAX_STORED_BODY_BYTES,
      // Nobody is charged who has left, so nobody needs the rest.
      readOnMs: 0,
      judge: (status, raw) => answered.judge(status, raw),
      refused: () => Promise.resolve(),
    };
    const passage: Passage = {
      client,
      target: decision.target,
      requestHeaders: [
        "X-402-Payer",
        payer,
        "X-402-Network",
        network,
        ...(decision.conversation === undefined ? [] : READABLE),
      ],
      responseSet: [...lines, "Cache-Control", plan.cacheControl],
      responseAdded: ["Vary", shownIn(decision), ...help.lines],
      sale,
    };
    for (let next = passage; ;) {
      const into = this.#anew();
      const delivery = await forward(visitor, plan.engine, { ...next, into });
      if (delivery.kind !== "redirected") return delivery;
      const { followed } = answered;
      const responseSet = [...passage.responseSet, "Content-Location", followed];
      next = { ...passage, target: followed, responseSet };
    }
  }

  #anew(): HeldResponse {
    this.free();
    const { visitor, decision } = this.#visit;
    const { method = "" } = visitor.request;
    const isCall = decision.conversation !== undefined;
    this.#response = new HeldResponse(method, this.#room, isCall);
    return this.#response;
  }

  #isBackends(delivery: Delivery, why: NotHeld | null): boolean {
    if (why !== null || delivery.kind === "broken") return true;
    if (delivery.kind === "unanswered") {
      return leftUnanswered(delivery, this.#visit.visitor).isBackends === true;
    }
    if (delivery.kind !== "delivered") return false;
    const failed = this.#visit.decision.conversation?.left(true);
    return delivery.status >= 500 || failed?.isBackends === true;
  }

  #endOf(delivery: Delivery, why: NotHeld | null): RequestEnding | Promise<RequestEnding> {
    const { visitor, decision, lines } = this.#visit;
    const { meter } = decision.plan;
    const outcome = "unsold";
    if (delivery.kind === "delivered") return this.#passOn(delivery);
    if (delivery.kind === "unanswered") {
      const own: OwnAnswer = { answer: upstreamAnswer(delivery), outcome, meter };
      return unserved(visitor, delivery, own, this.#telemetry);
    }
    const isLeft = delivery.kind === "abandoned" && why === null;
    if (isLeft && visitor.isGone()) return { status: 499, outcome, meter, upstreamMs: 0 };
    const unsold = isLeft ? TOO_LARGE : BROKEN;
    const { status, reason, detail } = why === null ? unsold : { reason: why, ...NOT_HELD[why] };
    const own: OwnAnswer = { answer: errorAnswer(status, NOTHING_TAKEN, lines), outcome, meter };
    return unserved(visitor, { status, reason, detail }, own, this.#telemetry);
  }

  /** As the backend has given it: with no receipt, since nothing was paid. */
  async #passOn({
    status,
    upstreamMs,
  }: {
    status: number;
    upstreamMs: number;
  }): Promise<RequestEnding> {
    const { visitor, decision, lines: cors } = this.#visit;
    const { meter } = decision.plan;
    const response = this.#response?.whole;
    if (response) {
      await visitor.replaying?.replay(response, { cors, receipt: [], vary: shownIn(decision) });
    }
    return { status, outcome: "unsold", meter, upstreamMs };
  }
}

/** What is read has to be readable. */
const READABLE = ["Accept-Encoding", "identity"];
const GIVEN_UP = "its answer was not held, or the buyer left";
const BROKEN = {
  status: 502,
  reason: "broken",
  detail: "the backend's answer broke off",
} as const;
/** He is there, and has broken his own request off while his answer was held. */
const TOO_LARGE = {
  status: 413,
  reason: "too-large",
  detail: "more was sent of the request's body than is taken",
} as const;
