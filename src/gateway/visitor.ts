/**
 * Who is being served: a request with its response, or an upgrade with its bare socket. The stages of
 * the request path are the same for both; only here is anything written to a client.
 */
import type { Unanswered } from "../http/unanswered.ts";
import type { Passage } from "./upstream/passage.ts";
import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { corsLines, LATE_ANSWER, type Answer, type CrossOrigin, type Help } from "./answers.ts";
import type { AnswerWatch, AnswerReaderState } from "./message/answer-watch.ts";
import type { Sender } from "./message/body-watch.ts";
import type { StoredResponse } from "../ledger/ledger.ts";
import type { AccessNote } from "../telemetry/access-log.ts";
import type { TimelineEntry } from "../telemetry/timeline.ts";
import { addMissing } from "./message/field-lines.ts";
import {
  askedOf,
  keptBody,
  notesOf,
  type InboundRequest,
  type InboundResponse,
} from "./message/inbound.ts";
import { replayLines, type ReplayedTo } from "./upstream/kept-answer.ts";
import { onReset } from "./message/reset.ts";
import type { Speech } from "./speech.ts";
import { UNREAD_MS } from "./message/unread.ts";
import {
  hashAsked,
  hashOfWhole,
  isKeepable,
  readAndKeepBody,
  readBodyHash,
} from "./message/request-body.ts";
import type { RequestTrace } from "./request-trace.ts";
import type { Holder } from "./room.ts";
import { answerOn } from "./upstream/upgrade-engine.ts";
import type { Delivery, Engine } from "./upstream/upstream.ts";

/** A body up to this size is read and dropped when its request is refused, so that the connection lives. */
const MAX_DROPPED_BODY_BYTES = 64 * 1024;
export const JSON_TYPE = "application/json";
/** The largest request body that is read to find out whether a kept answer is for it, bytes. */
const MAX_COMPARED_BODY_BYTES = 10 * 1024 * 1024;

export interface Visitor extends Holder {
  /** Names this request in the log, and in the answer when something failed. */
  readonly id: string;
  readonly request: InboundRequest;
  /** Null as long as nobody asks under which ids its work is done. */
  trace: RequestTrace | null;
  /** What the operator's page shows of it; null: nothing. */
  entry: TimelineEntry | null;
  /** What the access log will say of it; null: nothing. */
  access: AccessNote | null;
  /** Gives the gateway's own answer. */
  answer(answer: Answer): void;
  /** Why the upstream would not be asked at all, for a client of that address; null: it would. */
  refusal(engine: Engine, address: string): Unanswered | null;
  /**
   * Hands the exchange to the upstream.
   * @param late the answer where the request's body does not come; default: that it did not
   */
  forward(engine: Engine, passage: Passage, late?: () => Answer): Promise<Delivery>;
  /** The request was answered because its body did not come. */
  readonly isLate: boolean;
  /** True when nobody is there any more to read an answer. */
  isGone(): boolean;
  /** Hears once that the client has left before its answer was complete; what it returns ends that. */
  onGone(listener: () => void): () => void;
  /**
   * Hears that the client broke its connection just after all of the answer was sent, or closed it: it may not have read
   * it.
   */
  onReset(listener: (how: "reset" | "closed") => void): void;
  /** Null where no kept answer is ever given: to an upgrade. */
  readonly replaying: Replaying | null;
  /** Null: plain HTTP is spoken. */
  speech: Speech | null;
}

/** How a kept answer is given again. */
export interface Replaying {
  /**
   * Hex SHA-256 of the request's body and of what asks for a part of the answer; null where the body is too large, or
   * the client has left. `isKept`: the request may be forwarded nevertheless, so null, and nothing read, where its
   * body could not be kept for that. `ofWhole`: that of the same request for the whole; null where it asks for no part.
   */
  readBodyHash(isKept?: boolean, ofWhole?: boolean): Promise<string | null>;
  /** Whether all of it was sent, once that is over. */
  replay(kept: StoredResponse, to: ReplayedTo): Promise<boolean>;
}

