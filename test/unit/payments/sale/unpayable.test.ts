/**
 * What cannot be paid for at the moment, over real HTTP: nobody is known who pays the network fee, or networks are closed.
 */
import { once } from "node:events";
import { createServer, request, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { defaultAnswerLimits } from "../../../../src/gateway/message/answer-watch.ts";
import { defaultBodyLimits } from "../../../../src/gateway/message/body-watch.ts";
import type { RoutePlan } from "../../../../src/gateway/decision.ts";
import { Gateway } from "../../../../src/gateway/gateway.ts";
import { drain, listen } from "../../../../src/gateway/listener/listener.ts";
import { OfferPage, type PageWriter } from "../../../../src/gateway/offers/offer-page.ts";
import { ALL_OPEN, Offers, type NetworkStates } from "../../../../src/payments/sale/offers.ts";
import { examplePayment } from "../../ledger/example-payment.ts";
import type { UnpaidRates } from "../../../../src/gateway/client/rate-limit.ts";
import { TrustedProxies } from "../../../../src/gateway/client/trusted-proxies.ts";
import { openTarget } from "../../../../src/gateway/upstream/open-target.ts";
import { Paywall } from "../../../../src/payments/sale/paywall.ts";
import { LocalPaymentService } from "../../../../src/payments/sale/payment-service.ts";
import { Router } from "../../../../src/gateway/paths/router.ts";
import { defaultUpstreamOptions } from "../../../../src/gateway/upstream/upstream.ts";
import { openSqliteLedger } from "../../../../src/ledger/sqlite/sqlite.ts";
import { createLogger } from "../../../../src/telemetry/logger.ts";
import { Metrics } from "../../../../src/telemetry/metrics.ts";
import { systemTime } from "../../../../src/time/time.ts";
import { encodePaymentHeader, PAYMENT_HEADERS } from "../../../../src/x402/header.ts";
import { BOTH_VERSIONS } from "../../../../src/x402/x402.ts";
import { SaleGuard, type SaleRules } from "../../../../src/payments/sale/sale-guard.ts";
import { ActedFacilitator, ALL_SOLD } from "./paywall-stage.ts";
import { FEE_PAYER, NETWORK, PAYER, solanaPayment, solanaRequirements } from "./solana-payment.ts";
import { States } from "../../gateway/states.ts";
import { Told } from "../../gateway/told.ts";
import { inHeader } from "../../../support/buyer.ts";

async function openShop(
  feePayers: Told,
  networks: NetworkStates = ALL_OPEN,
  {
    isOnEvm = false,
    rates = {},
    rules = {},
  }: { isOnEvm?: boolean; rates?: Partial<UnpaidRates>; rules?: Partial<SaleRules> } = {},
) {
  const log: Record<string, unknown>[] = [];
  const write = (line: string): void => void log.push(JSON.parse(line));
  const logger = createLogger({ level: "warn", format: "json", destination: { write } });
  const metrics = new Metrics("test");
  const ledger = await openSqliteLedger({ path: ":memory:", time: systemTime, life: "only" });
  const engine = openTarget({ ...defaultUpstreamOptions, origin: "http://127.0.0.1:9" });
  const { resource: _url, extra: _extra, ...offer } = solanaRequirements();
  const { resource: _other, ...evm } = examplePayment(1).request.paymentRequirements;
  const asked = isOnEvm ? [offer, evm] : [offer];
  const offers = new Offers(asked, feePayers, { networks, route: "GET /weather" });
  const writePage: PageWriter = (offered) => ({ lines: [], body: `<p>${offered.length} ways` });
  const plan: RoutePlan = {
    kind: "priced",
    label: "GET /weather",
    meter: metrics.route("GET /weather"),
    engine,
    offers,
    tokens: [],
    page: new OfferPage(offers, writePage),
    cacheControl: "private, no-store",
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
  };
  const routes = [{ methods: null, pattern: "/weather", value: plan }];
  const facilitator = new ActedFacilitator(ledger);
  const sold = { ...ALL_SOLD, ...rules };
  const guard = new SaleGuard({
    ledger,
    rules: sold,
    meter: metrics.sales,
    logger,
    time: systemTime,
  });
  await guard.start();
  onTestFinished(() => guard.stop());
  const gateway = new Gateway({
    snapshot: {
      site: "",
      router: new Router<RoutePlan>(routes, { guarded: () => true, unmatchedGuarded: true }),
      unmatched: null,
      authorities: new Set(),
      hosts: null,
      publicUrl: "https://shop.example",
      documents: new Set(),
      statuses: null,
      answersPreflight: true,
      earlier: [],
      signIn: null,
      protocol: BOTH_VERSIONS,
    },
    paywall: new Paywall({
      payments: new LocalPaymentService({
        facilitator,
        feePayers,
        networks,
        redemptions: ledger,
        guard,
        logger,
        time: systemTime,
      }),
      logger,
      settlementWaitMs: 1_000,
      time: systemTime,
    }),
    support: "mailto:help@shop.example",
    publish: () => ({ status: 200, body: "", type: "application/json", etag: null }),
    cors: "any",
    maxInFlight: 10,
    trustedProxies: new TrustedProxies([]),
    unpaidRates: { asked: null, refused: null, unproven: null, ...rates },
    bodyLimits: defaultBodyLimits,
    answerLimits: defaultAnswerLimits,
    telemetry: { logger, metrics },
  });
  const server = createServer(gateway.handleRequest);
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  onTestFinished(async () => {
    await drain(server, AbortSignal.abort());
    await engine.close(AbortSignal.abort());
    await ledger.close();
  });
  /** As a browser asks, which `fetch` does not. */
  const see = async () => {
    const place = { host: "127.0.0.1", port, path: "/weather", headers: { accept: "text/html" } };
    const [answer] = (await once(request(place).end(), "response")) as [IncomingMessage];
    return { status: answer.statusCode, headers: answer.headers, body: await text(answer) };
  };
  const ask = async (payment?: string, version: 1 | 2 = 1) => {
    const headers = payment === undefined ? {} : { [PAYMENT_HEADERS[version]]: payment };
    const response = await fetch(`http://127.0.0.1:${port}/weather`, { headers });
    return {
      status: response.status,
      headers: response.headers,
      body: Object(await response.json()),
    };
  };
  return { ask, see, facilitator, log, metrics, ledger, guard };
}

test("it answers 503 in place of a 402 that asks for nothing, and the log says why, once", async () => {
  const feePayers = new Told();
  const { ask, log, metrics } = await openShop(feePayers);
  const answer = await ask();
  expect(answer.status).toBe(503);
  expect(answer.headers.get("Retry-After")).toBe("2");
  expect(answer.headers.get("Access-Control-Allow-Origin")).toBe("*");
  expect(answer.body.error).toContain(`who pays the network fee on ${NETWORK}`);
  expect(answer.body).not.toHaveProperty("accepts");
  await ask();
  expect(log).toHaveLength(1);
  expect(log[0]).toMatchObject({ level: "error", route: "GET /weather", networks: [NETWORK] });
  expect(log[0]?.["msg"]).toContain("extra.feePayer");
  const scraped = await metrics.registry.metrics();
  expect(scraped).toMatch(/outcome="unavailable"[^\n]*\} 2\n/);

  feePayers.tell(NETWORK, FEE_PAYER);
  const { status, body } = await ask();
  expect(status).toBe(402);
  expect(body.accepts).toMatchObject([{ network: NETWORK, extra: { feePayer: FEE_PAYER } }]);
});

