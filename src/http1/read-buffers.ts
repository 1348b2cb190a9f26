/**
 * The memory that sockets read into: slabs that are read into again as soon as nobody holds any part of them,
 * because to collect the slabs of a body costs more than to carry it. While a head is awaited all connections
 * read into one buffer, since what is needed of it is taken out before anything else happens, and copied where
 * it is lent: the others go on reading there. A body is lent without a copy, part by part, until
 * {@link giveBack}. A part that is never given back is left to the garbage collector with its slab: that is
 * always right, and only slower.
 */

/** The largest read. */
const READ_BYTES = 64 * 1024;
/** A slab with less room than this is left to those who hold parts of it. */
const MIN_READ_BYTES = 16 * 1024;
/** Slabs that are kept for the next one who needs one: 8 MiB. */
const MAX_FREE_SLABS = 128;

class Slab {
  readonly memory = Buffer.allocUnsafeSlow(READ_BYTES);
  /** Bytes from the beginning that were lent. */
  used = 0;
  /** Parts that somebody holds. */
  parts = 0;
  /** Somebody reads into it. */
  isTaken = true;
}

/** All slabs: which of them nobody needs, and of which a part is until it is given back. */
class Slabs {
  readonly #lent = new WeakMap<Buffer, Slab>();
  readonly #free: Slab[] = [];

  take(): Slab {
    const slab = this.#free.pop() ?? new Slab();
    slab.isTaken = true;
    return slab;
  }

  leave(slab: Slab): void {
    slab.isTaken = false;
    this.#release(slab);
  }

  lend(slab: Slab, part: Buffer): Buffer {
    slab.used = part.byteOffset + part.length;
    slab.parts += 1;
    this.#lent.set(part, slab);
    return part;
  }

  giveBack(part: Buffer): void {
    const slab = this.#lent.get(part);
    if (slab === undefined) return;
    this.#lent.delete(part);
    slab.parts -= 1;
    this.#release(slab);
  }

  #release(slab: Slab): void {
    if (slab.parts > 0) return;
    slab.used = 0;
    if (!slab.isTaken && this.#free.length < MAX_FREE_SLABS) this.#free.push(slab);
  }
}

/**
 * One for all connections of the process, whosever they are: what one no longer needs another reads into, and whoever has
 * a part need not know from where it came.
 */
const SLABS = new Slabs();

/**
 * Not for two reads at the same time, and there are none: a read is over when its callback returns. Never lent
 * and never another one: each idle connection has already been told to read here next.
 */
const SHARED = Buffer.allocUnsafeSlow(READ_BYTES);

/**
 * Nobody will look at what was handed on any more: its memory may be read into again. The same part twice, and
 * what is no part of a slab, is ignored.
 */
export function giveBack(part: Buffer): void {
  SLABS.giveBack(part);
}

/** What one connection reads into. */
export class ReadBuffers {
  /** Null as long as no body is read. */
  #slab: Slab | null = null;

  /** For the next read. `bytesLeft`: those of a body at most; null when the bytes may be of a head. */
  next(bytesLeft: number | null): Buffer {
    if (bytesLeft === null) {
      this.leave();
      return SHARED;
    }
    // One more byte than is due, so that what follows the answer is seen with its end.
    const wanted = Math.min(bytesLeft + 1, READ_BYTES);
    const slab = this.#slab;
    if (slab !== null && READ_BYTES - slab.used < Math.min(wanted, MIN_READ_BYTES)) this.leave();
    this.#slab ??= SLABS.take();
    return this.#slab.memory.subarray(this.#slab.used);
  }

  /** Part of what has just been read is somebody's from now on: the part itself, or a copy. */
  lend(part: Buffer): Buffer {
    const slab = this.#slab;
    if (part.buffer === SHARED.buffer) return lendCopy(part);
    return slab === null || part.buffer !== slab.memory.buffer ? part : SLABS.lend(slab, part);
  }

  /** No body is read any more. */
  leave(): void {
    const slab = this.#slab;
    if (slab === null) return;
    this.#slab = null;
    SLABS.leave(slab);
  }
}

function lendCopy(part: Buffer): Buffer {
  const slab = SLABS.take();
  part.copy(slab.memory);
  const copy = SLABS.lend(slab, slab.memory.subarray(0, part.length));
  SLABS.leave(slab);
  return copy;
}
