/** Answers to requests that nothing is forwarded or asked for: the exits that have nothing to do with money. */
import type { ContentCoding } from "../http/content-coding.ts";
import {
  corsLines,
  crowdedAnswer,
  errorAnswer,
  preflightAnswer,
  type Answer,
  type CrossOrigin,
  type OwnAnswer,
} from "./answers.ts";
import type { Decision, PricedDecision, Snapshot } from "./decision.ts";
import type { SignInTerms } from "./signed-in.ts";
import type { InboundRequest } from "./message/inbound.ts";
import { wantsPage } from "./offers/offer-page.ts";
import { systemTime } from "../time/time.ts";
import { SIGN_IN_PATH, supportedChains, type SignInChallenge } from "../x402/sign-in.ts";

export type OtherDecision = Exclude<
  Decision,
  PricedDecision | { kind: "free" | "status" | "session" | "balance" | "member" | "tools" | "left" }
>;

/** What was asked of one of the gateway's own documents. */
export interface DocumentRequest {
  /** Canonical. */
  readonly path: string;
  /** Raw, without `?`. */
  readonly query: string;
  /** The value of `If-None-Match`. */
  readonly ifNoneMatch: string | undefined;
  /** The value of `Accept-Encoding`; undefined: compressed documents cannot be read. */
  readonly acceptEncoding?: string | undefined;
  /** A browser asks, for somebody to look at it. */
  readonly isForPerson?: boolean;
}

export interface PublishedDocument {
  /** 302: at another place, which `lines` name; 304: the client has it already. */
  readonly status: 200 | 302 | 304 | 400;
  /** "" with 304. */
  readonly body: string;
  /** The same, where all who ask get the same: one in memory for all of them. */
  readonly bytes?: Uint8Array;
  /** How `bytes` are compressed, which are the body then; default: not at all. */
  readonly encoding?: ContentCoding | null;
  /** Media type of the body. */
  readonly type: string;
  /** Null with 302 and 400. */
  readonly etag: string | null;
  /** More header lines; default: none. */
  readonly lines?: readonly string[];
}

/** Gives the gateway's own documents: the listing of priced routes, and those that lead to it. */
export type Publisher = (asked: DocumentRequest) => PublishedDocument;

export function declinedAnswer(
  decision: OtherDecision,
  request: InboundRequest,
  {
    publish,
    cors,
    snapshot,
  }: {
    readonly publish: Publisher;
    readonly cors: CrossOrigin;
    readonly snapshot: Pick<Snapshot, "signIn">;
  },
): OwnAnswer {
  switch (decision.kind) {
    case "rejected": {
      const answer = errorAnswer(decision.status, decision.detail, ["Connection", "close"]);
      return { answer, outcome: "rejected", meter: null };
    }
    case "denied": {
      const said = decision.status === 403 ? "this path is not served" : "not found";
      const answer = errorAnswer(decision.status, decision.detail ?? said);
      return { answer, outcome: "denied", meter: decision.meter };
    }
    case "misread": {
      const { id, code, detail: message, meter } = decision;
      const body = JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } });
      return { answer: { status: 400, lines: [], body }, outcome: "rejected", meter };
    }
    case "crowded":
      return { answer: crowdedAnswer([]), outcome: "rejected", meter: decision.meter };
    case "method-not-allowed": {
      const answer = errorAnswer(405, "method not allowed", ["Allow", decision.allow]);
      return { answer, outcome: "denied", meter: null };
    }
    case "server-options":
      return { answer: { status: 204, lines: [], body: null }, outcome: "free", meter: null };
    case "preflight": {
      const answer = preflightAnswer(corsLines(cors, request), decision);
      return { answer, outcome: "free", meter: null };
    }
    case "listing": {
      const { path, query } = decision;
      const { signIn } = snapshot;
      if (signIn !== null && path === SIGN_IN_PATH) {
        const answer = signInAnswer(signIn, query, corsLines(cors, request));
        return { answer, outcome: "free", meter: null };
      }
      const { "if-none-match": ifNoneMatch, "accept-encoding": accepted } = request.headers;
      const acceptEncoding = typeof accepted === "string" ? accepted : undefined;
      const isForPerson = wantsPage(request);
      const published = publish({ path, query, ifNoneMatch, acceptEncoding, isForPerson });
      const answer = documentAnswer(published, corsLines(cors, request));
      return { answer, outcome: "free", meter: null };
    }
  }
}

/** A challenge for all URLs; with `address` and `network` the text for that wallet, and what is sent with its signature. */
function signInAnswer(
  { issuer, networks }: SignInTerms,
  query: string,
  cors: readonly string[],
): Answer {
  const given = new URLSearchParams(query);
  const [address, network] = [given.get("address"), given.get("network")];
  const now = systemTime.now();
  if (address === null && network === null) {
    const asked: SignInChallenge = {
      info: issuer.challenge(now),
      supportedChains: supportedChains(networks),
    };
    return { status: 200, lines: cors, body: JSON.stringify(asked) };
  }
  const wallet = { address: address ?? "", network: network ?? "" };
  const prepared = issuer.prepare(wallet, networks, now);
  if (prepared.ok) return { status: 200, lines: cors, body: JSON.stringify(prepared.value) };
  return errorAnswer(400, prepared.error.detail, cors);
}

/** May be kept by whoever asks before each use whether it is still the same. */
function documentAnswer(
  { status, body, bytes, encoding = null, type, etag, lines: more = [] }: PublishedDocument,
  cors: readonly string[],
): Answer {
  if (etag === null) return { status, lines: [...cors, ...more], body };
  const lines = [...cors, ...more, "ETag", etag, "Vary", "Accept-Encoding"];
  if (encoding !== null && status !== 304) lines.push("Content-Encoding", encoding);
  const answer = { status, lines, type, caching: "no-cache" } as const;
  return status === 304 ? { ...answer, body: null } : { ...answer, body, ...(bytes && { bytes }) };
}
