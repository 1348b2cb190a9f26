/** Signatures that prove nothing, by the thousand, while others buy: what they may ask of the node, and of whom. */
import { randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  onTestFinished,
} from "vitest";
import { MAX_DOUBTED_CALLS, MAX_PROVEN_CALLS } from "../../src/mechanism/evm/first-look.ts";
import { MAX_UNPROVEN_CALLS } from "../../src/mechanism/judging-lane.ts";
import { encodePaymentHeader } from "../../src/x402/header.ts";
import type { EvmAuthorization, PaymentRequirements } from "../../src/x402/x402.ts";
import { present, quote, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, signPayment } from "../support/payer.ts";
import { startScriptedFacilitator } from "../support/scripted-facilitator.ts";
import { startRpcProxy, type Question, type RpcProxy } from "../support/rpc-proxy.ts";

const JUNK = 500;
const BUYERS = 20;
const CUT = { status: 0 };
const TOLD_TO_STRANGERS = new Set([CUT.status, 402, 429, 500]);
/** Hundreds of clients beside the gateway in one process: a busy machine needs more than the usual time. */
const CROWDED = { timeout: 60_000 };
/** Usual for a node elsewhere. */
const LATENCY_MS = 200;
/** ERC-1271, as asked of the payer. */
const IS_VALID_SIGNATURE = "1626ba7e";

let chain: Chain;
/** What the gateway asks, and the way from there to the chain. */
let node: RpcProxy;
let distance: RpcProxy;
let gateway: RunningGateway;
let offer: PaymentRequirements;

beforeAll(async () => {
  chain = await startChain();
});

afterAll(() => chain.stop());

beforeEach(async () => {
  distance = await startRpcProxy(chain.rpcUrl);
  node = await startRpcProxy(distance.url);
  const more = "trustedProxies: [127.0.0.1]";
  gateway = await startGateway({ chain, rpcUrl: node.url, more });
  offer = await quote(weather());
});

afterEach(async () => {
  await gateway[Symbol.asyncDispose]();
  await node[Symbol.asyncDispose]();
  await distance[Symbol.asyncDispose]();
});

const weather = (): string => `${gateway.url}/weather`;
const from = (address: string) => ({ headers: { "X-Forwarded-For": address } });

/** A payment in the name of a contract that has nothing to do with it. */
function junk(members: Partial<EvmAuthorization> = {}): string {
  const now = Math.floor(Date.now() / 1000);
  const authorization = {
    from: chain.asset,
    to: offer.payTo,
    value: offer.maxAmountRequired,
    validAfter: "0",
    validBefore: String(now + 60),
    nonce: `0x${randomBytes(32).toString("hex")}` as const,
    ...members,
  };
  const signature = `0x${randomBytes(64).toString("hex")}1b` as const;
  const { scheme, network } = offer;
  const payload = { signature, authorization };
  return encodePaymentHeader({ x402Version: 1, scheme, network, payload });
}

/** The status that a stranger is told; of so many connections a busy machine may cut one. */
async function show(header: string, address: string): Promise<number> {
  const answer = await present(weather(), header, from(address)).catch(() => CUT);
  return answer.status;
}

const showJunk = (address: string): Promise<number> => show(junk(), address);

/** Whether it is about a signature that proves nothing. */
function isAboutJunk({ method, params }: Question): boolean {
  if (method === "eth_getCode")
    return params[0] === chain.asset.toLowerCase() && params[1] === "pending";
  return method === "eth_call" && JSON.stringify(params).includes(IS_VALID_SIGNATURE);
}

/** What a payment may make us ask; other questions are our own, about fees and balances. */
const calls = (): readonly Question[] =>
  node.questions.filter(({ method }) => /^eth_(?:call|getCode)$/.test(method));

interface Flood {
  /** The most questions about junk that were open at once. */
  readonly peak: () => number;
  /** Statuses, when all is over. */
  readonly end: () => Promise<readonly number[]>;
}

