/** Downloads that are cut at random bytes, or led elsewhere first; clients then go on in their own way. */
import { createServer as createHttpServer, type RequestListener } from "node:http";
import { connect, createServer, type AddressInfo } from "node:net";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { Random } from "../simulation/random.ts";
import type { Chain } from "../support/chain.ts";
import { startGateway } from "../support/gateway.ts";
import { freshAccount } from "../support/payer.ts";
import { Site, type Served } from "../support/serve.ts";
import { hashOf, type DownloadClient } from "./download-clients.ts";

const MIN_BYTES = 64 * 1024 + 1;
/** More than a 402 has: what is cut is what was paid for. */
const MAX_QUOTE_BYTES = 8 * 1024;
/** Of one download, atomic units. */
const PRICE = 1_000n;
/** How long the gateway may take to start on a busy machine, milliseconds. */
const START_MS = 60_000;
/** What a buyer has. */
const PURSE = 10n * PRICE;

export interface Cut {
  readonly bytes: number;
  /** How many bytes of answers the client has got when its connection breaks. */
  readonly at: number;
  /** The gateway's end is reset, not closed. */
  readonly isReset: boolean;
  /** The client's end is closed, not reset. */
  readonly isClosedHere: boolean;
}

/** What became of a purchase. */
export interface Outcome {
  readonly isComplete: boolean;
  /** How often the seller was paid. */
  readonly charges: number;
}

export interface CutResult extends Cut, Outcome {
  /** False: all of it had passed before it could be cut. */
  readonly isCut: boolean;
}

