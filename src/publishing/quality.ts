/**
 * The ledger's books -> how well each route was delivered. Read again and again, a page at a time, so that payments
 * have the ledger to themselves meanwhile; what requests are answered with is what was read last.
 */
import { sitesOf, type Config } from "../config/config.ts";
import type { QualityNews, RouteQuality, ToldQualities } from "../discovery/quality.ts";
import { Router } from "../gateway/paths/router.ts";
import type { Books, SaleRecord } from "../ledger/books.ts";
import type { Logger } from "../telemetry/logger.ts";
import { inTurns } from "../time/breath.ts";
import type { Time } from "../time/time.ts";

/** Pause between two readings, milliseconds. */
const READING_MS = 60_000;
/** Sales that are read of the books at once, and the pause before the next ones, milliseconds. */
const PAGE = 200;
const PAGE_MS = 20;
/** Sales that are judged by at most: the newest. */
const MAX_SALES = 10_000;
/** Of fewer sales a share, or a time that half of them took, says nothing. */
const FEWEST_SALES = 10;
/** What was claimed so short a while ago and is not delivered may be under way, milliseconds. */
const UNDER_WAY_MS = 60_000;
const DAY_MS = 86_400_000;
/** Whole days before today that are looked at: with today they are no more than 30. */
const DAYS = 29;

export interface QualityGround {
  readonly books: Pick<Books, "sales">;
  /** What is sold now. */
  readonly config: () => Pick<Config, "routes" | "sites" | "discovery">;
  readonly keepMs: number | null;
  readonly news: QualityNews;
  readonly logger: Logger;
  readonly time: Time;
}

/** Reads at once and then again and again; `stop` resolves when nothing is read any more. */
export function startQuality(ground: QualityGround): { stop(): Promise<void> } {
  const { config, news, logger, time } = ground;
  const stopping = new AbortController();
  const { signal } = stopping;
  const reading = (async () => {
    while (!signal.aborted) {
      try {
        if (config().discovery.quality) news.tell(await readQualities(ground, signal));
      } catch (cause) {
        logger.warn({ err: cause }, "what was sold cannot be read: the listing tells what it was");
      }
      await time.sleep(READING_MS, signal);
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await reading;
    },
  };
}

/** What is known of one route. */
interface Tally {
  readonly payers: Set<string>;
  readonly deliveryMs: number[];
  sales: number;
  underWay: number;
  lastCalledMs: number;
  lastDeliveredMs: number;
}

async function readQualities(
  { books, config, keepMs, news, time }: QualityGround,
  signal: AbortSignal,
): Promise<ToldQualities> {
  const nowMs = time.now();
  const today = Math.floor(nowMs / DAY_MS) * DAY_MS;
  // Of a day of which some sales are gone the rest would say less than there was.
  const keptMs = keepMs === null ? 0 : Math.ceil((nowMs - keepMs) / DAY_MS) * DAY_MS;
  const wholeMs = today - DAYS * DAY_MS;
  let sinceMs = Math.max(wholeMs, keptMs);
  const routers = new Map<string, Router<string>>();
  for (const { site, routes } of sitesOf(config())) {
    const values = routes.map(({ methods, pattern, key }) => ({ methods, pattern, value: key }));
    const terms = { guarded: () => false, unmatchedGuarded: false };
    routers.set(site, await inTurns(Router.steps(values, terms)));
  }
  const tallies = new Map<string, Tally>();
  let after: SaleRecord | undefined;
  for (let count = 0; count < MAX_SALES; count += PAGE) {
    const page = await books.sales({ sinceMs, after, limit: PAGE });
    for (const sale of page) note(sale, nowMs, routers, tallies);
    after = page.at(-1);
    if (after === undefined || page.length < PAGE) break;
    if (count + PAGE >= MAX_SALES) sinceMs = after.claimedMs;
    await time.sleep(PAGE_MS, signal);
    if (signal.aborted) return news.told;
  }
  const isWhole = sinceMs === wholeMs;
  return [...tallies].map(([route, tally]) => [route, qualityOf(tally, { sinceMs, isWhole })]);
}

function note(
  { binding, payer, state, claimedMs, deliveredMs }: SaleRecord,
  nowMs: number,
  routers: ReadonlyMap<string, Router<string>>,
  tallies: Map<string, Tally>,
): void {
  // `METHOD /path`, with the name of the site before the path where it has one.
  const [space, slash] = [binding.indexOf(" "), binding.indexOf("/")];
  const router = routers.get(binding.slice(space + 1, slash));
  const match = router?.match(binding.slice(0, space), binding.slice(slash));
  if (match?.kind !== "route") return;
  const tally = tallies.get(match.value) ?? {
    payers: new Set(),
    deliveryMs: [],
    sales: 0,
    underWay: 0,
    lastCalledMs: 0,
    lastDeliveredMs: 0,
  };
  tallies.set(match.value, tally);
  tally.sales += 1;
  tally.payers.add(payer.toLowerCase());
  tally.lastCalledMs = Math.max(tally.lastCalledMs, claimedMs);
  if (deliveredMs !== null) {
    tally.deliveryMs.push(deliveredMs - claimedMs);
    tally.lastDeliveredMs = Math.max(tally.lastDeliveredMs, deliveredMs);
  } else if (state === "DELIVERING" || claimedMs > nowMs - UNDER_WAY_MS) tally.underWay += 1;
}

function qualityOf(
  { payers, deliveryMs, sales, underWay, lastCalledMs, lastDeliveredMs }: Tally,
  { sinceMs, isWhole }: { readonly sinceMs: number; readonly isWhole: boolean },
): RouteQuality {
  const delivered = deliveryMs.length;
  const ended = sales - underWay;
  const sorted = deliveryMs.toSorted((left, right) => left - right);
  return {
    sales,
    since: timeOf(sinceMs),
    lastCalledAt: timeOf(lastCalledMs),
    ...(delivered > 0 && { lastDeliveredAt: timeOf(lastDeliveredMs) }),
    // Rounded down: one that failed is not to be rounded away.
    ...(ended >= FEWEST_SALES && { deliveredShare: Math.floor((delivered / ended) * 1000) / 1000 }),
    ...(delivered >= FEWEST_SALES && { medianDeliveryMs: sorted[delivered >> 1] ?? 0 }),
    ...(isWhole && { l30DaysTotalCalls: sales, l30DaysUniquePayers: payers.size }),
  };
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}
