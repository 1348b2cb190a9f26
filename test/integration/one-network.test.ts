/**
 * Four ways to pay, and what becomes of each other when one fails: an RPC endpoint that is dead, an account without gas,
 * an endpoint of another chain, a facilitator that answers 401; in turn and together, while official clients buy.
 */
import { createServer, type Server } from "node:http";
import { buffer } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment as payVersion2, x402Client } from "@x402/fetch";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { wrapFetchWithPayment as payVersion1 } from "x402-fetch";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { networkOf, type NetworkName } from "../../src/x402/network.ts";
import { PURSE } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startFacilitator, type RunningFacilitator } from "../support/facilitator.ts";
import { freshAccount } from "../support/payer.ts";
import { startRpcProxy, type RpcProxy } from "../support/rpc-proxy.ts";
import { Site, type Served } from "../support/serve.ts";
import { metricOf } from "./workers/stage.ts";
import { readScrape } from "../unit/telemetry/scrape.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const PRICE = 10_000n;
const BEARER = "a-token-of-the-test";
/** How long a buyer may have to wait for what he was told, milliseconds. */
const COMES_TRUE = { timeout: 20_000, interval: 20 };
/** Tries of one purchase, each as the answer before it has told: more, and its buyer was refused. */
const MAX_TRIES = 3;
/** Purchases that have to come about while something is broken. */
const SOME = 6;

/** Those whose tokens the newer client knows: it pays with no others. */
const DEAD: NetworkName = "base";
const EMPTY: NetworkName = "avalanche";
const WRONG: NetworkName = "polygon";
const ELSEWHERE: NetworkName = "sei";
const NETWORKS = [DEAD, EMPTY, WRONG, ELSEWHERE] as const;

const closing = new AsyncDisposableStack();
const signer = freshAccount();
const payee = freshAccount();
const chains = new Map<NetworkName, Chain>();
const proxies = new Map<NetworkName, RpcProxy>();
let facilitator: RunningFacilitator;
let door: Door;
let site: Site;
let served: Served;

beforeAll(async () => {
  await Promise.all(
    NETWORKS.map(async (network) => {
      const chain = closing.use(await startChain({ network }));
      await chain.fund(signer.address, 0n, 10n ** 18n);
      chains.set(network, chain);
      proxies.set(network, closing.use(await startRpcProxy(chain.rpcUrl)));
    }),
  );
  facilitator = closing.use(await startFacilitator({ chain: chainOf(ELSEWHERE), bearer: BEARER }));
  door = closing.use(await openDoor(facilitator.url));
  const backend = createServer((_, response) => response.end("sunny"));
  const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(backend, AbortSignal.abort()));
  const settled = [DEAD, EMPTY, WRONG].map(
    (network) =>
      `      ${network}: { rpc: ["${proxyOf(network).url}"], signers: [env:SIGNER], confirmations: 1 }`,
  );
  site = closing.use(await Site.create());
  proxyOf(WRONG).inject({ method: "eth_chainId", result: "0x1", times: 2 });
  await site.write(`
upstream: http://127.0.0.1:${port}
payTo: "${payee.address}"
accept: [${NETWORKS.join(", ")}]
facilitator:
  embedded:
    networks:
${settled.join("\n")}
  remote: [{ url: "${door.url}", headers: { Authorization: "Bearer ${BEARER}" } }]
unmatched: deny
workers: 2
logging: { level: info }
routes:
  GET /weather: { price: $0.01, description: Weather }
`);
});

afterAll(() => closing.disposeAsync());

function chainOf(network: NetworkName): Chain {
  const chain = chains.get(network);
  if (chain === undefined) throw new Error(`no chain of ${network}`);
  return chain;
}

function proxyOf(network: NetworkName): RpcProxy {
  const proxy = proxies.get(network);
  if (proxy === undefined) throw new Error(`no proxy of ${network}`);
  return proxy;
}

interface Door extends AsyncDisposable {
  readonly url: string;
  isShut: boolean;
}

