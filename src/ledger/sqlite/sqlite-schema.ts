/**
 * The tables of the SQLite ledger and how a file gets them. The CHECKs repeat what the transitions
 * promise, so that a wrong statement fails instead of storing money in a state that cannot be.
 */
import { existsSync } from "node:fs";
import { LedgerUnavailable, MAX_DELIVERY_ATTEMPTS, MAX_RENEWALS, MAX_REPLAYS } from "../ledger.ts";
import { ENTRY_KINDS } from "../accounts.ts";
import { SALES } from "../budgets.ts";
import { SIGN_IN_KEY_BYTES } from "../sign-ins.ts";
import { REFUND_STATES } from "../refund-steps.ts";
import { PAYMENT_STATES } from "../transition.ts";
import { SqliteDatabase } from "./sqlite-database.ts";
import { OLDER_SCHEMAS } from "./sqlite-older-schemas.ts";
import { OUTBOX_SCHEMA } from "./sqlite-outbox-schema.ts";
import { POTS_SCHEMA, REFUNDED_CREDITS_SCHEMA } from "./sqlite-pots-schema.ts";
import { SUBMISSION_STATES } from "../submission-row.ts";

const listed = (states: readonly string[]): string =>
  states.map((state) => `'${state}'`).join(", ");

/** Submissions that an older program settled this long before its last step, ms, are looked at no more. */
const SETTLED_LONG_AGO_MS = 86_400_000;

const SUBMISSIONS = `
  CREATE TABLE submissions (
    id            TEXT    NOT NULL PRIMARY KEY,
    network       TEXT    NOT NULL,
    account       TEXT    NOT NULL,
    account_nonce INTEGER NOT NULL CHECK (account_nonce >= 0),
    variants      TEXT    NOT NULL CHECK (json_array_length(variants) > 0),
    state         TEXT    NOT NULL CHECK (state IN (${listed(SUBMISSION_STATES)})),
    signed_ms     INTEGER NOT NULL,
    UNIQUE (network, account, account_nonce)
  ) STRICT;
  CREATE INDEX unfinished_submissions ON submissions (network, account, account_nonce)
    WHERE state <> 'CLOSED';

  CREATE TABLE submission_transactions (
    transaction_id TEXT NOT NULL PRIMARY KEY CHECK (transaction_id = lower(transaction_id)),
    submission     TEXT NOT NULL REFERENCES submissions (id)
  ) STRICT, WITHOUT ROWID;`;

const PAYMENTS = `
  CREATE TABLE payments (
    payment_key         TEXT    NOT NULL PRIMARY KEY,
    state               TEXT    NOT NULL CHECK (state IN (${listed(PAYMENT_STATES)})),
    version             INTEGER NOT NULL CHECK (version > 0),
    binding             TEXT,
    target              TEXT,
    idempotency_key     TEXT,
    request             TEXT    NOT NULL CHECK (json_valid(request)),
    network             TEXT    NOT NULL,
    asset               TEXT    NOT NULL,
    amount_atomic       TEXT    NOT NULL
                        CHECK (amount_atomic <> '' AND amount_atomic NOT GLOB '*[^0-9]*'),
    pay_to              TEXT    NOT NULL,
    payer               TEXT    NOT NULL,
    identity            TEXT    CHECK (identity = lower(identity)),
    facilitator         TEXT,
    offered             INTEGER NOT NULL CHECK (offered IN (0, 1)),
    submission          TEXT    REFERENCES submissions (id),
    settled_transaction TEXT,
    attempts            INTEGER NOT NULL
                        CHECK (attempts BETWEEN 0 AND ${MAX_DELIVERY_ATTEMPTS}),
    served_target       TEXT,
    body_hash           TEXT,
    replays             INTEGER NOT NULL CHECK (replays BETWEEN 0 AND ${MAX_REPLAYS}),
    replay_until_ms     INTEGER,
    failure_code        TEXT,
    failure_detail      TEXT,
    claimed_by          TEXT    NOT NULL,
    created_ms          INTEGER NOT NULL,
    updated_ms          INTEGER NOT NULL,
    CHECK (state <> 'CLAIMED' OR submission IS NULL),
    CHECK (offered = 0 OR state = 'CLAIMED'),
    CHECK ((state IN ('SETTLED', 'DELIVERING', 'DELIVERED')) = (settled_transaction IS NOT NULL)),
    CHECK ((state = 'FAILED') = (failure_code IS NOT NULL)),
    CHECK (state <> 'DELIVERING' OR attempts > 0),
    CHECK ((body_hash IS NULL) = (replay_until_ms IS NULL)),
    CHECK (replay_until_ms IS NULL OR (state = 'DELIVERED' AND served_target IS NOT NULL)),
    CHECK (replays = 0 OR replay_until_ms IS NOT NULL)
  ) STRICT;`;

