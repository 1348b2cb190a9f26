/**
 * Certificates that an authority gives us by itself (ACME, RFC 8555), kept in the ledger for all who share it. This
 * reads there again and again what every listener has to know, and asks the authority for what is missing or old: one
 * process at a time, for the names of the configuration and for no other.
 */
import { randomUUID, X509Certificate } from "node:crypto";
import type { KeptCertificates } from "../ledger/certificates.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Time } from "../time/time.ts";
import { messageOf } from "../x402/result.ts";
import { openAccount } from "./account.ts";
import { AuthorityFault, quoted, type Authority } from "./authority.ts";
import { forget, keep, KeptTexts, readKept } from "./kept.ts";
import { orderCertificate, READ_EVERY_MS } from "./order.ts";
import { isPaused, pauseMs, renewalMs } from "./schedule.ts";
import {
  NO_CERTIFICATES,
  type ToldCertificate,
  type ToldCertificates,
  type ToldChallenge,
} from "./told.ts";

/** The right to ask ends so long after it was taken, if its holder is gone, milliseconds; it is taken anew meanwhile. */
const LEASE_MS = 15_000;
const RENEW_LEASE_MS = LEASE_MS / 3;
/** Pause before the right is asked for again that another process has, milliseconds. */
const ELSEWHERE_MS = 5_000;

/** Clocks that differ by more are not of one time, milliseconds. */
const CLOCK_SLACK_MS = 86_400_000;

/** It would be asked for again at once, and again. */
const OLD = "the certificate that it gave is old already by the clock of this machine";
/** By whichever clock: the one before it is the better one. */
const ENDED = "the certificate that it gave has ended, and the one in use has not";
const ASK_IT = "the one in use stays; the authority's clock may be wrong, ask who runs it";
const SET_CLOCK =
  "the one that it gave is used, and none is asked for at once; set the clock of this machine";

export interface CertificateSettings {
  readonly directory: string;
  readonly ca: string | null;
  readonly email: string | null;
  readonly domains: readonly string[];
  readonly challenges: readonly ToldChallenge["kind"][];
}

export interface CertificatesOptions {
  /** As they are when they are asked for. */
  readonly settings: () => CertificateSettings;
  readonly store: KeptCertificates;
  readonly time: Time;
  readonly logger: Logger;
  readonly meter: CertificateMeter;
  /** From 0 to 1. Default: chance. */
  readonly random?: () => number;
}

/** What hears of certificates. */
export interface CertificateMeter {
  /** When the certificate of a name ends, milliseconds since the epoch; 0: there is none. */
  certificate(name: string, expiresMs: number): void;
  /** The name is in the configuration no more. */
  unserved(name: string): void;
  /** One was asked for in vain. */
  refused(name: string): void;
  /** There is such a name, nothing of which has failed yet. */
  awaited(name: string): void;
}

export class Certificates {
  readonly #options: CertificatesOptions;
  readonly #holder = randomUUID();
  readonly #stopping = new AbortController();
  #working: Promise<unknown> = Promise.resolve();
  #read = "";
  #onTold: (told: ToldCertificates) => void = () => undefined;
  #told = NO_CERTIFICATES;
  #kept = new KeptTexts([]);
  #isSilent = false;
  #named: readonly string[] = [];
  /** When a failure ends that the ledger did not keep, by directory and name: nothing else would tell how often we ask. */
  readonly #unkept = new Map<string, number>();

  constructor(options: CertificatesOptions) {
    this.#options = options;
  }

  /** What listeners have to know now. */
  get told(): ToldCertificates {
    return this.#told;
  }

  /** Hears of what they have to know now, and each time that it is something else. */
  onTold(hear: (told: ToldCertificates) => void): void {
    this.#onTold = hear;
    hear(this.#told);
  }

  /** Names that are to have a certificate and have none. */
  get missing(): readonly string[] {
    const { domains } = this.#options.settings();
    const there = new Set(this.#told.certificates.map(({ domain }) => domain));
    return domains.filter((domain) => !there.has(domain));
  }

  /** Resolves when what is kept has been read once. */
  async start(): Promise<void> {
    await this.#look();
    const { missing } = this;
    const said = "no certificate yet: handshakes are refused until an authority has given one";
    if (missing.length > 0) this.#options.logger.warn({ missing }, said);
    this.#working = Promise.all([
      this.#repeat(READ_EVERY_MS, () => this.#look()),
      this.#repeat(READ_EVERY_MS, () => this.#getDue()),
    ]);
  }

