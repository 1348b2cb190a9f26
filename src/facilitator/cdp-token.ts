/**
 * Signed tokens for facilitators that belong to somebody's account, in the form of Coinbase's Developer Platform: a JWT
 * for one request, which names its method, host and path and is signed with the account's API key. As its own SDK
 * (`@coinbase/cdp-sdk`, `generateJwt`) writes them for `@coinbase/x402`.
 */
import { randomBytes, sign, type KeyObject } from "node:crypto";

/** How long a token is good for, seconds. */
const LIFETIME_SECONDS = 120;
const NONCE_BYTES = 16;

export interface CdpKey {
  readonly keyId: string;
  /** Ed25519, or ECDSA on P-256. */
  readonly key: KeyObject;
}

export interface TokenRequest {
  readonly method: string;
  readonly host: string;
  readonly path: string;
}

export function cdpToken(
  { keyId, key }: CdpKey,
  { method, host, path }: TokenRequest,
  nowMs: number,
): string {
  const now = Math.floor(nowMs / 1000);
  const isEd25519 = key.asymmetricKeyType === "ed25519";
  const nonce = randomBytes(NONCE_BYTES).toString("hex");
  const header = { alg: isEd25519 ? "EdDSA" : "ES256", kid: keyId, typ: "JWT", nonce };
  const times = { iat: now, nbf: now, exp: now + LIFETIME_SECONDS };
  const claims = { sub: keyId, iss: "cdp", uris: [`${method} ${host}${path}`], ...times };
  const signed = `${base64url(header)}.${base64url(claims)}`;
  const signature = isEd25519
    ? sign(null, Buffer.from(signed), key)
    : sign("sha256", Buffer.from(signed), { key, dsaEncoding: "ieee-p1363" });
  return `${signed}.${signature.toString("base64url")}`;
}

function base64url(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}
