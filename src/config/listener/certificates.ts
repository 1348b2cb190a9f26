/** The certificates of a listener that come from files: which pairs, whether they can be served, and for which names. */
import { X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import type { z } from "zod";
import { CertificateTable, certificateNames } from "../../http/certificate-names.ts";
import { keyPairFault } from "../facilitator/key-pair.ts";
import type { Context } from "../reading/context.ts";
import { fault, ONE_OF_TWO } from "../reading/reading.ts";
import { described, map, plainText } from "../reading/shapes.ts";
import type { Path } from "../reading/tree.ts";

/** Where the certificates of a listener are. */
export interface ListenerTls {
  /** At least one; who asks for no name, or for one that none is for, gets the first. */
  readonly certificates: readonly CertificateFile[];
}

/** Absolute paths of two files in PEM, which are read again whenever they change. */
export interface CertificateFile {
  /** The certificate, and behind it those between it and the root. */
  readonly certFile: string;
  readonly keyFile: string;
}

/** A name by which clients ask for a certificate, and the key that says so; a host, `*.NAME`, or an address. */
export interface AskedName {
  readonly name: string;
  readonly from: "publicUrl" | "hosts";
}

export const filePath = plainText.min(1, "must be the path of a file in PEM");

export const CERT =
  "File in PEM with the certificate, followed by those between it and the root. It is read again when it changes.";
export const KEY = "File in PEM with the private key of the certificate.";

export const certificatePair = map({
  cert: described(filePath, CERT),
  key: described(filePath, KEY),
});

type WrittenPair = z.output<typeof certificatePair>;

/** `tls` as it is written, where it may say one pair or several. */
interface WrittenFiles extends Partial<WrittenPair> {
  readonly certificates?: readonly WrittenPair[];
}

/** A pair at its place in the file. */
interface PlacedPair {
  readonly path: Path;
  readonly pair: WrittenPair;
}

/** Null where none is written whole, which was said. `names`: by which clients ask; none: not known. */
export function resolveCertificates(
  tls: WrittenFiles,
  path: Path,
  names: readonly AskedName[],
  context: Context,
): ListenerTls | null {
  const placed = pairsOf(tls, path, context);
  if (placed.length === 0) return null;
  const read = placed.flatMap((each) => readPair(each, context) ?? []);
  // Of files that are not here nobody knows the names.
  if (read.length === placed.length) checkNames(read, path, names, context);
  return {
    certificates: placed.map(({ pair: { cert, key } }) => {
      return { certFile: context.absolute(cert), keyFile: context.absolute(key) };
    }),
  };
}

/** Says what has no effect beside what stands in its place. */
export function refuseBeside(
  taken: "acme" | "certificates",
  path: Path,
  tls: WrittenFiles,
  { problems }: Context,
): void {
  const others = taken === "acme" ? (["cert", "key", "certificates"] as const) : PAIR;
  for (const key of others) {
    if (tls[key] === undefined) continue;
    const message = `has no effect beside ${taken}`;
    problems.errorAtKey([...path, key], fault("unused-key", message, ONE_OF_TWO));
  }
}

const PAIR = ["cert", "key"] as const;

function pairsOf(tls: WrittenFiles, path: Path, context: Context): readonly PlacedPair[] {
  const { tree, problems } = context;
  if (tls.certificates !== undefined) {
    refuseBeside("certificates", path, tls, context);
    return tls.certificates.map((pair, index) => ({
      pair,
      path: [...path, "certificates", index],
    }));
  }
  const { cert, key } = tls;
  if (cert !== undefined && key !== undefined) return [{ path, pair: { cert, key } }];
  // What is written and wrong was said already.
  const isElsewhere = ["acme", "certificates"].some((name) => tree.has([...path, name]));
  const [first, second] = isElsewhere ? [] : PAIR.filter((name) => !tree.has([...path, name]));
  if (second !== undefined) {
    problems.errorAtKey(path, fault("missing-key", "needs cert and key, certificates, or acme"));
  } else if (first !== undefined) {
    problems.errorAtKey([...path, first], fault("missing-key", "is required"));
  }
  return [];
}

/** A pair that can be served, or one that clients refuse for a reason that was said. */
interface ReadPair extends PlacedPair {
  /** Null: it cannot be read, or is for another key. */
  readonly cert: string | null;
}

/** The texts are not kept: the listener reads them when it opens, and again when they change. */
function readPair(placed: PlacedPair, context: Context): ReadPair | undefined {
  const { path, pair } = placed;
  const cert = context.pemText([...path, "cert"], pair.cert, "certificates");
  const key = context.pemText([...path, "key"], pair.key, "a key");
  if (cert === undefined || key === undefined) return undefined;
  const found = keyPairFault(cert, key, (context.environment.now ?? Date.now)());
  if (found === null) return { ...placed, cert };
  const { severity, part, code, message, hint } = found;
  context.problems.add(severity, [...path, part], fault(code, `the file ${message}`, hint));
  return { ...placed, cert: severity === "error" ? null : cert };
}

function checkNames(
  read: readonly ReadPair[],
  path: Path,
  names: readonly AskedName[],
  context: Context,
): void {
  const [first] = read;
  const certified = read.flatMap(({ cert, ...placed }) => {
    return cert === null ? [] : [{ ...placed, cert, names: certificateNames(cert) }];
  });
  // What is wrong with one of them comes first, and says itself what it is for once it is mended.
  if (first === undefined || certified.length < read.length) return;
  warnOfTwice(certified, context);
  const table = new CertificateTable(certified.map((each) => [each.names, each] as const));
  const leaf = new X509Certificate(first.cert ?? "");
  const unserved = names.filter(({ name }) => {
    return (isIP(name) === 0 ? table.of(name) : leaf.checkIP(name)) === undefined;
  });
  if (unserved.length > 0) warnOfUnserved(unserved, { path, isOne: first.path === path }, context);
}

/** Names that are written at most, of those that are missing. */
const MAX_TOLD = 5;

function warnOfUnserved(
  unserved: readonly AskedName[],
  { path, isOne }: { readonly path: Path; readonly isOne: boolean },
  { problems }: Context,
): void {
  const told = unserved.slice(0, MAX_TOLD).map(({ name, from }) => `${name}, which ${from} has`);
  const more = unserved.length - told.length;
  const list = [...told, ...(more > 0 ? [`${more} more`] : [])].join("; ");
  const message = isOne
    ? `the file has a certificate for other names (subjectAltName) than ${list}: clients refuse it`
    : `none of them is for ${list} (subjectAltName): clients get the first one there, and refuse it`;
  const hint = isOne
    ? "get one for that name, name several in certificates, or correct the name"
    : "add one for that name, or correct the name";
  problems.add(
    "warning",
    [...path, isOne ? "cert" : "certificates"],
    fault("wrong-name", message, hint),
  );
}

/** Of two for one name the first is served; one that is for no name at all is served to nobody, unless it is the first. */
function warnOfTwice(
  certified: readonly (PlacedPair & { readonly names: readonly string[] })[],
  { problems }: Context,
): void {
  const seen = new Map<string, number>();
  for (const [index, { names, path }] of certified.entries()) {
    const place = [...path, "cert"];
    const twice = names.filter((name) => seen.has(name));
    const [name] = twice;
    if (name !== undefined) {
      const more = twice.length === 1 ? "" : ` (and ${twice.length - 1} more of its names)`;
      const message = `the file is for ${name}${more}, as certificates[${seen.get(name)}] is: that one is served, which comes first`;
      problems.add("warning", place, fault("duplicate-certificate", message, ONE_OF_TWO));
    } else if (names.length === 0 && index > 0) {
      const message = "the file has a certificate without a name (subjectAltName): nobody gets it";
      problems.add(
        "warning",
        place,
        fault("wrong-name", message, "get one for a name, or remove it"),
      );
    }
    for (const each of names) if (!seen.has(each)) seen.set(each, index);
  }
}
