/**
 * Every case of the `.yaml` files beside this one, at running gateways and facilitators before a real node with the
 * real token; `case.ts` says what a case may contain. Of every quote, whoever gets it, the official package's schema
 * is asked besides, and its form as a header; whoever pays, what moved.
 */
import { parsePaymentRequired } from "@x402/core/schemas";
import {
  Agent,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from "node:http";
import { text as readText } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ERROR_CODES } from "../../../src/x402/error-code.ts";
import { memberOf } from "../../../src/x402/json.ts";
import type { PaymentRequirements } from "../../../src/x402/x402.ts";
import { PUBLIC_URL } from "../../support/gateway.ts";
import { payee as hubPayee, tokenOf, WEATHER } from "../../support/hub.ts";
import { freshAccount } from "../../support/payer.ts";
import { conformanceCase } from "../conformance-case.ts";
import { headerLines } from "../header-case.ts";
import { evaluate, evaluateText, expandNested, type Names } from "../references.ts";
import { change, enact, locate, rewrite, type Scenario } from "../scenario.ts";
import {
  facilitatorFiles,
  gatewayFiles,
  type FacilitatorCase,
  type GatewayCase,
  type Judgement,
  type PaidCase,
} from "./case.ts";
import { openStage, type Stage } from "./stage.ts";

/** No answer takes longer, milliseconds: the slowest case waits for a transaction. */
const ANSWER_WITHIN_MS = 5_000;
const CAIP2 = "eip155:84532";
/** RFC 4648 section 4, padded: what each client of version 2 reads. */
const STANDARD_BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
/** Of one entry of `accepts`; `extra` is optional. */
const ENTRY = ["scheme", "network", "amount", "asset", "payTo", "maxTimeoutSeconds", "extra"];

const closing = new AsyncDisposableStack();
const agent = new Agent({ keepAlive: true });
let stage: Stage;

beforeAll(async () => {
  stage = closing.use(await openStage());
});

afterAll(() => {
  agent.destroy();
  return closing.disposeAsync();
});

for (const { subject, cases } of gatewayFiles()) {
  describe(subject, () => {
    test.each(cases.map((each) => [`${each.name} (${each.source})`, each] as const))(
      "%s",
      (_, each) => playAtGateway(each),
    );
  });
}

for (const { subject, cases } of facilitatorFiles()) {
  describe(subject, () => {
    test.each(cases.map((each) => [`${each.name} (${each.source})`, each] as const))(
      "%s",
      (_, each) => playAtFacilitator(each),
    );
  });
}

test("there are 250 cases and more, and every code of version 2 is expected of both endpoints", () => {
  const atGateways = gatewayFiles().flatMap(({ cases }) => cases);
  const atFacilitators = facilitatorFiles().flatMap(({ cases }) => cases);
  expect(atGateways.length + atFacilitators.length).toBeGreaterThanOrEqual(250);
  const expected = new Set(
    atFacilitators.flatMap(({ judged }) => [
      `verify ${judged.verify.code}`,
      `settle ${judged.settle.code}`,
    ]),
  );
  const possible = ERROR_CODES.flatMap((code) => [`verify ${code}`, `settle ${code}`]);
  expect(possible.filter((code) => !expected.has(code))).toEqual([
    // Version 2 has another word for it.
    "verify invalid_exact_evm_payload_authorization_value",
    "settle invalid_exact_evm_payload_authorization_value",
    // A resource server's word; and what is our own failure needs a node that fails: `../chain-state.yaml`.
    "verify invalid_scheme",
    "settle invalid_scheme",
    "verify unexpected_verify_error",
    "settle unexpected_verify_error",
    "verify unexpected_settle_error",
    "settle unexpected_settle_error",
  ]);
});

/** Members that are as good as absent are undefined. */
interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly json: unknown;
  readonly quote: unknown;
  readonly receipt: unknown;
  readonly receiptV1: unknown;
  readonly told: unknown;
}

