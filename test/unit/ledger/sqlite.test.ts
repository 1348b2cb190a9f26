import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LedgerUnavailable, type Ledger } from "../../../src/ledger/ledger.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite.ts";
import { examplePayment } from "./example-payment.ts";
import { describeLedger } from "./ledger-contract.ts";
import {
  ACCOUNT,
  bring,
  CALLER,
  FAILURE,
  NETWORK,
  sign,
  signWith,
  termsOf,
  word,
} from "./ledger-driver.ts";

const CHILD = fileURLToPath(new URL("./crash-child.ts", import.meta.url));
const clock = (): number => 1_700_000_000_000;

const newFolder = (): Promise<string> => mkdtemp(join(tmpdir(), "coinslot-ledger-"));
const removeFolder = (folder: string): Promise<void> =>
  rm(folder, { recursive: true, force: true });

/** Runs the child until a number of lines came or it ended; the lines that it acknowledged. */
async function acknowledged(command: readonly string[], most: number): Promise<readonly string[]> {
  const [program = "", ...parameters] = command;
  const child = spawn(program, parameters, { stdio: ["ignore", "pipe", "inherit"] });
  const lines: string[] = [];
  const ended = once(child, "exit");
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(line);
      if (lines.length === most) child.kill("SIGKILL");
    }
  } finally {
    child.kill("SIGKILL");
    // Its output ends before its lock does.
    await ended;
  }
  return lines;
}

/** The payments that the child acknowledged a step for. */
function numbers(lines: readonly string[], step: string): readonly number[] {
  const words = lines.map((line) => line.split(" "));
  return words.filter(([each]) => each === step).map(([, number]) => Number(number));
}

describeLedger("SQLite", async () => {
  const folder = await newFolder();
  const path = join(folder, "ledger.db");
  return {
    open: async (life) => openSqliteLedger({ path, ...life }),
    remove: async () => removeFolder(folder),
  };
});

