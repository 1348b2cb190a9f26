/** A route that is sold on Solana only, over real HTTP, while nobody is known who pays the network fee. */
import { createServer } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { defaultAnswerLimits } from "../../../../src/gateway/message/answer-watch.ts";
import { defaultBodyLimits } from "../../../../src/gateway/message/body-watch.ts";
import type { RoutePlan } from "../../../../src/gateway/decision.ts";
import { Gateway } from "../../../../src/gateway/gateway.ts";
import { drain, listen } from "../../../../src/gateway/listener/listener.ts";
import { Offers } from "../../../../src/payments/sale/offers.ts";
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
import { encodePaymentHeader } from "../../../../src/x402/header.ts";
import { BOTH_VERSIONS } from "../../../../src/x402/x402.ts";
import { ActedFacilitator } from "./paywall-stage.ts";
import { FEE_PAYER, NETWORK, PAYER, solanaPayment, solanaRequirements } from "./solana-payment.ts";
import { Told } from "../../gateway/told.ts";

async function openShop(feePayers: Told) {
  const log: Record<string, unknown>[] = [];
  const write = (line: string): void => void log.push(JSON.parse(line));
  const logger = createLogger({ level: "warn", format: "json", destination: { write } });
  const metrics = new Metrics("test");
  const ledger = await openSqliteLedger({ path: ":memory:", time: systemTime, life: "only" });
  const engine = openTarget({ ...defaultUpstreamOptions, origin: "http://127.0.0.1:9" });
  const { resource: _url, extra: _extra, ...offer } = solanaRequirements();
  const plan: RoutePlan = {
    kind: "priced",
    label: "GET /weather",
    meter: metrics.route("GET /weather"),
    engine,
    offers: new Offers([offer], feePayers),
    page: null,
    cacheControl: "private, no-store",
    repeat: null,
    redirects: "pass",
    goods: new Set(),
    input: null,
  };
  const routes = [{ methods: null, pattern: "/weather", value: plan }];
  const facilitator = new ActedFacilitator(ledger);
  const gateway = new Gateway({
    snapshot: {
      router: new Router<RoutePlan>(routes, { guarded: () => true, unmatchedGuarded: true }),
      unmatched: null,
      authorities: new Set(),
      hosts: null,
      publicUrl: "https://shop.example",
      documents: new Set(),
      answersPreflight: true,
      earlier: [],
      signIn: null,
      protocol: BOTH_VERSIONS,
    },
    paywall: new Paywall({
      payments: new LocalPaymentService({
        facilitator,
        feePayers,
        redemptions: ledger,
        logger,
        time: systemTime,
      }),
      logger,
      settlementWaitMs: 1_000,
      time: systemTime,
    }),
    publish: () => ({ status: 200, body: "", type: "application/json", etag: null }),
    cors: "any",
    maxInFlight: 10,
    trustedProxies: new TrustedProxies([]),
    unpaidRates: { asked: null, refused: null, unproven: null },
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
  const ask = async (payment?: string) => {
    const headers = payment === undefined ? {} : { "X-PAYMENT": payment };
    const response = await fetch(`http://127.0.0.1:${port}/weather`, { headers });
    return {
      status: response.status,
      headers: response.headers,
      body: Object(await response.json()),
    };
  };
  return { ask, facilitator, log, metrics };
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
