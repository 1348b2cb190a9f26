/**
 * Follows transactions from their first broadcast to the block that holds them. A websocket tells when to
 * look, a batched status decides, and only an expired blockhash ends what is in no block: so a payment costs
 * one sending and a share of one status read. Where no websocket works, the statuses are polled.
 */
import { LRUCache } from "lru-cache";
import { readSolanaTransaction } from "../../x402/solana-transaction.ts";
import { OVER, type Time } from "../../time/time.ts";
import type { Confirmation, Look, Question, SignedTransaction, Submission } from "../mechanism.ts";
import { ChainError } from "../mechanism.ts";
import type { RpcEndpoints } from "../rpc-endpoints.ts";
import type { Rpc } from "../rpc.ts";
import { Blockhashes } from "./blockhashes.ts";
import { send } from "./broadcast.ts";
import { expired, included, notYet, untold, type SolanaCommitment } from "./confirmation.ts";
import { decodeMessage } from "./message.ts";
import type { SolanaAuthorization } from "./payment.ts";
import { Search } from "./search.ts";
import { Statuses, type SeenStatus } from "./statuses.ts";
import { Subscriptions } from "./subscriptions.ts";
import { isAny, isWithin, POLL_MS, Tracked } from "./tracked.ts";

/** How long a broadcast waits for the block, and how often bytes are sent, milliseconds (S5). */
export const RESEND_MS = 2_000;
/** Bytes that were taken are not sent again within this time, whoever asks for it, milliseconds. */
const MIN_RESEND_MS = 1_500;
/** Transactions that are remembered. */
const MAX_TRACKED = 10_000;
/** Slots for which every node remembers statuses without a history: 300 blocks, less the age of the blockhash. */
const REMEMBERED_SLOTS = 150;

export interface TrackerOptions {
  /** Shared with the rest of the mechanism, and not closed here. */
  readonly endpoints: RpcEndpoints;
  /** Each endpoint's HTTP URL, near which its websocket is looked for. May hold a key. */
  readonly websocketUrls: ReadonlyMap<Rpc, string>;
  readonly commitment: SolanaCommitment;
  readonly time: Time;
  /** For the log: no secrets. */
  readonly onTrouble?: ((message: string) => void) | undefined;
}

/** One reading, and who gave it. */
interface Reading {
  readonly look: Look;
  readonly rpc: Rpc;
}

type SolanaSubmission = Submission<SolanaAuthorization>;

