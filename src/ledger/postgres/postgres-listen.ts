/**
 * One life's presence at the database: a connection of its own on which it hears what the other replicas
 * changed, holds its lock and says each second that it is there. Notices may be lost with the connection;
 * whoever waits also looks for himself once a second, over the pool.
 */
import { Client } from "pg";
import type { Logger } from "../../telemetry/logger.ts";
import type { Time } from "../../time/time.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import {
  connectionTo,
  prepareSession,
  reasonOf,
  sessionOf,
  unlessFaulty,
  type Session,
  type Statement,
} from "./postgres-database.ts";
import { beat, BEAT_MS, lockLife } from "./postgres-lives.ts";
import { CHANGED_CHANNEL, OFFERED_CHANNEL } from "./postgres-payments.ts";
import { Waiters } from "../waiters.ts";

/** How often those who wait look for themselves, milliseconds. */
const LOOK_MS = 1000;
/** Waits at one time; more than that are answered after a look's pause, as if something had changed. */
const MAX_WAITS = 20_000;
/** Pauses between attempts to connect, milliseconds. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 1000;
/** How long the answer to a beat may take before the connection is given up, milliseconds. */
const BEAT_TIMEOUT_MS = 2000;
/** How long a connection may take to end in order, milliseconds. */
const GOODBYE_MS = 1000;

/** The name under which all who wait for an offer wait. */
const OFFERS = "";

const CHANGED: Statement = {
  name: "changed_payments",
  text: `
    SELECT w.key AS "key" FROM unnest($1::text[], $2::bigint[]) AS w(key, version)
    LEFT JOIN coinslot.payments AS p ON p.payment_key = w.key
    WHERE p.version IS DISTINCT FROM w.version`,
};

const HAS_OFFERS: Statement = {
  name: "has_offers",
  text: `SELECT EXISTS (SELECT FROM coinslot.payments WHERE offered) AS "there"`,
};

export interface PostgresListenerOptions {
  readonly url: string;
  readonly life: string;
  readonly time: Time;
  readonly logger: Logger;
  /** The pool, for looking. */
  readonly database: Session;
}

interface Wait {
  readonly key: PaymentKey;
  readonly version: number;
}

export class PostgresListener {
  readonly #options: PostgresListenerOptions;
  readonly #closing = new AbortController();
  readonly #waits = new Set<Wait>();
  readonly #changes = new Waiters(MAX_WAITS);
  readonly #offers = new Waiters(MAX_WAITS);
  #offersHeard = 0;
  #offersTold = 0;
  #offersAwaited = 0;
  #present: Promise<void> = Promise.resolve();
  #looking: Promise<void> = Promise.resolve();

  constructor(options: PostgresListenerOptions) {
    this.#options = options;
  }

  /** Begins the life; rejects with {@link LedgerUnavailable} where the first connection fails. */
  async begin(): Promise<void> {
    const client = await this.#connect();
    this.#present = this.#stayPresent(client);
    this.#looking = this.#keepLooking();
  }

