/** A gateway that runs on a local chain, as a process of its own, and the file that `doctor` reads of it. */
import { startChain, type Chain } from "../../support/chain.ts";
import { freshAccount, type FreshAccount } from "../../support/payer.ts";
import { Site, type Served } from "../../support/serve.ts";
import { DoctorStage } from "./doctor-stage.ts";

/** Nothing listens there. */
export const NOWHERE = "http://127.0.0.1:1";

interface Changes {
  readonly rpc?: readonly string[];
  readonly price?: string;
  readonly payTo?: string;
}

export class DoctorShop {
  readonly chain: Chain;
  readonly stage: DoctorStage;
  readonly site: Site;
  /** Pays the gas. */
  readonly signer: FreshAccount;
  readonly payee: string = freshAccount().address;
  /** A backend that answers everything. */
  readonly upstream: string;
  #served: Served | undefined;

  private constructor(
    chain: Chain,
    { stage, site, upstream }: { stage: DoctorStage; site: Site; upstream: string },
  ) {
    this.chain = chain;
    this.stage = stage;
    this.site = site;
    this.upstream = upstream;
    this.signer = freshAccount();
  }

  static async open(): Promise<DoctorShop> {
    const [chain, stage, site] = await Promise.all([
      startChain(),
      DoctorStage.open(),
      Site.create(),
    ]);
    const upstream = await stage.serve((_, response) => response.end("sunny"));
    const shop = new DoctorShop(chain, { stage, site, upstream });
    await chain.fund(shop.signer.address, 0n, 10n ** 18n);
    shop.#served = await site.serve(shop.yaml(), shop.env);
    await shop.served.untilReady();
    await chain.mine();
    return shop;
  }

  get served(): Served {
    if (this.#served === undefined) throw new Error("nothing is served yet");
    return this.#served;
  }

  get env(): Readonly<Record<string, string>> {
    return { SIGNER: this.signer.privateKey };
  }

  /** What the gateway runs with, but for listeners, public URL and store. */
  yaml(changes: Changes = {}): string {
    const { rpc = [this.chain.rpcUrl], price = "$0.01", payTo = this.payee } = changes;
    return `upstream: ${this.upstream}
payTo: "${payTo}"
accept: [base-sepolia]
facilitator:
  embedded:
    networks:
      base-sepolia: { rpc: ${JSON.stringify(rpc)}, signers: [env:SIGNER] }
unmatched: deny
cors: true
logging: { level: fatal }
routes:
  GET /weather: { price: ${price}, description: Weather }
  GET /reports/:id: { price: $0.05, description: A report }
`;
  }

  /** The whole file, as `doctor` reads it. */
  own(publicUrl = this.served.url, text = this.yaml(), store = this.site.store): string {
    return `publicUrl: ${publicUrl}\nstore: ${store}\n${text}`;
  }

  /** The file with that in it. */
  with(changes: Changes): string {
    return this.own(this.served.url, this.yaml(changes));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.site[Symbol.asyncDispose]();
    await this.stage.closing.disposeAsync();
    await this.chain.stop();
  }
}