interface Asked {
  readonly url: string;
  readonly method: string;
  /** Raw `name, value` pairs. */
  readonly lines: readonly string[];
  readonly body?: string | undefined;
}

async function send({ url, method, lines, body }: Asked): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const length = body === undefined ? [] : ["Content-Length", String(Buffer.byteLength(body))];
  const headers = ["Host", new URL(url).host, ...length, ...lines];
  const signal = AbortSignal.timeout(ANSWER_WITHIN_MS);
  const request = httpRequest(url, { agent, method, headers, signal }, resolve);
  request.on("error", reject);
  request.end(body);
  const response = await promise;
  const text = await readText(response);
  const { statusCode: status = 0, headers: told } = response;
  const quotes = linesOf(response.rawHeaders, "payment-required");
  return {
    status,
    headers: told,
    text,
    json: readJson(text),
    quote: quotes.length === 0 ? undefined : readQuote(quotes),
    receipt: decoded(told["payment-response"]),
    receiptV1: decoded(told["x-payment-response"]),
    told: decoded(told["extension-responses"]),
  };
}

function linesOf(raw: readonly string[], name: string): readonly string[] {
  return raw.filter((_, index) => index % 2 === 1 && raw[index - 1]?.toLowerCase() === name);
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function decoded(header: string | string[] | undefined): unknown {
  if (header === undefined) return undefined;
  expect(header).toMatch(STANDARD_BASE64);
  return JSON.parse(Buffer.from(String(header), "base64").toString("ascii"));
}

/** transports-v2/http, core section 5.1.2, and what clients do with the header: of every quote. */
function readQuote(lines: readonly string[]): unknown {
  expect(lines).toHaveLength(1);
  const [line = ""] = lines;
  expect(line).toMatch(STANDARD_BASE64);
  const text = Buffer.from(line, "base64").toString("latin1");
  expect(text).toMatch(/^[\x20-\x7e]+$/);
  const quote = Object(JSON.parse(text));
  expect(parsePaymentRequired(quote)).toMatchObject({ success: true });
  const { x402Version, accepts, resource, error, extensions, ...more } = quote;
  expect([x402Version, typeof error, typeof resource, more]).toEqual([2, "string", "object", {}]);
  for (const entry of accepts) {
    expect(ENTRY).toEqual(expect.arrayContaining(Object.keys(entry)));
    expect(entry).toMatchObject({ scheme: "exact", amount: expect.stringMatching(/^[1-9]\d*$/) });
    expect(entry.extra).toMatchObject({ paymentFlow: "upfront" });
  }
  for (const said of Object.values(extensions ?? {})) {
    expect(said).toMatchObject({ info: expect.any(Object) });
  }
  return quote;
}

async function playAtGateway(each: GatewayCase): Promise<void> {
  if (each.pay !== undefined) return playPayment({ ...each, pay: each.pay });
  const answer = await send(askedOf(each, []));
  const names = namesOf(each);
  expectOf(answer, each, names);
}

function namesOf({ at }: GatewayCase): Names {
  const { chain, gateways, feePayer } = stage;
  const { payee, signer } = gateways[at];
  return { payee, signer, feePayer, asset: chain.asset, url: PUBLIC_URL };
}

function askedOf({ at, ask }: GatewayCase, lines: readonly string[]): Asked {
  const gateway = stage.gateways[at];
  const { listener, method, path, headers, body } = ask;
  const base = listener === "gateway" ? gateway.url : gateway.facilitatorUrl;
  return { url: base + path, method, lines: [...Object.entries(headers).flat(), ...lines], body };
}

/** The payment that a case begins with. */
interface Played {
  readonly scenario: Scenario;
  /** The payment of version 2 as an official client makes it. */
  readonly good: Readonly<Record<string, unknown>>;
  readonly names: Names;
}

/** Signs for a way to pay of version 2. */
async function signed(
  each: PaidCase["pay"] | FacilitatorCase,
  { accepted, beside }: { readonly accepted: unknown; readonly beside: object },
  undoing: AsyncDisposableStack,
): Promise<Played> {
  const { amount, network, ...rest } = Object(accepted);
  expect(network).toBe(CAIP2);
  const { given, sign, signature } = each;
  const requirements = {
    ...rest,
    network: stage.chain.network.name,
    maxAmountRequired: amount,
  } as PaymentRequirements;
  const spoilt = signature === undefined ? {} : { signature };
  const what = { name: "", cites: "", given, sign, ...spoilt, expect: {} };
  const now = Math.floor(Date.now() / 1000);
  const cast = { chain: stage.chain, requirements, now, listed: stage.gateways.both.payee };
  const scenario = await enact(conformanceCase.parse(what), cast, undoing);
  const { payload } = scenario.payment;
  const good = { x402Version: 2, accepted, payload, ...beside };
  return { scenario, good, names: scenario.names };
}

async function playPayment(each: PaidCase): Promise<void> {
  await using undoing = new AsyncDisposableStack();
  const { pay, at, before: presented } = each;
  // Where version 2 is off its clients would have a quote of the gateway that has both.
  const quoting = { ...each, at: at === "older" ? ("both" as const) : at };
  const { quote } = await send(askedOf(quoting, []));
  const { accepts, resource, extensions } = Object(quote);
  const beside = { resource, ...(extensions !== undefined && { extensions }) };
  const played = await signed(pay, { accepted: accepts[0], beside }, undoing);
  const { scenario, good, names } = played;
  const v1 = { "X-PAYMENT": encode(scenario.payment) };
  const v2 = { "PAYMENT-SIGNATURE": encode(good) };
  const earlier: Answer[] = [];
  for (const version of presented) {
    if (version === "another") {
      const other = await signed(pay, { accepted: accepts[0], beside }, undoing);
      const lines = headerLines(pay, written(pay, other.good, other.names));
      expect(await send(askedOf(each, lines))).toMatchObject({ status: 200 });
      continue;
    }
    const lines = Object.entries(version === 1 ? v1 : v2).flat();
    earlier.push(await send(askedOf(each, lines)));
  }
  const more = Object.entries(pay.beside).flatMap(([name, text]) => [
    name,
    text.replace("$v1", v1["X-PAYMENT"]).replace("$v2", v2["PAYMENT-SIGNATURE"]),
  ]);
  const lines = [...headerLines(pay, written(pay, good, names)), ...more];
  const before = await look(each, scenario);
  const answer = await send(askedOf(each, lines));
  const after = await look(each, scenario);
  const said = `${answer.status} ${answer.text.slice(0, 500)}`;
  if (each.sold === undefined) {
    expect(after, `nothing was broadcast, moved or sold: ${said}`).toEqual(before);
  } else expectSold(each.sold, { answer, earlier, before, after, scenario, each });
  if (each.refused !== undefined) expectRefused(each.refused, answer);
  expectOf(answer, each, { ...namesOf(each), ...names });
  await undoing.disposeAsync();
}

function encode(payment: object): string {
  return Buffer.from(JSON.stringify(payment)).toString("base64");
}

/** The payment as its case changes it, JSON. */
function written(
  { set, remove, rewrite: replaced }: Pick<PaidCase["pay"], "set" | "remove" | "rewrite">,
  good: object,
  names: Names,
): string {
  const root = structuredClone(good);
  change(root, { set, remove }, names);
  return rewrite(expandNested(JSON.stringify(root)), replaced);
}

/** All that a refused payment must leave as it was. */
async function look({ at }: Pick<GatewayCase, "at">, { payer, payee }: Scenario) {
  const { chain, gateways } = stage;
  const { signer, upstream } = gateways[at];
  const [transactions, payerBalance, payeeBalance] = await Promise.all([
    chain.rpc("eth_getTransactionCount", [signer, "pending"]),
    chain.balanceOf(payer),
    chain.balanceOf(payee as `0x${string}`),
  ]);
  return { transactions: Number(transactions), payerBalance, payeeBalance, sold: upstream.length };
}

const STATUS_URL: unknown = expect.stringMatching(
  /^http:\/\/localhost:8402\/\.well-known\/x402\/payments\/[\w-]+\.[\w-]{22}$/,
);

interface Sale {
  readonly answer: Answer;
  readonly earlier: readonly Answer[];
  readonly before: Awaited<ReturnType<typeof look>>;
  readonly after: Awaited<ReturnType<typeof look>>;
  readonly scenario: Scenario;
  readonly each: PaidCase;
}

/** One purchase: paid once, served once, with a receipt in the words of that version, and none of the other. */
function expectSold(version: 1 | 2, sale: Sale): void {
  const { answer, earlier, before, after, scenario, each } = sale;
  expect(answer.status, answer.text.slice(0, 500)).toBe(200);
  const { receipt, receiptV1, quote } = answer;
  const [mine, others] = version === 2 ? [receipt, receiptV1] : [receiptV1, receipt];
  expect([others, quote]).toEqual([undefined, undefined]);
  expect(mine).toEqual({
    success: true,
    transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/),
    network: version === 2 ? CAIP2 : "base-sepolia",
    payer: scenario.payer,
    // Its members `extensions` may tell more (core, 5.3.2).
    ...(version === 2 ? { extensions: { "payment-status": { info: { url: STATUS_URL } } } } : {}),
  });
  const [first] = earlier;
  if (first !== undefined) {
    const { transaction } = Object(first.receipt ?? first.receiptV1);
    expect(Object(mine).transaction).toBe(transaction);
    expect([answer.text, after]).toEqual([first.text, before]);
    return;
  }
  const amount = BigInt(scenario.payment.payload.authorization.value);
  expect(after).toEqual({
    transactions: before.transactions + 1,
    payerBalance: before.payerBalance - amount,
    payeeBalance: before.payeeBalance + amount,
    sold: before.sold + 1,
  });
  const served = stage.gateways[each.at].upstream.at(-1);
  expect(served).toMatchObject({ url: each.ask.path, method: each.ask.method });
  expect(served?.headers).not.toHaveProperty("payment-signature");
  expect(served?.headers).not.toHaveProperty("x-payment");
}

