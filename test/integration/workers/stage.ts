/** A gateway of several processes, and clients whose connections stay with the worker that took them. */
import { randomUUID } from "node:crypto";
import {
  Agent,
  createServer,
  request,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type RequestListener,
} from "node:http";
import { text } from "node:stream/consumers";
import { expect } from "vitest";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freshAccount } from "../../support/payer.ts";
import type { Served } from "../../support/serve.ts";

/** How long something may take to come true on a busy machine, milliseconds. */
export const COMES_TRUE = { timeout: 20_000, interval: 25 };
/** Connections that are opened until one belongs to the worker that is wanted. */
const MOST_CONNECTIONS = 64;

export interface Backend extends AsyncDisposable {
  readonly url: string;
  /** Paths and queries, in the order in which they came. */
  readonly seen: string[];
}

export async function startBackend(handler: RequestListener): Promise<Backend> {
  const seen: string[] = [];
  const server = createServer((incoming, response) => {
    seen.push(incoming.url ?? "");
    handler(incoming, response);
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    [Symbol.asyncDispose]: () => drain(server, AbortSignal.timeout(1_000)),
  };
}

/** Who sells: a chain, an account that settles there, and the configuration of two workers. */
export interface Seller {
  readonly chain: Chain;
  readonly signer: ReturnType<typeof freshAccount>;
  /** Who is paid. */
  readonly payee: ReturnType<typeof freshAccount>;
  readonly env: Readonly<Record<string, string>>;
  /** `routes`: lines of the map, indented by two. */
  yaml(backend: Pick<Backend, "url">, routes: string): string;
}

export async function startSeller(): Promise<Seller> {
  const chain = await startChain();
  const signer = freshAccount();
  const payee = freshAccount();
  await chain.fund(signer.address, 0n, 10n ** 18n);
  const yaml: Seller["yaml"] = ({ url }, routes) => `
upstream: ${url}
payTo: "${payee.address}"
accept: [base-sepolia]
facilitator:
  embedded:
    networks:
      base-sepolia: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
unmatched: deny
workers: 2
shutdown: 5s
logging: { level: debug }
routes:
${routes}`;
  return { chain, signer, payee, env: { SIGNER: signer.privateKey }, yaml };
}

export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly headers: IncomingMessage["headers"];
}

/** One TCP connection, kept between requests for as long as the gateway keeps it. */
export class Connection implements Disposable {
  readonly #url: string;
  readonly #agent: Agent;

  /** @param localAddress where it comes from; default: the same address as all others */
  constructor(url: string, localAddress?: string) {
    this.#url = url;
    const from = localAddress === undefined ? {} : { localAddress };
    this.#agent = new Agent({ keepAlive: true, maxSockets: 1, ...from });
  }

  /** Rejects where the connection fails, before or within the answer. */
  async get(path: string, payment?: string | OutgoingHttpHeaders): Promise<Answer> {
    const answer = await this.head(path, payment);
    return { status: answer.statusCode ?? 0, text: await text(answer), headers: answer.headers };
  }

  /** The answer as soon as it begins. A payment alone is of version 1. */
  head(path: string, payment: string | OutgoingHttpHeaders = {}): Promise<IncomingMessage> {
    const headers = typeof payment === "string" ? { "X-PAYMENT": payment } : payment;
    const asked = Promise.withResolvers<IncomingMessage>();
    const sent = request(`${this.#url}${path}`, { agent: this.#agent, headers }, asked.resolve);
    sent.once("error", asked.reject);
    sent.end();
    return asked.promise;
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }
}

interface Line {
  readonly msg?: string;
  readonly worker?: number;
  readonly pid?: number;
  readonly path?: string;
}

/** Everything that was logged so far; a line that is still being written is left out. */
export function logOf({ output }: Pick<Served, "output">): readonly Line[] {
  const lines = output().stdout.split("\n").slice(0, -1);
  return lines.map((line): Line => JSON.parse(line));
}

/** The process that holds the place of each worker now, by its number, as far as it is logged. */
export function workersOf(served: Served): ReadonlyMap<number, number> {
  const listening = logOf(served).filter(({ msg }) => msg === "a worker listens");
  return new Map(listening.map(({ worker = 0, pid = 0 }) => [worker, pid]));
}

/** The same of a gateway with two workers, once both are logged. */
export async function bothWorkersOf(served: Served): Promise<ReadonlyMap<1 | 2, number>> {
  await expect.poll(() => workersOf(served).size, COMES_TRUE).toBe(2);
  const workers = workersOf(served);
  return new Map(([1, 2] as const).map((number) => [number, workers.get(number) ?? 0]));
}

/** As `kill -9` does. */
export function kill(pid: number | undefined): void {
  // To whom it would go otherwise: to all of this process' group.
  if (pid === undefined || pid <= 0) throw new Error("there is no such process");
  process.kill(pid, "SIGKILL");
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** The number of the worker that a connection belongs to. Needs `GET /who/*: free` and `level: debug`. */
export async function workerOf(served: Served, connection: Connection): Promise<number> {
  const path = `/who/${randomUUID()}`;
  await connection.get(path);
  const find = (): number | undefined => logOf(served).find((line) => line.path === path)?.worker;
  await expect.poll(find, COMES_TRUE).toBeDefined();
  return find() ?? 0;
}

/** A new connection to that worker. */
export async function connectTo(served: Served, worker: number): Promise<Connection> {
  for (let tries = 0; tries < MOST_CONNECTIONS; tries += 1) {
    const connection = new Connection(served.url);
    if ((await workerOf(served, connection)) === worker) return connection;
    connection[Symbol.dispose]();
  }
  throw new Error(`none of ${MOST_CONNECTIONS} connections came to worker ${worker}`);
}

/** The sum of a metric's values whose line holds each of these texts. */
export async function metricOf(served: Served, ...texts: readonly string[]): Promise<number> {
  const metrics = await (await fetch(`${served.adminUrl}/metrics`)).text();
  const lines = metrics.split("\n").filter((line) => !line.startsWith("#"));
  const found = lines.filter((line) => texts.every((each) => line.includes(each)));
  return found.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}
