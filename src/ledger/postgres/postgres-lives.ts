/**
 * Which processes share the ledger, and what becomes of what the dead ones held. Every life writes a beat
 * each second and holds an advisory lock on a connection of its own, which the server frees when the
 * process dies. All times are the server's: the replicas' clocks do not matter.
 *
 * A life is dead when its row is gone (it ended in order, or was reaped); when it holds no lock and has
 * been silent for {@link DEAD_AFTER_MS}; or when it holds its lock and has been silent for
 * {@link FROZEN_AFTER_MS}: stopped, or cut off in a way that the server has not noticed. Only a life that
 * holds its own lock, and has for that long, may say so: after an outage of the database all are silent,
 * and each gets the time to come back.
 */
import { LedgerConflict, type Lease } from "../ledger.ts";
import * as machine from "../machine.ts";
import type { Session, Statement } from "./postgres-database.ts";
import { COLUMNS, writeStep } from "./postgres-payments.ts";
import { readOrTell, type OnUnreadable } from "./postgres-queues.ts";
import { accountName } from "../submission-row.ts";
import type { LeftAccount } from "../unattended.ts";

/** How often a life is heard, milliseconds. */
export const BEAT_MS = 1000;
/** Silence after which a life without its lock is dead, milliseconds. */
export const DEAD_AFTER_MS = 2000;
/** Silence after which a life is dead although its connection still stands, milliseconds. */
const FROZEN_AFTER_MS = 10_000;

/** Payments that one {@link reapPayments} looks at; the next round goes on. */
const REAPED_AT_ONCE = 500;

const LIFE_LOCK = "coinslot life ";
const PURSE_LOCK = "coinslot purse ";

const before = (ms: number): string => `clock_timestamp() - interval '${ms} milliseconds'`;

/** The life of a process that a worker's life is within, as `processOf`: workers have no beat of their own. */
const processIn = (life: string): string => `split_part(${life}, '/', 1)`;

/** Whether the process of that life holds its lock: the server frees it at once when the process dies. */
export function isHeld(life: string): string {
  return `EXISTS (
    SELECT FROM pg_locks AS k
    WHERE k.locktype = 'advisory' AND k.objsubid = 1 AND k.granted
      AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
      AND (k.classid::bigint << 32 | k.objid::bigint)
        = hashtextextended('${LIFE_LOCK}' || ${life}, 0))`;
}

/** Whether the life of this row of `lives` is dead in the eyes of `asker`; takes names, not values. */
function isDead(row: string, asker: string): string {
  const steady = `(SELECT a.steady_since FROM coinslot.lives AS a
    WHERE a.life = ${asker} AND ${isHeld(asker)})`;
  return `coalesce(${row}.life <> ${asker} AND CASE
    WHEN ${row}.beat >= ${before(DEAD_AFTER_MS)} THEN false
    WHEN ${row}.beat < ${before(FROZEN_AFTER_MS)} AND ${steady} < ${before(FROZEN_AFTER_MS)} THEN true
    WHEN ${steady} < ${before(DEAD_AFTER_MS)} THEN NOT ${isHeld(`${row}.life`)}
    ELSE false END, false)`;
}

function isAlive(life: string, asker: string): string {
  return `EXISTS (
    SELECT FROM coinslot.lives AS o WHERE o.life = ${life} AND NOT ${isDead("o", asker)})`;
}

const BEAT: Statement = {
  name: "beat",
  text: `
    INSERT INTO coinslot.lives AS l (life, beat, steady_since)
    VALUES ($1, clock_timestamp(), clock_timestamp())
    ON CONFLICT (life) DO UPDATE SET beat = clock_timestamp(), steady_since = CASE
      WHEN $2::boolean OR l.beat < ${before(DEAD_AFTER_MS)} THEN clock_timestamp()
      ELSE l.steady_since END`,
};

const LOCK: Statement = {
  name: "lock_life",
  text: `SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS "locked"`,
};

const LEAVE: Statement = { name: "leave", text: "DELETE FROM coinslot.lives WHERE life = $1" };

const BURY: Statement = {
  name: "bury",
  text: `DELETE FROM coinslot.lives AS l WHERE ${isDead("l", "$1")}`,
};

