/** Gateways whose certificates a real authority gives, and clients that trust nobody else. */
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { request as requestPlain } from "node:http";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { start, type Running } from "../../../src/app.ts";
import { formatProblems, parseConfig, processEnvironment } from "../../../src/config/config.ts";
import { freePort } from "../../support/free-port.ts";
import type { Pebble } from "../../support/pebble.ts";
import { backend } from "../gateway/stage.ts";

export const SHOP = "shop.coinslot.dev";
export const OTHER = "other.coinslot.dev";

export interface Ports {
  readonly http: number;
  readonly tls: number;
}

export async function freePorts(): Promise<Ports> {
  return { http: await freePort(), tls: await freePort() };
}

export interface StageOptions {
  readonly authority: Pick<Pebble, "directory" | "ca">;
  readonly ports: Ports;
  readonly challenge: string;
  /** Default: a file of its own. */
  readonly store?: string;
  /** Default: {@link SHOP}. */
  readonly domains?: readonly string[];
  /** Default: one process. */
  readonly workers?: number;
  /** Default: the listener without TLS leads to the other. */
  readonly redirect?: boolean;
}

/** The file of a gateway that sells nothing but has everything that certificates need. */
export function configOf(
  { authority, ports, challenge, domains = [SHOP], workers = 1, redirect = true }: StageOptions,
  { store, origin }: { readonly store: string; readonly origin: string },
): string {
  return `
listen:
  - address: 127.0.0.1:${ports.tls}
    tls:
      acme:
        agreeToTerms: true
        email: ops@coinslot.dev
        domains: [${domains.join(", ")}]
        directory: ${authority.directory}
        ca: ${authority.ca}
        challenge: ${challenge}
  - { address: "127.0.0.1:${ports.http}", redirect: ${redirect} }
publicUrl: https://${SHOP}
hosts: [${OTHER}]
admin: 127.0.0.1:0
workers: ${workers}
upstream: ${origin}
routes: { GET /free: free }
unmatched: deny
store: ${store}
logging: { level: ${process.env["COINSLOT_TEST_LOG"] ?? "silent"} }
`;
}

export interface Stage {
  readonly running: Running;
  readonly store: string;
  /** Puts other names in place of those in the file; false where they are refused. */
  rename(domains: readonly string[]): Promise<boolean>;
  /** Lines of the operator's metrics that begin so. */
  metrics(start: string): Promise<readonly string[]>;
  [Symbol.asyncDispose](): Promise<void>;
}

export async function openStage(options: StageOptions): Promise<Stage> {
  await using closing = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "coinslot-acme-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const origin = await backend((_, response) => void response.end("hello"));
  const store = options.store ?? `sqlite:${join(folder, `${randomUUID()}.db`)}`;
  const parsed = (changed: Partial<StageOptions>) => {
    const text = configOf({ ...options, ...changed }, { store, origin });
    return parseConfig(text, { ...processEnvironment, file: "test.yaml" });
  };
  const first = parsed({});
  if (!first.ok) throw new Error(formatProblems(first.problems, first.text));
  let next: ReturnType<typeof parsed> = first;
  const running = await start(first.config, "test", { load: async () => next, read: first });
  closing.defer(() => running.close({ atOnce: true }));
  const owned = closing.move();
  return {
    running,
    store,
    async rename(domains) {
      next = parsed({ domains });
      return (await running.reload("POST /-/reload")).reloaded;
    },
    async metrics(start) {
      const { port = 0 } = running.addresses.admin ?? {};
      const answer = await fetch(`http://127.0.0.1:${port}/metrics`);
      return (await answer.text()).split("\n").filter((line) => line.startsWith(start));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

export interface Seen {
  readonly status: number;
  readonly body: string;
  /** What tells this certificate from others. */
  readonly serial: string;
}

/** What a client gets on a connection of its own that trusts one root alone, and asks for one name. */
export function ask(port: number, root: string, name: string = SHOP): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, path: "/free", servername: name, ca: root };
    const asked = request({ ...options, headers: { host: name }, agent: false }, (response) => {
      const serial = (response.socket as TLSSocket).getPeerCertificate().serialNumber;
      let body = "";
      response.on("data", (chunk) => (body += String(chunk)));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body, serial }));
    });
    asked.once("error", reject);
    asked.end();
  });
}

/** What is answered without TLS. */
export function askPlain(
  port: number,
  path: string,
  host: string = SHOP,
): Promise<{ readonly status: number; readonly location: string | undefined }> {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, path, headers: { host }, agent: false };
    const asked = requestPlain(options, (response) => {
      response.resume();
      resolve({ status: response.statusCode ?? 0, location: response.headers.location });
    });
    asked.once("error", reject);
    asked.end();
  });
}
