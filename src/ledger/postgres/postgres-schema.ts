/**
 * The tables of the PostgreSQL ledger and how a database gets them. All of them stand in one schema,
 * `coinslot`, and every statement names it: the search path of a role changes nothing. One database holds
 * one ledger. The CHECKs repeat what the transitions promise, so that a wrong statement fails instead of
 * storing money in a state that cannot be.
 */
import type { Time } from "../../time/time.ts";
import { LedgerUnavailable, MAX_DELIVERY_ATTEMPTS, MAX_RENEWALS, MAX_REPLAYS } from "../ledger.ts";
import { ENTRY_KINDS } from "../accounts.ts";
import { SALES } from "../budgets.ts";
import { SIGN_IN_KEY_BYTES } from "../sign-ins.ts";
import { MESSAGE_STATES } from "../outbox.ts";
import { REFUND_STATES } from "../refund-steps.ts";
import { PAYMENT_STATES } from "../transition.ts";
import type { PostgresDatabase, Session, Statement } from "./postgres-database.ts";
import { POTS_SCHEMA, REFUNDED_CREDITS_SCHEMA } from "./postgres-pots-schema.ts";
import { SUBMISSION_STATES } from "../submission-row.ts";

const listed = (states: readonly string[]): string =>
  states.map((state) => `'${state}'`).join(", ");

const IN_WORK_STATES = ["CLAIMED", "SIGNED", "SETTLED", "DELIVERING"];

