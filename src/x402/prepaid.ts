/**
 * How buyers are told that a route may be paid from what they have prepaid: where that is bought, told and spent. Clients that
 * do not know it pay as for any other route: what they do not know of a header or of extensions they pass over.
 */
import { SIGN_IN_PATH } from "./sign-in.ts";
import type { ExtensionsV2 } from "./version-2.ts";

/** Where the first pack is sold below a public URL; the others are below it. */
export const CREDITS_PATH = "/.x402/credits";
/** Where a balance is told. */
export const BALANCE_PATH = "/.x402/balance";
/** The name of the extension of version 2. */
const PREPAID = "prepaid-credits";
/** The header of a 402, whatever the version: the URL at which credits are bought. */
export const CREDITS_HEADER = "X-402-Credits";

/** What version 2 says of it. @param publicUrl without a trailing slash */
export function prepaidExtension(publicUrl: string): ExtensionsV2 {
  const info = {
    buy: publicUrl + CREDITS_PATH,
    balance: publicUrl + BALANCE_PATH,
    session: publicUrl + SIGN_IN_PATH,
  };
  const properties = Object.fromEntries(
    Object.keys(info).map((name) => [name, { type: "string" }] as const),
  );
  return { [PREPAID]: { info, schema: { type: "object", properties } } };
}
