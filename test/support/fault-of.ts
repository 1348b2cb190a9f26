import { FacilitatorFault } from "../../src/payments/facilitator.ts";

/** The fault that something ends with; anything else fails the test. */
export async function faultOf(promise: Promise<unknown>): Promise<FacilitatorFault> {
  const outcome = await promise.then(
    (value) => ({ value }),
    (cause: unknown) => ({ cause }),
  );
  if ("cause" in outcome && outcome.cause instanceof FacilitatorFault) return outcome.cause;
  throw new Error("no FacilitatorFault", { cause: outcome });
}
