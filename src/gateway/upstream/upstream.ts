/**
 * The one interface between the request path and whatever carries a request to the backend. The
 * decision (free, paid, refused) has been taken before; an engine only moves bytes, both ways,
 * and says what became of the exchange.
 */
import type { Unanswered } from "../../http/unanswered.ts";
import type { Paid, Sold } from "../../payments/sale/admission.ts";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Client } from "../client/client.ts";
import type { NameFilter } from "../message/field-lines.ts";
import type { InboundRequest, InboundResponse } from "../message/inbound.ts";
import type { UpstreamHealth } from "./upstream-health.ts";

/** What both a request and an upgrade carry to the backend. */
interface Passage {
  readonly request: InboundRequest;
  /** Who asks, for the backend's `X-Forwarded-` lines. */
  readonly client: Client;
  /** Canonical path and query (`readTarget`), sent byte for byte. */
  readonly target: string;
  /** Raw `name, value` pairs for the backend; they replace the client's lines of the same name. */
  readonly requestHeaders: readonly string[];
  /** Lower-case names of the client's lines that do not cross, beside those that never do. Default: none. */
  readonly removed?: ReadonlySet<string>;
  /** Which of the client's names cross. Default: all but those that never do. */
  readonly names?: NameFilter;
  /** What Host says; null, and the default: the target's own name. */
  readonly host?: string | null;
  /** Raw `name, value` pairs for the client; they replace the backend's lines of the same name. */
  readonly responseSet: readonly string[];
  /** The same that stand beside the backend's. */
  readonly responseAdded: readonly string[];
  /** Null for an exchange that nobody paid for, or that nothing is to be stored of. */
  readonly sale: Sale | null;
  /** As of a sale, where there is none. Default: whatever is answered is passed on. */
  readonly judge?: Sale["judge"];
  /** Sees what is goods. Default: nobody does. */
  readonly tap?: AnswerTap | undefined;
}

/** What a paid exchange asks for beside the bytes. */
export interface Sale {
  /** The backend's `Idempotency-Key`, where the client sent none of its own. */
  readonly idempotencyKey: string;
  /**
   * Raw `name, value` pairs added to an answer of 500 and above, where the backend has no line of the
   * same name.
   */
  readonly failureLines: readonly string[];
  /**
   * The largest body of a sold answer that is kept, bytes. Such an answer is read to its end even
   * when the client has left. Events (`text/event-stream`) and switched connections are never kept.
   */
  readonly keepBytes: number;
  /** Events are kept like any other answer: they end with what was asked for. Default: they are not. */
  readonly keepsEvents?: boolean;
  /** Longest that an answer is read on without its client, milliseconds. */
  readonly readOnMs: number;
  /** What was paid for it; undefined where that is settled after the work. */
  readonly paid?: Pick<Paid, "settlement" | "terms">;
  /** What an answer is for the sale; asked as its head has arrived, more than once, of its status and raw lines. */
  readonly judge: (status: number, lines: readonly string[]) => SaleVerdict;
  /**
   * Called for an answer that sells nothing, and for one that breaks off: its client sees it when that has resolved, so
   * that one that tries again at once finds what it is owed. Only the first call counts.
   */
  readonly refused: () => Promise<void>;
}

/** Sees an answer as it passes, where that decides what it costs. */
export interface AnswerTap {
  /** It is goods, and its head is there: raw lines to be sent along that tell what is known by now. May be another answer again. */
  begin(lines: readonly string[]): readonly string[];
  /** Bytes of its body, in memory that is not its own. */
  take(bytes: Uint8Array): void;
  /** The backend has ended it; lines as of {@link begin}, for a head that was not sent yet. */
  end(): readonly string[];
  /** The backend has broken it off. */
  broke(): void;
  /** There is something to be found in what is still to come: it is read on without its client, for a while. */
  readonly isOpen: boolean;
  /** Longest that it is, milliseconds. */
  readonly readOnMs: number;
}

/** `followed`: a redirect that is not passed on: the exchange is `redirected`, and the caller asks for its target. */
export type SaleVerdict = "goods" | "nothing" | "followed";

/** One request on its way to the backend. The engine owns `response` until it reports. */
export interface UpstreamExchange extends Passage {
  /** Called once the request is taken, before its body is read. */
  readonly begin?: () => void;
  /** Called when bytes of the answer wait for the client, perhaps more than once. */
  readonly waits?: () => void;
  /** Hears of bytes of the answer's body as they are written. */
  readonly wrote?: ((bytes: number) => void) | undefined;
  readonly response: InboundResponse;
  /**
   * Statuses, of 502, 503 and 504, that are not passed on where the request can be sent elsewhere: the exchange
   * is then `unanswered` for the reason `declined`, and `retriable`. Null, and the default: none. Without a
   * meaning for a sale.
   */
  readonly declined?: ReadonlySet<number> | null;
}

/** One WebSocket handshake that `readUpgrade` accepted. The engine owns `socket` until it reports. */
export interface UpgradeExchange extends Passage {
  readonly request: IncomingMessage;
  readonly socket: Socket;
}

/** Who asks for a tunnel. */
export interface Switching {
  readonly socket: Socket;
  /** Of the client, as far as is known. */
  readonly address: string;
}

