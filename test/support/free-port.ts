/**
 * Ports for processes that must be told theirs before they start, or keep it from one life to the
 * next. Asking the kernel for any port and giving it back is a race: it hands the same port to the
 * next connection that anybody opens. These come from below the kernel's own range, and a file
 * with the holder's process id keeps other test files away until that process has ended.
 */
import { randomInt } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Linux gives out 32768 and above by itself, macOS and Windows 49152 and above. */
const FIRST_PORT = 12_000;
const LAST_PORT = 32_000;
const MAX_TRIES = 200;

const FOLDER = join(tmpdir(), "coinslot-test-ports");

/** A port on loopback that nothing listens on, kept for this process until it ends. */
export async function freePort(): Promise<number> {
  mkdirSync(FOLDER, { recursive: true });
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const port = randomInt(FIRST_PORT, LAST_PORT);
    if (reserves(port) && (await canListen(port))) return port;
  }
  throw new Error(`no free port after ${MAX_TRIES} tries; old reservations are in ${FOLDER}`);
}

function reserves(port: number): boolean {
  const file = join(FOLDER, String(port));
  try {
    writeFileSync(file, String(process.pid), { flag: "wx" });
    return true;
  } catch {
    if (!isAlive(holderOf(file))) rmSync(file, { force: true });
    return false;
  }
}

/** The process that holds a reservation; a file just made and not yet written counts as our own. */
function holderOf(file: string): number {
  try {
    return Number.parseInt(readFileSync(file, "utf8"), 10) || process.pid;
  } catch {
    return process.pid;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function canListen(port: number): Promise<boolean> {
  const server = createServer();
  const { promise, resolve } = Promise.withResolvers<boolean>();
  server.once("error", () => resolve(false));
  server.listen({ host: "127.0.0.1", port, exclusive: true }, () => {
    server.close(() => resolve(true));
  });
  return await promise;
}
