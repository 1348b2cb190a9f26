/** Purchases on Solana: settled in the gateway's own process, and by a facilitator elsewhere. */
import { createServer } from "node:http";
import { mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { start, type Running } from "../../src/app.ts";
import { drain, listen } from "../../src/gateway/listener.ts";
import { TOKEN_PROGRAM } from "../../src/mechanism/solana/programs.ts";
import { decodeBase58, encodeBase58 } from "../../src/x402/solana-address.ts";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import {
  buildTransaction,
  memo,
  sourceOf,
  destinationOf,
  testKey,
  transfer,
  unitLimit,
  unitPrice,
  type Payment,
} from "../support/solana-messages.ts";
import { secretOf } from "../support/solana-requests.ts";
import { USDC_DEVNET } from "../support/solana/set-up.ts";
import { startSolanaNode, type SolanaNode } from "../support/solana/solana-node.ts";
import { configOf } from "../unit/app/config-of.ts";

const [FEE_PAYER, BUYER, PAYEE] = [testKey(1), testKey(2), testKey(3)];
const PURSE = 1_000_000n;
const PRICE = 10_000n;
/** Where a token account says how much it holds. */
const AMOUNT_OFFSET = 64;

const closing = new AsyncDisposableStack();
let node: SolanaNode;
let upstreamUrl: string;
let served = 0;
let payments = 0;

beforeAll(async () => {
  node = closing.use(await startSolanaNode({ slotMs: 40 }));
  node.fundSol(FEE_PAYER.address, 1_000_000_000n);
  await node.fundToken({ mint: USDC_DEVNET, owner: BUYER.address, amount: PURSE });
  await node.fundToken({ mint: USDC_DEVNET, owner: PAYEE.address, amount: 0n });
  const backend = createServer((_, response) => {
    served += 1;
    response.end("sunny");
  });
  const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(backend, AbortSignal.abort()));
  upstreamUrl = `http://127.0.0.1:${port}`;
});

afterAll(() => closing.disposeAsync());

interface Shop {
  readonly url: string;
  readonly facilitatorUrl: string;
  readonly running: Running;
}

/** A gateway with one priced route; `facilitator` is YAML, indented by two. */
async function openShop(facilitator: string): Promise<Shop> {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-solana-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const SOLANA_KEY = encodeBase58(Buffer.from(secretOf(1), "hex"));
  const text = `
listen: 127.0.0.1:0
publicUrl: http://localhost:8402
upstream: ${upstreamUrl}
payTo: ${PAYEE.address}
accept: [solana-devnet]
facilitator:${facilitator}
unmatched: deny
store: sqlite:${join(folder, "ledger.db")}
logging: { level: ${process.env["COINSLOT_TEST_LOG"] ?? "silent"} }
routes:
  GET /weather: { price: $0.01, description: Weather }
`;
  const running = await start(configOf(text, { SOLANA_KEY }), "test");
  closing.defer(() => running.close());
  const { gateway, facilitator: endpoints } = running.addresses;
  return { url: urlOf(gateway[0]), facilitatorUrl: urlOf(endpoints), running };
}

const embeddedShop = () =>
  openShop(`
  listen: 127.0.0.1:0
  embedded:
    networks:
      solana-devnet: { rpc: ["${node.rpcUrl}"], signers: [env:SOLANA_KEY] }
`);

function urlOf(address: AddressInfo | null | undefined): string {
  return `http://127.0.0.1:${address?.port ?? 0}`;
}

async function quote({ url }: Shop): Promise<PaymentRequirements[]> {
  const response = await fetch(`${url}/weather`);
  expect(response.status).toBe(402);
  return Object(await response.json()).accepts;
}

/** What a wallet makes of a requirement: its limits, the transfer, and a memo that no other has. */
function pay(asked: PaymentRequirements): string {
  const payment = paymentFor(asked);
  payments += 1;
  const instructions = [
    unitLimit(60_000),
    unitPrice(1),
    transfer(payment),
    memo(`payment ${payments}`),
  ];
  const { feePayer } = payment;
  const { blockhash } = node;
  return buildTransaction({ instructions, feePayer, blockhash, signers: [BUYER] });
}

function paymentFor({ extra, payTo, asset, maxAmountRequired }: PaymentRequirements): Payment {
  const feePayer = String(extra?.["feePayer"]);
  const amount = BigInt(maxAmountRequired);
  const [decimals, tokenProgram] = [6, TOKEN_PROGRAM];
  return { feePayer, payer: BUYER, payTo, asset, decimals, tokenProgram, amount };
}

