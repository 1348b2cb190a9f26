/**
 * Whether all that tells a price tells the same: `routes`, the 402, and what is charged, before real HTTP and a real
 * backend; only the chain is not there. And whether what has no price is charged by nobody.
 */
import { createServer, type IncomingMessage } from "node:http";
import { request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { createSnapshot } from "../../src/app/request-snapshot.ts";
import { formatProblems, parseConfig, type Config } from "../../src/config/config.ts";
import { DryGateway } from "../../src/diagnosis/dry-gateway.ts";
import { explain } from "../../src/diagnosis/explanation.ts";
import { TrustedProxies } from "../../src/gateway/client/trusted-proxies.ts";
import { Gateway } from "../../src/gateway/gateway.ts";
import { Listener } from "../../src/gateway/listener/listener.ts";
import { defaultAnswerLimits } from "../../src/gateway/message/answer-watch.ts";
import { defaultBodyLimits } from "../../src/gateway/message/body-watch.ts";
import { openTarget } from "../../src/gateway/upstream/open-target.ts";
import { defaultUpstreamOptions } from "../../src/gateway/upstream/upstream.ts";
import { openSqliteLedger } from "../../src/ledger/sqlite/sqlite.ts";
import { NO_FEE_PAYERS } from "../../src/payments/sale/offers.ts";
import { LocalPaymentService } from "../../src/payments/sale/payment-service.ts";
import { Paywall } from "../../src/payments/sale/paywall.ts";
import { MAX_PRICED_BODY_BYTES } from "../../src/pricing/computed-price.ts";
import { compile } from "../../src/pricing/expression.ts";
import { readJsonBody } from "../../src/pricing/json-body.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { Metrics } from "../../src/telemetry/metrics.ts";
import { systemTime } from "../../src/time/time.ts";
import { formatAmount } from "../../src/x402/amount.ts";
import { PAYMENT_HEADERS } from "../../src/x402/header.ts";
import { X402_VERSION, type X402Version } from "../../src/x402/x402.ts";
import { inHeader, VERSIONS } from "../support/buyer.ts";
import { examplePayment } from "../unit/ledger/example-payment.ts";
import { ActedFacilitator } from "../unit/payments/sale/paywall-stage.ts";
import { Random } from "../simulation/random.ts";
import { randomExpression, randomRequest, type RandomRequest } from "./random-prices.ts";

/** Routes of one gateway. */
const ROUTES = 100;
/** Requests for each of them. */
const REQUESTS = 5;

export interface Agreement {
  expressions: number;
  requests: number;
  /** Requests that have a price. */
  priced: number;
  /** What was refused as it is to be: it has no price. */
  unpriced: number;
  readonly disagreements: string[];
  /** See {@link slowestOf}. */
  slowestMs: number;
  slowest: string;
}

/** Looks at so many random prices, each with a few random requests. */
export async function agreementOf(expressions: number, seed: number): Promise<Agreement> {
  const agreement: Agreement = {
    expressions: 0,
    requests: 0,
    priced: 0,
    unpriced: 0,
    disagreements: [],
    slowestMs: 0,
    slowest: "",
  };
  const random = new Random(seed);
  while (agreement.expressions < expressions) {
    const texts = Array.from(
      { length: Math.min(ROUTES, expressions - agreement.expressions) },
      () => usableExpression(random),
    );
    const stage = await openStage(texts);
    try {
      for (const [index, text] of texts.entries()) {
        agreement.expressions += 1;
        const requests = Array.from({ length: REQUESTS }, () => randomRequest(random));
        for (const asked of requests) await compare(stage, { index, text, asked }, agreement);
        const ms = slowestOf(
          text,
          requests.map(({ body }) => body),
        );
        if (ms > agreement.slowestMs) Object.assign(agreement, { slowestMs: ms, slowest: text });
      }
    } finally {
      await stage.close();
    }
  }
  return agreement;
}

const RUNS = 5;

/**
 * The longest that evaluating it has taken at its best, milliseconds: the least of a few runs, since whatever else the
 * machine does is no part of it. For the requests, and for bodies that are as large as they may be.
 */
function slowestOf(text: string, bodies: readonly string[]): number {
  const compiled = compile(text, { methods: ["POST"], parameters: ["id"] });
  if (!compiled.ok) throw new Error(compiled.error.message);
  const { maxBodyValues, reads } = compiled.value;
  let slowest = 0;
  for (const each of [...bodies, ...hardBodies(maxBodyValues)]) {
    const body = readJsonBody(Buffer.from(each), {
      maxValues: maxBodyValues,
      members: reads.members,
    });
    if (!body.ok) continue;
    const input = {
      method: "POST",
      path: new Map([["id", "abc"]]),
      query: new Map([
        ["n", "7"],
        ["f", "0.3"],
      ]),
      headers: new Map([
        ["x-n", "12"],
        ["x-tier", "fast"],
      ]),
      body: body.value,
    };
    let best = Infinity;
    for (let run = 0; run < RUNS; run += 1) {
      const started = performance.now();
      compiled.value.evaluate(input);
      best = Math.min(best, performance.now() - started);
    }
    slowest = Math.max(slowest, best);
  }
  return slowest;
}

/** Most members of a list, and most text in one. */
function hardBodies(maxBodyValues: number): readonly string[] {
  const rest = '"n":5,"f":0.1,"key":"a","flag":true';
  const members = Math.max(0, Math.floor((maxBodyValues - 8) / 3));
  const list = Array.from({ length: Math.min(members, 2_400) }, () => '{"c":"bcdefg","n":42}');
  return [
    `{${rest},"s":"a","list":[${list.join(",")}]}`,
    `{${rest},"s":"${"a".repeat(64_000)}","list":[]}`,
    `{${rest},"s":"a","list":[{"c":"${"b".repeat(60_000)}","n":1},{"c":"b","n":1}]}`,
  ];
}

/** One that is not refused before any request is there. */
function usableExpression(random: Random): string {
  for (;;) {
    const text = randomExpression(random, random.chance(0.6) ? "int" : "double");
    const compiled = compile(text, { methods: ["POST"], parameters: ["id"] });
    if (!compiled.ok) continue;
    const { least, most } = compiled.value.bounds ?? { least: 0, most: 1 };
    if (most >= 0.000_001 && least <= 0.5) return text;
  }
}

interface Stage {
  readonly config: Config;
  readonly port: number;
  readonly facilitator: ActedFacilitator;
  readonly dry: DryGateway;
  /** Bodies that the backend got. */
  readonly got: Buffer[];
  nextPayment(): number;
  close(): Promise<void>;
}

const HEAD = (upstream: string) => `
upstream: ${upstream}
publicUrl: http://shop.example
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example
unmatched: deny
routes:
`;

async function openStage(expressions: readonly string[]): Promise<Stage> {
  const got: Buffer[] = [];
  const backend = createServer((request, response) => {
    void buffer(request).then((body) => {
      got.push(body);
      return response.end("goods");
    });
  });
  await new Promise<void>((resolve) => void backend.listen(0, "127.0.0.1", resolve));
  const upstream = `http://127.0.0.1:${(backend.address() as AddressInfo).port}`;
  const routes = expressions.map(
    (by, index) =>
      `  POST /p${index}/:id: { price: { by: ${JSON.stringify(by)}, from: $0.000001, to: $0.5 } }\n`,
  );
  const parsed = parseConfig(HEAD(upstream) + routes.join(""), {
    file: "prices.yaml",
    env: {},
    readFile: () => {
      throw new Error("no files");
    },
  });
  if (!parsed.ok) throw new Error(formatProblems(parsed.problems, parsed.text));
  const { config } = parsed;
  const ledger = await openSqliteLedger({ path: ":memory:", time: systemTime, life: "only" });
  const facilitator = new ActedFacilitator(ledger);
  const logger = createLogger({ level: "silent", format: "json" });
  const metrics = new Metrics("test");
  const engine = openTarget({ ...defaultUpstreamOptions, origin: upstream });
  const gateway = new Gateway({
    snapshot: createSnapshot(config, new Map([["default", engine]]), {
      metrics,
      feePayers: NO_FEE_PAYERS,
      drafts: { networks: new Set() },
      earlier: [],
    }),
    paywall: new Paywall({
      payments: new LocalPaymentService({
        facilitator,
        redemptions: ledger,
        logger,
        time: systemTime,
      }),
      logger,
      settlementWaitMs: 10_000,
      time: systemTime,
    }),
    publish: () => ({ status: 200, body: "", type: "application/json", etag: null }),
    cors: "off",
    support: null,
    maxInFlight: 1_000,
    trustedProxies: new TrustedProxies([]),
    unpaidRates: { asked: null, refused: null, unproven: null },
    bodyLimits: defaultBodyLimits,
    answerLimits: defaultAnswerLimits,
    telemetry: { logger, metrics },
  });
  const listener = new Listener(gateway, { host: "127.0.0.1", port: 0, headerBytes: 32_768 });
  const { port } = await listener.open();
  let payments = 0;
  return {
    config,
    port,
    got,
    facilitator,
    dry: new DryGateway(config),
    nextPayment: () => (payments += 1),
    async close() {
      await listener.drain(AbortSignal.abort());
      await engine.close(AbortSignal.abort());
      await gateway.work.drain(AbortSignal.timeout(5_000));
      await ledger.close();
      backend.closeAllConnections();
      backend.close();
    },
  };
}

interface Case {
  readonly index: number;
  readonly text: string;
  readonly asked: RandomRequest;
}

async function compare(stage: Stage, { index, text, asked }: Case, all: Agreement): Promise<void> {
  all.requests += 1;
  const target = `/p${index}${asked.rest}`;
  const body = Buffer.from(asked.body);
  const headers = ["Content-Type", "application/json", ...asked.headers];
  const wrong = (what: string): void => {
    all.disagreements.push(
      `${what}\n  ${text}\n  ${target} ${headers.join(" ")}\n  ${asked.body.slice(0, 300)}`,
    );
  };
  const told = stage.dry.ask({ method: "POST", target, headers, body }).price;
  // The whole of what is behind `routes` takes longest.
  if (all.requests % REQUESTS === 1) {
    const whole = explain(stage.config, { method: "POST", url: target, headers, body }).price;
    if (JSON.stringify(whole) !== JSON.stringify(told)) wrong(`routes: ${JSON.stringify(whole)}`);
  }
  const unpaid = await post(stage.port, target, headers, body);
  const version = VERSIONS[all.requests % 2] ?? X402_VERSION;
  if (told === null) return wrong("routes tells no price");
  if (told.why !== null) {
    all.unpriced += 1;
    // One that lacks its body is told the most that it may cost.
    const status = told.dollars === null ? 400 : 402;
    if (unpaid.status !== status) wrong(`routes: ${told.why}, unpaid: ${unpaid.status}`);
    const paid = await pay(stage, target, { headers, body, version, amount: "500000" });
    const refused = told.dollars !== null && body.length > MAX_PRICED_BODY_BYTES ? 413 : 400;
    if (paid.status !== refused) wrong(`no price, and a payment is answered ${paid.status}`);
    if (paid.charged.length > 0) wrong("no price, and charged");
    return;
  }
  all.priced += 1;
  if (unpaid.status !== 402) return wrong(`routes: ${told.dollars}, unpaid: ${unpaid.status}`);
  const [accepted] = Object(JSON.parse(unpaid.text)).accepts;
  const amount = String(accepted.maxAmountRequired);
  if (`$${formatAmount(BigInt(amount), 6)}` !== told.dollars) {
    wrong(`routes: ${told.dollars}, 402: ${amount}`);
  }
  const paid = await pay(stage, target, { headers, body, version, amount });
  const charged = paid.charged.join();
  if (paid.status !== 200 || charged !== amount) {
    wrong(
      `402: ${amount}, answered ${paid.status}, charged ${charged}: ${paid.text.slice(0, 200)}`,
    );
  } else if (stage.got.at(-1)?.equals(body) !== true) wrong("the backend got another body");
}

interface Answered {
  readonly status: number;
  readonly text: string;
}

async function post(
  port: number,
  path: string,
  headers: readonly string[],
  body: Buffer,
): Promise<Answered> {
  const lines = ["Host", "shop.example", "Content-Length", String(body.length), ...headers];
  const sent = httpRequest({ host: "127.0.0.1", port, path, method: "POST", headers: lines });
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    sent.on("response", resolve);
    sent.on("error", reject);
  });
  sent.end(body);
  const answer = await answered;
  return { status: answer.statusCode ?? 0, text: (await buffer(answer)).toString() };
}

async function pay(
  stage: Stage,
  path: string,
  {
    headers,
    body,
    version,
    amount,
  }: {
    readonly headers: readonly string[];
    readonly body: Buffer;
    readonly version: X402Version;
    readonly amount: string;
  },
): Promise<Answered & { readonly charged: readonly string[] }> {
  const { request } = examplePayment(stage.nextPayment());
  const { paymentPayload, paymentRequirements } = request;
  const { payload } = paymentPayload;
  const { authorization } = Object(payload);
  const paid = {
    ...paymentPayload,
    payload: { ...payload, authorization: { ...authorization, value: amount } },
  };
  const asked = { ...paymentRequirements, maxAmountRequired: amount };
  const line = inHeader({ paymentPayload: paid, paymentRequirements: asked }, version);
  const { settled } = stage.facilitator;
  const before = settled.length;
  const answer = await post(stage.port, path, [PAYMENT_HEADERS[version], line, ...headers], body);
  const charged = settled.slice(before).map(({ request: { paymentRequirements: each } }) => each);
  return { ...answer, charged: charged.map(({ maxAmountRequired }) => maxAmountRequired) };
}
