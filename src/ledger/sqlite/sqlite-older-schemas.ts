/** The schema as versions 1 and 2 of the file had it: what an older program may have left. */
import { PAYMENT_STATES } from "../transition.ts";

const states = PAYMENT_STATES.map((state) => `'${state}'`).join(", ");

export const OLDER_SCHEMAS: readonly string[] = [
  `
  CREATE TABLE payments (
    payment_key         TEXT    NOT NULL PRIMARY KEY,
    state               TEXT    NOT NULL CHECK (state IN (${states})),
    binding             TEXT,
    idempotency_key     TEXT,
    request             TEXT    NOT NULL CHECK (json_valid(request)),
    network             TEXT    NOT NULL,
    payer               TEXT    NOT NULL,
    amount_atomic       TEXT    NOT NULL
                        CHECK (amount_atomic <> '' AND amount_atomic NOT GLOB '*[^0-9]*'),
    account             TEXT,
    account_nonce       INTEGER CHECK (account_nonce >= 0),
    raw                 TEXT,
    transactions        TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(transactions)),
    settled_transaction TEXT,
    attempts            INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    failure_code        TEXT,
    failure_detail      TEXT,
    claimed_by          TEXT    NOT NULL,
    created_ms          INTEGER NOT NULL,
    updated_ms          INTEGER NOT NULL,
    CHECK ((raw IS NULL) = (account IS NULL) AND (raw IS NULL) = (account_nonce IS NULL)),
    CHECK (state <> 'CLAIMED' OR raw IS NULL),
    CHECK ((state IN ('SETTLED', 'DELIVERING', 'DELIVERED')) = (settled_transaction IS NOT NULL)),
    CHECK ((state = 'FAILED') = (failure_code IS NOT NULL)),
    CHECK (state <> 'DELIVERING' OR attempts > 0)
  ) STRICT;
  CREATE INDEX payments_by_state ON payments (state, updated_ms);
  CREATE UNIQUE INDEX account_nonces ON payments (network, account, account_nonce)
    WHERE raw IS NOT NULL;

  CREATE TABLE accounts (
    network    TEXT    NOT NULL,
    address    TEXT    NOT NULL,
    next_nonce INTEGER NOT NULL CHECK (next_nonce >= 0),
    PRIMARY KEY (network, address)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE route_terms (
    route      TEXT    NOT NULL PRIMARY KEY,
    hash       TEXT    NOT NULL,
    changed_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE heartbeat (
    id    INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    at_ms INTEGER NOT NULL
  ) STRICT;
  `,
  // Claims of the first schema kept no query: the path that their binding ends with is what is left.
  `
  ALTER TABLE payments ADD COLUMN target TEXT;
  ALTER TABLE payments ADD COLUMN served_target TEXT;
  UPDATE payments SET target = substr(binding, instr(binding, ' ') + 1);
  `,
];
