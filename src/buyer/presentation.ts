/**
 * Presents one signed payment until it is known what became of it. The same payment is sent again where an
 * answer was lost or asks for that; a second one is never signed here, so nothing is charged twice.
 */
import { systemTime, type Time } from "../time/time.ts";
import { AnswerChanged, type BoughtAnswerSink } from "./answer-sink.ts";
import {
  exchange,
  NoAnswer,
  readBody,
  type BuyerAnswer,
  type BuyerRequest,
  type PaymentHeader,
} from "./exchange.ts";
import { MAX_QUOTE_BYTES, parseJson, readHeaderJson } from "./offer.ts";
import { readReceipt, type PaymentReceipt } from "./receipt.ts";
import { helpOf, locationOf, MAX_REDIRECTS, redirected } from "./redirect.ts";
import { PAYMENT_REQUIRED_HEADER, RECEIPT_HEADERS } from "../x402/header.ts";
import { isRecord } from "../x402/json.ts";
import { messageOf } from "../x402/result.ts";
import { SETTLEMENT_PENDING } from "../x402/version-2.ts";

/** Pauses before the same payment is sent again, milliseconds; then it is given up. */
export const PAUSES_MS = [1_000, 3_000, 6_000, 12_000] as const;
/** Longest that a `Retry-After` is obeyed, milliseconds. */
const MAX_RETRY_AFTER_MS = 30_000;
/** Longest sentence of a seller that is told, characters. */
const MAX_REASON = 500;
/** The most that is read of an answer for that sentence, where its body goes to the sink, bytes. */
const MAX_HEARD_BYTES = 64 * 1024;
/** Statuses that say: not now. Those of servers (5xx) do, too. */
const NOT_NOW: ReadonlySet<number> = new Set([408, 425, 429]);
/** Statuses that say of a payment: not this one. Sent again it brings nothing. */
const NOT_THIS: ReadonlySet<number> = new Set([402, 409]);

export interface PresentOptions {
  readonly request: BuyerRequest;
  readonly payment: PaymentHeader;
  readonly sink: BoughtAnswerSink;
  /** Told the head of an answer before its body goes to the sink; once for each. */
  readonly onHead: (answer: BuyerAnswer) => Promise<void>;
  /** Told before each repetition. */
  readonly onRepeat: (reason: string, pauseMs: number) => void;
  /** Longest silence of the server, milliseconds. */
  readonly silenceMs: number;
  /** Default: the real one. */
  readonly time?: Time;
  /** Ends it: what is not known then stays unknown. */
  readonly signal: AbortSignal;
  /** It was sent before, so that it may be paid for, whatever an answer says now. */
  readonly wasSent?: boolean;
  /**
   * Redirects are followed: within the origin with the payment, and once it is paid for, to others without it and
   * without the buyer's headers.
   */
  readonly follow?: boolean;
}

/**
 * - `served`: the answer went to the sink.
 * - `redirected`: paid, and the answer leads elsewhere and was not followed.
 * - `refused`: the seller says that nothing was settled, and nothing speaks against it.
 * - `unserved`: paid, or perhaps paid, and there is no whole answer. The payment is worth keeping.
 */
export interface PresentedOnce {
  readonly kind: "served" | "redirected" | "refused" | "unserved";
  /** Of the last answer; null where there was none. */
  readonly status: number | null;
  /** The last that was received: a success outlives whatever follows. */
  readonly receipt: PaymentReceipt | null;
  /** A sentence; "" for what was served. */
  readonly reason: string;
  /** Where the last redirect leads; null: there was none. */
  readonly location: string | null;
  /** Where the seller says that buyers are helped; null: it does not. */
  readonly help: string | null;
  /** The seller does not take this payment any more: sent again it brings nothing. */
  readonly isOver: boolean;
}

/** Never rejects for what a server does; whatever the sink throws of itself is passed on. */
export async function present(options: PresentOptions): Promise<PresentedOnce> {
  const presentation = new Presentation(options);
  for (const pauseMs of [...PAUSES_MS, null]) {
    const outcome = await presentation.attempt(pauseMs === null);
    if (outcome !== null) return outcome;
    if (pauseMs !== null) await presentation.pause(pauseMs);
    if (options.signal.aborted) break;
  }
  return presentation.givenUp();
}

