/** Who signs in to get what he has paid for, as rows of SQLite. */
import { randomBytes } from "node:crypto";
import type { PaymentKey } from "../../x402/payment-key.ts";
import {
  LedgerUnavailable,
  MAX_OWED,
  MAX_REPLAYS,
  type BoughtSale,
  type OwedPayment,
  type SignInRecords,
} from "../ledger.ts";
import { isToBeHad, ledToFor } from "../payment-judgement.ts";
import { readEach, requestOf } from "../payment-row.ts";
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
import { storedForms } from "../stored-target.ts";
import type { SqliteCore } from "./sqlite-core.ts";
import type { SqliteDatabase, Values } from "./sqlite-database.ts";

/** One for each life; what they share is in the database. */
export class SqliteSignIns implements SignInRecords {
  readonly #core: SqliteCore;
  readonly #database: SqliteDatabase;

  constructor(core: SqliteCore, database: SqliteDatabase) {
    this.#core = core;
    this.#database = database;
  }

  async key(): Promise<Uint8Array> {
    return this.#core.write(() => signInKey(this.#database));
  }

  async bought(payer: string, sale: BoughtSale): Promise<readonly OwedPayment[]> {
    const nowMs = this.#core.time.now();
    const rows = this.#core.select(...boughtBy(payer, sale, nowMs));
    const found = readEach(rows, (row, key) => ({ row, key }), this.#core.onUnreadable);
    return found.flatMap(({ row, key }) => {
      // The column holds nothing but keys.
      const payment = { key: key as PaymentKey, request: requestOf(row) };
      return isToBeHad(row, sale, nowMs) ? [payment] : [];
    });
  }

  async purchases(payer: string, routes: readonly string[] | null): Promise<readonly PaidSale[]> {
    this.#core.storeNow();
    return readPurchases(this.#database, payer, routes);
  }

  async use(use: SignInUse): Promise<SignInVerdict> {
    return this.#core.write(() => useSignIn(this.#database, use, this.#core.time.now()));
  }
}

/** What {@link SignInRecords.bought} finds: the SQL after the table, and its values. */
function boughtBy(
  payer: string,
  sale: BoughtSale,
  now: number,
): readonly [rest: string, values: Values] {
  const rest = `
    WHERE rowid IN (
      SELECT rowid FROM payments INDEXED BY payments_by_payer WHERE lower(payer) = :payer
      ORDER BY created_ms DESC LIMIT ${MAX_PAYMENTS_LOOKED_THROUGH})
    AND (binding = :binding OR led_to = :ledTo)
    AND (state IN ('SIGNED', 'SETTLED', 'DELIVERING')
        AND (served_target IS NULL OR served_target IN (:digested, :target))
      OR state = 'DELIVERED'
        AND (served_target IN (:digested, :target) OR target IN (:digested, :target) AND led_to IS NOT NULL)
        AND (repeat_until_ms > :now OR replay_until_ms > :now AND replays < ${MAX_REPLAYS}))
    ORDER BY state = 'DELIVERED', created_ms DESC, rowid DESC LIMIT ${MAX_OWED}`;
  const { binding } = sale;
  const [digested, target] = storedForms(sale.target);
  const asked = { binding, digested, target, ledTo: ledToFor(sale) };
  return [rest, { payer: payer.toLowerCase(), ...asked, now }];
}

/** As of {@link SignInRecords.purchases}. */
function readPurchases(
  database: SqliteDatabase,
  payer: string,
  routes: readonly string[] | null,
): readonly PaidSale[] {
  const named = routes ?? [];
  const ofRoutes =
    routes === null
      ? ""
      : `AND state = 'DELIVERED' AND route IN (${named.map(() => "?").join(", ")})`;
  const found = database.all(
    `SELECT payment_key AS "key", network, route, created_ms AS "createdMs" FROM payments WHERE rowid IN (
       SELECT rowid FROM payments INDEXED BY payments_by_payer WHERE lower(payer) = ?
       ORDER BY created_ms DESC LIMIT ${MAX_PAYMENTS_LOOKED_THROUGH})
     AND state IN ('SETTLED', 'DELIVERING', 'DELIVERED') AND binding IS NOT NULL AND refund_state IS NULL
     ${ofRoutes}
     ORDER BY created_ms DESC, rowid DESC LIMIT ${MAX_PURCHASES}`,
    [payer.toLowerCase(), ...named],
  );
  return found.map(readPurchase);
}

/** Part of its caller's transaction. */
function useSignIn(
  database: SqliteDatabase,
  { nonce, payer, untilMs }: SignInUse,
  now: number,
): SignInVerdict {
  database.run("DELETE FROM used_sign_ins WHERE until_ms <= :now", { now });
  const name = payer.toLowerCase();
  const found = database.get(
    `SELECT EXISTS (SELECT 1 FROM used_sign_ins WHERE nonce = :nonce) AS "isUsed",
       (SELECT count(*) FROM used_sign_ins WHERE payer = :payer) < ${MAX_SIGN_INS_PER_PAYER}
         AND (SELECT count(*) FROM used_sign_ins) < ${MAX_SIGN_INS} AS "hasRoom"`,
    { nonce, payer: name },
  );
  if (found?.isUsed === 1) return "again";
  if (found?.hasRoom !== 1) return "crowded";
  database.run(
    "INSERT INTO used_sign_ins (nonce, payer, until_ms) VALUES (:nonce, :payer, :until)",
    {
      nonce,
      payer: name,
      until: untilMs + SIGN_IN_MARGIN_MS,
    },
  );
  return "first";
}

/** Part of its caller's transaction. */
function signInKey(database: SqliteDatabase): Uint8Array {
  const secret = randomBytes(SIGN_IN_KEY_BYTES);
  database.run(
    "INSERT INTO secrets (name, secret) VALUES ('sign-in', :secret) ON CONFLICT (name) DO NOTHING",
    { secret },
  );
  const found = database.get("SELECT secret FROM secrets WHERE name = 'sign-in'", {})?.secret;
  if (found instanceof Uint8Array) return found;
  throw new LedgerUnavailable("the secret by which challenges are made is lost");
}
