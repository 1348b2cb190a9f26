/** What is remembered of a request, and what the ledger says of its payment -> what the operator's page shows. */
import type { PaymentDetail, PaymentSummary } from "../ledger/books.ts";
import {
  BUYER_LEFT,
  type RequestEnd,
  type TimelineHead,
  type TimelineStep,
  type StepName,
  type TimelineRecord,
} from "../telemetry/timeline.ts";
import type { PaymentOutcome } from "../telemetry/metrics.ts";
import type { FactView, RequestView, StageView } from "../web/requests-view.ts";
import { formatAmount, parseUint256 } from "../x402/amount.ts";
import { explorerLink, findNetwork } from "../x402/network.ts";
import {
  adviceOn,
  adviceOnRequest,
  needsOperator,
  needsOperatorFor,
  STATE_CODE,
} from "./advice.ts";
import { viewOf, type PaymentView, type Tokens } from "./payment-view.ts";
import { isAddress } from "./timeline-filter.ts";

/** Longest text of a client, a facilitator or a backend that is shown, characters. */
const MAX_SHOWN = 240;
/** Parameters of a query that are shown, and the longest value of one, characters: what is longer may be a key. */
const MAX_PARAMETERS = 12;
const MAX_VALUE = 40;
/** The part of a query that is looked at, characters. */
const MAX_QUERY = 1_000;
/** Names of parameters whose values are nobody's business. */
const SECRET =
  /token|secret|signature|passw|pwd|authori[sz]|session|credential|(?:api|access|private)[-_.]?key|(?:^|[-_.])(?:key|sig|auth|pin|otp|jwt|code|state|nonce|mail|email|phone)(?:$|[-_.])/i;

/** A request with what belongs to it. */
export interface Known {
  readonly record: TimelineRecord;
  /** The request that the buyer was answered 402 before; null where it is not known. */
  readonly question: TimelineRecord | null;
  /** Null where the ledger has no such payment, or not any more. */
  readonly payment: KnownPayment | null;
}

/** Its submission is known only where the outcome is not. */
export type KnownPayment = PaymentSummary & Partial<Pick<PaymentDetail, "submission">>;

/** By what and when it is looked at. */
export interface ViewGround {
  readonly tokens: Tokens;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
}

const OUTCOMES: Readonly<Record<PaymentOutcome, string>> = {
  free: "free",
  shadow: "would have been asked to pay",
  "shadow-paid": "would have paid",
  denied: "not served",
  rejected: "refused unread",
  challenged: "asked to pay",
  limited: "over the limit",
  malformed: "unreadable payment",
  refused: "payment refused",
  unavailable: "no payment taken",
  unknown: "outcome not known yet",
  paid: "paid and delivered",
  credits: "paid from a balance",
  member: "known, and not asked to pay",
  pass: "had by an earlier purchase",
  quota: "had before the price begins",
  replayed: "kept answer given again",
  undelivered: "paid, not delivered",
  unsold: "nothing to sell, not charged",
};
const GOOD: ReadonlySet<PaymentOutcome> = new Set([
  "paid",
  "credits",
  "member",
  "pass",
  "quota",
  "replayed",
]);
const QUIET: ReadonlySet<PaymentOutcome> = new Set(["challenged", "free", "shadow"]);

export function viewOfRequest(known: Known, head: TimelineHead, reading: ViewGround): RequestView {
  const { record, payment } = known;
  const { tokens } = reading;
  const { end, error } = record;
  const view = payment === null ? null : viewOf(payment, tokens);
  return {
    id: record.id,
    at: new Date(record.atMs).toISOString(),
    title: clipped(`${head.method} ${head.path}`),
    query: shownQuery(head.target),
    ...saleOf(head, view, tokens),
    needsOperator: isWaiting(known, reading),
    ...endingOf(record),
    stages: stagesOf(known, head),
    error: error === null || end?.outcome === "challenged" ? null : clipped(withoutUrls(error)),
    advice: adviceOf(known, reading),
    payload: payloadOf(head, payment === null ? record : { ...record, key: null }, tokens),
    ledger: view === null ? [] : ledgerFacts(view),
  };
}

type Sale = Pick<RequestView, "amount" | "payer" | "isPayerKnown">;

