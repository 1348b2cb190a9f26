/** What operators have stopped from being sold for a while: durable, and for all who share a ledger. */
import type { NetworkName } from "../x402/network.ts";

/** Everything, one route by its key, or whatever is paid on one network. */
export type PauseScope = "all" | `route ${string}` | `network ${NetworkName}`;

export interface Pause {
  readonly scope: PauseScope;
  /** Milliseconds since the epoch; null: until it is resumed. */
  readonly untilMs: number | null;
  /** For people, in the operator's words; may be "". */
  readonly reason: string;
  /** Who has stopped it. */
  readonly by: string;
  readonly sinceMs: number;
}

export interface Pauses {
  /** Those that are in force, the oldest first. */
  list(): Promise<readonly Pause[]>;
  /** Seen by {@link list} everywhere when this resolves. One of the same scope is replaced. */
  pause(pause: Pause): Promise<void>;
  /** Ends that pause, or all of them; resolves with how many there were. */
  resume(scope?: PauseScope): Promise<number>;
}

/** Reads a row as a database driver returns it, whose columns bear the names of {@link Pause}. */
export function readPause(columns: Readonly<Record<string, unknown>>): Pause {
  const { scope, untilMs, reason, by, sinceMs } = columns;
  return {
    // Nobody but `pause` writes the column.
    scope: String(scope) as PauseScope,
    untilMs: typeof untilMs === "number" ? untilMs : null,
    reason: String(reason),
    by: String(by),
    sinceMs: Number(sinceMs),
  };
}
