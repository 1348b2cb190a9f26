/**
 * Recovery: settlements whose outcome is not known are taken up at start and then again and again,
 * with no client asking, until the chain has said what became of them.
 */
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { EmbeddedFacilitator } from "./embedded.ts";

/** Pause between two rounds, milliseconds. */
const ROUND_MS = 5_000;

export interface Recovery {
  /** Ends after the round that is running. */
  stop(): Promise<void>;
}

/** Starts the first round at once; rounds never overlap. */
export function startRecovery(
  facilitator: Pick<EmbeddedFacilitator, "recover">,
  telemetry: Telemetry,
): Recovery {
  const { logger, metrics } = telemetry;
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;

  const round = async (): Promise<void> => {
    try {
      metrics.unresolved(await facilitator.recover());
    } catch (cause) {
      logger.error({ err: cause }, "recovery could not read the ledger; trying again");
    }
    if (!stopped) timer = setTimeout(start, ROUND_MS).unref();
  };
  let running: Promise<void>;
  const start = (): void => {
    running = round();
  };
  start();

  return {
    async stop() {
      stopped = true;
      clearTimeout(timer);
      await running;
    },
  };
}