export class Tracker {
  readonly #options: TrackerOptions;
  readonly #closing = new AbortController();
  readonly #subscriptions: Subscriptions;
  readonly #statuses: Statuses;
  readonly #blockhashes: Blockhashes;
  readonly #search: Search;
  /** By signature 0. */
  readonly #tracked = new LRUCache<string, Tracked>({
    max: MAX_TRACKED,
    dispose: (_, signature, reason) => {
      if (reason === "evict") this.#subscriptions.drop(signature, false);
    },
  });

  /** Opens no connection. */
  constructor(options: TrackerOptions) {
    this.#options = options;
    const { endpoints, commitment, time, onTrouble = () => undefined } = options;
    const closing = this.#closing.signal;
    this.#statuses = new Statuses({ endpoints, time, closing });
    this.#blockhashes = new Blockhashes({ time, closing });
    const [statuses, blockhashes] = [this.#statuses, this.#blockhashes];
    this.#search = new Search({ endpoints, statuses, blockhashes, commitment, time });
    this.#subscriptions = new Subscriptions({
      httpUrls: options.websocketUrls,
      commitment,
      time,
      onNotified: (signature) => this.#tracked.peek(signature)?.notified(time.now()),
      onSubscribed: (signature) => this.#tracked.peek(signature)?.subscribed(time.now()),
      onTrouble,
    });
  }

  /**
   * The blockhash was seen valid at that slot (by the simulation of a verification): a node that is behind it
   * cannot say that it has expired.
   */
  notedValid(blockhash: string, slot: number): void {
    this.#blockhashes.notedValid(blockhash, slot);
  }

  /**
   * See `Mechanism.broadcast`: sends, and waits for the block as long as a websocket is there to tell, at
   * most {@link RESEND_MS}. Asked again before that time is over, it only waits.
   */
  async broadcast(signed: SignedTransaction, signal: AbortSignal): Promise<"sent" | "included"> {
    this.#requireOpen();
    const { endpoints, time } = this.#options;
    const { transaction } = signed;
    const nowMs = time.now();
    const tracked = this.#track(transaction, true);
    const targets = endpoints.forAll(signal);
    const rpcs = targets.map(({ rpc }) => rpc);
    this.#subscriptions.follow(transaction, rpcs);
    const hint = tracked.awaitHint();
    if (!isWithin(MIN_RESEND_MS, tracked.takenMs, nowMs)) {
      const sending = send(targets, signed, signal).then(() => "sent" as const);
      const answer = await Promise.race([hint, sending]);
      if (answer === "included") return answer;
      tracked.takenMs = nowMs;
    }
    const leftMs = (tracked.takenMs ?? nowMs) + RESEND_MS - time.now();
    if (leftMs <= 0 || this.#subscriptions.state(transaction) === "none") return "sent";
    // Until a websocket tells, or the time is over.
    const told = new AbortController();
    const ended = AbortSignal.any([signal, this.#closing.signal, told.signal]);
    const waited = this.#options.time.sleep(leftMs, ended).then(() => "sent" as const);
    const first = await Promise.race([hint, waited]);
    told.abort(OVER);
    return first;
  }

  /** See `Mechanism.look`. @throws {ChainError} when the chain has to be asked and cannot be */
  async look(submission: SolanaSubmission, signal: AbortSignal): Promise<Look> {
    this.#requireOpen();
    const { variants, authorizations } = submission;
    const signed = variants.at(-1);
    // There are no replacements on this network, so there is exactly one.
    if (signed === undefined) return notYet(authorizations);
    const { transaction } = signed;
    const tracked = this.#track(transaction, false);
    const state = this.#subscriptions.state(transaction);
    const nowMs = this.#options.time.now();
    if (!tracked.isDue(state, nowMs)) return tracked.last ?? notYet(authorizations);
    const { look, rpc } = await this.#read({ signed, authorizations, tracked }, signal);
    tracked.found(look, rpc, nowMs);
    // What is decided needs no websocket, and what is final is forgotten.
    if (isAny(look, "confirmed") || isAny(look, "failed")) {
      this.#subscriptions.drop(transaction, tracked.isMissed && look.included !== null);
    }
    if (look.included?.isFinal === true) this.#tracked.delete(transaction);
    return look;
  }

  /** See `Observer.reconcile`. @throws {ChainError} when the chain cannot be asked */
  async reconcile(
    authorization: SolanaAuthorization,
    question: Question,
    signal: AbortSignal,
  ): Promise<Confirmation> {
    this.#requireOpen();
    return this.#search.reconcile(authorization, question, signal);
  }

  /** Ends whatever waits, and closes the websockets. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#subscriptions.close();
  }

  async #read(
    { signed, authorizations, tracked }: Readable,
    signal: AbortSignal,
  ): Promise<Reading> {
    const { time, commitment } = this.#options;
    const { transaction } = signed;
    const { avoid } = tracked;
    const nowMs = time.now();
    const isSearched = tracked.isOld(nowMs);
    tracked.reading();
    const found = await this.#statuses.read(transaction, { isSearched, avoid }, signal);
    const { status, rpc } = found;
    tracked.read(status !== null, nowMs);
    if (status !== null) {
      return { look: included(transaction, status, authorizations, commitment), rpc };
    }
    const waiting = { look: notYet(authorizations), rpc };
    if (!tracked.mayBeExpired(nowMs)) return waiting;
    const blockhash = authorizations[0]?.message.blockhash ?? blockhashOf(signed);
    const last = await this.#readExpired({ transaction, blockhash, tracked }, signal);
    if (last === undefined) return waiting;
    if (last.status !== null) {
      const look = included(transaction, last.status, authorizations, commitment);
      return { look, rpc: last.rpc };
    }
    const look = last.isKnowing ? expired(authorizations) : untold(authorizations);
    return { look, rpc: last.rpc };
  }

  /**
   * The last word on a transaction: its status at a slot at which its blockhash had expired. Undefined where
   * it has not, or where the node's blocks do not reach that slot. All by one endpoint.
   */
  async #readExpired(
    { transaction, blockhash, tracked }: Expiring,
    signal: AbortSignal,
  ): Promise<LastWord | undefined> {
    const blockhashes = this.#blockhashes;
    // What one look has found is not repeated from memory in the next.
    const maxAgeMs = tracked.isSuspected ? 0 : POLL_MS;
    return this.#options.endpoints.run(
      async (rpc) => {
        const validity = await blockhashes.ask(rpc, blockhash, maxAgeMs, signal);
        if (!validity.hasExpired) return undefined;
        const last = await this.#statuses.readAt(rpc, transaction, signal);
        if (last.slot < validity.slot) return undefined;
        const validSlot = blockhashes.validSlot(blockhash) ?? Number.NEGATIVE_INFINITY;
        const isRecent = last.slot - validSlot <= REMEMBERED_SLOTS;
        return { ...last, isKnowing: last.isSearched || isRecent };
      },
      signal,
      tracked.avoid,
    );
  }

  #track(transaction: string, isSent: boolean): Tracked {
    const known = this.#tracked.get(transaction);
    if (known !== undefined) return known;
    const tracked = new Tracked(this.#options.time.now(), isSent);
    this.#tracked.set(transaction, tracked);
    return tracked;
  }

  #requireOpen(): void {
    if (this.#closing.signal.aborted) {
      throw new ChainError("CHAIN_TIMEOUT", "the connections to the chain are closed");
    }
  }
}

/** A look that has to ask. */
interface Readable {
  readonly signed: SignedTransaction;
  readonly authorizations: readonly SolanaAuthorization[];
  readonly tracked: Tracked;
}

interface LastWord extends SeenStatus {
  /** Whether the node would know of its block: one without a history forgets soon, and is well all the same. */
  readonly isKnowing: boolean;
}

interface Expiring {
  readonly transaction: string;
  readonly blockhash: string;
  readonly tracked: Tracked;
}

/** For a payment that cannot be read any more; its transaction can be. */
function blockhashOf({ raw }: SignedTransaction): string {
  const transaction = readSolanaTransaction(raw);
  const message = transaction.ok ? decodeMessage(transaction.value) : transaction;
  if (message.ok) return message.value.blockhash;
  throw new ChainError("CHAIN_ANSWER", "a stored transaction cannot be read");
}
