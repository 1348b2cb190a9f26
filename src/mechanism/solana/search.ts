/**
 * What became of a payment that somebody else settles. Its message is known, but not the fee payer's
 * signature, and so not the transaction's name: the claimed transaction is compared with it, or else what the
 * payer's token account took part in.
 *
 *     the claimed transaction, or one of the account's, has the very message ── as `confirmation.ts` judges it
 *          └── in a slot that was there before anybody was asked ────────────── failed
 *     none ── its blockhash may be valid ─────────────────────────────────────── unknown
 *          └── expired ── all that the account did since then was compared ───── failed
 *                     └── not all of it ──────────────────────────────────────── unknown
 *
 * What one look cannot compare is left to the next one, which goes on where it stopped.
 */
import { LRUCache } from "lru-cache";
import type { Time } from "../../time/time.ts";
import { decodeBase58 } from "../../x402/solana-address.ts";
import type { Confirmation, Question } from "../mechanism.ts";
import type { RpcEndpoints } from "../rpc-endpoints.ts";
import type { Rpc } from "../rpc.ts";
import type { Blockhashes, Validity } from "./blockhashes.ts";
import {
  EXPIRED,
  findTransfer,
  judgeDepth,
  judgeResult,
  type SolanaCommitment,
} from "./confirmation.ts";
import {
  fetchTransaction,
  listTransactions,
  newestVersion,
  PAGE,
  type Fetched,
  type Listed,
} from "./history.ts";
import type { SolanaAuthorization } from "./payment.ts";
import type { Statuses } from "./statuses.ts";

/** Pages of an account's list that are read for one answer at most. */
const MAX_PAGES = 5;
/** Transactions that are fetched for one answer at most, and at the same time; the others come next time. */
const MAX_FETCHES = 24;
const MAX_FETCHES_AT_ONCE = 4;
/** How long the last answer about a blockhash counts, milliseconds. */
const VALIDITY_MS = 2_000;
/**
 * A transaction cannot be in a block so many slots before its blockhash was still valid: that is for 150
 * blocks, and not every slot has one.
 */
const REACH_SLOTS = 600;
/**
 * How far back a payment can be when nothing is known of its age, as after a restart: longer than any outage
 * after which somebody still asks for it, milliseconds.
 */
export const REACH_MS = 7 * 24 * 3_600_000;
/** So long a transaction may be listed and not shown before it is taken for another one, milliseconds. */
export const MISSING_MS = 600_000;
/** Transactions that are remembered by their message, and payments that were said to have failed. */
const MAX_REMEMBERED = 10_000;
/** Payments whose search is remembered until it has come to its end, or is begun again. */
const MAX_WALKS = 1_000;
const MS_PER_SECOND = 1_000;
const SIGNATURE_BYTES = 64;

export interface SearchOptions {
  readonly endpoints: RpcEndpoints;
  readonly statuses: Statuses;
  readonly blockhashes: Blockhashes;
  readonly commitment: SolanaCommitment;
  readonly time: Time;
}

/** One operation at one endpoint. */
interface Operation {
  readonly rpc: Rpc;
  readonly authorization: SolanaAuthorization;
  readonly after: Question["after"];
  readonly signal: AbortSignal;
}

/** A search at one endpoint, from the newest transaction back, over as many looks as it takes. */
interface Walk {
  /** The slot that the node had reached when it began. */
  readonly slot: number;
  /** What is older is no candidate: slots, and Unix seconds. */
  readonly floorSlot: number;
  readonly floorSeconds: number;
  /** The last two transactions that were compared; none where it begins at the newest. */
  tail: readonly string[];
  /** Since when some are listed, and not shown; milliseconds since the epoch. */
  missingMs: number | undefined;
  /** All that can be the payment was compared. */
  isOver: boolean;
}

/** The part of the list that one look reads. */
interface Stretch {
  readonly names: readonly string[];
  /** There is nothing beyond it that could be the payment. */
  readonly isLast: boolean;
}

/** `incomplete`: the next look goes on. `unshown`: this node cannot show what it lists; another one may. */
type Searched = Fetched | "incomplete" | "unshown" | undefined;

export class Search {
  readonly #options: SearchOptions;
  /** The message hash of transactions that were fetched; "" for what cannot be a payment. */
  readonly #messages = new LRUCache<string, string>({ max: MAX_REMEMBERED });
  /** By message hash: who said that the payment has failed, or could not say. */
  readonly #doubted = new LRUCache<string, Rpc>({ max: MAX_REMEMBERED });
  /** By message hash. */
  readonly #walks = new LRUCache<string, Map<Rpc, Walk>>({ max: MAX_WALKS });

  constructor(options: SearchOptions) {
    this.#options = options;
  }

