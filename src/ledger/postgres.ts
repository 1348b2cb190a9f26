/**
 * The ledger in PostgreSQL, for several processes at a time. A transition reads the row, asks the state
 * machine, and writes the answer only if the row is still the one that was read; a race that is lost is
 * read again. A write is never sent twice: where its answer is lost, what became of it is not known, and
 * {@link LedgerUnavailable} says so.
 */
import type { Logger } from "../telemetry/logger.ts";
import type { Time } from "../time/time.ts";
import { samePayment, type PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest, PaymentPayload } from "../x402/x402.ts";
import type { Books } from "./books.ts";
import {
  LedgerUnavailable,
  MAX_STORED_BODY_BYTES,
  type BeginOutcome,
  type BrokenDelivery,
  type ClaimHolder,
  type ClaimOutcome,
  type ClaimTerms,
  type Failing,
  type Fingerprint,
  type HandedOver,
  type Lease,
  type Ledger,
  type OfferedPayment,
  type SaleTerms,
  type SettledPayment,
  type SettlementOutcome,
  type StoredResponse,
  type StoredSubmission,
  type StoredTransaction,
  type SubmissionState,
} from "./ledger.ts";
import * as machine from "./machine.ts";
import { identityOf, requestOf, type PaymentRow } from "./payment-row.ts";
import { PostgresBooks } from "./postgres-books.ts";
import { PostgresDatabase, type Statement } from "./postgres-database.ts";
import { PostgresListener } from "./postgres-listen.ts";
import { beat, lease, leave, reapPayments, unlease } from "./postgres-lives.ts";
import {
  COLUMNS,
  forgetResponses,
  insertPayment,
  readPayment,
  readResponse,
  storedOf,
  writeStep,
  type Kept,
  type Stored,
} from "./postgres-payments.ts";
import { readHandedOvers, takeOffers } from "./postgres-queues.ts";
import { migrate } from "./postgres-schema.ts";
import {
  readNextNonce,
  readUnfinished,
  storeConclusion,
  storeSigned,
  storeVariant,
} from "./postgres-submissions.ts";

export { openPostgresBooks } from "./postgres-books.ts";

export interface PostgresLedgerOptions {
  /** `postgres://user:password@host:port/database`; a secret. */
  readonly url: string;
  readonly time: Time;
  /** Unique to this life of the process. */
  readonly life: string;
  readonly logger: Logger;
  /** Hears of each row that recovery had to leave out. */
  readonly onUnreadable?: (key: string, reason: string) => void;
}

/** Connections for statements, beside the one that listens. */
const CONNECTIONS = 10;

/** How often a step is tried again because the row was written meanwhile. */
const MAX_TRIES = 10;

const RECALL: Statement = {
  name: "recall_payments",
  text: `SELECT ${COLUMNS} FROM coinslot.payments AS p
         WHERE p.identity = $1 ORDER BY p.id`,
};

const TERMS: Statement = {
  name: "route_terms",
  text: `
    WITH stored AS (
      INSERT INTO coinslot.route_terms AS t (route, hash, changed_at) VALUES ($1, $2, $3)
      ON CONFLICT (route) DO UPDATE SET hash = $2, changed_at = $3 WHERE t.hash <> $2
      RETURNING changed_at
    )
    SELECT coalesce((SELECT changed_at FROM stored),
      (SELECT changed_at FROM coinslot.route_terms WHERE route = $1)) AS "changedAt"`,
};

/**
 * Opens the ledger: brings the tables up to date, one replica at a time, and begins the life. Rejects with
 * {@link LedgerUnavailable}. From there on an outage of the database makes operations reject, and they
 * work again when it is back.
 */
export async function openPostgresLedger(options: PostgresLedgerOptions): Promise<Ledger> {
  const { url, time, life, logger } = options;
  const database = new PostgresDatabase({
    url,
    connections: CONNECTIONS,
    onLost: (reason) => logger.warn({ reason }, "a connection to the ledger's database was lost"),
  });
  try {
    await migrate(database, time);
    const listener = new PostgresListener({ url, life, time, logger, database });
    await listener.begin();
    return new PostgresLedger(database, listener, options);
  } catch (error) {
    await database.close();
    throw error;
  }
}

