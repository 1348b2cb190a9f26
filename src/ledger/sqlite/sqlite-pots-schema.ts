/** The tables of pots in SQLite, and what else came with them. */
import { ENTRY_KINDS } from "../accounts.ts";

const kinds = ENTRY_KINDS.map((kind) => `'${kind}'`).join(", ");
const AMOUNT = (column: string): string =>
  `${column} TEXT NOT NULL CHECK (${column} <> '' AND ${column} NOT GLOB '*[^0-9]*')`;

/** With all kinds of entries that this program knows. */
const CLOSED_ENTRIES = `  ALTER TABLE closed_entries RENAME TO older_closed_entries;
  CREATE TABLE closed_entries (
    day         TEXT    NOT NULL,
    kind        TEXT    NOT NULL CHECK (kind IN (${kinds})),
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
`;

export const POTS_SCHEMA = `
  CREATE TABLE pots (
    name      TEXT NOT NULL PRIMARY KEY,
    ${AMOUNT("free")},
    ${AMOUNT("leased")},
    until_ms  INTEGER,
    wanted_by TEXT,
    wanted_ms INTEGER NOT NULL DEFAULT 0
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX ending_pots ON pots (until_ms) WHERE until_ms IS NOT NULL;
  CREATE INDEX empty_pots ON pots (name) WHERE free = '0' AND leased = '0' AND until_ms IS NULL;
  CREATE TABLE pot_leases (
    holder TEXT    NOT NULL,
    pot    TEXT    NOT NULL,
    ${AMOUNT("held")},
    turn   INTEGER NOT NULL CHECK (turn > 0),
    at_ms  INTEGER NOT NULL,
    PRIMARY KEY (holder, pot)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX leases_of_pot ON pot_leases (pot);
  CREATE INDEX leases_given_back ON pot_leases (at_ms) WHERE held = '0';
  CREATE TABLE pot_fills (
    payment_key TEXT    NOT NULL PRIMARY KEY,
    pot         TEXT    NOT NULL,
    ${AMOUNT("amount")},
    at_ms       INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TRIGGER pot_fill_dropped AFTER DELETE ON payments BEGIN
    DELETE FROM pot_fills WHERE payment_key = OLD.payment_key;
  END;
  ALTER TABLE payments ADD COLUMN fills TEXT CHECK (json_valid(fills));

${CLOSED_ENTRIES}`;

/** What is paid back out of balances. */
export const REFUNDED_CREDITS_SCHEMA = `
  CREATE INDEX filling_payments ON payments (lower(payer), created_ms) WHERE fills IS NOT NULL;
${CLOSED_ENTRIES}`;
