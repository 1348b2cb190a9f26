/** Takes what is over out of the ledger, a little at a time, so that it stays as large as what is still of use. */
import type { Recovery } from "../payments/settlement/recovery.ts";
import type { SweepPlace, SweepStep } from "../ledger/sweep.ts";
import type { Config } from "../config/config.ts";
import type { Ground } from "./facilitation.ts";

/** A gateway that has just started has something better to do, milliseconds. */
const FIRST_MS = 60_000;
/** Pause between two rounds, milliseconds. */
const ROUND_MS = 600_000;
/** Pause between two steps of a round, milliseconds: payments have the ledger to themselves meanwhile. */
const STEP_MS = 100;

export interface SweepRules {
  /** What ended so long ago goes, milliseconds; later where purchases grant something for longer. */
  readonly keepMs: number;
  /** In force. */
  readonly config: () => Pick<Config, "routes">;
  /** Awaited with what is about to go. */
  readonly archive: SweepStep["archive"];
}

/** A fault ends a round, and the next one begins where the first did; `stop` waits for the step under way. */
export function startSweeper(
  {
    ledger,
    telemetry,
    time,
  }: Pick<Ground, "telemetry" | "time"> & {
    readonly ledger: { readonly upkeep: Pick<Ground["ledger"]["upkeep"], "sweep"> };
  },
  { keepMs, config, archive }: SweepRules,
): Recovery {
  const stopping = new AbortController();
  const { signal } = stopping;
  const { logger } = telemetry;
  const round = async (): Promise<void> => {
    let payments = 0;
    const beforeMs = time.now() - Math.max(keepMs, longestGrantMs(config()));
    try {
      for (let from: SweepPlace | undefined; !signal.aborted; await time.sleep(STEP_MS, signal)) {
        const swept = await ledger.upkeep.sweep({ beforeMs, from, archive });
        payments += swept.payments;
        from = swept.next;
        if (from === undefined) break;
      }
    } catch (cause) {
      const said =
        "payments that are over could not be taken out of the ledger; trying again later";
      logger.warn({ err: cause }, said);
    }
    if (payments > 0)
      logger.info({ payments }, "payments that are over were taken out of the ledger");
  };
  const sweeping = (async () => {
    await time.sleep(FIRST_MS, signal);
    while (!signal.aborted) {
      await round();
      await time.sleep(ROUND_MS, signal);
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await sweeping;
    },
  };
}

/** For how long a purchase grants something at most, milliseconds: by one that is swept nothing is had any more. */
function longestGrantMs({ routes }: Pick<Config, "routes">): number {
  const granted = routes.map(({ action }) => {
    if (action.kind !== "priced") return 0;
    const pass = action.own?.kind === "pass" ? action.own.forMs : 0;
    return Math.max(pass, action.grants?.forMs ?? 0);
  });
  return granted.reduce((one, other) => Math.max(one, other), 0);
}
