/**
 * The gateway of a configuration without listeners, upstreams, keys or money: it decides about requests and
 * answers them with the very code that serves, and nothing leaves the process. For explaining a configuration,
 * and for what buyers will see of it.
 */
import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { PROXY_UPSTREAM, type Config, type RouteSettings } from "../config/config.ts";
import { decide, type Decision } from "../gateway/decision.ts";
import { Gateway } from "../gateway/gateway.ts";
import { keepBody } from "../gateway/message/inbound.ts";
import { priceByBody } from "../gateway/pricing-visit.ts";
import { dollarsText } from "../pricing/computed-price.ts";
import { computedPrice } from "../publishing/computed.ts";
import type { FeePayers, QuoteTerms } from "../payments/sale/offers.ts";
import { Paywall } from "../payments/sale/paywall.ts";
import type { PaymentService } from "../payments/sale/payment-service.ts";
import { createLogger } from "../telemetry/logger.ts";
import type { RouteMeter } from "../telemetry/metrics.ts";
import { Metrics } from "../telemetry/metrics.ts";
import { systemTime } from "../time/time.ts";
import { encodeBase58 } from "../x402/solana-address.ts";
import type { PaymentRequirements } from "../x402/x402.ts";
import { clientOptions } from "../app/client-options.ts";
import { SilentEngine } from "../app/silent-engine.ts";
import { DryResponse, type DryAnswer } from "./dry-response.ts";
import { draftNetworks } from "../app/drafts.ts";
import { Publications } from "../publishing/publishing.ts";
import { createSnapshot } from "../app/request-snapshot.ts";
import { placesOfEach } from "../app/places.ts";

export type { DryAnswer } from "./dry-response.ts";

/** Stands where a running gateway tells an account that it has from a facilitator elsewhere. */
export const TOLD_AT_RUN_TIME = "<told by the running gateway>";

/** What a running gateway knows and no file tells. */
export interface DryGround {
  readonly feePayers: FeePayers;
  readonly blockhashes?: NonNullable<QuoteTerms["blockhashes"]>;
}

/** By which no running gateway makes challenges. */
const SOME_KEY = new Uint8Array(32);
/** An account, and a blockhash, like any other, as long as they can be. */
const SOME_BASE58 = encodeBase58(new Uint8Array(32).fill(0xff));
const SOME_BLOCKHASH = { recentBlockhash: SOME_BASE58, lastValidBlockHeight: "400000000" };

/** As if all of it were known: quotes are then as long as those of a running gateway. */
export function knownGround(config: Pick<Config, "facilitator">): DryGround {
  const networks = draftNetworks(config);
  return {
    feePayers: { revision: 0, offered: () => SOME_BASE58, isKnown: () => false },
    blockhashes: { of: (network) => (networks.has(network) ? SOME_BLOCKHASH : undefined) },
  };
}

/** A request that the route is for: with its first method that is read, and some name for each parameter. */
export function requestFor({ methods, segments }: RouteSettings): DryRequest {
  const texts = segments.map((each) => (each.kind === "static" ? each.text : "doctor"));
  const method = methods === null || methods.includes("GET") ? "GET" : (methods[0] ?? "GET");
  return { method, target: `/${texts.join("/")}` };
}

export interface DryRequest {
  /** Upper-case. */
  readonly method: string;
  /** As it would stand in the request line: path and query. */
  readonly target: string;
  /** Raw `name, value` pairs; Host is added. */
  readonly headers?: readonly string[];
  /** Taken for JSON where no header says what it is. Default: it has none. */
  readonly body?: Buffer | undefined;
}

/** What a request costs where each has its own price. */
export interface RequestPrice {
  /** `$0.0123`; null: it has none, and cannot be had. */
  readonly dollars: string | null;
  /** Why it has none, or why it is only the most that it may cost; null: it is its price. */
  readonly why: string | null;
}

