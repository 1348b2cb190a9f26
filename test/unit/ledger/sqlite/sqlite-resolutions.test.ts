/** What operators ask of the process that has the file open. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { forgetAll } from "../../../../src/ledger/forgetting.ts";
import { LedgerUnavailable, type Ledger } from "../../../../src/ledger/ledger.ts";
import { SqliteDatabase } from "../../../../src/ledger/sqlite/sqlite-database.ts";
import {
  ANSWER_MS,
  forgetBeside,
  resolveBeside,
} from "../../../../src/ledger/sqlite/sqlite-resolutions.ts";
import { openSqliteLedger } from "../../../../src/ledger/sqlite/sqlite.ts";
import { systemTime, type Time } from "../../../../src/time/time.ts";
import { examplePayment, PAYER } from "../example-payment.ts";
import { bring } from "../ledger-driver.ts";

const NOTE = { verb: "note", note: "looked at", by: "operator alice@till" } as const;
const { key } = examplePayment(1);

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-resolutions-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function open(name: string) {
  const path = join(folder, `${name}.db`);
  const ledger = await openSqliteLedger({ path, time: systemTime, life: name });
  onTestFinished(() => ledger.close());
  await bring(ledger, examplePayment(1), "settled");
  return { path, ledger };
}

/** Waiting takes no time; `onWait` answers whether the time is up. */
function hurried(onWait: () => Promise<boolean>): Time {
  const end = new AbortController();
  return {
    ...systemTime,
    sleep: async () => {
      if (await onWait()) end.abort();
    },
    timeout: () => end.signal,
  };
}

async function eventsOf(ledger: Ledger): Promise<readonly string[]> {
  return ((await ledger.books.show(key))?.events ?? []).map(({ note }) => note);
}

function left(path: string): number {
  const database = new SqliteDatabase(path, { readOnly: true });
  try {
    return Number(database.get("SELECT count(*) AS count FROM resolutions", {})?.["count"]);
  } finally {
    database.close();
  }
}

describe("a question beside the process that has the ledger", () => {
  test("is carried out by it once, and leaves nothing behind", async () => {
    const { path, ledger } = await open("answered");
    const counts: number[] = [];
    const time = hurried(async () => {
      counts.push(await ledger.upkeep.resolveAsked());
      return false;
    });
    expect(await resolveBeside({ path, time }, key, NOTE)).toEqual({
      kind: "done",
      state: "SETTLED",
    });
    expect(counts).toEqual([1]);
    expect(await ledger.upkeep.resolveAsked()).toBe(0);
    expect((await eventsOf(ledger)).filter((note) => note === NOTE.note)).toHaveLength(1);
    expect(left(path)).toBe(0);
  });

  test("to forget somebody, between two versions, changes nothing and is told", async () => {
    const { path, ledger } = await open("versions");
    const ask = { payer: PAYER, isTried: false };
    const database = new SqliteDatabase(path);
    const answer = () => database.get("SELECT answer FROM resolutions", {})?.["answer"];
    const values = ["old", PAYER, JSON.stringify({ verb: "forget", ...ask }), Date.now()];
    database.run(
      "INSERT INTO resolutions (id, payment_key, resolution, asked_ms) VALUES (?, ?, ?, ?)",
      values,
    );
    expect(await ledger.upkeep.resolveAsked()).toBe(1);
    expect(answer()).toMatch(/"refused"/);
    // As one answers that does not know the verb of this one.
    const time = hurried(async () => {
      const refused = JSON.stringify({ kind: "refused", reason: "there is no such payment" });
      database.run("UPDATE resolutions SET answer = ?", [refused]);
      return false;
    });
    await expect(forgetBeside({ path, time }, ask)).rejects.toThrow(/another version/);
    database.close();
    expect(await ledger.books.show(key)).toBeDefined();
  });

  test("to forget somebody, that ends in the middle, says what is gone by then", async () => {
    const { path, ledger } = await open("middle");
    const ask = { payer: PAYER, isTried: false };
    const beside = { path, time: hurried(async () => true) };
    let steps = 0;
    const forgetting = forgetAll(async (step) => {
      steps += 1;
      if (steps > 1) return forgetBeside(beside, step);
      return { ...(await ledger.upkeep.forget(step)), payments: 25, next: step.from ?? null };
    }, ask);
    await expect(forgetting).rejects.toThrow(
      /^25 payments are erased, and then no more: ask again/,
    );
    await expect(forgetting).rejects.toThrow(LedgerUnavailable);
    const first = forgetAll((step) => forgetBeside(beside, step), ask);
    await expect(first).rejects.toThrow(/nothing was changed$/);
  });

  test("is taken back where it gets no answer in time", async () => {
    const { path, ledger } = await open("unanswered");
    const asking = resolveBeside({ path, time: hurried(async () => true) }, key, NOTE);
    await expect(asking).rejects.toThrow(LedgerUnavailable);
    expect(await ledger.upkeep.resolveAsked()).toBe(0);
    expect(await eventsOf(ledger)).not.toContain(NOTE.note);
    expect(left(path)).toBe(0);
  });

  test("of somebody who is gone is not carried out later, and is forgotten", async () => {
    const { path, ledger } = await open("late");
    const database = new SqliteDatabase(path);
    const ask = (id: string, agoMs: number) => {
      const values = [id, key, JSON.stringify(NOTE), Date.now() - agoMs];
      database.run(
        "INSERT INTO resolutions (id, payment_key, resolution, asked_ms) VALUES (?, ?, ?, ?)",
        values,
      );
    };
    ask("old", ANSWER_MS + 1_000);
    ask("older", 10 * ANSWER_MS);
    expect(await ledger.upkeep.resolveAsked()).toBe(0);
    expect(left(path)).toBe(1);
    // More than are carried out at once: the rest comes with the next look, though nobody writes meanwhile.
    for (let number = 0; number < 65; number += 1) ask(String(number), 0);
    database.close();
    expect([await ledger.upkeep.resolveAsked(), await ledger.upkeep.resolveAsked()]).toEqual([
      64, 1,
    ]);
    expect(await ledger.upkeep.resolveAsked()).toBe(0);
  });
});
