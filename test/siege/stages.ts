/** What is laid siege to: the gateway as a process of its own with everything around it, or nginx before the same shop. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent, fetch } from "undici";
import { placesOf } from "../../src/app/places.ts";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import { startNginx } from "../bench/contenders/nginx.ts";
import { startProgram } from "../bench/process.ts";
import { startChain } from "../support/chain.ts";
import { limitMemory } from "../support/memory-limit.ts";
import { FIRST } from "../support/listener-tls.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";
import { Site } from "../support/serve.ts";
import { MEMORY_BYTES, nodeFlags } from "./container.ts";
import { PATHS, type Protocol } from "./attacks.ts";
import { mineLeft } from "./mine-left.ts";
import { startSlowNode } from "./slow-node.ts";

/** How far away the node is, milliseconds. */
export const LATENCY_MS = 200;
/** Priced routes: their description is what strangers ask for and do not read. */
const ROUTES = 1_000;
const SHOP = new URL("shop.ts", import.meta.url);
/** Atomic units that each buyer has. */
const PURSE = 10n ** 9n;
const READY_MS = 60_000;

export interface Stage extends AsyncDisposable {
  readonly url: string;
  readonly pid: number;
  readonly protocol: Protocol;
  /** Null where nothing is sold. */
  readonly shop: {
    readonly adminUrl: string;
    readonly offer: PaymentRequirements;
    readonly payers: readonly FreshAccount[];
  } | null;
}

export interface GatewayOptions {
  readonly protocol: Protocol;
  readonly workers: number;
  /** The program's main file, which is then started as in the container; default: this tree's source. */
  readonly main?: string;
}

export async function openGateway(
  buyers: number,
  { protocol, workers, main }: GatewayOptions,
): Promise<Stage> {
  await using opening = new AsyncDisposableStack();
  const chain = opening.use(await startChain());
  opening.use(mineLeft(chain));
  const node = opening.use(await startSlowNode(chain.rpcUrl, LATENCY_MS));
  const backend = await startProgram(SHOP);
  opening.defer(() => backend.stop());
  const signer = freshAccount();
  await chain.fund(signer.address, 0n, 10n ** 20n);
  const payers = Array.from({ length: buyers }, freshAccount);
  await Promise.all(payers.map(({ address }) => chain.fund(address, PURSE)));
  const isSecure = protocol === "HTTP/2";
  const program = main === undefined ? {} : { main, flags: nodeFlags() };
  const tls = isSecure ? { tls: FIRST } : {};
  const memory = await limitMemory(MEMORY_BYTES);
  if (memory !== null) opening.use(memory);
  const site = opening.use(await Site.create({ ...program, ...tls, prefix: memory?.prefix ?? [] }));
  const { name: network } = chain.network;
  // What the program finds out by itself where it is given so much.
  const allowed = { machine: MEMORY_BYTES, allowed: undefined };
  const inFlight = memory === null ? placesOf(null, workers, allowed).count : null;
  const places = { upstream: backend.url, rpc: node.url, network, inFlight };
  const served = await site.serve(configuration(places, workers), { SIGNER: signer.privateKey });
  await served.untilReady(200, READY_MS);
  const url = isSecure ? served.url.replace("http:", "https:") : served.url;
  const { adminUrl, pid } = served;
  const shop = { adminUrl, offer: await quoteOf(url), payers };
  const stack = opening.move();
  return { url, pid, protocol, shop, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** One worker with 1,024 connections, HTTP/1.1, no limits of its own. */
export async function openNginx(): Promise<Stage> {
  await using opening = new AsyncDisposableStack();
  const backend = await startProgram(SHOP);
  opening.defer(() => backend.stop());
  const folder = await mkdtemp(join(tmpdir(), "coinslot-siege-"));
  opening.defer(() => rm(folder, { recursive: true, force: true }));
  const server = `location / { proxy_pass ${backend.url}; }`;
  const nginx = await startNginx(folder, { server });
  opening.defer(() => nginx.stop());
  const { url, pid } = nginx;
  const stack = opening.move();
  const protocol = "HTTP/1.1";
  return { url, pid, protocol, shop: null, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

async function quoteOf(url: string): Promise<PaymentRequirements> {
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false } });
  const answer = await fetch(`${url}${PATHS.sold}`, { dispatcher });
  const { accepts } = (await answer.json()) as { accepts: [PaymentRequirements] };
  await dispatcher.destroy();
  return accepts[0];
}

interface Places {
  readonly upstream: string;
  readonly rpc: string;
  readonly network: string;
  readonly inFlight: number | null;
}

function configuration({ upstream, rpc, network, inFlight }: Places, workers: number): string {
  const description = "What nobody buys. ".repeat(10);
  const routes = Array.from({ length: ROUTES }, (_, index) => {
    return `  GET /other/${index}: { price: $0.02, description: ${description} }`;
  });
  return `
upstream: ${upstream}
payTo: "${freshAccount().address}"
accept: [${network}]
facilitator:
  embedded:
    networks:
      ${network}: { rpc: ["${rpc}"], signers: [env:SIGNER] }
unmatched: deny
workers: ${workers}
discovery: { openapi: true }
${inFlight === null ? "" : `limits: { inFlight: ${inFlight} }`}
logging: { level: warn }
routes:
  GET /goods/:id: { price: $0.01, description: Goods }
  /free/*: free
${routes.join("\n")}
`;
}
