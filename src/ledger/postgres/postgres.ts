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
import {
  type Lease,
  type Ledger,
  type OfferedPayment,
  type SettlementOutcome,
  type StoredSubmission,
  type StoredTransaction,
  type SubmissionCost,
  type SubmissionState,
} from "../ledger.ts";
import { lifeWithin } from "../life.ts";
import * as machine from "../machine.ts";
import { PostgresBooks } from "./postgres-books.ts";
import { forgetBudgets, PostgresBudgets, PostgresPauses } from "./postgres-budgets.ts";
import { PostgresCertificates } from "./postgres-certificates.ts";
import { PostgresDatabase, type Statement } from "./postgres-database.ts";
import { PostgresListener } from "./postgres-listen.ts";
import {
  beat,
  deadHolders,
  lease,
  leave,
  reapPayments,
  unattended,
  unlease,
} from "./postgres-lives.ts";
import { PostgresOutbox } from "./postgres-outbox.ts";
import { forgetResponses, readBuried, readPayment } from "./postgres-payments.ts";
import { returnLeases, tidyPots } from "./postgres-pots.ts";
import { readSpends } from "./postgres-purses.ts";
import { readOffers, readRefunds } from "./postgres-queues.ts";
import type { OpenRefund, OpenRefundState } from "../refund-steps.ts";
import {
  PostgresRedemptions,
  PostgresWorkerLife,
  type PostgresGround,
} from "./postgres-redemptions.ts";
import { migrate } from "./postgres-schema.ts";
import { signInKey } from "./postgres-sign-ins.ts";
import { PostgresSoldOffers } from "./postgres-sold-offers.ts";
import { PostgresSteps } from "./postgres-steps.ts";
import {
  readHasSigned,
  readNextNonce,
  readUnfinished,
  storeConclusion,
  storeSigned,
  storeVariant,
} from "./postgres-submissions.ts";
import { forgetPayer } from "./postgres-forgetting.ts";
import { sweepOnce } from "./postgres-sweep.ts";
import type { ForgottenInStep, ForgetStep } from "../forgetting.ts";
import type { Purse, Draws, Spend } from "../purse.ts";
import type { SoldOffers } from "../sold-offers.ts";
import type { Swept, SweepStep } from "../sweep.ts";
import { buriedOutcome } from "../tombstone.ts";
import type { WorkerLife } from "../ledger.ts";
import type { LeftAccount } from "../unattended.ts";
import { messageOf } from "../../x402/result.ts";

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
  readonly #database: PostgresDatabase;
  readonly #listener: PostgresListener;
  readonly #life: string;
  readonly #logger: Logger;
  readonly #ground: PostgresGround;
  readonly #steps: PostgresSteps;
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
    this.#steps = new PostgresSteps(ground, life);
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
    draws?: Draws,
  ): Promise<StoredSubmission> {
    return storeSigned(this.#database, { keys, account, sign, draws }, this.#steps.moment);
  }

  async spends(purse: Purse, settledAfterMs: number): Promise<readonly Spend[]> {
    return readSpends(this.#database, purse, settledAfterMs);
  }

  async hasSigned(transaction: string): Promise<boolean> {
    return readHasSigned(this.#database, transaction);
  }

  /** Operators write to the database themselves. */
  async resolveAsked(): Promise<number> {
    return 0;
  }

  async refunds(
    network: string,
    limit: number,
    state?: OpenRefundState,
  ): Promise<readonly OpenRefund[]> {
    const asked = { network, limit, state, nowMs: this.#steps.moment.nowMs };
    return readRefunds(this.#database, asked, this.#ground.onUnreadable);
  }

  async replaced(held: Lease, submission: string, variant: StoredTransaction): Promise<void> {
    await storeVariant(
      this.#database,
      { lease: held, id: submission, variant },
      this.#steps.moment,
    );
  }

  async concluded(
    submission: string,
    state: SubmissionState,
    cost?: SubmissionCost,
  ): Promise<void> {
    await storeConclusion(
      this.#database,
      { id: submission, state, cost },
      this.#steps.moment.nowMs,
    );
  }

  async offers(network: string, limit: number): Promise<readonly OfferedPayment[]> {
    return readOffers(this.#database, { network, limit }, this.#ground.onUnreadable);
  }

  async offered(signal: AbortSignal): Promise<void> {
    await this.#listener.offered(signal);
  }

  async unfinished(network: string, address: string): Promise<readonly StoredSubmission[]> {
    return readUnfinished(this.#database, { network, address }, this.#ground.onUnreadable);
  }

  async unattended(): Promise<readonly LeftAccount[]> {
    return unattended(this.#database, this.#life);
  }

  async nextAccountNonce(network: string, address: string): Promise<number | undefined> {
    return readNextNonce(this.#database, network, address);
  }

  async termsChangedAt(route: string, termsHash: string, now: number): Promise<number> {
    const [terms] = await this.#database.query(TERMS, [route, termsHash, now]);
    // Null where another replica stored the same terms between the statement's two halves.
    return Number(terms?.changedAt ?? now);
  }

  async signInKey(): Promise<Uint8Array> {
    return signInKey(this.#database);
  }

  async reap(): Promise<number> {
    const moment = this.#steps.moment;
    await returnLeases(this.#database, await deadHolders(this.#database, moment.life));
    const freed = await reapPayments(this.#database, moment, this.#ground.onUnreadable);
    await forgetResponses(this.#database, moment.nowMs);
    await forgetBudgets(this.#database, moment.nowMs);
    await tidyPots(this.#database, moment.nowMs);
    return freed;
  }

  async sweep(step: SweepStep): Promise<Swept> {
    const { nowMs } = this.#steps.moment;
    return sweepOnce(this.#database, { ...step, nowMs }, this.#ground.onUnreadable);
  }

  async forget(step: ForgetStep): Promise<ForgottenInStep> {
    return forgetPayer(this.#database, { ...step, nowMs: this.#steps.moment.nowMs });
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
