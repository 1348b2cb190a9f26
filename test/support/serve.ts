/** `coinslot` as a process of its own, for what only a process can show: signals, exit codes, crashes. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { drain, listen } from "../../src/gateway/listener.ts";

const MAIN = join(import.meta.dirname, "../../src/main.ts");
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
  /** Resolves when `/readyz` answers with that status. */
  untilReady(status?: 200 | 503): Promise<string>;
}

/** A folder and ports that several lives of one gateway share. */
export class Site {
  readonly folder: string;
  readonly port: number;
  readonly #adminPort: number;
  readonly #children = new Set<ChildProcess>();

  private constructor(folder: string, port: number, adminPort: number) {
    this.folder = folder;
    this.port = port;
    this.#adminPort = adminPort;
  }

  static async create(): Promise<Site> {
    const folder = await mkdtemp(join(tmpdir(), "coinslot-site-"));
    return new Site(folder, await freePort(), await freePort());
  }

  /** Writes the configuration (listeners and store are added) and starts the process. */
  async serve(yaml: string, env: Readonly<Record<string, string>>): Promise<Served> {
    const file = join(this.folder, "gateway.yaml");
    const own = `listen: 127.0.0.1:${this.port}
publicUrl: http://127.0.0.1:${this.port}
admin: 127.0.0.1:${this.#adminPort}
store: sqlite:${join(this.folder, "ledger.db")}
`;
    await writeFile(file, own + yaml);
    const child = launch(["serve", file], env);
    this.#children.add(child);
    const output = collect(child);
    const adminUrl = `http://127.0.0.1:${this.#adminPort}`;
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
      untilReady: (status = 200) => untilStatus(child, `${adminUrl}/readyz`, status, output),
    };
    return served;
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

function launch(words: readonly string[], env: Readonly<Record<string, string>>): ChildProcess {
  const stdio: ["ignore", "pipe", "pipe"] = ["ignore", "pipe", "pipe"];
  const inherited = { PATH: process.env["PATH"] ?? "", NO_COLOR: "1" };
  return spawn(process.execPath, [MAIN, ...words], { stdio, env: { ...inherited, ...env } });
}

function collect(child: ChildProcess): () => { stdout: string; stderr: string } {
  const parts = { stdout: "", stderr: "" };
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (parts.stdout += text));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (parts.stderr += text));
  return () => ({ ...parts });
}

async function untilStatus(
  child: ChildProcess,
  url: string,
  status: number,
  output: () => { stderr: string },
): Promise<string> {
  const deadline = AbortSignal.timeout(PATIENCE_MS);
  while (child.exitCode === null && !deadline.aborted) {
    const response = await fetch(url).catch(() => undefined);
    if (response?.status === status) return response.text();
    await pause(25);
  }
  throw new Error(`${url} never answered ${status}: ${output().stderr}`);
}

async function freePort(): Promise<number> {
  const server = createServer();
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  await drain(server, AbortSignal.timeout(1_000));
  return port;
}
