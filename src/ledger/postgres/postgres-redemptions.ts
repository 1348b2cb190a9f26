/** The resource server's view of the PostgreSQL ledger, for one life: the process' own, or a worker's. */
import type { Time } from "../../time/time.ts";
import { payerOf, samePayment, type PaymentKey } from "../../x402/payment-key.ts";
import type { PaymentPayload } from "../../x402/x402.ts";
import {
  MAX_OWED,
  MAX_REPLAYS,
  MISNAMED,
  type OutcomeOf,
  type OwedPayment,
  type Recalled,
  type RecalledSale,
  type Redemptions,
  type StoredResponse,
  type TransitionKind,
  type TransitionOf,
} from "../ledger.ts";
import { processOf } from "../life.ts";
import { isMisnamed, isOwed, ledToFor } from "../payment-judgement.ts";
import { identityOf, requestOf } from "../payment-row.ts";
import { storedForms } from "../stored-target.ts";
import type { PostgresDatabase, Statement } from "./postgres-database.ts";
import type { PostgresListener } from "./postgres-listen.ts";
import { isHeld, reapWorker } from "./postgres-lives.ts";
import type { PostgresOutbox } from "./postgres-outbox.ts";
import { PostgresPots } from "./postgres-pots.ts";
import { COLUMNS, readNamed, readResponse, storedOf } from "./postgres-payments.ts";
import type { OnUnreadable } from "./postgres-queues.ts";
import { PostgresSteps } from "./postgres-steps.ts";
import { digestOf } from "../tombstone.ts";
import {
  MAX_USED_ELSEWHERE,
  MAX_USED_ELSEWHERE_PER_PAYER,
  usedElsewhere,
  type AskedFor,
} from "../used-elsewhere.ts";
import type { WorkerLife } from "../ledger.ts";
import { PostgresSignIns } from "./postgres-sign-ins.ts";
import type { SignInRecords } from "../sign-ins.ts";

/**
 * The index of identities has that collation, and no comparison in another finds it. An open payment that another
 * process holds is not owed, unless that process has died and was not reaped yet, or is an older program, which says
 * of none who holds it.
 */
const HOLDER = "split_part(p.holder, '/', 1)";
const RECALL: Statement = {
  name: "recall_payments",
  text: `
    SELECT ${COLUMNS}, false AS "isOther" FROM coinslot.payments AS p
    WHERE p.identity COLLATE "C" = $1
    UNION ALL (
      SELECT ${COLUMNS}, true FROM coinslot.payments AS p
      WHERE lower(p.payer) = lower($2) AND p.binding IS NOT NULL
        AND (md5(p.binding) = md5($3) AND p.binding = $3 OR p.led_to = $8)
        AND (p.is_left OR p.state IN ('CLAIMED', 'SIGNED', 'SETTLED', 'DELIVERING'))
        AND (p.is_left OR p.holder IS NULL OR ${HOLDER} <> $6 AND NOT ${isHeld(HOLDER)})
        AND p.state <> 'FAILED' AND (p.served_target IS NULL OR p.served_target = ANY ($4))
        AND (p.state <> 'DELIVERED' OR p.repeat_until_ms > $5
          OR p.replay_until_ms > $5 AND p.replays < ${MAX_REPLAYS})
        AND p.network = $7
      ORDER BY p.id LIMIT ${MAX_OWED}
    )`,
};

const BURIED: Statement = {
  name: "find_tombstones",
  text: `SELECT encode(payment_key, 'hex') AS "digest" FROM coinslot.tombstones
         WHERE payment_key = ANY ($1)`,
};

const NOTE_USED_ELSEWHERE: Statement = {
  name: "note_used_elsewhere",
  text: `
    INSERT INTO coinslot.used_elsewhere
      (payment_key, network, asset, amount_atomic, payer, pay_to, binding, seen_ms)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8::bigint
    WHERE (SELECT count(*) FROM coinslot.used_elsewhere WHERE payer = $5)
        < ${MAX_USED_ELSEWHERE_PER_PAYER}
      AND (SELECT count(*) FROM coinslot.used_elsewhere) < ${MAX_USED_ELSEWHERE}
    ON CONFLICT (payment_key) DO NOTHING`,
};

