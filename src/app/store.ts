/** Configuration -> the ledger that `store` names, opened for one life of this process. */
import { randomUUID } from "node:crypto";
import type { Config } from "../config/config.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { openSqliteLedger } from "../ledger/sqlite/sqlite.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Time } from "../time/time.ts";

interface Ground {
  readonly logger: Logger;
  readonly time: Time;
}

/** Throws `LedgerUnavailable` where it cannot be opened, or another process holds the file. */
export async function openLedger(
  { store, webhooks }: Pick<Config, "store" | "webhooks">,
  ground: Ground,
): Promise<Ledger> {
  const ledger = await open(store, ground);
  ledger.outbox.address(webhooks);
  return ledger;
}

async function open(store: Config["store"], { logger, time }: Ground): Promise<Ledger> {
  const life = randomUUID();
  const onUnreadable = (key: string, reason: string): void => {
    logger.error({ key, reason }, "a payment in the ledger cannot be read; look at it");
  };
  if (store.kind === "sqlite") {
    const onUnstored = (err: unknown): void => {
      logger.error({ err }, "the ledger cannot store its newest steps yet; see to its disk");
    };
    return openSqliteLedger({ path: store.path, time, life, onUnreadable, onUnstored });
  }
  // Its driver is loaded by those who need it.
  const { openPostgresLedger } = await import("../ledger/postgres/postgres.ts");
  return openPostgresLedger({ url: store.url.reveal(), time, life, logger, onUnreadable });
}