test("a malformed payment is still the client's fault", async () => {
  const { ask } = await openShop(new Told());
  expect(await ask("nonsense!")).toMatchObject({ status: 400, body: { accepts: [] } });
});

test("a payment that cannot be taken now is answered 500, and can be sent again", async () => {
  const { ask, facilitator } = await openShop(new Told());
  const { status, headers, body } = await ask(encodePaymentHeader(solanaPayment()));
  expect([status, headers.get("Retry-After")]).toEqual([500, "2"]);
  expect(body.error).toMatch(/^unexpected_verify_error: .*network fee on solana-devnet/);
  expect(facilitator.verified).toEqual([]);
});

test("a refusal tells what it has to tell, and asks for nothing", async () => {
  const feePayers = new Told({ [NETWORK]: FEE_PAYER });
  feePayers.tell(NETWORK, undefined);
  const { ask, facilitator } = await openShop(feePayers);
  facilitator.onVerify = async () => ({ isValid: true, payer: PAYER });
  facilitator.onSettle = async () => ({
    success: false,
    errorReason: "insufficient_funds",
    transaction: "",
    network: NETWORK,
    payer: PAYER,
    detail: "it holds nothing",
  });
  const { status, headers, body } = await ask(encodePaymentHeader(solanaPayment()));
  expect(status).toBe(503);
  expect(body.error).toMatch(/^insufficient_funds: it holds nothing; .*network fee/);
  const receipt = Buffer.from(headers.get("X-PAYMENT-RESPONSE") ?? "", "base64").toString();
  expect(JSON.parse(receipt)).toMatchObject({ success: false, errorReason: "insufficient_funds" });
});

