/** Everything that goes on with no client asking, for what a crash or a silent chain left open. */
import { startRecovery } from "../facilitator/recovery.ts";
import { startRemoteRecovery } from "../facilitator/remote-recovery.ts";
import type { Facilitation, Ground } from "./facilitation.ts";

/** Starts the first rounds at once. `closing` gets their end, and that of the embedded facilitator. */
export function startRecoveries(
  { embedded, mesh }: Pick<Facilitation, "embedded" | "mesh">,
  { ledger, telemetry, time }: Ground,
  closing: AsyncDisposableStack,
): void {
  const remote = startRemoteRecovery({ mesh, redemptions: ledger, telemetry, time });
  closing.defer(() => remote.stop());
  const recovery = startRecovery(embedded, telemetry, time);
  closing.defer(async () => {
    // The facilitator first: it ends the watches that recovery's round is waiting for.
    await embedded.close();
    await recovery.stop();
  });
}
