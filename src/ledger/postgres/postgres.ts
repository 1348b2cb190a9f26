/**
 * The ledger in PostgreSQL, for several processes at a time. A transition reads the row, asks the state
 * machine, and writes the answer only if the row is still the one that was read; a race that is lost is
 * read again. A write is never sent twice: where its answer is lost, what became of it is not known, and
 * {@link LedgerUnavailable} says so.
 */
import type { Logger } from "../../telemetry/logger.ts";
import type { Time } from "../../time/time.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import type { Books } from "../books.ts";
import type { Budgets } from "../budgets.ts";
import type { KeptCertificates } from "../certificates.ts";
import type { Outbox } from "../outbox.ts";
import type { Pauses } from "../pauses.ts";
import { type Ledger, type SettlementOutcome } from "../ledger.ts";
import { lifeWithin } from "../life.ts";
import * as machine from "../machine.ts";
import { PostgresBooks } from "./postgres-books.ts";
import { PostgresBudgets, PostgresPauses } from "./postgres-budgets.ts";
import { PostgresCertificates } from "./postgres-certificates.ts";
import { PostgresDatabase, type Statement } from "./postgres-database.ts";
import { PostgresListener } from "./postgres-listen.ts";
import { beat, leave } from "./postgres-lives.ts";
import { PostgresOutbox } from "./postgres-outbox.ts";
import { readBuried, readPayment } from "./postgres-payments.ts";
import {
  PostgresRedemptions,
  PostgresWorkerLife,
  type PostgresGround,
} from "./postgres-redemptions.ts";
import { migrate } from "./postgres-schema.ts";
import { PostgresSoldOffers } from "./postgres-sold-offers.ts";
import type { SoldOffers } from "../sold-offers.ts";
import { buriedOutcome } from "../tombstone.ts";
import type { WorkerLife } from "../ledger.ts";
import { messageOf } from "../../x402/result.ts";
import { PostgresQueues } from "./postgres-queues.ts";
import { PostgresSigning } from "./postgres-signing.ts";
import { PostgresUpkeep } from "./postgres-upkeep.ts";
import type { Queues } from "../queues.ts";
import type { Signing } from "../signing.ts";
import type { Upkeep } from "../upkeep.ts";

export { openPostgresBooks } from "./postgres-books.ts";
export { readPostgresCertificates } from "./postgres-certificates.ts";
export { openPostgresPauses } from "./postgres-budgets.ts";
export { openPostgresMessages } from "./postgres-outbox.ts";

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
export const CONNECTIONS = 10;

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

class PostgresLedger extends PostgresRedemptions implements Ledger {
  readonly books: Books;
  readonly sold: SoldOffers;
  readonly budgets: Budgets;
  readonly pauses: Pauses;
  readonly certificates: KeptCertificates;
  readonly outbox: Outbox;
  readonly signing: Signing;
  readonly queues: Queues;
  readonly upkeep: Upkeep;
  readonly #database: PostgresDatabase;
  readonly #listener: PostgresListener;
  readonly #life: string;
  readonly #logger: Logger;
  readonly #ground: PostgresGround;
  #isClosed = false;

  constructor(
    database: PostgresDatabase,
    listener: PostgresListener,
    { time, life, logger, onUnreadable }: PostgresLedgerOptions,
  ) {
    const outbox = new PostgresOutbox(database, time);
    const shared = { database, listener, outbox, time };
    const ground = { ...shared, onUnreadable: onUnreadable ?? (() => undefined) };
    super(ground, life);
    this.books = new PostgresBooks(database);
    this.sold = new PostgresSoldOffers(database);
    this.budgets = new PostgresBudgets(database, time);
    this.pauses = new PostgresPauses(database, time);
    this.certificates = new PostgresCertificates(database, time);
    this.outbox = outbox;
    this.#database = database;
    this.#listener = listener;
    this.#life = life;
    this.#logger = logger;
    this.#ground = ground;
    this.signing = new PostgresSigning(ground, life);
    this.queues = new PostgresQueues(ground);
    this.upkeep = new PostgresUpkeep(ground, life);
  }

  worker(name: string): WorkerLife {
    return new PostgresWorkerLife(this.#ground, lifeWithin(this.#life, name));
  }

  async outcome(key: PaymentKey): Promise<SettlementOutcome> {
    const row = (await readPayment(this.#database, key))?.row;
    const tombstone = row === undefined ? await readBuried(this.#database, key) : undefined;
    if (tombstone === undefined) return machine.outcome(row);
    return buriedOutcome(key, tombstone);
  }

  async termsChangedAt(route: string, termsHash: string, now: number): Promise<number> {
    const [terms] = await this.#database.query(TERMS, [route, termsHash, now]);
    // Null where another replica stored the same terms between the statement's two halves.
    return Number(terms?.changedAt ?? now);
  }

  async ping(): Promise<void> {
    await beat(this.#database, this.#life);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#listener.close();
    await leave(this.#database, this.#life).catch((error: unknown) => {
      const reason = messageOf(error);
      this.#logger.warn({ reason }, "the ledger was closed without a word to the other replicas");
    });
    await this.#database.close();
  }
}
