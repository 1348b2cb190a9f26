/**
 * Every case about a payment payload once more, as the `X-PAYMENT` header of a request through the whole
 * gateway, and the cases of `header.yaml` about the header itself. Whatever a buyer sends is answered in
 * time and as the protocol has it, costs nobody anything unless it buys, and harms nothing.
 */
import { Agent, request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { text as readText } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MAX_PAYMENT_HEADER_BYTES } from "../../src/x402/header.ts";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, signPayment, type EvmPayment } from "../support/payer.ts";
import { readCaseFiles, type ConformanceCase } from "./conformance-case.ts";
import { headerLines, readHeaderCases, type HeaderCase } from "./header-case.ts";
import { enact, removeCode } from "./scenario.ts";

/** No answer takes longer, milliseconds: the slowest case waits for a transaction. */
const ANSWER_WITHIN_MS = 5_000;
/** Room for a header above the cap of the payment inside it. */
const MORE = "limits: { header: 128KiB }";

let chain: Chain;
let gateway: RunningGateway;
let accepts: readonly PaymentRequirements[];
let requirements: PaymentRequirements;
const closing = new AsyncDisposableStack();
const agent = new Agent({ keepAlive: true });

beforeAll(async () => {
  chain = closing.use(await startChain());
  gateway = closing.use(await startGateway({ chain, more: MORE }));
  const quote = await get([]);
  expect(quote.status).toBe(402);
  accepts = JSON.parse(quote.text).accepts;
  const [first] = accepts;
  if (first === undefined) throw new Error("the gateway asks for nothing");
  requirements = first;
});

afterAll(() => {
  agent.destroy();
  return closing.disposeAsync();
});

for (const { subject, cases } of readCaseFiles()) {
  const inHeader = cases.filter(concernsPayload);
  if (inHeader.length === 0) continue;
  describe(subject, () => {
    test.each(inHeader.map((each) => [`${each.name} (${each.cites})`, each] as const))(
      "%s",
      (_, each) => present(each),
    );
  });
}

describe("header", () => {
  test.each(readHeaderCases().map((each) => [`${each.name} (${each.cites})`, each] as const))(
    "%s",
    (_, each) => presentHeader(each),
  );
});

test("after all of them the gateway still sells", async () => {
  const { payment, payer } = await fundedPayment();
  await expectSale(payer, payment, () => get(lineOf(JSON.stringify(payment))));
});

/** Whether a case can be told by a header alone, to a gateway that sells for one price by one clock. */
function concernsPayload({
  given,
  ask,
  set,
  remove,
  body,
  http,
  expect,
}: ConformanceCase): boolean {
  const pointers = [...Object.keys(set), ...remove];
  return (
    given.facilitator === "open" &&
    given.clock === undefined &&
    given.node === undefined &&
    Object.keys(ask).length === 0 &&
    body === "$request" &&
    http.path === "$endpoint" &&
    http.method === "POST" &&
    http.encoding === "utf8" &&
    http.headers["content-type"] === "application/json" &&
    http.headers["origin"] === undefined &&
    expect.verify.status !== 500 &&
    !remove.includes("/paymentPayload") &&
    pointers.every((pointer) => /^\/paymentPayload(?:\/|$)/.test(pointer))
  );
}

async function present(each: ConformanceCase): Promise<void> {
  await using undoing = new AsyncDisposableStack();
  const now = Math.floor(Date.now() / 1000);
  const listed = gateway.payee;
  const scenario = await enact(each, { chain, requirements, now, listed }, undoing);
  const { payer, payment, paymentPayload } = scenario;
  const send = async (): Promise<Answer> => {
    await using restoring = new AsyncDisposableStack();
    await removeCode(each.given.missing, chain, restoring);
    return await get(lineOf(paymentPayload));
  };
  const expected = expectedOf(each, paymentPayload);
  if (expected === "sale") return expectSale(payer, payment, send);
  await expectRefusal(payer, expected, send);
  if (!failsForNow(each)) return;
  await undoing.disposeAsync();
  await expectSale(payer, payment, send);
}

/** Whether nothing is wrong with the payment itself: it is not spent by having been refused. */
function failsForNow({ given, sign, signature, set }: ConformanceCase): boolean {
  const { payer, balance, nonce, paused, blacklisted } = given;
  return (
    (paused === true || blacklisted !== undefined) &&
    payer !== "delegated" &&
    balance === "1000000" &&
    nonce === "fresh" &&
    sign.by === "payer" &&
    signature === undefined &&
    Object.keys(set).length === 0
  );
}

interface ExpectedRefusal {
  readonly status: number;
  /** What `error` begins with; undefined for the answer to no payment at all. */
  readonly code: string | undefined;
}

