/** A wallet of the browser, whichever way it is reached, and what is said while it is used. */
import type { PayableOffer } from "./offer.ts";

export const CONNECT = "Connect your wallet.";
export const SIGN = "Sign the payment in your wallet. You pay no network fee.";

export interface Wallet {
  readonly id: unknown;
  readonly name: string;
  /** Only such offers are signed. */
  readonly canPay: (offer: PayableOffer) => boolean;
  /**
   * Signs a payment: what its header says. Rejects with what the wallet throws, or {@link NotPaid}.
   * @param say tells the buyer what comes next
   */
  sign(offer: PayableOffer, say: (text: string) => void): Promise<object>;
  /** Signs who its owner is, for what he has paid already by such an offer: what its header says. As `sign`. */
  signIn(offer: PayableOffer, say: (text: string) => void): Promise<string>;
}
