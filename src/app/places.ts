/**
 * How many places for requests there are: what `limits.inFlight` says, else as many as half of the memory holds that
 * this process may have, at most {@link MOST_PLACES}.
 */
import { totalmem } from "node:os";

/** Where memory is no matter. */
const MOST_PLACES = 5_000;
/** However little memory there is. */
const LEAST_PLACES = 100;
/**
 * What the costliest place holds: an HTTP/2 stream of which nothing is taken, its request and answer, both
 * connections' buffers and what is read ahead of the backend. Measured (decision record 56).
 */
const PLACE_BYTES = 240 * 1024;
/** Of the memory, the part that places may hold: the rest is for the program, its ledger and connections. */
const SHARE = 1 / 2;
const MIB = 1024 * 1024;

export interface Memory {
  /** Of the machine, bytes. */
  readonly machine: number;
  /** What the system allows this process and its like (a container's limit), bytes; undefined: no limit is known. */
  readonly allowed: number | undefined;
}

/** Of cgroups of both versions; what is 0 or more than the machine has is no limit. */
export function readMemory(): Memory {
  const machine = totalmem();
  const limit = process.constrainedMemory();
  return { machine, allowed: limit > 0 && limit < machine ? limit : undefined };
}

export interface Places {
  readonly count: number;
  /** A clause for people. */
  readonly reason: string;
}

/** @param written `limits.inFlight`; null: it is not there */
export function placesOf(written: number | null, memory: Memory = readMemory()): Places {
  if (written !== null) return { count: written, reason: "as the file says" };
  const { machine, allowed } = memory;
  const bytes = allowed ?? machine;
  const owner = allowed === undefined ? "of this machine" : "that are allowed here";
  const fitting = Math.floor((bytes * SHARE) / PLACE_BYTES);
  const count = Math.max(LEAST_PLACES, Math.min(MOST_PLACES, fitting));
  const size = `the ${Math.floor(bytes / MIB)} MiB ${owner}`;
  if (count === fitting) {
    return { count, reason: `half of ${size}, at ${PLACE_BYTES / 1024} KiB each` };
  }
  if (count === MOST_PLACES)
    return { count, reason: `the most without the key; ${size} hold more` };
  return { count, reason: `the least without the key; ${size} hold fewer` };
}