/** Of what was presented, and what the ledger says where it has it. */
function saleOf(
  { presented, asked }: TimelineHead,
  view: PaymentView | null,
  tokens: Tokens,
): Sale {
  if (view !== null) return saleOfPayment(view);
  if (presented === null) return { amount: "", payer: "", isPayerKnown: false };
  const { network, payer, members } = presented;
  const wanted = asked.find((each) => each.network === network);
  const signed = members.find(([name]) => name === "value")?.[1] ?? wanted?.amount;
  const token = wanted && tokens.find(network, wanted.asset);
  const amount = signed === undefined ? "" : `${amountOf(signed, token)} on ${network}`;
  return { amount: clipped(amount), payer: clipped(payer), isPayerKnown: isAddress(payer) };
}

function saleOfPayment(view: PaymentView): Sale {
  const { payer } = view;
  return { amount: amountText(view), payer: clipped(payer), isPayerKnown: isAddress(payer) };
}

/** What stands behind the path, as a person reads it; without values that may be secret. */
function shownQuery(target: string): string {
  const from = target.indexOf("?");
  if (from === -1) return "";
  const parts = target.slice(from + 1, from + 1 + MAX_QUERY).split("&");
  const shown = parts.slice(0, MAX_PARAMETERS).map((part) => {
    const [, name = "", value = ""] = /^([^=]*)=(.*)$/s.exec(part) ?? [];
    if (name === "") return "…";
    const [readName, read] = [readable(name), withoutUrls(readable(value))];
    const isShown = read.length <= MAX_VALUE && readName.length <= MAX_VALUE;
    return `${readName.slice(0, MAX_VALUE)}=${isShown && !SECRET.test(readName) ? read : "…"}`;
  });
  return clipped(`?${shown.join("&")}${parts.length > MAX_PARAMETERS ? "&…" : ""}`);
}

/** Without its escapes, and without what a browser would obey. */
function readable(text: string): string {
  const plain = text.replaceAll("+", " ");
  let decoded = plain;
  try {
    decoded = decodeURIComponent(plain);
  } catch {
    // Shown as it came.
  }
  return decoded.replace(/\p{C}/gu, "\ufffd");
}

function isWaiting({ record, payment }: Known, { nowMs }: ViewGround): boolean {
  if (record.end === null || isRefusal(record.end)) return false;
  return payment === null ? needsOperatorFor(record.end) : needsOperator(payment, nowMs);
}

/** The buyer of what was paid for was seen to leave. */
function hasLeft({ steps }: TimelineRecord): boolean {
  return steps.findLast(({ name }) => name === "delivery")?.note === BUYER_LEFT;
}

function endingOf(record: TimelineRecord): Pick<RequestView, "outcome" | "tone" | "status" | "ms"> {
  const { end } = record;
  if (end === null) return { outcome: "being served", tone: "dim", status: null, ms: null };
  const { outcome, status, ms } = end;
  if (outcome === "paid" && hasLeft(record)) {
    return { outcome: "paid, and the buyer left", tone: "dim", status, ms };
  }
  const tone = QUIET.has(outcome) ? "dim" : GOOD.has(outcome) ? "good" : "bad";
  return { outcome: OUTCOMES[outcome], tone, status, ms };
}

/** A payment of a time before this process, or of which nothing is remembered any more. */
export function viewOfPayment(payment: KnownPayment, { tokens, nowMs }: ViewGround): RequestView {
  const view = viewOf(payment, tokens);
  const isSettled = payment.transaction !== null;
  const isFailed = payment.state === "FAILED";
  const failure = isFailed ? `${view.failureCode}: ${view.failureDetail ?? ""}` : null;
  const none = { state: "none", ms: null, note: "" } as const;
  const good = { state: "good", ms: null, note: "" } as const;
  return {
    id: `payment-${view.key.replace(/[^a-z0-9]+/gi, "-")}`,
    at: view.claimedAt,
    title: clipped(view.binding ?? "settled for another resource server"),
    query: shownQuery(view.target ?? ""),
    ...saleOfPayment(view),
    needsOperator: needsOperator(payment, nowMs),
    outcome: view.state.toLowerCase(),
    tone: isFailed ? "bad" : payment.state === "DELIVERED" ? "good" : "dim",
    status: null,
    ms: null,
    stages: [
      { name: "402", ...none },
      { name: "payment", ...good },
      { name: "verification", ...(isFailed ? none : good) },
      {
        name: "settlement",
        state: isFailed ? "bad" : isSettled ? "good" : "running",
        ms: null,
        note: isSettled ? clipped(shortened(`in transaction ${view.transaction}`)) : "",
      },
      { name: "delivery", ...(payment.state === "DELIVERED" ? good : none) },
    ],
    error: failure === null ? null : clipped(withoutUrls(failure)),
    advice: `${adviceOn(payment, nowMs)}.`,
    payload: [],
    ledger: ledgerFacts(view),
  };
}