/** The gateway's word for what the endpoints say: a resource server has statuses of its own. */
function expectedOf(each: ConformanceCase, paymentPayload: string): ExpectedRefusal | "sale" {
  const { status, code } = each.expect.verify;
  if (Buffer.byteLength(paymentPayload) > MAX_PAYMENT_HEADER_BYTES) {
    return { status: 400, code: "invalid_payload" };
  }
  if (code === "valid") return "sale";
  if (code === "invalid_x402_version") return { status: 400, code };
  if (code === "unsupported_scheme") return { status: 402, code: "invalid_scheme" };
  return { status: status === 200 ? 402 : status, code };
}

async function presentHeader(each: HeaderCase): Promise<void> {
  const { payment, payer } = await fundedPayment();
  const send = () => get(headerLines(each, JSON.stringify(payment)));
  const { status, code } = each.expect;
  if (status === 200) return expectSale(payer, payment, send);
  if (status === 431) {
    expect(await send()).toMatchObject({ status: 431, text: "" });
  } else await expectRefusal(payer, { status, code }, send);
  // What was refused for its form is not spent.
  await expectSale(payer, payment, () => get(lineOf(JSON.stringify(payment))));
}

async function fundedPayment(): Promise<{ payment: EvmPayment; payer: `0x${string}` }> {
  const { account, address } = freshAccount();
  await chain.fund(address, 1_000_000n);
  return { payment: await signPayment({ account, requirements }), payer: address };
}

function lineOf(paymentPayload: string): string[] {
  return ["X-PAYMENT", Buffer.from(paymentPayload).toString("base64")];
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** One request for the priced resource with these raw header lines; rejects when no answer comes in time. */
async function get(lines: readonly string[]): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const url = new URL("/weather?city=Oslo", gateway.url);
  const headers = ["Host", url.host, ...lines];
  const signal = AbortSignal.timeout(ANSWER_WITHIN_MS);
  const request = httpRequest(url, { agent, headers, signal }, (response) => {
    const { statusCode: status = 0, headers } = response;
    readText(response).then((text) => resolve({ status, headers, text }), reject);
  });
  request.on("error", reject);
  request.end();
  return promise;
}

/** Everything that a refused payment must leave as it was. */
async function look(payer: `0x${string}`) {
  const [signerTransactions, payerBalance, payeeBalance] = await Promise.all([
    chain.rpc("eth_getTransactionCount", [gateway.signer, "pending"]),
    chain.balanceOf(payer),
    chain.balanceOf(gateway.payee),
  ]);
  return {
    signerTransactions: Number(signerTransactions),
    payerBalance,
    payeeBalance,
    upstreamRequests: gateway.upstream.length,
  };
}

async function expectRefusal(
  payer: `0x${string}`,
  { status, code }: ExpectedRefusal,
  send: () => Promise<Answer>,
): Promise<void> {
  const before = await look(payer);
  const answer = await send();
  const said = `${answer.status} ${answer.text.slice(0, 500)}`;
  expect(answer.status, said).toBe(status);
  expect(answer.headers, said).toMatchObject({
    "content-type": "application/json",
    "cache-control": "no-store",
  });
  expect(answer.headers, said).not.toHaveProperty("x-payment-response");
  const error = code === undefined ? /^X-PAYMENT header is required$/ : new RegExp(`^${code}: \\S`);
  expect(JSON.parse(answer.text), said).toEqual({
    x402Version: 1,
    error: expect.stringMatching(error),
    accepts,
  });
  expect(await look(payer), "nothing was broadcast, moved or sold").toEqual(before);
}

/** One purchase: paid once, served once, with a receipt for the buyer and word for the backend. */
async function expectSale(
  payer: `0x${string}`,
  payment: EvmPayment,
  send: () => Promise<Answer>,
): Promise<void> {
  const before = await look(payer);
  const answer = await send();
  expect(answer.status, answer.text.slice(0, 500)).toBe(200);
  const receipt = Buffer.from(String(answer.headers["x-payment-response"]), "base64").toString();
  const { transaction, ...settlement } = JSON.parse(receipt);
  expect(settlement).toEqual({ success: true, network: payment.network, payer });
  expect(await chain.rpc("eth_getTransactionReceipt", [transaction])).toMatchObject({
    status: "0x1",
    from: gateway.signer.toLowerCase(),
  });
  const amount = BigInt(payment.payload.authorization.value);
  expect(await look(payer)).toEqual({
    signerTransactions: before.signerTransactions + 1,
    payerBalance: before.payerBalance - amount,
    payeeBalance: before.payeeBalance + amount,
    upstreamRequests: before.upstreamRequests + 1,
  });
  const served = gateway.upstream.at(-1);
  expect(served).toMatchObject({
    url: "/weather?city=Oslo",
    headers: {
      "x-402-payer": payer,
      "x-402-transaction": transaction,
      "x-402-network": payment.network,
    },
  });
  expect(served?.headers).not.toHaveProperty("x-payment");
}
