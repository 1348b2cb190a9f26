/** Who signs in to get what he has paid for, as rows of PostgreSQL, where every replica finds them. */
import { randomBytes } from "node:crypto";
import type { Time } from "../../time/time.ts";
import {
  LedgerUnavailable,
  MAX_OWED,
  MAX_REPLAYS,
  type BoughtSale,
  type OwedPayment,
  type SignInRecords,
} from "../ledger.ts";
import { isToBeHad, ledToFor } from "../payment-judgement.ts";
import { requestOf } from "../payment-row.ts";
import { storedForms } from "../stored-target.ts";
import {
  MAX_PAYMENTS_LOOKED_THROUGH,
  MAX_PURCHASES,
  MAX_SIGN_INS,
  MAX_SIGN_INS_PER_PAYER,
  SIGN_IN_KEY_BYTES,
  SIGN_IN_MARGIN_MS,
  readPurchase,
  type PaidSale,
  type SignInUse,
  type SignInVerdict,
} from "../sign-ins.ts";
import type { PostgresDatabase, Statement } from "./postgres-database.ts";
import { COLUMNS, storedOf } from "./postgres-payments.ts";

const BOUGHT: Statement = {
  name: "bought_payments",
  text: `
    WITH newest AS (
      SELECT id FROM coinslot.payments WHERE lower(payer) = $1
      ORDER BY created_ms DESC, id DESC LIMIT ${MAX_PAYMENTS_LOOKED_THROUGH}
    )
    SELECT ${COLUMNS} FROM coinslot.payments AS p JOIN newest USING (id)
    WHERE (p.binding = $2 OR p.led_to = $3)
      AND (p.state IN ('SIGNED', 'SETTLED', 'DELIVERING')
          AND (p.served_target IS NULL OR p.served_target = ANY ($4))
        OR p.state = 'DELIVERED'
          AND (p.served_target = ANY ($4) OR p.target = ANY ($4) AND p.led_to IS NOT NULL)
          AND (p.repeat_until_ms > $5 OR p.replay_until_ms > $5 AND p.replays < ${MAX_REPLAYS}))
    ORDER BY p.state = 'DELIVERED', p.created_ms DESC, p.id DESC LIMIT ${MAX_OWED}`,
};

const PURCHASES: Statement = {
  name: "purchases",
  text: `
    WITH newest AS (
      SELECT id FROM coinslot.payments WHERE lower(payer) = $1
      ORDER BY created_ms DESC, id DESC LIMIT ${MAX_PAYMENTS_LOOKED_THROUGH}
    )
    SELECT p.payment_key AS "key", p.network, p.route, p.created_ms AS "createdMs"
    FROM coinslot.payments AS p JOIN newest USING (id)
    WHERE p.state IN ('SETTLED', 'DELIVERING', 'DELIVERED') AND p.binding IS NOT NULL AND p.refund_state IS NULL
      AND ($2::text[] IS NULL OR p.state = 'DELIVERED' AND p.route = ANY ($2))
    ORDER BY p.created_ms DESC, p.id DESC LIMIT ${MAX_PURCHASES}`,
};

const FORGET_SIGN_INS: Statement = {
  name: "forget_sign_ins",
  text: `DELETE FROM coinslot.used_sign_ins WHERE until_ms <= $1`,
};

/** Uses of one payer come one after the other, so that each is counted. */
const LOCK_PAYER: Statement = {
  name: "lock_signing_in",
  text: `SELECT pg_advisory_xact_lock(hashtextextended('coinslot sign-in ' || $1, 0))`,
};

const COUNT_SIGN_INS: Statement = {
  name: "count_sign_ins",
  text: `
    SELECT EXISTS (SELECT FROM coinslot.used_sign_ins WHERE nonce = $1) AS "isUsed",
      (SELECT count(*) FROM coinslot.used_sign_ins WHERE payer = $2) < ${MAX_SIGN_INS_PER_PAYER}
        AND (SELECT count(*) FROM coinslot.used_sign_ins) < ${MAX_SIGN_INS} AS "hasRoom"`,
};

const USE_SIGN_IN: Statement = {
  name: "use_sign_in",
  text: `
    INSERT INTO coinslot.used_sign_ins (nonce, payer, until_ms) VALUES ($1, $2, $3)
    ON CONFLICT (nonce) DO NOTHING RETURNING nonce AS "nonce"`,
};

const ADD_SECRET: Statement = {
  name: "add_secret",
  text: `INSERT INTO coinslot.secrets (name, secret) VALUES ('sign-in', $1) ON CONFLICT DO NOTHING`,
};
const READ_SECRET: Statement = {
  name: "read_secret",
  text: `SELECT secret AS "secret" FROM coinslot.secrets WHERE name = 'sign-in'`,
};

export class PostgresSignIns implements SignInRecords {
  readonly #database: PostgresDatabase;
  readonly #time: Time;

  constructor(database: PostgresDatabase, time: Time) {
    this.#database = database;
    this.#time = time;
  }

  /** The first replica makes it. */
  async key(): Promise<Uint8Array> {
    await this.#database.query(ADD_SECRET, [randomBytes(SIGN_IN_KEY_BYTES)]);
    const [found] = await this.#database.query(READ_SECRET, []);
    if (found?.secret instanceof Uint8Array) return found.secret;
    throw new LedgerUnavailable("the secret by which challenges are made is lost");
  }

  async bought(payer: string, sale: BoughtSale): Promise<readonly OwedPayment[]> {
    const { binding, target } = sale;
    const nowMs = this.#time.now();
    const values = [payer.toLowerCase(), binding, ledToFor(sale), storedForms(target), nowMs];
    const rows = await this.#database.query(BOUGHT, values);
    return rows.flatMap((columns) => {
      const { key, row } = storedOf(columns);
      return isToBeHad(row, sale, nowMs) ? [{ key, request: requestOf(row) }] : [];
    });
  }

  async purchases(payer: string, routes: readonly string[] | null): Promise<readonly PaidSale[]> {
    const rows = await this.#database.query(PURCHASES, [payer.toLowerCase(), routes]);
    return rows.map(readPurchase);
  }

  async use({ nonce, payer, untilMs }: SignInUse): Promise<SignInVerdict> {
    const name = payer.toLowerCase();
    await this.#database.query(FORGET_SIGN_INS, [this.#time.now()]);
    return this.#database.transaction(async (session) => {
      await session.query(LOCK_PAYER, [name]);
      const [found] = await session.query(COUNT_SIGN_INS, [nonce, name]);
      if (found?.isUsed === true) return "again";
      if (found?.hasRoom !== true) return "crowded";
      const stored = await session.query(USE_SIGN_IN, [nonce, name, untilMs + SIGN_IN_MARGIN_MS]);
      return stored.length > 0 ? "first" : "again";
    });
  }
}