/** Names the requests of one gateway; of two gateways no two have the same name. */
export class VisitIds {
  readonly #prefix = randomBytes(5).toString("hex");
  #count = 0;

  next(): number {
    this.#count += 1;
    return this.#count;
  }

  /** Written out on demand: most requests are never named. */
  nameOf(visit: number): string {
    return `${this.#prefix}-${visit.toString(36)}`;
  }
}

/** What the gateway gives to each visitor of its own. */
export interface VisitorGround {
  readonly ids: VisitIds;
  readonly answers: AnswerWatch;
  readonly told: AlwaysTold;
}

/** What answers of the gateway's own tell, whatever they are about. */
export interface AlwaysTold {
  readonly cors: CrossOrigin;
  /** In those that ask for money or tell of a fault of ours. */
  readonly help: Help;
}

export class RequestVisitor implements Visitor, Replaying, Sender, AnswerReaderState {
  readonly #ids: VisitIds;
  readonly #visit: number;
  readonly request: InboundRequest;
  trace: RequestTrace | null = null;
  entry: TimelineEntry | null = null;
  access: AccessNote | null = null;
  speech: Speech | null = null;
  bodyStalledMs = 0;
  answerStalledMs = 0;
  readonly #response: InboundResponse;
  readonly #expectsContinue: boolean;
  readonly #told: AlwaysTold;
  readonly #answers: AnswerWatch;
  #isWaitedFor = false;
  #late = (): Answer => LATE_ANSWER;
  #isLate = false;
  #bodyHash: Promise<string | null> | undefined;

  constructor(
    request: InboundRequest,
    response: InboundResponse,
    { ids, answers, told }: VisitorGround,
    expectsContinue: boolean,
  ) {
    this.#ids = ids;
    this.#told = told;
    this.#visit = ids.next();
    this.request = request;
    this.#response = response;
    this.#expectsContinue = expectsContinue;
    this.#answers = answers;
  }

  get id(): string {
    return this.#ids.nameOf(this.#visit);
  }

