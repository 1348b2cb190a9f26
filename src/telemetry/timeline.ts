/**
 * What became of the newest requests to priced routes, step by step, in the memory of the process that served them:
 * for the operator's page, which asks for it. Nobody is told anything while it happens, so that a request costs a few
 * assignments whether or not somebody looks. Never holds a signature, a payment header or a key.
 */
import { currentContext } from "./request-context.ts";
import type { PaymentOutcome } from "./route-meter.ts";

/** Requests that brought a payment, and requests that brought none, that are remembered. */
const MAX_PAYMENTS = 400;
const MAX_QUESTIONS = 100;
/** Steps of one request at most: a settlement may be asked for several times. */
const MAX_STEPS = 12;

/** Note of a delivery that its buyer did not wait for, though the answer had begun. */
export const BUYER_LEFT = "the buyer left before the end";

export type StepName = "verification" | "work" | "settlement" | "delivery";

export interface TimelineStep {
  readonly name: StepName;
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  /** Null while it is under way. */
  readonly ms: number | null;
  readonly isGood: boolean;
  /** For people: a transaction, a code, a status; "" while it is under way. */
  readonly note: string;
}

/** What a buyer signed, without the signature. */
export interface PresentedPayment {
  /** Of the envelope in which it came. */
  readonly version: number;
  readonly scheme: string;
  readonly network: string;
  /** "" where the payload names none. */
  readonly payer: string;
  /** Further members of the payload, by their names on the wire. */
  readonly members: readonly (readonly [name: string, value: string])[];
}

/** One way to pay that was asked for. */
export interface AskedPrice {
  readonly network: string;
  readonly asset: string;
  /** Atomic units, decimal digits. */
  readonly amount: string;
  readonly payTo: string;
}

/** A request as it came. */
export interface TimelineHead {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** The key of its route. */
  readonly route: string;
  /** The same for all requests of one connection, which are one buyer's; null where several may share it. */
  readonly connection: string | null;
  /** Path and query, which may hold what is nobody's business: not to be shown as it is. */
  readonly target: string;
  /** Null: none came. */
  readonly presented: PresentedPayment | null;
  /** Told only where a payment came. */
  readonly asked: readonly AskedPrice[];
}

/** How it ended. */
export interface RequestEnd {
  readonly status: number;
  readonly outcome: PaymentOutcome;
  readonly ms: number;
}

/** Everything that one process knows of one request. */
export interface TimelineRecord {
  /** The request's id, as in the log. */
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  /** Null in a process that has only worked for the request. */
  readonly head: TimelineHead | null;
  readonly steps: readonly TimelineStep[];
  /** Key of its payment, where it has one. */
  readonly key: string | null;
  /** `code: sentence`, as the client was told; null where nothing was refused. */
  readonly error: string | null;
  readonly end: RequestEnd | null;
}

/** All that changed after a moment. */
export interface TimelinePart {
  /** For the next question. */
  readonly version: number;
  readonly records: readonly TimelineRecord[];
}

/** A request that is being served, or was. */
export class TimelineEntry {
  readonly id: string;
  readonly atMs: number;
  readonly head: TimelineHead | null;
  /** Null before the first one: most requests have none. */
  steps: TimelineStep[] | null = null;
  key: string | null = null;
  error: string | null = null;
  end: RequestEnd | null = null;
  version = 0;

  constructor(id: string, atMs: number, head: TimelineHead | null) {
    this.id = id;
    this.atMs = atMs;
    this.head = head;
  }
}

/** A step that has begun. */
export interface OpenStep {
  end(isGood: boolean, note: string): void;
}

export class Timeline {
  readonly #clock: () => number;
  readonly #payments = new Map<string, TimelineEntry>();
  /** A ring: most requests are questions, and a map would cost them more than all the rest. */
  readonly #questions: TimelineEntry[] = [];
  #asked = 0;
  #version = 0;

  /** `clock`: milliseconds since the epoch. */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  begin(id: string, head: TimelineHead): TimelineEntry {
    const entry = new TimelineEntry(id, this.#clock(), head);
    if (head.presented === null) {
      this.#questions[this.#asked % MAX_QUESTIONS] = entry;
      this.#asked += 1;
      entry.version = this.#next();
    } else this.#keep(entry);
    return entry;
  }

  refuse(entry: TimelineEntry, error: string): void {
    entry.error = error;
    entry.version = this.#next();
  }

  /** `key`: of its payment, where it has come to have one. */
  end(entry: TimelineEntry, end: RequestEnd, key: string | null): void {
    entry.end = end;
    entry.key ??= key;
    entry.version = this.#next();
  }

  /** A step of the request for which this code runs; undefined where it runs for none. */
  beginStep(name: StepName): OpenStep | undefined {
    const facts = currentContext()?.facts;
    if (facts === undefined || facts === null) return undefined;
    const { requestId } = facts;
    const entry = this.#payments.get(requestId) ?? this.#keep(this.#partOf(requestId));
    const steps = (entry.steps ??= []);
    if (steps.length >= MAX_STEPS) return undefined;
    const atMs = this.#clock();
    const index = steps.push({ name, atMs, ms: null, isGood: false, note: "" }) - 1;
    entry.key ??= facts.payment;
    entry.version = this.#next();
    const began = performance.now();
    return {
      end: (isGood, note) => {
        steps[index] = { name, atMs, ms: performance.now() - began, isGood, note };
        entry.version = this.#next();
      },
    };
  }

  /** `after`: the version of the last answer, 0 for everything. */
  read(after: number): TimelinePart {
    const changed = [...this.#payments.values(), ...this.#questions].filter(
      ({ version }) => version > after,
    );
    return { version: this.#version, records: changed.map(copyOf) };
  }

  #partOf(id: string): TimelineEntry {
    return new TimelineEntry(id, this.#clock(), null);
  }

  #keep(entry: TimelineEntry): TimelineEntry {
    entry.version = this.#next();
    this.#payments.set(entry.id, entry);
    if (this.#payments.size > MAX_PAYMENTS) {
      const [oldest] = this.#payments.keys();
      if (oldest !== undefined) this.#payments.delete(oldest);
    }
    return entry;
  }

  #next(): number {
    this.#version += 1;
    return this.#version;
  }
}

function copyOf({ id, atMs, head, steps, key, error, end }: TimelineEntry): TimelineRecord {
  return { id, atMs, head, steps: [...(steps ?? [])], key, error, end };
}

/** What came of a step, for {@link timed}. */
export interface StepEnd {
  readonly isGood: boolean;
  readonly note: string;
}

/** Tells how long something takes, and what comes of it; what it throws says nothing that is for a page. */
export async function timed<Answer>(
  step: OpenStep | undefined,
  work: () => Promise<Answer>,
  tell: (answer: Answer) => StepEnd,
): Promise<Answer> {
  if (step === undefined) return work();
  try {
    const answer = await work();
    const { isGood, note } = tell(answer);
    step.end(isGood, note);
    return answer;
  } catch (cause) {
    step.end(false, "it could not be asked, or gave no usable answer; the log says more");
    throw cause;
  }
}
