/** What others are to be told, in memory. */
import {
  draftsOf,
  KEPT_FOR_MS,
  LONGEST_PAUSE_MS,
  MAX_MESSAGES,
  TAKEN_FOR_MS,
  TIDIED_AT_ONCE,
  tidiedOf,
  type Given,
  type OutboxMessage,
  type MessageCount,
  type MessageFilter,
  type Outbox,
  type OutboxEvent,
  type Recipient,
  type Tidied,
} from "../../src/ledger/outbox.ts";
import type { Time } from "../../src/time/time.ts";

interface Kept extends OutboxMessage {
  readonly taker: string | null;
}

/** What all lives of a store share. */
export class MemoryMessages {
  readonly byPlace = new Map<number, Kept>();
  readonly troubles = new Set<string>();
  #last = 0;

  nextPlace(): number {
    return (this.#last += 1);
  }
}

export class MemoryOutbox implements Outbox {
  readonly #messages: MemoryMessages;
  readonly #time: Pick<Time, "now">;
  #recipients: readonly Recipient[] = [];

  constructor(messages: MemoryMessages, time: Pick<Time, "now">) {
    this.#messages = messages;
    this.#time = time;
  }

  address(recipients: readonly Recipient[]): void {
    this.#recipients = recipients;
  }

  add(event: OutboxEvent | undefined, atMs: number): void {
    const nowMs = this.#time.now();
    for (const draft of draftsOf(event, this.#recipients)) {
      const place = this.#messages.nextPlace();
      const fresh = { state: "WAITING", attempts: 0, taker: null, error: null } as const;
      const times = { atMs, sinceMs: nowMs, dueMs: nowMs };
      this.#messages.byPlace.set(place, { ...draft, ...fresh, ...times, place });
    }
  }

  async trouble(subject: string, isThere: boolean, event?: OutboxEvent): Promise<boolean> {
    const { troubles } = this.#messages;
    if (troubles.has(subject) === isThere) return false;
    if (isThere) troubles.add(subject);
    else troubles.delete(subject);
    this.add(event, this.#time.now());
    return true;
  }

  async take(recipient: string, taker: string, limit: number): Promise<readonly OutboxMessage[]> {
    const nowMs = this.#time.now();
    const waiting = [...this.#messages.byPlace.values()].filter((each) => {
      return each.state === "WAITING" && each.recipient === recipient;
    });
    const firsts = waiting.filter(
      ({ subject, place }) =>
        !waiting.some((other) => other.subject === subject && other.place < place),
    );
    const due = firsts.filter(({ dueMs }) => dueMs <= nowMs);
    const taken = due
      .toSorted((one, other) => one.dueMs - other.dueMs || one.place - other.place)
      .slice(0, limit);
    return taken.map((each) => {
      const next = { attempts: each.attempts + 1, dueMs: nowMs + TAKEN_FOR_MS, taker };
      return this.#change(each, next);
    });
  }

  async given(taker: string, given: readonly Given[]): Promise<void> {
    for (const each of given) {
      const kept = this.#messages.byPlace.get(each.place);
      if (kept?.taker !== taker || kept.state !== "WAITING") continue;
      this.#change(kept, { ...each, taker: null });
    }
  }

  async counts(): Promise<readonly MessageCount[]> {
    const all = [...this.#messages.byPlace.values()].filter(({ state }) => state !== "DELIVERED");
    return [...new Set(all.map(({ recipient }) => recipient))].map((recipient) => {
      const theirs = all.filter((each) => each.recipient === recipient);
      const waiting = theirs.filter(({ state }) => state === "WAITING");
      return {
        recipient,
        waiting: waiting.length,
        failed: theirs.filter(({ state }) => state === "FAILED").length,
        oldestMs: waiting.length === 0 ? null : Math.min(...waiting.map(({ atMs }) => atMs)),
      };
    });
  }

  async list(filter: MessageFilter, limit: number): Promise<readonly OutboxMessage[]> {
    const isOver = ({ state }: OutboxMessage): number => Number(state === "DELIVERED");
    return this.#chosen(filter)
      .toSorted((one, other) => isOver(one) - isOver(other) || other.place - one.place)
      .slice(0, limit);
  }

  async replay(filter: MessageFilter): Promise<number> {
    const nowMs = this.#time.now();
    const chosen = this.#chosen(filter);
    const anew = { state: "WAITING", attempts: 0, taker: null, error: null } as const;
    for (const each of chosen) this.#change(each, { ...anew, sinceMs: nowMs, dueMs: nowMs });
    return chosen.length;
  }

  async tidy(): Promise<Tidied> {
    const { byPlace } = this.#messages;
    const nowMs = this.#time.now();
    const old = [...byPlace.values()].filter(({ atMs }) => atMs < nowMs - KEPT_FOR_MS);
    const isWaiting = ({ state }: OutboxMessage): number => Number(state === "WAITING");
    const byAge = [...byPlace.values()].toSorted((one, other) => {
      return isWaiting(one) - isWaiting(other) || one.place - other.place;
    });
    const most = Math.max(0, byAge.length - MAX_MESSAGES);
    const gone = [old, byAge.slice(0, most)].map((each) => each.slice(0, TIDIED_AT_ONCE));
    for (const { place } of gone.flat()) byPlace.delete(place);
    for (const each of byPlace.values()) {
      const isLate = each.state === "WAITING" && each.dueMs > nowMs + LONGEST_PAUSE_MS;
      if (isLate) this.#change(each, { dueMs: nowMs });
    }
    const [tooOld = [], tooMany = []] = gone;
    return tidiedOf(tooOld.map(stateOf), tooMany.map(stateOf));
  }

  #chosen({ id, recipient, type, states, sinceMs = 0 }: MessageFilter): readonly Kept[] {
    return [...this.#messages.byPlace.values()].filter(
      (each) =>
        (id === undefined || each.id === id) &&
        (recipient === undefined || each.recipient === recipient) &&
        (type === undefined || each.type === type) &&
        (states === undefined || states.includes(each.state)) &&
        each.atMs >= sinceMs,
    );
  }

  #change(kept: Kept, next: Partial<Kept>): Kept {
    const changed = { ...kept, ...next };
    this.#messages.byPlace.set(kept.place, changed);
    return changed;
  }
}

function stateOf({ state }: OutboxMessage): Record<string, unknown> {
  return { state };
}
