/**
 * Where a buyer asks what became of a payment of his: a URL that his receipt names and nobody can guess. It holds the
 * payment's key and our MAC of it, so that nothing is stored for it and every process that has the secret can read it.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { PaymentKey } from "./payment-key.ts";

/** What the path of each begins with. */
const STATUS_PATH = "/.well-known/x402/payments/";
/** Name of the extension by which receipts of version 2 tell the URL. */
export const PAYMENT_STATUS = "payment-status";
/** Of each MAC, bytes. */
const MAC_BYTES = 16;
/** Longest that is looked at, characters: keys have some 170. */
const MAX_ID = 512;

export interface PaymentStatusOptions {
  /** The secret by which challenges to sign in are made, too; these MACs are of other texts. */
  readonly key: Uint8Array;
  /** No trailing slash. */
  readonly publicUrl: string;
}

export class PaymentStatusUrls {
  readonly #key: Uint8Array;
  readonly #publicUrl: string;

  constructor({ key, publicUrl }: PaymentStatusOptions) {
    this.#key = key;
    this.#publicUrl = publicUrl;
  }

  of(payment: PaymentKey): string {
    const name = Buffer.from(payment).toString("base64url");
    return `${this.#publicUrl}${STATUS_PATH}${name}.${this.#macOf(payment).toString("base64url")}`;
  }

  /** Undefined: it is no such path. Null: it is one, and of no payment that we have told it for. */
  read(path: string): PaymentKey | null | undefined {
    if (!path.startsWith(STATUS_PATH)) return undefined;
    const [name = "", mac = "", ...more] = path.slice(STATUS_PATH.length).split(".");
    if (more.length > 0 || path.length > MAX_ID) return null;
    const payment = Buffer.from(name, "base64url").toString();
    const [told, right] = [Buffer.from(mac, "base64url"), this.#macOf(payment)];
    if (told.length !== right.length || !timingSafeEqual(told, right)) return null;
    // It was a key when we signed it.
    return payment as PaymentKey;
  }

  #macOf(payment: string): Buffer {
    const mac = createHmac("sha256", this.#key).update(`coinslot status of ${payment}`).digest();
    return mac.subarray(0, MAC_BYTES);
  }
}