  answer(given: Answer): void {
    const answer = this.speech?.tell(given) ?? given;
    const { status, body } = answer;
    const response = this.#response;
    if (this.#isLate) return;
    if (response.headersSent || response.destroyed) {
      response.destroy();
      return;
    }
    if (this.access !== null && status !== given.status) this.access.sent = status;
    const head = headOf(answer, this, this.#told);
    const isLast = this.#expectsContinue || hasLargeBody(this.request);
    if (isLast && !head.includes("Connection")) head.push("Connection", "close");
    if (head.includes("Connection")) notesOf(this.request.socket).isEnding = true;
    if (body === null) {
      response.writeHead(status, head);
      response.end();
      return;
    }
    const bytes = answer.bytes?.length ?? Buffer.byteLength(body);
    if (this.access !== null && this.request.method !== "HEAD") this.access.bytes = bytes;
    head.push("Content-Type", answer.type ?? JSON_TYPE, "Content-Length", String(bytes));
    response.writeHead(status, head);
    if (answer.bytes !== undefined) response.end(answer.bytes);
    // Only ASCII has as many bytes as characters, and then this is the same text, written at less cost.
    else response.end(body, bytes === body.length ? "latin1" : "utf8");
    limitUnread(this.request, response);
  }

  refusal(engine: Engine): Unanswered | null {
    return engine.refusal(this.request, null);
  }

  forward(engine: Engine, { into, ...given }: Passage, late?: () => Answer): Promise<Delivery> {
    const passage = this.speech === null ? given : this.#withLength(given);
    if (late !== undefined) this.#late = late;
    const client = this.#response;
    const begin = (): void => {
      if (this.#expectsContinue) client.writeContinue();
    };
    // Bytes of an upstream's answer wait for the client.
    const waits = (): void => {
      if (this.#isWaitedFor) return;
      this.#isWaitedFor = true;
      const watched = this.#answers.begin(this);
      client.on("close", () => this.#answers.end(watched));
    };
    if (into !== undefined) {
      if (client.destroyed) into.destroy();
      else client.on("close", () => into.destroy());
      return engine.forward({ ...passage, request: this.request, response: into, begin });
    }
    const { access, speech } = this;
    const wrote = access === null ? undefined : (bytes: number) => void (access.bytes += bytes);
    const told = { ...passage, request: this.request, begin, waits, wrote };
    if (speech === null) return engine.forward({ ...told, response: client });
    // What is read has to be readable.
    const requestHeaders = [...passage.requestHeaders, "Accept-Encoding", "identity"];
    return engine.forward({ ...told, requestHeaders, response: speech.through(client) });
  }

  /** What was read of it may have been written anew. */
  #withLength<Told extends Pick<Passage, "requestHeaders">>(passage: Told): Told {
    const body = keptBody(this.request);
    if (!body) return passage;
    const length = ["Content-Length", String(body.length)];
    return { ...passage, requestHeaders: [...passage.requestHeaders, ...length] };
  }

  get stalledMs(): number {
    return Math.max(this.bodyStalledMs, this.answerStalledMs);
  }

  evict(): void {
    if (this.answerStalledMs > 0) this.giveUpReading();
    else this.giveUp();
  }

  giveUpReading(): void {
    const { socket } = this.request;
    notesOf(socket).isUnread = true;
    socket.resetAndDestroy();
  }

  isGone(): boolean {
    return this.#response.destroyed || this.request.socket.destroyed;
  }

  onGone(listener: () => void): () => void {
    return onResponseGone(this.#response, listener);
  }

  onReset(listener: (how: "reset" | "closed") => void): void {
    // What we close, whoever reads it closes, too.
    const isOurs = this.#response.shouldKeepAlive === false;
    onReset(this.request.socket, (how) => {
      if (how === "reset" || !isOurs) listener(how);
    });
  }

  get isLate(): boolean {
    return this.#isLate;
  }

  /** Whoever has the response sees it close, and reports that its client has gone. */
  giveUp(): void {
    const { request } = this;
    const response = this.#response;
    if (!response.headersSent && !response.destroyed) {
      this.answer(this.#late());
      this.#isLate = true;
      return;
    }
    const isBegun = !response.writableEnded;
    // HTTP/1.0 has no other mark of completeness than an orderly close, so the close must not be one.
    if (isBegun && request.httpVersion === "1.0") request.socket.resetAndDestroy();
    else if (isBegun) response.destroy();
    else request.destroy();
  }

  get replaying(): Replaying {
    return this;
  }

  readBodyHash(isKept = false, ofWhole = false): Promise<string | null> {
    if (ofWhole) return Promise.resolve(hashOfWhole(this.request));
    const asked = askedOf(this.request);
    if (asked !== undefined) return Promise.resolve(asked);
    if (isKept && !isKeepable(this.request)) return Promise.resolve(null);
    return (this.#bodyHash ??= this.#readBodyHash(isKept));
  }

  async #readBodyHash(isKept: boolean): Promise<string | null> {
    const { request } = this;
    if (this.#expectsContinue) this.#response.writeContinue();
    const bodyHash = isKept
      ? await readAndKeepBody(request)
      : await readBodyHash(request, MAX_COMPARED_BODY_BYTES);
    return bodyHash === null ? null : hashAsked(request, bodyHash);
  }

  replay(given: StoredResponse, to: ReplayedTo): Promise<boolean> {
    const kept = this.speech?.again(given) ?? given;
    const response = this.#response;
    if (response.destroyed || this.#isLate) return Promise.resolve(false);
    const { method = "" } = this.request;
    const sent = whenSent(response);
    response.writeHead(kept.status, replayLines(method, kept, to));
    response.end(kept.body);
    if (this.access !== null && method !== "HEAD") this.access.bytes = kept.body.length;
    limitUnread(this.request, response);
    return sent;
  }
}

export class UpgradeVisitor implements Visitor {
  readonly replaying = null;
  speech: Speech | null = null;
  /** A tunnel is as slow as it likes: `limits.tunnelIdle` ends it. */
  readonly stalledMs = 0;
  readonly isLate = false;
  readonly #ids: VisitIds;
  readonly #visit: number;
  readonly request: IncomingMessage;
  trace: RequestTrace | null = null;
  entry: TimelineEntry | null = null;
  access: AccessNote | null = null;
  readonly #socket: Socket;
  readonly #told: AlwaysTold;

  constructor(
    request: IncomingMessage,
    socket: Socket,
    { ids, told }: Pick<VisitorGround, "ids" | "told">,
  ) {
    this.#ids = ids;
    this.#told = told;
    this.#visit = ids.next();
    this.request = request;
    this.#socket = socket;
    // Node takes its own listeners off before it hands a socket over: without one, a client that resets
    // its connection while its payment settles would end the process.
    socket.on("error", () => socket.destroy());
  }

  get id(): string {
    return this.#ids.nameOf(this.#visit);
  }

  answer(answer: Answer): void {
    const { status, body, type = JSON_TYPE } = answer;
    const head = headOf(answer, this, this.#told);
    const isHead = this.request.method === "HEAD";
    answerOn(this.#socket, { status, lines: head, body: isHead ? null : body, type });
  }

  refusal(engine: Engine, address: string): Unanswered | null {
    return engine.refusal(this.request, { socket: this.#socket, address });
  }

  forward(engine: Engine, passage: Passage): Promise<Delivery> {
    return engine.upgrade({ request: this.request, socket: this.#socket, ...passage });
  }

  evict(): void {
    this.#socket.destroy();
  }

  isGone(): boolean {
    return this.#socket.destroyed;
  }

  onGone(listener: () => void): () => void {
    this.#socket.once("close", listener);
    return () => this.#socket.off("close", listener);
  }

  onReset(): void {
    // No answer to an upgrade is kept.
  }
}

/** See {@link Visitor.onGone}. */
export function onResponseGone(response: InboundResponse, listener: () => void): () => void {
  const closed = (): void => {
    if (!response.writableFinished) listener();
  };
  response.on("close", closed);
  return () => void response.off("close", closed);
}

/** Whether all of an answer was sent, once that is over. */
export async function whenSent(response: InboundResponse): Promise<boolean> {
  if (!response.destroyed) await new Promise<unknown>((resolve) => response.on("close", resolve));
  return response.writableFinished;
}

/** The raw lines of an answer's head, but for those of its body. */
export function headOf(
  { status, lines, caching = "no-store" }: Answer,
  visitor: Pick<Visitor, "id" | "request">,
  { cors, help }: AlwaysTold,
): string[] {
  const head = [...lines, "Cache-Control", caching];
  if (status >= 500) head.push("X-Request-Id", visitor.id);
  if (cors !== "off" && status >= 400) addMissing(head, corsLines(cors, visitor.request));
  if (status === 402 || status >= 500) addHelp(head, help);
  return head;
}

/** Beside other links: of a payment's status, and of what else may be bought. */
function addHelp(head: string[], { lines }: Help): void {
  const [name, link] = lines;
  if (name !== undefined && link !== undefined && !head.includes(link)) head.push(name, link);
}

/**
 * Of an answer that the operating system has not taken whole. Once it has, node's own deadline for the next request is
 * in place. The answer may still wait for an earlier one of its connection: what the socket holds says too little.
 */
function limitUnread({ socket }: InboundRequest, response: InboundResponse): void {
  if (response.writableLength > 0) socket.setTimeout(UNREAD_MS);
}

/** A body that is not worth reading only to refuse it; its connection is closed instead. */
function hasLargeBody({ headers }: InboundRequest): boolean {
  if (headers["transfer-encoding"] !== undefined) return true;
  const length = headers["content-length"];
  return length !== undefined && Number(length) > MAX_DROPPED_BODY_BYTES;
}
