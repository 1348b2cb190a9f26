/** The gateways of a run: real processes that are killed and started again. */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { Site, type Served } from "../support/serve.ts";
import type { Random } from "../simulation/random.ts";

/** Longest that a gateway may take to be ready, milliseconds: on a machine that has much else to do. */
const READY_MS = 90_000;

export interface ReplicasOptions {
  readonly count: number;
  /** The configuration without listeners and store. */
  readonly yaml: string;
  readonly env: Readonly<Record<string, string>>;
  /** Default: each replica its own SQLite file, which makes sense for one only. */
  readonly store?: string;
  /** The program's main file; default: this tree's. */
  readonly main?: string;
  /** At each replica; default: 1, which is the process itself. */
  readonly workers?: number;
}

/** One life of a replica: until nobody answers at its port for it any more, and the next one takes its place. */
export interface ReplicaLife {
  /** `0-3`: of the first replica the fourth. */
  readonly name: string;
  /** Processes of it that served and were killed. */
  deaths: number;
}

export class Replicas {
  readonly sites: readonly Site[];
  readonly #options: ReplicasOptions;
  readonly #running = new Map<Site, Served>();
  /** Of each replica, the newest last. */
  readonly #lives: ReplicaLife[][];
  /** What killed lives had to say last, for a failed run. */
  readonly logs: string[] = [];
  kills = 0;
  workerKills = 0;

  private constructor(sites: readonly Site[], options: ReplicasOptions) {
    this.sites = sites;
    this.#options = options;
    this.#lives = sites.map((_, replica) => [{ name: `${replica}-0`, deaths: 0 }]);
  }

  static async start(options: ReplicasOptions): Promise<Replicas> {
    const { store, main } = options;
    const told = { ...(store !== undefined && { store }), ...(main !== undefined && { main }) };
    const first = await Site.create(told);
    const publicUrl = `http://127.0.0.1:${first.port}`;
    const sites = [first];
    while (sites.length < options.count) sites.push(await Site.create({ publicUrl, ...told }));
    const replicas = new Replicas(sites, options);
    await Promise.all(sites.map((site) => replicas.#serve(site)));
    return replicas;
  }

  /** One of them, whether it is up or not. */
  url(chance: Random): string {
    const site = this.sites[Math.floor(chance.next() * this.sites.length)];
    return `http://127.0.0.1:${site?.port ?? 0}`;
  }

  /** The same, with the name of the life that it is in. */
  place(chance: Random): { readonly url: string; readonly life: string } {
    const replica = Math.floor(chance.next() * this.sites.length);
    const life = this.#lives[replica]?.at(-1)?.name ?? "";
    return { url: `http://127.0.0.1:${this.sites[replica]?.port ?? 0}`, life };
  }

  /** All that there were. */
  get lives(): readonly ReplicaLife[] {
    return this.#lives.flat();
  }

  get urls(): readonly string[] {
    return this.sites.map(({ port }) => `http://127.0.0.1:${port}`);
  }

  /** kill -9 of a worker of one that is up; another follows it by itself. */
  async killWorker(chance: Random): Promise<void> {
    const [site, served] = this.#anyOf(chance) ?? [];
    const workers = served === undefined ? [] : await childrenOf(served.pid);
    const worker = workers[Math.floor(chance.next() * workers.length)];
    if (worker === undefined) return;
    this.workerKills += 1;
    this.#died(site, 1);
    try {
      process.kill(worker, "SIGKILL");
    } catch {
      // It has ended by itself meanwhile.
    }
  }

  /** kill -9 of one that is up, and a new life, which is ready when the promise resolves. */
  async killOne(chance: Random): Promise<void> {
    const [site, served] = this.#anyOf(chance) ?? [];
    if (site === undefined || served === undefined) return;
    this.#running.delete(site);
    this.kills += 1;
    this.#died(site, this.#options.workers ?? 1);
    await served.end("SIGKILL");
    // Its workers answer until they hear of it.
    await untilRefused(site.port);
    this.#begin(site);
    this.#keepLog(served);
    await this.#serve(site);
  }

  /** Starts those that have ended by themselves. Resolves with how many. */
  async revive(): Promise<number> {
    const ended = [...this.#running].filter(([, { pid }]) => !isAlive(pid));
    await Promise.all(
      ended.map(([site]) => {
        this.#died(site, this.#options.workers ?? 1);
        this.#begin(site);
        return this.#serve(site);
      }),
    );
    return ended.length;
  }

  /** SIGTERM of one that is up, and a new life; resolves with the exit code once that is ready. */
  async restartOne(chance: Random): Promise<number | null> {
    return this.restart(this.#anyOf(chance)?.[0]);
  }

  /** SIGTERM and a new life; resolves with the exit code once that is ready. */
  async restart(site: Site | undefined): Promise<number | null> {
    const served = site && this.#running.get(site);
    if (site === undefined || served === undefined) throw new Error("that gateway is not up");
    this.#running.delete(site);
    const code = await served.end("SIGTERM");
    this.#begin(site);
    this.#keepLog(served);
    await this.#serve(site);
    return code;
  }

  /** Ends all of them in good order; resolves with their exit codes. */
  async stop(): Promise<readonly (number | null)[]> {
    const codes = await Promise.all(
      [...this.#running.values()].map((served) => served.end("SIGTERM")),
    );
    for (const served of this.#running.values()) this.#keepLog(served);
    return codes;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const site of this.sites) await site[Symbol.asyncDispose]();
  }

  #anyOf(chance: Random): readonly [Site, Served] | undefined {
    const up = [...this.#running];
    return up[Math.floor(chance.next() * up.length)];
  }

  #died(site: Site | undefined, processes: number): void {
    const life = site && this.#lives[this.sites.indexOf(site)]?.at(-1);
    if (life !== undefined) life.deaths += processes;
  }

  #begin(site: Site): void {
    const replica = this.sites.indexOf(site);
    const lives = this.#lives[replica];
    lives?.push({ name: `${replica}-${lives.length}`, deaths: 0 });
  }

  async #serve(site: Site): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const served = await site.serve(this.#options.yaml, this.#options.env);
      try {
        await served.untilReady(200, READY_MS);
        this.#running.set(site, served);
        return;
      } catch (cause) {
        // The store or the node may be down just then; a supervisor tries again.
        this.#keepLog(served);
        await served.end("SIGKILL");
        if (attempt === 20) throw cause;
        await pause(200);
      }
    }
  }

  #keepLog(served: Served | undefined): void {
    const { stdout = "", stderr = "" } = served?.output() ?? {};
    this.logs.push(`${stdout}${stderr}`);
  }
}

/** Nobody listens there any more. */
async function untilRefused(port: number): Promise<void> {
  for (let isOpen = true; isOpen; await pause(20)) {
    const socket = connect(port, "127.0.0.1");
    isOpen = await once(socket, "connect").then(
      () => true,
      () => false,
    );
    socket.destroy();
  }
}

async function childrenOf(pid: number): Promise<readonly number[]> {
  const list = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
  return list.split(" ").filter(Boolean).map(Number);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
