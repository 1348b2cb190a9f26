/** Proofs about a gateway that is a process of its own, for the commands and, in short, for the suite. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { startScriptedFacilitator } from "../support/scripted-facilitator.ts";
import type { Look, Order } from "./gateway-process.ts";
import { houseYaml, writeIdentity, type HouseOptions } from "./house.ts";
import { get, leave, load, readSlowly } from "./load.ts";
import { sayYes } from "./purse.ts";

const CONNECTIONS = 64;
/** Idle connections to the backend are given up within seconds; nothing else keeps one. */
const SOCKETS_GONE_WITHIN_MS = 30_000;
const POLL_MS = 200;
/** Requests before anything is measured: code gets compiled, tables and pools their size. */
const WARM_UP = 3_000;

/** Pause of a slow client after each read, milliseconds: some 2.5 MB/s. */
const READS_EVERY_MS = 25;
/** Of the whole, before it is measured what is left of it. */
const WARM_UP_SHARE = 0.3;

/** A gateway and a backend, each a process. */
export class Proving implements AsyncDisposable {
  readonly port: number;
  readonly backendPort: number;
  readonly #gateway: ChildProcess;
  readonly #backend: ChildProcess;
  readonly #closing: AsyncDisposableStack;

  private constructor(parts: {
    port: number;
    backendPort: number;
    gateway: ChildProcess;
    backend: ChildProcess;
    closing: AsyncDisposableStack;
  }) {
    this.port = parts.port;
    this.backendPort = parts.backendPort;
    this.#gateway = parts.gateway;
    this.#backend = parts.backend;
    this.#closing = parts.closing;
  }

  static async start(options: HouseOptions = {}): Promise<Proving> {
    await using closing = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), "coinslot-proof-"));
    closing.defer(() => rm(folder, { recursive: true, force: true }));
    await writeIdentity(folder);
    const facilitator = closing.use(await startScriptedFacilitator(sayYes));
    const backend = closing.adopt(child("load-backend.ts"), end);
    const backendPort = Number(await told(backend));
    const gateway = closing.adopt(child("gateway-process.ts"), end);
    const places = { folder, facilitator: facilitator.url, ports: [backendPort] };
    const order: Order = { kind: "start", yaml: houseYaml(options, places) };
    const { port } = await ask(gateway, order);
    return new Proving({ port, backendPort, gateway, backend, closing: closing.move() });
  }

  look(kind: "settle" | "peaks"): Promise<Look> {
    return ask(this.#gateway, { kind });
  }

  /** Requests that reached the backend on a connection which it had closed. */
  async raced(): Promise<number> {
    const answer = told(this.#backend);
    this.#backend.send("raced");
    return Number(await answer);
  }

  /** Looks once no connection is left, or for the last time. */
  async settled(): Promise<Look> {
    const deadline = performance.now() + SOCKETS_GONE_WITHIN_MS;
    for (;;) {
      const look = await this.look("settle");
      if (look.sockets === 0 || performance.now() > deadline) return look;
      await pause(POLL_MS);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#closing.disposeAsync();
  }
}

function child(file: string): ChildProcess {
  return fork(new URL(file, import.meta.url), [], {
    // Code that has not run for a while would be given up at some moment, which is no memory returned.
    execArgv: ["--expose-gc", "--no-flush-bytecode"],
    env: { ...process.env, NODE_ENV: "production" },
  });
}

/** The next message of a child; rejects when the child ends before it has sent one. */
async function told(process: ChildProcess): Promise<unknown> {
  const waiting = new AbortController();
  const { signal } = waiting;
  const ended = once(process, "exit", { signal }).then(([code]) => {
    throw new Error(`a process of the proof ended with ${String(code)}`);
  });
  ended.catch(() => undefined);
  try {
    const [message] = await Promise.race([once(process, "message", { signal }), ended]);
    return message;
  } finally {
    waiting.abort();
  }
}

async function ask(gateway: ChildProcess, order: Order): Promise<Look> {
  const answer = told(gateway);
  gateway.send(order);
  const look = (await answer) as Look | { readonly error: string };
  if ("error" in look) throw new Error(look.error);
  return look;
}

async function end(process: ChildProcess): Promise<void> {
  const ended = once(process, "exit");
  process.kill("SIGKILL");
  await ended;
}

export interface SlowDownloads {
  readonly idle: Look;
  readonly peak: Look;
}

/** So many clients read 1 GiB slowly, each its share of `bytes` before it leaves. */
export async function downloadSlowly(
  proving: Proving,
  { clients, bytes }: { readonly clients: number; readonly bytes: number },
): Promise<SlowDownloads> {
  const { port } = proving;
  await load({ port, requests: WARM_UP, connections: CONNECTIONS, bytes: get("/small") });
  const idle = await proving.settled();
  const share = Math.ceil(bytes / clients);
  await Promise.all(Array.from({ length: clients }, () => readSlowly(port, share, READS_EVERY_MS)));
  return { idle, peak: await proving.look("peaks") };
}

export interface Return {
  readonly before: Look;
  readonly after: Look;
}

/** What is left of so many requests and so many clients that left. */
export async function comeAndGo(
  proving: Proving,
  { requests, aborted }: { readonly requests: number; readonly aborted: number },
): Promise<Return> {
  const { port } = proving;
  const visit = async (share: number): Promise<void> => {
    const count = Math.ceil(requests * share);
    const statuses = await load({
      port,
      requests: count,
      connections: CONNECTIONS,
      bytes: get("/small"),
    });
    if (statuses.get(200) !== count) throw new Error(`answers: ${JSON.stringify([...statuses])}`);
    await leave(port, Math.ceil(aborted * share));
  };
  await visit(WARM_UP_SHARE);
  const before = await proving.settled();
  await visit(1);
  return { before, after: await proving.settled() };
}

/** Requests before a backend that closes its connections as they are about to be used again. */
export async function race(
  proving: Proving,
  requests: number,
): Promise<{ readonly statuses: ReadonlyMap<number, number>; readonly raced: number }> {
  const bytes = get("/race");
  const statuses = await load({ port: proving.port, requests, connections: CONNECTIONS, bytes });
  return { statuses, raced: await proving.raced() };
}
