/**
 * What a file would have asked for requests that were answered in the past, by the access logs of this gateway (JSON or
 * combined) or of any web server that writes the Combined Log Format. Nothing is asked of anybody.
 */
import {
  sitesOf,
  siteTable,
  type Config,
  type OfferSettings,
  type PricedAction,
  type RouteSettings,
} from "../config/config.ts";
import { Router } from "../gateway/paths/router.ts";
import { computedPrice } from "../publishing/computed.ts";
import { unitsOf } from "../pricing/exact-price.ts";
import { readTarget } from "../gateway/paths/target.ts";
import { printable } from "../x402/printable.ts";

/** What is told of a route, or of a client. */
export interface ForecastLine {
  /** Key of the route, or how the client calls itself. */
  readonly name: string;
  readonly requests: number;
  /** Of them those that showed a payment. */
  readonly paying: number;
  /** Different addresses; more than {@link MAX_CLIENTS} are not told apart. */
  readonly clients: number;
  /** Atomic dollars (a millionth) if every request had been paid for; null: no offer of it is in dollars. */
  readonly microdollars: bigint | null;
}

export interface Forecast {
  /** Lines that were no request. */
  readonly unread: number;
  /** Requests for what is free, denied or of no route, and answers that are not sold (4xx and 5xx). */
  readonly unsold: number;
  /** The dearest first. */
  readonly routes: readonly ForecastLine[];
  /** Who would have been asked to pay and showed no payment, by how they call themselves; the most requests first. */
  readonly agents: readonly ForecastLine[];
}

/** Addresses, and names of clients, that are told apart at most. */
const MAX_CLIENTS = 100_000;
const MAX_AGENTS = 10_000;
/** Of all the others. */
const OTHERS = "(others)";
const NOBODY = "(no User-Agent)";
const MICRODOLLARS = 1_000_000;
const MICRO_DECIMALS = 6;

/** One answered request, as a log tells it. */
interface Logged {
  readonly client: string;
  readonly method: string;
  readonly target: string;
  readonly status: number;
  readonly agent: string;
  readonly isPaying: boolean;
  /** Whom it asked; undefined: the log does not say. */
  readonly host?: string;
}

