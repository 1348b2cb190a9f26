/**
 * What a configuration file means once it is read: complete (every default filled in), resolved
 * (references looked up, prices in atomic units, paths absolute) and deep-frozen. Units come last in
 * names; `null` says "not configured" where there is no default.
 */
import type { AddressRange } from "./listener/listener-settings.ts";
import type { Commitment } from "./reading/reading.ts";
import type { AtomicAmount } from "../x402/amount.ts";
import type { Asset, EvmAsset, NetworkName, SolanaAsset } from "../x402/network.ts";
import type { DiscoverySettings } from "./routes/discovery-settings.ts";
import type { CallingGateway, CatalogueSettings } from "./facilitator/hub-settings.ts";
import type { Keeping } from "./routes/keeping.ts";
import type { AdminSettings, ListenerSettings } from "./listener/listener-settings.ts";
import type { Secret } from "./facilitator/secret.ts";
import type { SidecarSettings } from "./listener/sidecar-settings.ts";

export type {
  AdminSettings,
  ListenAddress,
  ListenerSettings,
  ListenerTls,
} from "./listener/listener-settings.ts";

export interface Config {
  /** The file as it was named, for messages. */
  readonly file: string;
  /** Public listeners, opened only when there are routes; none where there is a sidecar, else at least one. */
  readonly listen: readonly ListenerSettings[];
  /** Where another proxy asks what may pass, in place of public listeners and upstreams; null: nowhere. */
  readonly sidecar: SidecarSettings | null;
  /**
   * Absolute http(s) URL without query, fragment or trailing slash: the only source of `resource`.
   * Null only when there are no routes.
   */
  readonly publicUrl: string | null;
  /** Names that are answered beside the host of {@link publicUrl}, and no others; null: all are. */
  readonly hosts: readonly string[] | null;
  /** Peers whose `X-Forwarded-` and `Forwarded` fields are believed; empty: nobody's. */
  readonly trustedProxies: readonly AddressRange[];
  readonly limits: Limits;
  readonly shutdown: {
    /** How long requests in flight may take once nothing new is accepted. */
    readonly withinMs: number;
    /** How long requests are still accepted while readiness is red already: for load balancers. */
    readonly delayMs: number;
  };
  /** Processes that serve requests; 1: the only process does. `auto`: one for each core. */
  readonly workers: number | "auto";
  /** The admin listener; null: none. */
  readonly admin: AdminSettings | null;
  /** In the order written; names are unique. `upstream: URL` is named `default`. Empty with a sidecar. */
  readonly upstreams: readonly Upstream[];
  readonly facilitator: FacilitatorSettings;
  /** In the order written, which never matters for matching. Empty: no gateway, only a facilitator. */
  readonly routes: readonly RouteSettings[];
  /** What happens to a request that no route matches; `free` goes to {@link Config.defaultUpstream}. */
  readonly unmatched: "deny" | "free";
  /** Where `unmatched: free` goes: the name of an upstream; null when `unmatched` is `deny`. */
  readonly defaultUpstream: string | null;
  readonly discovery: DiscoverySettings;
  readonly paywall: {
    /** Browsers that ask for a priced route get a page that pays; false: JSON, as everybody. */
    readonly page: boolean;
    /** Whose shop it is; "" when not given. */
    readonly brand: string;
  };
  readonly store: Store;
  readonly keeping: Keeping;
  readonly logging: { readonly level: LogLevel; readonly format: "json" | "pretty" };
  /** Which origins may read the answers in a browser. */
  readonly cors: "off" | "any" | readonly string[];
}

/** Where payments are kept. */
export type Store =
  | { readonly kind: "sqlite"; readonly path: string }
  | {
      readonly kind: "postgres";
      readonly url: Secret;
      /** `host:port/database`, for messages. */
      readonly place: string;
      readonly encryption: DatabaseEncryption;
    };

/** `unchecked`: whoever answers is taken for the database. */
export type DatabaseEncryption = "none" | "unchecked" | "checked";

