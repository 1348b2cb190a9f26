/** How long certificates are still good: of servers as they show them, and of our listeners' files. */
import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { KeptTexts } from "../../certificates/kept.ts";
import { isPaused } from "../../certificates/schedule.ts";
import type { CertificateFile, Config } from "../../config/config.ts";
import { keyPairFault } from "../../config/facilitator/key-pair.ts";
import type { KeptText } from "../../ledger/certificates.ts";
import { readSqliteCertificates } from "../../ledger/sqlite/sqlite-certificates.ts";
import { messageOf } from "../../x402/result.ts";
import { codeOf, fail, ok, warn, type Check, type DoctorFinding } from "./finding.ts";
import type { ShownCertificate } from "./http-probe.ts";

const DAY_MS = 86_400_000;
/** With fewer days left a certificate is warned of, unless it lives so shortly that this is normal. */
const FEW_DAYS = 14;
/** Short-lived ones are renewed with a third of their life left. */
const RENEWAL_PART = 3;

/** What clients say of a certificate, by OpenSSL's code. */
const FAULTS: Readonly<Record<string, readonly [message: string, fix: string]>> = {
  CERT_HAS_EXPIRED: ["has expired", "renew it"],
  CERT_NOT_YET_VALID: ["is not valid yet", "see to the clocks of both machines"],
  DEPTH_ZERO_SELF_SIGNED_CERT: [
    "is signed by itself",
    "use one of a public authority, or name it under tls.ca where it is an upstream's",
  ],
  SELF_SIGNED_CERT_IN_CHAIN: [
    "comes from an authority that is not trusted here",
    "name that authority under tls.ca where it is an upstream's",
  ],
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: [
    "comes without the certificates between it and the root",
    "have the server send its whole chain (fullchain.pem)",
  ],
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: [
    "comes from an authority that is not trusted here",
    "have the server send its whole chain, or name the authority under tls.ca where it is an upstream's",
  ],
  ERR_TLS_CERT_ALTNAME_INVALID: [
    "is for another name",
    "correct the name, or write tls.serverName where it is an upstream's",
  ],
};

/** Null: clients accept it. */
export function certificateFault(
  subject: string,
  { fault }: ShownCertificate,
): DoctorFinding | null {
  if (fault === null) return null;
  const [message, fix] = FAULTS[fault] ?? [`is refused (${fault})`, "see to the certificate"];
  return fail(subject, `the certificate ${message}`, fix);
}

export interface CertificateValidity {
  readonly validFrom: Date;
  readonly validTo: Date;
}

/** `now`: milliseconds since the epoch. */
export function validityFinding(
  subject: string,
  certificate: CertificateValidity,
  now: number,
): DoctorFinding {
  const leftMs = certificate.validTo.getTime() - now;
  const lifeMs = certificate.validTo.getTime() - certificate.validFrom.getTime();
  const until = certificate.validTo.toISOString().slice(0, 10);
  if (leftMs <= 0) return fail(subject, `the certificate has expired on ${until}`, "renew it");
  const days = Math.floor(leftMs / DAY_MS);
  const message = `the certificate is valid for ${days} day${days === 1 ? "" : "s"}, until ${until}`;
  if (leftMs >= Math.min(FEW_DAYS * DAY_MS, lifeMs / RENEWAL_PART)) return ok(subject, message);
  return warn(subject, message, "renew it, and see why it was not renewed by itself");
}

/** What an authority has given for each name, as the ledger has it. */
export function acmeChecks({ acme, store, routes }: Config): readonly Check[] {
  if (acme === null || routes.length === 0) return [];
  const run = async (): Promise<readonly DoctorFinding[]> => {
    let kept = new KeptTexts([]);
    try {
      kept = new KeptTexts(await readCertificates(store));
    } catch (cause) {
      // Else the store's own check says so.
      if (!messageOf(cause).startsWith("there is no ledger")) return [];
    }
    return acme.domains.map((domain) => keptFinding(domain, kept));
  };
  return [{ name: "acme", section: "certificates", run }];
}

async function readCertificates(store: Config["store"]): Promise<readonly KeptText[]> {
  if (store.kind === "sqlite") return readSqliteCertificates(store.path);
  // Its driver is loaded by those who need it.
  const { readPostgresCertificates } = await import("../../ledger/postgres/postgres.ts");
  return readPostgresCertificates(store.url.reveal());
}

function keptFinding(domain: string, kept: KeptTexts): DoctorFinding {
  const subject = `acme ${domain}`;
  const there = kept.get("certificate", domain);
  const last = kept.get("failure", domain);
  // What a clock that was ahead has left behind is over.
  const isOver = (last?.againMs ?? 0) > Date.now() && !isPaused(last?.againMs ?? 0, Date.now());
  const failure = isOver ? undefined : last;
  if (there === undefined && failure === undefined) {
    return warn(subject, "there is no certificate yet", "start the gateway: it asks for one");
  }
  if (failure !== undefined) {
    const again = new Date(failure.againMs).toISOString();
    const said = `${failure.reason}; asked again at ${again}`;
    const fix = "see that the name leads here, and that ports 80 and 443 arrive";
    return (there === undefined ? fail : warn)(subject, said, fix);
  }
  const { validFromDate: validFrom, validToDate: validTo } = new X509Certificate(there?.cert ?? "");
  return validityFinding(subject, { validFrom, validTo }, Date.now());
}

/** The files of our own listeners. */
export function listenerChecks({ listen, facilitator, routes }: Config): readonly Check[] {
  const own = routes.length === 0 ? [] : listen;
  const places = [
    ...own.map(({ tls, port }, index) => ({ tls, name: `listen[${index}] :${port}` })),
    { tls: facilitator.listen?.tls ?? null, name: "facilitator.listen" },
  ];
  return places.flatMap(({ tls, name }): readonly Check[] => {
    // What an authority gives is looked at by itself.
    if (tls === null || tls === "acme") return [];
    const { certificates } = tls;
    return certificates.map((files, index) => {
      const subject = certificates.length === 1 ? name : `${name} certificates[${index}]`;
      return { name: subject, section: "certificates", run: () => fileFindings(subject, files) };
    });
  });
}

async function fileFindings(
  subject: string,
  { certFile, keyFile }: CertificateFile,
): Promise<readonly DoctorFinding[]> {
  const now = Date.now();
  const texts: string[] = [];
  for (const file of [certFile, keyFile]) {
    try {
      texts.push(await readFile(file, "utf8"));
    } catch (cause) {
      const fix = "see that it exists and that the gateway's user may read it";
      return [fail(subject, `${file} cannot be read (${codeOf(cause)})`, fix)];
    }
  }
  const [cert = "", key = ""] = texts;
  const fault = keyPairFault(cert, key, now);
  if (fault !== null) {
    const said = `${fault.part === "cert" ? certFile : keyFile} ${fault.message}`;
    const fix = "put a valid pair in place: a running gateway takes it up by itself";
    return [fail(subject, said, fix)];
  }
  const { validFromDate: validFrom, validToDate: validTo } = new X509Certificate(cert);
  return [validityFinding(subject, { validFrom, validTo }, now)];
}