const LEASE: Statement = {
  name: "lease",
  text: `
    INSERT INTO coinslot.accounts AS a (network, address, holder, epoch) VALUES ($1, $2, $3, 1)
    ON CONFLICT (network, address) DO UPDATE SET holder = $3,
      epoch = CASE WHEN a.holder = $3 THEN a.epoch ELSE a.epoch + 1 END
    WHERE a.holder IS NULL OR a.holder = $3 OR NOT ${isAlive("a.holder", "$3")}
    RETURNING epoch AS "epoch"`,
};

const UNLEASE: Statement = {
  name: "unlease",
  text: `UPDATE coinslot.accounts SET holder = NULL
         WHERE network = $1 AND address = $2 AND holder = $3 AND epoch = $4`,
};

const UNATTENDED: Statement = {
  name: "unattended",
  text: `
    SELECT a.network AS "network", a.address AS "address", a.epoch AS "epoch"
    FROM coinslot.accounts AS a
    WHERE EXISTS (
        SELECT FROM coinslot.submissions AS s
        WHERE s.network = a.network AND s.account = a.address AND s.state <> 'CLOSED')
      AND (a.holder IS NULL OR a.holder = $1 OR NOT ${isAlive("a.holder", "$1")})`,
};

/** With the locks of those purses, in that order, for the statements behind this one. */
const LOCK_ACCOUNT: Statement = {
  name: "lock_account",
  text: `SELECT holder AS "holder", epoch AS "epoch", next_nonce AS "nextNonce",
           (SELECT count(*) FROM (
             SELECT pg_advisory_xact_lock(hashtextextended('${PURSE_LOCK}' || n, 0))
             FROM unnest($3::text[]) AS n) AS locked)
         FROM coinslot.accounts WHERE network = $1 AND address = $2 FOR UPDATE`,
};

const LEFT_BEHIND: Statement = {
  name: "left_behind",
  text: `
    WITH gone AS (
      SELECT h.life FROM (
        SELECT claimed_by AS life FROM coinslot.payments
        WHERE state IN ('CLAIMED', 'DELIVERING') AND NOT offered
          AND ${processIn("claimed_by")} <> $1
        UNION
        SELECT holder FROM coinslot.payments
        WHERE state IN ('CLAIMED', 'SIGNED', 'SETTLED') AND NOT is_left AND binding IS NOT NULL
          AND ${processIn("holder")} <> $1
      ) AS h WHERE NOT ${isAlive(processIn("h.life"), "$1")}
    )
    SELECT ${COLUMNS}, (SELECT coalesce(json_agg(life), '[]') FROM gone)::text AS "over" FROM coinslot.payments AS p
    WHERE p.id IN (
      SELECT id FROM coinslot.payments
      WHERE state IN ('CLAIMED', 'DELIVERING') AND NOT offered
        AND claimed_by IN (SELECT life FROM gone)
      UNION
      SELECT id FROM coinslot.payments
      WHERE state IN ('CLAIMED', 'SIGNED', 'SETTLED') AND NOT is_left AND binding IS NOT NULL
        AND holder IN (SELECT life FROM gone)
    )
    ORDER BY p.id LIMIT ${REAPED_AT_ONCE}`,
};

const DEAD_HOLDERS: Statement = {
  name: "dead_pot_holders",
  text: `
    SELECT h.holder AS "holder" FROM (
      SELECT DISTINCT holder FROM coinslot.pot_leases WHERE ${processIn("holder")} <> $1
    ) AS h WHERE NOT ${isAlive(processIn("h.holder"), "$1")}`,
};

const HELD: Statement = {
  name: "held_by_worker",
  text: `
    SELECT ${COLUMNS} FROM coinslot.payments AS p
    WHERE p.id > $2 AND p.id IN (
      SELECT id FROM coinslot.payments
      WHERE state IN ('CLAIMED', 'DELIVERING') AND NOT offered AND claimed_by = $1
      UNION
      SELECT id FROM coinslot.payments
      WHERE state IN ('CLAIMED', 'SIGNED', 'SETTLED') AND NOT is_left AND binding IS NOT NULL
        AND holder = $1
    )
    ORDER BY p.id LIMIT ${REAPED_AT_ONCE}`,
};

/** Says that a life is there; or that it has begun, or come back on another connection. */
export async function beat(session: Session, life: string, isBack = false): Promise<void> {
  await session.query(BEAT, [life, isBack]);
}

