/**
 * What operators decide beside the process that has the ledger's file open. That one alone writes payments: it
 * keeps the newest in memory. So the others put what they want into a table, and it carries that out and
 * writes its answer in one transaction.
 */
import { randomUUID } from "node:crypto";
import type { Time } from "../../time/time.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import { LedgerUnavailable, type Resolution, type Resolved } from "../ledger.ts";
import type { ForgottenInStep, ForgetStep } from "../forgetting.ts";
import { potToPour } from "../pouring.ts";
import { resolve } from "../resolution.ts";
import type { SqliteCore } from "./sqlite-core.ts";
import { SqliteDatabase } from "./sqlite-database.ts";
import { forgetPayer } from "./sqlite-forgetting.ts";

/** How long an operator waits for the answer; what is older is not carried out any more, milliseconds. */
export const ANSWER_MS = 10_000;
/** Pause between two looks for the answer, milliseconds. */
const POLL_MS = 25;
/** How long an answer is kept for an operator who is gone, milliseconds. */
const FORGET_MS = 60_000;
/** Carried out at once, at most. */
const MAX_TAKEN = 64;

/** In the process that has the file open. */
export class SqliteResolutions {
  readonly #database: SqliteDatabase;
  readonly #core: SqliteCore;
  readonly #life: string;
  /** Changes when another connection has written. */
  #seen: unknown;

  constructor(database: SqliteDatabase, core: SqliteCore, life: string) {
    this.#database = database;
    this.#core = core;
    this.#life = life;
  }

  /** Carries out what was asked for; resolves with how many there were. Costs no read where nobody has asked. */
  async answer(): Promise<number> {
    const version = this.#database.get("PRAGMA data_version", [])?.["data_version"];
    if (version === this.#seen) return 0;
    const count = await this.#core.write(() => this.#answerAll());
    // With more than were taken at once there is more to do, though nobody writes again.
    if (count < MAX_TAKEN) this.#seen = version;
    return count;
  }

  #answerAll(): number {
    const nowMs = this.#core.time.now();
    this.#database.run("DELETE FROM resolutions WHERE asked_ms < ?", [nowMs - FORGET_MS]);
    const asked = this.#database.all(
      `SELECT id, payment_key AS "key", resolution FROM resolutions
       WHERE answer IS NULL AND asked_ms >= ? ORDER BY asked_ms LIMIT ?`,
      [nowMs - ANSWER_MS, MAX_TAKEN],
    );
    for (const { id, key, resolution } of asked) {
      const wanted = JSON.parse(String(resolution)) as Asked;
      const answer = JSON.stringify(this.#answer(String(key), wanted));
      this.#database.run("UPDATE resolutions SET answer = ? WHERE id = ?", [answer, String(id)]);
    }
    return asked.length;
  }

  #answer(key: string, wanted: Asked): Resolved | ForgottenInStep {
    const ground = { core: this.#core, database: this.#database };
    if (wanted.verb === "forget-step") return forgetPayer(ground, this.#life, wanted);
    const judge = (row: Parameters<typeof resolve>[0]) => {
      const name = potToPour(row, { kind: "resolve", resolution: wanted });
      return resolve(row, wanted, this.#core.potOf(name));
    };
    return this.#core.take(key, wanted.by, judge).outcome;
  }
}

type Asked = Resolution | ({ readonly verb: "forget-step" } & ForgetStep);

interface Beside {
  readonly path: string;
  readonly time: Time;
}

/** As {@link resolveBeside}: one step of {@link Forgetting.forget}. */
export async function forgetBeside(beside: Beside, step: ForgetStep): Promise<ForgottenInStep> {
  const answer = await ask(beside, step.payer, { verb: "forget-step", ...step });
  // A process of another version does not know that verb, and has changed nothing.
  if ("named" in answer) return answer;
  throw new LedgerUnavailable("the process that has the ledger open is of another version");
}

/**
 * Asks the process that has the file open. Rejects with {@link LedgerUnavailable} where it has not answered in
 * time; then it certainly will not carry it out any more.
 */
export async function resolveBeside(
  beside: Beside,
  key: PaymentKey,
  resolution: Resolution,
): Promise<Resolved> {
  const answer = await ask(beside, key, resolution);
  if ("kind" in answer) return answer;
  throw new TypeError("a resolution has another answer");
}

async function ask(
  { path, time }: Beside,
  key: string,
  asked: Asked,
): Promise<Resolved | ForgottenInStep> {
  const database = new SqliteDatabase(path);
  try {
    // What is lost in a power cut was not answered, and the file is tidied up by its own process.
    database.exec("PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0");
    const id = randomUUID();
    const askedMs = time.now();
    database.run(
      "INSERT INTO resolutions (id, payment_key, resolution, asked_ms) VALUES (?, ?, ?, ?)",
      [id, key, JSON.stringify(asked), askedMs],
    );
    const signal = time.timeout(ANSWER_MS);
    while (!signal.aborted) {
      const answer = answerTo(database, id);
      if (answer !== undefined) {
        database.run("DELETE FROM resolutions WHERE id = ?", [id]);
        return answer;
      }
      await time.sleep(POLL_MS, signal);
    }
    const isTakenBack =
      database.run("DELETE FROM resolutions WHERE id = ? AND answer IS NULL", [id]) === 1;
    const late = isTakenBack ? undefined : answerTo(database, id);
    if (late !== undefined) return late;
    throw new LedgerUnavailable(
      `the process that has the ledger open did not answer within ${ANSWER_MS / 1000} s; nothing was changed`,
    );
  } finally {
    database.close();
  }
}

function answerTo(database: SqliteDatabase, id: string): Resolved | ForgottenInStep | undefined {
  const answer = database.get("SELECT answer FROM resolutions WHERE id = ?", [id])?.["answer"];
  return typeof answer === "string"
    ? (JSON.parse(answer) as Resolved | ForgottenInStep)
    : undefined;
}
