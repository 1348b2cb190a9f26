/**
 * One certificate of a listener: two PEM files that are read when it opens and again when they change. A pair
 * that cannot be served is logged with its reason, and the one before it stays in use.
 */
import { X509Certificate } from "node:crypto";
import { watch, type FSWatcher } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { Logger } from "../../telemetry/logger.ts";
import type { KeyPair } from "./tls.ts";

/** A change is looked at once nothing more has changed for so long: both files are written, milliseconds. */
const SETTLE_MS = 250;
/** A pair that cannot be served may be half written; it is complained about after this, milliseconds. */
const RECHECK_MS = 2_000;
/** The files are read this often, whether a change was seen or not: some file systems tell of none, milliseconds. */
const REREAD_MS = 60_000;

/** What is wrong with a pair; `error`: it cannot be served. `message` completes a sentence about the file. */
export interface KeyPairRemark {
  readonly severity: "error" | "warning";
  readonly part: "cert" | "key";
  readonly message: string;
}

/** Absolute paths. */
export interface CertificatePaths {
  readonly certFile: string;
  readonly keyFile: string;
}

/** What holds for all certificates of a listener. */
export interface CertificateCare {
  /** Null: nothing is wrong. `now`: milliseconds since the epoch. */
  readonly judge: (cert: string, key: string, now: number) => KeyPairRemark | null;
  readonly logger: Logger;
  /** Hears of each certificate that is taken into use, and when it ends, milliseconds since the epoch. */
  readonly onUsed?: (certFile: string, expiresMs: number) => void;
}

export class CertificateFiles {
  readonly #options: CertificatePaths & CertificateCare;
  readonly #use: (pair: KeyPair) => void;
  #used: KeyPair | null = null;
  /** What was complained about last; the same is not said again with every look. */
  #complaint = "";
  #watchers: FSWatcher[] = [];
  #timer: NodeJS.Timeout | undefined;
  #reread: NodeJS.Timeout | undefined;
  #last: Promise<unknown> = Promise.resolve();

  /** @param use called with each pair that is to be served; it may throw for one that cannot be */
  constructor(options: CertificatePaths & CertificateCare, use: (pair: KeyPair) => void) {
    this.#options = options;
    this.#use = use;
  }

  /** @throws Error with a sentence for the operator when the files cannot be served */
  async open(): Promise<void> {
    const refusal = await this.#load();
    if (refusal !== null) throw new Error(refusal);
    this.#watch();
  }

  /** Reads the files now. False: they cannot be served, and what was in use is still. */
  async reload(): Promise<boolean> {
    return this.#look(true);
  }

  close(): void {
    clearTimeout(this.#timer);
    clearInterval(this.#reread);
    for (const watcher of this.#watchers) watcher.close();
    this.#watchers = [];
  }

  /** Folders, not files: editors and Kubernetes put another file, or another link, in a file's place. */
  #watch(): void {
    const { certFile, keyFile, logger } = this.#options;
    for (const folder of new Set([dirname(certFile), dirname(keyFile)])) {
      try {
        const watcher = watch(folder, { persistent: false }, () => this.#lookIn(SETTLE_MS, false));
        watcher.on("error", () => watcher.close());
        this.#watchers.push(watcher);
      } catch (error) {
        logger.warn({ err: error, folder }, "changes of the certificate are not seen at once");
      }
    }
    this.#reread = setInterval(() => void this.#look(false), REREAD_MS);
    this.#reread.unref();
  }

  #lookIn(ms: number, isPatient: boolean): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#look(isPatient), ms);
    this.#timer.unref();
  }

  /** One look after another, whoever asks. */
  async #look(isFinal: boolean): Promise<boolean> {
    const look = this.#last.then(() => this.#load());
    this.#last = look;
    const refusal = await look;
    if (refusal === null) {
      this.#complaint = "";
    } else if (!isFinal && refusal !== this.#complaint) {
      this.#lookIn(RECHECK_MS, true);
    } else if (isFinal && refusal !== this.#complaint) {
      this.#complaint = refusal;
      const { certFile, keyFile, logger } = this.#options;
      logger.error({ certFile, keyFile, reason: refusal }, "the new certificate is not used");
    }
    return refusal === null;
  }

  /** Null: what the files hold is in use. Otherwise why not, as a sentence. */
  async #load(): Promise<string | null> {
    const { certFile, keyFile } = this.#options;
    try {
      const [cert, key] = await Promise.all([readText(certFile), readText(keyFile)]);
      const used = this.#used;
      if (used?.cert !== cert || used.key !== key) this.#take({ cert, key });
      return null;
    } catch (error) {
      return error instanceof Error ? error.message : "the certificate cannot be served";
    }
  }

  /** @throws Error with a sentence for the operator */
  #take(pair: KeyPair): void {
    const { certFile, keyFile, judge, logger } = this.#options;
    const remark = judge(pair.cert, pair.key, Date.now());
    if (remark !== null) {
      const said = `${remark.part === "cert" ? certFile : keyFile} ${remark.message}`;
      if (remark.severity === "error") throw new Error(said);
      logger.warn({ certFile, reason: said }, "clients refuse this certificate");
    }
    this.#use(pair);
    this.#options.onUsed?.(certFile, new X509Certificate(pair.cert).validToDate.getTime());
    if (this.#used !== null) logger.info({ certFile }, "the new certificate is in use");
    this.#used = pair;
  }
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    const code = cause instanceof Error && "code" in cause ? ` (${String(cause.code)})` : "";
    throw new Error(`${file} cannot be read${code}`, { cause });
  }
}
