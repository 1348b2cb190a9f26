/**
 * What a party of version 1 hears, byte for byte: the same requests at a gateway that speaks version 1 alone, and then
 * at one that speaks both, with the same books. Whatever version 2 adds is named here; everything else is the same. Not
 * the page for people, which is no party: it pays by version 2 where that is on.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { PaymentRequirements } from "../../../src/x402/x402.ts";
import { startChain } from "../../support/chain.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import { freshAccount, signPayment, type EvmPayment } from "../../support/payer.ts";
import { ROUTES } from "./stage.ts";

/** Lines that only a gateway with version 2 has, and those that it makes longer. */
const ADDED = /^PAYMENT-REQUIRED: .*\r\n/gim;
const LONGER = /^(Access-Control-(?:Expose|Allow)-Headers): .*$/gim;
/** What no two answers have in common. */
const DATE = /^Date: .*$/gim;
const RECEIPT = /^X-PAYMENT-RESPONSE: (.*)$/im;

interface Sent {
  readonly method?: string;
  readonly path?: string;
  readonly lines?: readonly string[];
  readonly body?: string;
  readonly listener?: "facilitator";
}

/** The payments of the requests, signed once: both gateways see the same bytes. */
interface Payments {
  readonly requirements: PaymentRequirements;
  readonly good: EvmPayment;
  /** Sold by the first gateway, and told again by both. */
  readonly sold: EvmPayment;
  readonly poor: EvmPayment;
}

const paid = (payment: unknown): readonly string[] => {
  return [`X-PAYMENT: ${Buffer.from(JSON.stringify(payment)).toString("base64")}`];
};
const origin = "Origin: https://app.example";
const JSON_TYPE = "Content-Type: application/json";

const atFacilitator = (path: string, body: unknown): Sent => ({
  method: "POST",
  path,
  lines: [JSON_TYPE],
  body: JSON.stringify(body),
  listener: "facilitator",
});

const REQUESTS: Readonly<Record<string, (payments: Payments) => Sent>> = {
  "what costs something": () => ({}),
  "what costs something, from a page of another site": () => ({ lines: [origin] }),
  "its head": () => ({ method: "HEAD" }),
  "a POST that costs something": () => ({ method: "POST", path: "/summarize", body: "{}" }),
  "what has a description in any script": () => ({ path: "/accents" }),
  "what is free": () => ({ path: "/health" }),
  "what is denied": () => ({ path: "/admin/secrets" }),
  "what is not there": () => ({ path: "/nowhere" }),
  "whether a page of another site may ask": () => ({
    method: "OPTIONS",
    lines: [origin, "Access-Control-Request-Method: GET"],
  }),
  "with a payment that cannot be read": () => ({ lines: ["X-PAYMENT: not base64 !"] }),
  "with a payment of nothing": () => ({ lines: ["X-PAYMENT: "] }),
  "with two payments": ({ good }) => ({ lines: [...paid(good), ...paid(good)] }),
  "with a payment of another version": ({ good }) => ({ lines: paid({ ...good, x402Version: 2 }) }),
  "with a payment of another scheme": ({ good }) => ({ lines: paid({ ...good, scheme: "upto" }) }),
  "with a payment on another network": ({ good }) => ({
    lines: paid({ ...good, network: "base" }),
  }),
  "with a payment in CAIP-2": ({ good }) => ({ lines: paid({ ...good, network: "eip155:84532" }) }),
  "with a payment whose signature is wrong": ({ good }) => ({
    lines: paid({ ...good, payload: { ...good.payload, signature: `0x${"1".repeat(130)}` } }),
  }),
  "with a payment of who has nothing": ({ poor }) => ({ lines: paid(poor) }),
  "with a payment that was sold": ({ sold }) => ({ lines: paid(sold) }),
  "with a payment that was sold, for something else": ({ sold }) => ({
    path: "/bare",
    lines: paid(sold),
  }),
  "the listing": () => ({ path: "/discovery/resources" }),
  "the listing in a way that is refused": () => ({ path: "/discovery/resources?limit=0" }),
  "whether a payment is valid": ({ good, requirements }) =>
    atFacilitator("/verify", { paymentPayload: good, paymentRequirements: requirements }),
  "whether a payment of who has nothing is valid": ({ poor, requirements }) =>
    atFacilitator("/verify", { paymentPayload: poor, paymentRequirements: requirements }),
  "that a payment of who has nothing be settled": ({ poor, requirements }) =>
    atFacilitator("/settle", { paymentPayload: poor, paymentRequirements: requirements }),
  "whether nothing is valid": () => atFacilitator("/verify", {}),
  "that a payment of version 3 be settled": ({ good, requirements }) =>
    atFacilitator("/settle", {
      paymentPayload: { ...good, x402Version: 3 },
      paymentRequirements: requirements,
    }),
};

const closing = new AsyncDisposableStack();
const before = new Map<string, string>();
const after = new Map<string, string>();

