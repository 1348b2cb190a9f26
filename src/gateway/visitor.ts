/**
 * Who is being served: a request with its response, or an upgrade with its bare socket. The stages of
 * the request path are the same for both; only here is anything written to a client.
 */
import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Answer } from "./answers.ts";
import type { StoredResponse } from "../ledger/ledger.ts";
import { replayLines } from "./kept-answer.ts";
import { readBodyHash } from "./request-body.ts";
import { answerOn } from "./upgrade-engine.ts";
import type { Delivery, Engine, Sale, Unanswered } from "./upstream.ts";

/** A body up to this size is read and dropped when its request is refused, so that the connection lives. */
const MAX_DROPPED_BODY_BYTES = 64 * 1024;
/** The largest request body that is read to find out whether a kept answer is for it, bytes. */
const MAX_COMPARED_BODY_BYTES = 10 * 1024 * 1024;

/** What goes along with a forwarded request; see `upstream.ts` for the meaning of each. */
export interface Passage {
  readonly target: string;
  readonly requestHeaders: readonly string[];
  readonly responseSet: readonly string[];
  readonly responseVary: string | null;
  readonly sale: Sale | null;
}

export interface Visitor {
  /** Names this request in the log, and in the answer when something failed. */
  readonly id: string;
  readonly request: IncomingMessage;
  /** Gives the gateway's own answer. */
  answer(answer: Answer): void;
  /** Why the upstream would not be asked at all; null: it would. */
  refusal(engine: Engine): Unanswered | null;
  /** Hands the exchange to the upstream. */
  forward(engine: Engine, passage: Passage): Promise<Delivery>;
  /** True when nobody is there any more to read an answer. */
  isGone(): boolean;
  /** Null where no kept answer is ever given: to an upgrade. */
  readonly replaying: Replaying | null;
}

/** How a kept answer is given again. */
export interface Replaying {
  /** Hex SHA-256 of the request's body; null where it is too large, or the client has left. */
  readBodyHash(): Promise<string | null>;
  /** `cors`: raw lines for the origin that asks now. */
  replay(kept: StoredResponse, cors: readonly string[]): void;
}

/** Begins the ids of this process's requests; of two processes no two are the same. */
const PREFIX = randomBytes(5).toString("hex");
let visits = 0;

function nextVisit(): number {
  visits += 1;
  return visits;
}

/** Written out on demand: most requests are never named. */
function idOf(visit: number): string {
  return `${PREFIX}-${visit.toString(36)}`;
}

export class RequestVisitor implements Visitor, Replaying {
  readonly #visit = nextVisit();
  readonly request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #expectsContinue: boolean;

  constructor(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean) {
    this.request = request;
    this.#response = response;
    this.#expectsContinue = expectsContinue;
  }

  get id(): string {
    return idOf(this.#visit);
  }

  answer({ status, lines, body }: Answer): void {
    const response = this.#response;
    if (response.headersSent || response.destroyed) {
      response.destroy();
      return;
    }
    const head = [...lines, "Cache-Control", "no-store"];
    if (status >= 500) head.push("X-Request-Id", this.id);
    if (this.#expectsContinue || hasLargeBody(this.request)) head.push("Connection", "close");
    if (body !== null) {
      head.push("Content-Type", "application/json");
      head.push("Content-Length", String(Buffer.byteLength(body)));
    }
    response.writeHead(status, head);
    response.end(body ?? undefined);
  }

  refusal(engine: Engine): Unanswered | null {
    return engine.refusal(this.request, "request");
  }

  forward(engine: Engine, passage: Passage): Promise<Delivery> {
    if (this.#expectsContinue) this.#response.writeContinue();
    return engine.forward({ request: this.request, response: this.#response, ...passage });
  }

  isGone(): boolean {
    return this.#response.destroyed || this.request.socket.destroyed;
  }

  get replaying(): Replaying {
    return this;
  }

  readBodyHash(): Promise<string | null> {
    if (this.#expectsContinue) this.#response.writeContinue();
    return readBodyHash(this.request, MAX_COMPARED_BODY_BYTES);
  }

  replay(kept: StoredResponse, cors: readonly string[]): void {
    const response = this.#response;
    if (response.destroyed) return;
    const { method = "" } = this.request;
    response.writeHead(kept.status, replayLines(method, kept, cors));
    response.end(kept.body);
  }
}

export class UpgradeVisitor implements Visitor {
  readonly replaying = null;
  readonly #visit = nextVisit();
  readonly request: IncomingMessage;
  readonly #socket: Socket;

  constructor(request: IncomingMessage, socket: Socket) {
    this.request = request;
    this.#socket = socket;
    // Node takes its own listeners off before it hands a socket over: without one, a client that resets
    // its connection while its payment settles would end the process.
    socket.on("error", () => socket.destroy());
  }

  get id(): string {
    return idOf(this.#visit);
  }

  answer({ status, lines, body }: Answer): void {
    const head = [...lines, "Cache-Control", "no-store"];
    if (status >= 500) head.push("X-Request-Id", this.id);
    answerOn(this.#socket, { status, lines: head, body });
  }

  refusal(engine: Engine): Unanswered | null {
    return engine.refusal(this.request, "upgrade");
  }

  forward(engine: Engine, passage: Passage): Promise<Delivery> {
    return engine.upgrade({ request: this.request, socket: this.#socket, ...passage });
  }

  isGone(): boolean {
    return this.#socket.destroyed;
  }
}

/** A body that is not worth reading only to refuse it; its connection is closed instead. */
function hasLargeBody({ headers }: IncomingMessage): boolean {
  if (headers["transfer-encoding"] !== undefined) return true;
  const length = headers["content-length"];
  return length !== undefined && Number(length) > MAX_DROPPED_BODY_BYTES;
}
