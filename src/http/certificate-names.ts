/** For which names a certificate is good, and which of several a client gets by the name that it asks for (RFC 6066). */
import { X509Certificate } from "node:crypto";

const DNS = "DNS:";
const NAME = /^(?:\*\.)?[a-z0-9_](?:[a-z0-9._-]*[a-z0-9])?$/;

/**
 * The hosts of the first certificate in a PEM text, lower-case, `*.NAME` among them, addresses not. They are those of
 * subjectAltName alone: clients ask for nothing else (RFC 9525 section 2.3). Throws where there is no certificate.
 */
export function certificateNames(cert: string): readonly string[] {
  // `DNS:api.example.com, IP Address:127.0.0.1`; node escapes a comma within a name.
  const { subjectAltName = "" } = new X509Certificate(cert);
  return subjectAltName.split(", ").flatMap((entry) => {
    const name = entry.slice(DNS.length).toLowerCase();
    return entry.startsWith(DNS) && NAME.test(name) ? [name] : [];
  });
}

/** What belongs to certificates, by the names that they are for: an exact one before a wildcard, and of several the first. */
export class CertificateTable<Value> {
  readonly #names = new Map<string, Value>();

  /** @param entries the names as {@link certificateNames} has them */
  constructor(entries: Iterable<readonly [names: readonly string[], value: Value]>) {
    for (const [names, value] of entries) {
      for (const name of names) if (!this.#names.has(name)) this.#names.set(name, value);
    }
  }

  /** Undefined: none is for that name. A wildcard stands for one label (RFC 9525 section 6.3), and for itself. */
  of(name: string): Value | undefined {
    const asked = name.toLowerCase();
    const exact = this.#names.get(asked);
    const dot = asked.indexOf(".");
    return exact ?? (dot < 1 ? undefined : this.#names.get(`*${asked.slice(dot)}`));
  }
}
