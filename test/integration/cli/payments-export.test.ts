/** What `coinslot payments` writes for later, and what it tells of payments that have no row. */
import { randomUUID } from "node:crypto";
import { appendFile, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Archive } from "../../../src/app/archive.ts";
import { loadConfig } from "../../../src/config/config.ts";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite/sqlite.ts";
import type { Finished } from "../../support/serve.ts";
import { examplePayment } from "../../unit/ledger/example-payment.ts";
import { MinuteTime, prepare, type Prepared } from "./prepared-ledger.ts";
import { runHere } from "./run-here.ts";

const CONFIG = `facilitator: { listen: "127.0.0.1:0", remote: [{ url: "https://f.example.com" }] }\n`;

let folder: string;
let file: string;
let out: string;
let ledger: Ledger;
let time: MinuteTime;
let prepared: Prepared;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-export-"));
  const path = join(folder, "ledger.db");
  file = join(folder, "gateway.yaml");
  out = join(folder, "out", "payments.jsonl");
  await writeFile(file, `${CONFIG}store: { url: "sqlite:${path}", archive: ./archive }\n`);
  time = new MinuteTime();
  // Open to the end, as a gateway has it.
  ledger = await openSqliteLedger({ path, time, life: randomUUID() });
  prepared = await prepare(ledger, time);
  await ledger.books.counts();
});

afterEach(async () => {
  await ledger.close();
  await rm(folder, { recursive: true, force: true });
});

const payments = (...options: readonly string[]): Promise<Finished> =>
  runHere(["payments", file, ...options], {});

async function lines(path = out): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const text = await readFile(path, "utf8");
  expect(text.endsWith("\n") || text === "").toBe(true);
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => Object(JSON.parse(line)));
}

const keys = async (): Promise<readonly unknown[]> => (await lines()).map(({ key }) => key);

test("payments that are over are exported with all that the books know, for the owner alone", async () => {
  const { delivered, failed, settledForOthers } = prepared;
  const { code, stdout, stderr } = await payments("--export", out);
  expect({ code, stdout, stderr }).toEqual({
    code: 0,
    stdout: `3 payments written to ${out}\n`,
    stderr: "",
  });
  expect(await keys()).toEqual([delivered.key, failed.key, settledForOthers.key]);
  const shown: unknown = JSON.parse((await payments("--show", delivered.key, "--json")).stdout);
  expect({ ...(await lines())[0], advice: expect.anything() }).toEqual(shown);
  expect((await stat(out)).mode & 0o777).toBe(0o600);
});

test("an export goes on where it ended, though a power cut tore its last line", async () => {
  const { delivered, failed, settledForOthers } = prepared;
  await payments("--export", out, "--before", "2025-08-01T12:03:30Z");
  expect(await keys()).toEqual([delivered.key, failed.key]);
  await appendFile(out, `{"key":"base-sep${"x".repeat(200_000)}`);
  expect((await payments("--export", out)).stdout).toMatch(/^1 payments/);
  expect((await payments("--export", out)).stdout).toMatch(/^0 payments/);
  expect(await keys()).toEqual([delivered.key, failed.key, settledForOthers.key]);
});

test.each(["no JSON\n", `{"key":"k"}\n`, "[]\n", "null\n", "no line at all", `{"key":"k"}\nno`])(
  "nothing is added to a file that holds something else: %j",
  async (text) => {
    const other = join(folder, "notes.txt");
    await writeFile(other, text);
    const { code, stderr } = await payments("--export", other);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: `coinslot payments: ${other} holds something else than exported payments\n`,
    });
    expect(await readFile(other, "utf8")).toBe(text);
  },
);

test("what is swept is in the archive first, a file a month, and its key and transaction stay", async () => {
  const config = await loadConfig(file);
  if (!config.ok) throw new Error(config.text);
  const { archive: place } = config.config.keeping;
  expect(place).toBe(join(folder, "archive"));
  const archive = new Archive(place ?? "", () => config.config, time);
  time.nowMs += 86_400_000;
  const { payments: swept } = await ledger.upkeep.sweep({
    beforeMs: time.nowMs,
    from: undefined,
    archive: archive.add,
  });
  expect(swept).toBeGreaterThan(0);
  const archived = await lines(join(folder, "archive", "payments-2025-08.jsonl"));
  expect(archived).toHaveLength(swept);
  const { key, transaction } = archived[0] ?? {};
  expect(key).toBe(prepared.delivered.key);
  const { code, stderr } = await payments("--show", String(key));
  expect(code).toBe(1);
  expect(stderr).toContain(`paid in ${String(transaction)} and over`);
});

test("payments that were used elsewhere are listed with whose they are", async () => {
  expect((await payments("--used-elsewhere")).stdout).toBe("no payments\n");
  const { key, request } = examplePayment(77);
  await ledger.noteUsedElsewhere(key, { binding: "GET /weather", request });
  const { stdout } = await payments("--used-elsewhere");
  expect(stdout).toContain("0.01 USDC");
  expect(stdout).toContain(key);
  const { usedElsewhere } = JSON.parse((await payments("--used-elsewhere", "--json")).stdout);
  expect(usedElsewhere).toEqual([
    {
      key,
      network: "base-sepolia",
      asset: request.paymentRequirements.asset,
      symbol: "USDC",
      amountAtomic: "10000",
      amount: "0.01",
      payer: "0x857b06519E91e3A54538791bDbb0E22373e36b66",
      payTo: request.paymentRequirements.payTo,
      binding: "GET /weather",
      seenAt: new Date(time.nowMs).toISOString(),
    },
  ]);
});

test.each([
  [["--export", "x", "--json"], "cannot be used with"],
  [["--export", "x", "--state", "SIGNED"], "cannot be used with"],
  [["--used-elsewhere", "--show", "x"], "cannot be used with"],
  [["--export", "x", "--before", "soon"], "Write 24h"],
])("wrong options are refused: %j", async (options, message) => {
  const { code, stderr } = await payments(...options);
  expect(code).toBe(2);
  expect(stderr).toContain(message);
});
