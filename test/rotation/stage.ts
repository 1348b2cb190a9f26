/**
 * A gateway in this process whose configuration is changed key by key while buyers pay: each is told a price, waits a
 * moment, in which the configuration may have become another one, and pays what he was told. Two real chains, a
 * facilitator of somebody else's, and backends that count what they give away.
 */
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { stringify } from "yaml";
import { start, type Running } from "../../src/app.ts";
import { formatProblems, parseConfig, type ParseResult } from "../../src/config/config.ts";
import { encodeHeaderJson } from "../../src/x402/header.ts";
import { isRecord } from "../../src/x402/json.ts";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import { present } from "../support/buyer.ts";
import type { Chain } from "../support/chain.ts";
import { startFacilitator } from "../support/facilitator.ts";
import { freshAccount, signPayment, type FreshAccount } from "../support/payer.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { freshSolanaKey } from "../support/solana-key.ts";
import { USDC_DEVNET } from "../support/solana/set-up.ts";
import { GENESIS_HASHES, startSolanaNode } from "../support/solana/solana-node.ts";
import { SECRET } from "../unit/webhooks/webhook-receiver.ts";

/** Longest that a buyer thinks about a price, milliseconds. */
const THINKING_MS = 200;
/** Atomic units that a buyer owns: he is never out of money. */
const PURSE = 10n ** 12n;
const RICH_WEI = 10n ** 20n;

/** A configuration file as values. */
export type File = Record<string, unknown>;

/** Everything that a file can name. */
export interface Names {
  readonly backends: readonly [string, string];
  readonly rpc: string;
  /** Another way to the same chain. */
  readonly otherRpc: string;
  readonly solanaRpc: string;
  readonly facilitator: string;
  readonly payees: readonly [string, string];
  readonly solanaPayees: readonly [string, string];
  readonly folder: string;
}

export interface Outcome {
  readonly paid: number;
  /** What went wrong, each a line; empty: nothing. */
  readonly faults: readonly string[];
}

/** What the backend says of itself. */
const DESCRIPTION = JSON.stringify({
  openapi: "3.1.0",
  info: { title: "A backend", version: "1" },
  paths: { "/paid": { get: { responses: { 200: { description: "What everybody buys" } } } } },
});

export class RotationStage {
  readonly names: Names;
  readonly #chain: Chain;
  readonly #running: Running;
  readonly #served: { count: number };
  readonly #text: { now: string };
  readonly #closing: AsyncDisposableStack;
  readonly #parse: () => ParseResult;

  private constructor(parts: {
    names: Names;
    chain: Chain;
    running: Running;
    served: { count: number };
    text: { now: string };
    closing: AsyncDisposableStack;
    parse: () => ParseResult;
  }) {
    this.names = parts.names;
    this.#chain = parts.chain;
    this.#running = parts.running;
    this.#served = parts.served;
    this.#text = parts.text;
    this.#closing = parts.closing;
    this.#parse = parts.parse;
  }

