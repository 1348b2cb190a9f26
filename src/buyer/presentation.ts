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
import { PAYMENT_REQUIRED_HEADER, RECEIPT_HEADERS } from "../x402/header.ts";
import { isRecord } from "../x402/json.ts";
import { messageOf } from "../x402/result.ts";
import { SETTLEMENT_PENDING } from "../x402/version-2.ts";

/** Pauses before the same payment is sent again, milliseconds; then it is given up. */
const PAUSES_MS = [1_000, 3_000, 6_000, 12_000] as const;
/** Longest that a `Retry-After` is obeyed, milliseconds. */
const MAX_RETRY_AFTER_MS = 30_000;
/** Longest sentence of a seller that is told, characters. */
const MAX_REASON = 500;
/** Statuses that say: not now. Those of servers (5xx) do, too. */
const NOT_NOW: ReadonlySet<number> = new Set([408, 425, 429]);

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
}

/**
 * - `served`: the answer went to the sink.
 * - `refused`: the seller says that nothing was settled, and nothing speaks against it.
 * - `unserved`: paid, or perhaps paid, and there is no whole answer. The payment is worth keeping.
 */
export interface PresentedOnce {
  readonly kind: "served" | "refused" | "unserved";
  /** Of the last answer; null where there was none. */
  readonly status: number | null;
  /** The last that was received: a success outlives whatever follows. */
  readonly receipt: PaymentReceipt | null;
  /** A sentence; "" for what was served. */
  readonly reason: string;
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
  /** An earlier attempt may have been taken without our hearing of it. */
  #mayBePaid = false;
  #receipt: PaymentReceipt | null = null;
  #status: number | null = null;
  #reason = "";
  #retryAfterMs = 0;

  constructor(options: PresentOptions) {
    this.#options = options;
  }

  /** Null: to be tried again. */
  async attempt(isLast: boolean): Promise<PresentedOnce | null> {
    this.#retryAfterMs = 0;
    const { request, payment, silenceMs, signal } = this.#options;
    let answer: BuyerAnswer;
    try {
      answer = await exchange(request, { payment, silenceMs, signal });
    } catch (cause) {
      if (!(cause instanceof NoAnswer)) throw cause;
      this.#mayBePaid ||= cause.mayHaveArrived;
      this.#reason = cause.message;
      return null;
    }
    this.#status = answer.status;
    const receipt = readReceipt(answer.header(RECEIPT_HEADERS[payment.version].toLowerCase()));
    const isPending = this.#take(receipt);
    if (answer.status === 402 && !isPending) {
      // It was not settled, unless an earlier attempt was.
      this.#reason = await errorOf(answer);
      const isPaid = this.#receipt?.success === true;
      const isDoubtful = this.#mayBePaid && this.#receipt?.success !== false;
      return this.#end(isPaid || isDoubtful ? "unserved" : "refused");
    }
    if (answer.status < 400) {
      const { sink, onHead } = this.#options;
      const isRedirect = answer.status >= 300 && answer.header("location") !== "";
      if (isRedirect && this.#receipt?.success !== true) {
        // A payment is for the address that named its price: it is taken nowhere else.
        answer.drop();
        this.#reason = `${answer.status}: redirected elsewhere, where no payment is taken; ask that address for its own price`;
        return this.#end(this.#mayBePaid ? "unserved" : "refused");
      }
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

  /** Whether it says that the payment was sent and nobody knows yet: sellers say so in a 402 as well. */
  #take(receipt: PaymentReceipt | null): boolean {
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
    this.#reason = `the answer is ${answer.status}`;
    if (sink.written === 0) {
      await onHead(answer);
      const cut = await takeAll(sink, answer);
      if (cut !== null) this.#reason += `, and was cut: ${cut.message}`;
    } else answer.drop();
    const isSettled = this.#receipt?.success === true || this.#mayBePaid;
    return this.#end(isSettled ? "unserved" : "refused");
  }

  #end(kind: PresentedOnce["kind"]): PresentedOnce {
    return { kind, status: this.#status, receipt: this.#receipt, reason: this.#reason };
  }
}

function isNotNow({ status }: BuyerAnswer): boolean {
  return status >= 500 || NOT_NOW.has(status);
}

/** What cut the answer, or null. Faults of the sink itself are thrown. */
async function takeAll(sink: BoughtAnswerSink, answer: BuyerAnswer): Promise<Error | null> {
  try {
    await sink.take(tagged(answer.body));
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
}

/** The seller's own sentence, as far as there is one. */
async function errorOf(answer: BuyerAnswer): Promise<string> {
  const fallback = `the answer is ${answer.status}`;
  try {
    const body = await readBody(answer, MAX_QUOTE_BYTES);
    const quoted = readHeaderJson(answer.header(PAYMENT_REQUIRED_HEADER.toLowerCase()));
    const error = [body && parseJson(body), quoted]
      .map((json) => (isRecord(json) ? json["error"] : undefined))
      .find((each): each is string => typeof each === "string" && each !== "");
    return error === undefined ? fallback : `${answer.status}: ${error.slice(0, MAX_REASON)}`;
  } catch {
    return fallback;
  }
}