/** All of it at once, before a node that takes its time; resolves when the node has the first question about it. */
async function flood(addressOf: (index: number) => string): Promise<Flood> {
  let open = 0;
  let peak = 0;
  const counted = node.inject({
    when(question) {
      if (!isAboutJunk(question)) return false;
      open += 1;
      peak = Math.max(peak, open);
      return true;
    },
    rewrite(result) {
      open -= 1;
      return result;
    },
  });
  distance.inject({ delayMs: LATENCY_MS });
  const answers = Array.from({ length: JUNK }, (_, index) => showJunk(addressOf(index)));
  await counted.hit();
  return { peak: () => peak, end: () => Promise.all(answers) };
}

/** Each buys once, all at the same time, from addresses of their own. */
async function buyTogether(): Promise<readonly number[]> {
  const headers = await Promise.all(
    Array.from({ length: BUYERS }, async () => sign(await richBuyer(chain), weather())),
  );
  return Promise.all(
    headers.map(async (header, index) => {
      return (await present(weather(), header, from(`203.0.113.${index}`))).status;
    }),
  );
}

async function readiness(): Promise<number> {
  return (await fetch(`${gateway.adminUrl}/readyz`)).status;
}

describe(`${JUNK} junk signatures at once`, CROWDED, () => {
  it.each([
    ["one address", () => "192.0.2.1"],
    ["200 addresses", (index: number) => `192.0.2.${index % 200}`],
  ])("from %s keep no buyer waiting", async (_name, addressOf) => {
    const { peak, end } = await flood(addressOf);
    const allServed = Array.from({ length: BUYERS }, () => 200);
    expect(await buyTogether()).toEqual(allServed);
    expect(await readiness()).toBe(200);
    expect((await end()).filter((status) => !TOLD_TO_STRANGERS.has(status))).toEqual([]);
    expect(peak()).toBe(MAX_UNPROVEN_CALLS);
    const after = await present(weather(), junk(), from("198.51.100.1"));
    expect(after).toMatchObject({ status: 402 });
    expect(await buyTogether()).toEqual(allServed);
    expect(gateway.upstream).toHaveLength(2 * BUYERS);
  });
});

describe("a payment whose signature proves nothing", CROWDED, () => {
  it("asks the node nothing where it could never fit", async () => {
    const now = Math.floor(Date.now() / 1000);
    const before = calls().length;
    for (const members of [
      { value: "0" },
      { to: freshAccount().address },
      { validBefore: "1" },
      { validAfter: String(now + 3_600), validBefore: String(now + 7_200) },
      { from: `0x${"0".repeat(40)}` as const },
    ]) {
      expect(await present(weather(), junk(members))).toMatchObject({ status: 402 });
    }
    expect(calls().length).toBe(before);
  });

  it("is a smart wallet's, and bought with while another address does what it can", async () => {
    const owner = freshAccount();
    const wallet = await chain.deployWallet(owner.address);
    await chain.fund(wallet, 1_000_000n);
    const { end } = await flood(() => "192.0.2.1");
    const header = await sign(owner, weather(), { overrides: { from: wallet } });
    const bought = await present(weather(), header, from("203.0.113.1"));
    expect(bought).toMatchObject({ status: 200 });
    await end();
  });
});

/** Signed well, by keys that hold nothing. */
async function signPoor(): Promise<readonly string[]> {
  const signed = Array.from({ length: JUNK }, async () => {
    const { account } = freshAccount();
    return encodePaymentHeader(await signPayment({ account, requirements: offer }));
  });
  return Promise.all(signed);
}

describe(`${JUNK} payments of empty keys at once`, CROWDED, () => {
  it.each([
    ["one address", () => "192.0.2.1"],
    ["200 addresses", (index: number) => `192.0.2.${index % 200}`],
  ])("from %s keep no buyer waiting, and few calls tell of all", async (_name, addressOf) => {
    const poor = await signPoor();
    const before = calls().length;
    distance.inject({ delayMs: LATENCY_MS });
    const flooding = poor.map((header, index) => show(header, addressOf(index)));
    await expect.poll(() => calls().length, { timeout: 20_000 }).toBeGreaterThan(before);
    expect(await buyTogether()).toEqual(Array.from({ length: BUYERS }, () => 200));
    expect(await readiness()).toBe(200);
    const told = await Promise.all(flooding);
    expect(told.filter((status) => !TOLD_TO_STRANGERS.has(status))).toEqual([]);
    expect(told.filter((status) => status === 402).length).toBeGreaterThan(JUNK / 4);
    // Up to 32 go together, and fewer where a busy machine brings them one after another: each alone would be twice this.
    const judged = told.filter((status) => status === 402).length;
    expect(calls().length - before).toBeLessThan(judged / 2 + 10 * BUYERS);
  });
});

