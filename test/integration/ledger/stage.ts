/** Replicas of one PostgreSQL ledger: in this process, and as processes that can be stopped and killed. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Client } from "pg";
import { openPostgresLedger } from "../../../src/ledger/postgres/postgres.ts";
import { LedgerUnavailable, type Ledger } from "../../../src/ledger/ledger.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { systemTime } from "../../../src/time/time.ts";
import type { Answered, Asked, Call } from "./replica-child.ts";

const CHILD = fileURLToPath(new URL("./replica-child.ts", import.meta.url));

/** How often a condition is looked at, and how long it may take to come true, milliseconds. */
const LOOK_MS = 20;
const COME_TRUE_MS = 15_000;

const silent = createLogger({ level: "silent", format: "json" });

/** The replicas that a test opened, which end with it. */
export class Replicas implements AsyncDisposable {
  readonly url: string;
  readonly #ledgers: Ledger[] = [];
  readonly #children: ReplicaChild[] = [];

  constructor(url: string) {
    this.url = url;
  }

  async open(life: string, { url = this.url, logger = silent } = {}): Promise<Ledger> {
    const ledger = await openPostgresLedger({ url, life, time: systemTime, logger });
    this.#ledgers.push(ledger);
    return ledger;
  }

  async spawn(life: string): Promise<ReplicaChild> {
    const child = new ReplicaChild(fork(CHILD, [this.url, life]));
    this.#children.push(child);
    await child.answer();
    return child;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) await child.kill();
    for (const ledger of this.#ledgers) await ledger.close();
  }
}

export class ReplicaChild {
  readonly #child: ChildProcess;

  constructor(child: ChildProcess) {
    this.#child = child;
  }

  /** Makes a call; resolves with its value, rejects with its error. */
  async ask(call: Call, payment = 1): Promise<unknown> {
    const asked: Asked = { call, payment };
    this.#child.send(asked);
    return this.answer();
  }

  /** Leaves a call to the child without waiting for its end. */
  send(call: Call, payment = 1): void {
    this.#child.send({ call, payment });
  }

  async answer(): Promise<unknown> {
    const ended = once(this.#child, "exit").then(() => {
      throw new Error("the replica ended");
    });
    const [answered] = (await Promise.race([once(this.#child, "message"), ended])) as [Answered];
    if ("error" in answered) throw new Error(answered.error);
    return answered.value;
  }

  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#child.kill(signal);
  }

  /** Ends it as `kill -9` does. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }
}

/** Waits until a call gives something else than undefined or false; how long that took. */
export async function until<Value>(
  call: () => Promise<Value | undefined | false>,
  withinMs = COME_TRUE_MS,
): Promise<{ readonly value: Value; readonly afterMs: number }> {
  const began = performance.now();
  for (;;) {
    const value = await call();
    const afterMs = performance.now() - began;
    if (value !== undefined && value !== false) return { value, afterMs };
    if (afterMs > withinMs) throw new Error(`did not come true within ${withinMs} ms`);
    await pause(LOOK_MS);
  }
}

/** A call whose database may be down: undefined meanwhile. */
export async function ifAvailable<Value>(call: () => Promise<Value>): Promise<Value | undefined> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof LedgerUnavailable) return undefined;
    throw error;
  }
}

/** The database as an administrator sees it. */
export async function sql(
  url: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<readonly Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<Record<string, unknown>>(text, [...values]);
    return rows;
  } finally {
    await client.end();
  }
}