function adviceOf({ record, payment }: Known, { nowMs }: ViewGround): string {
  const { end, error } = record;
  if (end === null) return "It is being served.";
  if (!isRefusal(end)) {
    const ofPayment = payment && adviceOn(payment, nowMs, hasLeft(record));
    return `${ofPayment ?? adviceOnRequest(end, error)}.`;
  }
  // Of one that the ledger knows it says more than the code that all of these have.
  const isKnown = payment !== null && payment.state !== "FAILED";
  if (isKnown && error?.startsWith(STATE_CODE) === true) {
    return `nothing was charged for this request. Of its payment: ${adviceOn(payment, nowMs)}.`;
  }
  return `${adviceOnRequest(end, error)}.`;
}

/** Nothing was taken: anybody can send such a request, as often as they like. */
export function isRefusal(end: RequestEnd | null): boolean {
  return end?.outcome === "refused" || end?.outcome === "malformed";
}

function stagesOf(known: Known, head: TimelineHead): readonly StageView[] {
  const { record, question } = known;
  const isUnread = record.end?.outcome === "malformed";
  const asked = head.presented === null && !isUnread ? record : question;
  const hasWorked = record.steps.some(({ name }) => name === "work");
  const work = hasWorked ? (["work"] as const) : [];
  const steps = (["verification", ...work, "settlement", "delivery"] as const).map((name) =>
    stageOf(name, record.steps),
  );
  return [questionStage(asked), paymentStage(known, head), ...steps];
}

function questionStage(asked: TimelineRecord | null): StageView {
  const name = "402";
  if (asked === null) return { name, state: "none", ms: null, note: "none on this connection" };
  if (asked.end === null) return { name, state: "running", ms: null, note: "" };
  const { status, ms } = asked.end;
  return { name, state: status === 402 ? "good" : "bad", ms, note: `answered ${status}` };
}

/** Refused here is what was not even worth a question to the facilitator. */
function paymentStage({ record, question }: Known, { presented }: TimelineHead): StageView {
  const name = "payment";
  const { end, steps } = record;
  if (presented === null) {
    const isUnread = end?.outcome === "malformed";
    return { name, ms: null, state: isUnread ? "bad" : "none", note: isUnread ? "unreadable" : "" };
  }
  const ms = question === null ? null : record.atMs - question.atMs;
  if (end?.outcome === "refused" && steps.length === 0) {
    return { name, ms, state: "bad", note: "refused before it was verified" };
  }
  return { name, ms, state: "good", note: question === null ? "presented" : "after the 402" };
}

/** The last of them counts; how long is said of all. */
function stageOf(name: StepName, steps: readonly TimelineStep[]): StageView {
  const own = steps.filter((step) => step.name === name);
  const last = own.at(-1);
  if (last === undefined) return { name, state: "none", ms: null, note: "" };
  if (last.ms === null) return { name, state: "running", ms: null, note: "under way" };
  const ms = own.reduce((sum, step) => sum + (step.ms ?? 0), 0);
  return {
    name,
    state: last.isGood ? "good" : "bad",
    ms,
    note: clipped(shortened(withoutUrls(last.note))),
  };
}

function payloadOf(
  { route, presented, asked }: TimelineHead,
  { id, key }: TimelineRecord,
  tokens: Tokens,
): readonly FactView[] {
  const facts: FactView[] = [
    { label: "request", text: id },
    { label: "route", text: clipped(route) },
  ];
  if (presented === null) return facts;
  const { version, scheme, network, payer, members } = presented;
  const wanted = asked.filter((each) => each.network === network);
  const prices = (wanted.length === 0 ? asked : wanted).map(
    ({ amount, asset, network: where, payTo }) =>
      `${amountOf(amount, tokens.find(where, asset))} on ${where} to ${payTo}`,
  );
  facts.push({ label: "asked", text: clipped(prices.join("; ")) });
  facts.push(
    { label: "version", text: String(version) },
    { label: "scheme", text: clipped(scheme) },
    { label: "network", text: clipped(network) },
  );
  if (payer !== "" && !members.some(([name]) => name === "from")) {
    facts.push({ label: "payer", text: clipped(payer) });
  }
  const token = wanted[0] === undefined ? undefined : tokens.find(network, wanted[0].asset);
  for (const [name, value] of members)
    facts.push({ label: name, text: memberText(name, value, token) });
  if (key !== null) facts.push({ label: "payment key", text: clipped(key) });
  return facts;
}