const INDEXES = `
  CREATE INDEX payments_by_identity ON payments (identity);
  CREATE INDEX payments_by_time ON payments (created_ms);
  CREATE INDEX payments_by_submission ON payments (submission) WHERE submission IS NOT NULL;
  CREATE INDEX payments_by_settlement ON payments (lower(settled_transaction))
    WHERE settled_transaction IS NOT NULL;
  CREATE INDEX claimed_payments ON payments (claimed_by) WHERE state = 'CLAIMED';
  CREATE INDEX signed_payments ON payments (updated_ms) WHERE state = 'SIGNED';
  CREATE INDEX delivering_payments ON payments (claimed_by) WHERE state = 'DELIVERING';
  CREATE INDEX undelivered_payments ON payments (created_ms)
    WHERE state = 'SETTLED' AND binding IS NOT NULL;
  CREATE INDEX offered_payments ON payments (network, updated_ms) WHERE offered = 1;`;

const HISTORY_AND_ANSWERS = `
  CREATE TABLE payment_events (
    payment_key TEXT    NOT NULL REFERENCES payments (payment_key) ON DELETE CASCADE,
    version     INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN (${listed(PAYMENT_STATES)})),
    note        TEXT    NOT NULL,
    life        TEXT    NOT NULL,
    PRIMARY KEY (payment_key, version)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE responses (
    payment_key TEXT    NOT NULL PRIMARY KEY REFERENCES payments (payment_key) ON DELETE CASCADE,
    status      INTEGER NOT NULL,
    headers     TEXT    NOT NULL CHECK (json_valid(headers)),
    body        BLOB    NOT NULL,
    until_ms    INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX responses_by_time ON responses (until_ms);`;

/** The nonce is null, and the account nobody's, until the first signature and the first lease. */
const ACCOUNTS = `
  CREATE TABLE accounts (
    network    TEXT    NOT NULL,
    address    TEXT    NOT NULL,
    next_nonce INTEGER CHECK (next_nonce >= 0),
    holder     TEXT,
    epoch      INTEGER NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    PRIMARY KEY (network, address)
  ) STRICT, WITHOUT ROWID;`;

/**
 * Each payment of version 2 that was signed had a transaction of its own. Those that failed may have an
 * account nonce that no block has used, so they are still open.
 */
