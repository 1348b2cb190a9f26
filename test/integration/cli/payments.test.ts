/** `coinslot payments` as a program, on real ledgers that a gateway has open at the same time. */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import { openPostgresLedger } from "../../../src/ledger/postgres/postgres.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite/sqlite.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { systemTime } from "../../../src/time/time.ts";
import { startPostgres } from "../../support/postgres.ts";
import { runCoinslot, type Finished } from "../../support/serve.ts";
import { examplePayment, PAYER } from "../../unit/ledger/example-payment.ts";
import { ACCOUNT as SIGNER, bring, NETWORK, termsOf } from "../../unit/ledger/ledger-driver.ts";
import { runHere } from "./run-here.ts";
import { ACCOUNT, hashOf, HOSTILE, MinuteTime, prepare, PREPARED } from "./prepared-ledger.ts";
import type { Prepared } from "./prepared-ledger.ts";

const CONFIG = `
facilitator:
  listen: 127.0.0.1:0
  embedded:
    networks:
      base-sepolia: { rpc: ["http://127.0.0.1:1"], signers: [env:KEY] }
`;
const ENV = { KEY: `0x${"5a".repeat(32)}` };
const PASSWORD = "correct-horse";

interface Place {
  readonly folder: string;
  readonly closing: AsyncDisposableStack;
}

interface Store {
  /** As in the configuration. */
  readonly store: string;
  readonly open: (time: MinuteTime) => Promise<Ledger>;
}

const STORES: Readonly<Record<string, (place: Place) => Promise<Store>>> = {
  async SQLite({ folder }) {
    const path = join(folder, "ledger.db");
    const open = (time: MinuteTime) => openSqliteLedger({ path, time, life: randomUUID() });
    return { store: `sqlite:${path}`, open };
  },
  async PostgreSQL({ closing }) {
    const server = closing.use(await startPostgres());
    const url = await server.database();
    const logger = createLogger({ level: "silent", format: "json" });
    const open = (time: MinuteTime) => {
      return openPostgresLedger({ url, time, life: randomUUID(), logger });
    };
    return { store: url, open };
  },
};

interface Listed {
  readonly payments: readonly Readonly<Record<string, unknown>>[];
  readonly next: string | null;
}

function keysOf({ payments }: Listed): readonly unknown[] {
  return payments.map(({ key }) => key);
}