  /** See `Observer.reconcile`. @throws {ChainError} when the chain cannot be asked */
  reconcile(
    authorization: SolanaAuthorization,
    { claimed, after }: Question,
    signal: AbortSignal,
  ): Promise<Confirmation> {
    // A node refuses to look for what is no signature.
    const isName = claimed !== undefined && decodeBase58(claimed, SIGNATURE_BYTES) !== undefined;
    const named = isName ? claimed : undefined;
    const avoid = this.#doubted.get(authorization.messageHash);
    return this.#options.endpoints.run(
      async (rpc) => {
        const said = await this.#ask({ rpc, authorization, after, signal }, named);
        // Somebody else is to find the same.
        const isDoubtful = said.kind === "failed" || said === UNSHOWN;
        if (isDoubtful) this.#doubted.set(authorization.messageHash, rpc);
        else this.#doubted.delete(authorization.messageHash);
        return said;
      },
      signal,
      avoid,
    );
  }

  async #ask(operation: Operation, claimed: string | undefined): Promise<Confirmation> {
    const { rpc, authorization, signal } = operation;
    if (claimed !== undefined) {
      const found = await this.#compare(operation, claimed);
      if (found !== undefined && found !== "missing") return this.#judge(operation, found);
    }
    const { blockhashes } = this.#options;
    const { blockhash } = authorization.message;
    const validity = await blockhashes.ask(rpc, blockhash, VALIDITY_MS, signal);
    const found = await this.#search(operation, validity);
    if (found === undefined) return validity.hasExpired ? EXPIRED : NOT_YET;
    if (found === "incomplete") return INCOMPLETE;
    return found === "unshown" ? UNSHOWN : this.#judge(operation, found);
  }

  /** The payment among the payer's transactions; undefined when it is certainly not there. */
  async #search(operation: Operation, { slot, hasExpired }: Validity): Promise<Searched> {
    // As long as a block may still take it, each look begins with the newest transaction.
    const known = hasExpired ? this.#walk(operation) : undefined;
    if (known?.isOver === true) return undefined;
    const walk = known ?? this.#begin(operation, slot);
    const found = await this.#goOn(operation, walk, slot);
    walk.isOver = found === undefined;
    // What is done in one look is done anew in the next one, which has to find the same.
    if (hasExpired && (known !== undefined || !walk.isOver)) {
      const walks = this.#walks.get(operation.authorization.messageHash) ?? new Map<Rpc, Walk>();
      walks.set(operation.rpc, walk);
      this.#walks.set(operation.authorization.messageHash, walks);
    }
    return found;
  }

  #begin({ authorization }: Operation, slot: number): Walk {
    const { blockhashes, time } = this.#options;
    const validSlot = blockhashes.validSlot(authorization.message.blockhash);
    return {
      slot,
      floorSlot: validSlot === undefined ? 0 : validSlot - REACH_SLOTS,
      floorSeconds: (time.now() - REACH_MS) / MS_PER_SECOND,
      tail: [],
      missingMs: undefined,
      isOver: false,
    };
  }

  /** One that began after the blockhash had expired; what came later cannot be the payment. */
  #walk({ rpc, authorization }: Operation): Walk | undefined {
    const walk = this.#walks.get(authorization.messageHash)?.get(rpc);
    const validSlot = this.#options.blockhashes.validSlot(authorization.message.blockhash);
    const isLate = validSlot === undefined || (walk !== undefined && walk.slot > validSlot);
    return isLate ? walk : undefined;
  }

  /** The next stretch of a walk. */
  async #goOn(operation: Operation, walk: Walk, slot: number): Promise<Searched> {
    const stretch = await this.#list(operation, walk, slot);
    if (stretch === undefined) {
      walk.tail = [];
      return "unshown";
    }
    const { names, isLast } = stretch;
    const { found, missing } = await this.#compareAll(operation, names);
    if (found !== undefined) return found;
    const isPassed = this.#isPatienceOver(walk, missing.size > 0);
    const open = names.findIndex(
      (name) => this.#isCandidate(operation, name) && !(isPassed && missing.has(name)),
    );
    const done = [...walk.tail, ...(open === -1 ? names : names.slice(0, open))];
    // One alone cannot show where the list goes on.
    walk.tail = done.length < 2 ? [] : done.slice(-2);
    if (open === -1 && isLast) return undefined;
    return missing.size > 0 && !isPassed ? "unshown" : "incomplete";
  }

  /** Whether what is not shown has been waited for long enough. */
  #isPatienceOver(walk: Walk, isAnyMissing: boolean): boolean {
    if (!isAnyMissing) return false;
    const nowMs = this.#options.time.now();
    walk.missingMs ??= nowMs;
    return nowMs - walk.missingMs >= MISSING_MS;
  }

  /** Fetches the first ones that are not known, as many as one look may. */
  async #compareAll(operation: Operation, names: readonly string[]): Promise<Compared> {
    const candidates = names.filter((name) => this.#isCandidate(operation, name));
    const queue = candidates.slice(0, MAX_FETCHES).values();
    const missing = new Set<string>();
    let found: Fetched | undefined;
    const work = async (): Promise<void> => {
      for (const name of queue) {
        const compared = found === undefined ? await this.#compare(operation, name) : undefined;
        if (compared === "missing") missing.add(name);
        else if (compared !== undefined) found = compared;
      }
    };
    await Promise.all(Array.from({ length: MAX_FETCHES_AT_ONCE }, work));
    return { found, missing };
  }

  /** Whether it may be the payment: what was fetched before is known. */
  #isCandidate({ authorization }: Operation, name: string): boolean {
    const known = this.#messages.get(memoryKey(authorization, name));
    return known === undefined || known === authorization.messageHash;
  }

  /**
   * Newest first, as far back as one look goes. Each page begins with the last transaction of the one before,
   * which shows that the node knows where the walk stands; undefined where it does not.
   */
  async #list(operation: Operation, walk: Walk, slot: number): Promise<Stretch | undefined> {
    const { rpc, authorization, signal } = operation;
    const account = accountOf(authorization);
    const names: string[] = [];
    let candidates = 0;
    for (let page = 0; page < MAX_PAGES && candidates <= MAX_FETCHES; page += 1) {
      const [before, last] = [...walk.tail, ...names].slice(-2);
      const question = { account, before, minContextSlot: slot };
      const listed = await listTransactions(rpc, question, signal);
      if (last !== undefined && listed[0]?.signature !== last) return undefined;
      const further = last === undefined ? listed : listed.slice(1);
      const within = further.filter((each) => !isBelow(walk, each));
      for (const { signature } of within) {
        names.push(signature);
        if (this.#isCandidate(operation, signature)) candidates += 1;
      }
      const isLast = listed.length < PAGE || within.length < further.length;
      if (isLast) return { names, isLast };
    }
    return { names, isLast: false };
  }

  /** Fetches a transaction; undefined for another one, `missing` where the node does not have it. */
  async #compare(operation: Operation, name: string): Promise<Fetched | "missing" | undefined> {
    if (!this.#isCandidate(operation, name)) return undefined;
    const { rpc, authorization, signal } = operation;
    const fetched = await fetchTransaction(rpc, name, authorization.message.version, signal);
    if (fetched === "missing") return fetched;
    this.#messages.set(memoryKey(authorization, name), fetched?.messageHash ?? "");
    return fetched?.messageHash === authorization.messageHash ? fetched : undefined;
  }

  async #judge(
    { rpc, authorization, after, signal }: Operation,
    { transaction, slot, err }: Fetched,
  ): Promise<Confirmation> {
    if (after !== null && slot <= after) return USED_BEFORE;
    const { commitment, statuses } = this.#options;
    if (commitment === "finalized") {
      const { status } = await statuses.readAt(rpc, transaction, signal);
      const waiting = judgeDepth(status?.depth ?? "confirmed", commitment);
      if (waiting !== undefined) return waiting;
    }
    return judgeResult(transaction, err, authorization.message);
  }
}

