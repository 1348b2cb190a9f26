/** A fee payer that is taken out of the configuration while its transactions are in the air. */
import { beforeEach, expect, test } from "vitest";
import { encodeBase58 } from "../../src/x402/solana-address.ts";
import { runCoinslot, Site, type Served } from "../support/serve.ts";
import { testKey } from "../support/solana-messages.ts";
import { secretOf } from "../support/solana-requests.ts";
import { FEE_PAYER, sales, SOLANA_ENV, SolanaStage } from "../support/solana-stage.ts";

/** Gateways are processes that are started and ended several times, on a machine that may be busy. */
const TIMEOUT_MS = 60_000;
const NEXT_KEY = 4;
const NEXT_ENV = { SOLANA_KEY: encodeBase58(Buffer.from(secretOf(NEXT_KEY), "hex")) };

let stage: SolanaStage;

beforeEach(async () => {
  stage = await SolanaStage.open();
  stage.node.fundSol(testKey(NEXT_KEY).address, 1_000_000_000n);
  return () => stage[Symbol.asyncDispose]();
});

/** Killed while a transaction is in the air, which the node forgets: only the stored bytes can bring it back. */
async function leave(site: Site): Promise<string> {
  // So slow that the blockhash outlives the restart.
  stage.node.setSlotMs(400);
  const before = await site.serve(stage.yaml(), SOLANA_ENV);
  await before.untilReady();
  const transaction = stage.pay(await stage.quote(`${before.url}/weather`));
  const lost = stage.node.inject({ method: "sendTransaction", lose: true, times: 10_000 });
  const answer = stage.present(`${before.url}/weather`, transaction).catch(() => "lost");
  await lost.hit();
  await before.end("SIGKILL");
  await answer;
  lost.lift();
  expect(await stage.moved()).toEqual(sales(0n));
  return transaction;
}

async function expectDelivered({ url }: Served, transaction: string): Promise<void> {
  expect(await stage.present(`${url}/weather`, transaction)).toMatchObject({
    status: 200,
    text: "sunny",
    receipt: { success: true },
  });
  expect(stage.served).toBe(1);
  expect(await stage.moved()).toEqual(sales(1n));
}

/** Somebody else's facilitator, which nobody reaches; the chain can be asked. */
function settledElsewhere(): string {
  const { rpcUrl } = stage.node;
  const remote = ` { remote: [http://127.0.0.1:1], rpc: { solana-devnet: ["${rpcUrl}"] } }`;
  // Nothing is sold as long as nobody settles: so that it is ready all the same.
  return `${stage.yaml(remote).trimEnd()}\n  GET /health: free\n`;
}

test.each([
  ["another fee payer", () => stage.yaml()],
  ["a facilitator elsewhere", settledElsewhere],
] as const)(
  "a payment is sent again and delivered by a gateway with %s",
  { timeout: TIMEOUT_MS },
  async (_, yaml) => {
    await using site = await Site.create();
    const transaction = await leave(site);
    const after = await site.serve(yaml(), NEXT_ENV);
    await after.untilReady();
    await expectDelivered(after, transaction);
  },
);

test(
  "`recover` names the fee payer, sends the bytes and finds the outcome",
  { timeout: TIMEOUT_MS },
  async () => {
    await using site = await Site.create();
    await leave(site);
    await site.write(stage.yaml());
    const recovered = await runCoinslot(["recover", site.file], NEXT_ENV);
    expect(recovered).toMatchObject({ code: 0, stderr: "" });
    const [warning, settled, count] = recovered.stdout.split("\n");
    expect(warning).toContain(`solana-devnet, ${FEE_PAYER.address}: 1 open, `);
    expect(settled).toMatch(/^settled {5}in /);
    expect(count).toBe("1 resolved, 0 left");
    expect(await stage.moved()).toEqual(sales(1n));

    // What is told of it is what the cluster tells.
    const books = await runCoinslot(["books", site.file, "--verify"], NEXT_ENV);
    expect(books).toMatchObject({
      code: 0,
      stderr: "held against the chains: 1 payments and the cost of 1 transactions are as told\n",
    });
  },
);

test(
  "is in no 402 from the reload on, and who was told it pays with it and is delivered",
  async () => {
    await using site = await Site.create();
    const yaml = stage.yaml();
    const served = await site.serve(yaml, { ...SOLANA_ENV, NEXT: NEXT_ENV.SOLANA_KEY });
    await served.untilReady();
    const url = `${served.url}/weather`;
    const told = await stage.quote(url);
    expect(told.extra).toMatchObject({ feePayer: FEE_PAYER.address });
    await site.write(yaml.replace("env:SOLANA_KEY", "env:NEXT"));
    const feePayer = testKey(NEXT_KEY).address;
    await expect
      .poll(async () => (await stage.quote(url)).extra, { timeout: 20_000 })
      .toMatchObject({ feePayer });
    await expectDelivered(served, stage.pay(told));
    const after = stage.pay(await stage.quote(url));
    expect(await stage.present(url, after)).toMatchObject({ status: 200 });
    // The other one has paid the fee of the second.
    expect(await stage.moved()).toEqual({ ...sales(2n), fees: sales(1n).fees });
    expect(await served.end("SIGTERM")).toBe(0);
  },
  TIMEOUT_MS,
);