describe.each(Object.entries(STORES))("payments in %s", (_, openStore) => {
  const closing = new AsyncDisposableStack();
  let file: string;
  let prepared: Prepared;

  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), "coinslot-payments-"));
    closing.defer(() => rm(folder, { recursive: true, force: true }));
    const { store, open } = await openStore({ folder, closing });
    const time = new MinuteTime();
    const ledger = await open(time);
    // Open to the end, as a gateway has it.
    closing.defer(() => ledger.close());
    prepared = await prepare(ledger, time);
    // The newest steps are stored by now, and not a moment later.
    await ledger.books.counts();
    file = join(folder, "gateway.yaml");
    await writeFile(file, `${CONFIG}store: ${store}\n`);
  });

  afterAll(async () => {
    await closing.disposeAsync();
  });

  const payments = (...options: readonly string[]): Promise<Finished> =>
    runHere(["payments", file, ...options], ENV);

  const list = async (...options: readonly string[]): Promise<Listed> => {
    const { code, stdout, stderr } = await payments("--json", ...options);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const document: Listed = JSON.parse(stdout);
    return document;
  };

  test("are listed newest first in a table for people", async () => {
    const { code, stdout, stderr } = await runCoinslot(["payments", file], ENV);

    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const lines = stdout.trimEnd().split("\n");
    expect(lines).toHaveLength(1 + PREPARED);
    expect(lines[0]).toMatch(/^CLAIMED +STATE +TRIES +AMOUNT +NETWORK +PAYER +BOUGHT +NONCE$/);
    expect(lines[1]).toMatch(
      /^2025-08-01 12:06:00Z  SETTLED +0 +0\.01 USDC +base-sepolia +0x857b…6b66 +\(settled for others\) +0x0+7$/,
    );
    expect(lines[7]).toMatch(/^2025-08-01 12:00:00Z  DELIVERED +1 .* GET \/weather +0x0+1$/);
    expect(stdout).not.toContain("\u001b");
  });

  test("have every member in JSON", async () => {
    const { payments: found, next } = await list();

    expect(next).toBeNull();
    expect(found).toHaveLength(PREPARED);
    expect(found.at(-1)).toEqual({
      key: prepared.delivered.key,
      state: "DELIVERED",
      network: "base-sepolia",
      asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
      symbol: "USDC",
      amountAtomic: "10000",
      amount: "0.01",
      payer: "0x857b06519E91e3A54538791bDbb0E22373e36b66",
      payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
      binding: "GET /weather",
      target: expect.stringMatching(/^\/weather\?~[\w-]{22}$/),
      facilitator: null,
      transaction: hashOf(1),
      heldTransaction: null,
      refund: null,
      isRefund: false,
      attempts: 1,
      failureCode: null,
      failureDetail: null,
      claimedAt: "2025-08-01T12:00:00.000Z",
      updatedAt: "2025-08-01T12:00:00.000Z",
    });
  });

  test("are filtered", async () => {
    const { undelivered, exhausted, failed, signed, handedOver, settledForOthers } = prepared;
    expect(keysOf(await list("--undelivered"))).toEqual([exhausted.key, undelivered.key]);
    expect(keysOf(await list("--unrefunded"))).toEqual([]);
    expect(keysOf(await list("--state", "signed"))).toEqual([handedOver.key, signed.key]);
    expect(keysOf(await list("--state", "FAILED,SIGNED"))).toEqual([
      handedOver.key,
      signed.key,
      failed.key,
    ]);
    expect(keysOf(await list("--since", "2025-08-01T12:06:00Z"))).toEqual([settledForOthers.key]);
    expect(keysOf(await list("--since", "1s"))).toEqual([]);
    expect(keysOf(await list("--network", "base"))).toEqual([]);
    expect((await list("--network", "base-sepolia")).payments).toHaveLength(PREPARED);
    const payer = "0x857B06519E91E3A54538791BDBB0E22373E36B66".replace("0X", "0x");
    expect((await list("--payer", payer)).payments).toHaveLength(PREPARED);
    expect(keysOf(await list("--payer", `0x${"12".repeat(20)}`))).toEqual([]);
  });

  test("come in pages, each payment once", async () => {
    const seen: unknown[] = [];
    let next: string | null | undefined;
    for (let pages = 0; next !== null && pages < 10; pages += 1) {
      const page = await list("--limit", "3", ...(next === undefined ? [] : ["--after", next]));
      seen.push(...keysOf(page));
      ({ next } = page);
    }

    expect(seen).toEqual(keysOf(await list()));
    const { stdout, stderr } = await payments("--limit", "2");
    expect(stdout.trimEnd().split("\n")).toHaveLength(3);
    expect(stderr).toContain(`--after ${prepared.handedOver.key}`);
  });

  test("are none when none fits, which is no failure", async () => {
    expect(await payments("--network", "polygon")).toEqual({
      code: 0,
      stdout: "no payments\n",
      stderr: "",
    });
  });

  test("let no text of strangers reach the terminal, in no form", async () => {
    const forms = [[], ["--json"], ["--csv"], ["--show", prepared.failed.key]];
    for (const form of forms) {
      const { code, stdout } = await payments(...form);
      expect(code).toBe(0);
      expect(stdout.replaceAll(/\r?\n/g, "")).not.toMatch(/[\p{Cc}\p{Cf}]/u);
      expect(stdout).not.toMatch(/^fake line/m);
    }
    const failed = (await list("--state", "FAILED")).payments[0];
    expect(failed?.["failureDetail"]).toBe(HOSTILE);
  });

  test("are CSV with a line of names", async () => {
    const { stdout, stderr } = await payments("--csv", "--limit", "1");

    const [names = "", row = "", end] = stdout.split("\r\n");
    expect(end).toBe("");
    expect(names.split(",").slice(0, 3)).toEqual(["key", "state", "network"]);
    expect(row.split(",")).toHaveLength(names.split(",").length);
    expect(row.startsWith(`${prepared.settledForOthers.key},SETTLED,base-sepolia,`)).toBe(true);
    expect(stderr).toContain("--after");
  });

  test.each([
    ["its key", () => prepared.signed.key],
    ["its nonce", () => `0x${(5).toString(16).padStart(64, "0")}`],
    ["a transaction that was signed for it", () => hashOf(50)],
    ["another one in capitals", () => hashOf(51).toUpperCase().replace("0X", "0x")],
  ])("are shown one by one: by %s", async (_by, name) => {
    const { code, stdout } = await payments("--show", name());

    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^payment +${prepared.signed.key}$`, "m"));
    expect(stdout).toMatch(/^amount +0\.01 USDC \(10000 atomic units of 0x036C/m);
    expect(stdout).toContain(`account  ${ACCOUNT}, nonce 41`);
    expect(stdout).toContain(`signed   ${hashOf(50)}\n  signed   ${hashOf(51)}`);
    expect(stdout).toMatch(/history\n {2}2025-08-01 12:04:00Z {2}CLAIMED {5}GET \/weather {2}\(/);
    expect(stdout).toContain("what to do\n  signed by us, not yet known to be in a block");
  });

  test("say what is to be done about each", async () => {
    const { delivered, undelivered, exhausted, failed, handedOver, settledForOthers } = prepared;
    const wanted = [
      [delivered, "paid and delivered, nothing is left to do"],
      [undelivered, "the buyer can send the same payment again from the same address"],
      [exhausted, "paid, not delivered, and no attempt is left"],
      [failed, "failed for certain, no money moved"],
      [handedOver, "handed to https://facilitator.example.com, which may have moved the money"],
      [settledForOthers, "paid; another resource server asked"],
    ] as const;
    for (const [{ key }, advice] of wanted) {
      const { stdout } = await payments("--json", "--show", key);
      const document: Readonly<Record<string, unknown>> = JSON.parse(stdout);
      expect(document).toMatchObject({ key, advice: expect.stringContaining(advice) });
      expect(document["events"]).not.toEqual([]);
    }
  });

  test("that are not there are not found", async () => {
    const { code, stdout, stderr } = await payments("--show", hashOf(99));

    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toBe("no payment has this key, transaction or nonce\n");
  });
});

describe("coinslot payments", () => {
  const folders = new AsyncDisposableStack();
  afterAll(async () => {
    await folders.disposeAsync();
  });

  async function write(store: string): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), "coinslot-payments-"));
    folders.defer(() => rm(folder, { recursive: true, force: true }));
    const file = join(folder, "gateway.yaml");
    await writeFile(file, `${CONFIG}store: ${store}\n`);
    return file;
  }

  test.each([
    [["--state", "PAID"], "The states are CLAIMED"],
    [["--since", "yesterday"], "Write 24h"],
    [["--limit", "0"], "A limit is"],
    [["--network", "mainnet"], "The networks are"],
    [["--payer", "me"], "A payer is an address"],
    [["--json", "--csv"], "cannot be used with"],
    [["--show", "0x1", "--undelivered"], "cannot be used with"],
    [["--shwo", "0x1"], "unknown option"],
  ])("refuses a wrong command line: %j", async (options, message) => {
    const { code, stdout, stderr } = await runHere(["payments", "x.yaml", ...options], ENV);

    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(message);
  });

  test("refuses a configuration as check does", async () => {
    const { code, stderr } = await runHere(["payments", await write("mysql://db/x")], ENV);

    expect(code).toBe(1);
    expect(stderr).toContain("error: store must be sqlite:PATH or postgres://");
  });

  test("says that there is no ledger, and makes none", async () => {
    const file = await write("sqlite:./none.db");
    for (let times = 0; times < 2; times += 1) {
      const { code, stdout, stderr } = await runCoinslot(["payments", file], ENV);

      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toMatch(/^coinslot payments: .+\n$/);
    }
  });

  test("ends without complaint when its reader has seen enough", async () => {
    const file = await write("sqlite:./ledger.db");
    const path = join(dirname(file), "ledger.db");
    const ledger = await openSqliteLedger({ path, time: systemTime, life: randomUUID() });
    // More than a pipe holds.
    for (let number = 0; number < 200; number += 1) {
      const { key, request } = examplePayment(number);
      const sale = { binding: "GET /", target: "/", claimant: "" };
      const terms = { ...sale, idempotencyKey: `key ${number}`, request };
      await ledger.step(key, { kind: "claim", terms });
    }
    await ledger.close();
    const words = [join(import.meta.dirname, "../../../src/main.ts"), "payments", file, "--json"];
    const child = spawn(process.execPath, [...words, "--limit", "200"], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...ENV },
    });
    const ended = once(child, "close");
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    await once(child.stdout, "readable");
    child.stdout.destroy();

    expect(await ended).toEqual([0, null]);
    expect(stderr).toBe("");
  });

  test("says that a database server cannot be reached, and never its password", async () => {
    const file = await write(`postgres://coinslot:${PASSWORD}@127.0.0.1:1/coinslot`);

    const { code, stdout, stderr } = await runCoinslot(["payments", file], ENV);

    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(/^coinslot payments: .+\n$/);
    expect(stderr).not.toContain(PASSWORD);
  });
});

