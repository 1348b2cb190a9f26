/**
 * Private keys are references: `env:NAME` or `file:PATH`. What a reference leads to is never part of a
 * message, not even in part.
 */
import { err, ok, type Result } from "../x402/result.ts";
import type { Context } from "./context.ts";
import { readSecretFile, readVariable } from "./environment.ts";
import type { Fault } from "./problem.ts";
import { fault } from "./reading.ts";
import { Secret } from "./secret.ts";
import type { Signer } from "./settings.ts";

/** Order of the secp256k1 group: a private key is from 1 to one less. */
const GROUP_ORDER = BigInt("0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");
const KEY = /^(?:0x)?([0-9a-fA-F]{64})$/;
const VARIABLE = /^env:([A-Za-z_][A-Za-z0-9_]*)$/;
const FILE = /^file:(.+)$/s;

/** A key that stands in the document itself has the source `literal`. */
export function readSigner(reference: string, context: Context): Result<Signer, Fault> {
  if (KEY.test(reference)) return signer("literal", reference);
  const variable = VARIABLE.exec(reference)?.[1];
  if (variable !== undefined && !KEY.test(variable)) {
    const value = readVariable(variable, context.environment);
    if (!value.ok) return value;
    if (value.value !== undefined) return signer(reference, value.value);
    const message = `the environment variable ${variable} is not set`;
    return err(fault("unset-variable", message, `set ${variable} or ${variable}_FILE`));
  }
  const path = FILE.exec(reference)?.[1];
  if (path === undefined) {
    return err(fault("bad-value", "must be a reference to a key: env:NAME or file:PATH"));
  }
  const text = readSecretFile(context.absolute(path), context.environment.readFile);
  if (text !== undefined) return signer(reference, text);
  return err(fault("unreadable-file", "the key file cannot be read"));
}

function signer(source: string, text: string): Result<Signer, Fault> {
  const digits = KEY.exec(text.trim())?.[1]?.toLowerCase();
  const number = digits === undefined ? 0n : BigInt(`0x${digits}`);
  if (digits !== undefined && number > 0n && number < GROUP_ORDER) {
    return ok({ source, key: new Secret(`0x${digits}`) });
  }
  const message = "the reference does not lead to an EVM private key: 0x and 64 hex digits";
  return err(fault("malformed-key", message));
}
