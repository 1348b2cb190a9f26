/**
 * Private keys are references: `env:NAME` or `file:PATH`. What a reference leads to is never part of a
 * message, not even in part.
 */
import { z } from "zod";
import type { Network } from "../../x402/network.ts";
import { err, ok, type Result } from "../../x402/result.ts";
import { isSolanaAddress } from "../../x402/solana-address.ts";
import { unreadable, type Context } from "../reading/context.ts";
import { fileOfVariable, readSecretFile, readVariable } from "../reading/environment.ts";
import { isKeypair, readKeypair, type Wording } from "./keypair.ts";
import { Secret } from "./secret.ts";
import type { Fault } from "../reading/problem.ts";
import { bad, fault } from "../reading/reading.ts";
import { HEX_NUMBER, listOf, matching, reader, type Form } from "../reading/shapes.ts";
import type { Path } from "../reading/tree.ts";

export interface Signer {
  /** Where the key came from: `env:NAME` or `file:PATH`, for messages; `literal` for a key in the file. */
  readonly source: string;
  /**
   * EVM: 0x and 64 lower-case hex digits. Solana: 128 lower-case hex digits, the 32 bytes of the seed and
   * the 32 of the address.
   */
  readonly key: Secret;
}

/** Order of the secp256k1 group: a private key is from 1 to one less. */
const GROUP_ORDER = BigInt("0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");
const KEY = /^(?:0x)?([0-9a-fA-F]{64})$/;
const VARIABLE = /^env:([A-Za-z_][A-Za-z0-9_]*)$/;
const FILE = /^file:(.+)$/s;
export const REFERENCE_FORM = "must be a reference to a key: env:NAME or file:PATH";
export const REFERENCE = /^(?:env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$/;

/** Bytes of half a keypair: what has fewer is no key. */
const HALF_KEY = 32;

/** Whether a list is the text of a keypair file, which is one remark then instead of 64. */
function isKeyFile(list: readonly unknown[]): boolean {
  return list.length >= HALF_KEY && list.every((each) => typeof each === "number");
}

/** A key itself is refused or warned of with better words than an editor has. */
const SIGNER =
  /^(?:env:[A-Za-z_][A-Za-z0-9_]*|file:.+|(?:0x)?[0-9a-fA-F]{64}|[1-9A-HJ-NP-Za-km-z]{64,90}|\[[\s\S]*\])$/;
const SIGNER_FORM: Form = {
  anyOf: [matching(SIGNER, REFERENCE_FORM, "env:BASE_KEY", "file:/run/secrets/key"), HEX_NUMBER],
};

const signer = z.union(
  [
    z.string(REFERENCE_FORM),
    reader(z.array(z.unknown()), (list): Result<never, Fault> =>
      isKeyFile(list) ? err(literalKey("must")) : bad(REFERENCE_FORM),
    ),
  ],
  REFERENCE_FORM,
);
/** One, for editors. */
export const oneSigner = signer.register(z.globalRegistry, { form: SIGNER_FORM });
/** A list of references to keys. */
export const signers = reader(z.array(z.unknown(), "must be a list"), (list) =>
  isKeyFile(list) ? err(literalKey("must")) : ok(list),
)
  .pipe(listOf(signer))
  .register(z.globalRegistry, { form: { type: "array", items: SIGNER_FORM } });

/** A private key that stands in the file itself: on test networks it only should not. */
function literalKey(modal: "must" | "should"): Fault {
  const message = `a private key ${modal} not stand in the configuration`;
  return fault("literal-key", message, "write env:NAME or file:PATH");
}

/** What a reference leads to, unread. */
export interface FoundKey {
  /** The reference; `literal` for a key that stands in the document itself. */
  readonly source: string;
  readonly text: string;
  /** The file that it was read from; undefined: none. */
  readonly file?: string;
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
    const file = fileOfVariable(variable, context.environment.env);
    if (value.value !== undefined) {
      const found = { source: reference, text: value.value.trim() };
      return ok(file === undefined ? found : { ...found, file });
    }
    const message = `the environment variable ${variable} is not set`;
    return err(fault("unset-variable", message, `set ${variable} or ${variable}_FILE`));
  }
  const path = FILE.exec(reference)?.[1];
  if (path === undefined) {
    return err(fault("bad-value", REFERENCE_FORM));
  }
  const file = context.absolute(path);
  const text = readSecretFile(file, context.environment.readFile);
  if (text !== undefined) return ok({ source: reference, text, file });
  const hint = "write its path from the folder of this file, and let this process read it";
  return err(unreadable("the key file cannot be read", path, hint));
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
  const hint = isKeypair(text)
    ? "a Solana keypair belongs under the signers of a Solana network"
    : "export the key again, or make one with coinslot keygen";
  return err(fault("malformed-key", message, hint));
}

/** The keys that a list at that path refers to, for one network. */
export function readSigners(
  { kind, testnet }: Network,
  references: readonly string[],
  list: Path,
  context: Context,
): readonly Signer[] {
  const signers: Signer[] = [];
  for (const [index, reference] of references.entries()) {
    const path = [...list, index];
    const signer = readSigner({ kind, testnet }, reference, path, context);
    if (signer === undefined) continue;
    if (signers.some((each) => each.key.reveal() === signer.key.reveal())) {
      // Two signers with one key would take each other's account nonces, or send the same bytes twice.
      context.problems.error(
        path,
        fault(
          "duplicate-entry",
          "this is the same key as an earlier one",
          "give each a key of its own",
        ),
      );
    }
    signers.push(signer);
  }
  return signers;
}

/** The key that a reference at that path leads to; undefined where it leads to none, which is told. */
export function readSigner(
  { kind, testnet }: Pick<Network, "kind" | "testnet">,
  reference: string,
  path: Path,
  context: Context,
): Signer | undefined {
  const { problems } = context;
  const found = findKey(reference, context);
  if (!found.ok) {
    if (!context.forgives(found.error)) problems.error(path, found.error);
    return undefined;
  }
  const { source, file } = found.value;
  if (file !== undefined) context.warnOfReaders(path, file);
  if (source === "literal") {
    problems.add(testnet ? "warning" : "error", path, literalKey(testnet ? "should" : "must"));
  }
  const key = readKey(found.value, kind);
  if (key.ok) return { source, key: new Secret(key.value) };
  problems.error(path, key.error);
  return undefined;
}