describe.each(Object.entries(STORES))("a payer who asks to be forgotten in %s", (_, openStore) => {
  test("is, beside the process that has the ledger, once nothing of his is under way", async () => {
    await using closing = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), "coinslot-forget-"));
    closing.defer(() => rm(folder, { recursive: true, force: true }));
    const { store, open } = await openStore({ folder, closing });
    const file = join(folder, "gateway.yaml");
    await writeFile(file, `${CONFIG}store: ${store}\n`);
    const time = new MinuteTime();
    const realMs = Date.now();
    time.nowMs = realMs - 3 * 86_400_000;
    const ledger = await open(time);
    const [over, owed, newest] = [1, 2, 3].map((number) => examplePayment(number));
    if (!over || !owed || !newest) throw new TypeError("three payments");
    const close = async (): Promise<void> => {
      for (const { id } of await ledger.signing.unfinished(NETWORK, SIGNER)) {
        await ledger.signing.concluded(id, "CLOSED");
      }
    };
    await bring(ledger, over, "kept");
    await bring(ledger, owed, "settled");
    await close();
    time.nowMs += 86_400_000;
    const answering = setInterval(() => void ledger.upkeep.resolveAsked(), 10);
    closing.defer(() => clearInterval(answering));
    const forget = (...options: readonly string[]): Promise<Finished> =>
      runHere(["payments", file, "--forget", PAYER, ...options], ENV);

    const refused = await forget();
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toMatch(/^nothing is erased: 1 payments of this payer are not over/);
    expect(refused.stderr).toContain(`  ${owed.key}  SETTLED  --show tells more\n`);
    const json = JSON.parse((await forget("--json", "--dry-run")).stdout);
    expect(json).toMatchObject({ isTried: true, unfinished: 1, payments: 0 });
    expect((await ledger.books.list({ limit: 9 })).map(({ key }) => key)).toHaveLength(2);

    await ledger.step(owed.key, { kind: "delivering" });
    await ledger.step(owed.key, { kind: "delivered" });
    time.nowMs = realMs;
    const tried = await forget("--dry-run");
    expect(tried.stdout).toMatch(/^would be erased: 2 payments .*\(of 2 a digest stays\)/);
    expect(await ledger.books.list({ limit: 9 })).toHaveLength(2);
    const erased = await forget();
    expect(erased).toMatchObject({ code: 0, stderr: "" });
    expect(erased.stdout).toMatch(/^erased: 2 payments .* 2 signed transactions, 0 notes/);
    expect(erased.stdout).toContain("What stays, and why:");
    expect(await ledger.books.list({ limit: 9 })).toEqual([]);
    const claim = { kind: "claim", terms: termsOf(over) } as const;
    expect(await ledger.step(over.key, claim)).toMatchObject({ kind: "spent" });
    const shown = await runHere(["payments", file, "--show", over.key], ENV);
    expect(shown.stderr).toContain("paid in 0x");

    await bring(ledger, newest, "delivered");
    await close();
    const fromText = new Date(realMs + 86_400_000).toISOString();
    expect((await forget()).stderr).toContain(`  ${newest.key}  DELIVERED  from ${fromText}\n`);
    clearInterval(answering);
    await ledger.close();
    expect((await forget()).code).toBe(1);
  });
});

