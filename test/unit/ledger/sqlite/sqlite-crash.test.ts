/** What an SQLite ledger holds after its process was killed, or its disk was full. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import * as fc from "fast-check";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Ledger } from "../../../../src/ledger/ledger.ts";
import { openSqliteLedger } from "../../../../src/ledger/sqlite/sqlite.ts";
import { systemTime } from "../../../../src/time/time.ts";
import { examplePayment } from "../example-payment.ts";
import { ACCOUNT, ASKED, bring, NETWORK, sign, termsOf, word } from "../ledger-driver.ts";

const CHILD = fileURLToPath(new URL("../crash-child.ts", import.meta.url));
const ROUNDS = 8;
/** More payments than a round can take. */
const APART = 100_000;

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-crash-"));
  path = join(folder, "ledger.db");
});

afterEach(async () => rm(folder, { recursive: true, force: true }));

const open = (life: string): Promise<Ledger> => openSqliteLedger({ path, life, time: systemTime });

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
function numbers(lines: readonly string[], step: string): ReadonlySet<number> {
  const words = lines.map((line) => line.split(" "));
  return new Set(words.filter(([each]) => each === step).map(([, number]) => Number(number)));
}

/** What a later life may find of a payment by the last step that was acknowledged: that or one further. */
const FOUND: readonly (readonly [string, readonly string[]])[] = [
  ["delivered", ["settled", "sold"]],
  ["delivering", ["settled", "sold"]],
  // Settled and delivered are not stored at once.
  ["settled", ["unresolved", "settled", "sold"]],
  ["signed", ["unresolved", "settled"]],
  ["claimed", ["granted", "unresolved", "settled"]],
];

it(
  "holds every acknowledged step of a process that was killed at any moment",
  { timeout: 60_000 },
  async () => {
    const nonces: number[] = [];
    for (const [round, most] of fc.sample(fc.integer({ min: 1, max: 600 }), ROUNDS).entries()) {
      const command = [process.execPath, CHILD, path, `round ${round}`, String(round * APART)];
      const lines = await acknowledged(command, most);
      expect(lines.length).toBeGreaterThanOrEqual(most);

      const ledger = await open(`after ${round}`);
      const known = new Set<number>();
      for (const [step, kinds] of FOUND) {
        for (const number of numbers(lines, step)) {
          if (known.has(number)) continue;
          known.add(number);
          const payment = examplePayment(number);
          const kind = await word(
            ledger.step(payment.key, {
              kind: "claim",
              terms: { ...termsOf(payment), target: ASKED.target },
            }),
          );
          expect({ number, step, fits: kinds.includes(kind), kind }).toMatchObject({ fits: true });
          if (kind === "granted") await ledger.step(payment.key, { kind: "released" });
          const events = (await ledger.books.show(payment.key))?.events.length ?? 0;
          expect(events > 0).toBe(kind !== "granted");
        }
      }
      for (const line of lines.filter((each) => each.startsWith("signed "))) {
        nonces.push(Number(line.split(" ")[2]));
      }
      const next = await ledger.signing.nextAccountNonce(NETWORK, ACCOUNT);
      expect(next ?? 0).toBeGreaterThan(Math.max(-1, ...nonces));
      await ledger.close();
    }
    expect(new Set(nonces).size).toBe(nonces.length);
    const database = new DatabaseSync(path);
    const stored = database.prepare(
      "SELECT count(*) AS count, max(account_nonce) AS last FROM submissions",
    );
    expect(stored.get()?.count).toBe(Number(stored.get()?.last) + 1);
    expect(database.prepare("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
    expect(database.prepare("PRAGMA foreign_key_check").all()).toEqual([]);
    database.close();
  },
);

it("keeps what it acknowledged when the disk is full, and says that it is unavailable", async () => {
  const limited = 'ulimit -f 2400 && exec "$0" "$@"';
  const command = ["bash", "-c", limited, process.execPath, CHILD, path, "first", "0"];
  const lines = await acknowledged(command, Number.POSITIVE_INFINITY);
  expect(lines.at(-1)).toMatch(/^failed LEDGER_UNAVAILABLE /);
  expect(numbers(lines, "delivered").size).toBeGreaterThan(3);
  const ledger = await open("first");
  for (const number of numbers(lines, "signed")) {
    expect(await ledger.books.show(examplePayment(number).key)).toBeDefined();
  }
  for (const number of numbers(lines, "delivered")) {
    const { state } = (await ledger.books.show(examplePayment(number).key)) ?? {};
    expect(state).toMatch(/^(?:DELIVERING|DELIVERED)$/);
  }
  await bring(ledger, examplePayment(APART), "claimed");
  await sign(ledger, [examplePayment(APART)]);
  await ledger.close();
});