class Presentation {
  readonly #options: PresentOptions;
  #request: BuyerRequest;
  /** Null from where it is not taken along. */
  #payment: PaymentHeader | null;
  #redirects = 0;
  #location: string | null = null;
  #help: string | null = null;
  /** An earlier attempt may have been taken without our hearing of it. */
  #mayBePaid: boolean;
  #receipt: PaymentReceipt | null = null;
  #status: number | null = null;
  #reason = "";
  #retryAfterMs = 0;

  constructor(options: PresentOptions) {
    this.#options = options;
    this.#request = options.request;
    this.#payment = options.payment;
    this.#mayBePaid = options.wasSent === true;
  }

  /** Null: to be tried again. */
  async attempt(isLast: boolean): Promise<PresentedOnce | null> {
    this.#retryAfterMs = 0;
    const { silenceMs, signal } = this.#options;
    const payment = this.#payment;
    let answer: BuyerAnswer;
    try {
      const limits = { silenceMs, signal };
      answer = await exchange(this.#request, payment === null ? limits : { ...limits, payment });
    } catch (cause) {
      if (!(cause instanceof NoAnswer)) throw cause;
      this.#mayBePaid ||= cause.mayHaveArrived;
      this.#reason = cause.message;
      return null;
    }
    this.#status = answer.status;
    // Whoever is asked without the payment has nothing to say of it.
    const isPending = payment !== null && this.#take(payment, answer);
    if (answer.status === 402 && !isPending) {
      // It was not settled, unless an earlier attempt was.
      this.#reason = await errorOf(answer);
      const isPaid = this.#receipt?.success === true;
      const isDoubtful = this.#mayBePaid && this.#receipt?.success !== false;
      return this.#end(isPaid || isDoubtful ? "unserved" : "refused");
    }
    const location = locationOf(this.#request, answer);
    if (location !== null) return this.#redirected(answer, location, isLast);
    if (answer.status < 400) {
      const { sink, onHead } = this.#options;
      this.#mayBePaid = true;
      await onHead(answer);
      const cut = await takeAll(sink, answer);
      if (cut === null) {
        this.#reason = "";
        return this.#end("served");
      }
      this.#reason = cut.message;
      return cut instanceof AnswerChanged ? this.#end("unserved") : null;
    }
    if (isPending || isNotNow(answer)) {
      this.#mayBePaid = true;
      // Seconds only: a date would need the seller's clock.
      const text = answer.header("retry-after");
      const seconds = /^\d{1,6}$/.test(text) ? Number(text) : 0;
      this.#retryAfterMs = Math.min(seconds * 1_000, MAX_RETRY_AFTER_MS);
      if (!isLast) {
        this.#reason = await errorOf(answer);
        return null;
      }
    }
    return this.#faulty(answer);
  }

  /** A payment is for the origin that named its price, and goes to no other. */
  async #redirected(
    answer: BuyerAnswer,
    location: string,
    isLast: boolean,
  ): Promise<PresentedOnce | null> {
    const { follow = false, sink, onHead } = this.#options;
    this.#location = location;
    const isPaid = this.#receipt?.success === true;
    const next = redirected(this.#request, answer, location);
    const isHere = next.ok && next.value.url.origin === this.#request.url.origin;
    const isTooFar = this.#redirects >= MAX_REDIRECTS;
    if (follow && next.ok && (isHere || isPaid) && !isTooFar) {
      answer.drop();
      this.#redirects += 1;
      this.#request = next.value;
      if (!isHere) this.#payment = null;
      return this.attempt(isLast);
    }
    if (!isPaid) {
      answer.drop();
      this.#reason = isHere
        ? `${answer.status}: redirected within the seller's own place, and nothing tells that it was paid`
        : `${answer.status}: redirected elsewhere, where no payment is taken; ask that address for its own price`;
      return this.#end(this.#mayBePaid ? "unserved" : "refused");
    }
    await onHead(answer);
    await takeAll(sink, answer);
    this.#reason = isTooFar ? `more than ${MAX_REDIRECTS} redirects` : next.ok ? "" : next.error;
    return this.#end("redirected");
  }

  /** Whether it says that the payment was sent and nobody knows yet: sellers say so in a 402 as well. */
  #take({ version }: PaymentHeader, answer: BuyerAnswer): boolean {
    this.#help = helpOf(this.#request, answer) ?? this.#help;
    const receipt = readReceipt(answer.header(RECEIPT_HEADERS[version].toLowerCase()));
    if (receipt?.errorReason === SETTLEMENT_PENDING && receipt.transaction !== "") return true;
    if (receipt !== null && this.#receipt?.success !== true) this.#receipt = receipt;
    return false;
  }

  async pause(pauseMs: number): Promise<void> {
    const { time = systemTime, signal, onRepeat } = this.#options;
    if (signal.aborted) return;
    const longer = Math.max(pauseMs, this.#retryAfterMs);
    onRepeat(this.#reason, longer);
    await time.sleep(longer, signal);
  }

  givenUp(): PresentedOnce {
    // What never left is no payment: the seller has seen nothing of it.
    const isKnown = !this.#mayBePaid && this.#status === null;
    return this.#end(isKnown ? "refused" : "unserved");
  }

  /** An answer with an error is passed on: where it was paid for, it is what was bought. */
  async #faulty(answer: BuyerAnswer): Promise<PresentedOnce> {
    const { sink, onHead } = this.#options;
    if (sink.written === 0) {
      await onHead(answer);
      const heard = new Heard(answer.body);
      const cut = await takeAll(sink, answer, heard);
      this.#reason = sentenceOf(answer, heard.bytes);
      if (cut !== null) this.#reason += `, and was cut: ${cut.message}`;
    } else this.#reason = await errorOf(answer);
    const isSettled = this.#receipt?.success === true || this.#mayBePaid;
    return this.#end(isSettled ? "unserved" : "refused");
  }

  #end(kind: PresentedOnce["kind"]): PresentedOnce {
    const isOver = kind !== "served" && this.#payment !== null && NOT_THIS.has(this.#status ?? 0);
    return {
      kind,
      status: this.#status,
      receipt: this.#receipt,
      reason: this.#reason,
      location: this.#location,
      help: this.#help,
      isOver,
    };
  }
}

function isNotNow({ status }: BuyerAnswer): boolean {
  return status >= 500 || NOT_NOW.has(status);
}

/** What cut the answer, or null. Faults of the sink itself are thrown. */
async function takeAll(
  sink: BoughtAnswerSink,
  answer: BuyerAnswer,
  body = answer.body,
): Promise<Error | null> {
  try {
    await sink.take(tagged(body));
    return null;
  } catch (cause) {
    answer.drop();
    if (cause instanceof Cut || cause instanceof AnswerChanged) return cause;
    throw cause;
  }
}

class Cut extends Error {
  override readonly name = "Cut";
}

/** Tells what the network does from what the sink does. */
async function* tagged(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const parts = body[Symbol.asyncIterator]();
  try {
    for (;;) {
      let next: IteratorResult<Uint8Array>;
      try {
        next = await parts.next();
      } catch (cause) {
        const reason = messageOf(cause);
        throw new Cut(`the answer was cut (${reason})`);
      }
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    // Whoever has enough of it leaves the connection.
    await parts.return?.();
  }
}

/** A body that goes on to somebody else, and the beginning of it. */
export class Heard implements AsyncIterable<Uint8Array> {
  readonly #body: AsyncIterable<Uint8Array>;
  readonly #parts: Uint8Array[] = [];
  #room = MAX_HEARD_BYTES;

  constructor(body: AsyncIterable<Uint8Array>) {
    this.#body = body;
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#parts);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for await (const part of this.#body) {
      if (this.#room > 0) this.#parts.push(part.subarray(0, this.#room));
      this.#room -= Math.min(this.#room, part.length);
      yield part;
    }
  }
}

/** The answer's own sentence on what is wrong, as far as there is one. */
async function errorOf(answer: BuyerAnswer): Promise<string> {
  try {
    const body = await readBody(answer, MAX_QUOTE_BYTES);
    return sentenceOf(answer, body ?? Buffer.alloc(0));
  } catch {
    return sentenceOf(answer, Buffer.alloc(0));
  }
}

/** The same of a body that was read, or of as much of it as was. */
export function sentenceOf(answer: BuyerAnswer, body: Uint8Array): string {
  const quoted = readHeaderJson(answer.header(PAYMENT_REQUIRED_HEADER.toLowerCase()));
  const said = [parseJson(body), quoted]
    .flatMap((json) => (isRecord(json) ? [json["error"], json["detail"], json["message"]] : []))
    .find((each): each is string => typeof each === "string" && each !== "");
  if (said === undefined) return `the answer is ${answer.status}`;
  return `${answer.status}: ${said.slice(0, MAX_REASON).toWellFormed()}`;
}
