/** Asks the shop once more before anything is signed: a price may have changed since the page was loaded. */
import { ended, NotPaid, type PayableOffer } from "./offer.ts";

/** What the shop says now. */
export interface PageTerms {
  /** Unix seconds by the shop's clock: a buyer's may be wrong. */
  readonly now: number;
  /** Base64 of a transaction that waits for its payer's signature; only where a payer was named. */
  readonly draft: string;
}

interface Asked {
  readonly network?: unknown;
  readonly asset?: unknown;
  readonly maxAmountRequired?: unknown;
  readonly payTo?: unknown;
}

/**
 * Resolves when the terms are those that the page shows.
 * @param payer who asks for a transaction to sign (Solana); "" for nobody
 * @throws {NotPaid}
 */
export async function askTerms(offer: PayableOffer, payer: string): Promise<PageTerms> {
  const { network, asset } = offer;
  const headers: Record<string, string> = { Accept: "application/json" };
  if (payer) headers["X-PAYMENT-DRAFT"] = `${network} ${asset} ${payer}`;
  const response = await fetch(location.href, { headers, cache: "no-store" }).catch(() => {
    throw new NotPaid("The shop cannot be reached.");
  });
  const body = await response.json().catch(() => null);
  if (response.status !== 402) {
    throw new NotPaid(ended(body?.error ?? `This is not sold at the moment (${response.status})`));
  }
  const accepts: readonly Asked[] = body?.accepts ?? [];
  const isSame = accepts.some((each) => {
    if (each.network !== network || each.asset !== asset || each.payTo !== offer.payTo)
      return false;
    return each.maxAmountRequired === offer.amount;
  });
  if (!isSame) {
    throw new NotPaid(
      "The price has changed since this page was loaded. Reload it to see the new one.",
    );
  }
  const served = Date.parse(response.headers.get("Date") ?? "");
  const now = Math.floor((served || Date.now()) / 1000);
  return { now, draft: String(body.draft) };
}
