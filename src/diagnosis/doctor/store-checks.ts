/** Whether the store can be opened, by whom it is used now, and how much room it has. Writes nothing. */
import { constants } from "node:fs";
import { access, realpath, stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import type { Config } from "../../config/config.ts";
import { isLedgerLocked } from "../../ledger/sqlite/sqlite-lock.ts";
import { openBooks } from "../../admin/books.ts";
import { codeOf, fail, ok, warn, type Check, type DoctorFinding } from "./finding.ts";
import { messageOf } from "../../x402/result.ts";

/** Free space below which a store is warned of, and fails, bytes: a payment takes some 4 KiB. */
const LITTLE_BYTES = 1024 ** 3;
const TOO_LITTLE_BYTES = 64 * 1024 ** 2;
const MIB = 1024 ** 2;

export function storeChecks(config: Pick<Config, "store">): readonly Check[] {
  const { store } = config;
  const name = store.kind === "sqlite" ? store.path : store.place;
  const run = async (): Promise<readonly DoctorFinding[]> =>
    store.kind === "sqlite" ? checkFile(config, store.path) : [await countBooks(config, name)];
  return [{ name, section: "store", run }];
}

/** Whether a gateway has the ledger open; undefined where that cannot be told. */
export async function isInUse({ store }: Pick<Config, "store">): Promise<boolean | undefined> {
  if (store.kind !== "sqlite") return undefined;
  try {
    return isLedgerLocked(await realpath(store.path));
  } catch {
    return (await exists(store.path)) ? undefined : false;
  }
}

async function checkFile(
  config: Pick<Config, "store">,
  path: string,
): Promise<readonly DoctorFinding[]> {
  const folder = await existingFolder(dirname(path));
  const room = await checkRoom(folder);
  const mayWrite = await may(folder, constants.W_OK);
  if (!mayWrite) {
    const fix = `let the gateway's user write to ${folder}`;
    return [fail("store", `${folder} cannot be written to`, fix), ...room];
  }
  if (!(await exists(path))) {
    return [ok("store", `${path} does not exist yet; the gateway makes it`), ...room];
  }
  if (!(await may(path, constants.R_OK | constants.W_OK))) {
    const fix = `let the gateway's user read and write ${path}, and what stands beside it`;
    return [fail("store", `${path} cannot be read and written`, fix), ...room];
  }
  const locked = await isInUse(config);
  const user = locked ? "a gateway has it open" : "no gateway has it open";
  return [await countBooks(config, `${path}: ${user}`), ...room];
}

async function countBooks(config: Pick<Config, "store">, title: string): Promise<DoctorFinding> {
  try {
    const books = await openBooks(config);
    try {
      const { unresolved, undelivered } = await books.counts();
      const counted = `${unresolved} unresolved, ${undelivered} paid and undelivered`;
      return ok("store", `${title}; ${counted}`);
    } finally {
      await books.close();
    }
  } catch (cause) {
    const reason = messageOf(cause);
    const said = `${title}: ${reason}`;
    if (reason.includes("holds no ledger yet")) return ok("store", said);
    if (reason.includes("newer than")) {
      return fail(
        "store",
        said,
        "run the version that wrote it, or a newer one: there is no way back",
      );
    }
    if (reason.includes("schema version")) return warn("store", said, "start the gateway once");
    const fix =
      config.store.kind === "sqlite"
        ? "put the file back from a backup, or name another one"
        : "see that the database runs, and that user, password and database are right";
    return fail("store", said, fix);
  }
}

async function checkRoom(folder: string): Promise<readonly DoctorFinding[]> {
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  const message = `${Math.floor(free / MIB)} MiB are free at ${folder}`;
  const fix = "make room: without it no payment can be taken";
  if (free < TOO_LITTLE_BYTES) return [fail("disk", message, fix)];
  return [free < LITTLE_BYTES ? warn("disk", message, fix) : ok("disk", message)];
}

/** The folder, or the nearest one above it that is there. */
async function existingFolder(folder: string): Promise<string> {
  return (await exists(folder)) ? folder : existingFolder(dirname(folder));
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (cause) {
    return codeOf(cause) !== "ENOENT";
  }
}

async function may(path: string, mode: number): Promise<boolean> {
  try {
    await access(path, mode);
    return true;
  } catch {
    return false;
  }
}
