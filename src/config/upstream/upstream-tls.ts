/** `tls` of an upstream: files in PEM, read and checked when the configuration is. */
import { createPrivateKey, X509Certificate, type KeyObject } from "node:crypto";
import type { z } from "zod";
import type { Context } from "../reading/context.ts";
import { fault } from "../reading/reading.ts";
import { HOST_NAME, map, optional, plainText, textLike } from "../reading/shapes.ts";
import { Secret } from "../facilitator/secret.ts";
import type { Path } from "../reading/tree.ts";

/** Texts of PEM files; null where not given. */
export interface UpstreamTls {
  /** In place of the authorities that the system trusts. */
  readonly ca: string | null;
  /** The name in the certificate, where it is not that of the URL. */
  readonly serverName: string | null;
  /** Our own certificate and its key: both or none. */
  readonly cert: string | null;
  readonly key: Secret | null;
}

export const tls = map({
  ca: optional(
    plainText,
    "File in PEM: who signed the targets' certificates, in place of whom the system trusts.",
  ),
  serverName: optional(
    textLike(new RegExp(`^${HOST_NAME}$`), "must be a host name, without a port"),
    "The name in their certificate, where it is not that of the URL.",
  ),
  cert: optional(plainText, "File in PEM: our own certificate; `key` belongs to it."),
  key: optional(plainText, "File in PEM: the private key of `cert`."),
});

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

export function resolveTls(
  { ca, serverName, cert, key }: z.output<typeof tls> = {},
  path: Path,
  context: Context,
): UpstreamTls {
  const { problems } = context;
  const authorities = readPem([...path, "ca"], ca, context, "certificates");
  if (authorities !== null) readCertificate(authorities, [...path, "ca"], context);
  const certificate = readPem([...path, "cert"], cert, context, "certificates");
  const first = certificate && readCertificate(certificate, [...path, "cert"], context);
  const secret = readPem([...path, "key"], key, context, "a key");
  const read = secret === null ? undefined : readKey(secret, [...path, "key"], context);
  if ((cert === undefined) !== (key === undefined)) {
    const [given, missing] = cert === undefined ? ["key", "cert"] : ["cert", "key"];
    problems.errorAtKey([...path, given], fault("missing-key", `needs ${missing} beside it`));
  }
  if (first && read !== undefined && !first.checkPrivateKey(read)) {
    problems.error(
      [...path, "key"],
      fault("malformed-key", "this is not the key of the certificate"),
    );
  }
  return {
    ca: authorities,
    serverName: serverName ?? null,
    cert: certificate,
    key: secret === null ? null : new Secret(secret),
  };
}

/** The text of a file; null where none is named, or after an error. */
function readPem(
  path: Path,
  file: string | undefined,
  context: Context,
  holds: Parameters<Context["pemText"]>[2],
): string | null {
  return file === undefined ? null : (context.pemText(path, file, holds) ?? null);
}

/** The first of the certificates, all of which have to be readable; undefined after an error. */
function readCertificate(
  text: string,
  path: Path,
  { problems }: Context,
): X509Certificate | undefined {
  try {
    const certificates = (text.match(CERTIFICATE) ?? []).map((each) => new X509Certificate(each));
    if (certificates[0] !== undefined) return certificates[0];
  } catch {
    // Said below.
  }
  problems.error(path, fault("bad-file", "the file holds no certificate in PEM that can be read"));
  return undefined;
}

function readKey(text: string, path: Path, { problems }: Context): KeyObject | undefined {
  try {
    return createPrivateKey(text);
  } catch {
    const message = "the file holds no private key in PEM, or one with a passphrase";
    problems.error(path, fault("malformed-key", message));
    return undefined;
  }
}
