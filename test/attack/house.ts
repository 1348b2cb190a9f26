/** A gateway with everything around it: its backend, its configuration, its signer, its process. */
import type { Chain } from "../support/chain.ts";
import { freePort } from "../support/free-port.ts";
import { FIRST } from "../support/listener-tls.ts";
import { startOwnProxy, type OwnProxy, type OwnProxyName } from "../support/own-proxy.ts";
import { freshAccount } from "../support/payer.ts";
import { Site, type Served } from "../support/serve.ts";
import { RecordingBackend } from "./recording-backend.ts";
import { isSecure, PUBLIC_URL, shopYaml, type Gateway } from "./shop.ts";

/** Of several that start beside each other, one may find its port taken, or need longer than it is given. */
const MOST_STARTS = 3;

export interface House {
  readonly site: Site;
  /** Where clients connect. */
  readonly port: number;
  /** Where its facilitator is asked, if anywhere. */
  readonly facilitatorPort: number;
  /** In front of the backend, where the gateway is not. */
  readonly proxy: OwnProxy | undefined;
  readonly backend: RecordingBackend;
  readonly signer: ReturnType<typeof freshAccount>;
  readonly yaml: string;
  readonly served: Served;
}

export interface HouseOptions {
  /** The main file of another gateway than this tree's. */
  readonly main?: string | undefined;
  /** The gateway is asked by this proxy, and forwards nothing itself. */
  readonly proxy?: OwnProxyName | undefined;
}

export async function openHouse(
  chain: Chain,
  gateway: Gateway,
  { main, proxy }: HouseOptions = {},
): Promise<House> {
  const signer = freshAccount();
  await chain.fund(signer.address, 0n, 10n ** 18n);
  const backend = await RecordingBackend.start();
  const facilitatorPort = await freePort();
  const yaml = shopYaml({
    upstream: proxy === undefined ? backend.url : null,
    rpc: chain.rpcUrl,
    network: chain.network.name,
    payee: freshAccount().address,
    gateway,
    facilitatorPort,
  });
  const tls = isSecure(gateway) ? { tls: FIRST } : {};
  const other = main === undefined ? {} : { main };
  const asked = proxy === undefined ? {} : { sidecar: `proxy: ${proxy}` };
  for (let start = 1; ; start += 1) {
    const site = await Site.create({ publicUrl: PUBLIC_URL, ...tls, ...other, ...asked });
    const served = await site.serve(yaml, { SIGNER: signer.privateKey });
    try {
      await served.untilReady();
      const front = proxy === undefined ? undefined : await openPublicSide(proxy, site, backend);
      const { port } = front ?? site;
      return { site, port, facilitatorPort, proxy: front, backend, signer, yaml, served };
    } catch (cause) {
      await site[Symbol.asyncDispose]();
      if (start < MOST_STARTS) continue;
      await backend[Symbol.asyncDispose]();
      throw cause;
    }
  }
}

function openPublicSide(
  proxy: OwnProxyName,
  site: Site,
  backend: RecordingBackend,
): Promise<OwnProxy> {
  const backendPort = Number(new URL(backend.url).port);
  return startOwnProxy(proxy, { sidecarPort: site.port, backendPort });
}