type Transition<Outcome> = (
  row: PaymentRow | undefined,
  moment: machine.Moment,
) => machine.Step<Outcome>;

class PostgresLedger implements Ledger {
  readonly books: Books;
  readonly #database: PostgresDatabase;
  readonly #listener: PostgresListener;
  readonly #time: Time;
  readonly #life: string;
  readonly #logger: Logger;
  readonly #onUnreadable: (key: string, reason: string) => void;
  #isClosed = false;

  constructor(
    database: PostgresDatabase,
    listener: PostgresListener,
    { time, life, logger, onUnreadable }: PostgresLedgerOptions,
  ) {
    this.books = new PostgresBooks(database);
    this.#database = database;
    this.#listener = listener;
    this.#time = time;
    this.#life = life;
    this.#logger = logger;
    this.#onUnreadable = onUnreadable ?? (() => undefined);
  }

  async claim(key: PaymentKey, terms: ClaimTerms): Promise<ClaimOutcome> {
    return this.#first(key, (row, moment) => machine.claim(row, terms, moment));
  }

  async recall(payment: PaymentPayload): Promise<FacilitatorRequest | undefined> {
    const identity = identityOf(payment);
    if (identity === null) return undefined;
    for (const columns of await this.#database.query(RECALL, [identity])) {
      const request = requestOf(storedOf(columns).row);
      if (samePayment(request.paymentPayload, payment)) return request;
    }
    return undefined;
  }

  async changed(key: PaymentKey, version: number, signal: AbortSignal): Promise<void> {
    await this.#listener.changed(key, version, signal);
  }

  async handedOver(key: PaymentKey, facilitator: string): Promise<void> {
    await this.#step(key, (row, moment) => machine.handOver(row, facilitator, moment));
  }

  async settled(key: PaymentKey, settlement: SettledPayment): Promise<void> {
    await this.#step(key, (row) => machine.settle(row, settlement));
  }

  async failed(key: PaymentKey, failure: Failing): Promise<void> {
    await this.#step(key, (row) => machine.fail(row, failure));
  }

  async released(key: PaymentKey): Promise<void> {
    await this.#step(key, (row, moment) => machine.release(row, moment));
  }

  async delivering(key: PaymentKey, sale?: SaleTerms): Promise<boolean> {
    return this.#step(key, (row, moment) => machine.deliver(row, sale ?? null, moment));
  }

  async delivered(
    key: PaymentKey,
    sold?: Fingerprint & { response: StoredResponse },
  ): Promise<void> {
    const kept = sold && sold.response.body.length <= MAX_STORED_BODY_BYTES ? sold : null;
    await this.#step(key, (row, moment) => machine.delivered(row, kept, moment), kept?.response);
  }

  async undelivered(key: PaymentKey, broken: BrokenDelivery): Promise<void> {
    await this.#step(key, (row, moment) => machine.undelivered(row, broken, moment));
  }