export interface Limits {
  /** Largest request head. */
  readonly headerBytes: number;
  /** Largest request body. */
  readonly bodyBytes: number;
  /** Requests that are forwarded or pay at the same time, all listeners together; null: as memory allows. */
  readonly inFlight: number | null;
  /** Open at the same time, for each listener. */
  readonly connections: number;
  /** Longest that a buyer's request is held while its settlement is not resolved. */
  readonly settlementWaitMs: number;
  /** Requests of one address to priced routes that nothing is paid for; null: no limit. */
  readonly unpaidPerIp: RequestRate | null;
  /** Of them, payments whose signatures only the chain can judge: refused ones, and those under way. */
  readonly unprovenPerIp: RequestRate;
  /** Longest that a request's body may take, while it is read. */
  readonly bodyTimeoutMs: number;
  /** Longest silence between two parts of it. */
  readonly bodyIdleMs: number;
  /** Slowest that it may be on average; it may be behind by `bodyIdleMs`. */
  readonly bodyBytesPerSecond: number;
  /** Longest that a client may take nothing of an answer that waits for it. */
  readonly answerIdleMs: number;
  /** Slowest that it may take on average what waits for it; it may be behind by `answerIdleMs`. */
  readonly answerBytesPerSecond: number;
  /** Switched (WebSocket) connections at the same time, for each upstream. */
  readonly tunnels: number;
  /** Longest silence of one of them, in both directions. */
  readonly tunnelIdleMs: number;
  /** Longest that one of them lives, whatever it was paid for. */
  readonly tunnelLifeMs: number;
}

/** So many requests in so many milliseconds, and so many at once. */
export interface RequestRate {
  readonly requests: number;
  readonly perMs: number;
}

/** A backend: a group of targets that serve the same. */
export interface Upstream {
  readonly name: string;
  /** At least one, all different. */
  readonly targets: readonly UpstreamTarget[];
  readonly balance: BalanceSettings;
  /** Null: nobody asks but the requests themselves. */
  readonly health: HealthCheck | null;
  readonly connectTimeoutMs: number;
  /** From the last byte of the request to the head of the response. */
  readonly responseTimeoutMs: number;
  /** Longest silence between two parts of a body. */
  readonly idleTimeoutMs: number;
  readonly retry: RetrySettings;
  /** For `https` targets. */
  readonly tls: UpstreamTls;
  readonly protocol: Protocol;
  readonly host: HostRuleSetting;
  /**
   * How the path changes on its way: what it begins with is taken off, then put before what is left. Both
   * are canonical, without a slash at the end; "" changes nothing. Every route of the upstream begins with
   * `strip`.
   */
  readonly path: { readonly strip: string; readonly prefix: string };
  readonly headers: {
    /** For the target, in place of the client's of the same name. */
    readonly set: readonly { readonly name: string; readonly value: Secret }[];
    /** Lower-case names of what crosses neither to the target nor back to the client. */
    readonly remove: readonly string[];
    /** Lower-case names of the client's lines that cross, beside what HTTP needs; null: all but those that never do. */
    readonly allow: readonly string[] | null;
  };
}

export interface UpstreamTarget {
  /** Origin without path or trailing slash: `http://127.0.0.1:3000`. */
  readonly url: string;
  /** 1 or more; its share is that of all weights. */
  readonly weight: number;
}

/** How a target is chosen: in turn, by what it has to do, or by the client's address. */
export const BALANCES = ["round-robin", "least-requests", "hash(ip)"] as const;

export type BalanceSettings = (typeof BALANCES)[number];

/** What is spoken with a target; `h2` over TLS only. */
export const PROTOCOLS = ["h1", "h2"] as const;

export type Protocol = (typeof PROTOCOLS)[number];

/** `GET path` of each target, again and again: 2xx and 3xx are healthy. */
export interface HealthCheck {
  readonly path: string;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** Good checks in a row until a target that was down is up. */
  readonly up: number;
  /** Bad checks in a row until it is down. */
  readonly down: number;
}

/**
 * Why a request is tried again: nothing of it was sent; its connection was lost without an answer; or the
 * answer has, or would have, that status.
 */
export const RETRY_REASONS = ["connect-failure", "connection-lost", "502", "503", "504"] as const;

export type RetryReasonSetting = (typeof RETRY_REASONS)[number];

export interface RetrySettings {
  /** All together, the first one included: 1 is none again. */
  readonly attempts: number;
  /** What of them may be sent twice, unpaid; a request of which nothing was sent has no need to be here. */
  readonly methods: readonly string[];
  readonly on: readonly RetryReasonSetting[];
}

