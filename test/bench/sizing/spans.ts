/** Stretches of time with what they took, and what is left of them for one answer. */
import type { LoadJob, LoadResult } from "../load.ts";
import type { Program } from "../process.ts";
import { median, runLoad } from "../rounds.ts";
import type { Cost, KindCost, SaleCost } from "./figures.ts";
import type { Shop, SizingStage } from "./stage.ts";

interface ShopSpan {
  readonly gateway: number;
  readonly thread: number;
  /** In blocks since it began. */
  readonly transactions: number;
  /** Its transactions that are not final, each times the seconds for which it was not. */
  readonly watched: number;
}

/** What the processes took meanwhile, microseconds. */
export interface Span {
  readonly seconds: number;
  readonly answers: number;
  readonly shops: readonly ShopSpan[];
  readonly postgres: number;
  readonly node: number;
  readonly commits: number;
  readonly walBytes: number;
}

/** Measures whatever is done, which tells how much was answered. */
export async function spanOf(
  stage: SizingStage,
  shops: readonly Shop[],
  work: () => Promise<number>,
): Promise<Span> {
  const before = await stage.read(shops);
  const answers = await work();
  const after = await stage.read(shops);
  const seconds = (after.atMs - before.atMs) / 1000;
  return {
    seconds,
    answers,
    shops: after.shops.map((now, at) => {
      const then = before.shops[at] ?? now;
      return {
        gateway: now.gateway - then.gateway,
        thread: now.thread - then.thread,
        transactions: now.transactions - then.transactions,
        watched: ((then.unfinal + now.unfinal) / 2) * seconds,
      };
    }),
    postgres: after.postgres - before.postgres,
    node: after.node - before.node,
    commits: after.commits - before.commits,
    walBytes: after.walBytes - before.walBytes,
  };
}

/** All of it answered as expected. @throws {Error} with the first answer that is not */
export async function loadOf(load: Program, job: LoadJob): Promise<LoadResult> {
  const result = await runLoad(load, job);
  if (result.fault !== null) throw new Error(`a wrong answer: ${result.fault}`);
  return result;
}

/** What goes on when nobody asks. */
export interface Ground {
  /** Of the same shops. */
  readonly idle: Span;
  /** For one transaction and second, of the shop that watches it. */
  readonly watching: Cost;
}

/** What an answer took of everything above its ground, by the shops at these places, in the median round. */
export function costOf(
  spans: readonly Span[],
  { idle, watching }: Ground,
  places: readonly number[],
): KindCost {
  const all = idle.shops.map((_, at) => at);
  const sum = (span: Span, name: keyof ShopSpan, of: readonly number[]): number =>
    of.reduce((total, at) => total + (span.shops[at]?.[name] ?? 0), 0);
  const above = (spent: (span: Span) => number, watched: (span: Span) => number): number =>
    median(
      spans.map((span) => {
        const resting = (spent(idle) / idle.seconds) * span.seconds;
        return Math.max(0, spent(span) - resting - watched(span)) / Math.max(1, span.answers);
      }),
    );
  // Whoever signs watches, in the thread that has the money.
  const ours = (name: "gateway" | "thread"): number =>
    above(
      (span) => sum(span, name, places),
      (span) => watching.gateway * sum(span, "watched", places),
    );
  const shared = (name: "postgres" | "node"): number =>
    above(
      (span) => span[name],
      (span) => watching[name] * sum(span, "watched", all),
    );
  return {
    gateway: ours("gateway"),
    thread: ours("thread"),
    postgres: shared("postgres"),
    node: shared("node"),
  };
}

/** The same of sales, with how many a transaction carried. */
export function saleCostOf(
  spans: readonly Span[],
  ground: Ground,
  places: readonly number[],
): SaleCost {
  return { ...costOf(spans, ground, places), together: median(spans.map(togetherOf)) };
}

export function togetherOf({ answers, shops }: Span): number {
  const transactions = shops.reduce((sum, each) => sum + each.transactions, 0);
  return answers / Math.max(1, transactions);
}

/** Of one answer in the median round, above what is written at rest. */
export function writtenOf(
  spans: readonly Span[],
  idle: Span,
  name: "commits" | "walBytes",
): number {
  return median(
    spans.map((span) => (span[name] - (idle[name] / idle.seconds) * span.seconds) / span.answers),
  );
}

/** Of a stretch with nothing but watching. */
export function watchingOf(span: Span, idle: Span): Cost {
  const watched = span.shops.reduce((sum, each) => sum + each.watched, 0);
  const cost = (spent: (each: Span) => number): number =>
    Math.max(0, spent(span) - (spent(idle) / idle.seconds) * span.seconds) / Math.max(1, watched);
  return {
    gateway: cost(({ shops }) => shops.reduce((sum, { gateway }) => sum + gateway, 0)),
    postgres: cost(({ postgres }) => postgres),
    node: cost(({ node }) => node),
  };
}

/** For one second, of the shops at these places; PostgreSQL's for one of so many. */
export function restOf(span: Span, places: readonly number[], sharers: number): Cost {
  const gateway = places.reduce((sum, at) => sum + (span.shops[at]?.gateway ?? 0), 0);
  return {
    gateway: gateway / span.seconds,
    postgres: span.postgres / span.seconds / sharers,
    node: span.node / span.seconds,
  };
}
