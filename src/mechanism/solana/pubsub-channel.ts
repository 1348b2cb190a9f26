/**
 * The websocket of one endpoint, shared by all transactions (`signatureSubscribe`): opened with the first of
 * them, opened again when it breaks, with everything that is still wanted, and closed after an idle minute.
 * What it tells is a hint and no proof, and where it does not work, polling does the job: so nothing here
 * fails, and the log hears of it once.
 *
 *     CLOSED ── wanted ──> OPENING ── open ──> OPEN ── idle ──> CLOSED
 *                           ↑  └── failed ──> PAUSED (0.25, 0.5, 1 … 30 s) <── broken ──┘
 *                           └───────────────────┘
 */
import type { Time } from "../../time/time.ts";
import type { SolanaCommitment } from "./confirmation.ts";
import {
  openPubsub,
  pubsubTargets,
  type PubsubSocket,
  type PubsubTarget,
} from "./pubsub-socket.ts";
import { isRecord } from "../../x402/json.ts";

/** The first pause before the websocket is opened again, milliseconds; each failure in a row doubles it. */
const FIRST_PAUSE_MS = 250;
/** Longest of these pauses, milliseconds. */
const MAX_PAUSE_MS = 30_000;
/** A connection that held so long was no failure, milliseconds. */
const STABLE_MS = 10_000;
/** How often a connection is looked after: one that says nothing twice in a row is dead, milliseconds. */
const CHECK_MS = 10_000;
/** A connection without subscriptions is closed after so long, milliseconds. */
const IDLE_MS = 60_000;
/** A subscription that nobody asked for so long is given up, milliseconds. */
const UNWANTED_MS = 60_000;
/** After so long without an answer a subscription is not waited for any more, milliseconds. */
const STARTING_MS = 500;
/** Subscriptions of one endpoint at most; what is beyond them is polled. */
const MAX_SUBSCRIPTIONS = 2_000;
/** Questions that wait for the node's answer at most; as long as they do, no more are asked. */
const MAX_QUESTIONS = 2_000;
/** After so many transactions in a row that were confirmed without a word, a connection counts as broken. */
const MAX_MISSED = 3;

/**
 * `live`: the node has promised to tell. `starting`: it has just been asked to. `none`: nobody will tell.
 */
export type SubscriptionState = "live" | "starting" | "none";

export interface PubsubChannelOptions {
  /** All that may be shown of the endpoint's URL. */
  readonly host: string;
  /** May hold a key. */
  readonly httpUrl: string;
  readonly commitment: SolanaCommitment;
  readonly time: Time;
  /** The node says that the transaction is in a block. */
  readonly onNotified: (signature: string) => void;
  /** The node will tell from now on: what happened before, it will not. */
  readonly onSubscribed: (signature: string) => void;
  readonly onTrouble: (message: string) => void;
}

interface Subscription {
  readonly signature: string;
  /** When somebody last wanted it, and when the node was asked for it, milliseconds since the epoch. */
  wantedMs: number;
  askedMs: number;
  state: "new" | "asked" | "refused" | "live";
  /** The node's number for it, once it is live. */
  number: number;
}

/** What the node was asked to tell of; nobody may want to hear of it any more. */
interface Question {
  readonly signature: string;
  readonly askedMs: number;
}

export class PubsubChannel {
  readonly #options: PubsubChannelOptions;
  readonly #targets: readonly PubsubTarget[];
  readonly #closing = new AbortController();
  readonly #wanted = new Map<string, Subscription>();
  /** Questions to the node that it has not answered, by their id, the oldest first. */
  readonly #questions = new Map<number, Question>();
  /** Live subscriptions by the node's number. */
  readonly #numbers = new Map<number, string>();
  #socket: PubsubSocket | undefined;
  #running: Promise<void> | undefined;
  /** When the attempt began that is going on; undefined between attempts. */
  #openingMs: number | undefined;
  /** The target that worked last. */
  #target = 0;
  #lastId = 0;
  #failures = 0;
  #missed = 0;
  /** The connection left a question unanswered. */
  #isMute = false;
  #idleSinceMs = 0;
  #isTroubled = false;

