/**
 * Everything that the parts of the proxy's bench share, each started when a part first needs it: one load
 * generator, one backend, one facilitator, and the contenders before them.
 */
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { BEFORE, gatewayConfig, startCoinslot, type Version } from "../contenders/coinslot.ts";
import { haproxyVersion, startHaproxy } from "../contenders/haproxy.ts";
import { nginxVersion, startNginx } from "../contenders/nginx.ts";
import { PRICED_ROUTES } from "../contenders/wares.ts";
import { startProgram, type Program, type Running } from "../process.ts";
import { versionOf } from "../report.ts";
import type { Pace } from "../rounds.ts";

export const OURS = "coinslot";
/** The version before ours, where one is given (`-- --before FOLDER`). */
export const OURS_BEFORE = "coinslot before";
export const NGINX = "nginx";
const UNBUFFERED = "nginx, unbuffered";
const HAPROXY = "HAProxy";
const HTTP_PROXY = "http-proxy-3";
const REPLY_FROM = "@fastify/reply-from";
export const CONSTANT = "node:http, a constant";
const MIDDLEWARE = "express + h-p-middleware";
export const X402 = "x402-express + h-p-middleware";

/** All that forward a free request. */
export const PROXIES = [
  OURS,
  NGINX,
  UNBUFFERED,
  HAPROXY,
  REPLY_FROM,
  HTTP_PROXY,
  MIDDLEWARE,
  X402,
] as const;

export type ProxyName = (typeof PROXIES)[number] | typeof CONSTANT | typeof OURS_BEFORE;

/** What takes part: those that are named, or, where a version before ours is given, only these two. */
export function against(names: readonly ProxyName[]): readonly ProxyName[] {
  return BEFORE === undefined ? names : [OURS, OURS_BEFORE];
}

/**
 * Two versions of ours differ by little, so that it takes many rounds to tell, and short ones: a machine that others
 * use, too, is as fast as it was for a few hundred milliseconds only.
 */
export function paceOf(pace: Pace): Pace {
  return BEFORE === undefined ? pace : { ...pace, rounds: pace.rounds * 5, roundMs: 200 };
}

/** One version of ours costs up to a tenth more in one process than in another, whatever the reason. */
const STARTS = 3;

export interface Server {
  readonly name: ProxyName;
  readonly server: Running;
}

/** What is compared, as installed. */
export function versions(): string[] {
  const packages = [
    "http-proxy-3",
    "@fastify/reply-from",
    "fastify",
    "http-proxy-middleware",
    "express",
    "x402-express",
  ];
  const daemons = [nginxVersion() ?? "no nginx", haproxyVersion() ?? "no haproxy"];
  return [...daemons, ...packages.map(versionOf)];
}

export class Stage implements AsyncDisposable {
  readonly #folder: string;
  readonly load: Program;
  readonly backend: Running;
  readonly facilitator: Running;
  readonly #closing: AsyncDisposableStack;
  readonly #running = new Map<ProxyName, Promise<Running>>();

  private constructor(
    folder: string,
    programs: { readonly load: Program; readonly backend: Running; readonly facilitator: Running },
    closing: AsyncDisposableStack,
  ) {
    this.#folder = folder;
    this.load = programs.load;
    this.backend = programs.backend;
    this.facilitator = programs.facilitator;
    this.#closing = closing;
  }

  /** @param folder for configurations and ledgers; the caller removes it */
  static async open(folder: string): Promise<Stage> {
    await using closing = new AsyncDisposableStack();
    const start = async (file: URL): Promise<Program> => {
      const program = await startProgram(file);
      closing.defer(() => program.stop());
      return program;
    };
    const load = await start(new URL("../load.ts", import.meta.url));
    const backend = await start(new URL("../contenders/backend.ts", import.meta.url));
    const facilitator = await start(new URL("../contenders/stub-facilitator.ts", import.meta.url));
    return new Stage(folder, { load, backend, facilitator }, closing.move());
  }

  /** Those of the named ones that are installed; of two versions of ours {@link STARTS} processes each. */
  async servers(names: readonly ProxyName[]): Promise<Server[]> {
    const servers: Server[] = [];
    const starts = BEFORE === undefined ? 1 : STARTS;
    for (let start = 0; start < starts; start += 1) {
      for (const name of names.filter(isInstalled)) {
        const server = await (start === 0 ? this.server(name) : this.fresh(name));
        servers.push({ name, server });
      }
    }
    return servers;
  }

  server(name: ProxyName): Promise<Running> {
    const known = this.#running.get(name);
    if (known !== undefined) return known;
    const starting = this.fresh(name);
    this.#running.set(name, starting);
    return starting;
  }

  /** One more process of that kind, which has served nothing yet. */
  async fresh(name: ProxyName): Promise<Running> {
    const server = await this.#start(name);
    this.#closing.defer(() => server.stop());
    return server;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#closing.disposeAsync();
  }

  async #start(name: ProxyName): Promise<Running> {
    const folder = await mkdtemp(join(this.#folder, "server-"));
    const { url: backend } = this.backend;
    const { url: facilitator } = this.facilitator;
    switch (name) {
      case OURS:
        return this.#coinslot(folder);
      case OURS_BEFORE:
        return this.#coinslot(folder, BEFORE);
      case NGINX:
        return startNginx(folder, await this.#nginx(""));
      case UNBUFFERED:
        return startNginx(
          folder,
          await this.#nginx("proxy_buffering off; proxy_buffer_size 64k; proxy_buffers 8 64k;"),
        );
      case HAPROXY:
        return startHaproxy(folder, backend);
      case HTTP_PROXY:
        return startProgram(new URL("../contenders/http-proxy-3.ts", import.meta.url), [backend]);
      case REPLY_FROM:
        return startProgram(new URL("../contenders/reply-from.ts", import.meta.url), [backend]);
      case CONSTANT: {
        const { url } = await this.server(OURS);
        const sold = `${url}${PRICED_ROUTES[0]}`;
        return startProgram(new URL("../contenders/constant.ts", import.meta.url), [sold]);
      }
      case MIDDLEWARE:
        return startProgram(new URL("../contenders/express-middleware.ts", import.meta.url), [
          backend,
        ]);
      case X402:
        return startProgram(new URL("../contenders/x402-express.ts", import.meta.url), [
          backend,
          facilitator,
        ]);
    }
  }

  #coinslot(folder: string, version?: Version): Promise<Running> {
    const config = gatewayConfig(folder, this.backend.url, this.facilitator.url);
    return startCoinslot(folder, config, "gateway", { version });
  }

  /** Before the backend, and with one of our own 402 answers as a constant. */
  async #nginx(settings: string): Promise<{ readonly server: string; readonly http: string }> {
    const { url } = await this.server(OURS);
    const body = await (await fetch(`${url}${PRICED_ROUTES[0]}`)).text();
    const http = `upstream backend { server ${new URL(this.backend.url).host}; keepalive 256;
      keepalive_requests 100000000; }`;
    const server = `
      location / {
        proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection "";
        proxy_set_header X-Forwarded-For $remote_addr; ${settings}
      }
      location /products/ {
        default_type application/json; add_header Cache-Control no-store always;
        return 402 '${body}';
      }`;
    return { server, http };
  }
}

function isInstalled(name: ProxyName): boolean {
  if (name === HAPROXY) return haproxyVersion() !== null;
  return (name !== NGINX && name !== UNBUFFERED) || nginxVersion() !== null;
}
