/**
 * What is told to a client that speaks MCP, in its words: what a call costs, what became of its payment, and what a list of
 * tools says. One of them for each request; what it sells is decided as everywhere.
 */
import { hash } from "node:crypto";
import type { BrokenDelivery, StoredResponse } from "../../ledger/ledger.ts";
import { decodeBase64Json, PAYMENT_REQUIRED_HEADER, RECEIPT_HEADERS } from "../../x402/header.ts";
import { isRecord, memberOf, parseJson } from "../../x402/json.ts";
import {
  metaReceipt,
  PAYMENT_REQUIRED_CODE,
  paymentRequiredResult,
  RECEIPT_META,
  withReceipt,
} from "../../x402/mcp.ts";
import type { SettleResponse, X402Version } from "../../x402/x402.ts";
import type { SettleResponseV2 } from "../../x402/version-2.ts";
import type { Answer } from "../answers.ts";
import { valueOf } from "../message/field-values.ts";
import type { InboundRequest, InboundResponse } from "../message/inbound.ts";
import { areEvents } from "../upstream/kept-answer.ts";
import type { Speech } from "../speech.ts";
import { RPC_ERRORS, type RpcCall, type RpcId } from "./message.ts";
import { receiptedText } from "./receipted-text.ts";
import { RewrittenResponse } from "./rewritten-response.ts";
import type { ToolList } from "./tool-list.ts";
import { unpacked } from "./unpacked.ts";
import { clientId } from "./wire-id.ts";

/** How its client hears what is told in place of the backend. */
export type Hearing = "document" | "events" | "status";

/** Times that a call may ask for more before it has sold anything: no attempt is used up by them. */
const MAX_ROUNDS = 10;

/** What a backend has answered to a call. */
type Verdict =
  | { readonly kind: "goods" }
  /** It has sold nothing; `isBackends`: that is not because of what was asked. */
  | { readonly kind: "failed"; readonly isBackends: boolean }
  /** It asks for more, and is asked again with that: one call. */
  | { readonly kind: "asking" };

/** A call that is paid for, and whom its backend's answer is told to before its client sees it. */
export interface SoldCall {
  readonly settlement: SettleResponse;
  readonly version: X402Version;
  /** Stores that nothing was sold. */
  readonly refuse: () => Promise<void>;
}

/** What a call buys, as the ledger has it. */
export interface BoughtCall {
  /** Of the route: site and path. */
  readonly place: string;
  /** Whose session it is: of another one it is another call as soon as it has begun to be answered. "": of none. */
  readonly session: string;
}

/** The first revision without sessions: its results say what they are. */
const STATELESS = "2026-07-28";
const COMPLETE = { resultType: "complete" } as const;

export class Conversation implements Speech {
  readonly call: RpcCall | null;
  /** What a payment is bound to by its first use, and what it has bought; undefined: no call. */
  readonly bought: { readonly binding: string; readonly target: string } | undefined;
  readonly #id: RpcId | null;
  readonly #hearing: Hearing;
  readonly #list: ToolList;
  readonly #isStateless: boolean;
  /** What its backend calls it; null: what its client does. */
  #wire: string | null = null;
  #sold: SoldCall | null = null;
  #verdict: Verdict | null = null;
  /** What was held of its answer is no message: it is not given, since nobody knows whether it would be goods. */
  #isWithheld = false;

  constructor(
    message: { readonly id: RpcId | null; readonly call: RpcCall | null },
    hearing: Hearing,
    list: ToolList,
    { place, session, revision = "" }: BoughtCall & { readonly revision?: string | undefined },
  ) {
    this.#isStateless = revision >= STATELESS;
    this.#id = message.id;
    this.call = message.call;
    if (message.call !== null) {
      const { name, asked } = message.call;
      const called = `${encodeURIComponent(name)}:${asked}`;
      const target = session === "" ? called : `${called}:${hash("sha256", session)}`;
      this.bought = { binding: `POST ${place}#${called}`, target };
    }
    this.#hearing = hearing;
    this.#list = list;
  }

