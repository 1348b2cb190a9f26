/** Everything that goes on with no client asking, for what a crash or a silent chain left open. */
import { startRefunds, type RefundsOptions } from "../payments/settlement/refunds.ts";
import { startRecovery, type Recovery } from "../payments/settlement/recovery.ts";
import { startRemoteRecovery } from "../facilitator/remote-recovery.ts";
import type { Facilitation, Ground } from "./facilitation.ts";

/** Pause between two looks for what operators have decided, milliseconds: they wait for it. */
const RESOLVE_MS = 250;
/** The same after one that has found some: whoever asks in steps asks again at once. */
const NEXT_MS = 20;

/** Carries out what operators decide beside this process. */
function startResolving({
  ledger,
  telemetry,
  time,
}: Pick<Ground, "telemetry" | "time"> & {
  readonly ledger: { readonly upkeep: Pick<Ground["ledger"]["upkeep"], "resolveAsked"> };
}): Recovery {
  const stopping = new AbortController();
  const { signal } = stopping;
  const resolve = async (): Promise<void> => {
    let untold = 0;
    while (!signal.aborted) {
      let found = 0;
      try {
        found = await ledger.upkeep.resolveAsked();
      } catch (cause) {
        telemetry.logger.error({ err: cause }, "what an operator decided cannot be stored");
      }
      untold += found;
      if (found === 0 && untold > 0) {
        telemetry.logger.info({ count: untold }, "what an operator asked for is carried out");
        untold = 0;
      }
      await time.sleep(found > 0 ? NEXT_MS : RESOLVE_MS, signal);
    }
  };
  const resolving = resolve();
  return {
    async stop() {
      stopping.abort();
      await resolving;
    },
  };
}

/** Starts the first rounds at once. `closing` gets their end, and that of the embedded facilitator. */
export function startRecoveries(
  facilitation: Facilitation,
  { ledger, telemetry, time, isBarred }: Ground & Pick<RefundsOptions, "isBarred">,
  closing: AsyncDisposableStack,
): void {
  const { embedded, router, gate, refunds } = facilitation;
  const resolving = startResolving({ ledger, telemetry, time });
  closing.defer(() => resolving.stop());
  const remote = startRemoteRecovery({ router, ledger, telemetry, time });
  closing.defer(() => remote.stop());
  const recovery = startRecovery(embedded, telemetry, time);
  closing.defer(async () => {
    // The facilitator first: it ends the watches that recovery's round is waiting for.
    await embedded.close();
    await recovery.stop();
  });
  const refunding = startRefunds({
    // Those of now: a reload may have put others in their place.
    get mechanisms() {
      return facilitation.mechanisms;
    },
    facilitator: embedded,
    ledger,
    gate,
    mostOf: refunds,
    isBarred,
    telemetry,
    time,
  });
  closing.defer(() => refunding?.stop());
}