/** A line to the gateway that breaks once, after so many bytes of answers. */
async function cutLine(to: string, { at, isReset, isClosedHere }: Cut) {
  let left = at;
  const server = createServer((near) => {
    const far = connect(Number(to), "127.0.0.1");
    near.on("error", () => far.destroy()).on("close", () => far.destroy());
    far.on("error", () => near.destroy());
    const onFarClosed = (): unknown => near.destroy();
    far.on("close", onFarClosed);
    near.pipe(far);
    far.on("data", (chunk) => {
      if (left > 0 && chunk.length >= left) {
        const last = chunk.subarray(0, left);
        left = 0;
        far.off("close", onFarClosed);
        if (isClosedHere) near.end(last);
        else near.write(last, () => near.resetAndDestroy());
        if (isReset) far.resetAndDestroy();
        else far.destroy();
        return;
      }
      if (left > 0) left -= chunk.length;
      if (near.write(chunk)) return;
      far.pause();
      near.once("drain", () => far.resume());
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    isCut: (): boolean => left === 0,
    [Symbol.asyncDispose]: async () => void server.close(),
  };
}

/** Where a redirect leads, of all those whose target the payment is good for. */
export const REDIRECTS = ["slash", "other", "host"] as const;
export type RedirectKind = (typeof REDIRECTS)[number];
const STATUSES = [301, 302, 303, 307, 308];

/**
 * Answers `/file/SIZE` with so many bytes, and with parts of them, as file servers do; `/to-KIND/STATUS/SIZE` leads to
 * such a file: at the same path with a slash, at another path that has a price, at another host.
 */
const serveFiles =
  (elsewhere: () => number): RequestListener =>
  ({ url = "", headers }, response) => {
    const [, kind, status, size] = /^[/]to-(\w+)[/](\d+)[/](\d+)$/.exec(url) ?? [];
    if (kind !== undefined) {
      const targets: Readonly<Record<string, string>> = {
        slash: `${url}/`,
        other: `/file/${size}`,
        host: `http://localhost:${elsewhere()}/file/${size}`,
      };
      response.writeHead(Number(status), { Location: targets[kind] }).end();
      return;
    }
    const bytes = Number(/(\d+)[/]?$/.exec(url)?.[1]);
    const [, first = "0"] = /^bytes=(\d+)-$/.exec(headers.range ?? "") ?? [];
    const body = fileOf(bytes).subarray(Number(first));
    const range = { "Content-Range": `bytes ${first}-${bytes - 1}/${bytes}` };
    response.writeHead(headers.range === undefined ? 200 : 206, {
      "Content-Length": body.length,
      ...(headers.range !== undefined && range),
    });
    response.end(body);
  };

const PATTERN = Buffer.from("what was paid for ends in the goods ");

function fileOf(bytes: number): Buffer {
  return Buffer.alloc(bytes, PATTERN);
}

const ROUTES = `
  GET /file/*: { price: $0.001, description: A file }
  GET /to-slash/*: { price: $0.001, description: Leads to the same path with a slash }
  GET /to-other/*: { price: $0.001, description: Leads to a file }
  GET /to-host/*: { price: $0.001, description: Leads to another host }
`;

/** The gateway as its users run it. */
async function serve(
  chain: Chain,
  { port, workers }: { readonly port: number; readonly workers: number },
  closing: AsyncDisposableStack,
): Promise<Served> {
  const [signer, payee] = [freshAccount(), freshAccount()];
  await chain.fund(signer.address, 0n, 10n ** 18n);
  const site = closing.use(await Site.create());
  const yaml = `
upstream: http://127.0.0.1:${port}
payTo: "${payee.address}"
accept: [${chain.network.name}]
facilitator:
  embedded:
    networks:
      ${chain.network.name}: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
unmatched: deny
workers: ${workers}
routes:${ROUTES}`;
  const served = await site.serve(yaml, { SIGNER: signer.privateKey });
  await served.untilReady(200, START_MS);
  return served;
}

export class GoodsStage implements AsyncDisposable {
  readonly #chain: Chain;
  readonly #gateway: { readonly url: string };
  readonly #closing: AsyncDisposableStack;

  private constructor(
    chain: Chain,
    gateway: { readonly url: string },
    closing: AsyncDisposableStack,
  ) {
    this.#chain = chain;
    this.#gateway = gateway;
    this.#closing = closing;
  }

  /** @param workers more than one: a process of its own, with so many of them */
  static async open(chain: Chain, workers = 1): Promise<GoodsStage> {
    await using closing = new AsyncDisposableStack();
    let port = 0;
    const backend = serveFiles(() => port);
    const server = createHttpServer(backend);
    ({ port } = await listen(server, { host: "127.0.0.1", port: 0 }));
    closing.defer(() => drain(server, AbortSignal.timeout(0)));
    const gateway =
      workers === 1
        ? closing.use(await startGateway({ chain, routes: ROUTES, backend }))
        : await serve(chain, { port, workers }, closing);
    return new GoodsStage(chain, gateway, closing.move());
  }

  /** A file, over a line that is cut. */
  async cut(client: DownloadClient, cut: Cut): Promise<CutResult> {
    const { bytes } = cut;
    await using line = await cutLine(new URL(this.#gateway.url).port, cut);
    const url = `http://127.0.0.1:${line.port}/file/${bytes}`;
    const outcome = await this.#buy(client, url, bytes);
    return { ...cut, ...outcome, isCut: line.isCut() };
  }

  /** A file behind a redirect, by each of its statuses in turn. */
  redirected(client: DownloadClient, kind: RedirectKind, count: number): Promise<Outcome> {
    const bytes = 1_000 + count;
    const status = STATUSES[count % STATUSES.length];
    return this.#buy(client, `${this.#gateway.url}/to-${kind}/${status}/${bytes}`, bytes);
  }

  async #buy({ download }: DownloadClient, url: string, bytes: number): Promise<Outcome> {
    const buyer = freshAccount();
    await this.#chain.fund(buyer.address, PURSE);
    const isComplete = (await download({ url, buyer })) === hashOf(fileOf(bytes));
    const left = await this.#chain.balanceOf(buyer.address);
    return { isComplete, charges: Number((PURSE - left) / PRICE) };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#closing.disposeAsync();
  }
}

/** Sizes of all orders of magnitude, cut anywhere. */
export function randomCut(seed: number, maxBytes: number): Cut {
  const random = new Random(seed);
  const bytes = Math.round(
    MIN_BYTES * (maxBytes / MIN_BYTES) ** (random.between(0, 1_000) / 1_000),
  );
  const at = random.between(MAX_QUOTE_BYTES, bytes - 1);
  return { bytes, at, isReset: random.chance(0.5), isClosedHere: random.chance(0.5) };
}