describe("the SQLite file", () => {
  let folder: string;
  let path: string;

  beforeEach(async () => {
    folder = await newFolder();
    path = join(folder, "ledger.db");
  });

  afterEach(async () => removeFolder(folder));

  const open = (bootId = "first"): Promise<Ledger> => openSqliteLedger({ path, clock, bootId });

  it("is made together with the folders above it", async () => {
    path = join(folder, "a", "b", "ledger.db");
    await (await open()).close();
    expect((await stat(path)).isFile()).toBe(true);
  });

  it("can be kept in memory, gone when it is closed", async () => {
    const payment = examplePayment(1);
    for (const bootId of ["first", "first"]) {
      const ledger = await openSqliteLedger({ path: ":memory:", clock, bootId });
      expect(await word(ledger.claim(payment.key, termsOf(payment)))).toBe("granted");
      await ledger.close();
    }
  });

  it("is in WAL mode", async () => {
    const ledger = await open();
    const database = new DatabaseSync(path);
    expect(database.prepare("PRAGMA journal_mode").get()).toEqual({ journal_mode: "wal" });
    database.close();
    await ledger.close();
  });

  it("refuses, by its own constraints, money in a state that cannot be", async () => {
    const ledger = await open();
    await bring(ledger, examplePayment(1), "claimed");
    await ledger.close();
    const database = new DatabaseSync(path);
    for (const change of [
      "state = 'PAID'",
      "state = 'SETTLED'",
      "state = 'FAILED'",
      "state = 'DELIVERING', settled_transaction = '0xaa'",
      "settled_transaction = '0xaa'",
      "raw = '0x00'",
      "amount_atomic = '1e4'",
      "amount_atomic = '-1'",
      "attempts = -1",
      "attempts = 'none'",
      "request = 'not JSON'",
    ]) {
      expect(() => database.exec(`UPDATE payments SET ${change}`), change).toThrow();
    }
    database.close();
  });

  it("keeps its payments when an older version of the program wrote it", async () => {
    const ledger = await open();
    const [signed, begun] = [examplePayment(1), examplePayment(2)];
    await bring(ledger, signed, "signed");
    await bring(ledger, begun, "begun");
    await sign(ledger, begun);
    await ledger.close();
    const database = new DatabaseSync(path);
    database.exec(`ALTER TABLE payments DROP COLUMN target;
                   ALTER TABLE payments DROP COLUMN served_target; PRAGMA user_version = 1`);
    database.close();
    const newer = await open("second");
    expect(await newer.claim(signed.key, termsOf(signed))).toEqual({
      kind: "unresolved",
      terms: termsOf(signed, { target: "/premium-data" }),
    });
    expect(await word(newer.begin(begun.key, begun.request, CALLER))).toBe("resume");
    await newer.close();
  });

  it("gives recovery every row that can be read, and tells about the others", async () => {
    const unreadable: string[] = [];
    const onUnreadable = (key: string, reason: string): void => {
      unreadable.push(`${key}: ${reason}`);
    };
    const ledger = await openSqliteLedger({ path, clock, bootId: "first", onUnreadable });
    const payments = [1, 2, 3, 4].map(examplePayment);
    for (const payment of payments) await bring(ledger, payment, "signed");
    for (const { key } of payments.slice(2)) await ledger.failed(key, FAILURE);
    const [good, bad, failed, worse] = payments.map(({ key }) => key);
    const database = new DatabaseSync(path);
    const spoil = (change: string, key = ""): unknown =>
      database.prepare(`UPDATE payments SET ${change} WHERE payment_key = ?`).run(key);
    spoil("request = '{}'", bad);
    spoil("transactions = '[]'", worse);
    expect((await ledger.unfinished()).map(({ key }) => key)).toEqual([good]);
    expect(unreadable).toEqual([expect.stringMatching(`^${bad}: stored request: `)]);
    expect(await ledger.unusedNonces(NETWORK, ACCOUNT, 0)).toEqual([signWith(2)]);
    expect(unreadable[1]).toBe(`${worse}: a stored payment has no readable transaction`);
    spoil("transactions = '[]'", failed);
    const silent = await openSqliteLedger({ path, clock, bootId: "first", shared: true });
    expect(await silent.unusedNonces(NETWORK, ACCOUNT, 0)).toEqual([]);
    await silent.close();
    database.close();
    await ledger.close();
  });

  it("is refused when a newer version of the program wrote it", async () => {
    await (await open()).close();
    const database = new DatabaseSync(path);
    database.exec("PRAGMA user_version = 99");
    database.close();
    await expect(open()).rejects.toThrow(LedgerUnavailable);
    await expect(open()).rejects.toThrow("schema version 99, newer than");
  });

  it("is refused when it is no database", async () => {
    await writeFile(path, "not a database ".repeat(1000));
    await expect(open()).rejects.toMatchObject({
      code: "LEDGER_UNAVAILABLE",
      cause: expect.any(Error),
    });
  });

  it("is refused when its folder cannot be made", async () => {
    await writeFile(join(folder, "file"), "");
    path = join(folder, "file", "ledger.db");
    await expect(open()).rejects.toMatchObject({ code: "LEDGER_UNAVAILABLE" });
  });

  it("takes no claim while another process holds the lock, and takes it afterwards", async () => {
    const ledger = await open();
    const payment = examplePayment(1);
    const other = new DatabaseSync(path);
    other.exec("BEGIN IMMEDIATE");
    const refused = ledger.claim(payment.key, termsOf(payment));
    await expect(refused).rejects.toMatchObject({ code: "LEDGER_UNAVAILABLE" });
    other.exec("ROLLBACK");
    other.close();
    expect(await word(ledger.claim(payment.key, termsOf(payment)))).toBe("granted");
    await ledger.close();
  });

  it(
    "holds every acknowledged step of a process that was killed at any moment",
    { timeout: 60_000 },
    async () => {
      const moments = fc.sample(fc.integer({ min: 1, max: 400 }), 8);
      const nonces: number[] = [];
      for (const [round, most] of moments.entries()) {
        const [bootId, first] = [`round ${round}`, 1 + round * 10_000];
        const command = [process.execPath, CHILD, path, bootId, String(first)];
        const lines = await acknowledged(command, most);
        expect(lines.length).toBeGreaterThanOrEqual(most);

        const ledger = await open(bootId);
        for (const number of numbers(lines, "claimed")) {
          expect(await ledger.isRecorded(examplePayment(number).key)).toBe(true);
        }
        await ledger.close();
        const next = await open("after");
        const settled = new Set(numbers(lines, "settled"));
        for (const number of numbers(lines, "signed")) {
          const payment = examplePayment(number);
          const kind = await word(next.claim(payment.key, termsOf(payment)));
          expect(settled.has(number) ? ["settled"] : ["unresolved", "settled"]).toContain(kind);
        }
        for (const line of lines.filter((each) => each.startsWith("signed "))) {
          nonces.push(Number(line.split(" ")[2]));
        }
        const stored = await next.nextAccountNonce(NETWORK, ACCOUNT);
        expect(stored ?? 0).toBeGreaterThan(nonces.at(-1) ?? -1);
        await next.close();
      }
      expect(new Set(nonces).size).toBe(nonces.length);
      const database = new DatabaseSync(path);
      const count = database.prepare(
        "SELECT count(*) AS n, max(account_nonce) AS last FROM payments",
      );
      expect(count.get()).toMatchObject({ n: Number(count.get()?.last) + 1 });
      database.close();
    },
  );

  it("keeps what it acknowledged when the disk is full, and says that it is unavailable", async () => {
    const limited = 'ulimit -f 400 && exec "$0" "$@"';
    const command = ["bash", "-c", limited, process.execPath, CHILD, path, "first", "0"];
    const lines = await acknowledged(command, Number.POSITIVE_INFINITY);
    expect(lines.at(-1)).toMatch(/^failed LEDGER_UNAVAILABLE /);
    expect(lines.length).toBeGreaterThan(10);
    const ledger = await open();
    for (const number of numbers(lines, "claimed")) {
      expect(await ledger.isRecorded(examplePayment(number).key)).toBe(true);
    }
    await bring(ledger, examplePayment(10_000), "claimed");
    await sign(ledger, examplePayment(10_000));
    await ledger.close();
  });
});
