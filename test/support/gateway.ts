/**
 * The whole product in this process, from YAML text to open ports, before a local chain and a sample
 * backend that records what reaches it.
 */
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { start, type Running } from "../../src/app.ts";
import { formatProblems, parseConfig } from "../../src/config/config.ts";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import type { Chain } from "./chain.ts";
import { freshAccount } from "./payer.ts";

export interface GatewaySetup {
  readonly chain: Chain;
  /** YAML of the `routes:` map, indented by two. Default: {@link DEFAULT_ROUTES}. */
  readonly routes?: string;
  /** The line of the operator's listener. Default: on a port of its own. */
  readonly admin?: string;
  /** The line of what is logged. Default: nothing is. */
  readonly logging?: string;
  /** More YAML at the top level: `cors: true`. */
  readonly more?: string;
  /** What files hold that `more` names. */
  readonly files?: Readonly<Record<string, string>>;
  /** YAML of the `facilitator:` block, indented by two. Default: embedded on the chain. */
  readonly facilitator?: string;
  readonly unmatched?: "deny" | "free";
  /** Default: answers 200 with JSON that repeats the request. */
  readonly backend?: RequestListener;
  /** A backend of the test's own, in place of the recording one. */
  readonly upstreamUrl?: string;
  /** The same as YAML: a command, say. */
  readonly upstream?: string;
  /** Default: a file of its own. */
  readonly storePath?: string;
  readonly rpcUrl?: string;
  /** Where it listens for buyers. Default: on any port of loopback. */
  readonly listen?: string;
  /** What resources are called. Default: {@link PUBLIC_URL}. */
  readonly publicUrl?: string;
  /** Default: an address that nobody has paid yet. */
  readonly payee?: `0x${string}`;
}

export interface RecordedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

export interface RunningGateway {
  readonly url: string;
  /** Base URL of the facilitator's REST endpoints. */
  readonly facilitatorUrl: string;
  readonly adminUrl: string;
  /** Who is paid. */
  readonly payee: `0x${string}`;
  /** Our paying account. */
  readonly signer: `0x${string}`;
  /** What reached the backend, in order. */
  readonly upstream: readonly RecordedRequest[];
  readonly running: Running;
  /** Puts other routes in place of the ones it has, and more of the file; false where they are refused. */
  reroute(routes: string, more?: string): Promise<boolean>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** What resources are called: the port that the listener gets is not known before it opens. */
export const PUBLIC_URL = "http://localhost:8402";

const DEFAULT_ROUTES = `
  GET /weather: { price: $0.01, description: Current weather, mimeType: application/json }
  POST /summarize: { price: $0.02, description: A summary, mimeType: application/json }
  GET /reports/:id: { price: $0.25, description: A report, mimeType: application/json }
  GET /health: free
  /admin/*: deny
`;

/** What threads of the gateway run. */
const MAIN = join(import.meta.dirname, "../../src/main.ts");

export async function startGateway(setup: GatewaySetup): Promise<RunningGateway> {
  await using closing = new AsyncDisposableStack();
  const { chain } = setup;
  const signer = freshAccount();
  const payee = setup.payee ?? freshAccount().address;
  await chain.fund(signer.address, 0n, 10n ** 18n);
  const upstream: RecordedRequest[] = [];
  const backendUrl =
    setup.upstream ??
    setup.upstreamUrl ??
    (await startBackend(setup.backend ?? repeat, upstream, closing));
  const folder = join(tmpdir(), `coinslot-test-${randomUUID()}`);
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const storePath = setup.storePath ?? join(folder, "ledger.db");
  const parse = ({ routes = DEFAULT_ROUTES, more = "" }: Pick<GatewaySetup, "routes" | "more">) =>
    parseConfig(writeConfig({ ...setup, routes, more, storePath }, backendUrl, payee), {
      file: "test.yaml",
      env: { SIGNER: signer.privateKey },
      readFile: (path) => {
        const text = setup.files?.[basename(path)];
        if (text === undefined) throw new Error(`the test has no file ${path}`);
        return text;
      },
    });
  const parsed = parse(setup);
  if (!parsed.ok) throw new Error(formatProblems(parsed.problems, parsed.text));
  let next = parsed;
  const running = await start(parsed.config, "test", { script: MAIN, load: async () => next });
  closing.defer(() => running.close());
  const owned = closing.move();
  const { gateway, facilitator, admin } = running.addresses;
  return {
    url: urlOf(gateway[0]),
    facilitatorUrl: urlOf(facilitator),
    adminUrl: urlOf(admin),
    payee,
    signer: signer.address,
    upstream,
    running,
    async reroute(routes, more = setup.more) {
      const changed = parse({ routes, ...(more !== undefined && { more }) });
      if (!changed.ok) throw new Error(formatProblems(changed.problems, changed.text));
      next = changed;
      return (await running.reload("POST /-/reload")).reloaded;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function urlOf(address: AddressInfo | null | undefined): string {
  return `http://127.0.0.1:${address?.port ?? 0}`;
}

function writeConfig(
  setup: GatewaySetup & Required<Pick<GatewaySetup, "routes" | "storePath">>,
  backendUrl: string,
  payee: string,
): string {
  const { chain, more = "", routes, unmatched = "deny" } = setup;
  const rpcUrl = setup.rpcUrl ?? chain.rpcUrl;
  const embedded = `
  listen: 127.0.0.1:0
  embedded:
    networks:
      ${chain.network.name}: { rpc: ["${rpcUrl}"], signers: [env:SIGNER] }
`;
  return `
listen: ${setup.listen ?? "127.0.0.1:0"}
publicUrl: ${setup.publicUrl ?? PUBLIC_URL}
${setup.admin ?? "admin: 127.0.0.1:0"}
upstream: ${backendUrl}
payTo: "${payee}"
accept: [${chain.network.name}]
facilitator: ${setup.facilitator ?? embedded}
unmatched: ${unmatched}
store: sqlite:${setup.storePath}
${setup.logging ?? `logging: { level: ${process.env["COINSLOT_TEST_LOG"] ?? "silent"} }`}
${more}
routes: ${routes}
`;
}

async function startBackend(
  handler: RequestListener,
  upstream: RecordedRequest[],
  closing: AsyncDisposableStack,
): Promise<string> {
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const { method = "", url = "", headers } = request;
      upstream.push({ method, url, headers, body: Buffer.concat(parts).toString() });
    });
    handler(request, response);
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(server, AbortSignal.timeout(1_000)));
  return `http://127.0.0.1:${port}`;
}

/** Answers with the request, once its body has arrived. */
const repeat: RequestListener = (request, response) => {
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  request.on("end", () => {
    const { method, url } = request;
    const body = JSON.stringify({ method, url, body: Buffer.concat(parts).toString() });
    response.writeHead(200, { "Content-Type": "application/json" });
    response.end(body);
  });
};
