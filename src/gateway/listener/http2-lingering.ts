/**
 * Refusals over HTTP/2 that wait for the upload which they refuse. Node's client, and with it undici and axios, counts
 * what it has queued for a request, refuses each answer on a connection that has more than 10 MB of it, and never
 * forgets what a stream had queued that ends first: what is told early is never learnt, or spoils the connection for
 * what comes after it. So the head of such an answer is held back while the body is thrown away, as `lingering.ts`
 * does behind an answer of HTTP/1.1, and within the same bounds: whatever is beyond them is told early.
 */
import type { Readable } from "node:stream";
import { Counts } from "../../fairness/counts.ts";
import { networkOf } from "../../http/ip-address.ts";
import type { Bagged } from "../message/bag.ts";
import { Sweep } from "../message/sweep.ts";
import { Turns } from "../turns.ts";
import { MOST, MOST_BYTES, MOST_CLOSED_MS, MOST_MS, SILENT_MS } from "./lingering.ts";

/** What a client sends without waiting for leave (RFC 9113 section 6.9.2): so much is on its way, and queued by nobody. */
const LEAST_BYTES = 65_535;

interface Held extends Bagged {
  readonly network: string;
  readonly since: number;
  heardAt: number;
  /** Gives the answer, once. */
  readonly give: () => void;
}

/** Whether an answer to this head is better held: an upload that its client sends whatever it is told. */
export function isUpload(headers: {
  readonly "content-length"?: string | undefined;
  readonly expect?: string | undefined;
}): boolean {
  const bytes = Number(headers["content-length"] ?? 0);
  return bytes > LEAST_BYTES && bytes <= MOST_BYTES && headers.expect === undefined;
}

/** Of one listener. */
export class Http2Lingering {
  readonly #sweep = new Sweep<Held>((held, now) => this.#look(held, now));
  readonly #turns = new Turns();
  readonly #counts = new Counts();
  #mostMs = MOST_MS;

  /** Answers that are held. */
  get size(): number {
    return this.#sweep.size;
  }

  /** The listener waits for its last requests. */
  close(): void {
    this.#mostMs = MOST_CLOSED_MS;
  }

  /** @param tell gives the answer; called at most once, and not where the stream is gone by then */
  hold(stream: Readable, remoteAddress: string | undefined, tell: () => void): void {
    if (this.#sweep.size >= MOST) this.#makeRoom();
    const network = networkOf(remoteAddress ?? "");
    const { now } = this.#sweep;
    const forget = (): boolean => {
      if (held.at === -1) return false;
      this.#sweep.delete(held);
      this.#counts.change(network, -1);
      return true;
    };
    const give = (): void => {
      stream.off("data", read);
      // What still comes is nobody's.
      stream.resume();
      if (forget() && !stream.destroyed && !stream.closed) tell();
    };
    const held: Held = { network, since: now, heardAt: now, at: -1, give };
    const read = (): void => {
      held.heardAt = this.#sweep.now;
      stream.pause();
      this.#turns.take(this.#counts.of(network) - 1, () => void stream.resume());
    };
    this.#sweep.add(held);
    this.#counts.change(network, 1);
    stream.once("close", forget);
    stream.once("end", give);
    stream.on("data", read);
    stream.resume();
  }

  /** Of those of whom there are most the one that has been held longest is told. */
  #makeRoom(): void {
    const [first] = this.#sweep.all.toSorted((one, other) => {
      const more = this.#counts.of(other.network) - this.#counts.of(one.network);
      return more || one.since - other.since;
    });
    first?.give();
  }

  /** Giving takes it out. */
  #look({ since, heardAt, give }: Held, now: number): boolean {
    if (now - since > this.#mostMs || now - heardAt > SILENT_MS) give();
    return true;
  }
}
