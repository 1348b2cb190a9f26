/**
 * Private keys are references: `env:NAME` or `file:PATH`. What a reference leads to is never part of a
 * message, not even in part.
 */
import type { Network } from "../../x402/network.ts";
import { err, ok, type Result } from "../../x402/result.ts";
import { isSolanaAddress } from "../../x402/solana-address.ts";
import type { Context } from "../reading/context.ts";
import { readSecretFile, readVariable } from "../reading/environment.ts";
import { isKeypair, readKeypair, type Wording } from "./keypair.ts";
import type { Fault } from "../reading/problem.ts";
import { fault } from "../reading/reading.ts";

/** Order of the secp256k1 group: a private key is from 1 to one less. */
const GROUP_ORDER = BigInt("0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");
const KEY = /^(?:0x)?([0-9a-fA-F]{64})$/;
const VARIABLE = /^env:([A-Za-z_][A-Za-z0-9_]*)$/;
const FILE = /^file:(.+)$/s;

/** What a reference leads to, unread. */
export interface FoundKey {
  /** The reference; `literal` for a key that stands in the document itself. */
  readonly source: string;
  readonly text: string;
}

export function findKey(
  reference: string,
  context: Pick<Context, "environment" | "absolute">,
): Result<FoundKey, Fault> {
  if (KEY.test(reference) || isKeypair(reference))
    return ok({ source: "literal", text: reference });
  const variable = VARIABLE.exec(reference)?.[1];
  if (variable !== undefined && !isSecret(variable)) {
    const value = readVariable(variable, context.environment);
    if (!value.ok) return value;
    if (value.value !== undefined) return ok({ source: reference, text: value.value.trim() });
    const message = `the environment variable ${variable} is not set`;
    return err(fault("unset-variable", message, `set ${variable} or ${variable}_FILE`));
  }
  const path = FILE.exec(reference)?.[1];
  if (path === undefined) {
    return err(fault("bad-value", "must be a reference to a key: env:NAME or file:PATH"));
  }
  const text = readSecretFile(context.absolute(path), context.environment.readFile);
  if (text !== undefined) return ok({ source: reference, text });
  return err(fault("unreadable-file", "the key file cannot be read"));
}

/** No name of a variable looks like this; a key does, whole or in half, that somebody wrote after `env:`. */
function isSecret(name: string): boolean {
  return KEY.test(name) || isKeypair(name) || isSolanaAddress(name);
}

const REFERRED: Wording = { is: "the reference leads to", isNot: "the reference does not lead to" };
const LITERAL: Wording = { is: "this is", isNot: "this is not" };

/** EVM: 0x and 64 lower-case hex digits. Solana: 128 lower-case hex digits. */
export function readKey({ source, text }: FoundKey, kind: Network["kind"]): Result<string, Fault> {
  const wording = source === "literal" ? LITERAL : REFERRED;
  return kind === "evm" ? readEvmKey(text, wording) : readKeypair(text, wording);
}

function readEvmKey(text: string, { isNot }: Wording): Result<string, Fault> {
  const digits = KEY.exec(text)?.[1]?.toLowerCase();
  const number = digits === undefined ? 0n : BigInt(`0x${digits}`);
  if (digits !== undefined && number > 0n && number < GROUP_ORDER) return ok(`0x${digits}`);
  const message = `${isNot} an EVM private key: 0x and 64 hex digits`;
  const hint = "a Solana keypair belongs under the signers of a Solana network";
  return err(fault("malformed-key", message, isKeypair(text) ? hint : undefined));
}
