/**
 * Which blockhashes have expired, so that no transaction that names them can be included any more
 * (`isBlockhashValid`). A node that is behind says "not valid" of a blockhash that it has not heard of yet:
 * so a node's word counts only at a slot past one at which the blockhash was valid, and where no such slot
 * is known, after a restart, only when it has been said twice over enough slots. That it was valid at a slot
 * is one node's word too: it is forgotten when the chain does not come to that slot.
 */
import { LRUCache } from "lru-cache";
import type { Time } from "../../time/time.ts";
import { ChainError } from "../mechanism.ts";
import { type Rpc } from "../rpc.ts";
import { sharedSignal, waitFor } from "../shared-call.ts";
import { readContextSlot } from "./statuses.ts";
import { isRecord } from "../../x402/json.ts";

/** Slots between two answers where no slot is known at which the blockhash was valid: about 13 s. */
export const UNKNOWN_VALIDITY_SLOTS = 32;
/**
 * After so long nobody has to be behind who answers at a slot before the one at which the blockhash was said
 * to be valid: that slot may have been a mistake, milliseconds. Twice the 150 blocks of a blockhash, and more.
 */
export const BELIEVED_MS = 180_000;
/** Blockhashes that are remembered. */
const MAX_BLOCKHASHES = 10_000;

/** What a node said of a blockhash, and what follows from it. */
export interface Validity {
  readonly isValid: boolean;
  /** No block after this node's `slot` can hold a transaction with that blockhash. */
  readonly hasExpired: boolean;
  /** The slot at which the node answered, confirmed there. */
  readonly slot: number;
}

interface Answer {
  readonly isValid: boolean;
  readonly slot: number;
}

interface Asked {
  /** When it was asked, milliseconds since the epoch. */
  readonly atMs: number;
  readonly answer: Promise<Answer>;
}

interface Known {
  /** The highest slot at which it was valid. */
  validSlot: number | undefined;
  /** When it was last said to be, milliseconds since the epoch. */
  validMs: number;
  /** The lowest slot at which it was said not to be. */
  invalidSlot: number | undefined;
  /** The last question to each endpoint. */
  readonly asked: Map<Rpc, Asked>;
}

export interface BlockhashesOptions {
  readonly time: Time;
  /** Ends all calls. */
  readonly closing: AbortSignal;
}

export class Blockhashes {
  readonly #options: BlockhashesOptions;
  readonly #known = new LRUCache<string, Known>({ max: MAX_BLOCKHASHES });

  constructor(options: BlockhashesOptions) {
    this.#options = options;
  }

  /** It was seen valid at that slot. */
  notedValid(blockhash: string, slot: number): void {
    note(this.#remember(blockhash), { isValid: true, slot }, this.#options.time.now());
  }

  /** The highest slot at which it is known to have been valid. */
  validSlot(blockhash: string): number | undefined {
    return this.#known.peek(blockhash)?.validSlot;
  }

  /**
   * Asks one endpoint, unless its last answer is younger than that; all who ask at the same time share a
   * call. @throws {ChainError} when it cannot be asked
   */
  async ask(rpc: Rpc, blockhash: string, maxAgeMs: number, signal: AbortSignal): Promise<Validity> {
    const known = this.#remember(blockhash);
    const { isValid, slot } = await waitFor(this.#askOnce(rpc, blockhash, maxAgeMs), signal);
    return { isValid, slot, hasExpired: !isValid && isPast(known, slot) };
  }

  #askOnce(rpc: Rpc, blockhash: string, maxAgeMs: number): Promise<Answer> {
    const known = this.#remember(blockhash);
    const atMs = this.#options.time.now();
    const last = known.asked.get(rpc);
    const ageMs = atMs - (last?.atMs ?? Number.NEGATIVE_INFINITY);
    if (last !== undefined && ageMs >= 0 && ageMs <= maxAgeMs) return last.answer;
    const asked = { atMs, answer: this.#call(rpc, blockhash, known) };
    known.asked.set(rpc, asked);
    return asked.answer;
  }

  async #call(rpc: Rpc, blockhash: string, known: Known): Promise<Answer> {
    const { time, closing } = this.#options;
    try {
      const answer = await isBlockhashValid(rpc, blockhash, sharedSignal(time, closing));
      note(known, answer, time.now());
      return answer;
    } catch (error) {
      known.asked.delete(rpc);
      throw error;
    }
  }

  #remember(blockhash: string): Known {
    const known = this.#known.get(blockhash);
    if (known !== undefined) return known;
    const fresh = { validSlot: undefined, validMs: 0, invalidSlot: undefined, asked: new Map() };
    this.#known.set(blockhash, fresh);
    return fresh;
  }
}

function note(known: Known, { isValid, slot }: Answer, nowMs: number): void {
  const { validSlot, validMs } = known;
  if (isValid) {
    known.validSlot = Math.max(validSlot ?? slot, slot);
    known.validMs = nowMs;
  } else if (validSlot !== undefined && slot <= validSlot && nowMs - validMs > BELIEVED_MS) {
    // As after a restart: what was said before does not count.
    known.validSlot = undefined;
    known.invalidSlot = slot;
  } else {
    known.invalidSlot = Math.min(known.invalidSlot ?? slot, slot);
  }
}

/** Whether "not valid", said at that slot, means that it was valid before. */
function isPast({ validSlot, invalidSlot }: Known, slot: number): boolean {
  if (validSlot !== undefined) return slot > validSlot;
  return invalidSlot !== undefined && slot - invalidSlot >= UNKNOWN_VALIDITY_SLOTS;
}

async function isBlockhashValid(rpc: Rpc, blockhash: string, signal: AbortSignal): Promise<Answer> {
  const params = [blockhash, { commitment: "confirmed" }];
  const answer = await rpc.call("isBlockhashValid", params, signal);
  const slot = readContextSlot(answer);
  const isValid = isRecord(answer) ? answer["value"] : undefined;
  if (slot === undefined || typeof isValid !== "boolean") {
    const what = "not said whether it is valid";
    throw new ChainError("CHAIN_ANSWER", `isBlockhashValid at ${rpc.host}: ${what}`);
  }
  return { isValid, slot };
}
