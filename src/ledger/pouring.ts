/** Which steps of a payment take something out of the pot that it has filled, or put it back: refunds of what is unspent. */
import type { PaymentRow } from "./payment-row.ts";
import { readFill } from "./pots.ts";
import type { Resolution, TransitionKind } from "./transition.ts";

/** A transition, as far as this depends on it. */
interface Pouring {
  readonly kind: TransitionKind;
  readonly resolution?: Resolution;
  readonly to?: { readonly kind: string };
}

/** Whether it may: it is judged by the pot, too. */
export function mayPour({ kind, resolution, to }: Pouring): boolean {
  const isRefund = kind === "resolve" && resolution?.verb === "refund";
  return isRefund || (kind === "refund" && to?.kind === "failed");
}

/** The pot that has to be read with the row and written with it, while nobody else has it; undefined: none. */
export function potToPour(row: PaymentRow | undefined, transition: Pouring): string | undefined {
  if (row === undefined || row.fills === null || !mayPour(transition)) return undefined;
  return readFill(row.fills).pot;
}
