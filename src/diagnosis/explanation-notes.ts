/** What is worth knowing about an explained request beside its answer. */
import { METHODS } from "node:http";
import { PUBLISHED_PATHS, waysText, type Config } from "../config/config.ts";
import { TOLD_AT_RUN_TIME, type DryOutcome } from "./dry-gateway.ts";

export interface Noted {
  readonly method: string;
  /** Path and query as sent. */
  readonly target: string;
  readonly outcome: DryOutcome;
}

/** Sentences without a final period. */
export function notesOn(config: Config, noted: Noted): readonly string[] {
  const ways = notesOnWays(config, noted);
  const others = [...notesOnMethod(noted), ...notesOnPayment(noted)];
  return [...others, ...ways, ...notesOnFeePayers(config, noted)];
}

/** Who has it without paying for it, and how. */
function notesOnWays(config: Config, { outcome: { route } }: Noted): readonly string[] {
  return route?.action.kind === "priced" ? waysText(route, route.action, config) : [];
}

function notesOnMethod({ method, target, outcome }: Noted): readonly string[] {
  const { decision, answer } = outcome;
  if (!METHODS.includes(method)) {
    return [`${method} is no method that the HTTP parser takes: HTTP/1.1 clients get a bare 400`];
  }
  if (method === "HEAD" && answer !== null && answer.body !== "") {
    return ["to HEAD only the head is sent; the body is what GET would get"];
  }
  if (method === "OPTIONS" && decision.kind !== "preflight" && target !== "*") {
    return ["no preflight: that one has Origin and Access-Control-Request-Method (--preflight)"];
  }
  return [];
}

function notesOnPayment({ outcome }: Noted): readonly string[] {
  const { decision } = outcome;
  const { kind } = decision;
  if (kind === "listing" && decision.path === PUBLISHED_PATHS.listed) {
    return ["a running gateway knows when each entry changed"];
  }
  const isAfter =
    "plan" in decision && decision.plan.kind === "priced" && decision.plan.isSettledAfter;
  if (kind === "challenge" && isAfter) {
    return [
      "`settle: after`: the backend answers first, and only what is goods is charged and given",
    ];
  }
  if (kind !== "presented") return [];
  const what = isAfter
    ? "verified, the backend asked, and what is goods settled"
    : "verified and settled";
  return [`the payment would now be ${what}; that takes a running gateway`];
}

/** Those that the file alone does not tell. */
function notesOnFeePayers({ facilitator }: Config, { outcome }: Noted): readonly string[] {
  const { decision } = outcome;
  if (decision.kind !== "challenge" && decision.kind !== "malformed") return [];
  const accepts = decision.plan.offers.accepts(decision.resource);
  const later = accepts.filter(({ extra }) => extra?.["feePayer"] === TOLD_AT_RUN_TIME);
  const places = [...new Set(later.map(({ network }) => network))].join(" and ");
  const told =
    `who pays the network fee on ${places} is told by the facilitator: a running gateway has an address ` +
    `in place of ${TOLD_AT_RUN_TIME}, and leaves the offer out until it knows one`;
  const several = facilitator.embedded.filter(
    ({ kind, network, signers }) =>
      kind === "solana" && signers.length > 1 && accepts.some((each) => each.network === network),
  );
  const first = several.map(
    ({ network }) =>
      `extra.feePayer on ${network} is our first account; a running gateway names another one of ours ` +
      "where that one runs low",
  );
  return places === "" ? first : [told, ...first];
}