async function present({ url }: Shop, transaction: string) {
  const network = "solana-devnet";
  const payment = { x402Version: 1, scheme: "exact", network, payload: { transaction } };
  const header = Buffer.from(JSON.stringify(payment)).toString("base64");
  const response = await fetch(`${url}/weather`, { headers: { "X-PAYMENT": header } });
  const receipt = response.headers.get("X-PAYMENT-RESPONSE");
  return {
    status: response.status,
    text: await response.text(),
    receipt: receipt === null ? undefined : JSON.parse(Buffer.from(receipt, "base64").toString()),
  };
}

/** Atomic units in the payee's and the buyer's token account. */
function balances(asked: PaymentRequirements): readonly [payee: bigint, buyer: bigint] {
  const payment = paymentFor(asked);
  return [heldBy(destinationOf(payment)), heldBy(sourceOf(payment))];
}

function heldBy(account: string): bigint {
  return Buffer.from(node.account(account)?.data ?? []).readBigUInt64LE(AMOUNT_OFFSET);
}

async function buyOnce(shop: Shop): Promise<void> {
  const [asked] = await quote(shop);
  if (asked === undefined) throw new Error("nothing is asked for");
  expect(asked).toMatchObject({
    scheme: "exact",
    network: "solana-devnet",
    maxAmountRequired: PRICE.toString(),
    asset: USDC_DEVNET,
    payTo: PAYEE.address,
    extra: { feePayer: FEE_PAYER.address },
  });
  const [payeeHad, buyerHad] = balances(asked);
  const servedBefore = served;
  const transaction = pay(asked);
  const bought = await present(shop, transaction);
  expect(bought).toMatchObject({
    status: 200,
    text: "sunny",
    receipt: { success: true, network: "solana-devnet", payer: BUYER.address },
  });
  expect(decodeBase58(bought.receipt.transaction, 64)).toBeDefined();
  expect(balances(asked)).toEqual([payeeHad + PRICE, buyerHad - PRICE]);
  expect(served).toBe(servedBefore + 1);

  // The kept answer, for nothing; and nobody is charged or served twice.
  expect(await present(shop, transaction)).toMatchObject({ status: 200, text: "sunny" });
  expect(balances(asked)).toEqual([payeeHad + PRICE, buyerHad - PRICE]);
  expect(served).toBe(servedBefore + 1);
}

describe("a route that is paid on Solana", () => {
  it("is sold once for a transaction that is settled in this process", async () => {
    const shop = await embeddedShop();
    await buyOnce(shop);
    expect(shop.running.wallets).toMatchObject([
      { network: "solana-devnet", funds: expect.stringMatching(/^has 0\.9\d* SOL|^has 1 SOL/) },
    ]);
  });

  it("is sold for a transaction that a facilitator elsewhere settles, with that one's fee payer", async () => {
    const facilitator = await embeddedShop();
    const shop = await openShop(`\n  remote: ["${facilitator.facilitatorUrl}"]\n`);
    expect(shop.running.feePayers).toEqual([
      { network: "solana-devnet", address: FEE_PAYER.address },
    ]);
    await buyOnce(shop);
  });

  it("is not for sale, and says so with 503, while its facilitator cannot be asked", async () => {
    const shop = await openShop(`\n  remote: ["http://127.0.0.1:9"]\n`);
    const response = await fetch(`${shop.url}/weather`);
    expect([response.status, response.headers.get("Retry-After")]).toEqual([503, "2"]);
    const { error } = Object(await response.json());
    expect(error).toContain("who pays the network fee on solana-devnet");
    const listed = await fetch(`${shop.url}/discovery/resources`);
    expect(Object(await listed.json()).items).toEqual([]);
  });

  it("refuses a transaction for somebody else's fee payer, and asks for the right one", async () => {
    const shop = await embeddedShop();
    const [asked] = await quote(shop);
    if (asked === undefined) throw new Error("nothing is asked for");
    const stranger = { ...asked, extra: { feePayer: testKey(9).address } };
    const { status, text } = await present(shop, pay(stranger));
    expect(status).toBe(402);
    expect(Object(JSON.parse(text)).error).toMatch(/^invalid_payload: /);
    expect(Object(JSON.parse(text)).accepts).toEqual([asked]);
  });
});
