/**
 * What earlier looks at a submission found, so that the next one asks what is worth asking. Nothing here
 * decides anything: forgotten, a look asks less, or the same again.
 */
import { LRUCache } from "lru-cache";
import type { Look } from "../mechanism.ts";
import type { Rpc } from "../rpc.ts";
import { isUntraced, type LookDepth, type EvmSubmission } from "./confirmation.ts";

/** How often it is asked whether somebody else has used an account nonce, seconds. */
export const NONCE_CHECK_SECONDS = 5;
/** Submissions that are remembered; the oldest are forgotten first. */
const MAX_REMEMBERED = 10_000;

interface Memory {
  /** Unix seconds of the first look, then of the last question about the account nonce. */
  nonceAskedAt: number;
  isIncluded: boolean;
  isSpent: boolean;
  /** Who said that a payment has failed, or could not say: somebody else is to be asked too. */
  doubted: Rpc | undefined;
}

export interface NextLook extends LookDepth {
  /** An endpoint that is better not asked again. */
  readonly avoid: Rpc | undefined;
}

export class LookMemory {
  readonly #clock: () => number;
  readonly #memories = new LRUCache<string, Memory>({ max: MAX_REMEMBERED });

  /** @param clock Unix seconds */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  next(submission: EvmSubmission): NextLook {
    const now = this.#clock();
    const memory = this.#remember(submission, now);
    const isDue = now - memory.nonceAskedAt >= NONCE_CHECK_SECONDS || now < memory.nonceAskedAt;
    if (isDue) memory.nonceAskedAt = now;
    return {
      nonce: isDue || memory.isSpent,
      head: memory.isIncluded,
      avoid: memory.doubted,
    };
  }

  /** @param rpc the endpoint that was asked */
  found(submission: EvmSubmission, { included, isSpent, payments }: Look, rpc: Rpc): void {
    const id = idOf(submission);
    if (included?.isFinal === true) this.#memories.delete(id);
    const memory = this.#memories.get(id);
    if (memory === undefined) return;
    memory.isIncluded = included !== null;
    memory.isSpent = isSpent && included === null;
    const isDoubted = payments.some((each) => each.kind === "failed" || isUntraced(each));
    memory.doubted = isDoubted ? rpc : undefined;
  }

  #remember(submission: EvmSubmission, now: number): Memory {
    const id = idOf(submission);
    const known = this.#memories.get(id);
    if (known !== undefined) return known;
    const memory = {
      nonceAskedAt: now,
      isIncluded: false,
      isSpent: false,
      doubted: undefined,
    };
    this.#memories.set(id, memory);
    return memory;
  }
}

function idOf({ variants }: EvmSubmission): string {
  return variants[0]?.transaction ?? "";
}
