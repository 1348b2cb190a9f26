/** Asks the shop what a wallet has to sign for what its owner has paid for, and writes what is sent then. */
import type { PayableOffer } from "./offer.ts";
import { askShop } from "./terms.ts";

/** As it is, and as wallets of EVM networks are given it. */
interface SignInText {
  readonly message: string;
  readonly hex: string;
}

/**
 * The value of SIGN-IN-WITH-X.
 * @param sign gives the signature of a text
 * @throws {NotPaid}
 */
export async function signedIn(
  { network }: PayableOffer,
  address: string,
  sign: (text: SignInText) => Promise<unknown>,
): Promise<string> {
  const asked = `address=${address}&network=${network}`;
  const response = await askShop(`/.well-known/x402/sign-in?${asked}`, /^2/);
  const { answer, ...text } = await response.json();
  return btoa(JSON.stringify({ ...answer, signature: await sign(text) }));
}