/** The way to a facilitator, which may not know its caller any more. */
async function openDoor(to: string): Promise<Door> {
  const server: Server = createServer((request, response) => {
    const answer = async (): Promise<void> => {
      const body = new Uint8Array(await buffer(request));
      if (state.isShut) {
        response.writeHead(401, { "content-type": "application/json" }).end("{}");
        return;
      }
      const { authorization = "", "content-type": type = "" } = request.headers;
      const { method = "GET" } = request;
      const key = request.headers["idempotency-key"];
      const headers = {
        authorization,
        "content-type": type,
        ...(typeof key === "string" && { "idempotency-key": key }),
      };
      const init = method === "GET" ? { headers } : { method, headers, body };
      const told = await fetch(to + (request.url ?? ""), init);
      response.writeHead(told.status, { "content-type": "application/json" });
      response.end(await told.text());
    };
    answer().catch(() => response.destroy());
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  const state = {
    url: `http://127.0.0.1:${port}`,
    isShut: false,
    [Symbol.asyncDispose]: () => drain(server, AbortSignal.abort()),
  };
  return state;
}

const FAULTS: Readonly<
  Record<string, { readonly begin: () => Promise<void>; readonly end: () => Promise<void> }>
> = {
  [DEAD]: { begin: () => proxyOf(DEAD).down(), end: () => proxyOf(DEAD).up() },
  [EMPTY]: {
    begin: () => chainOf(EMPTY).fund(signer.address, 0n, 0n),
    end: () => chainOf(EMPTY).fund(signer.address, 0n, 10n ** 18n),
  },
  [WRONG]: {
    // What was there is gone, and another chain's node has its address.
    begin: async () => {
      other = proxyOf(WRONG).inject({ method: "eth_chainId", result: "0x1" });
      proxyOf(WRONG).inject({ method: "eth_call", drop: true, times: 2 });
    },
    end: async () => other?.lift(),
  },
  [ELSEWHERE]: {
    begin: async () => void (door.isShut = true),
    end: async () => void (door.isShut = false),
  },
};
let other: ReturnType<RpcProxy["inject"]> | undefined;

/** How often all ways to pay were closed, and whether they are: from the last fault until all of them are open again. */
interface Outages {
  isOut: boolean;
  count: number;
}

/** Whoever buys again and again, on one network where he can, and as he is told where he cannot. */
class Customer {
  readonly #account = freshAccount();
  readonly #prefers: NetworkName;
  readonly #pay: typeof fetch;
  #shown: string | undefined;
  bought = 0;
  /** Purchases that were told to be made in another way, or later. */
  told = 0;
  readonly refused: string[] = [];
  /** Payments of which it was not known whether they had moved, to be shown again. */
  readonly open: { readonly name: string; readonly value: string }[] = [];

  constructor(prefers: NetworkName, version: 1 | 2) {
    this.#prefers = prefers;
    const { account } = this.#account;
    const isWanted = ({ network }: { readonly network: string }): boolean =>
      network === prefers || network === networkOf(prefers).caip2;
    const name = version === 1 ? "X-PAYMENT" : "PAYMENT-SIGNATURE";
    const asking: typeof fetch = async (input, init) => {
      const headers = new Headers(input instanceof Request ? input.headers : init?.headers);
      this.#shown = headers.get(name) ?? undefined;
      return fetch(input, init);
    };
    this.name = name;
    if (version === 1) {
      this.#pay = payVersion1(asking, account, undefined, (accepts) => {
        const [first] = accepts;
        const chosen = accepts.find(isWanted) ?? first;
        if (chosen === undefined) throw new Error("nothing is asked for");
        return chosen;
      }) as typeof fetch;
    } else {
      const client = new x402Client((_, accepts) => {
        const [first] = accepts;
        const chosen = accepts.find(isWanted) ?? first;
        if (chosen === undefined) throw new Error("nothing is asked for");
        return chosen;
      }).register("eip155:*", new ExactEvmScheme(account));
      this.#pay = payVersion2(asking, client) as typeof fetch;
    }
  }

  readonly name: string;

  async fund(): Promise<void> {
    for (const chain of chains.values()) await chain.fund(this.#account.address, PURSE);
  }

  /** Until the signal ends it; `outages`: when there was no way to pay, and when there is none. */
  async shop(signal: AbortSignal, outages: Outages): Promise<void> {
    while (!signal.aborted) {
      const { isOut, count } = outages;
      const said = await this.#purchase();
      // Else nobody could have paid, all the time or some of it.
      const hadWay = !isOut && count === outages.count;
      if (said !== undefined && hadWay) this.refused.push(`${this.#prefers}: ${said}`);
      if (said !== undefined) await pause(100);
    }
  }

  /** What was said last where it came to nothing. */
  async #purchase(): Promise<string | undefined> {
    let said = "";
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      this.#shown = undefined;
      const response = await this.#pay(`${served.url}/weather`, { method: "GET" });
      const text = await response.text();
      if (response.status === 200) {
        this.bought += 1;
        return undefined;
      }
      this.told += 1;
      said = `${response.status} ${text}`;
      if (text.includes("send the same payment again") && this.#shown !== undefined) {
        this.open.push({ name: this.name, value: this.#shown });
        return undefined;
      }
      const seconds = Number(response.headers.get("retry-after") ?? 0);
      if (response.status !== 402) await pause(1_000 * seconds);
    }
    return said;
  }
}

async function offered(): Promise<readonly string[]> {
  const answer = await fetch(`${served.url}/weather`);
  const { accepts = [] } = Object(await answer.json());
  return accepts.map(({ network }: { readonly network: string }) => network);
}

/** `/readyz` in one line. */
async function readiness(): Promise<string> {
  const answer = await fetch(`${served.adminUrl}/readyz`);
  return `${answer.status} ${(await answer.text()).trim().replaceAll("\n- ", ", ")}`;
}

async function gauges(): Promise<Readonly<Record<string, string>>> {
  const { samples } = readScrape(await (await fetch(`${served.adminUrl}/metrics`)).text());
  const isOf = (wanted: string) => samples.filter(({ name }) => name === wanted);
  const open = isOf("coinslot_network_open").map(({ labels, value }) => [
    labels["network"],
    String(value),
  ]);
  const reasons = isOf("coinslot_network_closed_reason").map(({ labels }) => [
    labels["network"],
    `0 ${labels["reason"]}`,
  ]);
  return Object.fromEntries([...open, ...reasons]);
}

test("one that fails costs nobody a purchase who can pay on another", async () => {
  served = await site.launch({ SIGNER: signer.privateKey });
  await served.untilReady();
  const versions = [2, 1, 1, 2] as const;
  const customers = NETWORKS.map((network, index) => new Customer(network, versions[index] ?? 1));
  await Promise.all(customers.map((customer) => customer.fund()));
  const outages: Outages = { isOut: false, count: 0 };
  const ending = new AbortController();
  const shopping = customers.map((customer) => customer.shop(ending.signal, outages));
  const bought = (): number => customers.reduce((sum, each) => sum + each.bought, 0);
  const untilBought = async (): Promise<void> => {
    const before = bought();
    await vi.waitUntil(() => bought() >= before + SOME, COMES_TRUE);
  };
  const untilOffered = (networks: readonly NetworkName[]) =>
    expect
      .poll(async () => [...(await offered())].sort(), COMES_TRUE)
      .toEqual([...networks].sort());
  const untilAllAreOpen = () => untilOffered(NETWORKS);
  const reasonOf: Readonly<Record<string, string>> = {
    [DEAD]: "rpc",
    [EMPTY]: "wallet",
    [WRONG]: "chain",
    [ELSEWHERE]: "unauthorized",
  };
  const isClosed = (network: string): string => `${network}: closed (${reasonOf[network]})`;
  const begin = (network: NetworkName) => FAULTS[network]?.begin();
  const end = (network: NetworkName) => FAULTS[network]?.end();

  await untilBought();
  await untilAllAreOpen();

  // In turn.
  for (const network of NETWORKS) {
    await begin(network);
    await untilOffered(NETWORKS.filter((each) => each !== network));
    expect(await readiness()).toMatch(/^200 ready, /);
    expect(await readiness()).toContain(isClosed(network));
    expect(await gauges()).toMatchObject({ [network]: `0 ${reasonOf[network]}` });
    await untilBought();
    await end(network);
    await untilAllAreOpen();
    // Offered again behind those that have not failed.
    expect((await offered()).indexOf(network)).toBeGreaterThan(0);
  }

  // Together.
  const [dead, empty, wrong, elsewhere] = NETWORKS;
  for (const network of [dead, empty, wrong]) await begin(network);
  await untilOffered([elsewhere]);
  expect(await readiness()).toMatch(/^200 ready, /);
  await untilBought();
  outages.isOut = true;
  outages.count += 1;
  await begin(elsewhere);
  await untilOffered([]);
  const answer = await fetch(`${served.url}/weather`);
  expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "2"]);
  expect(await readiness()).toBe(
    `503 not ready, nothing can be served, ${NETWORKS.map(isClosed).join(", ")}`,
  );
  for (const network of NETWORKS) await end(network);
  await untilAllAreOpen();
  await served.untilReady();
  outages.isOut = false;
  await untilBought();
  ending.abort();
  await Promise.all(shopping);

  // Nothing is lost that was on its way as its network failed, and nobody has paid for nothing.
  const open = customers.flatMap((customer) => customer.open);
  for (const { name, value } of open) {
    const show = async (): Promise<number> => {
      return (await fetch(`${served.url}/weather`, { headers: { [name]: value } })).status;
    };
    await expect.poll(show, COMES_TRUE).toBe(200);
  }
  let paid = 0n;
  for (const chain of chains.values()) paid += await chain.balanceOf(payee.address);
  expect(customers.flatMap(({ refused }) => refused)).toEqual([]);
  expect(paid).toBe(PRICE * BigInt(bought() + open.length));
  expect(await metricOf(served, "coinslot_worker_deaths_total")).toBe(0);
  expect(await served.end("SIGTERM")).toBe(0);
  const log = served.output().stdout;
  for (const network of [DEAD, EMPTY, WRONG]) {
    expect(log).toMatch(new RegExp(`"network":"${network}".*network is closed`));
  }
  expect(log).toContain("facilitator is closed");
});
