/**
 * One replica as a process of its own, to be stopped and killed: opens the ledger that its parent names
 * and makes the calls that it is sent, one after another.
 */
import { openPostgresLedger } from "../../../src/ledger/postgres/postgres.ts";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { systemTime } from "../../../src/time/time.ts";
import { examplePayment } from "../../unit/ledger/example-payment.ts";
import { ACCOUNT, leaseOf, NETWORK, signWith, termsOf } from "../../unit/ledger/ledger-driver.ts";

/** `lease` is kept by the child; `sign` signs with the one that it leased last. */
export type Call = "lease" | "claim" | "sign" | "release";
export interface Asked {
  readonly call: Call;
  /** The example payment. */
  readonly payment: number;
}
export type Answered = { readonly value: unknown } | { readonly error: string };

const [url = "", life = ""] = process.argv.slice(2);
const logger = createLogger({ level: "silent", format: "json" });

async function answering(ledger: Ledger): Promise<(asked: Asked) => Promise<unknown>> {
  let lease = { network: NETWORK, address: ACCOUNT, epoch: 0 };
  return async ({ call, payment: number }) => {
    const payment = examplePayment(number);
    switch (call) {
      case "lease":
        lease = await leaseOf(ledger);
        return lease;
      case "claim":
        return ledger.step(payment.key, { kind: "claim", terms: termsOf(payment) });
      case "sign":
        return ledger.signing.signed([payment.key], { ...lease, seed: 0 }, (nonce) =>
          signWith(nonce),
        );
      case "release":
        return ledger.step(payment.key, { kind: "released" });
    }
  };
}

const answer = await answering(await openPostgresLedger({ url, life, time: systemTime, logger }));
const reply = async (asked: Asked): Promise<void> => {
  try {
    process.send?.({ value: (await answer(asked)) ?? null });
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : "";
    process.send?.({ error: `${String(code)} ${String(error)}` });
  }
};
let before: Promise<void> = Promise.resolve();
process.on("message", (asked: Asked) => {
  before = before.then(() => reply(asked));
});
process.on("disconnect", () => process.exit());
process.send?.({ value: "open" });