const NOT_YET: Confirmation = {
  kind: "unknown",
  isUnused: true,
  detail: "no transaction with the payment is on the chain yet",
};
const INCOMPLETE: Confirmation = {
  kind: "unknown",
  detail: "not all of the payer's transactions could be compared with the payment yet",
};

const UNSHOWN: Confirmation = {
  kind: "unknown",
  detail: "a node lists transactions of the payer that it could not show yet",
};

/** Slots are points in time: what is in an earlier one is not of whoever was asked later. */
const USED_BEFORE: Confirmation = {
  kind: "failed",
  refusal: {
    code: "invalid_transaction_state",
    detail: "the transaction was on the chain before anybody was asked to settle it",
  },
  retriable: false,
};

interface Compared {
  readonly found: Fetched | undefined;
  /** Listed, and not shown. */
  readonly missing: ReadonlySet<string>;
}

/** Whether it is too old to be the payment. */
function isBelow({ floorSlot, floorSeconds }: Walk, { slot, blockTime }: Listed): boolean {
  return slot < floorSlot || (blockTime !== undefined && blockTime < floorSeconds);
}

/** The token account that pays; the payer's own where that is in a lookup table. */
function accountOf({ judged, message, payer }: SolanaAuthorization): string {
  if (judged !== undefined) return judged.source;
  const index = findTransfer(message)?.accounts[0];
  return (index === undefined ? undefined : message.keys[index]) ?? payer;
}

/** What could not be read for one payment may be readable for another. */
function memoryKey({ message }: SolanaAuthorization, name: string): string {
  return `${newestVersion(message.version)} ${name}`;
}
