/**
 * The operator's listener: `/` (the overview), `/metrics`, `/livez`, `/readyz`, `/payments`, `/listing`, `/-/config`, `POST /-/reload`,
 * `POST /-/log-level/NAME`. It is never on the public port. Alive means that the event loop turns; ready means that this process has something to serve, free or for a payment
 * on a network that is open.
 * Only for who reaches it by an address or by a name that it is known by, so that no page of the web can have a browser
 * read it.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { codingFor } from "../http/content-coding.ts";
import { CONTENT_TYPES, expose, formatFor } from "../telemetry/exposition.ts";
import type { MetricsSnapshot } from "../telemetry/metric-registry.ts";
import type { PaymentsListener } from "./payments.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { HostNames } from "../http/host-names.ts";
import type { Config } from "../config/config.ts";
import { LOG_LEVELS, type LogLevel } from "../telemetry/logger.ts";
import { runningConfig } from "./running-config.ts";
import { sendPage } from "./send-page.ts";

export interface Readiness {
  readonly isReady: boolean;
  /** Why it is not, and what can be paid on; each a line. */
  readonly said: readonly string[];
}

export interface AdminOptions {
  readonly telemetry: Telemetry;
  readonly readiness: () => Promise<Readiness>;
  /** Names that it is reached by, beside `localhost`; default: none. */
  readonly hosts?: readonly string[];
  /** All metrics; default: those of this process. */
  readonly metrics?: () => Promise<MetricsSnapshot>;
  /** Shows recent requests; default: nobody sees them. */
  readonly payments?: PaymentsListener | undefined;
  /** What needs the operator, and what was earned, as a page; default: nobody sees it. */
  readonly overview?: { readonly policy: string; page(): Promise<string> } | undefined;
  /** What facilitators elsewhere said of listing each route; default: nothing. */
  readonly listing?: () => readonly object[];
  /** The configuration in force. Default: nobody sees it. */
  readonly running?: (() => Config) | undefined;
  /** From now on that is the least severe of what is logged, until the next reload. */
  readonly level?: (level: LogLevel) => void;
  /** Reads the configuration once more. */
  readonly reload?: (wish: ReloadWish) => Promise<ReloadVerdict>;
}

/** What is wanted of a reload: `?dry-run`, `?allow-free`. */
interface ReloadWish {
  readonly isDry: boolean;
  readonly allowsFree: boolean;
}

/** What came of a reload: the problems are those of the file, and what speaks against it now. */
export interface ReloadVerdict {
  readonly reloaded: boolean;
  /** Some of what serves goes by the configuration before. */
  readonly inPart?: true;
  /** Only of one that was to change nothing. */
  readonly wouldReload?: boolean;
  readonly problems: readonly object[];
}

const NOT_SHOWN =
  "recent requests and the configuration are shown where only this machine can reach this address, or where that says " +
  "admin: { address: …, timeline: true }\n";

const PATHS =
  "try /, /metrics, /livez, /readyz, /payments, /listing, /-/config, POST /-/reload or POST /-/log-level/debug\n";

const UNKNOWN_NAME =
  "ask by localhost or by an IP address, or by a name that the configuration has: admin: { address: …, hosts: [NAME] }\n";

