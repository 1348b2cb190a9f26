/** A facilitator that lists what other gateways sell through it, and such gateways, before a local chain. */
import { present, richBuyer, sign } from "./buyer.ts";
import type { Chain } from "./chain.ts";
import { startGateway, type RunningGateway } from "./gateway.ts";
import { freshAccount } from "./payer.ts";

/** What the gateways `weather` and `maps` may have listed. */
export const WEATHER = "https://weather.example.com";
export const MAPS = "https://maps.example.com/v1";
/** A token of no gateway. */
export const SHARED = "shared-token";

export const WEATHER_ROUTES = `
  GET /today: { price: $0.01, description: The weather today, mimeType: application/json }
  GET /stations/:id/readings: { price: $0.02, description: Readings of a station, input: { pathParams: { id: { type: string, description: Of the station } } } }
  GET /archive/*: { price: $0.03, description: The archive }
  POST /forecast: { price: $0.04, description: A forecast }
  GET /secret: { price: $0.01, description: Not for everybody, discoverable: false }
`;
const OWN_ROUTES = `
  GET /own: { price: $0.05, description: Our own }
`;

/** Who is paid, whoever sells. */
export const payee = freshAccount().address;

/** Of the gateways `weather`, `maps` and `quiet`, of which nothing is listed. */
export function tokenOf(gateway: string): string {
  return `token-of-${gateway}`;
}

export interface HubSetup {
  readonly chain: Chain;
  readonly storePath?: string;
  /** YAML of `facilitator.catalogue`. */
  readonly catalogue?: string;
}

/** The lines of `facilitator:` that make a hub, indented by two. */
export function hubYaml({ chain, catalogue = "{}" }: Omit<HubSetup, "storePath">): string {
  return `
  listen: 127.0.0.1:0
  auth:
    bearer: ${SHARED}
    gateways:
      weather: { bearer: ${tokenOf("weather")}, urls: ["${WEATHER}"] }
      maps: { bearer: ${tokenOf("maps")}, urls: ["${MAPS}"] }
      quiet: { bearer: ${tokenOf("quiet")} }
  catalogue: ${catalogue}
  embedded:
    networks:
      ${chain.network.name}: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
    allow: { payTo: ["${payee}"] }
`;
}

export function startHub({ chain, storePath, ...setup }: HubSetup): Promise<RunningGateway> {
  const stored = storePath === undefined ? {} : { storePath };
  const facilitator = hubYaml({ chain, ...setup });
  return startGateway({ chain, payee, routes: OWN_ROUTES, facilitator, ...stored });
}

export interface SellerSetup {
  readonly chain: Chain;
  readonly facilitatorUrl: string;
  readonly token?: string;
  readonly publicUrl?: string;
  readonly routes?: string;
}

/** By default the gateway `weather`. */
export function startSeller(setup: SellerSetup): Promise<RunningGateway> {
  const { chain, publicUrl = WEATHER, routes = WEATHER_ROUTES } = setup;
  const authorization = `Bearer ${setup.token ?? tokenOf("weather")}`;
  const facilitator = `
  remote:
    - { url: "${setup.facilitatorUrl}", headers: { Authorization: "${authorization}" } }
`;
  return startGateway({ chain, payee, publicUrl, routes, facilitator });
}

/** A purchase, whoever buys. */
export async function buy(chain: Chain, url: string, init: RequestInit = {}): Promise<void> {
  const buyer = await richBuyer(chain);
  const { status, receipt, text } = await present(url, await sign(buyer, url, { init }), init);
  if (status !== 200 || receipt?.["success"] !== true) throw new Error(`${status}: ${text}`);
}

export interface Listed {
  readonly resource: string;
  readonly accepts: readonly Record<string, unknown>[];
  readonly metadata?: Record<string, unknown>;
  readonly lastUpdated: number;
}

/** The listing under a base URL. */
export async function listed(
  base: string,
  query = "",
  token: string | null = null,
): Promise<readonly Listed[]> {
  const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
  const response = await fetch(`${base}/discovery/resources${query}`, { headers });
  const body = Object(await response.json());
  if (response.status !== 200) throw new Error(`${response.status}: ${JSON.stringify(body)}`);
  return body.items;
}

export function resourcesOf(items: readonly Listed[]): readonly string[] {
  return items.map(({ resource }) => resource);
}
