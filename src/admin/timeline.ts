/**
 * The requests of all processes and the ledger's payments as one list, newest first, for the operator's page. It is
 * put together when somebody asks, and again and again only while somebody watches.
 */
import type { Books, PaymentFilter, PaymentSummary } from "../ledger/books.ts";
import type { TimelineHead, TimelinePart, TimelineRecord } from "../telemetry/timeline.ts";
import type { PaymentDetailsView, RequestView } from "../web/requests-view.ts";
import { adviceOn } from "./advice.ts";
import { detailOf, type Tokens } from "./payment-view.ts";
import { EVERYTHING, fits, type TimelineFilter } from "./timeline-filter.ts";
import {
  clipped,
  isRefusal,
  ledgerFacts,
  viewOfPayment,
  viewOfRequest,
  withoutUrls,
  type KnownPayment,
} from "./timeline-view.ts";

/** Requests that are kept of each process, about as many as it remembers itself. */
const MAX_RECORDS_EACH = 500;
/** Payments that are shown, of this time and of before. */
const MAX_SHOWN = 100;
/** Payments among which those are looked for that need somebody, or whose path is asked for. */
const MAX_SEARCHED = 500;
/** Refused payments, and requests without one, that are shown: whoever sends many of them hides no purchase. */
const MAX_SHOWN_REFUSED = 40;
const MAX_SHOWN_QUESTIONS = 40;
/** Payments without an outcome whose submission is looked up for one page. */
const MAX_LOOKUPS = 16;
/** Longest that a price is taken for the question that a payment answers, milliseconds. */
const ANSWERED_WITHIN_MS = 600_000;

/** Where requests are remembered: this process, or one of its workers. */
export interface TimelineSource {
  /** The same for as long as it is the same process. */
  readonly key: object;
  /** Undefined where it does not answer. */
  read(after: number): Promise<TimelinePart | undefined>;
}

export interface TimelineGround {
  readonly sources: () => readonly TimelineSource[];
  readonly books: Books;
  /** Of the configuration in use. */
  readonly tokens: () => Tokens;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** One request as each process knows it. */
type Parts = Map<object, TimelineRecord>;

export class PaymentTimeline {
  readonly #ground: TimelineGround;
  readonly #parts = new Map<string, Parts>();
  readonly #read = new WeakMap<object, number>();
  #gathering: Promise<void> | undefined;

  constructor(ground: TimelineGround) {
    this.#ground = ground;
  }