type Token = ReturnType<Tokens["find"]>;

function memberText(name: string, value: string, token: Token): string {
  if (name === "value") return `${clipped(value)} (${amountOf(value, token)})`;
  const isTime = name === "validAfter" || name === "validBefore";
  return isTime ? `${clipped(value)}${dateOf(value)}` : clipped(value);
}

/** Unix seconds that a calendar has, at most: 9999-12-31. */
const LAST_SECOND = 253_402_300_799n;

function dateOf(seconds: string): string {
  const at = parseUint256(seconds);
  if (at === undefined || at === 0n || at > LAST_SECOND) return "";
  return ` (${new Date(Number(at) * 1000).toISOString().replace(/\.\d+Z$/, "Z")})`;
}

function amountOf(atomic: string, token: Token): string {
  const amount = parseUint256(atomic);
  if (token === undefined || amount === undefined) return `${clipped(atomic)} atomic units`;
  return `${formatAmount(amount, token.decimals)} ${token.symbol}`;
}

/** Addresses that an operator may look up; the page about one payment is named by its key. */
export function ledgerFacts(view: PaymentView): readonly FactView[] {
  const { state, network, transaction, attempts, failureCode, failureDetail, facilitator } = view;
  const facts: FactView[] = [
    { label: "state", text: state },
    { label: "amount", text: amountText(view) },
    { label: "payer", text: clipped(view.payer) },
    { label: "paid to", text: clipped(view.payTo) },
    { label: "deliveries tried", text: String(attempts) },
    { label: "payment", text: clipped(view.key), href: `?show=${encodeURIComponent(view.key)}` },
  ];
  if (facilitator !== null)
    facts.push({ label: "facilitator", text: clipped(withoutSecret(facilitator)) });
  if (transaction !== null) {
    const known = findNetwork(network);
    const href = known === undefined ? {} : { href: explorerLink(known, transaction) };
    facts.push({ label: "transaction", text: clipped(transaction), ...href });
  }
  if (view.refund !== null) facts.push(refundFact(network, view.refund));
  if (failureCode !== null) {
    facts.push({
      label: "failure",
      text: clipped(withoutUrls(`${failureCode}: ${failureDetail ?? ""}`)),
    });
  }
  return facts;
}

function refundFact(
  network: string,
  { state, transaction, detail, credits, creditsAtomic }: NonNullable<PaymentView["refund"]>,
): FactView {
  const known = findNetwork(network);
  const isLinked = known !== undefined && transaction !== null;
  const part = creditsAtomic && `${credits ?? creditsAtomic} of the balance`;
  const text = [state, part, transaction, detail && withoutUrls(detail)].filter(Boolean).join(" ");
  return {
    label: "refund",
    text: clipped(text),
    ...(isLinked && { href: explorerLink(known, transaction) }),
  };
}

function amountText({ amount, symbol, amountAtomic, network }: PaymentView): string {
  const text = amount === null ? `${amountAtomic} atomic units` : `${amount} ${symbol ?? ""}`;
  return clipped(`${text} on ${network}`);
}

/** A facilitator's name without what stands before its host or in a query. */
function withoutSecret(url: string): string {
  return url.replace(/\/\/[^/@\s]*@/g, "//").replace(/\?\S*/g, "");
}

/** Text of others, with no more of a URL than its host: paths and queries of endpoints hold keys. */
export function withoutUrls(text: string): string {
  return text.replace(
    /(\b[a-z][a-z\d+.-]{0,20}:\/\/)(?:[^/?#\s]*@)?([^/?#\s"'()<>,;]*)[^\s"'()<>,;]*/gi,
    "$1$2",
  );
}

/** The ledger's facts have the whole transaction. */
function shortened(note: string): string {
  return note.replace(/\b([0-9a-zA-Z]{8})[0-9a-zA-Z]{24,}([0-9a-zA-Z]{6})\b/g, "$1…$2");
}

export function clipped(text: string): string {
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN - 1)}…`;
}