test("what is sold on closed networks only is answered 503, to programs and to people, until one opens", async () => {
  const networks = new States({ [NETWORK]: "closed" });
  const { ask, see, log } = await openShop(new Told({ [NETWORK]: FEE_PAYER }), networks);
  const { status, headers, body } = await ask();
  expect([status, headers.get("Retry-After"), headers.get("PAYMENT-REQUIRED")]).toEqual([
    503,
    "2",
    null,
  ]);
  expect(body.error).toContain(`payments on ${NETWORK} are not taken at the moment`);
  expect(body).not.toHaveProperty("accepts");
  const page = await see();
  expect(page).toMatchObject({ status: 503, headers: { "retry-after": "2" }, body: "<p>0 ways" });
  expect(page.headers["content-type"]).toContain("text/html");
  expect(log.map(({ msg }) => msg)).toEqual([
    "a route answers 503: every network that it is sold on is closed",
  ]);
  networks.tell(NETWORK, "unsteady");
  expect((await ask()).status).toBe(402);
  expect(await see()).toMatchObject({ status: 402, body: "<p>1 ways" });
});

test.each([1, 2] as const)(
  "a payment on a network that has just closed is told another way in version %i, charged nothing, and good when it opens",
  async (version) => {
    const networks = new States({ [NETWORK]: "closed" });
    const told = new Told({ [NETWORK]: FEE_PAYER });
    const once = { requests: 1, perMs: 3_600_000 };
    const rates = { asked: once, refused: once };
    const opened = await openShop(told, networks, { isOnEvm: true, rates });
    const { ask, facilitator, metrics } = opened;
    const payment = inHeader(
      { paymentPayload: solanaPayment(), paymentRequirements: solanaRequirements() },
      version,
    );
    const { status, headers, body } = await ask(payment, version);
    expect([status, headers.get("Retry-After")]).toEqual([402, "2"]);
    expect(body.error).toMatch(/not taken at the moment, and nothing was charged.*another way/);
    expect(body.accepts).toMatchObject([{ network: "base-sepolia" }]);
    const quote = headers.get("PAYMENT-REQUIRED") ?? "";
    expect(JSON.parse(atob(quote)).accepts).toMatchObject([{ network: "eip155:84532" }]);
    // Whose fault it is not, that may ask as if he had not.
    expect((await ask()).status).toBe(402);
    expect(facilitator.verified).toEqual([]);
    const scraped = await metrics.registry.metrics();
    expect(scraped).toMatch(/code="402",outcome="unavailable"/);
    networks.tell(NETWORK, "open");
    await ask(payment, version);
    expect(facilitator.verified).toHaveLength(1);
  },
);

test("while no other network is open either, that payment is answered 500 and may be sent again", async () => {
  const networks = new States({ [NETWORK]: "closed", "base-sepolia": "closed" });
  const { ask } = await openShop(new Told({ [NETWORK]: FEE_PAYER }), networks, { isOnEvm: true });
  const { status, headers, body } = await ask(encodePaymentHeader(solanaPayment()));
  expect([status, headers.get("Retry-After")]).toEqual([500, "2"]);
  expect(body.error).toContain("not taken at the moment, and nothing was charged");
});

const HOUR_END = 3_600;
const ALL = { scope: "all", untilMs: null, reason: "", by: "me", sinceMs: 0 } as const;