  constructor(options: PubsubChannelOptions) {
    this.#options = options;
    this.#targets = pubsubTargets(options.httpUrl);
  }

  /** Wants to hear of a transaction; asks the node for it unless it has been asked. Never waits. */
  follow(signature: string): void {
    const nowMs = this.#options.time.now();
    let wanted = this.#wanted.get(signature);
    if (wanted === undefined) {
      if (this.#wanted.size >= MAX_SUBSCRIPTIONS) return;
      wanted = { signature, wantedMs: nowMs, askedMs: nowMs, state: "new", number: 0 };
      this.#wanted.set(signature, wanted);
    }
    wanted.wantedMs = nowMs;
    if (wanted.state === "new" || wanted.state === "refused") this.#subscribe(wanted);
    if (this.#running === undefined && !this.#closing.signal.aborted) this.#running = this.#run();
  }

  state(signature: string): SubscriptionState {
    const wanted = this.#wanted.get(signature);
    if (wanted === undefined) return "none";
    const nowMs = this.#options.time.now();
    wanted.wantedMs = nowMs;
    if (wanted.state === "live") return "live";
    if (wanted.state === "refused") return "none";
    const sinceMs = wanted.state === "asked" ? wanted.askedMs : this.#openingMs;
    return sinceMs !== undefined && nowMs - sinceMs < STARTING_MS ? "starting" : "none";
  }

  /** Nobody wants to hear of it any more. `isMissed`: it was confirmed, and the node has not told. */
  drop(signature: string, isMissed: boolean): void {
    const wanted = this.#wanted.get(signature);
    if (wanted === undefined) return;
    this.#forget(wanted);
    if (wanted.state !== "live") return;
    this.#numbers.delete(wanted.number);
    this.#unsubscribe(wanted.number);
    if (!isMissed) return;
    this.#missed += 1;
    if (this.#missed >= MAX_MISSED) this.#socket?.end("does not tell of transactions");
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  /** Keeps a connection as long as there is something to hear. Never rejects. */
  async #run(): Promise<void> {
    const { time } = this.#options;
    const { signal } = this.#closing;
    while (!signal.aborted && this.#wanted.size > 0) {
      this.#openingMs = time.now();
      const socket = await this.#open();
      this.#openingMs = undefined;
      if (signal.aborted) break;
      if (socket === undefined) this.#failed("could not be opened");
      else await this.#serve(socket);
      if (this.#wanted.size === 0) break;
      const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** this.#failures, MAX_PAUSE_MS);
      await time.sleep(pauseMs, signal);
      this.#dropUnwanted();
    }
    this.#running = undefined;
  }

  /** The target that worked last first. */
  async #open(): Promise<PubsubSocket | undefined> {
    const { time } = this.#options;
    const { signal } = this.#closing;
    const onMessage = (text: string): void => this.#hear(text);
    for (let tried = 0; tried < this.#targets.length && !signal.aborted; tried += 1) {
      const index = (this.#target + tried) % this.#targets.length;
      const target = this.#targets[index];
      if (target === undefined) break;
      const socket = await openPubsub({ target, time, onMessage, signal });
      if (socket === undefined) continue;
      this.#target = index;
      return socket;
    }
    return undefined;
  }

  /** Uses a connection until it is over. */
  async #serve(socket: PubsubSocket): Promise<void> {
    const { time } = this.#options;
    const openedMs = time.now();
    this.#socket = socket;
    this.#missed = 0;
    this.#isMute = false;
    this.#idleSinceMs = openedMs;
    for (const wanted of this.#wanted.values()) this.#subscribe(wanted);
    while (!socket.over.aborted) {
      await time.sleep(CHECK_MS, socket.over);
      if (!socket.over.aborted) this.#lookAfter(socket, openedMs);
    }
    this.#socket = undefined;
    this.#questions.clear();
    this.#numbers.clear();
    for (const wanted of this.#wanted.values()) wanted.state = "new";
    if (this.#closing.signal.aborted) return;
    const isShort = time.now() - openedMs < STABLE_MS && this.#wanted.size > 0;
    const isBroken = this.#isMute || this.#missed >= MAX_MISSED;
    if (isShort || isBroken) this.#failed(socket.reason);
  }

  #lookAfter(socket: PubsubSocket, openedMs: number): void {
    const nowMs = this.#options.time.now();
    this.#dropUnwanted();
    const [oldest] = this.#questions.values();
    if (oldest !== undefined && nowMs - oldest.askedMs >= CHECK_MS) {
      this.#isMute = true;
      return socket.end("does not answer");
    }
    if (!socket.checkAlive()) return socket.end("was silent");
    if (nowMs - openedMs >= STABLE_MS) this.#failures = 0;
    if (this.#wanted.size === 0 && nowMs - this.#idleSinceMs >= IDLE_MS) socket.end("was idle");
  }

  #dropUnwanted(): void {
    const nowMs = this.#options.time.now();
    for (const { signature, wantedMs } of this.#wanted.values()) {
      if (nowMs - wantedMs >= UNWANTED_MS) this.drop(signature, false);
    }
  }

  #subscribe(wanted: Subscription): void {
    if (this.#socket === undefined || this.#questions.size >= MAX_QUESTIONS) return;
    const { commitment, time } = this.#options;
    const id = (this.#lastId += 1);
    wanted.state = "asked";
    wanted.askedMs = time.now();
    this.#questions.set(id, { signature: wanted.signature, askedMs: wanted.askedMs });
    const params = [wanted.signature, { commitment }];
    this.#socket.send({ jsonrpc: "2.0", id, method: "signatureSubscribe", params });
  }

  #unsubscribe(number: number): void {
    const id = (this.#lastId += 1);
    this.#socket?.send({ jsonrpc: "2.0", id, method: "signatureUnsubscribe", params: [number] });
  }

  #hear(text: string): void {
    const message = parse(text);
    if (message["method"] === "signatureNotification") {
      const params = message["params"];
      return this.#notified(isRecord(params) ? params["subscription"] : undefined);
    }
    const id = message["id"];
    const question = typeof id === "number" ? this.#questions.get(id) : undefined;
    if (typeof id !== "number" || question === undefined) return;
    this.#questions.delete(id);
    this.#answered(question.signature, message["result"]);
  }

  #answered(signature: string, number: unknown): void {
    const wanted = this.#wanted.get(signature);
    const isPromise = typeof number === "number";
    if (wanted?.state !== "asked") {
      if (isPromise) this.#unsubscribe(number);
      return;
    }
    wanted.state = isPromise ? "live" : "refused";
    if (!isPromise) return this.#tell("refused a subscription");
    wanted.number = number;
    this.#numbers.set(number, signature);
    this.#options.onSubscribed(signature);
  }

  /** The node ends a subscription with its one notification. */
  #notified(number: unknown): void {
    const signature = typeof number === "number" ? this.#numbers.get(number) : undefined;
    if (typeof number !== "number" || signature === undefined) return;
    this.#numbers.delete(number);
    const wanted = this.#wanted.get(signature);
    if (wanted !== undefined) this.#forget(wanted);
    this.#worked();
    this.#options.onNotified(signature);
  }

  #forget({ signature }: Subscription): void {
    this.#wanted.delete(signature);
    if (this.#wanted.size === 0) this.#idleSinceMs = this.#options.time.now();
  }

  #failed(reason: string): void {
    this.#failures += 1;
    this.#tell(reason);
  }

  #worked(): void {
    this.#missed = 0;
    this.#failures = 0;
    if (!this.#isTroubled) return;
    this.#isTroubled = false;
    this.#options.onTrouble(`${this.#options.host}: its websocket works again`);
  }

  /** Once, until it works again. */
  #tell(reason: string): void {
    if (this.#isTroubled) return;
    this.#isTroubled = true;
    const instead = "transactions are confirmed by polling meanwhile";
    this.#options.onTrouble(`${this.#options.host}: its websocket ${reason}; ${instead}`);
  }
}

/** Whatever is no object is an empty one. */
function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : {};
  } catch {
    return {};
  }
}
