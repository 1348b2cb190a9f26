/**
 * A process to be killed: takes payments from `first` on through the ledger at `path`, several at a time and
 * for ever, and prints each step once the ledger has acknowledged it. Ends by itself where the ledger fails.
 */
import { writeSync } from "node:fs";
import { LedgerUnavailable } from "../../../src/ledger/ledger.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite/sqlite.ts";
import { systemTime } from "../../../src/time/time.ts";
import { examplePayment } from "./example-payment.ts";
import { keep, SETTLEMENT, sign, termsOf } from "./ledger-driver.ts";

const LANES = 4;

const [path = "", life = "", first = "0"] = process.argv.slice(2);
const print = (line: string): void => void writeSync(1, `${line}\n`);

try {
  const ledger = await openSqliteLedger({ path, life, time: systemTime });
  const walk = async (lane: number): Promise<never> => {
    for (let number = Number(first) + lane; ; number += LANES) {
      const payment = examplePayment(number);
      await ledger.step(payment.key, { kind: "claim", terms: termsOf(payment) });
      print(`claimed ${number}`);
      const { variants } = await sign(ledger, [payment]);
      print(`signed ${number} ${variants[0]?.accountNonce}`);
      if (number % 3 === 0) continue;
      await ledger.step(payment.key, { kind: "settled", settlement: SETTLEMENT });
      print(`settled ${number}`);
      await ledger.step(payment.key, { kind: "delivering" });
      print(`delivering ${number}`);
      if (number % 3 === 1) continue;
      await keep(ledger, payment);
      print(`delivered ${number}`);
    }
  };
  await Promise.all(Array.from({ length: LANES }, (_, lane) => walk(lane)));
} catch (error) {
  if (!(error instanceof LedgerUnavailable)) throw error;
  print(`failed ${error.code} ${error.message}`);
  process.exit(0);
}
