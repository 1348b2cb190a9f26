/** What is not sold for a while, whoever pays: what an operator has paused, and what an hour's limits have used up. */
import type { PauseScope } from "../../ledger/pauses.ts";

export interface Stop {
  /** `sales`, `gas`: as much of it as may be was sold, or burnt, in this hour. */
  readonly why: "paused" | "sales" | "gas";
  /** Milliseconds since the epoch; null: nobody knows when it ends. */
  readonly untilMs: number | null;
}

/** `sales`: every route, by the limit of an hour. */
export type StopScope = PauseScope | "sales";

export type Stops = ReadonlyMap<string, Stop>;

/** What there is of stops now. */
export interface StopSource {
  /** Another number as soon as `stops` are others. */
  readonly revision: number;
  readonly stops: Stops;
}

export const NO_STOPS: StopSource = { revision: 0, stops: new Map() };

/** How long to wait for what nobody knows the end of, seconds. */
const UNKNOWN_END_SECONDS = 60;

/** What keeps a route from being sold, however it is paid. */
export function stopOf(stops: Stops, route: string): Stop | undefined {
  return at(stops, "all") ?? at(stops, "sales") ?? at(stops, `route ${route}`);
}

/** What keeps payments on a network from being taken, whatever they are for. */
export function stopOn(stops: Stops, network: string): Stop | undefined {
  return stops.get("all") ?? stops.get(`network ${network}`);
}

function at(stops: Stops, scope: StopScope): Stop | undefined {
  return stops.get(scope);
}

/** For a `Retry-After`. */
export function secondsUntil(untilMs: number | null, nowMs: number): number {
  if (untilMs === null) return UNKNOWN_END_SECONDS;
  return Math.max(1, Math.ceil((untilMs - nowMs) / 1000));
}

/** A sentence for buyers. */
export function saidOfStop({ why }: Stop): string {
  const said =
    why === "paused"
      ? "this is not for sale at the moment"
      : "as much as may be was sold in this hour";
  return `${said}, and nothing was charged; try again later`;
}

/** What ends first comes first. */
export function bySoonest(one: Stop, other: Stop): number {
  return (one.untilMs ?? Infinity) - (other.untilMs ?? Infinity);
}
