/** The resource server's view of the PostgreSQL ledger, for one life: the process' own, or a worker's. */
import type { Time } from "../time/time.ts";
import { samePayment, type PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest, PaymentPayload } from "../x402/x402.ts";
import {
  MAX_STORED_BODY_BYTES,
  type BrokenDelivery,
  type ClaimOutcome,
  type ClaimTerms,
  type Failing,
  type Fingerprint,
  type HandedOver,
  type Redemptions,
  type SaleTerms,
  type SettledPayment,
  type StoredResponse,
} from "./ledger.ts";
import * as machine from "./machine.ts";
import { identityOf, requestOf } from "./payment-row.ts";
import type { PostgresDatabase, Statement } from "./postgres-database.ts";
import type { PostgresListener } from "./postgres-listen.ts";
import { reapWorker } from "./postgres-lives.ts";
import { COLUMNS, readResponse, storedOf } from "./postgres-payments.ts";
import { readHandedOvers, type OnUnreadable } from "./postgres-queues.ts";
import { PostgresSteps, type Transition } from "./postgres-steps.ts";
import type { WorkerLife } from "./worker-life.ts";

const RECALL: Statement = {
  name: "recall_payments",
  text: `SELECT ${COLUMNS} FROM coinslot.payments AS p
         WHERE p.identity = $1 ORDER BY p.id`,
};

/** What all who work on one opened PostgreSQL ledger share. */
export interface PostgresGround {
  readonly database: PostgresDatabase;
  readonly listener: PostgresListener;
  readonly time: Time;
  readonly onUnreadable: OnUnreadable;
}

export class PostgresRedemptions implements Redemptions {
  readonly #ground: PostgresGround;
  readonly #steps: PostgresSteps;

  constructor(ground: PostgresGround, life: string) {
    this.#ground = ground;
    this.#steps = new PostgresSteps(ground, life);
  }

  async claim(key: PaymentKey, terms: ClaimTerms): Promise<ClaimOutcome> {
    return this.#steps.first(key, (row, moment) => machine.claim(row, terms, moment));
  }

  async recall(payment: PaymentPayload): Promise<FacilitatorRequest | undefined> {
    const identity = identityOf(payment);
    if (identity === null) return undefined;
    for (const columns of await this.#ground.database.query(RECALL, [identity])) {
      const request = requestOf(storedOf(columns).row);
      if (samePayment(request.paymentPayload, payment)) return request;
    }
    return undefined;
  }

  async changed(key: PaymentKey, version: number, signal: AbortSignal): Promise<void> {
    await this.#ground.listener.changed(key, version, signal);
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
    const response = await readResponse(this.#ground.database, key);
    if (response === undefined) return undefined;
    const may = await this.#step(key, (row, moment) => machine.replay(row, asked, moment));
    return may ? response : undefined;
  }

  async handedOvers(limit: number): Promise<readonly HandedOver[]> {
    return readHandedOvers(this.#ground.database, limit, this.#ground.onUnreadable);
  }

  #step<Outcome>(
    key: PaymentKey,
    transition: Transition<Outcome>,
    response?: StoredResponse,
  ): Promise<Outcome> {
    return this.#steps.step(key, transition, response);
  }
}

export class PostgresWorkerLife extends PostgresRedemptions implements WorkerLife {
  readonly #ground: PostgresGround;
  readonly #life: string;
  readonly #steps: PostgresSteps;

  constructor(ground: PostgresGround, life: string) {
    super(ground, life);
    this.#ground = ground;
    this.#life = life;
    this.#steps = new PostgresSteps(ground, life);
  }

  async leave(key: PaymentKey): Promise<void> {
    await this.#steps.step(key, machine.leave);
  }

  async end(kept: ReadonlySet<PaymentKey>): Promise<number> {
    const { database, time, onUnreadable } = this.#ground;
    const moment = { life: this.#life, nowMs: time.now() };
    return reapWorker(database, { moment, kept }, onUnreadable);
  }
}
