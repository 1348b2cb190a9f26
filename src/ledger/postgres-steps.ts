/** How one life changes one payment in PostgreSQL: read, asked of the state machine, written if still the same. */
import type { Time } from "../time/time.ts";
import type { PaymentKey } from "../x402/payment-key.ts";
import { LedgerUnavailable, type StoredResponse } from "./ledger.ts";
import type * as machine from "./machine.ts";
import type { PaymentRow } from "./payment-row.ts";
import type { PostgresDatabase } from "./postgres-database.ts";
import {
  insertPayment,
  readBuried,
  readPayment,
  writeStep,
  type Kept,
  type Stored,
} from "./postgres-payments.ts";
import type { Tombstone } from "./tombstone.ts";

/** How often a step is tried again because the row was written meanwhile. */
const MAX_TRIES = 10;

export type Transition<Outcome> = (
  row: PaymentRow | undefined,
  moment: machine.Moment,
) => machine.Step<Outcome>;

interface Ground {
  readonly database: PostgresDatabase;
  readonly time: Time;
}

export class PostgresSteps {
  readonly #ground: Ground;
  readonly #life: string;

  constructor(ground: Ground, life: string) {
    this.#ground = ground;
    this.#life = life;
  }

  get moment(): machine.Moment {
    return { life: this.#life, nowMs: this.#ground.time.now() };
  }

  /**
   * A step whose row most likely is not there yet: it is made without a read. `buried`: what is answered where
   * only a tombstone is left of it.
   */
  async first<Outcome>(
    key: PaymentKey,
    transition: Transition<Outcome>,
    buried: (tombstone: Tombstone) => Outcome,
  ): Promise<Outcome> {
    const moment = this.moment;
    const { outcome, next, note } = transition(undefined, moment);
    const isMade =
      next && (await insertPayment(this.#ground.database, key, { next, note: note ?? "" }, moment));
    return isMade ? outcome : this.#repeat({ key, transition, buried });
  }

  /** Reads, asks the machine, and writes; again, where another was faster. */
  async step<Outcome>(
    key: PaymentKey,
    transition: Transition<Outcome>,
    response?: StoredResponse,
  ): Promise<Outcome> {
    return this.#repeat({ key, transition, response });
  }

  async #repeat<Outcome>({ key, transition, response, buried }: Asked<Outcome>): Promise<Outcome> {
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const moment = this.moment;
      const stored = await readPayment(this.#ground.database, key);
      if (stored === undefined && buried !== undefined) {
        const tombstone = await readBuried(this.#ground.database, key);
        if (tombstone !== undefined) return buried(tombstone);
      }
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
      return writeStep(this.#ground.database, stored, step, { moment, kept });
    }
    if (!next) return true;
    return insertPayment(this.#ground.database, key, { next, note: note ?? "" }, moment);
  }
}

interface Asked<Outcome> {
  readonly key: PaymentKey;
  readonly transition: Transition<Outcome>;
  readonly response?: StoredResponse | undefined;
  readonly buried?: (tombstone: Tombstone) => Outcome;
}

interface Writing {
  readonly stored: Stored | undefined;
  readonly step: machine.Step<unknown>;
  readonly moment: machine.Moment;
  readonly response: StoredResponse | undefined;
}
