/** A gateway before a group of targets, all of them real servers on loopback; closed when the test ends. */
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createSecureServer, type ServerOptions } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { onTestFinished } from "vitest";
import { openBackend, type BackendOptions } from "../../../src/gateway/upstream/backend/backend.ts";
import { defaultUpstreamOptions, type Engine } from "../../../src/gateway/upstream/upstream.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { systemTime } from "../../../src/time/time.ts";
import { openShop, type Shop, type ShopOptions } from "./shop.ts";
import { send, type Sent } from "./stage.ts";

/** A server that can die and come back on its port. */
export class Target {
  readonly #listener: RequestListener;
  readonly #tls: ServerOptions | null;
  readonly #sockets = new Set<Socket>();
  #server: Server | null = null;
  #port = 0;
  /** Requests that arrived, in their order: `GET /path`. */
  readonly seen: string[] = [];

  constructor(listener: RequestListener, tls: ServerOptions | null = null) {
    this.#listener = listener;
    this.#tls = tls;
    onTestFinished(() => this.stop());
  }

  get port(): number {
    return this.#port;
  }

  get origin(): string {
    return `${this.#tls === null ? "http" : "https"}://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<this> {
    const answer: RequestListener = (request, response) => {
      this.seen.push(`${request.method} ${request.url}`);
      this.#listener(request, response);
    };
    const options = { keepAliveTimeout: 60_000 };
    const server =
      this.#tls === null
        ? createServer(options, answer)
        : createSecureServer({ ...options, ...this.#tls }, answer);
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.once("close", () => this.#sockets.delete(socket));
    });
    await new Promise<void>((resolve) => void server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
    return this;
  }

  /** At once, with every connection. */
  async stop(): Promise<void> {
    const server = this.#server;
    if (server === null) return;
    this.#server = null;
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of this.#sockets) socket.resetAndDestroy();
    await closed;
  }
}

/** A target that answers with its letter. */
export function lettered(letter: string): Promise<Target> {
  return new Target((request, response) => {
    request.resume().on("end", () => response.end(letter));
  }).start();
}

export interface Group {
  readonly engine: Engine;
  readonly metrics: Metrics;
  readonly shop: Shop;
  /** Milliseconds of the group's clock, which a test may move. */
  readonly clock: { aheadMs: number };
}

export type GroupOptions = Partial<Omit<BackendOptions, "target" | "rewriting">> & {
  readonly weights?: readonly number[];
  readonly target?: Partial<BackendOptions["target"]>;
  readonly rewriting?: Partial<BackendOptions["rewriting"]>;
};

/** Everything is as the configuration has it by default. */
export async function group(
  targets: readonly { readonly origin: string }[],
  options: GroupOptions = {},
  shopOptions: ShopOptions = {},
): Promise<Group> {
  const metrics = new Metrics("test");
  const logger = createLogger({ level: "silent", format: "json" });
  const clock = { aheadMs: 0 };
  const { weights = [], target, rewriting, ...rest } = options;
  const engine = openBackend(
    {
      name: "api",
      targets: targets.map(({ origin }, index) => ({ origin, weight: weights[index] ?? 1 })),
      target: { ...defaultUpstreamOptions, ...target },
      balance: "round-robin",
      check: null,
      retry: {
        attempts: 2,
        methods: ["GET", "HEAD", "OPTIONS"],
        on: ["connect-failure", "connection-lost"],
      },
      rewriting: {
        path: { strip: "", prefix: "" },
        host: { kind: "upstream" },
        set: [],
        remove: [],
        allow: null,
        ...rewriting,
      },
      ...rest,
    },
    {
      telemetry: { logger, metrics },
      time: systemTime,
      now: () => performance.now() + clock.aheadMs,
    },
  );
  const shop = await openShop("", { ...shopOptions, engine });
  return { engine, metrics, shop, clock };
}

/** An origin where nobody listens. */
export async function nobody(): Promise<{ readonly origin: string }> {
  const target = await lettered("");
  const { origin } = target;
  await target.stop();
  return { origin };
}

/** The body of an answer of 200; the status of another one. */
export async function ask({ shop }: Group, sent: Sent = {}): Promise<string> {
  const answer = await send(shop.port, { path: "/free", ...sent });
  return answer.status === 200 ? answer.body.toString() : String(answer.status);
}

/** How often each answer came, one request after another. */
export async function askAll(
  of: Group,
  times: number,
  sent: Sent = {},
): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (let count = 0; count < times; count += 1) {
    const answer = await ask(of, sent);
    counts[answer] = (counts[answer] ?? 0) + 1;
  }
  return counts;
}

/** Answers with that status, as long as it does not change. */
export function moody(): { readonly target: Promise<Target>; status: number } {
  const mood = {
    status: 200,
    target: new Target((request, response) => {
      response.statusCode = mood.status;
      request.resume().on("end", () => response.end("moody"));
    }).start(),
  };
  return mood;
}

/** Values of a metric, by their labels as they are written. */
export async function metric({ metrics }: Group, name: string): Promise<Record<string, number>> {
  const values: Record<string, number> = {};
  for (const line of (await metrics.registry.metrics()).split("\n")) {
    const [, labels = "", value = ""] = new RegExp(`^${name}\\{(.*)\\} (\\S+)$`).exec(line) ?? [];
    if (value !== "") values[labels] = Number(value);
  }
  return values;
}
