/**
 * `facilitator.remote[].auth.cdp`: an API key of Coinbase's Developer Platform, as its portal gives it: an Ed25519 key is
 * base64 of its seed and its public half, an ECDSA key is PEM, whose line breaks many write as `\n`. What a secret holds
 * is never part of a message.
 */
import { createPrivateKey, type KeyObject } from "node:crypto";
import { ok, err, type Result } from "../../x402/result.ts";
import type { Context } from "../reading/context.ts";
import type { Fault } from "../reading/problem.ts";
import { fault } from "../reading/reading.ts";
import { described, map, textLike } from "../reading/shapes.ts";
import type { Path } from "../reading/tree.ts";
import { KEYPAIR_BYTES, ed25519Key, ownsItsPublicHalf } from "./keypair.ts";
import { findKey, REFERENCE, REFERENCE_FORM } from "./private-key.ts";
import { Secret } from "./secret.ts";

export interface CdpKeySettings {
  readonly keyId: string;
  /** PKCS #8 in PEM: Ed25519, or ECDSA on P-256. */
  readonly key: Secret;
}

const KEY_ID = /^[\x21-\x7e]{1,512}$/;
const BASE64 = /^[A-Za-z0-9+/]{86}==$/;
/** P-256, as OpenSSL calls it. */
const CURVE = "prime256v1";

export const cdp = map({
  keyId: described(
    textLike(KEY_ID, "must be the id of an API key: printable ASCII without spaces"),
    "Id of the API key.",
  ),
  keySecret: described(
    textLike(REFERENCE, REFERENCE_FORM, "env:CDP_API_KEY_SECRET", "file:/run/secrets/cdp"),
    "Reference to its secret: env:NAME or file:PATH. Ed25519 is base64, ECDSA is PEM.",
  ),
});

/** Undefined after an error at one of the keys below `path`. */
export function resolveCdpKey(
  { keyId, keySecret }: { readonly keyId: string; readonly keySecret: string },
  path: Path,
  context: Context,
): CdpKeySettings | undefined {
  const found = findKey(keySecret, context);
  const key = found.ok ? readCdpKey(found.value.text) : found;
  const at = [...path, "keySecret"];
  if (found.ok && found.value.file !== undefined) context.warnOfReaders(at, found.value.file);
  if (key.ok) return { keyId, key: new Secret(pemOf(key.value)) };
  if (context.forgives(key.error)) return undefined;
  context.problems.error(at, key.error);
  return undefined;
}

function readCdpKey(text: string): Result<KeyObject, Fault> {
  if (BASE64.test(text)) {
    const bytes = Buffer.from(text, "base64");
    if (bytes.length === KEYPAIR_BYTES && ownsItsPublicHalf(bytes)) return ok(ed25519Key(bytes));
    return malformed("the two halves of the key do not belong together", "copy the secret again");
  }
  const key = readPem(text.replaceAll("\\n", "\n"));
  const isP256 = key?.asymmetricKeyDetails?.namedCurve === CURVE;
  if (key !== undefined && (isP256 || key.asymmetricKeyType === "ed25519")) return ok(key);
  const wanted = "base64 of 64 bytes (Ed25519), or a P-256 key in PEM (ECDSA)";
  const hint = text.startsWith("{") ? "write the privateKey of that file alone" : undefined;
  return malformed(`the reference does not lead to the secret of an API key: ${wanted}`, hint);
}

function readPem(text: string): KeyObject | undefined {
  try {
    return createPrivateKey(text);
  } catch {
    return undefined;
  }
}

function pemOf(key: KeyObject): string {
  return key.export({ format: "pem", type: "pkcs8" }).toString();
}

function malformed(message: string, hint?: string): Result<never, Fault> {
  return err(fault("malformed-key", message, hint));
}
