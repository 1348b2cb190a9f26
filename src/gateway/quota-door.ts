/**
 * How many strangers have something for nothing. Each of them costs a row of the ledger until its window ends, and
 * addresses and accounts cost their owners little: in one window a process opens only so many, and of one neighbourhood a share. For
 * whoever comes then the price begins at once.
 */

/** Strangers of one route that have something for nothing in one window of a minute or more; of a shorter one fewer. */
export const MAX_STRANGERS = 10_000;
const WHOLE_WINDOW_MS = 60_000;
/** Of those, accounts that come from one address (of IPv6: /64), and addresses of one neighbourhood. */
export const MAX_OF_NEIGHBOURS = { payer: 64, address: 256 } as const;
/** So long it is remembered that somebody has nothing left, milliseconds: what failed meanwhile is his again. */
const NOTHING_LEFT_MS = 1_000;

/** How much is free of a route before its price begins, and for whom. */
export interface QuotaTerms {
  readonly requests: number;
  /** Windows follow one another since the epoch, milliseconds. */
  readonly windowMs: number;
  readonly by: "payer" | "address";
}

export interface Stranger {
  /** Key of the route. */
  readonly route: string;
  readonly by: keyof typeof MAX_OF_NEIGHBOURS;
  /** An account, or an address (of IPv6: /64). */
  readonly who: string;
  /** Of which many belong to one. */
  readonly neighbourhood: string;
  readonly windowMs: number;
  /** When the window ends, milliseconds since the epoch. */
  readonly untilMs: number;
}

interface Window {
  readonly by: Stranger["by"];
  readonly windowMs: number;
  readonly untilMs: number;
  /** Until when it is known that somebody has nothing left, by who he is; 0: that is not known. */
  readonly strangers: Map<string, number>;
  readonly neighbours: Map<string, number>;
}

export class QuotaDoor {
  /** Of each route the newest. */
  readonly #windows = new Map<string, Window>();

  /** Strangers that are remembered. */
  get size(): number {
    return [...this.#windows.values()].reduce((sum, { strangers }) => sum + strangers.size, 0);
  }

  /** Whether he may take of what is free now. `empty`: he has had his. `full`: others have it. */
  admits(stranger: Stranger, nowMs: number): "in" | "empty" | "full" {
    const { by, who, neighbourhood, windowMs } = stranger;
    const { strangers, neighbours } = this.#windowOf(stranger, nowMs);
    const nothingUntilMs = strangers.get(who);
    if (nothingUntilMs !== undefined) return nowMs < nothingUntilMs ? "empty" : "in";
    const most = Math.ceil(MAX_STRANGERS * Math.min(1, windowMs / WHOLE_WINDOW_MS));
    const ofThem = neighbours.get(neighbourhood) ?? 0;
    if (strangers.size >= most || ofThem >= MAX_OF_NEIGHBOURS[by]) return "full";
    strangers.set(who, 0);
    neighbours.set(neighbourhood, ofThem + 1);
    return "in";
  }

  /** He has had all of it. */
  emptied(stranger: Stranger, nowMs: number): void {
    this.#windowOf(stranger, nowMs).strangers.set(stranger.who, nowMs + NOTHING_LEFT_MS);
  }

  /** Of what the file says now: a window of before a reload ends with that. */
  #windowOf({ route, by, windowMs, untilMs }: Stranger, nowMs: number): Window {
    const known = this.#windows.get(route);
    const isSame = known?.by === by && known.windowMs === windowMs;
    if (isSame && known.untilMs >= untilMs) return known;
    // Those of routes that nobody asks for any more, too.
    for (const [each, old] of this.#windows) if (old.untilMs <= nowMs) this.#windows.delete(each);
    const window: Window = { by, windowMs, untilMs, strangers: new Map(), neighbours: new Map() };
    this.#windows.set(route, window);
    return window;
  }
}