test.each([
  ["all", "all"],
  ["its route", "route GET /weather"],
  ["its only network", `network ${NETWORK}`],
] as const)("while %s is paused whoever asks is told 503, and until when", async (_, scope) => {
  const networks = new States({ [NETWORK]: scope.startsWith("route") ? "open" : "closed" });
  const { ask, see, log } = await openShop(new Told({ [NETWORK]: FEE_PAYER }), networks);
  networks.stop(scope, { why: "paused", untilMs: Date.now() + 7_200_000 });
  const { status, headers, body } = await ask();
  expect([status, headers.get("PAYMENT-REQUIRED")]).toEqual([503, null]);
  expect(headers.get("Retry-After")).toMatch(/^7(?:200|199|198)$/);
  expect(headers.get("Access-Control-Allow-Origin")).toBe("*");
  expect(body.error).toMatch(
    /not for sale at the moment, and nothing was charged; try again later$/,
  );
  expect(body).not.toHaveProperty("accepts");
  expect(await see()).toMatchObject({ status: 503, body: "<p>0 ways" });
  // It is meant: nobody has to be woken.
  expect(log).toEqual([]);
  networks.stop(scope);
  networks.tell(NETWORK, "open");
  expect((await ask()).status).toBe(402);
});

test("a route is sold while another one, or another network, is paused", async () => {
  const networks = new States();
  const { ask } = await openShop(new Told({ [NETWORK]: FEE_PAYER }), networks);
  for (const scope of ["route GET /other", "network base"] as const) {
    networks.stop(scope, { why: "paused", untilMs: null });
    expect((await ask()).status).toBe(402);
  }
});

test.each([1, 2] as const)(
  "a payer on a list gets 403 in version %i, and where to ask",
  async (version) => {
    const deny = { has: (_: string, address: string) => address === PAYER };
    const opened = await openShop(new Told({ [NETWORK]: FEE_PAYER }), ALL_OPEN, {
      rules: { deny },
    });
    const { ask, facilitator, metrics } = opened;
    facilitator.isProven = () => true;
    const paid = { paymentPayload: solanaPayment(), paymentRequirements: solanaRequirements() };
    const { status, headers, body } = await ask(inHeader(paid, version), version);
    expect([status, headers.get("Retry-After"), headers.get("Link")]).toEqual([
      403,
      null,
      '<mailto:help@shop.example>; rel="help"',
    ]);
    expect(headers.get("Access-Control-Allow-Origin")).toBe("*");
    expect(body.error).toMatch(/^invalid_payload: .*nothing was charged; ask the seller: mailto:/);
    expect(facilitator.verified).toEqual([]);
    expect(await metrics.registry.metrics()).toContain(
      'coinslot_payments_barred_total{reason="denied"} 1',
    );
  },
);

test("a payer over his hour gets 429 and when the next one begins, and nothing was charged", async () => {
  const rules = { perPayer: 1 };
  const opened = await openShop(new Told({ [NETWORK]: FEE_PAYER }), ALL_OPEN, { rules });
  const { status, headers, body } = await opened.ask(encodePaymentHeader(solanaPayment()));
  expect(status).toBe(429);
  expect(Number(headers.get("Retry-After"))).toBeGreaterThan(0);
  expect(Number(headers.get("Retry-After"))).toBeLessThanOrEqual(HOUR_END);
  expect(body.error).toMatch(/^invalid_transaction_state: .*as much as one may in an hour/);
  expect(opened.facilitator.settled).toEqual([]);
  expect(await opened.ledger.books.list({ limit: 1 })).toEqual([]);
});

test("a payment on a paused network is told another way where there is one, else 503, and is not charged", async () => {
  const networks = new States({ [NETWORK]: "closed" });
  const told = new Told({ [NETWORK]: FEE_PAYER });
  const { ask, ledger, guard, facilitator } = await openShop(told, networks, { isOnEvm: true });
  await ledger.pauses.pause({ ...ALL, scope: `network ${NETWORK}` });
  await expect.poll(() => guard.stops.size).toBe(1);
  networks.stop(`network ${NETWORK}`, { why: "paused", untilMs: null });
  const payment = encodePaymentHeader(solanaPayment());
  const { status, body, headers } = await ask(payment);
  expect([status, headers.get("Retry-After")]).toEqual([402, "60"]);
  expect(body.error).toMatch(/nothing was charged.*another way/);
  expect(body.accepts).toMatchObject([{ network: "base-sepolia" }]);
  await ledger.pauses.pause(ALL);
  await expect.poll(() => guard.stops.size).toBe(2);
  networks.stop("all", { why: "paused", untilMs: null });
  const paused = await ask(payment);
  expect([paused.status, paused.headers.get("Retry-After")]).toEqual([503, "60"]);
  expect(paused.body.error).toMatch(/^unexpected_verify_error: this is not for sale/);
  expect(facilitator.verified).toEqual([]);
});