function expectRefused(
  { status, code, v1 = code, says = "\\S" }: NonNullable<PaidCase["refused"]>,
  answer: Answer,
): void {
  const { json, quote, headers, text } = answer;
  const said = `${answer.status} ${text.slice(0, 500)}`;
  expect(answer.status, said).toBe(status);
  expect(headers, said).toMatchObject({ "cache-control": "no-store" });
  const sentence = (begins: string) => expect.stringMatching(new RegExp(`^${begins}: .*${says}`));
  expect(quote, said).toMatchObject({ error: sentence(code), accepts: expect.any(Array) });
  expect(json, said).toEqual({ x402Version: 1, error: sentence(v1), accepts: expect.any(Array) });
  const asked = [quote, json].map((each) => Object(each).accepts.length);
  expect(asked[0]).toBe(asked[1]);
}

/** What pointers lead to. */
function expectOf(answer: Answer, { expect: wanted, lack }: GatewayCase, names: Names): void {
  const said = `${answer.status} ${answer.text.slice(0, 500)}`;
  for (const [pointer, value] of Object.entries(wanted)) {
    const [parent, key] = locate(answer, pointer);
    const like = memberOf(value, "like");
    const sought =
      typeof like === "string"
        ? expect.stringMatching(new RegExp(like, "s"))
        : evaluate(value, names);
    expect(Reflect.get(parent, key), `${pointer}: ${said}`).toEqual(sought);
  }
  for (const pointer of lack) expect(isThere(answer, pointer), `${pointer}: ${said}`).toBe(false);
}

