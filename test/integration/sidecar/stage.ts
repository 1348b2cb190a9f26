/** A shop behind somebody's own proxy: the proxy with our recipe, coinslot as its sidecar, a backend that records. */
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import { WebSocketServer } from "ws";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import type { Chain } from "../../support/chain.ts";
import { startOwnProxy, type OwnProxy, type OwnProxyName } from "../../support/own-proxy.ts";
import { freshAccount } from "../../support/payer.ts";
import { Site, type Served } from "../../support/serve.ts";

/** What resources are called: buyers reach the proxy by another name than the tests do. */
export const PUBLIC_URL = "https://shop.example";

export interface Recorded {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

export interface Shop extends AsyncDisposable {
  readonly url: string;
  /** Where the proxy asks. */
  readonly sidecarUrl: string;
  readonly site: Site;
  readonly yaml: string;
  readonly env: Readonly<Record<string, string>>;
  served: Served;
  readonly proxy: OwnProxy;
  readonly backend: Recorded[];
  /** The status that the backend answers with from here on, and its lines. */
  answers: { status: number; headers: Record<string, string> };
  /** What the backend waits for before it answers. */
  pause: Promise<void>;
}

export interface ShopOptions {
  readonly chain: Chain;
  readonly proxy: OwnProxyName;
  /** YAML of more keys of `sidecar`. */
  readonly settings?: string;
  /** More YAML at the top level. */
  readonly more?: string;
}

export async function openShop({ chain, proxy, settings, more = "" }: ShopOptions): Promise<Shop> {
  await using closing = new AsyncDisposableStack();
  const backend: Recorded[] = [];
  const answers = { status: 200, headers: {} };
  const server = createServer(record(backend, () => shop));
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (socket, { method = "", url = "", headers }) => {
    backend.push({ method, url, headers, body: "" });
    socket.on("message", (message) => socket.send(message));
  });
  const { port: backendPort } = await listen(server, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(server, AbortSignal.timeout(1_000)));
  const signer = freshAccount();
  await chain.fund(signer.address, 0n, 10n ** 18n);
  const sidecar = `proxy: ${proxy}${settings === undefined ? "" : `, ${settings}`}`;
  const site = closing.use(await Site.create({ publicUrl: PUBLIC_URL, sidecar }));
  const yaml = shopYaml(chain, freshAccount().address, more);
  const env = { SIGNER: signer.privateKey };
  const served = await site.serve(yaml, env);
  await served.untilReady();
  const places = { sidecarPort: site.port, backendPort };
  const front = closing.use(await startOwnProxy(proxy, places));
  const owned = closing.move();
  const shop: Shop = {
    url: front.url,
    sidecarUrl: served.url,
    site,
    yaml,
    env,
    served,
    proxy: front,
    backend,
    answers,
    pause: Promise.resolve(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
  return shop;
}

export function shopYaml(chain: Chain, payee: string, more = ""): string {
  return `
payTo: "${payee}"
accept: [${chain.network.name}]
facilitator:
  embedded:
    networks:
      ${chain.network.name}: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
unmatched: deny
logging: { level: debug }
${more}
routes:
  GET /weather: { price: $0.01, description: Current weather, mimeType: application/json }
  POST /summarize: { price: $0.02, description: A summary, mimeType: application/json }
  GET /reports/:id: { price: $0.25, description: A report, mimeType: application/json }
  GET /by-query: { price: { by: "1000 * int(query.n)", from: $0.001, to: $0.05 }, description: Many }
  GET /health: free
  POST /echo: free
  /admin/*: deny
`;
}

function record(backend: Recorded[], shop: () => Pick<Shop, "answers" | "pause">): RequestListener {
  return (request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", async () => {
      const { method = "", url = "", headers } = request;
      const body = Buffer.concat(parts).toString();
      backend.push({ method, url, headers, body });
      await shop().pause;
      const { status, headers: lines } = shop().answers;
      response.writeHead(status, { "Content-Type": "application/json", ...lines });
      response.end(JSON.stringify({ method, url, body }));
    });
  };
}
