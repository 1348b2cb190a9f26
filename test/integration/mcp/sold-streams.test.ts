/** What is paid for and comes as a stream: progress, cancellation, cut streams, and a server that starts anew. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { PURSE, richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import { breakable } from "../../support/mcp/breakable.ts";
import { connectSdk, connectWeb, type Connect } from "../../support/mcp/clients.ts";
import { McpBuyer, paymentRequiredOf } from "../../support/mcp/paying.ts";
import { McpStage, type McpStageOptions } from "../../support/mcp/stage.ts";
import { said } from "../../support/mcp/stdio.ts";

let chain: Chain;

beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain[Symbol.asyncDispose]());

const CLIENTS: Readonly<Record<string, Connect>> = {
  "@modelcontextprotocol/sdk 1.32.2": connectSdk,
  "@modelcontextprotocol/client 2.4.0": connectWeb(),
};
const KINDS = Object.entries(CLIENTS).flatMap(([name, connect]) =>
  (["sessions", "requests"] as const).map((serves) => ({ name, connect, serves })),
);
/** Of `hold`. */
const PRICE = 20_000n;

interface Shop extends AsyncDisposable {
  readonly stage: McpStage;
  readonly gateway: RunningGateway;
  readonly url: string;
}

async function open(options: McpStageOptions): Promise<Shop> {
  await using opening = new AsyncDisposableStack();
  const stage = opening.use(await McpStage.open(options));
  const routes = "{ /mcp: { tools: { hold: $0.02, cut: $0.02, echo: free } } }";
  const gateway = opening.use(await startGateway({ chain, upstreamUrl: stage.origin, routes }));
  const owned = opening.move();
  const url = `${gateway.url}/mcp`;
  return { stage, gateway, url, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

test.each(KINDS)("$name hears how far a paid call is at a server of $serves", async (kind) => {
  await using shop = await open(kind);
  await using client = await kind.connect(shop.url);
  const account = await richBuyer(chain);
  shop.stage.workshop.hold();
  const half = Promise.withResolvers<void>();
  const onProgress = (done: number): void => {
    if (done === 1) half.resolve();
  };
  const buying = McpBuyer.onEvm(client, account).buy("hold", {}, { onProgress });
  await half.promise;
  shop.stage.workshop.release();
  const { result, receipt } = await buying;
  expect(said(result)).toBe("released");
  expect(receipt).toMatchObject({ success: true, payer: account.address });
  expect(await chain.balanceOf(account.address)).toBe(PURSE - PRICE);
});

test.each(KINDS)(
  "$name cancels a paid call at a server of $serves: it was bought, is not made again, and is given for the same payment",
  async (kind) => {
    await using shop = await open(kind);
    await using client = await kind.connect(shop.url);
    const account = await richBuyer(chain);
    const { workshop } = shop.stage;
    workshop.hold();
    const buyer = McpBuyer.onEvm(client, account);
    const asked = paymentRequiredOf(await client.call("hold"));
    if (asked === null) throw new Error("nothing was asked for");
    const payment = await buyer.sign(asked);
    const cancelling = new AbortController();
    const calling = buyer.present(
      payment,
      "hold",
      {},
      { signal: cancelling.signal, onProgress: () => {} },
    );
    calling.catch(() => {});
    await workshop.until(() => workshop.count("hold") === 1);
    cancelling.abort();
    await expect(calling).rejects.toThrow();
    workshop.release();
    const again = await buyer.present(payment, "hold");
    expect(again).toMatchObject({ content: [{ text: "released" }] });
    expect(workshop.count("hold")).toBe(1);
    expect(await chain.balanceOf(account.address)).toBe(PURSE - PRICE);
  },
);

test.each(Object.entries(CLIENTS))("%s takes up a paid stream that was cut", async (_, connect) => {
  await using shop = await open({});
  const breaking = breakable();
  await using client = await connect(shop.url, { fetch: breaking.fetch });
  const account = await richBuyer(chain);
  const { workshop } = shop.stage;
  workshop.hold();
  const half = Promise.withResolvers<void>();
  const buying = McpBuyer.onEvm(client, account).buy(
    "hold",
    {},
    { onProgress: () => half.resolve() },
  );
  await half.promise;
  breaking.break();
  await breaking.resumed;
  workshop.release();
  // What is taken up again tells no receipt.
  const { result } = await buying;
  expect(said(result)).toBe("released");
  expect(workshop.count("hold")).toBe(1);
  expect(await chain.balanceOf(account.address)).toBe(PURSE - PRICE);
});

test.each(KINDS)(
  "$name has what a server of $serves owes that was restarted on the way",
  async (kind) => {
    await using shop = await open(kind);
    const client = await kind.connect(shop.url);
    const account = await richBuyer(chain);
    const { workshop } = shop.stage;
    workshop.hold();
    const asked = paymentRequiredOf(await client.call("hold"));
    if (asked === null) throw new Error("nothing was asked for");
    const payment = await McpBuyer.onEvm(client, account).sign(asked);
    const calling = McpBuyer.onEvm(client, account).present(payment, "hold");
    calling.catch(() => {});
    await workshop.until(() => workshop.count("hold") === 1);
    await shop.stage.crash();
    await client[Symbol.asyncDispose]();
    await shop.stage.start();
    workshop.release();
    await using again = await kind.connect(shop.url);
    const delivered = await McpBuyer.onEvm(again, account).present(payment, "hold");
    expect(said(delivered)).toBe("released");
    expect(await chain.balanceOf(account.address)).toBe(PURSE - PRICE);
  },
);