/** A request listener for a `node:http` server. */
export function createAdminHandler({ telemetry, readiness, ...options }: AdminOptions) {
  const { registry } = telemetry.metrics;
  const { metrics = () => registry.snapshot(), listing = () => [] } = options;
  // A name that somebody else's server gives out may lead here (DNS rebinding). No browser speaks HTTP/1.0, without one.
  const names = new HostNames(options.hosts ?? []);
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = (request.url ?? "").split("?", 1)[0];
    if (!names.has(request.headers.host)) return send(response, 403, UNKNOWN_NAME);
    const obey = orderOf(path ?? "", options);
    if (obey !== undefined) {
      return isOrder(request, response) ? obey(request, response) : undefined;
    }
    if (request.method !== "GET" && request.method !== "HEAD") {
      response.setHeader("Allow", "GET, HEAD");
      return send(response, 405, "use GET\n");
    }
    switch (path) {
      case "/metrics": {
        const { accept, "accept-encoding": codings } = request.headers;
        const format = formatFor(accept);
        response.setHeader("Content-Type", CONTENT_TYPES[format]);
        response.setHeader("Vary", "Accept, Accept-Encoding");
        const text = expose(await metrics(), format);
        if (codingFor(codings, ["gzip"]) === null) return send(response, 200, text);
        response.setHeader("Content-Encoding", "gzip");
        return send(response, 200, await promisify(gzip)(text));
      }
      case "/livez":
        return send(response, 200, "alive\n");
      case "/readyz": {
        const { isReady, said } = await readiness();
        const list = said.map((text) => `- ${text}\n`).join("");
        return send(response, isReady ? 200 : 503, `${isReady ? "ready" : "not ready"}\n${list}`);
      }
      case "/listing":
        response.setHeader("Content-Type", "application/json");
        return send(response, 200, `${JSON.stringify({ words: listing() })}\n`);
      case "/-/config":
        if (options.running === undefined) return send(response, 404, NOT_SHOWN);
        response.setHeader("Content-Type", "application/json");
        return send(response, 200, runningConfig(options.running()));
      case "/":
        if (options.overview === undefined) return send(response, 404, PATHS);
        return sendPage(response, {
          page: await options.overview.page(),
          policy: options.overview.policy,
        });
      case "/payments":
      case "/payments/events":
        if (options.payments === undefined) return send(response, 404, NOT_SHOWN);
        return options.payments.answer(request, response);
      default:
        return send(response, 404, PATHS);
    }
  };
  return (request: IncomingMessage, response: ServerResponse): void => {
    answer(request, response).catch((cause: unknown) => {
      telemetry.logger.error({ err: cause }, "the admin listener failed");
      if (!response.headersSent) send(response, 500, "internal error\n");
    });
  };
}

type Obey = (request: IncomingMessage, response: ServerResponse) => Promise<void> | void;

/** What a POST to that path has done. */
function orderOf(
  path: string,
  { reload: reloads, level: set }: Pick<AdminOptions, "reload" | "level">,
): Obey | undefined {
  if (path === "/-/reload" && reloads !== undefined) {
    return (request, response) => reload(request, response, reloads);
  }
  const [, level] = /^\/-\/log-level\/(.*)$/.exec(path) ?? [];
  if (level === undefined || set === undefined) return undefined;
  return (_request, response) => setLevel(response, level, set);
}

/**
 * Whether a request may change something; else it is answered. A page in an operator's browser can send one, though not
 * without saying where it is from.
 */
function isOrder(request: IncomingMessage, response: ServerResponse): boolean {
  request.resume();
  if (request.method !== "POST") {
    response.setHeader("Allow", "POST");
    send(response, 405, "use POST\n");
    return false;
  }
  if (request.headers.origin === undefined) return true;
  send(response, 403, "not for browsers\n");
  return false;
}

function setLevel(
  response: ServerResponse,
  named: string,
  set: NonNullable<AdminOptions["level"]>,
): void {
  const level = LOG_LEVELS.find((each) => each === named);
  if (level === undefined) return send(response, 400, `one of ${LOG_LEVELS.join(", ")}\n`);
  set(level);
  send(response, 200, `${level}\n`);
}

async function reload(
  request: IncomingMessage,
  response: ServerResponse,
  reloads: NonNullable<AdminOptions["reload"]>,
): Promise<void> {
  const asked = new URLSearchParams((request.url ?? "").split("?")[1]);
  const verdict = await reloads({
    isDry: asked.has("dry-run"),
    allowsFree: asked.has("allow-free"),
  });
  const isGood = verdict.wouldReload ?? verdict.reloaded;
  response.setHeader("Content-Type", "application/json");
  const status = verdict.inPart === true ? 500 : 200;
  send(response, isGood ? status : 422, `${JSON.stringify(verdict)}\n`);
}

function send(response: ServerResponse, status: number, body: string | Buffer): void {
  if (!response.hasHeader("Content-Type")) {
    response.setHeader("Content-Type", "text/plain; charset=utf-8");
  }
  response.setHeader("Cache-Control", "no-store");
  // Once: all metrics are millions of characters.
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  response.writeHead(status, { "Content-Length": bytes.length });
  response.end(bytes);
}
