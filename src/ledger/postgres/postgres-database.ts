/**
 * Connections to one PostgreSQL database: a bounded pool, statements prepared once a connection,
 * transactions, and the server's faults under one stable code. Every wait has a limit. Knows nothing of
 * payments.
 *
 * A session must stay ours between statements: a connection pooler in front has to work by session.
 */
import {
  DatabaseError,
  Pool,
  types,
  type ClientBase,
  type ClientConfig,
  type PoolClient,
} from "pg";
import { LedgerUnavailable } from "../ledger.ts";
import { messageOf } from "../../x402/result.ts";

export type PostgresColumns = Readonly<Record<string, unknown>>;

export interface Statement {
  /** Unique in the program: under it the statement is prepared once a connection. */
  readonly name: string;
  readonly text: string;
}

/** Whatever takes statements: a pool, or one transaction. */
export interface Session {
  /** The rows of the answer. */
  query(statement: Statement, values: readonly unknown[]): Promise<readonly PostgresColumns[]>;
  /** Statements without values; `withinMs` in place of the limit that all have. */
  run(sql: string, withinMs?: number): Promise<void>;
}

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`, with libpq's `sslmode` and the like behind it. */
  readonly url: string;
  readonly connections: number;
  /** Hears why an idle connection was lost; the next statement opens another. */
  readonly onLost: (reason: string) => void;
}

/** How long a statement waits for a connection, new or used, milliseconds. */
const CONNECT_TIMEOUT_MS = 3000;
/** How long the server works on a statement, waits for a row's lock, and for a transaction to go on. */
const STATEMENT_TIMEOUT_MS = 5000;
const LOCK_TIMEOUT_MS = 3000;
const IDLE_TRANSACTION_TIMEOUT_MS = 5000;
/** How long we wait for the server's answer: it gives up first, unless it cannot be reached. */
const ANSWER_TIMEOUT_MS = 6000;
/** Idle connections are given back after that long, milliseconds. */
const IDLE_TIMEOUT_MS = 30_000;

/**
 * Commits are durable whatever the server's default is, and remain stronger where that is. Plans are kept,
 * and one that was made while a table was small would go on reading all of it.
 */
const SETTINGS = `SELECT
  set_config('synchronous_commit', CASE current_setting('synchronous_commit')
    WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false),
  set_config('default_transaction_isolation', 'read committed', false),
  set_config('statement_timeout', '${STATEMENT_TIMEOUT_MS}', false),
  set_config('lock_timeout', '${LOCK_TIMEOUT_MS}', false),
  set_config('idle_in_transaction_session_timeout', '${IDLE_TRANSACTION_TIMEOUT_MS}', false),
  set_config('enable_seqscan', 'off', false)`;

/** Whatever the server says that a correct program can meet, by SQLSTATE: the machine's fault, not ours. */
const OPERATIONAL = /^(?:08|0A000|25006|25P03|28|3D000|3F000|40|42501|42P01|53|54|55|57|58|F0|XX)/;

/** A constraint or a statement of ours that was wrong: its values are payments, and stay out of logs. */
export class StatementRefused extends Error {
  override readonly name = "StatementRefused";
  readonly code = "LEDGER_STATEMENT_REFUSED";
  /** PostgreSQL's word for it, five characters. */
  readonly sqlState: string;

  constructor(sqlState: string, message: string) {
    super(message);
    this.sqlState = sqlState;
  }
}

export class PostgresDatabase implements Session {
  readonly #pool: Pool;

  /** Connects with the first statement. Throws {@link LedgerUnavailable} for what is no URL. */
  constructor({ url, connections, onLost }: PostgresOptions) {
    this.#pool = new Pool({
      ...connectionTo(url),
      max: connections,
      idleTimeoutMillis: IDLE_TIMEOUT_MS,
      onConnect: prepareSession,
    });
    // Without a listener the loss of an idle connection would end the whole program.
    this.#pool.on("error", (error) => onLost(reasonOf(error)));
  }

  async query(
    statement: Statement,
    values: readonly unknown[],
  ): Promise<readonly PostgresColumns[]> {
    return unlessFaulty(() => rowsOf(this.#pool, statement, values));
  }

  async run(sql: string): Promise<void> {
    await unlessFaulty(() => this.#pool.query(sql));
  }

  /** Runs a step in one transaction: all of it is stored, or, when it throws, nothing. */
  async transaction<Value>(step: (session: Session) => Promise<Value>): Promise<Value> {
    const client = await unlessFaulty(() => this.#pool.connect());
    // The statement under way tells of a lost connection; the event, unheard, would end the program.
    client.on("error", ignore);
    let isUsable = false;
    try {
      await unlessFaulty(() => client.query("BEGIN"));
      const value = await step(sessionOf(client));
      await commit(client);
      isUsable = true;
      return value;
    } catch (error) {
      isUsable = await isRolledBack(client, error);
      throw error;
    } finally {
      client.off("error", ignore);
      client.release(!isUsable);
    }
  }

  /** Statements under way end first. */
  async close(): Promise<void> {
    if (!this.#pool.ending) await unlessFaulty(() => this.#pool.end());
  }
}

/**
 * What the driver takes for `verify-full` today, and will not tomorrow: whoever asks for TLS gets a server that has
 * proven its name, or an error.
 */
const CHECKED_MODES = /([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/g;

/** How this program connects. Throws {@link LedgerUnavailable}, which does not repeat what is no URL. */
export function connectionTo(url: string): ClientConfig {
  if (!/^postgres(?:ql)?:/.test(url) || !URL.canParse(url)) {
    throw new LedgerUnavailable("the ledger's database is not named by a postgres:// URL");
  }
  return {
    connectionString: url.replace(CHECKED_MODES, "$1verify-full"),
    fallback_application_name: "coinslot",
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: ANSWER_TIMEOUT_MS,
    keepAlive: true,
    types: { getTypeParser },
  };
}

/** A session on a connection of its own; the settings are those of {@link prepareSession}. */
export function sessionOf(client: ClientBase): Session {
  return {
    query: (statement, values) => unlessFaulty(() => rowsOf(client, statement, values)),
    async run(sql, withinMs) {
      const limit = withinMs === undefined ? {} : { query_timeout: withinMs };
      await unlessFaulty(() => client.query({ text: sql, ...limit }));
    },
  };
}

export async function prepareSession(client: ClientBase): Promise<void> {
  await client.query(SETTINGS);
}

/** Runs a step of the driver, and tells its faults from ours. */
export async function unlessFaulty<Value>(step: () => Promise<Value>): Promise<Value> {
  try {
    return await step();
  } catch (error) {
    if (error instanceof LedgerUnavailable) throw error;
    if (error instanceof DatabaseError && !OPERATIONAL.test(error.code ?? "XX")) {
      const { code = "", constraint, routine = "", message } = error;
      const where = `${code} ${constraint ?? routine}`;
      throw new StatementRefused(code, `the database refused (${where}): ${message}`);
    }
    // Not the error itself: some of the driver's carry the connection, and with it the password.
    throw new LedgerUnavailable(`the ledger's database: ${reasonOf(error)}`);
  }
}