  /** See {@link Payments.changed}. */
  async changed(key: PaymentKey, version: number, signal: AbortSignal): Promise<void> {
    const ended = AbortSignal.any([signal, this.#closing.signal]);
    if (this.#changes.isFull) return this.#options.time.sleep(LOOK_MS, ended);
    const wait = { key, version };
    const woken = this.#changes.wait(key, ended);
    this.#waits.add(wait);
    // After it stands in the list: what changed before is seen here, what changes later is heard.
    void this.#look([wait]);
    await woken;
    this.#waits.delete(wait);
  }

  /** See {@link Queues.offered}. */
  async offered(signal: AbortSignal): Promise<void> {
    const ended = AbortSignal.any([signal, this.#closing.signal]);
    if (this.#offersHeard === this.#offersTold) {
      this.#offersAwaited += 1;
      if (this.#offers.isFull) await this.#options.time.sleep(LOOK_MS, ended);
      else await this.#offers.wait(OFFERS, ended);
      this.#offersAwaited -= 1;
    }
    if (!ended.aborted) this.#offersTold = this.#offersHeard;
  }

  /** Ends every wait, and the life's lock with its connection. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all([this.#present, this.#looking]);
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  async #connect(): Promise<Attendance> {
    const { url, life } = this.#options;
    const attendance = new Attendance(url, life, (channel, payload) =>
      this.#hear(channel, payload),
    );
    try {
      await attendance.begin();
      return attendance;
    } catch (error) {
      await attendance.end();
      throw error;
    }
  }

  async #stayPresent(first: Attendance): Promise<void> {
    const { logger, time } = this.#options;
    let attendance: Attendance | undefined = first;
    let pauseMs = FIRST_PAUSE_MS;
    while (!this.#isClosed) {
      try {
        attendance ??= await this.#connect();
        pauseMs = FIRST_PAUSE_MS;
        // Whatever happened while nobody listened.
        this.#changes.wakeAll();
        this.#hear(OFFERED_CHANNEL, "");
        await this.#attend(attendance);
      } catch (error) {
        logger.warn({ reason: reasonOf(error) }, "the ledger's listening connection was lost");
      }
      await attendance?.end();
      attendance = undefined;
      if (!this.#isClosed) await time.sleep(pauseMs, this.#closing.signal);
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
    }
  }

  /** Until we close; rejects when the connection is lost. */
  async #attend(attendance: Attendance): Promise<void> {
    const either = AbortSignal.any([this.#closing.signal, attendance.lost]);
    while (!this.#isClosed) {
      await attendance.beat();
      await this.#options.time.sleep(BEAT_MS, either);
    }
  }

  #hear(channel: string, payload: string): void {
    if (channel === CHANGED_CHANNEL) this.#changes.wake(payload);
    if (channel !== OFFERED_CHANNEL) return;
    this.#offersHeard += 1;
    this.#offers.wake(OFFERS);
  }

  async #keepLooking(): Promise<void> {
    const { time, database } = this.#options;
    while (!this.#isClosed) {
      await time.sleep(LOOK_MS, this.#closing.signal);
      if (this.#isClosed) return;
      if (this.#waits.size > 0) await this.#look([...this.#waits]);
      if (this.#offersAwaited === 0) continue;
      const [found] = await database.query(HAS_OFFERS, []).catch(() => []);
      if (found?.there === true) this.#hear(OFFERED_CHANNEL, "");
    }
  }

  /** Wakes those whose row is another by now. A database that cannot be asked is asked again later. */
  async #look(waits: readonly Wait[]): Promise<void> {
    const keys = waits.map(({ key }) => key);
    const versions = waits.map(({ version }) => version);
    const rows = await this.#options.database.query(CHANGED, [keys, versions]).catch(() => []);
    for (const { key } of rows) this.#changes.wake(String(key));
  }
}

/** One connection for as long as it lasts. */
class Attendance {
  readonly #client: Client;
  readonly #session: Session;
  readonly #life: string;
  readonly #lost = new AbortController();
  #isLocked = false;

  constructor(url: string, life: string, hear: (channel: string, payload: string) => void) {
    this.#client = new Client({ ...connectionTo(url), query_timeout: BEAT_TIMEOUT_MS });
    this.#session = sessionOf(this.#client);
    this.#life = life;
    this.#client.on("notification", ({ channel, payload }) => hear(channel, payload ?? ""));
    this.#client.on("error", () => this.#lost.abort());
    this.#client.on("end", () => this.#lost.abort());
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  async begin(): Promise<void> {
    await unlessFaulty(async () => {
      await this.#client.connect();
      await prepareSession(this.#client);
    });
    await this.#session.run(`LISTEN ${CHANGED_CHANNEL}; LISTEN ${OFFERED_CHANNEL}`);
    await this.#beat(true);
  }

  async beat(): Promise<void> {
    await this.#beat(false);
  }

  async #beat(isBack: boolean): Promise<void> {
    await beat(this.#session, this.#life, isBack);
    if (!this.#isLocked) this.#isLocked = await lockLife(this.#session, this.#life);
  }

  /** Within {@link GOODBYE_MS}, whatever the server does. */
  async end(): Promise<void> {
    const { stream } = this.#client.connection;
    const timer = setTimeout(() => stream.destroy(), GOODBYE_MS);
    await this.#client.end().catch(() => undefined);
    clearTimeout(timer);
  }
}
