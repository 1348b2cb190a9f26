/** The tables of what others are to be told (webhooks), and of what is wrong that they were told of. */
import { MESSAGE_STATES } from "../outbox.ts";

const states = MESSAGE_STATES.map((state) => `'${state}'`).join(", ");

export const OUTBOX_SCHEMA = `
  CREATE TABLE outbox (
    place     INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    id        TEXT    NOT NULL,
    recipient TEXT    NOT NULL,
    type      TEXT    NOT NULL,
    subject   TEXT    NOT NULL,
    data      TEXT    NOT NULL CHECK (json_valid(data)),
    at_ms     INTEGER NOT NULL,
    state     TEXT    NOT NULL CHECK (state IN (${states})),
    attempts  INTEGER NOT NULL CHECK (attempts >= 0),
    since_ms  INTEGER NOT NULL,
    due_ms    INTEGER NOT NULL,
    taker     TEXT,
    error     TEXT
  ) STRICT;
  CREATE INDEX messages_due ON outbox (recipient, due_ms, place) WHERE state = 'WAITING';
  CREATE INDEX messages_waiting ON outbox (recipient, subject, place) WHERE state = 'WAITING';
  CREATE INDEX messages_open ON outbox (recipient, state, at_ms) WHERE state <> 'DELIVERED';
  CREATE INDEX messages_by_time ON outbox (at_ms);
  CREATE TABLE troubles (
    subject  TEXT    NOT NULL PRIMARY KEY,
    since_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
`;