beforeAll(async () => {
  const chain = closing.use(await startChain());
  const folder = await mkdtemp(join(tmpdir(), "coinslot-as-before-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const payee = freshAccount().address;
  const open = (more: string): Promise<RunningGateway> =>
    startGateway({
      chain,
      payee,
      routes: ROUTES,
      storePath: join(folder, "ledger.db"),
      // Of sales, which go on between the two, the listing would tell.
      more: `cors: true\ndiscovery: { quality: false }\n${more}`,
    });
  const buyer = freshAccount();
  await chain.fund(buyer.address, 1_000_000n);
  const signing = { account: buyer.account, now: Math.floor(Date.now() / 1000) };
  let payments: Payments | undefined;
  for (const [more, answers] of [
    ["protocol: { v2: false }", before],
    ["", after],
  ] as const) {
    await using gateway = await open(more);
    const quote = await fetch(`${gateway.url}/weather`);
    const requirements: PaymentRequirements = Object(await quote.json()).accepts[0];
    payments ??= await signAll(requirements, signing, gateway);
    const sale = await signPayment({ ...signing, requirements });
    answers.set("with a payment that is good", await record(gateway, { lines: paid(sale) }));
    for (const [name, request] of Object.entries(REQUESTS)) {
      answers.set(name, await record(gateway, request(payments)));
    }
  }
});

afterAll(() => closing.disposeAsync());

async function signAll(
  requirements: PaymentRequirements,
  signing: Pick<Parameters<typeof signPayment>[0], "account" | "now">,
  gateway: RunningGateway,
): Promise<Payments> {
  const poor = { ...signing, account: freshAccount().account, requirements };
  const payments = {
    requirements,
    good: await signPayment({ ...signing, requirements }),
    sold: await signPayment({ ...signing, requirements }),
    poor: await signPayment(poor),
  };
  const answer = await record(gateway, { lines: paid(payments.sold) });
  if (!answer.startsWith("HTTP/1.1 200")) throw new Error(answer);
  return payments;
}

/** The whole answer to one request on a connection of its own, as it came over the wire. */
async function record(gateway: RunningGateway, sent: Sent): Promise<string> {
  const { method = "GET", path = "/weather?city=Oslo", lines = [], body = "", listener } = sent;
  const url = new URL(listener === undefined ? gateway.url : gateway.facilitatorUrl);
  const socket = connect(Number(url.port), url.hostname);
  const length = body === "" ? [] : [`Content-Length: ${Buffer.byteLength(body)}`];
  const head = [`${method} ${path} HTTP/1.1`, "Host: shop.example", "Connection: close"];
  socket.write(`${[...head, ...length, ...lines].join("\r\n")}\r\n\r\n${body}`);
  return (await buffer(socket)).toString("latin1");
}

/** Where a buyer asks what became of his payment: each has an address of its own. */
const STATUS = /(\/\.well-known\/x402\/payments\/)[\w.-]+/g;

/** Without the lines of version 2, the moment, and what tells one payment from another. */
function comparable(answer: string): string {
  const same = answer.replaceAll(ADDED, "").replaceAll(LONGER, "$1").replaceAll(DATE, "Date");
  return same.replaceAll(STATUS, "$1ID");
}

test.each(Object.keys(REQUESTS))("asked for %s, both answer the same bytes", (name) => {
  const [older = "", both = ""] = [before.get(name), after.get(name)];
  expect(older).toMatch(/^HTTP\/1\.1 \d{3} /);
  expect(comparable(both)).toBe(comparable(older));
});

test("a sale is answered with the same bytes, but for the transaction in the receipt", () => {
  const name = "with a payment that is good";
  const [older, both] = [before, after].map((answers) => {
    const answer = answers.get(name) ?? "";
    const receipt = Buffer.from(RECEIPT.exec(answer)?.[1] ?? "", "base64").toString();
    const { transaction } = JSON.parse(receipt);
    expect(transaction).toMatch(/^0x[0-9a-f]{64}$/);
    return comparable(answer).replace(RECEIPT, receipt.replace(transaction, "its own"));
  });
  expect(older).toMatch(/^HTTP\/1\.1 200 /);
  expect(both).toBe(older);
});

test("what version 2 adds is there, and nowhere else", () => {
  const count = (answers: ReadonlyMap<string, string>, pattern: RegExp): number => {
    return [...answers.values()].filter((answer) => answer.search(pattern) !== -1).length;
  };
  const all = before.size;
  expect([count(before, ADDED), count(before, /PAYMENT-SIGNATURE header is/)]).toEqual([0, 0]);
  const asking = count(after, /^HTTP\/1\.1 40[02] [^]*"accepts"/);
  expect(asking).toBeGreaterThan(10);
  // The head of what costs something asks besides.
  expect(count(after, ADDED)).toBe(asking + 1);
  expect(after.size).toBe(all);
});