const FROM_VERSION_2 = `
  INSERT INTO submissions (id, network, account, account_nonce, variants, state, signed_ms)
  SELECT signed_in, network,
    CASE WHEN account GLOB '0x*' THEN lower(account) ELSE account END, account_nonce,
    json_array(json_object('transaction', signed_in, 'raw', raw, 'account', account,
      'accountNonce', account_nonce)),
    CASE WHEN state IN ('SIGNED', 'FAILED') THEN 'OPEN'
         WHEN updated_ms < newest_ms - ${SETTLED_LONG_AGO_MS} THEN 'CLOSED'
         ELSE 'INCLUDED' END,
    updated_ms
  FROM (SELECT *, coalesce(transactions ->> '$[#-1]', payment_key) AS signed_in,
          max(updated_ms) OVER () AS newest_ms FROM older_payments)
  WHERE raw IS NOT NULL;
  INSERT INTO submission_transactions (transaction_id, submission)
  SELECT lower(id), id FROM submissions;

  INSERT INTO payments (payment_key, state, version, binding, target, idempotency_key, request,
    network, asset, amount_atomic, pay_to, payer, identity, offered, submission,
    settled_transaction, attempts, served_target, replays, failure_code, failure_detail,
    claimed_by, created_ms, updated_ms)
  SELECT payment_key, state, 1, binding, target, idempotency_key, request, network,
    coalesce(request ->> '$.paymentRequirements.asset', ''), amount_atomic,
    coalesce(request ->> '$.paymentRequirements.payTo', ''), payer,
    lower((request ->> '$.paymentPayload.payload.authorization.nonce') || '/' ||
      (request ->> '$.paymentPayload.payload.authorization.from') || '/' || network),
    0, CASE WHEN raw IS NULL THEN NULL ELSE coalesce(transactions ->> '$[#-1]', payment_key) END,
    settled_transaction, attempts, served_target, 0, failure_code, failure_detail,
    claimed_by, created_ms, updated_ms
  FROM older_payments ORDER BY rowid;
  INSERT INTO payment_events (payment_key, version, at_ms, state, note, life)
  SELECT payment_key, 1, updated_ms, state, 'its history before this is not known', claimed_by
  FROM payments;
  DROP TABLE older_payments;

  INSERT INTO accounts (network, address, next_nonce)
  SELECT network, address, next_nonce FROM older_accounts;
  DROP TABLE older_accounts;`;

