/** The certificates of a listener that come from files, and which of them a client gets by the name that it asks for. */
import { createSecureContext, type SecureContext } from "node:tls";
import { CertificateTable, certificateNames } from "../../http/certificate-names.ts";
import {
  CertificateFiles,
  type CertificateCare,
  type CertificatePaths,
} from "./certificate-files.ts";
import { secureContext, type KeyPair } from "./tls.ts";

export interface FileOptions extends CertificateCare {
  /** At least one; of several for one name the first is served. */
  readonly certificates: readonly CertificatePaths[];
}

export class FileCertificates {
  /** Nothing is to be chosen. */
  readonly isOne: boolean;
  readonly #files: readonly CertificateFiles[];
  /** By their places in the list. */
  readonly #used: Used[] = [];
  #byName = new CertificateTable<Used>([]);

  /** @param useFirst called with what those get who name nobody, or somebody else; it may throw where that cannot be served */
  constructor({ certificates, ...care }: FileOptions, useFirst: (pair: KeyPair) => void) {
    this.isOne = certificates.length === 1;
    this.#files = certificates.map((paths, index) => {
      return new CertificateFiles({ ...paths, ...care }, (pair) => {
        const names = certificateNames(pair.cert);
        if (index === 0) useFirst(pair);
        const context = index === 0 ? undefined : createSecureContext(secureContext(pair));
        this.#note(index, { names, context });
      });
    });
  }

  /** Rejects with a sentence for the operator where one cannot be served. */
  async open(): Promise<void> {
    try {
      for (const file of this.#files) await file.open();
    } catch (cause) {
      this.close();
      throw cause;
    }
  }

  /** Reads all of them now. False: one cannot be served, and what was in use in its place is still. */
  async reload(): Promise<boolean> {
    const read = await Promise.all(this.#files.map((file) => file.reload()));
    return !read.includes(false);
  }

  close(): void {
    for (const file of this.#files) file.close();
  }

  /** For the name that a client asks for; undefined: the first. */
  of(name: string): SecureContext | undefined {
    return this.#byName.of(name)?.context;
  }

  #note(index: number, used: Used): void {
    this.#used[index] = used;
    const entries = this.#used.flatMap((each) => [[each.names, each] as const]);
    this.#byName = new CertificateTable(entries);
  }
}

interface Used {
  readonly names: readonly string[];
  /** Undefined: the server's own. Sessions are sealed by the server's keys, whichever certificate they began with. */
  readonly context: SecureContext | undefined;
}
