/**
 * What one configuration says otherwise than another: by the keys of the file, with values as people read them, and
 * without secrets. Of routes what a buyer meets is compared, whichever key of the file it comes from.
 */
import { isDeepStrictEqual } from "node:util";
import { formatAmount } from "../x402/amount.ts";
import type { PayerList } from "../x402/payer-list.ts";
import type { Config } from "./document.ts";
import { Secret } from "./facilitator/secret.ts";
import type { OfferSettings } from "./routes/pricing.ts";
import type { PricedAction, RouteSettings } from "./routes/routes.ts";

/** Null: it is not there. A secret is shown as such on both sides. */
export interface ConfigChange {
  readonly key: string;
  readonly before: string | null;
  readonly after: string | null;
}

/** Longest value that is shown, characters. */
const MAX_SHOWN = 120;
const HIDDEN = "(secret)";

/** How a value of that name is read, and what it is called in the file. */
const UNITS: readonly (readonly [end: RegExp, key: string, show: (count: number) => string])[] = [
  [/BytesPerSecond$/, "Rate", (bytes) => `${bytes}B/s`],
  [/Bytes$/, "", (bytes) => `${bytes}B`],
  [/Ms$/, "", (ms) => (ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`)],
];

/** Each change as it is found, and null after every route: whoever has thousands of them may pause there. */
export function* changesBetween(before: Config, after: Config): Generator<ConfigChange | null> {
  yield* compare("", leavesOf(settingsOf(before)), leavesOf(settingsOf(after)));
  yield null;
  for (const key of ["deny", "allow"] as const) {
    yield* compareLists(`payers.${key}`, before.payers[key], after.payers[key]);
  }
  const [groups, old] = [after.members.groups, before.members.groups];
  for (const name of new Set([...Object.keys(old), ...Object.keys(groups)])) {
    yield* compareLists(`members.${name}`, old[name] ?? null, groups[name] ?? null);
  }
  const earlier = new Map(before.routes.map((route) => [route.key, route]));
  for (const route of after.routes) {
    const old = earlier.get(route.key);
    earlier.delete(route.key);
    if (old === undefined)
      yield { key: `routes.${route.key}`, before: null, after: briefly(route) };
    else if (old.action.kind !== route.action.kind) {
      yield { key: `routes.${route.key}`, before: briefly(old), after: briefly(route) };
    } else if (!isDeepStrictEqual(old.action, route.action)) {
      yield* compare(`routes.${route.key}.`, termsOf(old), termsOf(route));
    }
    yield null;
  }
  for (const [key, route] of earlier) {
    yield { key: `routes.${key}`, before: briefly(route), after: null };
    yield null;
  }
}

/** What one payment for a route costs; null where it is not priced. */
export function priceOf({ action }: Pick<RouteSettings, "action">): string | null {
  return action.kind === "priced" ? askedFor(action) : null;
}

/** What it would cost, were it not for its mode; null: nothing either. */
export function shadowPriceOf({ action }: Pick<RouteSettings, "action">): string | null {
  return action.kind === "free" && action.shadow !== undefined ? askedFor(action.shadow) : null;
}

function askedFor(action: PricedAction): string {
  return pricesOf(action.offers);
}

function exactly({ amountAtomic, asset }: OfferSettings): string {
  return `${amountAtomic}/${asset.decimals}`;
}

function pricesOf(offers: readonly OfferSettings[]): string {
  const prices = offers.map(({ dollars, amountAtomic, asset: { decimals, symbol } }) => {
    return dollars ?? `${formatAmount(amountAtomic, decimals)} ${symbol}`;
  });
  return distinct(prices);
}

/** Entries of a list that are compared between two pauses. */
const ENTRIES_AT_ONCE = 4_096;

/** A list may have a million entries: how many there are is told, and not who. */
function* compareLists(
  key: string,
  before: PayerList | null,
  after: PayerList | null,
): Generator<ConfigChange | null> {
  let isSame = before?.size === after?.size;
  let count = 0;
  for (const name of after?.names ?? []) {
    isSame &&= before?.names.has(name) === true;
    if (!isSame) break;
    count += 1;
    if (count % ENTRIES_AT_ONCE === 0) yield null;
  }
  if (!isSame) yield { key, before: sizeOf(before), after: sizeOf(after) };
}

function sizeOf(list: PayerList | null): string | null {
  return list && `${list.size} listed`;
}

/** A leaf is what is compared and what is shown. */
type Leaves = ReadonlyMap<string, { readonly value: unknown; readonly shown: string }>;

function* compare(prefix: string, before: Leaves, after: Leaves): Generator<ConfigChange> {
  for (const key of new Set([...before.keys(), ...after.keys()])) {
    const [old, now] = [before.get(key), after.get(key)];
    if (old?.value === now?.value) continue;
    yield { key: prefix + key, before: cut(old?.shown), after: cut(now?.shown) };
  }
}

function cut(shown: string | undefined): string | null {
  if (shown === undefined) return null;
  return shown.length > MAX_SHOWN ? `${shown.slice(0, MAX_SHOWN)}…` : shown;
}

/** All but the routes, by the keys of the file. */
function settingsOf(config: Config): object {
  const { file: _, routes, hosts, sites, upstreams, facilitator, store, keeping, ...more } = config;
  const { webhooks, included: include, members, ...rest } = more;
  const { embedded, observed, remote, payees, leastAttodollars, bearer, gateways, ...others } =
    facilitator;
  const own = new Set(routes.flatMap(offersOf).map(({ payTo }) => payTo));
  const guests = payees === "any" ? payees : payees.filter((payee) => !own.has(payee));
  return {
    ...rest,
    include,
    members: members.holders,
    hosts: sites.length === 0 ? hosts : byName(sites, ({ name }) => name),
    upstreams: byName(upstreams, ({ name }) => name),
    webhooks: byName(webhooks, ({ name }) => name),
    facilitator: {
      ...others,
      embedded: {
        networks: byName(embedded, ({ network }) => network),
        allow: { payTo: guests, minAmount: leastAttodollars },
      },
      rpc: byName(observed, ({ network }) => network),
      remote: byName(remote, ({ url }) => url),
      auth: { bearer, gateways: byName(gateways, ({ name }) => name) },
    },
    store: { ...store, ...keeping },
  };
}

function byName<Each>(list: readonly Each[], nameOf: (each: Each) => string): object {
  return Object.fromEntries(list.map((each) => [nameOf(each), each]));
}

function leavesOf(value: object): Leaves {
  const leaves = new Map<string, { value: unknown; shown: string }>();
  const visit = (each: unknown, path: string, show: (count: number) => string): void => {
    if (each instanceof Secret) leaves.set(path, { value: each.reveal(), shown: HIDDEN });
    else if (Array.isArray(each) && each.every((one) => Object(one) !== one)) {
      leaves.set(path, leafOf(each.join(", ")));
    } else if (Array.isArray(each)) {
      for (const [index, one] of each.entries()) visit(one, `${path}[${index}]`, show);
    } else if (typeof each === "object" && each !== null) {
      for (const [name, member] of Object.entries(each)) {
        const unit = UNITS.find(([end]) => end.test(name));
        const key = unit === undefined ? name : name.replace(unit[0], unit[1]);
        visit(member, path === "" ? key : `${path}.${key}`, unit?.[2] ?? String);
      }
    } else if (each !== null && each !== undefined) {
      leaves.set(path, { value: each, shown: scalarText(each, show) });
    }
  };
  visit(value, "", String);
  return leaves;
}

function scalarText(scalar: unknown, show: (count: number) => string): string {
  if (typeof scalar === "number") return show(scalar);
  if (typeof scalar === "bigint") return scalar.toString();
  return typeof scalar === "string" ? scalar : JSON.stringify(scalar);
}

function leafOf(text: string): { readonly value: unknown; readonly shown: string } {
  return { value: text, shown: text };
}

/** What a buyer meets at a route. */
function termsOf(route: RouteSettings): Leaves {
  const { action } = route;
  const written = ([key, value]: readonly [string, unknown]) => {
    return [key, leafOf(typeof value === "string" ? value : JSON.stringify(value))] as const;
  };
  if (action.kind !== "priced") {
    const shadow = shadowPriceOf(route);
    const told = Object.entries(shadow === null ? action : { ...action, shadow });
    return new Map(told.map(written));
  }
  const { offers, prices, ...terms } = action;
  const told = (one: (offer: OfferSettings) => string, shown: string) => {
    return { value: distinct(offers.map(one)), shown };
  };
  const accepted = offers.map(({ network, asset }) => `${network} ${asset.symbol}`);
  return new Map([
    ["price", told(exactly, priceOf(route) ?? "")],
    ["accept", told(({ network, asset }) => `${network} ${asset.address}`, distinct(accepted))],
    ["payTo", leafOf(distinct(offers.map(({ payTo }) => payTo)))],
    ...prices.map((each) => {
      const shown = pricesOf(each.offers) || "free";
      const value = distinct(each.offers.map(exactly)) || "free";
      return [`prices.${each.group}`, { value, shown }] as const;
    }),
    ...Object.entries(terms).map(written),
  ]);
}

function briefly(route: RouteSettings): string {
  const shadow = shadowPriceOf(route);
  return priceOf(route) ?? (shadow === null ? route.action.kind : `free (shadow of ${shadow})`);
}

function offersOf({ action }: RouteSettings): readonly OfferSettings[] {
  return action.kind === "priced" ? action.offers : [];
}

function distinct(texts: readonly string[]): string {
  return [...new Set(texts)].join(", ");
}