/**
 * What became of an exchange.
 * - `delivered`: the complete answer was handed to the client's socket. Whether the client read it
 *   is not known to anyone.
 * - `unanswered`: nothing was written to the client; the caller answers with `status`.
 * - `broken`: the head was passed on, then the backend died or stalled: the client's connection was
 *   destroyed, so that a cut answer never looks like a complete one.
 * - `abandoned`: the client left (or stopped reading, or sent more of a body than is taken) before its answer was
 *   complete; the request to the backend was cancelled, or finished where a {@link Sale} keeps the answer.
 *
 * `kept` is there for a sale whose whole answer is small enough.
 */
export type Delivery =
  | {
      readonly kind: "delivered";
      readonly status: number;
      /** From dispatch to the backend's final head, in milliseconds. */
      readonly upstreamMs: number;
      readonly kept?: Sold;
    }
  | Unanswered
  /** Nothing was written to the client, and the caller forwards again, or answers. */
  | { readonly kind: "redirected"; readonly status: number }
  | { readonly kind: "broken"; readonly status: number; readonly detail: string }
  | {
      readonly kind: "abandoned";
      /** Null when the client left before the backend's head, and nothing was kept. */
      readonly status: number | null;
      /** As of `unanswered`. */
      readonly sent: boolean;
      /** The client was there, and took nothing of its answer for too long. */
      readonly isUnread?: boolean;
      readonly kept?: Sold;
    };

export interface Engine {
  /**
   * Why a request would not be taken now, asked before anybody pays for it: a declared body over the
   * limit, no connection left, or a backend that is known to be down. Null: it would be. Asking may be
   * the one try that a backend gets while it is down ({@link UpstreamHealth}).
   * @param switching null: it is no upgrade
   */
  refusal(request: InboundRequest, switching: Switching | null): Unanswered | null;
  /** Never rejects. */
  forward(exchange: UpstreamExchange): Promise<Delivery>;
  /**
   * Never rejects. `delivered` with status 101 when the connection was switched, with another status
   * when the backend declined the handshake. After `unanswered` the caller answers on the socket
   * (`answerOn`).
   */
  upgrade(exchange: UpgradeExchange): Promise<Delivery>;
  /** Takes nothing new and lets what runs finish, until `signal` aborts: then it is cut. */
  close(signal: AbortSignal): Promise<void>;
}

/** The engine for one target of a backend, as a group of them sees it. */
export interface TargetEngine extends Engine {
  /** Exchanges that run here, switched connections included. */
  readonly active: number;
  /** What its connections and answers say of it. */
  readonly health: UpstreamHealth;
}

export interface UpstreamOptions {
  /** Scheme, host and optional port: `http://10.0.0.11:3000`. No path. */
  readonly origin: string;
  /** Open connections to the backend at most, 1 or more; beyond them requests are `saturated`. */
  readonly connections: number;
  /** Open switched (WebSocket) connections at most. */
  readonly upgrades: number;
  /** Milliseconds without a byte moving, in either direction, after which one of them is closed. */
  readonly tunnelIdleMs: number;
  /** Milliseconds after which one of them is closed in any case. */
  readonly tunnelLifeMs: number;
  /** Milliseconds until a connection must be up. */
  readonly connectTimeoutMs: number;
  /** Milliseconds from the request's last byte until the backend's head must be complete. */
  readonly responseTimeoutMs: number;
  /** Milliseconds without a byte moving, in either direction, after which an exchange is given up. */
  readonly idleTimeoutMs: number;
  /** Milliseconds that an idle connection is kept; below the backend's own keep-alive time. */
  readonly keepAliveMs: number;
  /** Milliseconds that a client may take nothing of an answer that waits for it. */
  readonly answerIdleMs: number;
  /** Bytes of request body at most. */
  readonly bodyLimitBytes: number;
  /** Bytes of a response head at most. */
  readonly headLimitBytes: number;
}

export const defaultUpstreamOptions: Omit<UpstreamOptions, "origin"> = {
  connections: 5000,
  upgrades: 1000,
  tunnelIdleMs: 7_200_000,
  tunnelLifeMs: 86_400_000,
  connectTimeoutMs: 2_000,
  responseTimeoutMs: 30_000,
  idleTimeoutMs: 60_000,
  answerIdleMs: 60_000,
  keepAliveMs: 4_000,
  bodyLimitBytes: 10 * 1024 * 1024,
  headLimitBytes: 64 * 1024,
};

export interface TargetOptions extends UpstreamOptions {
  /** `h2`: HTTP/2 where an `https` target offers it. Default `http1`. */
  readonly protocol?: "http1" | "h2";
  /** Of a socket in the file system, in place of the origin's host and port; requests only. */
  readonly socketPath?: string | undefined;
  /** For an `https` origin; its certificate is always checked. */
  readonly tls?: TargetTls;
}

export interface TargetTls {
  /** Certificates of authorities, PEM, in place of those that Node trusts. */
  readonly ca?: string | undefined;
  /** The name in the target's certificate where it is not the origin's. */
  readonly serverName?: string | undefined;
  /** Our own certificate and its key, PEM, for targets that ask for one. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}
