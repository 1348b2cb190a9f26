/** How many payments are judged at a time, and wait to be: see {@link FairLane}. */
import { FairLane, type FairLaneOptions } from "../fairness/fair-lane.ts";
import { ChainError } from "./mechanism.ts";

/** Payments whose signatures prove nothing that are judged at the same time. */
export const MAX_UNPROVEN_CALLS = 16;
/** Those that wait for one of those turns: each holds a place of the gateway's, and a small container has few. */
export const MAX_UNPROVEN_WAITING = 48;
/** Those that wait whose signatures are proven; more than a gateway has places for. */
export const MAX_PROVEN_WAITING = 8_192;

/** Throws {@link ChainError}: `CHAIN_BUSY` where it is crowded, `CHAIN_TIMEOUT` where the signal ends the wait. */
export function judgingLane(limits: Pick<FairLaneOptions, "calls" | "waiting">): FairLane {
  return new FairLane({ ...limits, fault });
}

function fault(reason: "crowded" | "late"): ChainError {
  if (reason === "crowded") return crowded();
  return new ChainError("CHAIN_TIMEOUT", "its turn to be judged did not come in time");
}

export function crowded(): ChainError {
  return new ChainError("CHAIN_BUSY", "too many payments wait to be judged");
}