  async replay(key: PaymentKey, asked: Fingerprint): Promise<StoredResponse | undefined> {
    const response = await readResponse(this.#database, key);
    if (response === undefined) return undefined;
    const may = await this.#step(key, (row, moment) => machine.replay(row, asked, moment));
    return may ? response : undefined;
  }

  async handedOvers(limit: number): Promise<readonly HandedOver[]> {
    return readHandedOvers(this.#database, limit, this.#onUnreadable);
  }

  async begin(
    key: PaymentKey,
    request: FacilitatorRequest,
    caller: string | ClaimHolder | undefined,
  ): Promise<BeginOutcome> {
    return this.#first(key, (row, moment) => machine.begin(row, request, caller, moment));
  }

  async outcome(key: PaymentKey): Promise<SettlementOutcome> {
    return machine.outcome((await readPayment(this.#database, key))?.row);
  }

  async lease(network: string, address: string): Promise<Lease | undefined> {
    return lease(this.#database, { network, address }, this.#life);
  }

  async unlease(held: Lease): Promise<void> {
    await unlease(this.#database, held, this.#life);
  }

  async signed(
    keys: readonly PaymentKey[],
    account: Lease & { readonly seed: number },
    sign: (accountNonce: number) => StoredTransaction,
  ): Promise<StoredSubmission> {
    return storeSigned(this.#database, { keys, account, sign }, this.#moment());
  }

  async replaced(held: Lease, submission: string, variant: StoredTransaction): Promise<void> {
    await storeVariant(this.#database, { lease: held, id: submission, variant }, this.#moment());
  }

  async concluded(submission: string, state: SubmissionState): Promise<void> {
    await storeConclusion(this.#database, submission, state);
  }

  async withdrawn(key: PaymentKey, submission?: string): Promise<void> {
    await this.#step(key, (row, moment) => machine.withdraw(row, moment, submission));
  }

  async abandoned(key: PaymentKey): Promise<void> {
    await this.#step(key, (row, moment) => machine.abandon(row, moment));
  }

  async offer(key: PaymentKey): Promise<boolean> {
    return this.#step(key, (row, moment) => machine.offer(row, moment));
  }

  async takeOffered(network: string, limit: number): Promise<readonly OfferedPayment[]> {
    const asked = { network, limit, moment: this.#moment() };
    return takeOffers(this.#database, asked, this.#onUnreadable);
  }

  async offered(signal: AbortSignal): Promise<void> {
    await this.#listener.offered(signal);
  }

  async unfinished(network: string, address: string): Promise<readonly StoredSubmission[]> {
    return readUnfinished(this.#database, { network, address }, this.#onUnreadable);
  }

  async nextAccountNonce(network: string, address: string): Promise<number | undefined> {
    return readNextNonce(this.#database, network, address);
  }

  async termsChangedAt(route: string, termsHash: string, now: number): Promise<number> {
    const [terms] = await this.#database.query(TERMS, [route, termsHash, now]);
    // Null where another replica stored the same terms between the statement's two halves.
    return Number(terms?.changedAt ?? now);
  }

  async reap(): Promise<number> {
    const moment = this.#moment();
    const freed = await reapPayments(this.#database, moment, this.#onUnreadable);
    await forgetResponses(this.#database, moment.nowMs);
    return freed;
  }

  async ping(): Promise<void> {
    await beat(this.#database, this.#life);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#listener.close();
    await leave(this.#database, this.#life).catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : String(error);
      this.#logger.warn({ reason }, "the ledger was closed without a word to the other replicas");
    });
    await this.#database.close();
  }

  /** A step whose row most likely is not there yet: it is made without a read. */
  async #first<Outcome>(key: PaymentKey, transition: Transition<Outcome>): Promise<Outcome> {
    const moment = this.#moment();
    const { outcome, next, note } = transition(undefined, moment);
    const isMade =
      next && (await insertPayment(this.#database, key, { next, note: note ?? "" }, moment));
    return isMade ? outcome : this.#step(key, transition);
  }

  /** Reads, asks the machine, and writes; again, where another was faster. */
  async #step<Outcome>(
    key: PaymentKey,
    transition: Transition<Outcome>,
    response?: StoredResponse,
  ): Promise<Outcome> {
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const moment = this.#moment();
      const stored = await readPayment(this.#database, key);
      const step = transition(stored?.row, moment);
      if (await this.#write(key, { stored, step, moment, response })) return step.outcome;
    }
    throw new LedgerUnavailable("a payment is changed by too many at once");
  }

  async #write(key: PaymentKey, { stored, step, moment, response }: Writing): Promise<boolean> {
    const { next, note } = step;
    if (stored !== undefined) {
      const untilMs = next?.replayUntilMs ?? null;
      const kept: Kept | undefined =
        response === undefined || untilMs === null ? undefined : { response, untilMs };
      return writeStep(this.#database, stored, step, { moment, kept });
    }
    if (!next) return true;
    return insertPayment(this.#database, key, { next, note: note ?? "" }, moment);
  }

  #moment(): machine.Moment {
    return { life: this.#life, nowMs: this.#time.now() };
  }
}

interface Writing {
  readonly stored: Stored | undefined;
  readonly step: machine.Step<unknown>;
  readonly moment: machine.Moment;
  readonly response: StoredResponse | undefined;
}