test("who buys while he is being forgotten is told of, with what has gone by then", async () => {
  await using closing = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "coinslot-forget-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const path = join(folder, "ledger.db");
  const file = join(folder, "gateway.yaml");
  await writeFile(file, `${CONFIG}store: sqlite:${path}\n`);
  const time = new MinuteTime();
  const realMs = Date.now();
  time.nowMs = realMs - 40 * 86_400_000;
  const ledger = await openSqliteLedger({ path, time, life: "one" });
  closing.defer(() => ledger.close());
  for (let number = 1; number <= 30; number += 1) {
    await bring(ledger, examplePayment(number), "claimfailed");
  }
  await ledger.books.counts();
  time.nowMs = realMs;
  let answered = 0;
  const answering = (async () => {
    for (let look = 0; look < 1_000 && answered < 5; look += 1) {
      answered += await ledger.upkeep.resolveAsked();
      // What would go was looked at, in three steps, and the first one of those that erase is done.
      if (answered === 4) await bring(ledger, examplePayment(999), "claimed");
      await systemTime.sleep(10);
    }
  })();
  const { code, stdout, stderr } = await runHere(["payments", file, "--forget", PAYER], ENV);
  await answering;
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toMatch(/^25 payments are erased, and no more: 1 payments of this payer are not/);
});

