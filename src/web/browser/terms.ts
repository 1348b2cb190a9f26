/** Asks the shop once more before anything is signed: a price may have changed since the page was loaded. */
import { ended, NotPaid, type PayableOffer } from "./offer.ts";
import { randomHex, readHeader } from "./protocol.ts";

/** What the shop says now. */
export interface PageTerms {
  /** A payment of what is asked for, all but its `payload`. */
  readonly payment: object;
  /** Unix seconds by the shop's clock: a buyer's may be wrong. */
  readonly now: number;
  /** Base64 of a transaction that waits for its payer's signature; only where a payer was named. */
  readonly draft: string;
}

/** Who is signed in pays nothing from his balance by a request that has this: nobody has said yet that he wants to. */
export const UNSPENT = { Purpose: "prefetch" } as const;

/**
 * @param expected what its status is like
 * @throws {NotPaid} where another one comes
 */
export async function askShop(
  url: string,
  expected: RegExp,
  headers: Record<string, string> = {},
  method = "GET",
): Promise<Response> {
  const response = await fetch(url, { method, headers, cache: "no-store" }).catch(() => {
    throw new NotPaid("The shop cannot be reached.");
  });
  const { status, ok } = response;
  if (expected.test(`${status}`)) return response;
  if (ok) throw new NotPaid("There is nothing to pay any more: reload the page.");
  const body = await response.json().catch(() => null);
  throw new NotPaid(ended(body?.error ?? `This is not sold at the moment (${status})`));
}

interface Quote {
  readonly accepts?: readonly Asked[];
  readonly extensions?: { readonly "payment-identifier"?: { readonly info: { id?: string } } };
}

interface Asked {
  readonly network?: unknown;
  readonly asset?: unknown;
  readonly maxAmountRequired?: unknown;
  /** The same in version 2. */
  readonly amount?: unknown;
  readonly payTo?: unknown;
}

/**
 * Resolves when the terms are those that the page shows.
 * @param payer who asks for a transaction to sign (Solana); "" for nobody
 * @throws {NotPaid}
 */
export async function askTerms(offer: PayableOffer, payer: string): Promise<PageTerms> {
  const { network, asset } = offer;
  const headers: Record<string, string> = { Accept: "application/json", ...UNSPENT };
  if (payer) headers["X-PAYMENT-DRAFT"] = `${network} ${asset} ${payer}`;
  // The empty URL is this page's own.
  const response = await askShop("", /402/, headers);
  const body = await response.json().catch(() => null);
  const quote = (IS_V2 ? readHeader(response, "PAYMENT-REQUIRED") : body) as Quote | null;
  const accepted = quote?.accepts?.find(
    (each) =>
      each.network === network &&
      each.asset === asset &&
      each.payTo === offer.payTo &&
      (IS_V2 ? each.amount : each.maxAmountRequired) === offer.amount,
  );
  if (!accepted) {
    throw new NotPaid(
      "The price has changed since this page was loaded. Reload it to see the new one.",
    );
  }
  const served = Date.parse(response.headers.get("Date") as string);
  const now = Math.floor((served || Date.now()) / 1000);
  const draft = String(body?.draft);
  if (!IS_V2) return { payment: { x402Version: 1, scheme: "exact", network }, now, draft };
  const extensions = (quote as Quote).extensions;
  // A shop that has this one lets buyers name their purchases, or wants them to.
  const identifier = extensions?.["payment-identifier"];
  if (identifier) identifier.info.id = randomHex();
  return { payment: { x402Version: 2, accepted, extensions }, now, draft };
}
