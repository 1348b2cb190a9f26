/** What of the operator's list is looked at: all of it, what needs the operator, one payer's, or what some path is part of. */
import type { LookedFor } from "./payments.ts";
import type { RequestView } from "../web/requests-view.ts";
import { isEvmAddress } from "../x402/address.ts";
import { isSolanaAddress } from "../x402/solana-address.ts";

export interface TimelineFilter {
  /** Null: any. */
  readonly payer: string | null;
  /** Any letter case; null: any. */
  readonly path: string | null;
  readonly needsMe: boolean;
}

export const EVERYTHING: TimelineFilter = { payer: null, path: null, needsMe: false };

/** @returns the name of one payment as a part of a path, too: whoever looks for one by its name asks for that first */
export function filterOf({ find, needsMe }: LookedFor): TimelineFilter {
  if (find === "") return { payer: null, path: null, needsMe };
  if (isAddress(find)) return { payer: find, path: null, needsMe };
  return { payer: null, path: find, needsMe };
}

/** Whether it can be the name of one payment: those have no blank, and do not begin like a path. */
export function mayName(find: string): boolean {
  return find !== "" && !isAddress(find) && !/^\/|\s/.test(find);
}

export function isAddress(text: string): boolean {
  return isEvmAddress(text) || isSolanaAddress(text);
}

export function fits(view: RequestView, { payer, path, needsMe }: TimelineFilter): boolean {
  if (needsMe && !view.needsOperator) return false;
  if (payer !== null && view.payer.toLowerCase() !== payer.toLowerCase()) return false;
  return path === null || view.title.toLowerCase().includes(path.toLowerCase());
}