/** `PRAGMA user_version` counts how many of these a file has had. Append only. */
const MIGRATIONS: readonly string[] = [
  ...OLDER_SCHEMAS,
  `
  ALTER TABLE payments RENAME TO older_payments;
  DROP INDEX payments_by_state;
  DROP INDEX account_nonces;
  ALTER TABLE accounts RENAME TO older_accounts;
  ${SUBMISSIONS} ${PAYMENTS} ${HISTORY_AND_ANSWERS} ${ACCOUNTS} ${FROM_VERSION_2} ${INDEXES}
  `,
  // A history is written with its row, and read with it.
  `
  ALTER TABLE payments ADD COLUMN history TEXT NOT NULL DEFAULT '';
  UPDATE payments SET history = coalesce((
    SELECT group_concat(json_array(at_ms, state, note, life) || char(10), '' ORDER BY version)
    FROM payment_events WHERE payment_events.payment_key = payments.payment_key), '');
  DROP TABLE payment_events;
  `,
  `
  CREATE TABLE sold_offers (
    gateway    TEXT    NOT NULL,
    resource   TEXT    NOT NULL,
    method     TEXT    NOT NULL,
    network    TEXT    NOT NULL,
    asset      TEXT    NOT NULL,
    terms      TEXT    NOT NULL CHECK (json_valid(terms)),
    hash       TEXT    NOT NULL,
    changed_at INTEGER NOT NULL,
    sold_ms    INTEGER NOT NULL,
    PRIMARY KEY (gateway, resource, method, network, asset)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX sold_offers_by_time ON sold_offers (sold_ms);
  `,
  // Whose request a payment waits for. Of what an older program had in work no request is left.
  `
  ALTER TABLE payments ADD COLUMN holder TEXT;
  ALTER TABLE payments ADD COLUMN is_left INTEGER NOT NULL DEFAULT 0 CHECK (is_left IN (0, 1));
  ALTER TABLE payments ADD COLUMN claimant TEXT;
  ALTER TABLE payments ADD COLUMN renewals INTEGER NOT NULL DEFAULT 0
    CHECK (renewals BETWEEN 0 AND ${MAX_RENEWALS});
  ALTER TABLE payments ADD COLUMN renewed_ms INTEGER;
  UPDATE payments SET is_left = 1
    WHERE state IN ('CLAIMED', 'SIGNED', 'SETTLED') AND binding IS NOT NULL;
  CREATE INDEX left_payments ON payments (lower(payer), binding) WHERE is_left = 1;
  `,
  // What is on its way out of a payer's purse, and apart from it what others settle.
  `
  CREATE INDEX undecided_spends ON payments (lower(payer))
    WHERE state = 'SIGNED' AND submission IS NOT NULL;
  CREATE INDEX handed_over_payments ON payments (updated_ms)
    WHERE state = 'SIGNED' AND submission IS NULL;
  DROP INDEX signed_payments;
  `,
  // Payments in transactions that are not ours, and what operators ask for beside the process that writes.
  `
  ALTER TABLE payments ADD COLUMN held_transaction TEXT
    CHECK (held_transaction IS NULL OR state IN ('SIGNED', 'FAILED'));
  CREATE INDEX payments_held ON payments (created_ms)
    WHERE held_transaction IS NOT NULL AND state = 'SIGNED';
  CREATE INDEX payments_by_held_transaction ON payments (lower(held_transaction))
    WHERE held_transaction IS NOT NULL;
  CREATE TABLE resolutions (
    id          TEXT    NOT NULL PRIMARY KEY,
    payment_key TEXT    NOT NULL,
    resolution  TEXT    NOT NULL CHECK (json_valid(resolution)),
    asked_ms    INTEGER NOT NULL,
    answer      TEXT    CHECK (json_valid(answer))
  ) STRICT;
  `,
  // Names of transactions go with their submission: a foreign key would look through all of them for it.
  `
  CREATE TABLE tombstones (
    payment_key    BLOB NOT NULL PRIMARY KEY CHECK (length(payment_key) = 16),
    transaction_id BLOB NOT NULL,
    caller         BLOB
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE used_elsewhere (
    payment_key   TEXT    NOT NULL PRIMARY KEY,
    network       TEXT    NOT NULL,
    asset         TEXT    NOT NULL,
    amount_atomic TEXT    NOT NULL,
    payer         TEXT    NOT NULL,
    pay_to        TEXT    NOT NULL,
    binding       TEXT    NOT NULL,
    seen_ms       INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX used_elsewhere_by_payer ON used_elsewhere (payer);
  CREATE INDEX used_elsewhere_by_time ON used_elsewhere (seen_ms);

  ALTER TABLE submission_transactions RENAME TO older_submission_transactions;
  CREATE TABLE submission_transactions (
    transaction_id TEXT NOT NULL PRIMARY KEY CHECK (transaction_id = lower(transaction_id)),
    submission     TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  INSERT INTO submission_transactions (transaction_id, submission)
  SELECT transaction_id, submission FROM older_submission_transactions ORDER BY transaction_id;
  DROP TABLE older_submission_transactions;

  CREATE INDEX payments_by_payer ON payments (lower(payer), created_ms);
  CREATE INDEX payments_by_network ON payments (network, created_ms);
  CREATE INDEX delivered_payments ON payments (created_ms) WHERE state = 'DELIVERED';
  CREATE INDEX failed_payments ON payments (created_ms) WHERE state = 'FAILED';
  CREATE INDEX settled_for_others ON payments (created_ms)
    WHERE state = 'SETTLED' AND binding IS NULL;
  CREATE INDEX closed_submissions ON submissions (signed_ms) WHERE state = 'CLOSED';
  `,
  // Where the chain stood at a hand-over, and when a payment is looked for that was refused after one.
  `
  ALTER TABLE payments ADD COLUMN handed_over_block INTEGER;
  ALTER TABLE payments ADD COLUMN look_again_ms INTEGER
    CHECK (look_again_ms IS NULL OR (state = 'FAILED' AND facilitator IS NOT NULL));
  CREATE INDEX doubted_payments ON payments (look_again_ms) WHERE look_again_ms IS NOT NULL;
  `,
  // The submission that has shown a payment to everybody, and did not move it.
  `
  ALTER TABLE payments ADD COLUMN left_by TEXT;
  `,
  // What is swept of them is found in the order in which they were stored.
  `
  DROP INDEX closed_submissions;
  `,
  // What a client calls its purchase.
  `
  ALTER TABLE payments ADD COLUMN identifier TEXT;
  CREATE UNIQUE INDEX payments_by_identifier ON payments (identifier) WHERE identifier IS NOT NULL;
  `,
  // Where a redirect has led a payment, and what was sold and may be fetched again.
  `
  ALTER TABLE payments ADD COLUMN led_to TEXT;
  ALTER TABLE payments ADD COLUMN repeats INTEGER NOT NULL DEFAULT 0 CHECK (repeats >= 0);
  ALTER TABLE payments ADD COLUMN repeat_until_ms INTEGER
    CHECK (repeat_until_ms IS NULL OR (state = 'DELIVERED' AND served_target IS NOT NULL));
  `,
  // Which route sold it, and what its transaction cost: of older ones nobody knows.
  `
  ALTER TABLE payments ADD COLUMN route TEXT;
  ALTER TABLE submissions ADD COLUMN cost TEXT CHECK (json_valid(cost));

  CREATE TABLE closed_entries (
    day         TEXT    NOT NULL,
    kind        TEXT    NOT NULL CHECK (kind IN (${listed(ENTRY_KINDS)})),
    route       TEXT    NOT NULL,
    network     TEXT    NOT NULL,
    asset       TEXT    NOT NULL,
    account     TEXT    NOT NULL,
    count       INTEGER NOT NULL,
    amount      TEXT    NOT NULL CHECK (amount <> '' AND amount NOT GLOB '*[^0-9]*'),
    attodollars TEXT,
    PRIMARY KEY (day, kind, route, network, asset, account)
  ) STRICT, WITHOUT ROWID;
  `,
  // By what challenges to sign in are made, and those that were used.
  `
  CREATE TABLE secrets (
    name   TEXT NOT NULL PRIMARY KEY,
    secret BLOB NOT NULL CHECK (length(secret) = ${SIGN_IN_KEY_BYTES})
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE used_sign_ins (
    nonce    TEXT    NOT NULL PRIMARY KEY,
    payer    TEXT    NOT NULL,
    until_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX used_sign_ins_by_payer ON used_sign_ins (payer);
  CREATE INDEX used_sign_ins_by_time ON used_sign_ins (until_ms);
  `,
  // What was sold and burnt in an hour, of which a sale that came to nothing is given back, and what is paused.
  `
  CREATE TABLE budgets (
    hour    INTEGER NOT NULL,
    name    TEXT    NOT NULL,
    counted REAL    NOT NULL,
    PRIMARY KEY (hour, name)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE reservations (
    payment_key  TEXT    NOT NULL PRIMARY KEY,
    hour         INTEGER NOT NULL,
    payer_budget TEXT    NOT NULL,
    counted      REAL    NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX reservations_by_hour ON reservations (hour);
  CREATE TRIGGER reservation_given_back AFTER DELETE ON reservations BEGIN
    UPDATE budgets SET counted = counted - OLD.counted
    WHERE hour = OLD.hour AND name IN ('${SALES}', OLD.payer_budget);
  END;
  CREATE TRIGGER reservation_dropped AFTER DELETE ON payments BEGIN
    DELETE FROM reservations WHERE payment_key = OLD.payment_key;
  END;
  CREATE TRIGGER reservation_failed AFTER UPDATE OF state ON payments WHEN NEW.state = 'FAILED' BEGIN
    DELETE FROM reservations WHERE payment_key = NEW.payment_key;
  END;

  CREATE TABLE pauses (
    scope    TEXT    NOT NULL PRIMARY KEY,
    until_ms INTEGER,
    reason   TEXT    NOT NULL,
    paused_by TEXT   NOT NULL,
    since_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  // What is paid back, and what of it counts on which day.
  `
  ALTER TABLE payments ADD COLUMN refund_state TEXT
    CHECK (refund_state IS NULL OR (refund_state IN (${listed(REFUND_STATES)})
      AND state IN ('FAILED', 'DELIVERED') AND binding IS NOT NULL));
  ALTER TABLE payments ADD COLUMN refund TEXT CHECK (json_valid(refund));
  ALTER TABLE payments ADD COLUMN refund_counted_ms INTEGER
    CHECK (refund_counted_ms IS NULL OR refund_state IN ('SENDING', 'REFUNDED'));
  CREATE INDEX open_refunds ON payments (refund_state, updated_ms) WHERE refund_state IS NOT NULL;
  CREATE INDEX counted_refunds ON payments (refund_counted_ms) WHERE refund_counted_ms IS NOT NULL;

  ALTER TABLE closed_entries RENAME TO older_closed_entries;
  CREATE TABLE closed_entries (
    day         TEXT    NOT NULL,
    kind        TEXT    NOT NULL CHECK (kind IN (${listed(ENTRY_KINDS)})),
    route       TEXT    NOT NULL,
    network     TEXT    NOT NULL,
    asset       TEXT    NOT NULL,
    account     TEXT    NOT NULL,
    count       INTEGER NOT NULL,
    amount      TEXT    NOT NULL CHECK (amount <> '' AND amount NOT GLOB '*[^0-9]*'),
    attodollars TEXT,
    PRIMARY KEY (day, kind, route, network, asset, account)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO closed_entries SELECT * FROM older_closed_entries;
  DROP TABLE older_closed_entries;
  `,
  // What is kept of certificates that an authority gives, and who may ask it.
  `
  CREATE TABLE certificates (
    name     TEXT NOT NULL PRIMARY KEY,
    text     TEXT NOT NULL,
    revision TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE certificate_lease (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    holder   TEXT    NOT NULL,
    until_ms INTEGER NOT NULL
  ) STRICT;
  `,
  OUTBOX_SCHEMA,
  // What was sold counts in its hour although it was paid back since.
  `
  DROP TRIGGER reservation_failed;
  CREATE TRIGGER reservation_failed AFTER UPDATE OF state ON payments
    WHEN NEW.state = 'FAILED' AND NEW.held_transaction IS NULL BEGIN
    DELETE FROM reservations WHERE payment_key = NEW.payment_key;
  END;
  `,
  // Transfers that pay back, by whom they were sent to: whoever is forgotten takes all of them along.
  `
  CREATE INDEX transfers_back ON payments (lower(pay_to), created_ms)
    WHERE binding IS NULL AND route IS NOT NULL;
  `,
  // Of answers that were kept before their payment was settled: which body they answer.
  `ALTER TABLE responses ADD COLUMN body_hash TEXT;`,
  POTS_SCHEMA,
  REFUNDED_CREDITS_SCHEMA,
  // What of a payment was used, where that is what it is charged by.
  `ALTER TABLE payments ADD COLUMN metered TEXT CHECK (json_valid(metered));`,
];

/** What this program reads and writes. */
export const SCHEMA_VERSION = MIGRATIONS.length;

/** How many migrations an opened database has had. */
export function schemaVersion(database: SqliteDatabase): number {
  return Number(database.get("PRAGMA user_version", {})?.user_version);
}

/** Brings an opened database to the newest schema. Throws when it already has a newer one. */
export function migrate(database: SqliteDatabase): void {
  database.transaction(() => {
    const version = schemaVersion(database);
    if (version > SCHEMA_VERSION) throw newer("the ledger", version);
    if (version === SCHEMA_VERSION) return;
    for (const sql of MIGRATIONS.slice(version)) database.exec(sql);
    database.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`);
  });
}

