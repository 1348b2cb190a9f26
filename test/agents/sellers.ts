/**
 * The three sellers of the crowd, each a gateway process of its own that is killed and started again on the same port with the same
 * ledger: one over HTTP in both versions, one in version 1 alone, and one whose tools are called over MCP.
 */
import { createServer } from "node:http";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import type { Chain } from "../support/chain.ts";
import { freshAccount } from "../support/payer.ts";
import { Site, type Served } from "../support/serve.ts";

/** Longest that a gateway may take to be ready, milliseconds: on a machine that has much else to do. */
const READY_MS = 90_000;

const KINDS = ["", "protocol: { v2: false }", "mcp: { path: /mcp }"] as const;

export interface SellersOptions {
  readonly chain: Chain;
  /** Told the name of the goods whenever a backend is asked for them, with which of the sellers asks. */
  readonly onAsked: (name: string, seller: Seller) => void;
}

export class Seller {
  readonly #site: Site;
  readonly #env: Readonly<Record<string, string>>;
  readonly #isTools: boolean;
  #served: Served | null = null;
  /** Resolves when it can be asked. */
  #up: Promise<void> = Promise.resolve();
  kills = 0;

  private constructor(site: Site, env: Readonly<Record<string, string>>, isTools: boolean) {
    this.#site = site;
    this.#env = env;
    this.#isTools = isTools;
  }

  static async start(
    { chain, onAsked }: SellersOptions,
    kind: string,
    closing: AsyncDisposableStack,
  ): Promise<Seller> {
    const signer = freshAccount();
    await chain.fund(signer.address, 0n, 10n ** 18n);
    const site = closing.use(await Site.create());
    const seller = new Seller(site, { SIGNER: signer.privateKey }, kind.startsWith("mcp"));
    const backend = createServer(({ url = "" }, response) => {
      onAsked(url.split("/").at(-1) ?? "", seller);
      response.end(`goods of ${url}`);
    });
    const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
    closing.defer(() => drain(backend, AbortSignal.abort()));
    await site.write(`
upstream: http://127.0.0.1:${port}
payTo: "${freshAccount().address}"
accept: [${chain.network.name}]
facilitator:
  embedded:
    networks:
      ${chain.network.name}: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
unmatched: deny
logging: { level: error }
${kind}
routes:
  GET /goods/:name: { price: $0.01, description: Goods, mimeType: text/plain }
`);
    seller.#up = seller.#serve();
    await seller.#up;
    return seller;
  }

  get host(): string {
    return `127.0.0.1:${this.#site.port}`;
  }

  /** What an agent asks for. */
  callOf(name: string): Record<string, unknown> {
    return this.#isTools
      ? { url: `http://${this.host}/mcp`, tool: "get_goods_name", arguments: { name } }
      : { url: `http://${this.host}/goods/${name}` };
  }

  /** Resolves when it is ready to be asked. */
  untilUp(): Promise<void> {
    return this.#up;
  }

  /** kill -9, and a new life; false while it is coming back already. */
  kill(): boolean {
    const served = this.#served;
    if (served === null) return false;
    this.#served = null;
    this.kills += 1;
    // At once, so that nothing is heard any more of what is under way.
    process.kill(served.pid, "SIGKILL");
    this.#up = served.ended.then(() => this.#serve());
    // Whoever waits for it is told.
    this.#up.catch(() => undefined);
    return true;
  }

  async #serve(): Promise<void> {
    const served = await this.#site.launch(this.#env);
    await served.untilReady(200, READY_MS);
    this.#served = served;
  }
}

export async function startSellers(
  options: SellersOptions,
  closing: AsyncDisposableStack,
): Promise<readonly Seller[]> {
  const sellers: Seller[] = [];
  for (const kind of KINDS) sellers.push(await Seller.start(options, kind, closing));
  return sellers;
}