function ignore(): void {}

/** For people; the driver's messages name host, port and user, never the password. */
export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join("; ");
  return messageOf(error);
}

async function rowsOf(
  connection: Pool | ClientBase,
  statement: Statement,
  values: readonly unknown[],
): Promise<readonly PostgresColumns[]> {
  const { rows } = await connection.query<PostgresColumns>({ ...statement, values: [...values] });
  return rows;
}

async function commit(client: PoolClient): Promise<void> {
  const { command } = await unlessFaulty(() => client.query("COMMIT"));
  // What the server answers where a statement before it had failed.
  if (command !== "COMMIT") throw new LedgerUnavailable("the database rolled a transaction back");
}

/** Whether the connection can be used again. The server rolls back by itself where it cannot be told. */
async function isRolledBack(client: PoolClient, error: unknown): Promise<boolean> {
  if (error instanceof LedgerUnavailable) return false;
  try {
    await client.query("ROLLBACK");
    return true;
  } catch {
    return false;
  }
}

/** Eight-byte integers as numbers, and never as another number than was stored. */
const getTypeParser: typeof types.getTypeParser = (
  ...args: Parameters<typeof types.getTypeParser>
) => {
  const [type] = args;
  if (type !== types.builtins.INT8) return types.getTypeParser(...args);
  return exactInteger;
};

function exactInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value))
    throw new LedgerUnavailable(`stored number ${text} is too large`);
  return value;
}
