/** The account by which an authority knows us: the kept one, a first one, or another in place of one that counts no more. */
import { generateKeyPairSync } from "node:crypto";
import type { KeptCertificates } from "../ledger/certificates.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Time } from "../time/time.ts";
import { AuthorityFault, openAuthority, type Authority } from "./authority.ts";
import { keep, type KeptTexts } from "./kept.ts";

/** One account is asked for in so long, at most, whatever becomes of it, milliseconds. */
const ASK_EVERY_MS = 86_400_000;
/** What an authority says of an account that it takes no orders from (RFC 8555 section 7.3.6). */
const REFUSED = "unauthorized";

export interface AccountSettings {
  readonly directory: string;
  readonly ca: string | null;
  /** Whom the authority may write to; null: nobody. */
  readonly email: string | null;
}

export interface AccountGround {
  readonly kept: KeptTexts;
  readonly store: Pick<KeptCertificates, "put">;
  readonly time: Time;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/**
 * Rejects with {@link AuthorityFault}, or whatever the ledger throws. That an account is asked for is kept before it is,
 * so that no restart and no full disk leads to one after the other.
 */
export async function openAccount(
  { directory, ca, email }: AccountSettings,
  { kept, store, time, logger, signal }: AccountGround,
): Promise<Authority> {
  const open = (accountKey: string) => {
    return introduced({ directory, ca, accountKey, signal }, email);
  };
  const note = (key: string) => keep(store, ["account", directory], { key, askedMs: time.now() });
  const known = kept.get("account", directory);
  const key = newKey();
  if (known === undefined) {
    await note(key);
    return open(key);
  }
  try {
    return await open(known.key);
  } catch (cause) {
    if (!(cause instanceof AuthorityFault) || cause.type !== REFUSED) throw cause;
    // Of a clock that was wrong then nobody waits for the end.
    if (Math.abs(time.now() - (known.askedMs ?? 0)) < ASK_EVERY_MS) {
      const advice =
        "the authority takes no order from our account, which is not a day old; ask it why";
      throw new AuthorityFault(cause.message, { advice });
    }
    await note(known.key);
    const authority = await open(key);
    await note(key).catch(async (unkept: unknown) => {
      await authority.close();
      throw unkept;
    });
    const facts = { directory, reason: cause.message, account: authority.client.getAccountUrl() };
    logger.warn(
      facts,
      "the authority takes no order from our account any more; another one was made",
    );
    return authority;
  }
}

/** Tells an authority who we are: makes the account of the key, where it has none yet. */
async function introduced(
  options: Parameters<typeof openAuthority>[0],
  email: string | null,
): Promise<Authority> {
  const authority = await openAuthority(options);
  try {
    const { status } = await authority.client.createAccount({
      termsOfServiceAgreed: true,
      contact: email === null ? [] : [`mailto:${email}`],
    });
    if (status !== "deactivated" && status !== "revoked") return authority;
    throw new AuthorityFault(`the account is ${status}`, { type: REFUSED });
  } catch (cause) {
    await authority.close();
    throw cause;
  }
}

/** PEM. */
function newKey(): string {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return String(privateKey.export({ type: "pkcs8", format: "pem" }));
}
