/** The tables of pots in PostgreSQL, and what else came with them. */
import { ENTRY_KINDS } from "../accounts.ts";

const kinds = ENTRY_KINDS.map((kind) => `'${kind}'`).join(", ");

/** A trigger fills a pot, since whoever finds a payment settled is to fill it in the same transaction. */
export const POTS_SCHEMA = `
  CREATE TABLE coinslot.pots (
    name      text    COLLATE "C" NOT NULL PRIMARY KEY,
    free      numeric NOT NULL CHECK (free >= 0 AND free = trunc(free)),
    leased    numeric NOT NULL CHECK (leased >= 0 AND leased = trunc(leased)),
    until_ms  bigint,
    wanted_by text,
    wanted_ms bigint  NOT NULL DEFAULT 0
  );
  CREATE INDEX ending_pots ON coinslot.pots (until_ms) WHERE until_ms IS NOT NULL;
  CREATE INDEX empty_pots ON coinslot.pots (name) WHERE free = 0 AND leased = 0 AND until_ms IS NULL;
  CREATE TABLE coinslot.pot_leases (
    holder text    NOT NULL,
    pot    text    COLLATE "C" NOT NULL,
    held   numeric NOT NULL CHECK (held >= 0 AND held = trunc(held)),
    turn   bigint  NOT NULL CHECK (turn > 0),
    at_ms  bigint  NOT NULL,
    PRIMARY KEY (holder, pot)
  );
  CREATE INDEX leases_of_pot ON coinslot.pot_leases (pot);
  CREATE INDEX leases_given_back ON coinslot.pot_leases (at_ms) WHERE held = 0;
  CREATE TABLE coinslot.pot_fills (
    payment_key text    NOT NULL PRIMARY KEY,
    pot         text    NOT NULL,
    amount      numeric NOT NULL CHECK (amount > 0 AND amount = trunc(amount)),
    at_ms       bigint  NOT NULL
  );
  ALTER TABLE coinslot.payments ADD COLUMN fills text;
  ALTER TABLE coinslot.closed_entries DROP CONSTRAINT closed_entries_kind_check,
    ADD CONSTRAINT closed_entries_kind_check CHECK (kind IN (${kinds}));

  CREATE FUNCTION coinslot.fill_pot() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
      fill json := NEW.fills::json;
      pot text := fill->>'pot';
      filled numeric := (fill->>'amount')::numeric;
    BEGIN
      INSERT INTO coinslot.pot_fills (payment_key, pot, amount, at_ms)
      VALUES (NEW.payment_key, pot, filled, NEW.updated_ms) ON CONFLICT DO NOTHING;
      IF NOT FOUND THEN RETURN NULL; END IF;
      INSERT INTO coinslot.pots AS p (name, free, leased, until_ms)
      VALUES (pot, filled, 0, (fill->>'untilMs')::bigint)
      ON CONFLICT (name) DO UPDATE SET free = p.free + filled;
      IF pot LIKE 'credits/%' THEN
        INSERT INTO coinslot.closed_entries AS c (day, kind, route, network, asset, account, count, amount)
        VALUES (to_char(to_timestamp(NEW.updated_ms / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD'), 'credits bought',
          coalesce(NEW.route, ''), split_part(pot, '/', 2), split_part(pot, '/', 3), '', 1, filled)
        ON CONFLICT (day, kind, route, network, asset, account) DO UPDATE SET count = c.count + 1,
          amount = c.amount + excluded.amount;
      END IF;
      RETURN NULL;
    END $$;
  CREATE TRIGGER pot_filled AFTER UPDATE OF settled_transaction, fills ON coinslot.payments
    FOR EACH ROW WHEN (NEW.settled_transaction IS NOT NULL AND NEW.fills IS NOT NULL
      AND (OLD.settled_transaction IS NULL OR OLD.fills IS NULL))
    EXECUTE FUNCTION coinslot.fill_pot();
  CREATE FUNCTION coinslot.drop_pot_fill() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      DELETE FROM coinslot.pot_fills WHERE payment_key = OLD.payment_key;
      RETURN NULL;
    END $$;
  CREATE TRIGGER pot_fill_dropped AFTER DELETE ON coinslot.payments
    FOR EACH ROW EXECUTE FUNCTION coinslot.drop_pot_fill();
`;

/** What is paid back out of balances. */
export const REFUNDED_CREDITS_SCHEMA = `
  CREATE INDEX filling_payments ON coinslot.payments (lower(payer), created_ms) WHERE fills IS NOT NULL;
  ALTER TABLE coinslot.closed_entries DROP CONSTRAINT closed_entries_kind_check,
    ADD CONSTRAINT closed_entries_kind_check CHECK (kind IN (${kinds}));
`;