/** What becomes of a request. */
export interface DryOutcome {
  readonly decision: Decision;
  /** The rule that the decision comes from; null: none of the file. */
  readonly route: RouteSettings | null;
  /** Null where a backend would answer, or where a payment would have to be looked into. */
  readonly answer: DryAnswer | null;
  /** What the request costs; null where that is not computed. */
  readonly price: RequestPrice | null;
}

export class DryGateway {
  readonly #config: Config;
  readonly #gateway: Gateway;
  readonly #snapshot: ReturnType<typeof createSnapshot>;
  readonly #routes: ReadonlyMap<string, RouteSettings>;
  /** Which meter a route has: the one thing that a decision about a free or denied route names. */
  readonly #keys = new Map<RouteMeter, string>();

  /** @param ground default: what the configuration's own keys make known */
  constructor(config: Config, ground: DryGround = { feePayers: offlineFeePayers(config) }) {
    const { feePayers } = ground;
    this.#config = config;
    this.#routes = new Map(config.routes.map((route) => [route.key, route]));
    const names = config.sidecar === null ? config.upstreams.map(({ name }) => name) : BY_PROXY;
    const engines = new Map(names.map((name) => [name, new SilentEngine()]));
    const metrics = { route: (key: string) => this.#meter(key) };
    this.#snapshot = createSnapshot(config, engines, {
      metrics,
      ...ground,
      drafts: { networks: draftNetworks(config) },
      earlier: [],
      signInKey: SOME_KEY,
    });
    const telemetry = {
      logger: createLogger({ level: "silent", format: "json" }),
      metrics: new Metrics("none"),
    };
    const { settlementWaitMs, inFlight } = config.limits;
    // Few ask for a document, and of thousands of routes it takes as long as what they do ask.
    let publications: Publications | undefined;
    this.#gateway = new Gateway({
      snapshot: this.#snapshot,
      paywall: new Paywall({
        payments: NO_PAYMENT_SERVICE,
        logger: telemetry.logger,
        settlementWaitMs,
        time: systemTime,
      }),
      publish: (asked) => {
        publications ??= new Publications(config, { changes: new Map(), feePayers });
        return publications.publish(asked);
      },
      cors: typeof config.cors === "string" ? config.cors : new Set(config.cors),
      support: config.support,
      maxInFlight: placesOfEach(inFlight, 1),
      telemetry,
      ...clientOptions(config, 1),
      unpaidRates: { asked: null, refused: null, unproven: null },
    });
  }

  ask({ method, target, headers = [], body }: DryRequest): DryOutcome {
    const host = new URL(this.#config.publicUrl ?? "http://localhost").host;
    const names = headers.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase());
    const rawHeaders = names.includes("host") ? headers : ["Host", host, ...headers];
    const request = requestOf(method, target, [...rawHeaders, ...bodyLines(names, body)]);
    if (body !== undefined) keepBody(request, body);
    const decided = decide(this.#snapshot, request);
    const route = this.#routeOf(decided);
    const decision = withPrice(decided, request);
    const price = priceOf(decision, route);
    if (ELSEWHERE.has(decision.kind)) {
      return { decision, route, answer: null, price };
    }
    const response = new DryResponse();
    this.#gateway.handleRequest(request, response);
    return { decision, route, answer: response.answer, price };
  }

  /** What a priced route asks for at one URL; empty for any other request. */
  accepts(method: string, target: string): readonly PaymentRequirements[] {
    const { decision } = this.ask({ method, target });
    return decision.kind === "challenge" ? decision.offers.accepts(decision.resource) : [];
  }

  #routeOf(decision: Decision): RouteSettings | null {
    const meter =
      "plan" in decision ? decision.plan.meter : "meter" in decision ? decision.meter : null;
    const key = meter === null ? undefined : this.#keys.get(meter);
    return this.#routes.get(key ?? "") ?? null;
  }

  #meter(key: string): RouteMeter {
    const meter = { label: key, finished: () => {} };
    this.#keys.set(meter, key);
    return meter;
  }
}

/**
 * Who pays network fees on Solana as far as the file tells: where a network is settled here it is the account of
 * the first key, unless that one runs low; elsewhere the facilitator says, and {@link TOLD_AT_RUN_TIME} stands
 * for it.
 */