test("what is forgotten is not in a SQLite file any more once that is made anew", async () => {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-forget-"));
  const path = join(folder, "ledger.db");
  const time = new MinuteTime();
  const ledger = await openSqliteLedger({ path, time, life: "one" });
  await bring(ledger, examplePayment(1), "kept");
  for (const { id } of await ledger.signing.unfinished(NETWORK, SIGNER)) {
    await ledger.signing.concluded(id, "CLOSED");
  }
  await ledger.books.counts();
  const name = PAYER.slice(2).toLowerCase();
  const holdsName = async (): Promise<boolean> =>
    (await readFile(path)).toString("latin1").toLowerCase().includes(name);
  time.nowMs += 2 * 86_400_000;
  expect(await ledger.upkeep.forget({ payer: PAYER, isTried: true })).toMatchObject({
    payments: 1,
  });
  await ledger.close();
  expect(await holdsName()).toBe(true);
  const again = await openSqliteLedger({ path, time, life: "two" });
  expect(await again.upkeep.forget({ payer: PAYER, isTried: false })).toMatchObject({
    payments: 1,
  });
  await again.close();
  const database = new DatabaseSync(path);
  database.exec("VACUUM");
  database.close();
  expect(await holdsName()).toBe(false);
  await rm(folder, { recursive: true });
});

test.each([
  ["--dry-run"],
  ["--forget", "0x12"],
  ["--forget", PAYER, "--show", "KEY"],
  ["--forget", PAYER, "--state", "FAILED"],
])("what is no erasure is wrong usage: %s %s", async (...options) => {
  expect((await runHere(["payments", "gateway.yaml", ...options])).code).toBe(2);
});
