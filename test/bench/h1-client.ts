/**
 * What a request costs the bare client, without the gateway around it: ours and undici's `Pool.dispatch`
 * against the same backends, each in a process of its own, in turn: `node test/bench/h1-client.ts`. A third
 * process does the same over sockets without any HTTP: what the kernel and Node take of every client. This
 * file is all of these processes.
 */
import { createServer } from "node:http";
import { connect, type Socket } from "node:net";
import { Pool } from "undici";
import { H1Pool } from "../../src/http1/pool.ts";
import { giveBack } from "../../src/http1/read-buffers.ts";
import { defaultUpstreamOptions } from "../../src/gateway/upstream/upstream.ts";
import { preciseCpuMicros, ready, serve, startProgram, type Program } from "./process.ts";
import { columns, coinslotVersion, say, sayAim, sayHead, versionOf } from "./report.ts";
import { median } from "./rounds.ts";

const CONNECTIONS = 64;
const ROUNDS = 9;
const ROUND_MS = 1_000;
const WARM_UP_MS = 1_500;
/** How many times cheaper than undici ours has to be. */
const AIM = 1.8;

const names = ["ours", "undici", "bare socket"] as const;
type Name = (typeof names)[number];

interface Job {
  readonly origin: string;
  readonly method: string;
  readonly path: string;
  /** Bytes of the request's body. */
  readonly sent: number;
  /** Bytes of the answer's body. */
  readonly awaited: number;
  readonly durationMs: number;
}

/** What a browser sends, more or less, and what the gateway adds. */
const requestLines = [
  ["Accept", "*/*"],
  ["User-Agent", "bench"],
  ["Accept-Encoding", "gzip, deflate"],
  ["X-Forwarded-For", "127.0.0.1"],
  ["X-Forwarded-Host", "shop.example.com"],
  ["X-Forwarded-Proto", "http"],
].flat();

/** What an application behind the usual middleware answers; Node adds three lines of its own. */
const answerLines = [
  ["Content-Type", "application/json; charset=utf-8"],
  ["Content-Length", "1024"],
  ["Cache-Control", "public, max-age=60"],
  ["ETag", 'W/"400-5d8c72a5edda8d6a"'],
  ["Vary", "Accept-Encoding, Origin"],
  ["X-Request-Id", "01J9Z6Q3W8R5T2Y7U4I1O0P9A8"],
  ["X-Content-Type-Options", "nosniff"],
  ["X-Frame-Options", "SAMEORIGIN"],
  ["Strict-Transport-Security", "max-age=31536000; includeSubDomains"],
  ["Referrer-Policy", "no-referrer"],
  ["Access-Control-Allow-Origin", "*"],
  ["Last-Modified", "Tue, 15 Sep 2026 12:45:26 GMT"],
].flat();

/** Sends a request and calls back at the end of its answer. */
type Ask = (done: () => void) => void;
type Client = (job: Job) => Ask;

function requestOf({ method, path, sent }: Job) {
  const body = sent === 0 ? null : Buffer.alloc(sent, "x");
  const length = sent === 0 ? [] : ["Content-Length", String(sent)];
  return { method, path, headers: [...requestLines, ...length], body, reset: false };
}

/** As lean as a handler can be: what it costs is in the figures of ours and of undici. */
class Handler {
  readonly #awaited: number;
  readonly #done: () => void;
  #received = 0;

  constructor(awaited: number, done: () => void) {
    this.#awaited = awaited;
    this.#done = done;
  }

  onRequestStart(): void {}

  onResponseStart(controller: { rawHeaders?: unknown }, status: number): void {
    if (status !== 200 || !Array.isArray(controller.rawHeaders)) throw new Error(String(status));
  }

  onResponseData(_controller: unknown, chunk: Buffer): void {
    this.#received += chunk.length;
    // As the gateway does it once its client has the part; undici's is none of ours.
    giveBack(chunk);
  }