/** Throws {@link LedgerUnavailable} for a ledger that another version of the program has written. */
export function requireNewest(database: SqliteDatabase, path: string): void {
  const version = schemaVersion(database);
  if (version > SCHEMA_VERSION) throw newer(`the ledger ${path}`, version);
  if (version === SCHEMA_VERSION) return;
  throw new LedgerUnavailable(
    `the ledger ${path} has schema version ${version}, older than ${SCHEMA_VERSION}, which this ` +
      "program reads: it is brought up to date when the gateway opens it",
  );
}

function newer(ledger: string, version: number): LedgerUnavailable {
  return new LedgerUnavailable(
    `${ledger} has schema version ${version}, newer than ${SCHEMA_VERSION}, the newest ` +
      "that this program knows: run the version that wrote it, or a newer one",
  );
}

/**
 * Opens a ledger that another process may have open, for what nobody keeps in memory. Throws {@link LedgerUnavailable}
 * where there is no such file, or one of another schema.
 */
export function openBeside(path: string): SqliteDatabase {
  if (!existsSync(path)) throw new LedgerUnavailable(`there is no ledger at ${path}`);
  const database = new SqliteDatabase(path);
  try {
    requireNewest(database, path);
    // The file is tidied up by its own process.
    database.exec("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0");
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}