/** The parent of a member that is to lack has to be there, for what has none lacks everything. */
function isThere(answer: Answer, pointer: string): boolean {
  const [parent, key] = locate(answer, pointer);
  return Reflect.get(parent, key) !== undefined;
}

const endpoints = ["verify", "settle"] as const;

async function playAtFacilitator(each: FacilitatorCase): Promise<void> {
  await using undoing = new AsyncDisposableStack();
  const { chain, open, hub } = stage;
  const isOpen = each.at === "open";
  const url = isOpen ? open.url : hub.facilitatorUrl;
  const payTo = isOpen ? freshAccount().address : hubPayee;
  const { asset, eip712 } = { ...chain.network.asset, asset: chain.asset };
  const accepted = {
    scheme: "exact",
    network: CAIP2,
    amount: "10000",
    asset,
    payTo,
    maxTimeoutSeconds: 60,
    extra: { ...eip712, paymentFlow: "upfront" },
  };
  const beside = { resource: { url: `${WEATHER}/today`, description: "The weather today" } };
  const { scenario, good, names } = await signed(each, { accepted, beside }, undoing);
  const paymentRequirements = structuredClone(accepted);
  const request = { x402Version: 2, paymentPayload: good, paymentRequirements };
  const json = written(each, request, names);
  const body = each.body.replaceAll("$request", () => json);
  const signer = isOpen ? open.signer : hub.signer;
  const lookHere = async () => ({
    transactions: Number(await chain.rpc("eth_getTransactionCount", [signer, "pending"])),
    payer: await chain.balanceOf(scenario.payer),
    payee: await chain.balanceOf(payTo),
  });
  const post = (endpoint: string, text: string): Promise<Answer> => {
    const token = isOpen ? [] : ["Authorization", `Bearer ${tokenOf("weather")}`];
    const lines = ["Content-Type", "application/json", ...token];
    return send({ url: `${url}/${endpoint}`, method: "POST", lines, body: text });
  };
  for (const version of each.before) {
    const { payment: paymentPayload, requirements } = scenario;
    const former = { paymentPayload, paymentRequirements: { ...requirements, ...V1_MEMBERS } };
    const settled = await post("settle", JSON.stringify(version === 1 ? former : request));
    expect(settled.json, settled.text).toMatchObject({ success: true });
  }
  const before = await lookHere();
  for (const endpoint of endpoints) {
    const answer = await post(endpoint, body);
    judge(endpoint, { answer, wanted: each.judged[endpoint], names });
    expect(answer.told).toEqual(each.told?.[endpoint]);
  }
  const isPaid = each.judged.settle.code === "valid";
  const paid = isPaid ? BigInt(scenario.payment.payload.authorization.value) : 0n;
  expect(await lookHere()).toEqual({
    transactions: before.transactions + Number(isPaid),
    payer: before.payer - paid,
    payee: before.payee + paid,
  });
}

