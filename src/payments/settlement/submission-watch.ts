/**
 * One signed transaction from its first broadcast until no reorganization can undo it, whoever waits for
 * its payments. Only the chain's word counts: bytes without an answer are sent again, bytes that stay out
 * of the blocks are replaced by better paid ones, and a failure counts when two looks in a row have found
 * it. As long as its account nonce is unused it holds up every later one, so it is sent until it is used,
 * even when its payments are decided otherwise.
 *
 *     OPEN ── all payments decided, nonce used ── INCLUDED ── final ── CLOSED
 *       └──────── gone from the chain again ─────────┘
 */
import type { WatchSurroundings } from "./surroundings.ts";
import {
  LedgerConflict,
  type Lease,
  type StoredSubmission,
  type StoredTransaction,
  type SubmissionCost,
  type SubmissionState,
} from "../../ledger/ledger.ts";
import type { Confirmation, Look, Mechanism, Submission } from "../../mechanism/mechanism.ts";
import type { Logger } from "../../telemetry/logger.ts";
import { OVER } from "../../time/time.ts";
import { Broadcaster } from "./broadcaster.ts";
import { PaymentVerdicts, type VerdictEvents } from "./payment-verdicts.ts";

/** Each pause between two looks is so much longer than the one before. */
const PAUSE_GROWTH = 1.5;
/** Longest pause once the submission is older than {@link PATIENT_AFTER_MS}, milliseconds. */
const MAX_PATIENT_LOOK_MS = 5_000;
const PATIENT_AFTER_MS = 120_000;
/** Longest that one look, or the making of one replacement, may take, milliseconds. */
const CHAIN_TIMEOUT_MS = 10_000;
/** How long the next one in line may stay out of the blocks before it is replaced: about four blocks. */
export const STUCK_MS = 8_000;
/** Doublings of that time, one for each replacement, at most. */
const MAX_STUCK_DOUBLINGS = 5;
/** Longest pause between two late looks, milliseconds; up to there, half of its age. */
const MAX_LATE_LOOK_MS = 60_000;

/** What helps where a key is missing that stuck bytes were signed with. */
export const PUT_BACK = "put the key back as one more signer until it is through";

export interface WatchedAccount extends VerdictEvents {
  readonly lease: Lease;
  /** Signs a replacement; not there where the account's key is not in this configuration. */
  readonly raise?: Mechanism["raise"];
  /** Whether no earlier account nonce is unused: only then more fees help. */
  isNext(accountNonce: number): boolean;
  /** The ledger refused to store for the lease that we thought was ours. */
  doubted(): Promise<void>;
  /** Somebody uses the account's nonces outside of the ledger. */
  overtaken(): void;
}

export class SubmissionWatch {
  readonly #at: WatchSurroundings;
  readonly #sender: WatchedAccount;
  readonly #stored: StoredSubmission;
  readonly #closing: AbortSignal;
  readonly #log: Logger;
  readonly #verdicts: PaymentVerdicts;
  readonly #broadcaster: Broadcaster;
  readonly #variants: StoredTransaction[];
  #state: SubmissionState;
  #isSpent = false;
  #wasGone = false;
  #nudge = new AbortController();
  /** Milliseconds since the epoch: the newest variant's signature, or when it became the next in line. */
  #stuckSinceMs: number;
  #isNext = false;
  #doublings: number;
  #nextLateLookMs = 0;
  /** In the smallest unit of the network's own currency. */
  #countedFee = 0n;

  constructor(
    stored: StoredSubmission,
    at: WatchSurroundings,
    sender: WatchedAccount,
    closing: AbortSignal,
  ) {
    this.#stored = stored;
    this.#at = at;
    this.#sender = sender;
    this.#closing = closing;
    const { network, id } = stored;
    this.#log = at.telemetry.logger.child({ network, submission: id });
    this.#verdicts = new PaymentVerdicts(stored, at, sender, this.#log);
    this.#variants = [...stored.variants];
    this.#state = stored.state;
    this.#stuckSinceMs = stored.signedMs;
    this.#doublings = stored.variants.length - 1;
    const { mechanism, time } = at;
    this.#broadcaster = new Broadcaster({ mechanism, time, closing, log: this.#log });
  }

  get id(): string {
    return this.#stored.id;
  }

  get state(): SubmissionState {
    return this.#state;
  }

  get accountNonce(): number {
    return this.#stored.variants[0]?.accountNonce ?? 0;
  }

  /** Whether later nonces of the account wait behind it. */
  get holdsUp(): boolean {
    return this.#state === "OPEN" && !this.#isSpent;
  }

