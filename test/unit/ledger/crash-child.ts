/**
 * A process to be killed: takes payments from `first` on through the ledger at `path`, for ever, and
 * prints each step once the ledger has acknowledged it. Ends by itself where the ledger fails.
 */
import { writeSync } from "node:fs";
import { LedgerUnavailable } from "../../../src/ledger/ledger.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite.ts";
import { examplePayment } from "./example-payment.ts";
import { SETTLEMENT, sign, termsOf } from "./ledger-driver.ts";

const [path = "", bootId = "", first = "0"] = process.argv.slice(2);
const print = (line: string): void => void writeSync(1, `${line}\n`);

try {
  const ledger = await openSqliteLedger({ path, bootId, clock: Date.now });
  for (let number = Number(first); ; number += 1) {
    const payment = examplePayment(number);
    await ledger.claim(payment.key, termsOf(payment));
    print(`claimed ${number}`);
    const { accountNonce } = await sign(ledger, payment);
    print(`signed ${number} ${accountNonce}`);
    if (number % 3 === 0) continue;
    await ledger.settled(payment.key, SETTLEMENT);
    print(`settled ${number}`);
    await ledger.delivering(payment.key);
    print(`delivering ${number}`);
  }
} catch (error) {
  if (!(error instanceof LedgerUnavailable)) throw error;
  print(`failed ${error.code} ${error.message}`);
}