/** What requirements of version 1 have besides. */
const V1_MEMBERS = { resource: `${WEATHER}/today`, description: "The weather today" };

function judge(
  endpoint: (typeof endpoints)[number],
  heard: { readonly answer: Answer; readonly wanted: Judgement; readonly names: Names },
): void {
  const { answer, wanted, names } = heard;
  const { status, code, words } = wanted;
  const said = `${endpoint}: ${answer.status} ${answer.text.slice(0, 500)}`;
  expect(answer.status, said).toBe(status);
  expect(answer.headers, said).toMatchObject({ "content-type": "application/json" });
  const payer = evaluateText(wanted.payer, names);
  const network = evaluateText(wanted.network, names);
  const sentence = expect.stringMatching(/\S/);
  const transaction = code === "valid" ? expect.stringMatching(/^0x[0-9a-f]{64}$/) : "";
  if (endpoint === "verify") {
    const told = { [words === 2 ? "invalidMessage" : "detail"]: sentence };
    const refusal = { isValid: false, invalidReason: code, payer, ...told };
    expect(answer.json, said).toEqual(code === "valid" ? { isValid: true, payer } : refusal);
    return;
  }
  const told = { [words === 2 ? "errorMessage" : "detail"]: sentence };
  const settled = { transaction, network, payer };
  expect(answer.json, said).toEqual(
    code === "valid"
      ? { success: true, ...settled }
      : { success: false, errorReason: code, ...settled, ...told },
  );
}
