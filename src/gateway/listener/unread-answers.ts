/**
 * What is queued in memory for the clients of HTTP/2 connections, who decide when they take it: how much of it one
 * connection may have and how much all together. It is about whole answers of ours; a backend's are held back at
 * their source.
 */

/** Of one connection, before it gets no more streams: a window of 0 takes nothing of as many answers as are asked for. */
const MAX_SESSION_BYTES = 256 * 1024;
/** Of all connections of a listener, before the one is cut that has taken nothing for longest. */
const MAX_BYTES = 64 * 1024 * 1024;

export interface UnreadLimits {
  readonly sessionBytes: number;
  readonly bytes: number;
}

export class UnreadAnswers {
  readonly #limits: UnreadLimits;
  readonly #sessions = new Set<UnreadSession>();
  #bytes = 0;

  constructor(limits: UnreadLimits = { sessionBytes: MAX_SESSION_BYTES, bytes: MAX_BYTES }) {
    this.#limits = limits;
  }

  /** For one connection; `cut` ends it. */
  open(cut: () => void): UnreadSession {
    const session = new UnreadSession(cut, this.#limits.sessionBytes, (change) => {
      this.#bytes += change;
      if (change > 0 && this.#bytes > this.#limits.bytes) this.#cutOne();
    });
    this.#sessions.add(session);
    return session;
  }

  close(session: UnreadSession): void {
    session.taken(session.bytes);
    this.#sessions.delete(session);
  }

  #cutOne(): void {
    let longest: UnreadSession | undefined;
    for (const session of this.#sessions) {
      if (session.bytes === 0) continue;
      if (longest === undefined || session.sinceMs < longest.sinceMs) longest = session;
    }
    if (longest === undefined) return;
    this.close(longest);
    longest.cut();
  }
}

export class UnreadSession {
  readonly cut: () => void;
  readonly #most: number;
  readonly #onChange: (bytes: number) => void;
  #bytes = 0;
  #sinceMs = 0;

  constructor(cut: () => void, most: number, onChange: (bytes: number) => void) {
    this.cut = cut;
    this.#most = most;
    this.#onChange = onChange;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Since when nothing of it was taken, `performance.now()`. */
  get sinceMs(): number {
    return this.#sinceMs;
  }

  get isFull(): boolean {
    return this.#bytes > this.#most;
  }

  queued(bytes: number): void {
    if (this.#bytes === 0) this.#sinceMs = performance.now();
    this.#bytes += bytes;
    this.#onChange(bytes);
  }

  /** It is with the operating system, or thrown away with its stream. */
  taken(bytes: number): void {
    // What was queued when its connection was given up counts no more.
    const some = Math.min(bytes, this.#bytes);
    this.#bytes -= some;
    this.#sinceMs = performance.now();
    this.#onChange(-some);
  }
}
