/** What the operator's overview shows, as values. */

/** Something that waits for the operator. */
export interface NeedView {
  readonly text: string;
  /** What to type; "": nothing can be typed. */
  readonly command: string;
}

/** What was earned in one unit: tokens of one symbol on whichever networks. */
export interface UnitView {
  readonly symbol: string;
  /** Whole tokens, exact. */
  readonly today: string;
  readonly all: string;
  /** What of it was paid back. */
  readonly refunded: string;
  readonly sales: number;
  /** Each day, the oldest first. */
  readonly days: readonly {
    readonly day: string;
    readonly amount: string;
    /** Of the best day's, 0 to 1. */
    readonly share: number;
  }[];
}

/** A route, or a network. */
export interface EarnedView {
  readonly name: string;
  readonly sales: number;
  /** With their symbols, several units after each other. */
  readonly today: string;
  readonly all: string;
  /** What our transactions cost there; "": nothing. */
  readonly gas: string;
}

export interface MoneyView {
  /** ISO 8601, UTC: when the books were read. */
  readonly at: string;
  readonly units: readonly UnitView[];
  /** Those that sold most first; `more`: how many others there are. */
  readonly routes: { readonly shown: readonly EarnedView[]; readonly more: number };
  readonly networks: readonly EarnedView[];
}

/** How long backends took for the requests of one route. */
export interface WaitView {
  readonly route: string;
  readonly requests: number;
  /** Of so many of all requests, estimated from the buckets of its histogram, milliseconds. */
  readonly halfMs: number;
  readonly mostMs: number;
}

export interface OverviewView {
  /** ISO 8601, UTC. */
  readonly at: string;
  readonly isReady: boolean;
  /** Why it is not, and what can be paid on. */
  readonly said: readonly string[];
  readonly needs: readonly NeedView[];
  /** A text: why the books are not told. */
  readonly money: MoneyView | string;
  /** What became of requests for what is sold, since the process began. */
  readonly flow: {
    readonly since: string;
    readonly steps: readonly { readonly name: string; readonly count: number }[];
  };
  readonly waits: readonly WaitView[];
}
