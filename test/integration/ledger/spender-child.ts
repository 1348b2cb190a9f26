/**
 * A replica that spends one balance, to be killed: some sessions at once, on the leases of its own life and on those of two
 * workers' lives. Each answer adds a byte to a file before anything else happens, so that it is known whatever kills us.
 */
import { openSync, writeSync } from "node:fs";
import { openPostgresLedger } from "../../../src/ledger/postgres/postgres.ts";
import { PotLeases, PotShare } from "../../../src/payments/credits/pot-leases.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { systemTime } from "../../../src/time/time.ts";

export interface SpenderOrder {
  readonly url: string;
  readonly life: string;
  readonly pot: string;
  readonly sessions: number;
  /** Atomic units, decimal digits. */
  readonly each: string;
  readonly atRisk: string;
  /** Where answers are counted. */
  readonly file: string;
}

const REAP_MS = 300;
/** Before a session that was told that there is too little asks again, milliseconds. */
const AGAIN_MS = 50;

async function spend({ url, life, ...order }: SpenderOrder, stop: AbortSignal): Promise<void> {
  const logger = createLogger({ level: "silent", format: "json" });
  const time = systemTime;
  const ledger = await openPostgresLedger({ url, life, time, logger });
  const atRisk = (): bigint => BigInt(order.atRisk);
  const lives = [ledger.pots, ledger.worker("1").pots, ledger.worker("2").pots];
  const leases = lives.map((pots) => new PotLeases({ pots, atRisk, time, logger }));
  const answers = openSync(order.file, "a");
  const max = BigInt(order.each);
  const reap = async (): Promise<void> => {
    while (!stop.aborted) {
      await ledger.upkeep.reap();
      await time.sleep(REAP_MS, stop);
    }
  };
  const session = async (own: PotLeases | undefined): Promise<void> => {
    while (!stop.aborted) {
      const reserved = await own?.reserve(order.pot, { max });
      if (!(reserved instanceof PotShare)) {
        await time.sleep(AGAIN_MS, stop);
        continue;
      }
      // As long as a request takes.
      await time.sleep(1);
      if (reserved.settle(max, life)) writeSync(answers, "+");
    }
  };
  process.send?.("spending");
  const sessions = Array.from({ length: order.sessions }, (_, number) =>
    session(leases[number % leases.length]),
  );
  await Promise.all([reap(), ...sessions]);
  await Promise.all(leases.map((each) => each.drain()));
  await ledger.close();
  process.send?.("done");
  process.disconnect();
}

const stopping = new AbortController();
process.once("message", (order: SpenderOrder) => {
  process.once("message", () => stopping.abort());
  void spend(order, stopping.signal);
});
process.on("disconnect", () => process.exit());
