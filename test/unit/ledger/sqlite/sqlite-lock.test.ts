import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Ledger } from "../../../../src/ledger/ledger.ts";
import { SCHEMA_VERSION } from "../../../../src/ledger/sqlite/sqlite-schema.ts";
import { openSqliteLedger } from "../../../../src/ledger/sqlite/sqlite.ts";
import { systemTime } from "../../../../src/time/time.ts";
import { examplePayment } from "../example-payment.ts";
import { bring, termsOf, word } from "../ledger-driver.ts";

const CHILD = fileURLToPath(new URL("../crash-child.ts", import.meta.url));

describe("the lock of an SQLite ledger", () => {
  let folder: string;
  let path: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "coinslot-lock-"));
    path = join(folder, "ledger.db");
  });

  afterEach(async () => rm(folder, { recursive: true, force: true }));

  const open = (life: string, file = path): Promise<Ledger> =>
    openSqliteLedger({ path: file, time: systemTime, life });

  const refusal = { code: "LEDGER_UNAVAILABLE" };

  it("keeps a second process out, at once, and is free when the first one is killed", async () => {
    const child = spawn(process.execPath, [CHILD, path, "theirs", "0"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ended = once(child, "exit");
    try {
      await once(createInterface({ input: child.stdout }), "line");
      const times: number[] = [];
      for (let attempt = 0; attempt < 5; attempt += 1) {
        const before = performance.now();
        await expect(open("ours")).rejects.toThrow(`another process is using the ledger ${path}`);
        times.push(performance.now() - before);
      }
      expect(Math.min(...times)).toBeLessThan(500);
    } finally {
      child.kill("SIGKILL");
      await ended;
    }
    await (await open("ours")).close();
  });

  it("leaves the deliveries of the one that holds it alone", async () => {
    const ledger = await open("first");
    const payment = examplePayment(1);
    await bring(ledger, payment, "delivering");
    await expect(open("second")).rejects.toMatchObject(refusal);
    expect(await word(ledger.step(payment.key, { kind: "claim", terms: termsOf(payment) }))).toBe(
      "busy",
    );
    await ledger.step(payment.key, { kind: "delivered" });
    await ledger.close();
  });

  it("is held until the ledger is closed, and by no ledger that could not be opened", async () => {
    const ledger = await open("first");
    await expect(open("second")).rejects.toMatchObject(refusal);
    await ledger.close();
    const spoilt = new DatabaseSync(path);
    spoilt.exec("PRAGMA user_version = 99");
    await expect(open("second")).rejects.toThrow("schema version 99");
    spoilt.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`);
    spoilt.close();
    await (await open("third")).close();
  });

  it("is one for all names of the file", async () => {
    const ledger = await open("first");
    const link = join(folder, "link.db");
    await symlink(path, link);
    await expect(open("second", link)).rejects.toMatchObject(refusal);
    await expect(open("second", join(folder, ".", "ledger.db"))).rejects.toMatchObject(refusal);
    await ledger.close();
  });

  it("is not needed in memory", async () => {
    const ledgers = [await open("first", ":memory:"), await open("first", ":memory:")];
    for (const ledger of ledgers) await ledger.close();
  });

  it("is refused with the machine's reason where it cannot be made", async () => {
    await writeFile(`${path}-lock`, "not a database ".repeat(1000));
    await expect(open("first")).rejects.toThrow("the ledger's database: ");
  });
});
