/**
 * What others are to be told, and whether they have been: a message for each who wants to hear of it, written in the
 * transaction of the step that it tells of, so that there is one exactly where that happened. It is given at least once;
 * of what one recipient is told of one subject a message is given only when those before it are over.
 *
 *     WAITING --- answered well ------------------ DELIVERED
 *       |  ^----- not: later again                     |
 *       \-------- not, for so long: FAILED ---- replay: WAITING
 */
import { randomUUID } from "node:crypto";
import type { EventType } from "../x402/event-type.ts";
import { LedgerUnavailable } from "./ledger-fault.ts";

export const MESSAGE_STATES = ["WAITING", "DELIVERED", "FAILED"] as const;

export type MessageState = (typeof MESSAGE_STATES)[number];

/** So long a message belongs to whoever has taken it, milliseconds: longer than giving it may take. */
export const TAKEN_FOR_MS = 30_000;
/** Messages that are kept at most; the oldest that are over go first, and then the oldest that wait. */
export const MAX_MESSAGES = 100_000;
/** Messages older than that go, milliseconds, whatever became of them: they can be replayed until then. */
export const KEPT_FOR_MS = 14 * 86_400_000;
/** Messages that one step of a tidying takes away at most, as too old and as too many each. */
export const TIDIED_AT_ONCE = 1_000;
/**
 * No pause between two attempts is so long, milliseconds: what is due later than that from now was written by a clock
 * that was set back since.
 */
export const LONGEST_PAUSE_MS = 12 * 3_600_000;
/** Messages that one step of a replay sends again. */
export const REPLAYED_AT_ONCE = 1_000;
/** Longest error that is kept, characters. */
const MAX_ERROR = 200;

/** What has happened, before it is known who wants to hear of it. */
export interface OutboxEvent {
  readonly type: EventType;
  /** What it is about: the key of a payment, `network NAME` or `wallet NETWORK ADDRESS`. */
  readonly subject: string;
  readonly data: Readonly<Record<string, string | number | boolean | null>>;
}

export interface Recipient {
  readonly name: string;
  readonly events: readonly EventType[];
}

/** One message for one recipient. */
export interface OutboxMessage {
  /** Grows with each that is written. */
  readonly place: number;
  /** The same for everybody who is told of it, and each time. */
  readonly id: string;
  readonly recipient: string;
  readonly type: string;
  readonly subject: string;
  /** JSON. */
  readonly data: string;
  /** When it happened, milliseconds since the epoch. */
  readonly atMs: number;
  readonly state: MessageState;
  /** Since it was written, or replayed last. */
  readonly attempts: number;
  readonly sinceMs: number;
  /** Not given before. */
  readonly dueMs: number;
  /** Why the last attempt was none. */
  readonly error: string | null;
}

/** What became of a message that was taken. */
export interface Given {
  readonly place: number;
  readonly state: MessageState;
  /** With WAITING: when it is due again. */
  readonly dueMs: number;
  readonly error: string | null;
}

/** All that is not said is of no account. */
export interface MessageFilter {
  readonly id?: string;
  readonly recipient?: string;
  readonly type?: string;
  readonly states?: readonly MessageState[];
  /** That happened from then on, milliseconds since the epoch. */
  readonly sinceMs?: number;
}

export interface MessageCount {
  readonly recipient: string;
  readonly waiting: number;
  readonly failed: number;
  /** When the oldest that waits happened; null: none waits. */
  readonly oldestMs: number | null;
}

/** What operators do with messages. */
export interface Messages {
  /** Those that are not delivered first, then the newest. */
  list(filter: MessageFilter, limit: number): Promise<readonly OutboxMessage[]>;
  /** Gives them again from now on, those that were delivered too; resolves with how many. */
  replay(filter: MessageFilter): Promise<number>;
}

export interface Outbox extends Messages {
  /** From here on messages are written for these, and for nobody else. */
  address(recipients: readonly Recipient[]): void;
  /**
   * Something is wrong, or not any more: told where whoever shares the ledger has not told it. Resolves with whether it
   * was news.
   */
  trouble(subject: string, isThere: boolean, event?: OutboxEvent): Promise<boolean>;
  /**
   * Messages of one recipient that are due, the longest due first; of each subject the first that is not over. They are
   * the taker's for {@link TAKEN_FOR_MS}. `taker`: another one each time.
   */
  take(recipient: string, taker: string, limit: number): Promise<readonly OutboxMessage[]>;
  /** Of those that are still the taker's. */
  given(taker: string, given: readonly Given[]): Promise<void>;
  /** Of each for whom any waits or has failed. */
  counts(): Promise<readonly MessageCount[]>;
  /** One bounded step: what is too old or too much goes, and what a clock that was set back has put off is due. */
  tidy(): Promise<Tidied>;
}

export interface Tidied {
  /** Of what went, how many waited still. */
  readonly dropped: number;
  /** There may be more to take away: ask again. */
  readonly isMore: boolean;
}

/** A message as it is written. */
export interface MessageDraft extends Pick<OutboxEvent, "type" | "subject"> {
  readonly id: string;
  readonly recipient: string;
  readonly data: string;
}

/** One for each who wants to hear of it. */
export function draftsOf(
  event: OutboxEvent | undefined,
  recipients: readonly Recipient[],
): readonly MessageDraft[] {
  const wanting = recipients.filter(({ events }) => event && events.includes(event.type));
  if (event === undefined || wanting.length === 0) return [];
  const { type, subject } = event;
  const shared = { id: `msg_${randomUUID()}`, type, subject, data: JSON.stringify(event.data) };
  return wanting.map(({ name }) => ({ ...shared, recipient: name }));
}

/** Reads a row as a database driver returns it, whose columns bear the names of {@link OutboxMessage}. */
export function readMessage(columns: Readonly<Record<string, unknown>>): OutboxMessage {
  const state = MESSAGE_STATES.find((known) => known === columns.state);
  if (state === undefined) throw new LedgerUnavailable("a stored message has no readable state");
  return {
    place: Number(columns.place),
    id: String(columns.id),
    recipient: String(columns.recipient),
    type: String(columns.type),
    subject: String(columns.subject),
    data: String(columns.data),
    atMs: Number(columns.atMs),
    state,
    attempts: Number(columns.attempts),
    sinceMs: Number(columns.sinceMs),
    dueMs: Number(columns.dueMs),
    error: typeof columns.error === "string" ? columns.error.slice(0, MAX_ERROR) : null,
  };
}

/** @param old states of messages that went as too old, `excess` of those that were too many */
export function tidiedOf(
  old: readonly Readonly<Record<string, unknown>>[],
  excess: readonly Readonly<Record<string, unknown>>[],
): Tidied {
  const dropped = [...old, ...excess].filter(({ state }) => state === "WAITING").length;
  return { dropped, isMore: Math.max(old.length, excess.length) >= TIDIED_AT_ONCE };
}

export function readCount(columns: Readonly<Record<string, unknown>>): MessageCount {
  return {
    recipient: String(columns.recipient),
    waiting: Number(columns.waiting),
    failed: Number(columns.failed),
    oldestMs: columns.oldestMs === null ? null : Number(columns.oldestMs),
  };
}
