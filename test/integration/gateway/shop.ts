/**
 * A gateway as buyers meet it, over real HTTP before a real backend: paywall, ledger and engine are the
 * product's, only the facilitator does what the test says.
 */
import { onTestFinished, vi } from "vitest";
import { defaultBodyLimits, type BodyLimits } from "../../../src/gateway/message/body-watch.ts";
import type { ServedHosts } from "../../../src/gateway/client/other-hosts.ts";
import {
  defaultAnswerLimits,
  type AnswerLimits,
} from "../../../src/gateway/message/answer-watch.ts";
import type { PricedPlan, RoutePlan } from "../../../src/gateway/decision.ts";
import { Gateway } from "../../../src/gateway/gateway.ts";
import type { GatewayOptions } from "../../../src/gateway/work.ts";
import { Listener } from "../../../src/gateway/listener/listener.ts";
import { Offers } from "../../../src/payments/sale/offers.ts";
import { openTarget } from "../../../src/gateway/upstream/open-target.ts";
import { Paywall } from "../../../src/payments/sale/paywall.ts";
import { LocalPaymentService } from "../../../src/payments/sale/payment-service.ts";
import type { BoundedRate } from "../../../src/gateway/client/rate-limit.ts";
import { Router, type Route } from "../../../src/gateway/paths/router.ts";
import { TrustedProxies, type TrustedRange } from "../../../src/gateway/client/trusted-proxies.ts";
import {
  defaultUpstreamOptions,
  type Engine,
  type UpstreamOptions,
} from "../../../src/gateway/upstream/upstream.ts";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite/sqlite.ts";
import type { AccessLog } from "../../../src/telemetry/access-log.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { systemTime, type Time } from "../../../src/time/time.ts";
import { PAYMENT_HEADERS, RECEIPT_HEADERS } from "../../../src/x402/header.ts";
import { BOTH_VERSIONS, X402_VERSION, type X402Version } from "../../../src/x402/x402.ts";
import { inHeader } from "../../support/buyer.ts";
import { ChainTextSigners } from "../../../src/mechanism/text-signers.ts";
import { Sessions } from "../../../src/x402/session.ts";
import { SIGN_IN_PATH, SignIns } from "../../../src/x402/sign-in.ts";
import { PaymentStatusUrls } from "../../../src/x402/payment-status.ts";
import { examplePayment } from "../../unit/ledger/example-payment.ts";
import { ActedFacilitator } from "../../unit/payments/sale/paywall-stage.ts";
import { send, type Answer, type Sent } from "./stage.ts";

export interface Shop {
  readonly port: number;
  readonly facilitator: ActedFacilitator;
  readonly ledger: Ledger;
  readonly gateway: Gateway;
  readonly metrics: Metrics;
  readonly engine: Engine;
}

export interface ShopOptions {
  readonly time?: Time;
  readonly ledger?: Ledger;
  readonly upstream?: Partial<UpstreamOptions>;
  /** In place of one for the origin. */
  readonly engine?: Engine;
  /** Of `/apart`. Default: that of all others. */
  readonly apart?: Engine;
  readonly cors?: GatewayOptions["cors"];
  /** As a link; default: nobody helps. */
  readonly support?: string;
  /** Addresses and ranges of proxies. */
  readonly trusted?: readonly TrustedRange[];
  /** Default: nobody knows our names. */
  readonly hosts?: ServedHosts;
  /** Default: `https://shop.example`. */
  readonly publicUrl?: string;
  /** Questions and refused payments of one address, each as often. */
  readonly unpaidRate?: BoundedRate | null;
  /** Payments of one address whose signatures only the chain can judge; default: no limit. */
  readonly unprovenRate?: BoundedRate;
  readonly bodyLimits?: Partial<BodyLimits>;
  readonly answerLimits?: Partial<AnswerLimits>;
  readonly maxInFlight?: number;
  /** What its priced routes say of what is sold. */
  readonly sold?: Partial<PricedPlan>;
  /** Gets the lines of the log; default: nobody does. */
  readonly log?: string[];
  /** Default: there is none. */
  readonly access?: AccessLog;
  /** Whether receipts lead to what becomes of their payment; default: they do not. */
  readonly tellsStatus?: boolean;
  /** Whether what the last attempt does not deliver is paid back; default: it is not. */
  readonly refundsLast?: boolean;
}

/**
 * Every path has a price, but `/free` and what is below it, and `/denied`: ten times the usual one for `/dear`, paid to
 * somebody else for `/others`.
 */