  /** Newest first. */
  async list(filter: TimelineFilter = EVERYTHING): Promise<readonly RequestView[]> {
    await (this.#gathering ??= this.#gather().finally(() => (this.#gathering = undefined)));
    const payments = await this.#withSubmissions(await this.#payments(filter));
    const reading = { tokens: this.#ground.tokens(), nowMs: this.#ground.now() };
    const { taken, refused, questions } = this.#sorted();
    const byKey = new Map(payments.map((payment) => [String(payment.key), payment]));
    const answered = new Set<TimelineRecord>();
    const viewOfRecord = (record: TimelineRecord): RequestView | undefined => {
      if (record.head === null) return undefined;
      const question = questionOf(record, questions);
      const payment = record.key === null ? undefined : byKey.get(record.key);
      const known = { record, question, payment: payment ?? null };
      const view = viewOfRequest(known, record.head, reading);
      if (!fits(view, filter)) return undefined;
      if (question !== null) answered.add(question);
      return view;
    };
    const views = first(MAX_SHOWN, taken, viewOfRecord);
    const away = first(MAX_SHOWN_REFUSED, refused, viewOfRecord);
    const seen = new Set([...views.keys()].map(({ key }) => key));
    // Anybody can name a payment that somebody else made: only one that failed is told by its refusal.
    const failed = new Set([...away.keys()].map(({ key }) => key));
    const before = payments.filter(({ key, state }) => {
      return !seen.has(key) && !(state === "FAILED" && failed.has(key));
    });
    const kept = first(MAX_SHOWN, before, (payment) => {
      const view = viewOfPayment(payment, reading);
      return fits(view, filter) ? view : undefined;
    });
    const open = questions.filter((each) => !answered.has(each));
    const asking = first(MAX_SHOWN_QUESTIONS, open, (record) => {
      if (record.head === null) return undefined;
      const view = viewOfRequest({ record, question: null, payment: null }, record.head, reading);
      return fits(view, filter) ? view : undefined;
    });
    const paid = [...views.values(), ...kept.values()].sort(laterFirst).slice(0, MAX_SHOWN);
    return [...paid, ...away.values(), ...asking.values()].sort(laterFirst);
  }

  /** By key, transaction or nonce; undefined where there is no such payment. */
  async show(name: string): Promise<PaymentDetailsView | undefined> {
    const payment = await this.#ground.books.show(name);
    if (payment === undefined) return undefined;
    const view = detailOf(payment, adviceOn(payment, this.#ground.now()), this.#ground.tokens());
    const { submission } = view;
    const signed = submission?.transactions ?? [];
    return {
      key: view.key,
      state: view.state,
      advice: `${view.advice}.`,
      facts: [
        ...ledgerFacts(view),
        { label: "bought", text: clipped(view.binding ?? "settled for another resource server") },
        { label: "claimed", text: view.claimedAt },
        { label: "changed", text: view.updatedAt },
        ...(submission === null ? [] : [{ label: "signed by", text: submission.account }]),
        ...signed.map((transaction) => ({ label: "signed", text: transaction })),
      ],
      history: view.events.map((event) => ({ ...event, note: clipped(withoutUrls(event.note)) })),
    };
  }

  /** The newest, and those among which the filter finds some. */
  async #payments({ payer, path, needsMe }: TimelineFilter): Promise<readonly PaymentSummary[]> {
    const { books } = this.#ground;
    const by = payer === null ? {} : { payer };
    const filters: PaymentFilter[] = [{ limit: path === null ? MAX_SHOWN : MAX_SEARCHED, ...by }];
    if (needsMe) {
      filters.push({ ...by, limit: MAX_SEARCHED, undelivered: true });
      filters.push({ ...by, limit: MAX_SEARCHED, states: ["SIGNED"] });
    }
    const found = (await Promise.all(filters.map((each) => books.list(each)))).flat();
    const byKey = new Map(found.map((payment) => [payment.key, payment]));
    return [...byKey.values()].sort((left, right) => right.claimedMs - left.claimedMs);
  }

  /** Only where nobody knows the outcome does the advice depend on more than the summary. */
  #withSubmissions(payments: readonly PaymentSummary[]): Promise<readonly KnownPayment[]> {
    let lookups = 0;
    return Promise.all(
      payments.map(async (payment) => {
        if (payment.state !== "SIGNED" || lookups >= MAX_LOOKUPS) return payment;
        lookups += 1;
        return (await this.#ground.books.show(payment.key)) ?? payment;
      }),
    );
  }

  async #gather(): Promise<void> {
    const sources = this.#ground.sources();
    await Promise.all(
      sources.map(async (source) => {
        const part = await source.read(this.#read.get(source.key) ?? 0);
        if (part === undefined) return;
        this.#read.set(source.key, part.version);
        for (const record of part.records) this.#keep(source.key, record);
      }),
    );
    // The oldest, whichever process told of them first.
    const most = MAX_RECORDS_EACH * Math.max(1, sources.length);
    if (this.#parts.size <= most) return;
    const all = [...this.#parts].map(([id, parts]) => ({ id, record: merged(parts) }));
    all.sort((left, right) => newestFirst(left.record, right.record));
    for (const { id } of all.slice(most)) this.#parts.delete(id);
  }

  #keep(source: object, record: TimelineRecord): void {
    const known = this.#parts.get(record.id);
    if (known !== undefined) {
      known.set(source, record);
      return;
    }
    this.#parts.set(record.id, new Map([[source, record]]));
  }

  #sorted() {
    const all = [...this.#parts.values()].map(merged).sort(newestFirst);
    const presented = all.filter(isPresented);
    return {
      taken: presented.filter(({ end }) => !isRefusal(end)),
      refused: presented.filter(({ end }) => isRefusal(end)),
      questions: all.filter((each) => each.head !== null && !isPresented(each)),
    };
  }
}

/** The first views that there are of these, at most so many. */
function first<Each>(
  most: number,
  all: readonly Each[],
  viewOf: (each: Each) => RequestView | undefined,
): ReadonlyMap<Each, RequestView> {
  const views = new Map<Each, RequestView>();
  for (const each of all) {
    if (views.size >= most) break;
    const view = viewOf(each);
    if (view !== undefined) views.set(each, view);
  }
  return views;
}

/** The last one before the payment that is the same buyer's for certain: his connection has told it. */
function questionOf(
  { head, atMs }: TimelineRecord,
  questions: readonly TimelineRecord[],
): TimelineRecord | null {
  const found = questions.find(
    (each) => each.atMs <= atMs && atMs - each.atMs < ANSWERED_WITHIN_MS && isSame(each.head, head),
  );
  return found ?? null;
}

/** An address may be that of many buyers, and a connection is that of one. */
function isSame(asked: TimelineHead | null, paid: TimelineHead | null): boolean {
  if (asked === null || paid === null || asked.connection === null) return false;
  const isOne = asked.connection === paid.connection;
  const isSameRoute = asked.method === paid.method && asked.route === paid.route;
  return isOne && isSameRoute && asked.target === paid.target;
}

/** Something that was to be a payment. */
function isPresented({ head, end }: TimelineRecord): boolean {
  return head !== null && (head.presented !== null || end?.outcome === "malformed");
}

function laterFirst(left: RequestView, right: RequestView): number {
  return left.at < right.at ? 1 : left.at > right.at ? -1 : 0;
}

function newestFirst(left: TimelineRecord, right: TimelineRecord): number {
  return right.atMs - left.atMs;
}

/** What the process that serves it knows, and the steps of the one that has the money. */
function merged(parts: Parts): TimelineRecord {
  const all = [...parts.values()];
  const [first] = all;
  const main = all.find(({ head }) => head !== null) ?? first;
  if (main === undefined) throw new Error("a request without parts");
  if (all.length === 1) return main;
  const steps = all.flatMap((part) => part.steps).sort((left, right) => left.atMs - right.atMs);
  const key = all.find((part) => part.key !== null)?.key ?? null;
  return { ...main, steps, key };
}