/** `coinslot.migrations` lists how many of these a database has had. Append only. */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE coinslot.submissions (
    id            text   NOT NULL PRIMARY KEY,
    network       text   NOT NULL,
    account       text   NOT NULL,
    account_nonce bigint NOT NULL CHECK (account_nonce >= 0),
    variants      text   NOT NULL CHECK (json_array_length(variants::json) > 0),
    state         text   NOT NULL CHECK (state IN (${listed(SUBMISSION_STATES)})),
    signed_ms     bigint NOT NULL,
    UNIQUE (network, account, account_nonce)
  );
  CREATE INDEX unfinished_submissions ON coinslot.submissions (network, account, account_nonce)
    WHERE state <> 'CLOSED';

  CREATE TABLE coinslot.submission_transactions (
    transaction_id text NOT NULL PRIMARY KEY CHECK (transaction_id = lower(transaction_id)),
    submission     text NOT NULL REFERENCES coinslot.submissions (id)
  );

  CREATE TABLE coinslot.payments (
    payment_key         text    NOT NULL PRIMARY KEY,
    id                  bigint  NOT NULL GENERATED ALWAYS AS IDENTITY UNIQUE,
    state               text    NOT NULL CHECK (state IN (${listed(PAYMENT_STATES)})),
    version             bigint  NOT NULL CHECK (version > 0),
    binding             text,
    target              text,
    idempotency_key     text,
    request             text    NOT NULL,
    network             text    NOT NULL,
    asset               text    NOT NULL,
    amount_atomic       text    NOT NULL CHECK (amount_atomic ~ '^[0-9]+$'),
    pay_to              text    NOT NULL,
    payer               text    NOT NULL,
    identity            text    CHECK (identity = lower(identity)),
    facilitator         text,
    offered             boolean NOT NULL,
    submission          text    REFERENCES coinslot.submissions (id),
    settled_transaction text,
    attempts            integer NOT NULL
                        CHECK (attempts BETWEEN 0 AND ${MAX_DELIVERY_ATTEMPTS}),
    served_target       text,
    body_hash           text,
    replays             integer NOT NULL CHECK (replays BETWEEN 0 AND ${MAX_REPLAYS}),
    replay_until_ms     bigint,
    failure_code        text,
    failure_detail      text,
    claimed_by          text    NOT NULL,
    created_ms          bigint  NOT NULL,
    updated_ms          bigint  NOT NULL,
    CHECK (state <> 'CLAIMED' OR submission IS NULL),
    CHECK (state = 'CLAIMED' OR NOT offered),
    CHECK (state <> 'SIGNED' OR submission IS NOT NULL OR facilitator IS NOT NULL),
    CHECK ((state IN ('SETTLED', 'DELIVERING', 'DELIVERED')) = (settled_transaction IS NOT NULL)),
    CHECK ((state = 'FAILED') = (failure_code IS NOT NULL)),
    CHECK (state <> 'DELIVERING' OR attempts > 0),
    CHECK ((body_hash IS NULL) = (replay_until_ms IS NULL)),
    CHECK (replay_until_ms IS NULL OR (state = 'DELIVERED' AND served_target IS NOT NULL)),
    CHECK (replays = 0 OR replay_until_ms IS NOT NULL)
  );
  CREATE INDEX payments_by_identity ON coinslot.payments (identity COLLATE "C");
  CREATE INDEX payments_by_settlement ON coinslot.payments (lower(settled_transaction));
  CREATE INDEX payments_by_submission ON coinslot.payments (submission, id);
  CREATE INDEX payments_by_time ON coinslot.payments (created_ms, id);
  CREATE INDEX payments_by_payer ON coinslot.payments (lower(payer), created_ms, id);
  CREATE INDEX payments_by_state ON coinslot.payments (state, updated_ms, id);
  CREATE INDEX held_payments ON coinslot.payments (claimed_by) WHERE state IN ('CLAIMED', 'DELIVERING');
  CREATE INDEX offered_payments ON coinslot.payments (network, updated_ms, id) WHERE offered;

  CREATE TABLE coinslot.payment_events (
    payment_key text   NOT NULL REFERENCES coinslot.payments (payment_key) ON DELETE CASCADE,
    version     bigint NOT NULL,
    at_ms       bigint NOT NULL,
    state       text   NOT NULL CHECK (state IN (${listed(PAYMENT_STATES)})),
    note        text   NOT NULL,
    life        text   NOT NULL,
    PRIMARY KEY (payment_key, version)
  );

  CREATE TABLE coinslot.responses (
    payment_key text    NOT NULL PRIMARY KEY
                REFERENCES coinslot.payments (payment_key) ON DELETE CASCADE,
    status      integer NOT NULL,
    headers     text    NOT NULL,
    body        bytea   NOT NULL,
    until_ms    bigint  NOT NULL
  );
  CREATE INDEX responses_by_time ON coinslot.responses (until_ms);

  CREATE TABLE coinslot.accounts (
    network    text   NOT NULL,
    address    text   NOT NULL,
    next_nonce bigint CHECK (next_nonce >= 0),
    holder     text,
    epoch      bigint NOT NULL CHECK (epoch > 0),
    PRIMARY KEY (network, address)
  );

  CREATE TABLE coinslot.lives (
    life         text        NOT NULL PRIMARY KEY,
    beat         timestamptz NOT NULL,
    steady_since timestamptz NOT NULL
  );

  CREATE TABLE coinslot.route_terms (
    route      text   NOT NULL PRIMARY KEY,
    hash       text   NOT NULL,
    changed_at bigint NOT NULL
  );
  `,
  // A URL may be longer than what an index can hold.
  `
  CREATE TABLE coinslot.sold_offers (
    gateway    text   NOT NULL,
    resource   text   NOT NULL,
    method     text   NOT NULL,
    network    text   NOT NULL,
    asset      text   NOT NULL,
    terms      text   NOT NULL,
    hash       text   NOT NULL,
    changed_at bigint NOT NULL,
    sold_ms    bigint NOT NULL
  );
  CREATE UNIQUE INDEX sold_offers_by_way
    ON coinslot.sold_offers (gateway, md5(resource), method, network, asset);
  CREATE INDEX sold_offers_by_time ON coinslot.sold_offers (sold_ms);
  `,
  // Whose request a payment waits for. Of what an older program had in work no request is left. A binding may be
  // longer than what an index can hold.
  `
  ALTER TABLE coinslot.payments
    ADD COLUMN holder     text,
    ADD COLUMN is_left    boolean NOT NULL DEFAULT false,
    ADD COLUMN claimant   text,
    ADD COLUMN renewals   integer NOT NULL DEFAULT 0 CHECK (renewals BETWEEN 0 AND ${MAX_RENEWALS}),
    ADD COLUMN renewed_ms bigint;
  UPDATE coinslot.payments SET is_left = true
    WHERE state IN ('CLAIMED', 'SIGNED', 'SETTLED') AND binding IS NOT NULL;
  CREATE INDEX owed_payments ON coinslot.payments (lower(payer), md5(binding))
    WHERE binding IS NOT NULL AND (is_left OR state IN (${listed(IN_WORK_STATES)}));
  CREATE INDEX awaited_payments ON coinslot.payments (holder)
    WHERE state IN ('CLAIMED', 'SIGNED', 'SETTLED') AND NOT is_left AND binding IS NOT NULL;
  `,
  // What is on its way out of a payer's purse.
  `
  CREATE INDEX undecided_spends ON coinslot.payments (lower(payer))
    WHERE state = 'SIGNED' AND submission IS NOT NULL;
  `,
  // Payments in transactions that are not ours.
  `
  ALTER TABLE coinslot.payments ADD COLUMN held_transaction text
    CHECK (held_transaction IS NULL OR state IN ('SIGNED', 'FAILED'));
  CREATE INDEX payments_held ON coinslot.payments (created_ms, id)
    WHERE held_transaction IS NOT NULL AND state = 'SIGNED';
  CREATE INDEX payments_by_held_transaction ON coinslot.payments (lower(held_transaction))
    WHERE held_transaction IS NOT NULL;
  `,
  // Names of transactions go with their submission: a foreign key would look through all of them for it. The
  // trigger sees what was buried while an insertion waited for the deletion of the row.
  `
  CREATE TABLE coinslot.tombstones (
    payment_key    bytea NOT NULL PRIMARY KEY CHECK (length(payment_key) = 16),
    transaction_id bytea NOT NULL,
    caller         bytea
  );
  CREATE FUNCTION coinslot.refuse_buried() RETURNS trigger LANGUAGE plpgsql AS $refuse$
  BEGIN
    IF EXISTS (SELECT FROM coinslot.tombstones AS t WHERE t.payment_key =
        substring(sha256(convert_to(NEW.payment_key, 'UTF8')) FROM 1 FOR 16)) THEN
      RAISE EXCEPTION 'that payment was used before' USING ERRCODE = 'unique_violation';
    END IF;
    RETURN NULL;
  END $refuse$;
  CREATE TRIGGER refuse_buried AFTER INSERT ON coinslot.payments
    FOR EACH ROW EXECUTE FUNCTION coinslot.refuse_buried();

  CREATE TABLE coinslot.used_elsewhere (
    payment_key   text   NOT NULL PRIMARY KEY,
    network       text   NOT NULL,
    asset         text   NOT NULL,
    amount_atomic text   NOT NULL,
    payer         text   NOT NULL,
    pay_to        text   NOT NULL,
    binding       text   NOT NULL,
    seen_ms       bigint NOT NULL
  );
  CREATE INDEX used_elsewhere_by_payer ON coinslot.used_elsewhere (payer);
  CREATE INDEX used_elsewhere_by_time ON coinslot.used_elsewhere (seen_ms);

  ALTER TABLE coinslot.submission_transactions
    DROP CONSTRAINT submission_transactions_submission_fkey;
  DROP INDEX coinslot.payments_by_state;
  CREATE INDEX payments_by_state ON coinslot.payments (state, created_ms, id);
  CREATE INDEX payments_by_network ON coinslot.payments (network, created_ms, id);
  CREATE INDEX undelivered_payments ON coinslot.payments (created_ms, id)
    WHERE state = 'SETTLED' AND binding IS NOT NULL;
  CREATE INDEX closed_submissions ON coinslot.submissions (signed_ms, id) WHERE state = 'CLOSED';
  `,
  // Where the chain stood at a hand-over, and when a payment is looked for that was refused after one.
  `
  ALTER TABLE coinslot.payments ADD COLUMN handed_over_block bigint;
  ALTER TABLE coinslot.payments ADD COLUMN look_again_ms bigint
    CHECK (look_again_ms IS NULL OR (state = 'FAILED' AND facilitator IS NOT NULL));
  CREATE INDEX doubted_payments ON coinslot.payments (look_again_ms, id)
    WHERE look_again_ms IS NOT NULL;
  `,
  // The submission that has shown a payment to everybody, and did not move it.
  `
  ALTER TABLE coinslot.payments ADD COLUMN left_by text;
  `,
  // What a client calls its purchase.
  `
  ALTER TABLE coinslot.payments ADD COLUMN identifier text;
  CREATE UNIQUE INDEX payments_by_identifier ON coinslot.payments (identifier)
    WHERE identifier IS NOT NULL;
  `,
  // Where a redirect has led a payment, and what was sold and may be fetched again.
  `
  ALTER TABLE coinslot.payments
    ADD COLUMN led_to          text,
    ADD COLUMN repeats         integer NOT NULL DEFAULT 0 CHECK (repeats >= 0),
    ADD COLUMN repeat_until_ms bigint
      CHECK (repeat_until_ms IS NULL OR (state = 'DELIVERED' AND served_target IS NOT NULL));
  `,
  // Which route sold it, and what its transaction cost: of older ones nobody knows.
  `
  ALTER TABLE coinslot.payments ADD COLUMN route text;
  ALTER TABLE coinslot.submissions ADD COLUMN cost text;

  CREATE TABLE coinslot.closed_entries (
    day         text    NOT NULL,
    kind        text    NOT NULL CHECK (kind IN (${listed(ENTRY_KINDS)})),
    route       text    NOT NULL,
    network     text    NOT NULL,
    asset       text    NOT NULL,
    account     text    NOT NULL,
    count       bigint  NOT NULL,
    amount      numeric NOT NULL CHECK (amount >= 0),
    attodollars numeric,
    PRIMARY KEY (day, kind, route, network, asset, account)
  );
  `,
  // By what challenges to sign in are made, and those that were used.
  `
  CREATE TABLE coinslot.secrets (
    name   text  NOT NULL PRIMARY KEY,
    secret bytea NOT NULL CHECK (length(secret) = ${SIGN_IN_KEY_BYTES})
  );
  CREATE TABLE coinslot.used_sign_ins (
    nonce    text   NOT NULL PRIMARY KEY,
    payer    text   NOT NULL,
    until_ms bigint NOT NULL
  );
  CREATE INDEX used_sign_ins_by_payer ON coinslot.used_sign_ins (payer);
  CREATE INDEX used_sign_ins_by_time ON coinslot.used_sign_ins (until_ms);
  `,
  // What was sold and burnt in an hour, of which a sale that came to nothing is given back, and what is paused.
  `
  CREATE TABLE coinslot.budgets (
    hour    bigint           NOT NULL,
    name    text             NOT NULL,
    counted double precision NOT NULL,
    PRIMARY KEY (hour, name)
  );
  CREATE TABLE coinslot.reservations (
    payment_key  text             NOT NULL PRIMARY KEY,
    hour         bigint           NOT NULL,
    payer_budget text             NOT NULL,
    counted      double precision NOT NULL
  );
  CREATE INDEX reservations_by_hour ON coinslot.reservations (hour);
  CREATE FUNCTION coinslot.give_reservation_back() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE gone coinslot.reservations;
    BEGIN
      DELETE FROM coinslot.reservations WHERE payment_key = OLD.payment_key RETURNING * INTO gone;
      IF FOUND THEN
        UPDATE coinslot.budgets SET counted = counted - gone.counted
          WHERE hour = gone.hour AND name = '${SALES}';
        UPDATE coinslot.budgets SET counted = counted - gone.counted
          WHERE hour = gone.hour AND name = gone.payer_budget;
      END IF;
      RETURN NULL;
    END
  $$;
  CREATE TRIGGER reservation_dropped AFTER DELETE ON coinslot.payments
    FOR EACH ROW EXECUTE FUNCTION coinslot.give_reservation_back();
  CREATE TRIGGER reservation_failed AFTER UPDATE OF state ON coinslot.payments
    FOR EACH ROW WHEN (NEW.state = 'FAILED') EXECUTE FUNCTION coinslot.give_reservation_back();

  CREATE TABLE coinslot.pauses (
    scope    text   NOT NULL PRIMARY KEY,
    until_ms bigint,
    reason   text   NOT NULL,
    paused_by text   NOT NULL,
    since_ms bigint NOT NULL
  );
  `,
  // What is paid back, and what of it counts on which day.
  `
  ALTER TABLE coinslot.payments
    ADD COLUMN refund_state text CHECK (refund_state IS NULL
      OR refund_state IN (${listed(REFUND_STATES)}) AND state IN ('FAILED', 'DELIVERED')
        AND binding IS NOT NULL),
    ADD COLUMN refund text,
    ADD COLUMN refund_counted_ms bigint
      CHECK (refund_counted_ms IS NULL OR refund_state IN ('SENDING', 'REFUNDED'));
  CREATE INDEX open_refunds ON coinslot.payments (refund_state, updated_ms)
    WHERE refund_state IS NOT NULL;
  CREATE INDEX counted_refunds ON coinslot.payments (refund_counted_ms)
    WHERE refund_counted_ms IS NOT NULL;
  ALTER TABLE coinslot.closed_entries DROP CONSTRAINT closed_entries_kind_check,
    ADD CHECK (kind IN (${listed(ENTRY_KINDS)}));
  `,
  // What is kept of certificates that an authority gives, and who may ask it.
  `
  CREATE TABLE coinslot.certificates (
    name     text NOT NULL PRIMARY KEY,
    text     text NOT NULL,
    revision text NOT NULL
  );
  CREATE TABLE coinslot.certificate_lease (
    id       integer NOT NULL PRIMARY KEY CHECK (id = 1),
    holder   text    NOT NULL,
    until_ms bigint  NOT NULL
  );
  `,
  // What others are to be told (webhooks), and what is wrong that they were told of.
  `
  CREATE TABLE coinslot.outbox (
    place     bigint  NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id        text    NOT NULL,
    recipient text    NOT NULL,
    type      text    NOT NULL,
    subject   text    NOT NULL,
    data      text    NOT NULL,
    at_ms     bigint  NOT NULL,
    state     text    NOT NULL CHECK (state IN (${listed(MESSAGE_STATES)})),
    attempts  integer NOT NULL CHECK (attempts >= 0),
    since_ms  bigint  NOT NULL,
    due_ms    bigint  NOT NULL,
    taker     text,
    error     text
  );
  CREATE INDEX messages_due ON coinslot.outbox (recipient, due_ms, place) WHERE state = 'WAITING';
  CREATE INDEX messages_waiting ON coinslot.outbox (recipient, subject, place) WHERE state = 'WAITING';
  CREATE INDEX messages_open ON coinslot.outbox (recipient, state, at_ms) WHERE state <> 'DELIVERED';
  CREATE INDEX messages_by_time ON coinslot.outbox (at_ms);
  CREATE TABLE coinslot.troubles (
    subject  text   NOT NULL PRIMARY KEY,
    since_ms bigint NOT NULL
  );
  `,
  // Transfers that pay back, by whom they were sent to: whoever is forgotten takes all of them along.
  `
  CREATE INDEX transfers_back ON coinslot.payments (lower(pay_to), created_ms, id)
    WHERE binding IS NULL AND route IS NOT NULL;
  `,
  // What was sold counts in its hour although it was paid back since.
  `
  DROP TRIGGER reservation_failed ON coinslot.payments;
  CREATE TRIGGER reservation_failed AFTER UPDATE OF state ON coinslot.payments
    FOR EACH ROW WHEN (NEW.state = 'FAILED' AND NEW.held_transaction IS NULL)
    EXECUTE FUNCTION coinslot.give_reservation_back();
  `,
  // Of answers that were kept before their payment was settled: which body they answer.
  `ALTER TABLE coinslot.responses ADD COLUMN body_hash text;`,
  POTS_SCHEMA,
  REFUNDED_CREDITS_SCHEMA,
  // What of a payment was used, where that is what it is charged by.
  `ALTER TABLE coinslot.payments ADD COLUMN metered text;`,
];

/** Names the lock under which one replica changes tables while the others wait. */
const MIGRATION_LOCK = "coinslot migration";

/** Longest that one migration may take, milliseconds: an index of millions of payments is not made in seconds. */
export const MIGRATION_TIMEOUT_MS = 600_000;

/** How long a replica waits for another's migration, and how often it asks, milliseconds. */
const MIGRATION_WAIT_MS = 60_000;
const MIGRATION_POLL_MS = 50;

const HAS_MIGRATIONS: Statement = {
  name: "has_migrations",
  // Of the catalogue as it is now: `to_regclass` may remember what it was before we had the lock.
  text: `SELECT EXISTS (SELECT FROM pg_catalog.pg_tables
    WHERE schemaname = 'coinslot' AND tablename = 'migrations') AS "there"`,
};
const VERSION: Statement = {
  name: "version",
  text: `SELECT coalesce(max(version), 0) AS "version" FROM coinslot.migrations`,
};
const TRY_LOCK: Statement = {
  name: "try_migration_lock",
  text: `SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS "locked"`,
};
const HAS_SCHEMA: Statement = {
  name: "has_schema",
  text: `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'coinslot') AS "there"`,
};
const RECORD: Statement = {
  name: "record_migration",
  text: `INSERT INTO coinslot.migrations (version) VALUES ($1)`,
};

/**
 * Brings a database to the newest schema, one replica at a time. Throws {@link LedgerUnavailable} when it
 * already has a newer one. Where the role may not create schemas, somebody else makes an empty `coinslot`
 * that belongs to it.
 */
export async function migrate(database: PostgresDatabase, time: Time): Promise<void> {
  for (let waited = 0; waited <= MIGRATION_WAIT_MS; waited += MIGRATION_POLL_MS) {
    if (isNewest(await versionOf(database))) return;
    if (await database.transaction(migrateAlone)) return;
    await time.sleep(MIGRATION_POLL_MS);
  }
  throw new LedgerUnavailable("another replica has been changing the ledger's tables for too long");
}

/** False when another replica is at it. */
async function migrateAlone(session: Session): Promise<boolean> {
  const [lock] = await session.query(TRY_LOCK, [MIGRATION_LOCK]);
  if (lock?.locked !== true) return false;
  const version = await versionOf(session);
  if (isNewest(version)) return true;
  await session.run(`SET LOCAL statement_timeout = ${MIGRATION_TIMEOUT_MS}`);
  if (version === 0) {
    // Asked first: where it exists, its owner needs no right to create schemas.
    const [schema] = await session.query(HAS_SCHEMA, []);
    if (schema?.there !== true) await session.run("CREATE SCHEMA coinslot");
    await session.run(
      `CREATE TABLE coinslot.migrations (
         version    integer     NOT NULL PRIMARY KEY,
         applied_at timestamptz NOT NULL DEFAULT now()
       )`,
    );
  } else {
    // The strongest first: behind a weaker one, of an index, it would wait for those who have locked a row and wait for us.
    await session.run("LOCK TABLE coinslot.payments IN ACCESS EXCLUSIVE MODE");
  }
  for (const [index, sql] of MIGRATIONS.entries()) {
    if (index < version) continue;
    await session.run(sql, MIGRATION_TIMEOUT_MS);
    await session.query(RECORD, [index + 1]);
  }
  return true;
}

/** How many migrations a database has had; 0: it holds no ledger. */
export async function versionOf(session: Session): Promise<number> {
  const [found] = await session.query(HAS_MIGRATIONS, []);
  if (found?.there !== true) return 0;
  const [row] = await session.query(VERSION, []);
  return Number(row?.version);
}

/** Throws {@link LedgerUnavailable} for a version that is newer than this program. */
export function isNewest(version: number): boolean {
  if (version > MIGRATIONS.length) {
    throw new LedgerUnavailable(
      `the ledger has schema version ${version}, newer than ${MIGRATIONS.length}, the newest ` +
        "that this program knows: run the version that wrote it, or a newer one",
    );
  }
  return version === MIGRATIONS.length;
}
