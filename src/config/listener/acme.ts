/** `acme` of a listener: certificates that an authority gives by itself (RFC 8555), for which names, and how it is convinced. */
import { isIP } from "node:net";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { ok } from "../../x402/result.ts";
import type { Context } from "../reading/context.ts";
import { bad, fault, ONE_OF_TWO, type Reader } from "../reading/reading.ts";
import {
  described,
  flag,
  listOf,
  map,
  matching,
  optional,
  plainText,
  text,
  textLike,
  word,
} from "../reading/shapes.ts";
import type { Path } from "../reading/tree.ts";

/** How the authority sees that a name is ours: by a file over HTTP, or by a certificate in a handshake of its own. */
export const CHALLENGES = ["http-01", "tls-alpn-01"] as const;
export type ChallengeKind = (typeof CHALLENGES)[number];

export interface AcmeSettings {
  /** Where the authority tells what it offers: an https URL. */
  readonly directory: string;
  /** Absolute path of a file in PEM, in place of the authorities that the system trusts; null: those. */
  readonly ca: string | null;
  /** Whom the authority may write to; null: nobody. */
  readonly email: string | null;
  /** Lower-case names, each with a certificate of its own. */
  readonly domains: readonly string[];
  /** In the order in which they are tried, at least one. */
  readonly challenges: readonly ChallengeKind[];
}

/** Names at most: each is asked for alone, and a public authority gives some 50 a week for one registered domain. */
const MAX_DOMAINS = 100;

/** What stands for a directory in the file. */
const DIRECTORIES: Readonly<Record<string, string>> = {
  production: "https://acme-v02.api.letsencrypt.org/directory",
  staging: "https://acme-staging-v02.api.letsencrypt.org/directory",
};
const DIRECTORY_FORM = "must be production, staging or the https URL of a directory";

const readDirectory: Reader<string> = (written) => {
  const known = DIRECTORIES[written];
  if (known !== undefined) return ok(known);
  const url = URL.parse(written);
  if (url?.protocol !== "https:" || url.username !== "" || url.hash !== "") {
    return bad(DIRECTORY_FORM);
  }
  return ok(url.href);
};

const challenge = z.union(
  [
    word(["both", ...CHALLENGES]).transform((one) => (one === "both" ? CHALLENGES : [one])),
    listOf(word(CHALLENGES)).min(1, "must name one at least"),
  ],
  "must be http-01, tls-alpn-01, both or a list",
);

export const acme = map({
  agreeToTerms: described(
    flag,
    "true: you agree to the terms of the authority, which it asks for (Let's Encrypt: letsencrypt.org/repository).",
  ),
  email: optional(
    textLike(
      /^[\x21-\x3f\x41-\x7e]{1,64}@[A-Za-z0-9.-]{1,190}$/,
      "must be an email address",
      "ops@example.com",
    ),
    "Whom the authority writes to where something is wrong.",
  ),
  domains: optional(
    listOf(
      textLike(
        /^[A-Za-z0-9*](?:[A-Za-z0-9.*-]{0,251}[A-Za-z0-9])?$/,
        "must be the name of a host, without a port",
        "api.example.com",
      ),
    ).max(MAX_DOMAINS, `must have at most ${MAX_DOMAINS} names`),
    "For which names. Default: the host of publicUrl, and hosts. No other name is ever asked for, whoever comes by it.",
  ),
  directory: optional(
    text(
      readDirectory,
      matching(
        /^(?:production|staging|https:\/\/\S+)$/,
        DIRECTORY_FORM,
        "staging",
        "https://ca.internal:9000/acme/acme/directory",
      ),
      DIRECTORY_FORM,
    ),
    "The authority: Let's Encrypt's production, its staging (whose certificates nobody trusts), or another's directory.",
    "production",
  ),
  ca: optional(
    plainText,
    "File in PEM: who signed the certificate of the authority's own server, in place of whom the system trusts.",
  ),
  challenge: optional(
    challenge,
    "How it sees that a name is ours: http-01 (it comes to port 80, to a listener without TLS), tls-alpn-01 (to port " +
      "443, to this one), or both, in turns after a failure. Default: both where a listener without TLS is there, " +
      "else tls-alpn-01.",
  ),
});

/** Ends of names for which no public authority gives certificates (RFC 2606, RFC 6762, RFC 8375, and ICANN's list). */
const PRIVATE_END =
  /(?:^|\.)(?:test|example|invalid|localhost|local|internal|home\.arpa|lan|onion)$/;