/** As the access log writes it, and as Apache and nginx do: what comes behind the agent is passed over. */
const COMBINED =
  /^(\S+) \S+ \S+ \[[^\]]*\] "([A-Z]+) (\S+) HTTP\/[\d.]+" (\d{3}) \S+ "(?:[^"\\]|\\.)*" "((?:[^"\\]|\\.)*)"(.*)$/;

/** @param usual whom lines are for that do not say; default: the file's own site */
export async function forecast(
  config: Pick<Config, "routes" | "sites" | "publicUrl">,
  lines: AsyncIterable<string>,
  usual = "",
): Promise<Forecast> {
  const all = sitesOf(config);
  const sites = all.map(({ site, routes }) => {
    const router = new Router<RouteSettings>(
      routes.map((route) => ({ ...route, value: route })),
      { guarded: ({ action }) => soldBy(action) !== null, unmatchedGuarded: true },
    );
    return [site, router] as const;
  });
  const [[, own] = []] = sites;
  const named = siteTable(all);
  const routers = new Map(sites);
  const [routes, agents] = [new Tally(Infinity), new Tally(MAX_AGENTS)];
  let [unread, unsold] = [0, 0];
  for await (const line of lines) {
    if (line.trim() === "") continue;
    const logged = readLine(line);
    if (logged === null) {
      unread += 1;
      continue;
    }
    const router = routers.get(named.of(logged.host ?? usual) ?? "") ?? own;
    const route = router === undefined ? null : routeOf(router, logged);
    const sold = route === null ? null : soldBy(route.action);
    if (route === null || sold === null || !isGoods(sold, logged.status)) {
      unsold += 1;
      continue;
    }
    const price = priceOf(route, sold, logged);
    routes.add(route.key, logged, price);
    if (!logged.isPaying) agents.add(logged.agent, logged, price);
  }
  return {
    unread,
    unsold,
    routes: routes.lines.toSorted((left, right) => compare(right.microdollars, left.microdollars)),
    agents: agents.lines.toSorted((left, right) => right.requests - left.requests),
  };
}

function compare(left: bigint | null, right: bigint | null): number {
  const [one, other] = [left ?? -1n, right ?? -1n];
  return one < other ? -1 : Number(one > other);
}

function soldBy(action: RouteSettings["action"]): PricedAction | null {
  if (action.kind === "priced") return action;
  return action.kind === "free" ? (action.shadow ?? null) : null;
}

/** What a buyer would have been charged for; a 402 of ours would have been paid. */
function isGoods({ goods }: PricedAction, status: number): boolean {
  return status < 400 || status === 402 || goods.includes(status);
}

function routeOf(router: Router<RouteSettings>, { method, target }: Logged): RouteSettings | null {
  const read = readTarget(method, target, new Set());
  if (read.kind !== "ok") return null;
  const match = router.match(method, read.path);
  return match.kind === "route" ? match.value : null;
}

/** Of what a line tells; where that is not enough for a price that is computed, the least that is sold. */
function priceOf(
  route: RouteSettings,
  sold: PricedAction,
  { method, target }: Logged,
): bigint | undefined {
  if (sold.metered !== null) return dearest([{ dollars: sold.metered.max }]);
  if (sold.computed === null) return dearest(sold.offers);
  const price = computedPrice(route, sold);
  const own =
    price?.isOfTarget === true ? price.priceOf({ method, target, rawHeaders: [] }) : undefined;
  if (own?.ok === true) return unitsOf(own.value, MICRO_DECIMALS);
  return dearest([{ dollars: sold.computed.from }]);
}

/** In millionths of a dollar; undefined: in other tokens only. */
function dearest(offers: readonly Pick<OfferSettings, "dollars">[]): bigint | undefined {
  const prices = offers.flatMap(({ dollars }) => {
    const [, whole = "", part = ""] = /^\$(\d+)(?:\.(\d{1,6}))?$/.exec(dollars ?? "") ?? [];
    if (whole === "") return [];
    return [BigInt(whole) * BigInt(MICRODOLLARS) + BigInt(part.padEnd(6, "0"))];
  });
  return prices.reduce<bigint | undefined>(
    (most, each) => (most === undefined || each > most ? each : most),
    undefined,
  );
}

class Tally {
  readonly #sums = new Map<
    string,
    { requests: number; paying: number; clients: Set<string>; microdollars: bigint | null }
  >();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  add(wanted: string, { client, isPaying }: Logged, price: bigint | undefined): void {
    const name = this.#sums.has(wanted) || this.#sums.size < this.#most ? wanted : OTHERS;
    const fresh = { requests: 0, paying: 0, clients: new Set<string>(), microdollars: null };
    const sum = this.#sums.get(name) ?? fresh;
    this.#sums.set(name, sum);
    sum.requests += 1;
    sum.paying += Number(isPaying);
    if (sum.clients.size < MAX_CLIENTS) sum.clients.add(client);
    if (price !== undefined) sum.microdollars = (sum.microdollars ?? 0n) + price;
  }

  get lines(): readonly ForecastLine[] {
    return [...this.#sums].map(([name, { clients, ...sum }]) => {
      return { name, ...sum, clients: clients.size };
    });
  }
}

function readLine(line: string): Logged | null {
  return line.startsWith("{") ? readJson(line) : readCombined(line);
}

function readJson(line: string): Logged | null {
  try {
    const { client, method, target, status, agent, outcome, payment, host } = Object(
      JSON.parse(line),
    );
    if (typeof method !== "string" || typeof target !== "string") return null;
    if (typeof status !== "number") return null;
    const isPaying = outcome === "shadow-paid" || payment !== undefined;
    return {
      client: String(client ?? ""),
      method,
      target,
      status,
      agent: agentOf(agent),
      isPaying,
      ...(typeof host === "string" && { host }),
    };
  } catch {
    return null;
  }
}

function readCombined(line: string): Logged | null {
  const [, client, method, target, status, agent, rest = ""] = COMBINED.exec(line) ?? [];
  if (client === undefined || method === undefined || target === undefined) return null;
  const isPaying = / (?:shadow-paid|paid|replayed|undelivered) /.test(rest);
  return { client, method, target, status: Number(status), agent: agentOf(agent), isPaying };
}

/** Strangers write it. */
function agentOf(agent: unknown): string {
  return typeof agent === "string" && agent !== "" && agent !== "-"
    ? printable(agent).slice(0, 100)
    : NOBODY;
}