function offlineFeePayers(config: Pick<Config, "facilitator">): FeePayers {
  const here = new Map<string, readonly string[]>(
    config.facilitator.embedded
      .filter(({ kind }) => kind === "solana")
      .map(({ network, signers }) => [network, signers.map(({ key }) => addressOf(key.reveal()))]),
  );
  return {
    revision: 0,
    offered: (network) => here.get(network)?.[0] ?? TOLD_AT_RUN_TIME,
    isKnown: (network, address) => here.get(network)?.includes(address) ?? false,
  };
}

/** The last 32 of the 64 bytes of a keypair. */
function addressOf(key: string): string {
  return encodeBase58(Buffer.from(key, "hex").subarray(32));
}

function requestOf(method: string, target: string, headers: readonly string[]): IncomingMessage {
  // Connected to nobody: only its addresses are asked for, and it has none.
  const request = new IncomingMessage(new Socket());
  request.method = method;
  request.url = target;
  request.httpVersion = "1.1";
  request.httpVersionMajor = 1;
  request.httpVersionMinor = 1;
  request.rawHeaders = [...headers];
  // Node joins those that it has parsed itself.
  const joined = new Map<string, string>();
  for (let index = 0; index < headers.length; index += 2) {
    const name = (headers[index] ?? "").toLowerCase();
    const value = headers[index + 1] ?? "";
    const before = joined.get(name);
    joined.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  request.headers = Object.fromEntries(joined);
  return request;
}

function bodyLines(names: readonly string[], body: Buffer | undefined): readonly string[] {
  if (body === undefined) return [];
  const type = names.includes("content-type") ? [] : ["Content-Type", "application/json"];
  return [
    ...type,
    ...(names.includes("content-length") ? [] : ["Content-Length", `${body.length}`]),
  ];
}

/** Its body is there already: nothing is waited for. */
function withPrice(decision: Decision, request: IncomingMessage): Decision {
  if (!("readsBody" in decision) || !decision.readsBody) return decision;
  const priced = priceByBody({ request, replaying: null }, decision);
  return priced instanceof Promise || priced.kind === "abandoned" ? decision : priced;
}

function priceOf(decision: Decision, route: RouteSettings | null): RequestPrice | null {
  if (!("plan" in decision) || route?.action.kind !== "priced") return null;
  if (route.action.computed === null) return null;
  if (decision.kind === "unpriced") return { dollars: null, why: decision.detail };
  if (!("priced" in decision) || decision.priced === undefined) return null;
  const { to } = route.action.computed;
  if (decision.provisional !== undefined) {
    return { dollars: to, why: `the most that it may cost: ${decision.provisional}` };
  }
  const price = computedPrice(route, route.action)?.priceOf(decision.priced);
  if (price === undefined) return null;
  return price.ok
    ? { dollars: dollarsText(price.value), why: null }
    : { dollars: null, why: price.error };
}

/** What is answered by a backend, by a chain, or by what is not here. */
const ELSEWHERE: ReadonlySet<Decision["kind"]> = new Set(["free", "presented", "tools"]);

const BY_PROXY = [PROXY_UPSTREAM];

const NO_PAYMENT_SERVICE: PaymentService = {
  owe: () => undefined,
  identify: () => Promise.reject(unreachable()),
  prove: () => Promise.reject(unreachable()),
  signedIn: () => Promise.reject(unreachable()),
  openSession: () => Promise.reject(unreachable()),
  vet: () => Promise.reject(unreachable()),
  charge: () => Promise.reject(unreachable()),
  resume: () => Promise.reject(unreachable()),
  step: () => Promise.reject(unreachable()),
  answer: () => Promise.reject(unreachable()),
  changed: () => Promise.reject(unreachable()),
  balances: () => Promise.reject(unreachable()),
  holdings: () => Promise.reject(unreachable()),
};

function unreachable(): Error {
  return new Error("a dry gateway neither forwards nor charges");
}