  /** Its backend has it under that id. */
  sentUnder(wire: string): void {
    this.#wire = wire;
  }

  /** It is paid for; what is answered from here on tells that. */
  sold(call: SoldCall): void {
    this.#sold = call;
  }

  /** What is left of a payment where the backend has sold nothing by a good status; undefined: it has, or nobody can say. */
  left(sent: boolean): BrokenDelivery | undefined {
    const verdict = this.#verdict;
    if (this.call === null || verdict === null || verdict.kind === "goods") return undefined;
    if (verdict.kind === "asking") return { sent, served: null, uncounted: MAX_ROUNDS };
    return { sent, served: null, isBackends: verdict.isBackends };
  }

  /** What was kept is judged where nobody was there to get it. */
  judgeKept(kept: StoredResponse): void {
    if (this.#verdict !== null || this.call === null) return;
    this.#judgeWhole(kept);
    // What has ids may go on elsewhere.
    const mayBeMore = /^id:/m.test(Buffer.from(kept.body).toString("latin1"));
    if (!mayBeMore) this.#verdict ??= { kind: "failed", isBackends: true };
  }

  /** What is held until it is paid: nobody has read it yet, and nothing that is not in it is paid. */
  judgeHeld(held: StoredResponse): void {
    this.#judgeWhole(held);
    this.#verdict ??= { kind: "failed", isBackends: true };
  }

  #judgeWhole(given: StoredResponse): void {
    const held = unpacked(given);
    const body = Buffer.from(held.body).toString("utf8");
    const messages = areEventsOf(held) ? eventsOf(body) : [body];
    for (const text of messages) {
      const message = parseJson(text);
      if (isAnswer(message) && this.#isOwn(message)) this.#judge(message);
      else if (isNoMessage(text, message) && held.status < 300) this.#isWithheld = true;
    }
  }

  /** An answer of our own, in the words of who asks. */
  tell(answer: Answer): Answer {
    if (this.call === null || this.#hearing === "status" || answer.body === null) return answer;
    const said = this.#toldOf(answer);
    const told =
      this.#isStateless && "result" in said ? { result: { ...COMPLETE, ...said.result } } : said;
    const message = JSON.stringify({ jsonrpc: "2.0", id: this.#id, ...told });
    const { bytes: _, type: __, ...rest } = answer;
    if (this.#hearing === "document") return { ...rest, status: 200, body: message };
    const body = `event: message\ndata: ${message}\n\n`;
    return { ...rest, status: 200, body, type: "text/event-stream" };
  }

  #toldOf({
    status,
    lines,
    body,
  }: Answer): { readonly result: object } | { readonly error: object } {
    const said = parseJson(body ?? "");
    const error = memberOf(said, "error");
    const message = typeof error === "string" ? error : "not served";
    if (status === 404 || status === 403 || status === 400) {
      if (memberOf(said, "accepts") === undefined) {
        return { error: { code: RPC_ERRORS.params, message } };
      }
    }
    const receipt = headerJson(lines, RECEIPT_HEADERS[2]) ?? headerJson(lines, RECEIPT_HEADERS[1]);
    const asked = status === 402 ? headerJson(lines, PAYMENT_REQUIRED_HEADER) : undefined;
    if (asked !== undefined) {
      return { result: paymentRequiredResult(asked, receipt as SettleResponseV2 | undefined) };
    }
    const failed = receipt && { [RECEIPT_META]: receipt };
    if (status === PAYMENT_REQUIRED_CODE) {
      const data = isRecord(said) ? { ...said, ...failed } : failed;
      return { error: { code: PAYMENT_REQUIRED_CODE, message, data } };
    }
    const wait = valueOf(lines, "retry-after");
    const structuredContent = {
      error: message,
      status,
      ...(wait !== undefined && { retryAfterSeconds: Number(wait) }),
      ...failed,
    };
    const result = { isError: true, structuredContent, content: [{ type: "text", text: message }] };
    return { result };
  }

  /** The backend's answer passes through what is returned. */
  through(response: InboundResponse): InboundResponse {
    return new RewrittenResponse(response, {
      message: (text) => this.#rewrite(text),
      unreadable: () => this.#instead(),
      ended: (mayBeMore) => this.#ended(mayBeMore),
      readsAll: this.#sold !== null || this.#wire !== null,
      ...(this.#wire !== null && { instead: [quoted(this.#wire), quoted(this.#id)] }),
    });
  }

  /** An answer that was kept, for who asks now. */
  again(given: StoredResponse): StoredResponse {
    const kept = unpacked(given);
    const body = Buffer.from(kept.body).toString("utf8");
    if (this.#isWithheld && this.#sold === null) {
      const bytes = Buffer.from(this.#unread());
      return { ...kept, headers: [["Content-Type", "application/json"]], body: bytes };
    }
    const told = areEventsOf(kept) ? this.#eventsAgain(body) : this.#told(body);
    if (told === body) return kept;
    const bytes = Buffer.from(told);
    const headers = kept.headers.filter(([name]) => name.toLowerCase() !== "content-length");
    return {
      ...kept,
      headers: [...headers, ["Content-Length", String(bytes.length)]],
      body: bytes,
    };
  }

  #eventsAgain(body: string): string {
    return body.replaceAll(/^data: ?(\{.*)$/gm, (_, text: string) => `data: ${this.#told(text)}`);
  }

  /** Of what was sold before: it has another id, and no receipt yet. */
  #told(text: string): string {
    const message = parseJson(text);
    if (!isAnswer(message) || this.call === null) return text;
    if (this.#sold === null) return this.#named(text, message);
    return this.#written(text, message);
  }

  #rewrite(text: string): string | Promise<string> {
    const message = parseJson(text);
    const sold = this.#sold;
    const first = this.#verdict === null;
    if (sold !== null && isNoMessage(text, message)) {
      this.#verdict ??= { kind: "failed", isBackends: true };
      return first ? sold.refuse().then(() => this.#unread()) : this.#unread();
    }
    if (!isAnswer(message)) return text;
    if (this.call === null) return this.#ofAnother(text, message);
    if (!this.#isOwn(message)) return this.#list.tell(text, message);
    this.#judge(message);
    const { result, id } = message;
    if (sold === null || !first) return this.#named(text, message);
    const isSpelt = !isRecord(result) && id === this.#id;
    const told = isSpelt ? text : this.#written(text, message);
    if (this.#verdict?.kind === "goods") return told;
    return sold.refuse().then(() => told);
  }

  /** What is sold, under the id that its client knows. */
  #written(text: string, message: Readonly<Record<string, unknown>>): string {
    const sold = this.#sold;
    const value = sold && metaReceipt(sold.settlement, sold.version);
    const receipt = value && { name: RECEIPT_META, value };
    const { result } = message;
    return (
      receiptedText(text, { id: quoted(this.#id), receipt }) ??
      JSON.stringify({
        ...message,
        ...(isRecord(result) && value && { result: withReceipt(result, value) }),
        id: this.#id,
      })
    );
  }

  /** Under the id that its client knows. */
  #named(text: string, { id }: Readonly<Record<string, unknown>>): string {
    return id === this.#wire ? text.replace(quoted(id), () => quoted(this.#id)) : text;
  }

  /** An answer that is fetched from a stream which is taken up again has the id of what it was asked by. */
  #ofAnother(text: string, message: Readonly<Record<string, unknown>>): string {
    const id = clientId(message["id"]);
    if (id === undefined) return this.#list.tell(text, message);
    return text.replace(quoted(message["id"]), () => quoted(id));
  }

  /**
   * Whether it is the answer to this call: under its id, or the first one, whatever its id says. Readers of ids make
   * numbers of digits, and other characters of what is none; goods under another id would be had for nothing.
   */
  #isOwn(message: Readonly<Record<string, unknown>>): boolean {
    const { id } = message;
    return id === (this.#wire ?? this.#id) || this.#verdict === null;
  }

  /** In place of what cannot be read. */
  #unread(): string {
    const message = "the answer of the server is no message of JSON-RPC in UTF-8, and is not sold";
    const error = { code: RPC_ERRORS.internal, message };
    return JSON.stringify({ jsonrpc: "2.0", id: this.#id, error });
  }

  #judge(message: unknown): void {
    if (!isAnswer(message)) return;
    const code = memberOf(message["error"], "code");
    const { result } = message;
    if (message["error"] !== undefined) {
      this.#verdict = { kind: "failed", isBackends: !ASKERS.has(code) };
    } else if (memberOf(result, "resultType") === "input_required") {
      this.#verdict = { kind: "asking" };
    } else if (memberOf(result, "isError") === true) {
      this.#verdict = { kind: "failed", isBackends: true };
    } else this.#verdict = { kind: "goods" };
  }

  #instead(): string | null {
    const hides = this.#list.hides && this.call === null;
    if (!hides) return null;
    const message =
      "the list of tools is larger than is read here, and some of them are not for sale";
    return JSON.stringify({
      jsonrpc: "2.0",
      id: this.#id,
      error: { code: RPC_ERRORS.internal, message },
    });
  }

  /** Nothing of the call was in it. */
  #ended(mayBeMore: boolean): void | Promise<void> {
    if (this.call === null || this.#verdict !== null || mayBeMore) return undefined;
    this.#verdict = { kind: "failed", isBackends: true };
    return this.#sold?.refuse();
  }
}

/** What whoever asks has to answer for: the request, the method, what it is given, or that he has given it up. */
const ASKERS: ReadonlySet<unknown> = new Set([
  RPC_ERRORS.request,
  RPC_ERRORS.method,
  RPC_ERRORS.params,
  RPC_ERRORS.header,
  RPC_ERRORS.cancelled,
]);

/** As it is written in JSON. */
function quoted(id: unknown): string {
  return JSON.stringify(id);
}

function isAnswer(message: unknown): message is Readonly<Record<string, unknown>> {
  return isRecord(message) && (message["result"] !== undefined || message["error"] !== undefined);
}

/** Whether something is written that is no message: nothing at all is none that is hidden. */
function isNoMessage(text: string, message: unknown): boolean {
  return text.trim() !== "" && !isRecord(message);
}

function areEventsOf({ headers }: StoredResponse): boolean {
  return areEvents(headers.flat());
}

/** The data of each event that has one line of it. */
function eventsOf(body: string): readonly string[] {
  return [...body.matchAll(/^data: ?(.*)$/gm)].map(([, data = ""]) => data);
}

function headerJson(
  lines: readonly string[],
  name: string,
): Readonly<Record<string, unknown>> | undefined {
  const value = valueOf(lines, name.toLowerCase());
  if (value === undefined) return undefined;
  const read = decodeBase64Json(value, name);
  return read.ok && isRecord(read.value) ? read.value : undefined;
}

/**
 * How a client is told what is not the backend's answer. MCP has every client say that it takes both, documents and events:
 * who does not, or shows a payment in a header line, is one of plain HTTP, and is told by a status.
 */
export function hearingOf({ headers }: InboundRequest, isPaidByLine: boolean): Hearing {
  const accept = headers.accept ?? "";
  if (isPaidByLine || !/\btext\/event-stream\b/i.test(accept)) return "status";
  return /\bapplication\/json\b|\*\/\*|\bapplication\/\*/i.test(accept) ? "document" : "events";
}