/** What all who work on one opened PostgreSQL ledger share. */
export interface PostgresGround {
  readonly database: PostgresDatabase;
  readonly listener: PostgresListener;
  readonly outbox: PostgresOutbox;
  readonly time: Time;
  readonly onUnreadable: OnUnreadable;
}

export class PostgresRedemptions implements Redemptions {
  readonly pots: PostgresPots;
  readonly signIns: SignInRecords;
  readonly #ground: PostgresGround;
  readonly #steps: PostgresSteps;

  constructor(ground: PostgresGround, life: string) {
    this.#ground = ground;
    this.#steps = new PostgresSteps(ground, life);
    this.pots = new PostgresPots(ground.database, ground.time, life);
    this.signIns = new PostgresSignIns(ground.database, ground.time);
  }

  async step<Kind extends TransitionKind>(
    key: PaymentKey,
    transition: TransitionOf<Kind>,
  ): Promise<OutcomeOf<Kind>> {
    return this.#steps.step(key, transition);
  }

  async recall(payment: PaymentPayload, sale: RecalledSale): Promise<Recalled> {
    const named = await readNamed(this.#ground.database, sale.identifier);
    if (isMisnamed({ paymentPayload: payment }, sale, named)) return MISNAMED;
    const { life, nowMs } = this.#steps.moment;
    const { binding, target } = sale;
    const whose = [identityOf(payment), payerOf(payment), binding, storedForms(target), nowMs];
    const asked = [...whose, processOf(life), payment.network, ledToFor(sale)];
    const owed: OwedPayment[] = [];
    let isNew = true;
    for (const columns of await this.#ground.database.query(RECALL, asked)) {
      const { key, row } = storedOf(columns);
      const request = requestOf(row);
      // What a dead process holds will be left by it; until then whoever waits for it waits.
      const isOther = columns.isOther === true;
      if (isOther && isOwed({ ...row, isLeft: true }, payment, sale, nowMs)) {
        owed.push({ key, request });
      }
      if (isOther) continue;
      if (samePayment(request.paymentPayload, payment)) return { request, owed: [] };
      isNew = false;
    }
    // Of a nonce that is known another signature proves nothing.
    return { request: undefined, owed: isNew ? owed : [] };
  }

  async changed(key: PaymentKey, version: number, signal: AbortSignal): Promise<void> {
    await this.#ground.listener.changed(key, version, signal);
  }

  async answer(key: PaymentKey): Promise<StoredResponse | undefined> {
    return readResponse(this.#ground.database, key);
  }

  async buried(keys: readonly PaymentKey[]): Promise<readonly PaymentKey[]> {
    const digests = keys.map(digestOf);
    const rows = await this.#ground.database.query(BURIED, [digests]);
    const found = new Set(rows.map(({ digest }) => String(digest)));
    return keys.filter((_, index) => found.has(digests[index]?.toString("hex") ?? ""));
  }

  async noteUsedElsewhere(key: PaymentKey, asked: AskedFor): Promise<void> {
    const note = usedElsewhere(key, asked, this.#ground.time.now());
    const { network, asset, amount, payer, payTo, binding, seenMs } = note;
    const values = [key, network, asset, amount, payer, payTo, binding, seenMs];
    await this.#ground.database.query(NOTE_USED_ELSEWHERE, values);
  }
}

export class PostgresWorkerLife extends PostgresRedemptions implements WorkerLife {
  readonly #ground: PostgresGround;
  readonly #life: string;

  constructor(ground: PostgresGround, life: string) {
    super(ground, life);
    this.#ground = ground;
    this.#life = life;
  }

  async end(kept: ReadonlySet<PaymentKey>): Promise<number> {
    const { database, time, onUnreadable } = this.#ground;
    await this.pots.end();
    const moment = { life: this.#life, nowMs: time.now() };
    return reapWorker(database, { moment, kept }, onUnreadable);
  }
}
