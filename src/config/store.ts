/** `store`: where payments are kept, a file or a database server, and for how long. */
import { z } from "zod";
import { ok, type Result } from "../x402/result.ts";
import type { Context } from "./reading/context.ts";
import { KEEP, readKeep, STANDARD_KEEPING, type Keeping } from "./routes/keeping.ts";
import type { Fault } from "./reading/problem.ts";
import { bad } from "./reading/reading.ts";
import { Secret } from "./facilitator/secret.ts";
import type { DatabaseEncryption, Store } from "./settings.ts";
import { described, map, matching, optional, plainText, text } from "./reading/shapes.ts";

const POSTGRES = /^postgres(?:ql)?:/;
/** Of both kinds, for editors. */
const STORE = /^(?:sqlite:[\s\S]+|postgres(?:ql)?:\/\/\S+)$/;
const STORE_FORM = "must be sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE";

/** What each `sslmode` comes to here: whoever asks for TLS at all gets it checked, but for `no-verify`. */
const ENCRYPTIONS: ReadonlyMap<string, DatabaseEncryption> = new Map([
  ["disable", "none"],
  ["no-verify", "unchecked"],
  ["prefer", "checked"],
  ["require", "checked"],
  ["verify-ca", "checked"],
  ["verify-full", "checked"],
]);

const STANDARD: Store = { kind: "sqlite", path: "./data/coinslot.db" };

const place = text(readStore, matching(STORE, STORE_FORM, "sqlite:./data/coinslot.db"));

export const store = z.union(
  [
    place,
    map({
      url: described(place, "Where: sqlite:PATH for one process, or postgres://… for several."),
      keep: optional(
        text(readKeep, KEEP),
        "How long payments that are over stay: delivered, or failed for good. Later only their keys and " +
          "transactions do, so that none is ever used twice. At least 1d, at most 365d, or forever.",
        STANDARD_KEEPING.keep,
      ),
      archive: optional(
        plainText.min(1, "must be the path of a folder"),
        "Folder that each of them is written to before it goes, one line of JSON each. Without it: nowhere.",
      ),
    }),
  ],
  `${STORE_FORM}, or { url, keep, archive }`,
);

/** Relative paths are meant from the folder of the configuration. */
export function resolveStore(context: Context): {
  readonly store: Store;
  readonly keeping: Keeping;
} {
  const written = context.document.store ?? STANDARD;
  const { url, keep, archive } =
    "url" in written && !("kind" in written) ? written : { url: written };
  const keepMs = keep === undefined ? STANDARD_KEEPING.keepMs : keep;
  return {
    store: url.kind === "sqlite" ? { ...url, path: context.absolute(url.path) } : url,
    keeping: { keepMs, archive: archive === undefined ? null : context.absolute(archive) },
  };
}

/** The path of a SQLite database is as written: relative ones are resolved later. */
function readStore(store: string): Result<Store, Fault> {
  if (POSTGRES.test(store)) return readPostgres(store);
  const path = /^sqlite:(?!\/\/)(.+)$/s.exec(store)?.[1];
  if (path === undefined) return bad(STORE_FORM, "write sqlite:./data/coinslot.db");
  return path.startsWith(":")
    ? bad("must be a file: a store in memory would forget who has paid")
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
