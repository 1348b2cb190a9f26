/**
 * Recent blockhashes for quotes on Solana: a buyer who is told one need not ask the chain for it. It is a hint: it is
 * read while quotes are asked for, between them, and one that is missing or old is left out.
 */
import type { Time } from "../../time/time.ts";
import type { BlockhashHint } from "../../x402/version-2.ts";

/** Pause before the chain is asked again, milliseconds. */
const REFRESH_MS = 4_000;
/** The oldest that is told, milliseconds, a quarter of what it lasts: the rest is the buyer's, and the settlement's. */
const MAX_AGE_MS = 16_000;

/** Who can be asked, on some networks. */
export interface BlockhashSource {
  readonly networks: ReadonlySet<string>;
  /** One that may have been read a few seconds ago. Rejects where the chain cannot be asked. */
  blockhash(network: string): Promise<BlockhashHint>;
}

interface Known {
  /** When the chain was asked last. */
  askedMs: number;
  /** When it was asked for what it has answered. */
  readMs: number;
  hint: BlockhashHint | undefined;
}

export class BlockhashHints {
  readonly #source: BlockhashSource;
  readonly #time: Pick<Time, "now">;
  readonly #known: ReadonlyMap<string, Known>;

  constructor(source: BlockhashSource, time: Pick<Time, "now">) {
    this.#source = source;
    this.#time = time;
    const never = Number.NEGATIVE_INFINITY;
    this.#known = new Map(
      [...source.networks].map((network) => [
        network,
        { askedMs: never, readMs: never, hint: undefined },
      ]),
    );
  }

  /** What buyers are told now: the same object until there is another. Has it read again where it is not quite new. */
  of(network: string): BlockhashHint | undefined {
    const known = this.#known.get(network);
    if (known === undefined) return undefined;
    const nowMs = this.#time.now();
    if (Math.abs(nowMs - known.askedMs) >= REFRESH_MS) void this.#ask(network, known, nowMs);
    return Math.abs(nowMs - known.readMs) < MAX_AGE_MS ? known.hint : undefined;
  }

  /** Never rejects: whoever asks the chain says what is wrong with it. */
  async #ask(network: string, known: Known, nowMs: number): Promise<void> {
    known.askedMs = nowMs;
    const hint = await this.#source.blockhash(network).catch(() => undefined);
    if (hint === undefined || nowMs < known.readMs) return;
    known.readMs = nowMs;
    if (hint.recentBlockhash !== known.hint?.recentBlockhash) known.hint = hint;
  }
}
