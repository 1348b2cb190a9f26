/**
 * Folders of sockets that gateways have left which were killed: removed by the next one, and none of a gateway that lives.
 * Nothing is removed but sockets at which nobody listens, in folders that are ours alone.
 */
import { lstat, readdir, rmdir, unlink } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";

/** What a folder of ours is called. */
export const FOLDER_PREFIX = "coinslot-";
const NAME = /^coinslot-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Folders that are looked at, the first ones. */
const MAX_FOLDERS = 64;
/** Whoever has just made one may not listen yet, milliseconds. */
const SETTLED_MS = 60_000;
const OTHERS = 0o077;

/** Paths of those that are gone. @param own is left alone. Never rejects. */
export async function removeLeftFolders(
  parent: string,
  own: string,
  now: number,
): Promise<readonly string[]> {
  const names = await readdir(parent).catch(() => []);
  const folders = names.filter((name) => NAME.test(name)).map((name) => join(parent, name));
  const removed: string[] = [];
  for (const folder of folders.slice(0, MAX_FOLDERS)) {
    try {
      if (folder !== own && (await isLeft(folder, now))) {
        for (const name of await readdir(folder)) await unlink(join(folder, name));
        await rmdir(folder);
        removed.push(folder);
      }
    } catch {
      // Somebody else has removed it, or it is none of ours.
    }
  }
  return removed;
}

async function isLeft(folder: string, now: number): Promise<boolean> {
  const stats = await lstat(folder);
  const isOurs = stats.uid === process.getuid?.() && (stats.mode & OTHERS) === 0;
  if (!stats.isDirectory() || !isOurs || now - stats.mtimeMs < SETTLED_MS) return false;
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    if (!(await lstat(path)).isSocket() || !(await isDead(path))) return false;
  }
  return true;
}

/** Whether nobody listens there: one that is busy is not dead. */
function isDead(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    socket.once("connect", () => {
      socket.destroy();
      resolve(false);
    });
    socket.once("error", (fault) => resolve("code" in fault && fault.code === "ECONNREFUSED"));
  });
}
