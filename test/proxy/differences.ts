/**
 * What reaches the other side otherwise than it was sent, by name and with the reason. Everything that is
 * not named here has to arrive as it was: the suite compares the rest to the byte.
 */
import { valueOf, type Framing, type Head, type Line, type Message } from "./wire.ts";
import type { Reply } from "./client.ts";

/** How the client of the gateway speaks. */
export type Protocol = "HTTP/1.1" | "HTTP/1.1 over TLS" | "HTTP/2";

type Reasons = Readonly<Record<string, string>>;

const SAYING = "nobody's but the gateway's to say";
const RECEIPTS: Reasons = {
  "x-payment-response": SAYING,
  "payment-response": SAYING,
  "payment-required": SAYING,
  "extension-responses": SAYING,
};

/** Request lines that the backend gets otherwise than the client sent them. */
const REQUEST_LINES: Reasons = {
  host: "the backend's own name, unless the upstream says otherwise",
  connection: "one connection's (RFC 9110 section 7.6.1)",
  "keep-alive": "one connection's",
  te: "one connection's",
  trailer: "written by whoever frames the body",
  upgrade: "one connection's; only WebSockets are switched",
  "http2-settings": "belongs to an upgrade that is not taken",
  "transfer-encoding": "framing, which is compared as such",
  "content-length": "framing, which is compared as such",
  expect: "answered by the gateway",
  forwarded: "written by the gateway",
  "x-forwarded-for": "written by the gateway",
  "x-forwarded-host": "written by the gateway",
  "x-forwarded-proto": "written by the gateway",
  "x-real-ip": "claims another client",
  "x-http-method-override": "claims another method than the one that was judged",
  "x-original-url": "claims another path than the one that was judged",
  "x-rewrite-url": "claims another path than the one that was judged",
  "x-payment": "spent here",
  "payment-signature": "spent here",
  ...RECEIPTS,
  "idempotency-key": "added to a sale whose client sent none",
};
const REQUEST_PREFIXES: Reasons = {
  "proxy-": "between a client and its own proxy",
  "x-402-": "the gateway's word about a payment",
};

/** Answer lines that the client gets otherwise than the backend sent them. */
const ANSWER_LINES: Reasons = {
  connection: "one connection's",
  "keep-alive": "one connection's",
  trailer: "written by whoever frames the body",
  upgrade: "one connection's",
  te: "one connection's",
  "transfer-encoding": "framing, which is compared as such",
  ...RECEIPTS,
};
const ANSWER_PREFIXES: Reasons = {
  "proxy-": "between a client and its own proxy",
  "x-402-": "the gateway's word about a payment",
};
/** Lines that a sale adds or replaces: the receipt, and what keeps shared caches off. */
const SALE_LINES: Reasons = {
  "cache-control": "what was sold to one is not for others",
  vary: "names the header of the payment beside what the backend says",
  "retry-after": "invites to ask again where a sale was answered with a failure",
};

function isNamed(name: string, names: Reasons, prefixes: Reasons = {}): boolean {
  const low = name.toLowerCase();
  return low in names || Object.keys(prefixes).some((prefix) => low.startsWith(prefix));
}

/** As the backend saw it, without what may differ. */
export function arrivedText({ startLine, lines, framing, content, trailers }: Message): string {
  const kept = lines.filter(
    // CGI reads other characters as "-", so that no name with one may cross (threat H6).
    ([name]) => /^[A-Za-z0-9-]+$/.test(name) && !isNamed(name, REQUEST_LINES, REQUEST_PREFIXES),
  );
  const [method, target] = startLine.split(" ");
  // No byte of body can be said in three ways that mean the same, but for trailers.
  const isNone = content.length === 0 && trailers.length === 0;
  const body = isNone ? "no body" : `${framing} ${content.length} ${content.hash}`;
  const texts = [
    `${method} ${target}`,
    ...linesText(kept),
    body,
    ...linesText(trailers, "trailer "),
  ];
  return texts.join("\n");
}