export async function openShop(origin: string, options: ShopOptions = {}): Promise<Shop> {
  const { time = systemTime, cors = "off", publicUrl = "https://shop.example" } = options;
  const ledger =
    options.ledger ?? (await openSqliteLedger({ path: ":memory:", time, life: "only" }));
  const engine =
    options.engine ?? openTarget({ ...defaultUpstreamOptions, origin, ...options.upstream });
  const metrics = new Metrics("test");
  const { log } = options;
  const logger = createLogger({
    level: log === undefined ? "silent" : "warn",
    format: "json",
    destination: { write: (line: string) => void log?.push(line) },
  });
  const facilitator = new ActedFacilitator(ledger);
  const { resource: _url, ...offer } = examplePayment(1).request.paymentRequirements;
  const label = "/*";
  const cacheControl = "private, no-store";
  const offers = new Offers([offer]);
  const meter = metrics.route(label);
  const priced: RoutePlan = {
    kind: "priced",
    label,
    meter,
    engine,
    offers,
    tokens: [{ network: offer.network, address: offer.asset, symbol: "USDC", decimals: 6 }],
    page: null,
    cacheControl,
    repeat: null,
    redirects: "pass",
    goods: new Set(),
    input: null,
    members: [],
    grants: [],
    links: [],
    quota: null,
    isSettledAfter: false,
    credits: null,
    ...options.sold,
  };
  const free: RoutePlan = { kind: "free", meter: metrics.route("/free"), engine };
  const dear = new Offers([{ ...offer, maxAmountRequired: `${offer.maxAmountRequired}0` }]);
  const others = new Offers([{ ...offer, payTo: `0x${"42".repeat(20)}` }]);
  const routes: Route<RoutePlan>[] = [
    { methods: null, pattern: label, value: priced },
    { methods: null, pattern: "/dear", value: { ...priced, label: "/dear", offers: dear } },
    { methods: null, pattern: "/others", value: { ...priced, label: "/others", offers: others } },
    { methods: null, pattern: "/denied", value: { kind: "deny", meter } },
    {
      methods: null,
      pattern: "/apart",
      value: { ...priced, label: "/apart", engine: options.apart ?? engine },
    },
    { methods: ["HEAD"], pattern: "/head", value: { ...priced, label: "HEAD /head" } },
    { methods: ["GET"], pattern: "/head", value: { ...priced, label: "GET /head" } },
    { methods: ["GET"], pattern: "/read/:id", value: { ...priced, label: "GET /read/:id" } },
    { methods: null, pattern: "/free", value: free },
    { methods: null, pattern: "/free/*", value: free },
  ];
  const secret = { key: await ledger.signIns.key(), publicUrl };
  const gateway = new Gateway({
    snapshot: {
      site: "",
      router: new Router<RoutePlan>(routes, {
        guarded: ({ kind }) => kind !== "free",
        unmatchedGuarded: true,
      }),
      unmatched: null,
      authorities: new Set(),
      hosts: options.hosts ?? null,
      publicUrl,
      documents: new Set(),
      statuses: options.tellsStatus ? new PaymentStatusUrls(secret) : null,
      answersPreflight: true,
      earlier: [],
      protocol: BOTH_VERSIONS,
      signIn: {
        issuer: new SignIns(secret),
        sessions: new Sessions({ ...secret, forMs: 3_600_000, notBeforeMs: 0 }),
        url: publicUrl + SIGN_IN_PATH,
        networks: [],
        groups: [],
        areScreened: false,
      },
    },
    paywall: new Paywall({
      payments: new LocalPaymentService({
        facilitator,
        redemptions: ledger,
        signers: new ChainTextSigners(new Map(), undefined),
        refundsLast: () => options.refundsLast === true,
        logger,
        time,
      }),
      logger,
      settlementWaitMs: 10_000,
      time,
    }),
    publish: () => ({ status: 200, body: "", type: "application/json", etag: null }),
    cors,
    support: options.support ?? null,
    maxInFlight: options.maxInFlight ?? 1_000,
    trustedProxies: new TrustedProxies(options.trusted ?? []),
    unpaidRates: {
      asked: options.unpaidRate ?? null,
      refused: options.unpaidRate ?? null,
      unproven: options.unprovenRate ?? null,
    },
    bodyLimits: { ...defaultBodyLimits, ...options.bodyLimits },
    answerLimits: { ...defaultAnswerLimits, ...options.answerLimits },
    telemetry: { logger, metrics, access: options.access },
  });
  const listener = new Listener(gateway, { host: "127.0.0.1", port: 0, headerBytes: 32_768 });
  const { port } = await listener.open();
  onTestFinished(async () => {
    await listener.drain(AbortSignal.abort());
    await engine.close(AbortSignal.abort());
    await gateway.work.drain(AbortSignal.timeout(5_000));
    await ledger.close();
  });
  return { port, facilitator, ledger, gateway, metrics, engine };
}

/** More than all buffers on the way hold. */
const STUCK = Buffer.alloc(32 * 1024 * 1024);

/** What is answered to an upgrade from now on stands behind so much that nobody takes. */
export function stickAnswers(gateway: Gateway): void {
  const { handleUpgrade } = gateway;
  vi.spyOn(gateway, "handleUpgrade").mockImplementation((request, socket, head) => {
    socket.write(STUCK);
    handleUpgrade(request, socket, head);
  });
}

/** The line of the payment with that number, in that version: its name and its value. */
export function paymentLine(
  number: number,
  version: X402Version,
): readonly [name: string, value: string] {
  return [PAYMENT_HEADERS[version], inHeader(examplePayment(number).request, version)];
}

/** A request that presents that payment. */
export function buy(
  { port }: Shop,
  sent: Sent = {},
  number = 1,
  version: X402Version = X402_VERSION,
): Promise<Answer> {
  const headers = [...(sent.headers ?? []), ...paymentLine(number, version)];
  return send(port, { ...sent, headers });
}

/** The head of such a request, for a client of bytes. */
export function head(
  target = "/",
  lines: readonly string[] = [],
  method = "GET",
  { number = 1, version = X402_VERSION }: { number?: number; version?: X402Version } = {},
): string {
  const all = [`${method} ${target} HTTP/1.1`, "Host: shop.example", ...lines];
  return `${[...all, paymentLine(number, version).join(": ")].join("\r\n")}\r\n\r\n`;
}

/** The decoded receipt of an answer in that version; undefined where it has none. */
export function receiptOf(
  { headers }: Pick<Answer, "headers">,
  version: X402Version = X402_VERSION,
): Record<string, unknown> | undefined {
  const value = headers[RECEIPT_HEADERS[version].toLowerCase()];
  if (typeof value !== "string") return undefined;
  const receipt: unknown = JSON.parse(Buffer.from(value, "base64").toString());
  return Object(receipt);
}

/** The `error` of one of the gateway's own answers. */
export function errorOf({ body }: Answer): string {
  const { error } = Object(JSON.parse(body.toString()));
  return String(error);
}
