/** What became of a delivery gets into the ledger, however long that fails. */
import { once } from "node:events";
import { LedgerConflict } from "../../ledger/ledger.ts";
import type { Logger } from "../../telemetry/logger.ts";
import type { Time } from "../../time/time.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";

/** Pauses before a delivery's end is stored again when the ledger fails, milliseconds: at first, and then. */
const RECORD_PAUSE_MS = 1_000;
const LATER_RECORD_PAUSE_MS = 10_000;
/** How many of these pauses are short. */
const SHORT_PAUSES = 60;

/**
 * Until it is stored, the payment stays in flight, for as long as this process lives: given up, it would
 * be neither sold nor for sale, since nobody takes over a delivery from a life that goes on. Never rejects.
 */
export async function recordUntilStored(
  key: PaymentKey,
  store: () => Promise<void>,
  { logger, time }: { readonly logger: Logger; readonly time: Time },
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await store();
    } catch (cause) {
      if (cause instanceof LedgerConflict) {
        const said = "this process was taken for dead during a delivery; it may be repeated";
        logger.error({ err: cause, key }, said);
        return;
      }
      logger.error({ err: cause, key, attempt }, "a delivery was not recorded");
      // A timeout, not a pause: it does not keep a process alive that has closed everything else.
      const pauseMs = attempt <= SHORT_PAUSES ? RECORD_PAUSE_MS : LATER_RECORD_PAUSE_MS;
      await once(time.timeout(pauseMs), "abort");
    }
  }
}