/** {@link arrivedText} of what the backend gets when nothing is before it, as it must come from the gateway. */
export function expectedAtBackend(direct: Message, protocol: Protocol): string {
  if (protocol !== "HTTP/2") return arrivedText(direct);
  return arrivedText({
    ...direct,
    lines: lowered(direct.lines),
    trailers: lowered(direct.trailers),
  });
}

export interface AnswerView {
  readonly protocol: Protocol;
  /** HTTP/1.0 knows neither chunks nor trailers. */
  readonly isOld: boolean;
  readonly isSold?: boolean;
}

/** As the client saw it, without what may differ. */
export function receivedText(reply: Reply, view: AnswerView, hadDate: boolean): string {
  const sale = view.isSold === true ? SALE_LINES : {};
  const kept = reply.lines.filter(
    ([name]) =>
      !isNamed(name, ANSWER_LINES, ANSWER_PREFIXES) &&
      !isNamed(name, sale) &&
      // Node dates an answer that has no date (RFC 9110 section 6.6.1).
      (hadDate || name.toLowerCase() !== "date"),
  );
  const [, status, ...phrase] = reply.startLine.split(" ");
  const framing = view.protocol === "HTTP/2" ? "frames" : reply.framing;
  // HTTP/2 has no reason phrase.
  const first = view.protocol === "HTTP/2" ? `${status}` : `${status} ${phrase.join(" ")}`;
  const body = `${framing} ${reply.content.length} ${reply.content.hash}`;
  const texts = [first, ...linesText(kept), body, ...linesText(reply.trailers, "trailer ")];
  return texts.join("\n");
}

/** {@link receivedText} of the direct answer, as it must come from the gateway. */
export function expectedAtClient(direct: Reply, view: AnswerView): string {
  const isHttp2 = view.protocol === "HTTP/2";
  // Node ends a 205 by HTTP/2 with its head, which says the same as a length of 0.
  const saysLength = !(isHttp2 && direct.startLine.includes(" 205 "));
  const lines = direct.lines.filter(([name]) => saysLength || name !== "Content-Length");
  const expected = {
    ...direct,
    lines: isHttp2 ? lowered(lines) : lines,
    framing: framingBehind(direct, view),
    trailers: view.isOld ? [] : isHttp2 ? grouped(lowered(direct.trailers)) : direct.trailers,
  };
  return receivedText(expected, view, hasDate(direct));
}

/**
 * The hints (103) that came before an answer: the one interim answer that is passed on, and to HTTP/1.0 none. HTTP/2
 * has names in lower case, and those of one name together.
 */
export function hintsText({ interim }: Reply, { isOld }: AnswerView): string[] {
  const hints = isOld ? [] : interim.filter(({ startLine }) => / 103(?: |$)/.test(startLine));
  return hints.map(({ lines }) => linesText(grouped(lowered(lines))).join("\n"));
}

export function hasDate({ lines }: Head): boolean {
  return valueOf(lines, "date") !== undefined;
}

/** A body of unknown length is chunked for who knows chunks, and ends with the connection for others. */
function framingBehind({ framing }: Reply, { isOld }: AnswerView): Framing {
  if (framing === "none" || framing === "length") return framing;
  return isOld ? "close" : "chunked";
}

/** Node sends the trailers of one name together; the order of different names means nothing. */
function grouped(lines: readonly Line[]): Line[] {
  return lines
    .map(([name]) => name)
    .filter((name, index, all) => all.indexOf(name) === index)
    .flatMap((name) => lines.filter(([each]) => each === name));
}

function lowered(lines: readonly Line[]): Line[] {
  return lines.map(([name, value]) => [name.toLowerCase(), value]);
}

function linesText(lines: readonly Line[], prefix = ""): string[] {
  return lines.map(([name, value]) => `${prefix}${name}: ${value}`);
}