  /** Resolves when nothing is asked any more; what was begun is gone on with by whoever comes next. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#working;
  }

  async #repeat(pauseMs: number, step: () => Promise<void>): Promise<void> {
    const { time, logger } = this.#options;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await step();
        this.#isSilent = false;
      } catch (cause) {
        // The ledger cannot be asked, which others say as well.
        if (!this.#isSilent && !signal.aborted)
          logger.warn({ err: cause }, "certificates cannot be looked after; trying again");
        this.#isSilent = true;
      }
      await time.sleep(pauseMs, signal);
    }
  }

  /** Reads what is kept, where it has changed, or the names have. */
  async #look(): Promise<void> {
    const { store, settings, meter } = this.#options;
    const { domains } = settings();
    const read = `${await store.revision()} ${domains.join(" ")}`;
    if (read === this.#read) return;
    const kept = (this.#kept = await readKept(store));
    const certificates = domains.flatMap((domain) => kept.get("certificate", domain) ?? []);
    this.#told = {
      certificates: certificates.map(({ domain, cert, key }) => ({ domain, cert, key })),
      challenges: kept.all("challenge"),
    };
    this.#read = read;
    for (const gone of this.#named.filter((name) => !domains.includes(name))) meter.unserved(gone);
    this.#named = domains;
    for (const domain of domains) {
      meter.awaited(domain);
      meter.certificate(domain, endOf(kept.get("certificate", domain)));
    }
    this.#onTold(this.#told);
  }

  async #getDue(): Promise<void> {
    const { settings, store, time } = this.#options;
    const due = this.#dueOf(this.#kept, settings());
    if (due.length === 0) return;
    if (!(await store.lease(this.#holder, time.now() + LEASE_MS))) {
      return time.sleep(ELSEWHERE_MS, this.#stopping.signal);
    }
    const over = new AbortController();
    const signal = AbortSignal.any([this.#stopping.signal, over.signal]);
    const holding = this.#hold(over);
    try {
      for (const domain of due) {
        if (signal.aborted) break;
        await this.#get(domain, signal);
      }
    } finally {
      over.abort();
      await holding;
      await store.lease(this.#holder, 0).catch(() => false);
    }
  }

  /** Takes the right to ask anew until it is over; ends what is asked where somebody else has it. */
  async #hold(over: AbortController): Promise<void> {
    const { store, time } = this.#options;
    for (;;) {
      await time.sleep(RENEW_LEASE_MS, over.signal);
      if (over.signal.aborted) return;
      const isOurs = await store.lease(this.#holder, time.now() + LEASE_MS).catch(() => false);
      if (!isOurs) over.abort();
    }
  }

  /** Names whose certificate is missing, old or of another authority, and that may be asked for now. */
  #dueOf(kept: KeptTexts, { domains, directory }: CertificateSettings): readonly string[] {
    const nowMs = this.#options.time.now();
    return domains.filter((domain) => {
      const failure = kept.get("failure", domain);
      if (failure?.directory === directory && isPaused(failure.againMs, nowMs)) return false;
      if (isPaused(this.#unkept.get(`${directory} ${domain}`) ?? 0, nowMs)) return false;
      const there = kept.get("certificate", domain);
      return there?.directory !== directory || nowMs >= renewalMs(there.cert);
    });
  }

  /** One name, as it stands in the ledger now: whoever had the right before may have got it. */
  async #get(domain: string, signal: AbortSignal): Promise<void> {
    const settings = this.#options.settings();
    const { directory, challenges } = settings;
    const kept = await readKept(this.#options.store);
    if (!this.#dueOf(kept, settings).includes(domain)) return;
    const before = kept.get("failure", domain);
    const failures = before?.directory === directory ? before.failures : 0;
    const challenge = challenges[failures % challenges.length] ?? "http-01";
    const asking = { domain, directory, challenge, failures, kept };
    try {
      await this.#ask(asking, settings, signal);
    } catch (cause) {
      if (!signal.aborted) await this.#failed(asking, cause);
    }
  }

  async #ask(
    { domain, directory, challenge, kept }: Asking,
    settings: CertificateSettings,
    signal: AbortSignal,
  ): Promise<void> {
    const { store, time, logger } = this.#options;
    const facts = { domain, directory };
    const onStep = (step: string): void => logger.info({ ...facts, step }, "certificate");
    const authority = await openAccount(settings, { kept, store, time, logger, signal });
    try {
      const there = kept.get("certificate", domain);
      const aheadMs = aheadOf(authority, time);
      if (Math.abs(aheadMs) > CLOCK_SLACK_MS) {
        const theirMs = time.now() - aheadMs;
        const isDue = there?.directory !== directory || theirMs >= renewalMs(there.cert);
        if (!isDue) throw clockFault(aheadMs);
        const said = "the clock of this machine is not that of the authority";
        logger.warn({ ...facts, aheadMs }, said);
      }
      const left = kept.get("order", domain);
      // One that was had already, by a process that ended before it could forget the order.
      const open = left?.key === there?.key ? undefined : left;
      const ground = { authority, store, time, signal, onStep };
      const got = await orderCertificate({ directory, domain, challenge, open }, ground);
      const isWorse = endOf(there) > time.now() && endOf(got) <= time.now();
      if (!isWorse) await keep(store, ["certificate", domain], { ...got, directory });
      await forget(store, "order", domain);
      if (isWorse) throw new AuthorityFault(ENDED, { advice: ASK_IT });
      await forget(store, "failure", domain);
      const until = new X509Certificate(got.cert).validToDate.toISOString();
      logger.info({ ...facts, until }, "there is a new certificate");
      if (time.now() >= renewalMs(got.cert)) {
        throw new AuthorityFault(OLD, { advice: SET_CLOCK });
      }
    } finally {
      await authority.close();
    }
  }

  async #failed(
    { domain, directory, challenge, failures: before, kept }: Asking,
    cause: unknown,
  ): Promise<void> {
    const { store, time, logger, meter, random = Math.random } = this.#options;
    const fault = cause instanceof AuthorityFault ? cause : undefined;
    const failures = before + 1;
    const { isOutage = false, askedMs } = fault ?? {};
    const againMs = time.now() + pauseMs({ failures, isOutage, askedMs }, random());
    // What the library throws may be the whole answer.
    const reason = quoted(messageOf(cause));
    meter.refused(domain);
    try {
      await keep(store, ["failure", domain], { directory, againMs, reason, failures });
    } catch (unkept) {
      this.#unkept.set(`${directory} ${domain}`, againMs);
      throw unkept;
    }
    const again = new Date(againMs).toISOString();
    const ends = endOf(kept.get("certificate", domain));
    const inUse = ends === 0 ? "none" : new Date(ends).toISOString();
    const advice = fault?.advice ?? adviceOf(isOutage, challenge);
    const said = { domain, directory, challenge, reason, failures, again, inUse };
    logger.error(said, `no certificate: ${advice}`);
  }
}

/** One attempt to get the certificate of a name. */
interface Asking {
  readonly domain: string;
  readonly directory: string;
  readonly challenge: ToldChallenge["kind"];
  /** In a row, before this attempt. */
  readonly failures: number;
  /** As it stood before. */
  readonly kept: KeptTexts;
}

/** By how much our clock is ahead of the authority's, milliseconds; 0 where it tells no time. */
function aheadOf(authority: Authority, time: Time): number {
  const nowMs = time.now();
  return nowMs - (authority.dateMs() ?? nowMs);
}

/** By the clock of who gives them nothing is due: each that is asked for would be old at once, and is counted. */
function clockFault(aheadMs: number): AuthorityFault {
  const days = Math.round(aheadMs / CLOCK_SLACK_MS);
  const said = `the clock of this machine is ${days} days ahead of the authority's, by which nothing is due`;
  return new AuthorityFault(said, { advice: "none was asked for; set the clock of this machine" });
}

/** 0: there is none. */
function endOf(there: Pick<ToldCertificate, "cert"> | undefined): number {
  return there === undefined ? 0 : new X509Certificate(there.cert).validToDate.getTime();
}

/** What an operator does about it. */
function adviceOf(isOutage: boolean, challenge: ToldChallenge["kind"]): string {
  if (isOutage)
    return "the authority cannot be asked; see whether this machine reaches its directory";
  const port =
    challenge === "http-01" ? "80, at a listener without TLS" : "443, at a listener with acme";
  return `see that the name leads here, and that the authority's connections to port ${port} arrive`;
}