  /**
   * Sends and looks until it is INCLUDED, or until the process or the sender ends. Never rejects. What was
   * just signed is sent before the first look; what another life left may be in a block already.
   */
  async run(isFresh: boolean): Promise<void> {
    const { firstLookMs, maxLookMs, attendedLookMs } = this.#at.mechanism.rules;
    let pauseMs = firstLookMs;
    let sends = isFresh;
    while (!this.#closing.aborted) {
      if (this.#at.gate.isTrusted(this.#stored.network)) {
        if (sends) this.#send();
        else if (await this.#step()) break;
        sends = false;
      }
      const isTold = await this.#pause(pauseMs);
      // Whoever waits for the block at the node's side tells of it sooner than a look would.
      const moreMs = this.#broadcaster.isSending ? attendedLookMs - pauseMs : 0;
      if (!isTold && moreMs > 0) await this.#pause(moreMs);
      const isOld = this.#at.time.now() - this.#stored.signedMs > PATIENT_AFTER_MS;
      const longestMs = isOld ? MAX_PATIENT_LOOK_MS : maxLookMs;
      pauseMs = Math.min(Math.round(pauseMs * PAUSE_GROWTH), longestMs);
    }
    this.#broadcaster.stop();
    if (!this.#closing.aborted) return;
    this.#verdicts.leave();
  }

  /** Whether a late look is due. */
  isDue(nowMs: number): boolean {
    return this.#state === "INCLUDED" && nowMs >= this.#nextLateLookMs;
  }

  /** A late look: is it still on the chain, and for good? Never rejects. */
  async lookAgain(): Promise<void> {
    try {
      const look = await this.#look();
      await this.#verdicts.store(look, this.#variants);
      const isGone = look.included === null && !look.isSpent;
      if (isGone && this.#wasGone) return await this.#reopen();
      this.#wasGone = isGone;
      if (this.#isOver(look)) return await this.#conclude("CLOSED", look);
    } catch (cause) {
      if (this.#closing.aborted) return;
      this.#log.warn({ err: cause }, "a late look at a submission failed");
    }
    this.#planLateLook();
  }

  /** One look and what follows from it; true when there is nothing more to do for now. */
  async #step(): Promise<boolean> {
    try {
      const look = await this.#look();
      this.#isSpent = look.included !== null || look.isSpent;
      const { isOrdered } = this.#at.mechanism.rules;
      if (isOrdered && this.#isSpent && look.included === null) this.#sender.overtaken();
      await this.#verdicts.store(look, this.#variants);
      if (!this.#isSpent) {
        await this.#raiseWhenStuck();
        this.#send();
        return false;
      }
      this.#broadcaster.stop();
      if (!this.#verdicts.areAllDecided) return false;
      await this.#conclude(this.#isOver(look) ? "CLOSED" : "INCLUDED", look);
      this.#planLateLook();
      return true;
    } catch (cause) {
      if (!this.#closing.aborted) this.#log.warn({ err: cause }, "a look at a submission failed");
      // Whatever the chain says, or does not: bytes that it may not have are sent.
      if (!this.#isSpent) this.#send();
      return false;
    }
  }

  #look(): Promise<Look> {
    return this.#at.mechanism.look(this.#submission(), this.#within(CHAIN_TIMEOUT_MS));
  }

  #submission(): Submission<unknown> {
    return { variants: [...this.#variants], authorizations: this.#verdicts.authorizations };
  }

  #send(): void {
    const newest = this.#variants.at(-1);
    if (newest !== undefined) this.#broadcaster.send(newest, () => this.#nudge.abort(OVER));
  }

  async #raiseWhenStuck(): Promise<void> {
    if (!this.#at.mechanism.rules.isOrdered) return;
    const nowMs = this.#at.time.now();
    const isNext = this.#sender.isNext(this.accountNonce);
    const waitedMs = nowMs - this.#stuckSinceMs;
    const patienceMs = STUCK_MS * 2 ** Math.min(this.#doublings, MAX_STUCK_DOUBLINGS);
    // One that waited for those before it gets its own time to be included.
    if (isNext && !this.#isNext && waitedMs >= STUCK_MS) this.#stuckSinceMs = nowMs;
    const isStuck = isNext && this.#isNext && waitedMs >= patienceMs;
    this.#isNext = isNext;
    if (!isStuck) return;
    this.#stuckSinceMs = nowMs;
    this.#doublings += 1;
    await this.#replace(nowMs);
  }

  async #replace(nowMs: number): Promise<void> {
    if (this.#sender.raise === undefined) {
      const { address: account } = this.#sender.lease;
      const seconds = Math.round((nowMs - this.#stored.signedMs) / 1000);
      const said =
        "a submission is stuck and cannot be replaced, since its account's key is not here";
      this.#log.warn({ account, seconds }, `${said}: ${PUT_BACK}`);
      return;
    }
    const { ledger, telemetry } = this.#at;
    const signal = this.#within(CHAIN_TIMEOUT_MS);
    const raised = await this.#sender.raise(this.#submission(), signal);
    if (raised === undefined) {
      this.#log.warn("a submission is stuck, and our fee cap allows no replacement");
      return;
    }
    try {
      await ledger.signing.replaced(this.#sender.lease, this.id, raised);
    } catch (cause) {
      if (cause instanceof LedgerConflict) await this.#sender.doubted();
      throw cause;
    }
    if (this.#closing.aborted) return;
    this.#variants.push(raised);
    this.#broadcaster.forget();
    telemetry.metrics.replacement(this.#stored.network);
    this.#log.warn({ replacement: raised.transaction }, "a stuck submission was replaced");
  }

  async #reopen(): Promise<void> {
    const { ledger, telemetry } = this.#at;
    const { network } = this.#stored;
    const { address } = this.#sender.lease;
    const left = await ledger.signing.unfinished(network, address);
    const payments = left.find(({ id }) => id === this.id)?.payments ?? [];
    const isDelivered = payments.some(({ state }) => DELIVERED.has(state));
    await this.#conclude("OPEN");
    this.#isSpent = false;
    this.#wasGone = false;
    this.#stuckSinceMs = this.#at.time.now();
    this.#broadcaster.forget();
    telemetry.metrics.reorganization(network, isDelivered);
    const said = "a submission is gone from the chain again; it is sent again";
    if (isDelivered) this.#log.error(said);
    else this.#log.warn(said);
  }

  /** Final; or else expired, or somebody used the nonce with our key outside of the ledger, long ago. */
  #isOver(look: Look): boolean {
    if (look.included !== null) return look.included.isFinal && this.#verdicts.areAllDecided;
    const { isOrdered, forgetMs } = this.#at.mechanism.rules;
    const isOld = this.#at.time.now() - this.#stored.signedMs > forgetMs;
    if (!look.isSpent || !isOld) return false;
    if (isOrdered) {
      this.#log.error("its account nonce was used by a transaction that is not in the ledger");
    }
    return true;
  }

  async #conclude(state: SubmissionState, look?: Look): Promise<void> {
    try {
      const cost = look && this.#costIn(look);
      await this.#at.ledger.signing.concluded(this.id, state, cost);
      // What is final now was counted when it was in a block.
      if (this.#state === "OPEN" && cost !== undefined) this.#count(cost);
      this.#state = state;
    } catch (cause) {
      if (!(cause instanceof LedgerConflict)) throw cause;
      // Somebody else has closed it: then the account is not ours any more, or it is a matter of the past.
      this.#log.error({ err: cause }, "a submission was concluded elsewhere");
      this.#state = "CLOSED";
      await this.#sender.doubted();
    }
  }

  /** Its cost, less what was counted of it before its block left the chain. */
  #count({ feeAtomic, priorityAtomic, priceAttodollars }: SubmissionCost): void {
    const fee = BigInt(feeAtomic) - this.#countedFee;
    if (fee <= 0n) return;
    this.#countedFee += fee;
    const price = priceAttodollars === null ? null : BigInt(priceAttodollars);
    const priority = BigInt(priorityAtomic) < fee ? BigInt(priorityAtomic) : fee;
    this.#at.telemetry.metrics.gasSpent(this.#stored.network, { fee, priority, price });
  }

  #costIn({ included, payments }: Look): SubmissionCost | undefined {
    if (included?.fee === undefined) return undefined;
    const { transaction, fee } = included;
    const isMoved = (said: Confirmation): boolean =>
      said.kind === "confirmed" && said.transaction === transaction;
    return {
      feeAtomic: fee.atomic.toString(),
      priorityAtomic: fee.priorityAtomic.toString(),
      moved: payments.filter(isMoved).length,
      priceAttodollars: this.#at.nativePrice?.(this.#stored.network)?.toString() ?? null,
    };
  }

  #planLateLook(): void {
    const nowMs = this.#at.time.now();
    const halfAgeMs = Math.round((nowMs - this.#stored.signedMs) / 2);
    // One that seems gone is looked at again at once: it takes two looks to believe it.
    const { lateLookMs } = this.#at.mechanism.rules;
    const pauseMs = this.#wasGone
      ? lateLookMs
      : Math.min(Math.max(halfAgeMs, lateLookMs), MAX_LATE_LOOK_MS);
    this.#nextLateLookMs = nowMs + pauseMs;
  }

  /** Ends early where there is something to see, and says so. */
  async #pause(ms: number): Promise<boolean> {
    const nudge = this.#nudge;
    const end = (): void => nudge.abort(OVER);
    this.#closing.addEventListener("abort", end);
    await this.#at.time.sleep(this.#closing.aborted ? 0 : ms, nudge.signal);
    this.#closing.removeEventListener("abort", end);
    if (!nudge.signal.aborted) return false;
    this.#nudge = new AbortController();
    return true;
  }

  #within(ms: number): AbortSignal {
    return AbortSignal.any([this.#closing, this.#at.time.timeout(ms)]);
  }
}

const DELIVERED: ReadonlySet<string> = new Set(["DELIVERING", "DELIVERED"]);