/** Texts of PEM files; null where not given. */
export interface UpstreamTls {
  /** In place of the authorities that the system trusts. */
  readonly ca: string | null;
  /** The name in the certificate, where it is not that of the URL. */
  readonly serverName: string | null;
  /** Our own certificate and its key: both or none. */
  readonly cert: string | null;
  readonly key: Secret | null;
}

/** What `Host` says: the target's own name, what the client wrote, or a name. */
export type HostRuleSetting =
  | { readonly kind: "upstream" }
  | { readonly kind: "preserve" }
  | { readonly kind: "name"; readonly name: string };

export interface FacilitatorSettings {
  /** Where the REST endpoints are served, by HTTP/1.1 in any case; null: they are not. */
  readonly listen: ListenerSettings | null;
  /** Path before `/verify` and the others: "" or `/x402` (no trailing slash). */
  readonly basePath: string;
  /** Taken as `Authorization: Bearer …` there; null and no gateways: none is required. */
  readonly bearer: Secret | null;
  /** Gateways that have tokens of their own there, in the order written. */
  readonly gateways: readonly CallingGateway[];
  readonly catalogue: CatalogueSettings;
  /** Networks settled in this process, in the order written; empty: none. */
  readonly embedded: readonly EmbeddedNetwork[];
  /**
   * Who may be paid through the embedded facilitator: the payees of our own routes and `allow.payTo`,
   * EVM ones checksummed, Solana ones as written; `any` when a facilitator without routes names nobody.
   */
  readonly payees: "any" | readonly string[];
  /** What others have to pay at least, in 10^-18 dollars; null: about what its settlement costs, where that is known. */
  readonly leastAttodollars: AtomicAmount | null;
  /** For networks that are not embedded, tried in this order, their URLs all different; empty: none. */
  readonly remote: readonly RemoteFacilitatorSettings[];
  /** Networks settled elsewhere whose chain can be asked what became of a payment; empty: none. */
  readonly observed: readonly ObservedNetwork[];
  /** What becomes of a payment in a transaction of nobody that we know. */
  readonly foreign: "hold" | "deliver";
}

/** A chain that is asked what became of a payment which others settled. */
export type ObservedNetwork = EvmObservedNetwork | SolanaObservedNetwork;

/** A chain on which this process settles. */
export type EmbeddedNetwork = EvmEmbeddedNetwork | SolanaEmbeddedNetwork;

interface Chain {
  readonly network: NetworkName;
  /** At least one, tried in this order. */
  readonly rpc: readonly RpcEndpoint[];
}

export interface EvmObservedNetwork extends Chain {
  readonly kind: "evm";
  /** Blocks that hold a settlement before it counts, at least 1: what suits the network. */
  readonly confirmations: number;
  /** Tokens settled there: the network's own stablecoin first, then our routes'. */
  readonly assets: readonly EvmAsset[];
}

export interface SolanaObservedNetwork extends Chain {
  readonly kind: "solana";
  readonly commitment: Commitment;
  /** Tokens settled there: the network's own stablecoin first, then our routes'. */
  readonly assets: readonly SolanaAsset[];
}

/** What both kinds of networks have that are settled here. */
interface Settling extends Chain {
  /** At least one, all different. */
  readonly signers: readonly Signer[];
  /**
   * Dollars for one whole unit of the network's currency, in 10^-18 dollars: what gas is compared with.
   * Null: not compared.
   */
  readonly nativePriceAttodollars: AtomicAmount | null;
}

export interface EvmEmbeddedNetwork extends Settling {
  readonly kind: "evm";
  /** Blocks on top before a settlement counts as confirmed, at least 1. */
  readonly confirmations: number;
  /** Whether buyers may pay from addresses that have code. */
  readonly smartWallets: "allow" | "deny";
  /** Tokens settled here: the network's own stablecoin first, then our routes' and `allow.assets`. */
  readonly assets: readonly EvmAsset[];
}

