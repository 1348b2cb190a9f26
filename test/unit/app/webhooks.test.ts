/** What others are told of networks and wallets, once, by receivers that a reload may change. */
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Teller } from "../../../src/app/webhooks.ts";
import type { Config } from "../../../src/config/config.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import type { ClosedReason } from "../../../src/telemetry/network-meter.ts";
import type { NetworkName } from "../../../src/x402/network.ts";
import { MemoryMessages, MemoryOutbox } from "../../support/memory-outbox.ts";
import {
  QuickTime,
  SECRET,
  startWebhookReceiver,
  type WebhookReceiver,
} from "../webhooks/webhook-receiver.ts";
import { configOf } from "./config-of.ts";

const WALLET = "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955";

let closing: AsyncDisposableStack;
let messages: MemoryMessages;
let used: NetworkName[];
let closed: Map<string, ClosedReason>;

beforeEach(() => {
  closing = new AsyncDisposableStack();
  messages = new MemoryMessages();
  used = ["base", "base-sepolia"];
  closed = new Map();
});

afterEach(async () => closing.disposeAsync());

function configFor(...receivers: readonly WebhookReceiver[]): Config {
  const lines = receivers.map(({ url }, number) => {
    return `  shop${number}: { url: "${url}", secrets: env:SECRET }`;
  });
  const webhooks = lines.length === 0 ? "" : `webhooks:\n${lines.join("\n")}\n`;
  return configOf(
    `upstream: http://localhost:3000
publicUrl: http://localhost:8402
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
unmatched: deny
routes:
  GET /weather: { price: $0.01, description: Weather }
${webhooks}`,
    { SECRET },
  );
}

/** As one process of those that share the ledger sees it. */
function open(config: Config) {
  const time = new QuickTime();
  const outbox = new MemoryOutbox(messages, time);
  outbox.address(config.webhooks);
  const networks = {
    get used() {
      return used;
    },
    closedReason: (network: string) => closed.get(network),
  };
  const logger = createLogger({ level: "silent", format: "json" });
  const telemetry = { logger, metrics: new Metrics("test") };
  const teller = new Teller(config, networks, { ledger: { outbox }, telemetry, time });
  closing.defer(() => teller.stop());
  teller.start();
  return { teller, outbox };
}

async function receiver(): Promise<WebhookReceiver> {
  return closing.use(await startWebhookReceiver());
}

const typesOf = ({ received }: WebhookReceiver): readonly string[] =>
  received.map(({ type, data }) => {
    const { reason } = data;
    return typeof reason === "string" ? `${type} ${reason}` : type;
  });

test("a network that closes, and opens again, is told once, whoever sees it and however often", async () => {
  const shop = await receiver();
  const config = configFor(shop);
  open(config);
  open(config);
  await pause(50);
  expect(shop.received).toEqual([]);
  closed.set("base", "rpc");
  await expect.poll(() => typesOf(shop)).toEqual(["network.closed rpc"]);
  closed.set("base", "wallet");
  await pause(50);
  closed.delete("base");
  await expect.poll(() => typesOf(shop)).toEqual(["network.closed rpc", "network.opened"]);
  expect(shop.received[0]?.data).toEqual({ network: "base", reason: "rpc" });
  expect(shop.received[1]?.data).toEqual({ network: "base" });
  closed.set("base", "paused");
  await expect.poll(() => shop.received.length).toBe(3);
  // What is not sold any more is in no trouble.
  used = ["base-sepolia"];
  await expect.poll(() => messages.troubles.size).toBe(0);
  await pause(50);
  expect(shop.received).toHaveLength(3);
});

test("a process that starts while a network is closed tells nothing that was told", async () => {
  const shop = await receiver();
  closed.set("base", "rpc");
  const first = open(configFor(shop));
  await expect.poll(() => shop.received.length).toBe(1);
  await first.teller.stop();
  open(configFor(shop));
  await pause(50);
  expect(shop.received).toHaveLength(1);
});

test("an account that pays for few settlements is told once, until it pays for twice as many", async () => {
  const shop = await receiver();
  const { teller, outbox } = open(configFor(shop));
  const settlementAtomic = 10n;
  for (const left of [500n, 199n, 150n, 250n, 399n, 150n, 400n, 201n, 199n]) {
    const balanceAtomic = left * settlementAtomic;
    teller.wallet("base", { address: WALLET, balanceAtomic, decimals: 18, settlementAtomic });
    await pause(2);
  }
  // What a settlement costs is not known.
  teller.wallet("base", {
    address: "0x1",
    balanceAtomic: 0n,
    decimals: 18,
    settlementAtomic: 0n,
  });
  // Behind all that is to be told of the account.
  outbox.add({ type: "payment.sold", subject: "payment", data: {} }, Date.now());
  await expect.poll(() => typesOf(shop)).toContain("payment.sold");
  expect(typesOf(shop)).toEqual(["wallet.low", "wallet.low", "payment.sold"]);
  expect(shop.received[0]?.data).toEqual({
    network: "base",
    address: WALLET,
    settlementsLeft: 199,
  });
});

test("a reload brings receivers and takes them away", async () => {
  const [one, other] = [await receiver(), await receiver()];
  const { teller, outbox } = open(configFor());
  const tell = (number: number): void => {
    const subject = `payment ${number}`;
    outbox.add({ type: "payment.sold", subject, data: { number } }, Date.now());
  };
  tell(1);
  await teller.know(configFor(one));
  tell(2);
  await expect.poll(() => one.received.length).toBe(1);
  await teller.know(configFor(one, other));
  tell(3);
  await expect.poll(() => [one.received.length, other.received.length]).toEqual([2, 1]);
  await teller.know(configFor());
  tell(4);
  await pause(50);
  const numbers = [one, other].map(({ received }) => received.map(({ data }) => data["number"]));
  expect(numbers).toEqual([[2, 3], [3]]);
});

test("amounts are told in whole tokens, where the token is known", async () => {
  const shop = await receiver();
  const { outbox } = open(configFor(shop));
  const sold = { network: "base-sepolia", amountAtomic: "10000" };
  const usdc = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
  for (const asset of [usdc, WALLET]) {
    outbox.add({ type: "payment.sold", subject: asset, data: { ...sold, asset } }, Date.now());
  }
  await expect.poll(() => shop.received.length).toBe(2);
  const told = shop.received.map(({ data }) => data);
  expect(told).toContainEqual({
    ...sold,
    asset: usdc,
    amount: "0.01",
    symbol: "USDC",
    decimals: 6,
  });
  expect(told).toContainEqual({ ...sold, asset: WALLET });
});
