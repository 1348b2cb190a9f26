/** `store`: where payments are kept, a file or a database server, and for how long. */
import { z } from "zod";
import { ok, type Result } from "../x402/result.ts";
import type { Context } from "./reading/context.ts";
import type { Fault } from "./reading/problem.ts";
import { bad, LASTING, LASTING_FORM, readLasting, type Reader } from "./reading/reading.ts";
import { Secret } from "./facilitator/secret.ts";
import { described, map, matching, optional, plainText, text } from "./reading/shapes.ts";

/** Where payments are kept. */
export type Store =
  | { readonly kind: "sqlite"; readonly path: string }
  | {
      readonly kind: "postgres";
      readonly url: Secret;
      /** `host:port/database`, for messages. */
      readonly place: string;
      readonly encryption: DatabaseEncryption;
    };

/** `unchecked`: whoever answers is taken for the database. */
export type DatabaseEncryption = "none" | "unchecked" | "checked";

/** How long the ledger keeps payments that are over, and where they go then. */
export interface Keeping {
  /** How long a payment that is over stays, milliseconds; null: for ever. */
  readonly keepMs: number | null;
  /** Absolute path of the folder that it is written to before it goes; null: nowhere. */
  readonly archive: string | null;
}

const DAY_MS = 86_400_000;
const POSTGRES = /^postgres(?:ql)?:/;
/** Of both kinds, for editors. */
const STORE = /^(?:sqlite:[\s\S]+|postgres(?:ql)?:\/\/\S+)$/;
const STORE_FORM = "must be sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE";
const A_FILE = "write sqlite:./data/coinslot.db";
const FOREVER = "forever";
const KEEP = new RegExp(`${LASTING.source}|^${FOREVER}$`);
const KEEP_FORM = `${LASTING_FORM}, or ${FOREVER}`;

/** What each `sslmode` comes to here: whoever asks for TLS at all gets it checked, but for `no-verify`. */
const ENCRYPTIONS: ReadonlyMap<string, DatabaseEncryption> = new Map([
  ["disable", "none"],
  ["no-verify", "unchecked"],
  ["prefer", "checked"],
  ["require", "checked"],
  ["verify-ca", "checked"],
  ["verify-full", "checked"],
]);

/** Milliseconds, or null for `forever`. Within a day no network is final for certain, and buyers come back. */
const readKeep: Reader<number | null> = (text) => {
  if (text === FOREVER) return ok(null);
  const read = readLasting(text);
  if (!read.ok) return LASTING.test(text) ? read : bad(KEEP_FORM, read.error.suggestion);
  return read.value >= DAY_MS ? read : bad("must be at least 1d");
};

const place = text(readStore, matching(STORE, STORE_FORM, "sqlite:./data/coinslot.db"));

const storeMap = map({
  url: described(place, "Where: sqlite:PATH for one process, or postgres://… for several."),
  keep: optional(
    text(readKeep, matching(KEEP, KEEP_FORM, "90d", FOREVER)),
    "How long payments that are over stay: delivered, or failed for good. Later only their keys and " +
      "transactions do, so that none is ever used twice. Where a pass, or `grants` of a route, lasts longer, so long. At least 1d, at most 365d, or forever.",
    "90d",
  ),
  archive: optional(
    plainText.min(1, "must be the path of a folder"),
    "Folder that each of them is written to before it goes, one line of JSON each. Without it: nowhere.",
  ),
});

type WrittenStore = z.output<typeof storeMap>;

export const store = z.union(
  [
    place.transform((url): WrittenStore => ({ url, keep: storeMap.shape.keep.parse(undefined) })),
    storeMap,
  ],
  `${STORE_FORM}, or { url, keep, archive }`,
);

/** Relative paths are meant from the folder of the configuration. */
export function resolveStore(
  { url, keep, archive }: WrittenStore,
  context: Context,
): { readonly store: Store; readonly keeping: Keeping } {
  const isMap = context.tree.find(["store"])?.kind === "mapping";
  if (url.kind === "sqlite")
    context.warnOfUnexpanded(isMap ? ["store", "url"] : ["store"], url.path);
  if (archive !== undefined) context.warnOfUnexpanded(["store", "archive"], archive);
  return {
    store: url.kind === "sqlite" ? { ...url, path: context.absolute(url.path) } : url,
    keeping: { keepMs: keep, archive: archive === undefined ? null : context.absolute(archive) },
  };
}

/** The path of a SQLite database is as written: relative ones are resolved later. */
function readStore(store: string): Result<Store, Fault> {
  if (POSTGRES.test(store)) return readPostgres(store);
  const path = /^sqlite:(?!\/\/)(.+)$/s.exec(store)?.[1];
  if (path === undefined) return bad(STORE_FORM, A_FILE);
  return path.startsWith(":")
    ? bad("must be a file: a store in memory would forget who has paid", A_FILE)
    : ok({ kind: "sqlite", path });
}

/** User and password may come from elsewhere (`PGUSER`, a certificate); the database is named. */
function readPostgres(text: string): Result<Store, Fault> {
  const url = /^\w+:\/\//.test(text) && !/[\s\\]/.test(text) ? URL.parse(text) : null;
  if (url === null) {
    const hint = "percent-encode special characters of the password: @ is %40, / is %2F, # is %23";
    return bad(STORE_FORM, hint);
  }
  const { host, pathname, hash, searchParams } = url;
  if (!/^\/[^/]+$/.test(pathname)) return bad("must name a database", "end it with /coinslot");
  const mode = searchParams.get("sslmode");
  if (mode !== null && !ENCRYPTIONS.has(mode)) {
    return bad("has an sslmode that there is not", "write sslmode=verify-full");
  }
  if (hash !== "") return bad("must have no fragment", "write # in a password as %23");
  const encryption = ENCRYPTIONS.get(mode ?? "disable") ?? "none";
  return ok({ kind: "postgres", url: new Secret(text), place: `${host}${pathname}`, encryption });
}
