/**
 * Recovery: settlements whose outcome is not known are taken up at start and then again and again,
 * with no client asking, until the chain has said what became of them.
 */
import type { Telemetry } from "../../telemetry/telemetry.ts";
import type { Time } from "../../time/time.ts";
import type { EmbeddedFacilitator } from "./embedded.ts";

/** Pause between two rounds, milliseconds. */
const ROUND_MS = 2_000;

export interface Recovery {
  /** Ends after the round that is running. */
  stop(): Promise<void>;
}

/** Starts the first round at once; rounds never overlap. */
export function startRecovery(
  facilitator: Pick<EmbeddedFacilitator, "recover">,
  { logger }: Pick<Telemetry, "logger">,
  time: Time,
): Recovery {
  const stopping = new AbortController();
  const running = (async () => {
    while (!stopping.signal.aborted) {
      try {
        await facilitator.recover();
      } catch (cause) {
        logger.error({ err: cause }, "recovery could not read the ledger; trying again");
      }
      await time.sleep(ROUND_MS, stopping.signal);
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
