/** Tells the operator when payments with wallet assertions have cost so much that no more are taken, and of the end. */
import type { EmbeddedNetwork } from "../config/config.ts";
import type { GuardState } from "../mechanism/solana/solana.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";

type Guarding = Pick<
  Extract<EmbeddedNetwork, { readonly kind: "solana" }>,
  "network" | "lighthouseLossPerHour"
>;

interface Telling {
  readonly metrics: Pick<Telemetry["metrics"], "lighthouse">;
  readonly logger: Pick<Telemetry["logger"], "error" | "info">;
}

export function guardTeller(
  { network, lighthouseLossPerHour }: Guarding,
  { metrics, logger }: Telling,
): (state: GuardState) => void {
  let wasOff = false;
  return ({ lostLamports, isOff }) => {
    metrics.lighthouse(network, Number(lostLamports), isOff);
    if (isOff === wasOff) return;
    wasOff = isOff;
    const facts = {
      network,
      lostLamports: String(lostLamports),
      lighthouseLossPerHour: String(lighthouseLossPerHour),
    };
    if (isOff) logger.error(facts, ASSERTIONS_OFF);
    else logger.info(facts, "payments with wallet assertions are taken again");
  };
}

const ASSERTIONS_OFF =
  "payments with wallet assertions failed on chain at our cost: none of new payers are taken until an hour after the losses; see which payers they were (coinslot payments), deny them by lighthouse: deny, or raise lighthouseLossPerHour";