/** What else of the file has a say. */
export interface AcmeGround {
  readonly publicUrl?: string;
  readonly hosts?: readonly string[];
  /** Whether some listener speaks HTTP without TLS. */
  readonly hasPlain: boolean;
}

export function resolveAcme(
  written: z.output<typeof acme>,
  path: Path,
  { publicUrl, hosts = [], hasPlain }: AcmeGround,
  context: Context,
): AcmeSettings {
  const { problems } = context;
  if (!written.agreeToTerms) {
    const hint = "read them, and write agreeToTerms: true";
    const message = "must be true: the authority gives nothing to who does not agree to its terms";
    problems.error([...path, "agreeToTerms"], fault("bad-value", message, hint));
  }
  const own = publicUrl === undefined ? [] : [new URL(publicUrl).hostname];
  const isDefault = written.domains === undefined;
  const named = written.domains ?? [...own, ...hosts.filter((host) => !host.startsWith("*."))];
  const domains = [...new Set(named.map((name) => name.toLowerCase().replace(/\.$/, "")))];
  const isPublic = Object.values(DIRECTORIES).includes(written.directory);
  if (domains.length === 0 && context.tree.intact([...path, "domains"])) {
    problems.error(path, fault("bad-value", "has no name to get a certificate for", "add domains"));
  }
  if (isDefault && domains.length > MAX_DOMAINS) {
    const message = `would ask for ${domains.length} certificates, and ${MAX_DOMAINS} are the most`;
    problems.error(path, fault("bad-value", message, "name in domains those that are to have one"));
  }
  for (const [index, name] of named.entries()) {
    const why = whyNot(name.toLowerCase(), isPublic);
    if (why === null) continue;
    const place = isDefault ? path : [...path, "domains", index];
    const [message, hint] = why;
    problems.error(place, fault("bad-value", `${isDefault ? `${name} ` : ""}${message}`, hint));
  }
  const missing = own.find((host) => isIP(host) === 0 && !domains.includes(host));
  if (missing !== undefined && publicUrl?.startsWith("https:") === true) {
    const message = `leaves out ${missing}, which publicUrl has: clients that ask there refuse the certificate`;
    problems.add("warning", [...path, "domains"], fault("wrong-name", message, "add it"));
  }
  const challenges = written.challenge ?? (hasPlain ? CHALLENGES : (["tls-alpn-01"] as const));
  if (challenges.includes("http-01") && !hasPlain) {
    const message = "http-01 comes to port 80, and no listener here speaks HTTP without TLS";
    const hint = 'add { address: ":80", redirect: true } to listen, or write tls-alpn-01';
    problems.error([...path, "challenge"], fault("bad-value", message, hint));
  }
  if (written.ca !== undefined) context.pemText([...path, "ca"], written.ca, "certificates");
  return {
    directory: written.directory,
    ca: written.ca === undefined ? null : context.absolute(written.ca),
    email: written.email ?? null,
    domains,
    challenges: [...new Set(challenges)],
  };
}

/** Why no certificate can be had for a name; null: nothing speaks against it. */
function whyNot(name: string, isPublic: boolean): readonly [message: string, hint: string] | null {
  if (isIP(name.replace(/^\[|\]$/g, "")) !== 0) {
    return ["is an address, and certificates are for names", "write the name of the host"];
  }
  if (name.includes("*")) {
    const message = "is a wildcard, which neither challenge can prove (only dns-01 can)";
    return [message, "name each host, or get that certificate elsewhere: tls: { cert, key }"];
  }
  if (!isPublic) return null;
  if (!name.includes(".") || PRIVATE_END.test(name)) {
    const message = "is no name of the public internet: Let's Encrypt gives no certificate for it";
    return [message, "write the public name, or the directory of your own authority"];
  }
  return null;
}

/** The one place of `acme`, where several listeners have it. */
export function checkSame(
  placed: readonly { readonly path: Path; readonly settings: AcmeSettings }[],
  { problems }: Context,
): void {
  const [first, ...others] = placed;
  for (const { path, settings } of others) {
    if (isDeepStrictEqual(settings, first?.settings)) continue;
    const message = "differs from that of another listener: there is one set of certificates";
    problems.error(path, fault("bad-value", message, ONE_OF_TWO));
  }
}
