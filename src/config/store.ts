/** `store`: where payments are kept, a file or a database server. */
import { ok, type Result } from "../x402/result.ts";
import type { Fault } from "./problem.ts";
import { bad } from "./reading.ts";
import { Secret } from "./secret.ts";
import type { DatabaseEncryption, Store } from "./settings.ts";

const POSTGRES = /^postgres(?:ql)?:/;
/** Of both kinds, for editors. */
export const STORE = /^(?:sqlite:[\s\S]+|postgres(?:ql)?:\/\/\S+)$/;
export const STORE_FORM = "must be sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE";

/** What each `sslmode` comes to here: whoever asks for TLS at all gets it checked, but for `no-verify`. */
const ENCRYPTIONS: ReadonlyMap<string, DatabaseEncryption> = new Map([
  ["disable", "none"],
  ["no-verify", "unchecked"],
  ["prefer", "checked"],
  ["require", "checked"],
  ["verify-ca", "checked"],
  ["verify-full", "checked"],
]);

/** The path of a SQLite database is as written: relative ones are resolved later. */
export function readStore(store: string): Result<Store, Fault> {
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
