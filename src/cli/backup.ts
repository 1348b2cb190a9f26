/** `coinslot backup FILE TO`: the ledger as it is now, copied beside a running gateway and read back. */
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { backUpSqlite, partOf } from "../admin/books.ts";
import { messageOf } from "../x402/result.ts";
import { loadOrExplain } from "./load.ts";
import { fail, print, ProgressLine } from "./terminal.ts";

/** How often it is told how far it is, milliseconds. */
const PROGRESS_MS = 200;

/** Resolves with the exit code: 1 where the file is refused or no whole copy was made. */
export async function backup(
  file: string,
  to: string,
  { json }: { readonly json?: boolean },
): Promise<number> {
  const config = await loadOrExplain(file);
  if (config === undefined) return 1;
  const { store } = config;
  if (store.kind !== "sqlite") {
    return fail(
      "backup",
      "the ledger is in PostgreSQL: `pg_dump --format=custom --schema=coinslot --file=coinslot.dump URL` makes such a copy; deploy/LEDGER.md says how pg_restore puts it back",
    );
  }
  const line = new ProgressLine();
  const telling = setInterval(() => {
    const [done, whole] = [sizeOf(partOf(to)), sizeOf(store.path)];
    if (whole > 0) line.show(`copied ${Math.min(100, Math.floor((done / whole) * 100))} %`);
  }, PROGRESS_MS);
  const clear = (): void => {
    clearInterval(telling);
    line.clear();
  };
  try {
    const { payments, bytes } = await backUpSqlite(store, to);
    clear();
    const path = resolve(to);
    const size = `${(bytes / 1e6).toFixed(1)} MB`;
    print(
      json === true
        ? JSON.stringify({ path, payments, bytes })
        : `${path}: ${payments} payments, ${size}, copied and read back whole`,
    );
    return 0;
  } catch (cause) {
    clear();
    const isThere = cause instanceof Error && "code" in cause && cause.code === "EEXIST";
    return fail("backup", isThere ? `${to} or ${partOf(to)} is there already` : messageOf(cause));
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
