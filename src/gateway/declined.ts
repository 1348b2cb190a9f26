/** Answers to requests that nothing is forwarded or asked for: the exits that have nothing to do with money. */
import type { PaymentOutcome, RouteMeter } from "../telemetry/metrics.ts";
import { errorAnswer, preflightAnswer, type Answer } from "./answers.ts";
import type { Decision, PricedDecision } from "./decision.ts";

export type OtherDecision = Exclude<Decision, PricedDecision | { kind: "free" }>;

/** Answers the discovery listing for a raw query string. */
export type Lister = (query: string) => { readonly status: 200 | 400; readonly body: string };

export interface DeclinedAnswer {
  readonly answer: Answer;
  readonly outcome: PaymentOutcome;
  /** Null: no route of the configuration. */
  readonly meter: RouteMeter | null;
}

/** `cors`: the lines that let a page of another origin read the answer. */
export function declinedAnswer(
  decision: OtherDecision,
  list: Lister,
  cors: () => readonly string[],
): DeclinedAnswer {
  switch (decision.kind) {
    case "rejected": {
      const answer = errorAnswer(decision.status, decision.detail, ["Connection", "close"]);
      return { answer, outcome: "rejected", meter: null };
    }
    case "denied": {
      const said = decision.status === 403 ? "this path is not served" : "not found";
      const answer = errorAnswer(decision.status, said);
      return { answer, outcome: "denied", meter: decision.meter };
    }
    case "method-not-allowed": {
      const answer = errorAnswer(405, "method not allowed", ["Allow", decision.allow]);
      return { answer, outcome: "denied", meter: null };
    }
    case "server-options":
      return { answer: { status: 204, lines: [], body: null }, outcome: "free", meter: null };
    case "preflight":
      return { answer: preflightAnswer(cors(), decision), outcome: "free", meter: null };
    case "listing": {
      const { status, body } = list(decision.query);
      return { answer: { status, lines: cors(), body }, outcome: "free", meter: null };
    }
  }
}
