/** `coinslot` as a process of its own, for what only a process can show: signals, exit codes, crashes. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "./free-port.ts";
import { untilAnswer } from "./until-answer.ts";

/** The bundle of this tree that the suite makes, else the sources. */
const MAIN = process.env["COINSLOT_MAIN"] ?? join(import.meta.dirname, "../../src/main.ts");
/** How long a start or a probe may take, milliseconds. */
const PATIENCE_MS = 15_000;

export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command to its end. */
export async function runCoinslot(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Finished> {
  const child = launch(words, env);
  const output = collect(child);
  await once(child, "close");
  return { code: child.exitCode, ...output() };
}

export interface Served {
  readonly url: string;
  readonly adminUrl: string;
  readonly pid: number;
  readonly output: () => { readonly stdout: string; readonly stderr: string };
  /** Sends a signal and resolves when the process is gone, with its exit code. */
  end(signal: NodeJS.Signals): Promise<number | null>;
  /** Resolves when the process has ended by itself, with its exit code. */
  readonly ended: Promise<number | null>;
  /** Resolves when `/readyz` answers with that status; rejects after that long, milliseconds, by default 15 s. */
  untilReady(status?: 200 | 503, withinMs?: number): Promise<string>;
}

export interface SiteOptions {
  /** Default: a SQLite file in the site's folder. */
  readonly store?: string;
  /** Default: the gateway's own address; replicas have one in common. */
  readonly publicUrl?: string;
  /** A file system of this size for the SQLite file, in a mount namespace of the process' own. */
  readonly diskBytes?: number;
  /** PEM; the listener speaks TLS, with HTTP/2. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** YAML of the `sidecar` block, without its `listen`, in place of a public listener. */
  readonly sidecar?: string;
  /** The program's main file; default: this tree's. */
  readonly main?: string;
  /** Node's own arguments. */
  readonly flags?: readonly string[];
  /** A command that becomes what follows it. */
  readonly prefix?: readonly string[];
}

/** A folder and ports that several lives of one gateway share. */
export class Site {
  readonly folder: string;
  readonly port: number;
  readonly #adminPort: number;
  readonly #children = new Set<ChildProcess>();

  readonly #options: SiteOptions;

  private constructor(folder: string, ports: readonly [number, number], options: SiteOptions) {
    this.folder = folder;
    [this.port, this.#adminPort] = ports;
    this.#options = options;
  }

  static async create(options: SiteOptions = {}): Promise<Site> {
    const folder = await mkdtemp(join(tmpdir(), "coinslot-site-"));
    return new Site(folder, [await freePort(), await freePort()], options);
  }

  get adminUrl(): string {
    return `http://127.0.0.1:${this.#adminPort}`;
  }

  /** The address of the SQLite file, or of the store that was given. */
  get store(): string {
    const folder = this.#options.diskBytes === undefined ? this.folder : this.#disk;
    return this.#options.store ?? `sqlite:${join(folder, "ledger.db")}`;
  }

  get #disk(): string {
    return join(this.folder, "disk");
  }

  /** The process's own file system, seen from outside. */
  diskOf({ pid }: Served): string {
    return `/proc/${pid}/root${this.#disk}`;
  }

  /** Writes the configuration (listeners and store are added) and starts the process. */
  async serve(yaml: string, env: Readonly<Record<string, string>>): Promise<Served> {
    await this.write(yaml);
    return this.launch(env);
  }

  /** Starts the process on the file that is there. */
  async launch(env: Readonly<Record<string, string>>): Promise<Served> {
    const { file } = this;
    const { main, flags = [], prefix = [] } = this.#options;
    const before = [...prefix, ...(await this.#mount()), process.execPath, ...flags];
    const child = launch(["serve", file], env, before, main);
    this.#children.add(child);
    const output = collect(child);
    const { adminUrl } = this;
    const ended = once(child, "close").then(() => child.exitCode);
    const served: Served = {
      ended,
      url: `http://127.0.0.1:${this.port}`,
      adminUrl,
      pid: child.pid ?? 0,
      output,
      async end(signal) {
        if (child.exitCode === null && child.signalCode === null) child.kill(signal);
        return ended;
      },
      untilReady: async (status = 200, withinMs = PATIENCE_MS) => {
        const wanted = { url: `${adminUrl}/readyz`, status, withinMs };
        const answer = await untilAnswer(child, wanted, () => output().stderr);
        return answer.text();
      },
    };
    return served;
  }

  get file(): string {
    return join(this.folder, "gateway.yaml");
  }

  /** Writes the configuration; a gateway that runs sees it. */
  async write(yaml: string): Promise<void> {
    await this.writeWhole((await this.head()) + yaml);
  }

  /** Writes the configuration as it is. */
  async writeWhole(yaml: string): Promise<void> {
    await writeFile(this.file, yaml);
  }

  /** What is added before each configuration. */
  async head(): Promise<string> {
    const { sidecar } = this.#options;
    const listener =
      sidecar === undefined
        ? `listen: ${await this.#listen()}`
        : `sidecar: { listen: 127.0.0.1:${this.port}, ${sidecar} }`;
    return `${listener}
publicUrl: ${this.#options.publicUrl ?? `http://127.0.0.1:${this.port}`}
admin: 127.0.0.1:${this.#adminPort}
store: ${this.store}
`;
  }

  async #listen(): Promise<string> {
    const { tls } = this.#options;
    if (tls === undefined) return `127.0.0.1:${this.port}`;
    await writeFile(join(this.folder, "tls.crt"), tls.cert);
    await writeFile(join(this.folder, "tls.key"), tls.key);
    return `[{ address: "127.0.0.1:${this.port}", tls: { cert: tls.crt, key: tls.key } }]`;
  }

  /** The command that mounts the file system and then becomes what follows it. */
  async #mount(): Promise<readonly string[]> {
    const { diskBytes } = this.#options;
    if (diskBytes === undefined) return [];
    await mkdir(this.#disk, { recursive: true });
    const script = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"';
    return ["unshare", "-rm", "sh", "-c", script, "sh", String(diskBytes), this.#disk];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill("SIGKILL");
      await once(child, "close");
    }
    await rm(this.folder, { recursive: true, force: true });
  }
}

function launch(
  words: readonly string[],
  env: Readonly<Record<string, string>>,
  before: readonly string[] = [process.execPath],
  main: string = MAIN,
): ChildProcess {
  const [command = process.execPath, ...args] = [...before, main, ...words];
  const stdio: ["ignore", "pipe", "pipe"] = ["ignore", "pipe", "pipe"];
  const { PATH = "", NODE_COMPILE_CACHE = "" } = process.env;
  const inherited = { PATH, NODE_COMPILE_CACHE, NO_COLOR: "1" };
  return spawn(command, args, { stdio, env: { ...inherited, ...env } });
}

function collect(child: ChildProcess): () => { stdout: string; stderr: string } {
  const parts = { stdout: "", stderr: "" };
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (parts.stdout += text));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (parts.stderr += text));
  return () => ({ ...parts });
}