/** Far away as well; it says of each payment what its payer tells of it, and that the poor have nothing. */
async function startDistantFacilitator(isJunk: (from: string) => boolean, invalidReason: string) {
  let open = 0;
  let peak = 0;
  let asked = 0;
  const answer = async (path: string, counts: boolean): Promise<object> => {
    if (path === "/supported") {
      return { kinds: [{ x402Version: 1, scheme: "exact", network: chain.network.name }] };
    }
    asked += Number(counts);
    open += Number(counts);
    peak = Math.max(peak, open);
    await pause(LATENCY_MS);
    open -= Number(counts);
    const payer = freshAccount().address;
    if (path === "/verify")
      return counts ? { isValid: false, invalidReason, payer } : { isValid: true, payer };
    const transaction = `0x${randomBytes(32).toString("hex")}`;
    return { success: true, payer, transaction, network: chain.network.name };
  };
  const facilitator = await startScriptedFacilitator(({ url, body }) => ({
    async raw(response) {
      const [, payer = ""] = /"from":"(\w+)"/.exec(body) ?? [];
      const told = await answer(url, isJunk(payer));
      response.setHeader("content-type", "application/json").end(JSON.stringify(told));
    },
  }));
  onTestFinished(() => facilitator.close());
  await gateway[Symbol.asyncDispose]();
  const more = "trustedProxies: [127.0.0.1]";
  gateway = await startGateway({ chain, more, facilitator: `"${facilitator.url}"` });
  offer = await quote(weather());
  return { peak: () => peak, asked: () => asked };
}

describe("where somebody else settles", CROWDED, () => {
  it("junk keeps no buyer waiting, and what can never fit is asked about by nobody", async () => {
    const code = "invalid_exact_evm_payload_signature";
    const distant = await startDistantFacilitator((payer) => payer === chain.asset, code);
    expect(await present(weather(), junk({ value: "0" }))).toMatchObject({ status: 402 });
    expect(distant.asked()).toBe(0);

    const flooding = Array.from({ length: JUNK }, (_, index) => showJunk(`192.0.2.${index % 200}`));
    await expect.poll(distant.asked, { timeout: 20_000 }).toBeGreaterThan(0);
    await seeBuyersServed(flooding);
    expect(distant.peak()).toBe(MAX_DOUBTED_CALLS);
  });

  it("empty keys keep no buyer waiting", async () => {
    const rich = new Set<string>();
    const distant = await startDistantFacilitator(
      (payer) => payer !== "" && !rich.has(payer),
      "insufficient_funds",
    );
    // Each takes a turn of the few that the facilitator has.
    const poor = (await signPoor()).slice(0, JUNK / 4);
    const flooding = poor.map((header, index) => show(header, `192.0.2.${index % 200}`));
    await expect.poll(distant.asked, { timeout: 20_000 }).toBeGreaterThan(0);
    const served = Array.from({ length: BUYERS }, async (_, index) => {
      const buyer = await richBuyer(chain);
      rich.add(buyer.address);
      const header = await sign(buyer, weather());
      return present(weather(), header, from(`203.0.113.${index}`));
    });
    for (const { status } of await Promise.all(served)) expect(status).toBe(200);
    for (const status of await Promise.all(flooding)) expect(TOLD_TO_STRANGERS).toContain(status);
    // How many meet at one moment is up to the machine; more than may be never do.
    expect(distant.peak()).toBeLessThanOrEqual(MAX_PROVEN_CALLS);
    expect(distant.peak()).toBeGreaterThan(MAX_PROVEN_CALLS / 2);
  });
});

async function seeBuyersServed(flooding: readonly Promise<number>[]): Promise<void> {
  expect(await buyTogether()).toEqual(Array.from({ length: BUYERS }, () => 200));
  for (const status of await Promise.all(flooding)) expect(TOLD_TO_STRANGERS).toContain(status);
}
