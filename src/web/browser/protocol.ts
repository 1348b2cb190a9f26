/** What differs by the version of the protocol that the page pays by. There is a script for each of them. */

declare global {
  /** The build puts it in, and leaves out what is only for the other version. */
  const IS_V2: boolean;
}

/** Carries a payment. */
export const PAYMENT_HEADER = IS_V2 ? "PAYMENT-SIGNATURE" : "X-PAYMENT";

/** What a header says, base64 of JSON; null: it is not there. */
export function readHeader({ headers }: Response, name: string): unknown {
  const text = headers.get(name);
  return text && JSON.parse(atob(text));
}

export function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

/** 32 bytes that nobody can guess, as 0x and hex. */
export function randomHex(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  return `0x${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
