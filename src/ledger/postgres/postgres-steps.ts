/** How one life changes one payment in PostgreSQL: read, asked of the state machine, written if still the same. */
import type { Time } from "../../time/time.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import {
  actorOf,
  isFirstUse,
  LedgerUnavailable,
  type OutcomeOf,
  type TransitionKind,
  type TransitionOf,
} from "../ledger.ts";
import * as machine from "../machine.ts";
import { eventOf } from "../outbox-event.ts";
import { mayPour, potToPour } from "../pouring.ts";
import type { PostgresDatabase, Session } from "./postgres-database.ts";
import type { PostgresOutbox } from "./postgres-outbox.ts";
import { lockPot, pour } from "./postgres-pots.ts";
import {
  insertPayment,
  lockCounted,
  readBuried,
  readCounted,
  readNamed,
  readPayment,
  writeStep,
  type Stored,
} from "./postgres-payments.ts";

/** How often a step is tried again because the row was written meanwhile. */
const MAX_TRIES = 10;

interface Ground {
  readonly database: PostgresDatabase;
  readonly outbox: Pick<PostgresOutbox, "drafts">;
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

  /** Reads, asks the machine, and writes; again, where another was faster. */
  async step<Kind extends TransitionKind>(
    key: PaymentKey,
    transition: TransitionOf<Kind>,
  ): Promise<OutcomeOf<Kind>> {
    const { database, time } = this.#ground;
    if (machine.isCounted(transition)) return this.#stepCounted(key, transition);
    if (mayPour(transition)) return this.#stepPouring(key, transition);
    const life = actorOf(transition, this.#life);
    const isFirst = isFirstUse(transition.kind);
    // A first use most likely finds no row: it is made without a read.
    let stored: Stored | undefined;
    let beside: machine.FoundBeside = {};
    for (let tries = isFirst ? -1 : 0; tries < MAX_TRIES; tries += 1) {
      const moment = { life, nowMs: time.now() };
      if (tries >= 0) {
        stored = await readPayment(database, key);
        beside = {
          buried: isFirst && stored === undefined ? await readBuried(database, key) : undefined,
          named: await readNamed(database, machine.identifierOf(transition)),
        };
      }
      const step = machine.apply(stored?.row, transition, moment, beside);
      // Without a look there may be a row, or what else is known of it.
      if (step.next === undefined && tries < 0) continue;
      if (await this.#write(key, { stored, step, moment })) return step.outcome;
    }
    throw new LedgerUnavailable("a payment is changed by too many at once");
  }

  /** One that counts on a day, while no other of its network and token does. */
  async #stepCounted<Kind extends TransitionKind>(
    key: PaymentKey,
    transition: TransitionOf<Kind>,
  ): Promise<OutcomeOf<Kind>> {
    const { database } = this.#ground;
    const moment = this.moment;
    return database.transaction(async (session) => {
      const asked = await readPayment(session, key);
      if (asked !== undefined) await lockCounted(session, asked.row);
      // Read again: whoever had the lock may have changed it.
      const stored = await readPayment(session, key);
      const counted = stored && (await readCounted(session, stored, moment.nowMs));
      const step = machine.apply(stored?.row, transition, moment, { counted });
      if (stored === undefined || (await writeStep(session, stored, step, { moment }))) {
        return step.outcome;
      }
      throw new LedgerUnavailable("a payment was changed meanwhile");
    });
  }

  /** One that may take something out of a pot, or put it back, while nobody else has that; again, where another was faster. */
  async #stepPouring<Kind extends TransitionKind>(
    key: PaymentKey,
    transition: TransitionOf<Kind>,
  ): Promise<OutcomeOf<Kind>> {
    const { database } = this.#ground;
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const done = await database.transaction((session) => this.#pour(session, key, transition));
      if (done !== null) return done.outcome;
    }
    throw new LedgerUnavailable("a payment is changed by too many at once");
  }

  /** Null: nothing is written, since another has changed the payment meanwhile. */
  async #pour<Kind extends TransitionKind>(
    session: Session,
    key: PaymentKey,
    transition: TransitionOf<Kind>,
  ): Promise<{ readonly outcome: OutcomeOf<Kind> } | null> {
    const { outbox, time } = this.#ground;
    const moment = { life: actorOf(transition, this.#life), nowMs: time.now() };
    const asked = await readPayment(session, key);
    const pot = await lockPot(session, potToPour(asked?.row, transition));
    // Read again: whoever had the pot may have changed it.
    const stored = await readPayment(session, key);
    const { outcome, ...step } = machine.apply(stored?.row, transition, moment, { pot });
    const { next, pours } = step;
    if (stored === undefined) return { outcome };
    const told = outbox.drafts(next ? eventOf(key, stored.row, next) : undefined);
    if (!(await writeStep(session, stored, step, { moment, told }))) return null;
    if (next && pours !== undefined) await pour(session, { row: next, pot, pours, moment });
    return { outcome };
  }

  async #write(key: PaymentKey, { stored, step, moment }: Writing): Promise<boolean> {
    const { next, note, answer } = step;
    if (stored !== undefined) {
      const event = next ? eventOf(key, stored.row, next) : undefined;
      const told = this.#ground.outbox.drafts(event);
      return writeStep(this.#ground.database, stored, step, { moment, kept: answer, told });
    }
    if (!next) return true;
    return insertPayment(this.#ground.database, key, { next, note: note ?? "" }, moment);
  }
}

interface Writing {
  readonly stored: Stored | undefined;
  readonly step: machine.Step<unknown>;
  readonly moment: machine.Moment;
}
