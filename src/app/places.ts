/**
 * How many places for requests there are: what `limits.inFlight` says, else as many as fit into the memory that this
 * process and its like may have, once the program itself has its own; at most {@link MOST_PLACES}.
 */
import { totalmem } from "node:os";

const MIB = 1024 * 1024;
/** Where memory is no matter. */
const MOST_PLACES = 5_000;
/** However little memory there is. */
const LEAST_PLACES = 100;
/**
 * What the costliest place holds: an answer of which nothing is taken, both connections' buffers, the kernel's among
 * them, and what is read ahead of the backend. Measured (decision record 56).
 */
const PLACE_BYTES = 1024 * 1024;
/** What the program holds beside them, with a thousand routes and under load; and each worker, which has less to do. */
const PROGRAM_BYTES = 192 * MIB;
const WORKER_BYTES = 64 * MIB;
/** Of the memory, the part that is counted on: what is freed is not collected at once. */
const SHARE = 9 / 10;

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

export interface ProcessPlaces {
  readonly count: number;
  /** A clause for people. */
  readonly reason: string;
}

/** Those of each of the processes that answer. */
export function placesOfEach(written: number | null, fronts: number): number {
  return Math.ceil(placesOf(written, fronts).count / fronts);
}

/**
 * @param written `limits.inFlight`; null: it is not there
 * @param fronts processes that answer: 1, or the workers
 */
export function placesOf(
  written: number | null,
  fronts: number,
  memory: Memory = readMemory(),
): ProcessPlaces {
  if (written !== null) return { count: written, reason: "as the file says" };
  const { machine, allowed } = memory;
  const bytes = allowed ?? machine;
  const owner = allowed === undefined ? "of this machine" : "that are allowed here";
  const size = `the ${Math.floor(bytes / MIB)} MiB ${owner}`;
  const ownBytes = PROGRAM_BYTES + (fronts > 1 ? fronts * WORKER_BYTES : 0);
  const fitting = Math.floor((bytes * SHARE - ownBytes) / PLACE_BYTES);
  if (fitting >= MOST_PLACES) {
    return { count: MOST_PLACES, reason: `the most without the key; ${size} hold more` };
  }
  if (fitting <= LEAST_PLACES) {
    return { count: LEAST_PLACES, reason: `the least without the key; ${size} hold fewer` };
  }
  const own = `${ownBytes / MIB} MiB for the program`;
  const reason = `what nine tenths of ${size} hold, ${own} and ${PLACE_BYTES / MIB} MiB for each`;
  return { count: fitting, reason };
}
