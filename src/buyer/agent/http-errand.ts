/** A call of plain HTTP: any method, with or without a body. Redirects are told and never followed. */
import { messageOf, err, ok, type Result } from "../../x402/result.ts";
import { PAYMENT_REQUIRED_HEADER } from "../../x402/header.ts";
import { SESSION_HEADER } from "../../x402/session.ts";
import { BoughtAnswerSink } from "../answer-sink.ts";
import { exchange, NoAnswer, readBody, type BuyerAnswer, type BuyerRequest } from "../exchange.ts";
import { MAX_QUOTE_BYTES, readQuote } from "../offer.ts";
import { placeOf } from "../place.ts";
import { present } from "../presentation.ts";
import { chargedBy } from "../receipt.ts";
import { locationOf } from "../redirect.ts";
import type {
  AskFault,
  Errand,
  FirstAnswer,
  ErrandOutcome,
  PresentingOptions,
  SignedInAnswer,
} from "./errand.ts";
import { AnswerPot, type ToldAnswer } from "./told-answer.ts";

export class HttpErrand implements Errand {
  readonly what: string;
  readonly session = null;
  readonly parts: readonly string[];
  readonly #request: BuyerRequest;
  readonly #silenceMs: number;

  /** @param silenceMs longest silence of the seller, milliseconds */
  constructor(request: BuyerRequest, silenceMs: number) {
    const { method, url, headers, body } = request;
    this.#request = request;
    this.#silenceMs = silenceMs;
    this.what = `${method} ${placeOf(url)}`;
    const lines = headers.map(([name, value]) => `${name.toLowerCase()}: ${value}`).sort();
    this.parts = ["http", method, url.href, JSON.stringify(lines), body?.toString("base64") ?? ""];
  }

  get url(): URL {
    return this.#request.url;
  }

  async ask(signal: AbortSignal): Promise<Result<FirstAnswer, AskFault>> {
    try {
      const answer = await exchange(this.#request, { silenceMs: this.#silenceMs, signal });
      if (answer.status === 402) {
        const price = await this.#price(answer);
        return price.ok ? price : err({ reason: price.error, isAway: false });
      }
      const told = await toldOf(answer);
      return ok({ kind: "answer", answer: told, location: locationOf(this.#request, answer) });
    } catch (cause) {
      return err({ reason: messageOf(cause), isAway: true });
    }
  }

  async #price(answer: BuyerAnswer): Promise<Result<FirstAnswer, string>> {
    const body = await readBody(answer, MAX_QUOTE_BYTES);
    if (body === undefined) return err(`the 402 answer is larger than any price`);
    const header = answer.header(PAYMENT_REQUIRED_HEADER.toLowerCase());
    const quote = readQuote({ header, body });
    return quote.ok ? ok({ kind: "price", quote: quote.value }) : quote;
  }

  async present({ payment, wasSent, signal }: PresentingOptions): Promise<ErrandOutcome> {
    const pot = new AnswerPot();
    let last: BuyerAnswer | null = null;
    const presented = await present({
      request: this.#request,
      payment,
      sink: new BoughtAnswerSink(pot.write, () => pot.isEnough),
      onHead: async (answer) => void (last = answer),
      onRepeat: () => undefined,
      silenceMs: this.#silenceMs,
      signal,
      wasSent,
    });
    const neverLeft = presented.kind === "refused" && presented.status === null;
    return { ...presented, neverLeft, answer: last && tellHead(last, pot) };
  }

  readonly askSignedIn = async (session: string, signal: AbortSignal): Promise<SignedInAnswer> => {
    const headers = [...this.#request.headers, [SESSION_HEADER, session] as const];
    let answer: BuyerAnswer | undefined;
    try {
      answer = await exchange(
        { ...this.#request, headers },
        { silenceMs: this.#silenceMs, signal },
      );
      if (answer.status === 402) {
        const price = await this.#price(answer);
        const said = price.ok && price.value.kind === "price" ? price.value.quote.error : "";
        return { kind: "price", reason: said };
      }
      return { kind: "answer", answer: await toldOf(answer), charged: chargedBy(answer) };
    } catch (cause) {
      const neverLeft = cause instanceof NoAnswer && !cause.mayHaveArrived;
      return { kind: "lost", reason: messageOf(cause), neverLeft };
    }
  };

  async [Symbol.asyncDispose](): Promise<void> {
    // Each request has a connection of its own.
  }
}

/** @throws when the body is cut */
async function toldOf(answer: BuyerAnswer): Promise<ToldAnswer> {
  const pot = new AnswerPot();
  for await (const part of answer.body) {
    await pot.write(part);
    if (pot.isEnough) break;
  }
  return tellHead(answer, pot);
}

function tellHead(answer: BuyerAnswer, pot: AnswerPot): ToldAnswer {
  return pot.told(answer.status, answer.header("content-type"));
}