  onResponseEnd(): void {
    if (this.#received !== this.#awaited) throw new Error(`${this.#received} bytes came`);
    this.#done();
  }

  onResponseError(_controller: unknown, error: Error): void {
    throw error;
  }
}

/** One pool for each origin, as the gateway has it. */
function overPools(
  open: (origin: string) => {
    dispatch(request: ReturnType<typeof requestOf>, handler: Handler): unknown;
  },
): Client {
  const pools = new Map<string, ReturnType<typeof open>>();
  return (job) => {
    const pool = pools.get(job.origin) ?? open(job.origin);
    pools.set(job.origin, pool);
    const request = requestOf(job);
    return (done) => pool.dispatch(request, new Handler(job.awaited, done));
  };
}

/** Writes prepared bytes and counts those that come. */
const overSockets: Client = (job) => {
  const { headers, body } = requestOf(job);
  const lines = headers.map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\r\n`)).join("");
  const text = `${job.method} ${job.path} HTTP/1.1\r\nhost: a\r\n${lines}\r\n${body?.toString() ?? ""}`;
  const buffer = Buffer.allocUnsafeSlow(65_536);
  const { hostname, port } = new URL(job.origin);
  let head = 0;
  let socket: Socket | null = null;
  return (done) => {
    let received = 0;
    const callback = (count: number): boolean => {
      head ||= buffer.indexOf("\r\n\r\n") + 4;
      received += count;
      if (received === head + job.awaited) {
        received = 0;
        done();
      }
      return true;
    };
    socket ??= connect({
      host: hostname,
      port: Number(port),
      noDelay: true,
      onread: { buffer, callback },
    });
    socket.write(text, "latin1");
  };
};

function clientOf(name: string): Client {
  const options = defaultUpstreamOptions;
  if (name === "bare socket") return overSockets;
  if (name === "ours") {
    return overPools(
      (origin) => new H1Pool({ ...options, origin, pauseTimeoutMs: 120_000, queue: 5_000 }),
    );
  }
  return overPools(
    (origin) =>
      new Pool(origin, {
        allowH2: false,
        pipelining: 1,
        connections: options.connections,
        headersTimeout: options.responseTimeoutMs,
        bodyTimeout: options.idleTimeoutMs,
        keepAliveTimeout: options.keepAliveMs,
        keepAliveMaxTimeout: options.keepAliveMs,
        keepAliveTimeoutThreshold: 1_000,
        maxHeaderSize: options.headLimitBytes,
      }),
  );
}

/** The client process: does each job that it is sent and tells how many answers came. */
function serveJobs(name: string): void {
  const client = clientOf(name);
  process.on("message", (job: Job) => {
    const end = performance.now() + job.durationMs;
    let [running, answers] = [CONNECTIONS, 0];
    const ask = (next: Ask): void => {
      next(() => {
        answers += 1;
        // The gateway's next request comes from a socket as well, so never within this one's end.
        if (performance.now() < end) setImmediate(ask, next);
        else if (--running === 0) process.send?.(answers);
      });
    };
    for (let each = 0; each < CONNECTIONS; each += 1) ask(client(job));
  });
  ready(name);
}

/** The backend process whose answers have as many lines as those of an application. */
function serveAnswers(): void {
  const body = Buffer.alloc(1024, "x");
  serve(
    createServer((request, response) => {
      request.resume().on("end", () => response.writeHead(200, answerLines).end(body));
    }),
  );
}

/** CPU of the client process for one answer, microseconds. */
async function measure(client: Program, job: Job): Promise<number> {
  const before = preciseCpuMicros(client.pid);
  const answers = (await client.ask(job)) as number;
  return (preciseCpuMicros(client.pid) - before) / answers;
}

async function compare(clients: ReadonlyMap<Name, Program>, job: Job) {
  const rounds: Record<Name, number[]> = { ours: [], undici: [], "bare socket": [] };
  for (const client of clients.values()) await measure(client, { ...job, durationMs: WARM_UP_MS });
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [name, client] of round % 2 === 0 ? clients : [...clients].toReversed()) {
      rounds[name].push(await measure(client, job));
    }
  }
  return rounds;
}

async function bench(): Promise<void> {
  await using closing = new AsyncDisposableStack();
  const start = async (file: string, args: readonly string[] = []): Promise<Program> => {
    const program = await startProgram(new URL(file, import.meta.url), args);
    closing.defer(() => program.stop());
    return program;
  };
  sayHead("The bare HTTP/1.1 client", [coinslotVersion(), versionOf("undici")]);
  say(`  load      ${CONNECTIONS} requests at a time, ${ROUNDS} rounds of ${ROUND_MS} ms in turn;`);
  say("            medians of the CPU that the client's process took for one answer, with the");
  say("            smallest and the largest; compared are the least disturbed rounds");
  const { url: plain } = await start("./contenders/backend.ts");
  const { url: full } = await start("./h1-client.ts", ["backend"]);
  const clients = new Map<Name, Program>();
  for (const name of names) clients.set(name, await start("./h1-client.ts", [name]));
  const small = { method: "GET", path: "/files/1", sent: 0, awaited: 1024, durationMs: ROUND_MS };
  const jobs: [string, Job][] = [
    ["GET, 1 KiB, 5 lines", { ...small, origin: plain }],
    ["GET, 1 KiB, 15 lines", { ...small, origin: full }],
    ["POST, 1 KiB both ways", { ...small, origin: plain, method: "POST", sent: 1024 }],
    ["GET, 64 KiB", { ...small, origin: plain, path: "/files/64", awaited: 65_536 }],
  ];
  const head = [
    "",
    "ours, µs",
    "undici, µs",
    "bare socket, µs",
    "times cheaper",
    "above the socket",
  ];
  const rows = [head];
  const factors: [number, number][] = [];
  for (const [title, job] of jobs) {
    const rounds = await compare(clients, job);
    const [ours, undici, floor] = names.map((name) => Math.min(...rounds[name])) as [
      number,
      number,
      number,
    ];
    const factor: [number, number] = [undici / ours, (undici - floor) / (ours - floor)];
    factors.push(factor);
    rows.push([
      title,
      ...names.map((name) => figure(rounds[name])),
      ...factor.map((each) => each.toFixed(2)),
    ]);
  }
  say();
  for (const line of columns(rows)) say(`  ${line}`);
  say();
  const [, typical = [Number.NaN, Number.NaN]] = factors;
  sayAim({
    text: "times cheaper, 15 lines, the kernel's part included",
    value: typical[0],
    atLeast: AIM,
  });
  sayAim({ text: "times cheaper, 15 lines, above a bare socket", value: typical[1], atLeast: AIM });
}

/** Median, with the smallest and the largest. */
function figure(values: readonly number[]): string {
  return `${median(values).toFixed(1)} (${Math.min(...values).toFixed(0)}–${Math.max(...values).toFixed(0)})`;
}

const [, , part] = process.argv;
if (part === undefined) await bench();
else if (part === "backend") serveAnswers();
else serveJobs(part);
