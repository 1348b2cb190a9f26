/** Settlements of keys that hold nothing, by the thousand, at a facilitator that anybody may call, while others buy. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { FacilitatorRequest } from "../../src/x402/x402.ts";
import { present, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, requirementsFor, signPayment } from "../support/payer.ts";
import { startRpcProxy, type RpcProxy } from "../support/rpc-proxy.ts";

const PENNILESS = 1_200;
const BUYERS = 20;
/** Of so many connections a busy machine may cut one. */
const CUT = 0;
/** A thousand callers beside the gateway in one process: a busy machine needs more than the usual time. */
const CROWDED = { timeout: 60_000 };
/** Usual for a node elsewhere. */
const LATENCY_MS = 200;

let chain: Chain;
let node: RpcProxy;
let distance: RpcProxy;
let gateway: RunningGateway;
let payee: `0x${string}`;
let payments: readonly FacilitatorRequest[];

beforeAll(async () => {
  chain = await startChain();
  payee = freshAccount().address;
  const paymentRequirements = requirementsFor(chain.network.name, { payTo: payee });
  const request = async (): Promise<FacilitatorRequest> => {
    const { account } = freshAccount();
    const overrides = { validBefore: String(2n ** 256n - 1n) };
    const paymentPayload = await signPayment({
      account,
      requirements: paymentRequirements,
      overrides,
    });
    return { paymentPayload, paymentRequirements };
  };
  payments = await Promise.all(Array.from({ length: PENNILESS }, request));
}, CROWDED.timeout);

afterAll(() => chain.stop());

beforeEach(async () => {
  distance = await startRpcProxy(chain.rpcUrl);
  node = await startRpcProxy(distance.url);
  gateway = await startGateway({
    chain,
    payee,
    rpcUrl: node.url,
    more: "trustedProxies: [127.0.0.1]",
  });
});

afterEach(async () => {
  await gateway[Symbol.asyncDispose]();
  await node[Symbol.asyncDispose]();
  await distance[Symbol.asyncDispose]();
});

const weather = (): string => `${gateway.url}/weather`;

async function settle(request: FacilitatorRequest, address: string): Promise<number> {
  const answer = await fetch(`${gateway.facilitatorUrl}/settle`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Forwarded-For": address },
    body: JSON.stringify({ x402Version: 1, ...request }),
  }).catch(() => undefined);
  await answer?.arrayBuffer();
  return answer?.status ?? CUT;
}

/** Until the node is asked about one of them. */
async function asked(): Promise<void> {
  const keys = payments.map(({ paymentPayload }) => {
    const { authorization } = Object(paymentPayload.payload);
    return String(authorization.from).slice(2).toLowerCase();
  });
  const counted = node.inject({
    when({ method, params }) {
      const text = method === "eth_call" ? JSON.stringify(params).toLowerCase() : "";
      return text !== "" && keys.some((key) => text.includes(key));
    },
    rewrite: (result) => result,
  });
  await counted.hit();
  counted.lift();
}

describe(`${PENNILESS} settlements of keys that hold nothing`, CROWDED, () => {
  it.each([
    ["one address", () => "192.0.2.1"],
    ["20 addresses", (index: number) => `192.0.2.${index % 20}`],
  ])("from %s keep no buyer of the gateway waiting", async (_name, addressOf) => {
    const headers = await Promise.all(
      Array.from({ length: BUYERS }, async () => sign(await richBuyer(chain), weather())),
    );
    distance.inject({ delayMs: LATENCY_MS });
    const told = payments.map((each, index) => settle(each, addressOf(index)));
    await asked();
    const bought = await Promise.all(
      headers.map(async (header, index) => {
        const from = { headers: { "X-Forwarded-For": `203.0.113.${index}` } };
        return (await present(weather(), header, from)).status;
      }),
    );
    expect(bought).toEqual(Array.from({ length: BUYERS }, () => 200));
    const statuses = await Promise.all(told);
    expect(statuses.filter((status) => ![CUT, 200, 503].includes(status))).toEqual([]);
  });
});
