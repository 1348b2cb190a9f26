/**
 * The requests of all processes and the ledger's payments as one list, newest first, for the operator's page. It is
 * put together when somebody asks, and again and again only while somebody watches.
 */
import type { Books, PaymentSummary } from "../ledger/books.ts";
import type { TimelineHead, TimelinePart, TimelineRecord } from "../telemetry/timeline.ts";
import type { PaymentDetailsView, RequestView } from "../web/requests-view.ts";
import { adviceOn } from "./advice.ts";
import { detailOf, type Tokens } from "./payment-view.ts";
import {
  clipped,
  ledgerFacts,
  viewOfPayment,
  viewOfRequest,
  withoutUrls,
} from "./timeline-view.ts";

/** Requests that are kept of each process, about as many as it remembers itself. */
const MAX_RECORDS_EACH = 500;
/** Payments that are shown, of this time and of before. */
const MAX_SHOWN = 100;
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
  async list(): Promise<readonly RequestView[]> {
    await (this.#gathering ??= this.#gather().finally(() => (this.#gathering = undefined)));
    const payments = await this.#ground.books.list({ limit: MAX_SHOWN });
    const advices = await this.#advise(payments);
    const tokens = this.#ground.tokens();
    const { taken, refused, questions } = this.#sorted();
    const byKey = new Map(payments.map((payment) => [String(payment.key), payment]));
    const answered = new Set<TimelineRecord>();
    const viewsOf = (record: TimelineRecord): readonly RequestView[] => {
      if (record.head === null) return [];
      const question = questionOf(record, questions.get(buyerOf(record.head)) ?? []);
      if (question !== null) answered.add(question);
      const payment = record.key === null ? undefined : byKey.get(record.key);
      const advice = payment === undefined ? null : (advices.get(payment.key) ?? null);
      const known = { record, question, payment: payment ?? null, advice };
      return [viewOfRequest(known, record.head, tokens)];
    };
    const views = taken.flatMap(viewsOf);
    const away = refused.flatMap(viewsOf);
    const seen = new Set(taken.map(({ key }) => key));
    // Anybody can name a payment that somebody else made: only one that failed is told by its refusal.
    const failed = new Set(refused.map(({ key }) => key));
    const before = payments.filter(({ key, state }) => {
      return !seen.has(key) && !(state === "FAILED" && failed.has(key));
    });
    const kept = before.map((payment) =>
      viewOfPayment(payment, advices.get(payment.key) ?? "", tokens),
    );
    const asked = [...questions.values()].flat().filter((each) => !answered.has(each));
    const open = asked.sort(newestFirst).slice(0, MAX_SHOWN_QUESTIONS);
    const asking = open.flatMap((record) => {
      const nothing = { question: null, payment: null, advice: null };
      return record.head === null
        ? []
        : [viewOfRequest({ record, ...nothing }, record.head, tokens)];
    });
    const paid = [...views, ...kept].sort(laterFirst).slice(0, MAX_SHOWN);
    return [...paid, ...away, ...asking].sort(laterFirst);
  }

  /** By key, transaction or nonce; undefined where there is no such payment. */
  async show(name: string): Promise<PaymentDetailsView | undefined> {
    const payment = await this.#ground.books.show(name);
    if (payment === undefined) return undefined;
    const view = detailOf(payment, adviceOn(payment), this.#ground.tokens());
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

  /** Only where nobody knows the outcome does the advice depend on more than the summary. */
  async #advise(payments: readonly PaymentSummary[]): Promise<ReadonlyMap<string, string>> {
    const advices = new Map<string, string>();
    let lookups = 0;
    for (const payment of payments) {
      const isOpen = payment.state === "SIGNED" && lookups < MAX_LOOKUPS;
      if (isOpen) lookups += 1;
      const detail = isOpen ? await this.#ground.books.show(payment.key) : undefined;
      advices.set(payment.key, adviceOn(detail ?? payment));
    }
    return advices;
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
    const questions = new Map<string, TimelineRecord[]>();
    for (const record of all) {
      if (record.head === null || isPresented(record)) continue;
      const buyer = buyerOf(record.head);
      const others = questions.get(buyer);
      if (others === undefined) questions.set(buyer, [record]);
      else others.push(record);
    }
    const presented = all.filter(isPresented);
    const taken = presented.filter((record) => !isRefused(record)).slice(0, MAX_SHOWN);
    const refused = presented.filter(isRefused).slice(0, MAX_SHOWN_REFUSED);
    return { taken, refused, questions };
  }
}

/** The last one before the payment. */
function questionOf(
  { atMs }: TimelineRecord,
  questions: readonly TimelineRecord[],
): TimelineRecord | null {
  const found = questions.find(
    (each) => each.atMs <= atMs && atMs - each.atMs < ANSWERED_WITHIN_MS,
  );
  return found ?? null;
}

/** The same for a question and for the payment that answers it. */
function buyerOf({ client, method, target }: TimelineHead): string {
  return `${client} ${method} ${target}`;
}

/** Something that was to be a payment. */
function isPresented({ head, end }: TimelineRecord): boolean {
  return head !== null && (head.presented !== null || end?.outcome === "malformed");
}

/** Nothing was taken: anybody can send such a request, as often as they like. */
function isRefused({ end }: TimelineRecord): boolean {
  return end?.outcome === "refused" || end?.outcome === "malformed";
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
