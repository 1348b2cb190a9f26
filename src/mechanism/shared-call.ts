/**
 * One call to the chain that several callers wait for: it has its own limit, and whoever gives up ends his
 * own wait and nobody else's.
 */
import type { Time } from "../time/time.ts";
import { ChainError } from "./mechanism.ts";

/** Longest that a shared call may take, over all the endpoints that it is asked of, milliseconds. */
const SHARED_CALL_MS = 10_000;

/** The signal of a shared call: nobody's caller, but the limit and the end of everything. */
export function sharedSignal(time: Time, closing: AbortSignal): AbortSignal {
  return AbortSignal.any([closing, time.timeout(SHARED_CALL_MS)]);
}

/**
 * Waits for a shared call as long as this caller wants to.
 * @throws {ChainError} `CHAIN_TIMEOUT` when the caller's signal ends the wait; else what the call throws
 */
export async function waitFor<Value>(shared: Promise<Value>, signal: AbortSignal): Promise<Value> {
  // Its end is heard even when nobody waits any more.
  shared.catch(() => undefined);
  const given = Promise.withResolvers<never>();
  const giveUp = (): void => {
    given.reject(new ChainError("CHAIN_TIMEOUT", "the chain did not answer in time"));
  };
  signal.addEventListener("abort", giveUp, { once: true });
  if (signal.aborted) giveUp();
  try {
    return await Promise.race([shared, given.promise]);
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}