/**
 * Takes the life's lock for as long as the connection lasts; false while an older connection of the same
 * life still holds it. Once for each connection.
 */
export async function lockLife(session: Session, life: string): Promise<boolean> {
  const [answer] = await session.query(LOCK, [LIFE_LOCK + life]);
  return answer?.locked === true;
}

/** The life ends in order: what it holds is free at once. */
export async function leave(session: Session, life: string): Promise<void> {
  await session.query(LEAVE, [life]);
}

/** See {@link Signing.lease}. */
export async function lease(
  session: Session,
  { network, address }: Pick<Lease, "network" | "address">,
  life: string,
): Promise<Lease | undefined> {
  const [granted] = await session.query(LEASE, [network, accountName(address), life]);
  return granted && { network, address, epoch: Number(granted.epoch) };
}

export async function unlease(session: Session, lease: Lease, life: string): Promise<void> {
  const { network, address, epoch } = lease;
  await session.query(UNLEASE, [network, accountName(address), life, epoch]);
}

/** See {@link Unattended.unattended}. */
export async function unattended(session: Session, life: string): Promise<readonly LeftAccount[]> {
  const rows = await session.query(UNATTENDED, [life]);
  return rows.map(({ network, address, epoch }) => ({
    network: String(network),
    address: String(address),
    epoch: Number(epoch),
  }));
}

/**
 * Keeps the lease until the transaction ends, and tells the account's next nonce as far as it is stored. Nobody
 * else signs out of those purses until then, which everybody names in the same order. Throws {@link LedgerConflict} where it is no longer this life's.
 */
export async function requireLease(
  session: Session,
  { network, address, epoch }: Lease,
  life: string,
  purses: readonly string[] = [],
): Promise<number | undefined> {
  const [account] = await session.query(LOCK_ACCOUNT, [network, accountName(address), purses]);
  if (account?.holder !== life || account.epoch !== epoch) {
    throw new LedgerConflict(`the account ${address} is leased to another life by now`);
  }
  return account.nextNonce === null ? undefined : Number(account.nextNonce);
}

/** Lives that have leased something of a pot, and are dead. */
export async function deadHolders(session: Session, life: string): Promise<readonly string[]> {
  return (await session.query(DEAD_HOLDERS, [life])).map(({ holder }) => String(holder));
}

/** Frees what dead lives hold, and forgets them. Resolves with the number of payments freed. */
export async function reapPayments(
  session: Session,
  moment: machine.Moment,
  onUnreadable: OnUnreadable,
): Promise<number> {
  const rows = await session.query(LEFT_BEHIND, [moment.life]);
  let freed = 0;
  for (const columns of rows) {
    const stored = readOrTell(columns, onUnreadable, (each) => each);
    if (stored === undefined) continue;
    const over = livesOf(columns.over);
    const { outcome, ...step } = machine.reap(stored.row, (life) => over.has(life));
    if (outcome && (await writeStep(session, stored, step, { moment }))) freed += 1;
  }
  if (rows.length < REAPED_AT_ONCE) await session.query(BURY, [moment.life]);
  return freed;
}

/**
 * Frees what a worker's life holds, but for the claims of `kept`; `moment` is of that life. Resolves with the
 * number of payments freed.
 */
export async function reapWorker(
  session: Session,
  { moment, kept }: { readonly moment: machine.Moment; readonly kept: ReadonlySet<string> },
  onUnreadable: OnUnreadable,
): Promise<number> {
  let freed = 0;
  for (let behind = 0; ;) {
    const rows = await session.query(HELD, [moment.life, behind]);
    for (const columns of rows) {
      behind = Number(columns.id);
      const stored = readOrTell(columns, onUnreadable, (each) => each);
      if (stored === undefined) continue;
      const isOver = (life: string): boolean => life === moment.life;
      const { outcome, ...step } = machine.reap(stored.row, isOver, kept.has(stored.key));
      if (outcome && (await writeStep(session, stored, step, { moment }))) freed += 1;
    }
    if (rows.length < REAPED_AT_ONCE) return freed;
  }
}

function livesOf(json: unknown): ReadonlySet<unknown> {
  const lives: unknown = JSON.parse(String(json));
  return new Set(Array.isArray(lives) ? lives : []);
}