  static async open(chain: Chain, fileOf: (names: Names) => File): Promise<RotationStage> {
    await using closing = new AsyncDisposableStack();
    const [one, two] = [freshAccount(), freshAccount()];
    for (const { address } of [one, two]) await chain.fund(address, 0n, RICH_WEI);
    const proxy = closing.use(await startRpcProxy(chain.rpcUrl));
    const facilitator = closing.use(await startFacilitator({ chain }));
    const genesisHash = GENESIS_HASHES["solana-devnet"];
    const node = closing.use(await startSolanaNode({ slotMs: 400, genesisHash }));
    const solana = [
      freshSolanaKey(),
      freshSolanaKey(),
      freshSolanaKey(),
      freshSolanaKey(),
    ] as const;
    for (const { address } of solana) node.fundSol(address, 1_000_000_000n);
    const [first, second, ...payees] = solana;
    for (const { address: owner } of payees) {
      await node.fundToken({ mint: USDC_DEVNET, owner, amount: 1n });
    }
    const served = { count: 0 };
    const backends = [await openBackend(served, closing), await openBackend(served, closing)];
    const folder = await mkdtemp(join(tmpdir(), "coinslot-rotation-"));
    closing.defer(() => rm(folder, { recursive: true, force: true }));
    const names: Names = {
      backends: [backends[0] ?? "", backends[1] ?? ""],
      rpc: chain.rpcUrl,
      otherRpc: proxy.url,
      solanaRpc: node.rpcUrl,
      facilitator: facilitator.url,
      payees: [freshAccount().address, freshAccount().address],
      solanaPayees: [payees[0].address, payees[1].address],
      folder,
    };
    const env = {
      ONE: one.privateKey,
      TWO: two.privateKey,
      SOLANA_ONE: first.secret,
      SOLANA_TWO: second.secret,
      WEBHOOK_SECRET: SECRET,
      OTHER_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 8).toString("base64")}`,
    };
    const text = { now: textOf(fileOf(names)) };
    const parse = (): ParseResult =>
      parseConfig(text.now, {
        file: join(folder, "gateway.yaml"),
        env,
        readFile: (name) => (name.endsWith(".json") ? DESCRIPTION : "# nobody\n"),
      });
    const parsed = parse();
    if (!parsed.ok) throw new Error(formatProblems(parsed.problems, parsed.text));
    const options = { load: async () => parse(), read: parsed };
    const running = await start(parsed.config, "test", options);
    closing.defer(() => running.close());
    return new RotationStage({
      names,
      chain,
      running,
      served,
      text,
      parse,
      closing: closing.move(),
    });
  }

  /** Reloads with that file. Undefined: it was taken up, else why not. */
  async change(file: File | string): Promise<string | undefined> {
    this.#text.now = typeof file === "string" ? file : textOf(file);
    const { reloaded, problems } = await this.#running.reload("POST /-/reload", {
      allowsFree: typeof file !== "string",
    });
    return reloaded ? undefined : formatProblems(problems, this.#parse().text);
  }

  /** What the route costs that everybody buys: atomic units, of the first offer. */
  async price(): Promise<string> {
    return (await this.#quote(AbortSignal.timeout(20_000)))?.maxAmountRequired ?? "free";
  }

  /** Buyers pay until the work is done, and then all that was paid is counted. */
  async underLoad(buyers: number, work: () => Promise<void>): Promise<Outcome> {
    const over = new AbortController();
    const faults: string[] = [];
    const before = this.#served.count;
    const accounts = Array.from({ length: buyers }, freshAccount);
    for (const { address } of accounts) await this.#chain.fund(address, PURSE);
    const spent = new Map<FreshAccount, bigint>();
    const received = new Map<string, bigint>();
    let paid = 0;
    const received0 = await this.#balances();
    const buying = accounts.map(async (buyer) => {
      while (!over.signal.aborted) {
        const told = await this.#buy(buyer);
        if (typeof told === "string") {
          faults.push(told);
          continue;
        }
        paid += 1;
        const amount = BigInt(told.maxAmountRequired);
        spent.set(buyer, (spent.get(buyer) ?? 0n) + amount);
        received.set(told.payTo, (received.get(told.payTo) ?? 0n) + amount);
      }
    });
    try {
      await work();
    } finally {
      over.abort();
      await Promise.all(buying);
    }
    for (const [buyer, amount] of spent) {
      const left = await this.#chain.balanceOf(buyer.address);
      if (left !== PURSE - amount) faults.push(`charged ${PURSE - left} in place of ${amount}`);
    }
    for (const [payee, at] of received0) {
      const got = (await this.#chain.balanceOf(payee as `0x${string}`)) - at;
      const wanted = received.get(payee) ?? 0n;
      if (got !== wanted) faults.push(`${payee} got ${got} in place of ${wanted}`);
    }
    const served = this.#served.count - before;
    if (served !== paid) faults.push(`delivered ${served} times for ${paid} payments`);
    return { paid, faults };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#closing.disposeAsync();
  }

  async #balances(): Promise<ReadonlyMap<string, bigint>> {
    const { payees } = this.names;
    const balances = payees.map(async (payee) => {
      return [payee, await this.#chain.balanceOf(payee as `0x${string}`)] as const;
    });
    return new Map(await Promise.all(balances));
  }

  get #url(): string {
    const port = this.#running.addresses.gateway[0]?.port ?? 0;
    return `http://127.0.0.1:${port}/paid`;
  }

  async #quote(signal: AbortSignal): Promise<PaymentRequirements | undefined> {
    const answer = await fetch(this.#url, { signal, headers: { accept: "application/json" } });
    const body: unknown = await answer.json();
    if (answer.status !== 402) throw new Error(`the price is answered with ${answer.status}`);
    const accepts: unknown = isRecord(body) ? body["accepts"] : [];
    // Version 1 is switched off for the moment.
    if (accepts === undefined) return this.#quote(signal);
    return (accepts as PaymentRequirements[]).find(({ network }) => {
      return network === this.#chain.network.name;
    });
  }

  /** What he paid, or what went wrong. */
  async #buy({ account }: FreshAccount): Promise<PaymentRequirements | string> {
    try {
      const requirements = await this.#quote(AbortSignal.timeout(20_000));
      if (requirements === undefined) return "there is no offer";
      const header = encodeHeaderJson(await signPayment({ account, requirements }));
      await sleep(Math.random() * THINKING_MS);
      const answer = await present(this.#url, header, { signal: AbortSignal.timeout(40_000) });
      if (answer.status === 200) return requirements;
      return `${answer.status} ${answer.text.slice(0, 300)}`;
    } catch (cause) {
      return String(cause);
    }
  }
}

/** As people write it: cut anywhere it may still be a file. */
export function textOf(file: File): string {
  return stringify(file, { aliasDuplicateObjects: false });
}

async function openBackend(
  served: { count: number },
  closing: AsyncDisposableStack,
): Promise<string> {
  const server = createServer((request, response) => {
    if (request.url?.startsWith("/paid") === true) served.count += 1;
    response.end("goods");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.defer(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