export interface SolanaEmbeddedNetwork extends Settling {
  readonly kind: "solana";
  readonly commitment: Commitment;
  /** The highest network fee, all signatures and priority together, that we pay for one settlement. */
  readonly maxFeeLamports: bigint;
  /** Whether buyers' transactions may hold Lighthouse assertions. */
  readonly lighthouse: Lighthouse;
  /** Lamports that payments with assertions may cost us for nothing within an hour. */
  readonly lighthouseLossPerHour: bigint;
  /** Tokens settled here: the network's own stablecoin first, then our routes' and `allow.assets`. */
  readonly assets: readonly SolanaAsset[];
}

/** `assertions`: those that change nothing are allowed; `deny`: none is. */
export const LIGHTHOUSE_RULES = ["assertions", "deny"] as const;

export type Lighthouse = (typeof LIGHTHOUSE_RULES)[number];

/** RPC URLs often carry an API key, so the URL is secret and `host` is for messages. */
interface RpcEndpoint {
  readonly url: Secret;
  readonly host: string;
}

export interface Signer {
  /** Where the key came from: `env:NAME` or `file:PATH`, for messages; `literal` for a key in the file. */
  readonly source: string;
  /**
   * EVM: 0x and 64 lower-case hex digits. Solana: 128 lower-case hex digits, the 32 bytes of the seed and
   * the 32 of the address.
   */
  readonly key: Secret;
}

export interface RemoteFacilitatorSettings {
  /** Absolute http(s) URL without query, fragment or trailing slash. */
  readonly url: string;
  readonly headers: readonly { readonly name: string; readonly value: Secret }[];
  readonly timeoutMs: number;
  /** What its settlements count by: its own word, or a receipt from the chain, which is observed then. */
  readonly confirm: "facilitator" | "receipt";
}

export interface RouteSettings {
  /** The key as written: `GET,HEAD /health`. */
  readonly key: string;
  /** 1-based line of the key, for messages. */
  readonly line: number;
  /** Upper-case, as listed; null: every method. That `GET` covers `HEAD` is left to the router. */
  readonly methods: readonly string[] | null;
  /** The part of the key after the methods, in canonical form: `/reports/:id`. */
  readonly pattern: string;
  /** The pattern's segments; `/` is one empty static segment, `rest` comes last only. */
  readonly segments: readonly PathSegmentSetting[];
  readonly action: RouteAction;
}

export type PathSegmentSetting =
  | { readonly kind: "static"; readonly text: string }
  | { readonly kind: "param"; readonly name: string }
  | { readonly kind: "rest" };

export type RouteAction =
  | { readonly kind: "deny" }
  | { readonly kind: "free"; readonly upstream: string }
  | PricedAction;

export interface PricedAction {
  readonly kind: "priced";
  /** Name of one of {@link Config.upstreams}. */
  readonly upstream: string;
  /** At least one; EVM before Solana, else as configured: the order that buyers see. */
  readonly offers: readonly OfferSettings[];
  /** "" when not given. */
  readonly description: string;
  /** "" when not given. */
  readonly mimeType: string;
  readonly maxTimeoutSeconds: number;
  /** JSON Schema of the response; null when not given. */
  readonly outputSchema: JsonObject | null;
  readonly input: RouteInput;
  /** Shown in the discovery listing; {} when not given. */
  readonly metadata: JsonObject;
  /** Whether the discovery listing shows the route. */
  readonly discoverable: boolean;
  /** `Cache-Control` of what is sold; `private` or `no-store` is always in it. */
  readonly cacheControl: string;
}

/** One way to pay for a route. */
export interface OfferSettings {
  readonly network: NetworkName;
  readonly asset: Asset;
  /** EIP-55 checksummed, or base58 on Solana. */
  readonly payTo: string;
  readonly amountAtomic: AtomicAmount;
  /** The price as written (`$0.01`); null where the amount was given in atomic units. */
  readonly dollars: string | null;
}

/** What a buyer has to send, as the discovery listing describes it. */
interface RouteInput {
  readonly queryParams?: JsonObject;
  readonly bodyType?: "json" | "form-data" | "multipart-form-data" | "text" | "binary";
  readonly bodyFields?: JsonObject;
  readonly headerFields?: JsonObject;
  /** Of the parameters of the route's own pattern, by name. */
  readonly pathParams?: JsonObject;
}

type JsonObject = Readonly<Record<string, unknown>>;

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

type LogLevel = (typeof LOG_LEVELS)[number];
