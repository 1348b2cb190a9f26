/**
 * What a request from a balance costs the process that serves it: `node test/bench/credits.ts`. As many debits as there are,
 * in turns of a hundred at once as requests come, on a SQLite file, beside the same turns without any, each in a process
 * of its own: CPU of the whole process with the writes, and beside it that of a question to the ledger for each debit.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { openSqliteLedger } from "../../src/ledger/sqlite/sqlite.ts";
import type { Ledger } from "../../src/ledger/ledger.ts";
import { creditsPot } from "../../src/ledger/pots.ts";
import { PotLeases, PotShare } from "../../src/payments/credits/pot-leases.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { systemTime } from "../../src/time/time.ts";
import { networkOf } from "../../src/x402/network.ts";
import { examplePayment } from "../unit/ledger/example-payment.ts";
import { SETTLEMENT, termsOf } from "../unit/ledger/ledger-driver.ts";
import { sized } from "./size.ts";

const DEBITS = sized(500_000, 20_000);
/** Each of these is a write of its own. */
const QUESTIONS = sized(20_000, 200);
const TOGETHER = 100;
const BUYERS = sized([1, 100, 5_000], [1, 10]);
const AMOUNT = 10_000_000_000n;

type Way = "nothing" | "credits" | "questions";

interface Told {
  readonly way: Way;
  readonly buyers: number;
  /** Microseconds of CPU for one debit, and debits in a second. */
  readonly micros: number;
  readonly rate: number;
}

function potOf(buyer: number): string {
  return creditsPot(networkOf("base"), `buyer ${buyer}`);
}

async function fill(ledger: Ledger, buyers: number): Promise<void> {
  for (let buyer = 0; buyer < buyers; buyer += 1) {
    const { key, request } = examplePayment(buyer + 1);
    const fills = { pot: potOf(buyer), amount: AMOUNT };
    await ledger.step(key, { kind: "claim", terms: termsOf({ request }, { fills }) });
    await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
  }
}

async function measure(way: Way, buyers: number): Promise<Told> {
  const folder = mkdtempSync(join(tmpdir(), "coinslot-bench-"));
  try {
    const path = join(folder, "ledger.db");
    const time = systemTime;
    const ledger = await openSqliteLedger({ path, time, life: "bench" });
    await fill(ledger, buyers);
    const logger = createLogger({ level: "silent", format: "json" });
    const leases = new PotLeases({ pots: ledger.pots, atRisk: () => 1_000_000n, time, logger });
    const names = Array.from({ length: buyers }, (_, buyer) => potOf(buyer));
    let number = 0;
    const debit = async (): Promise<void> => {
      const pot = names[(number += 1) % buyers] ?? "";
      const found = leases.reserve(pot, { max: 100n });
      const reserved = found instanceof PotShare ? found : await found;
      if (!(reserved instanceof PotShare)) throw new Error(`not reserved: ${reserved}`);
      if (!reserved.settle(100n, "GET /weather")) throw new Error("not debited");
    };
    const ask = async (): Promise<void> => {
      number += 1;
      const uses = [{ route: "GET /weather", amount: 100n, count: 1 }];
      const asked = { pot: names[0] ?? "", isHeld: true, base: 0n, first: 0n, wish: AMOUNT / 2n };
      await ledger.pots.draw([{ ...asked, turn: number, chunks: [{ turn: number, uses }] }]);
    };
    if (way === "questions") {
      const lease = { pot: names[0] ?? "", chunks: [], isHeld: false, base: 0n, first: 0n };
      await ledger.pots.draw([{ ...lease, turn: (number += 1), wish: AMOUNT / 2n }]);
    }
    const work = { nothing: async () => undefined, credits: debit, questions: ask }[way];
    const count = way === "questions" ? QUESTIONS : DEBITS;
    const before = process.cpuUsage();
    const began = performance.now();
    for (let done = 0; done < count; done += TOGETHER) {
      await Promise.all(Array.from({ length: TOGETHER }, work));
      await turn();
    }
    await leases.drain();
    const ms = performance.now() - began;
    const { user, system } = process.cpuUsage(before);
    await ledger.close();
    return { way, buyers, micros: (user + system) / count, rate: (count / ms) * 1_000 };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function apart(way: Way, buyers: number): Promise<Told> {
  const child = fork(import.meta.filename, [way, String(buyers)]);
  const [[told]] = await Promise.all([once(child, "message"), once(child, "exit")]);
  return told as Told;
}

const [way, buyers] = process.argv.slice(2);
if (way === undefined) {
  console.log(`${cpus()[0]?.model}, ${cpus().length} cores, Node ${process.version}`);
  for (const count of BUYERS) {
    const nothing = await apart("nothing", count);
    const { micros, rate } = await apart("credits", count);
    const more = (micros - nothing.micros).toFixed(2);
    console.log(`${count} buyers: ${Math.round(rate)} debits a second, ${more} µs of CPU each`);
  }
  const { micros, rate } = await apart("questions", 1);
  console.log(
    `a question to the ledger for each: ${Math.round(rate)} a second, ${micros.toFixed(1)} µs each`,
  );
} else {
  process.send?.(await measure(way as Way, Number(buyers)));
  process.disconnect();
}
