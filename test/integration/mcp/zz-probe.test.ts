import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, test } from "vitest";
import { SESSION_HEADER } from "../../../src/x402/session.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import { connectSdk, type McpClient } from "../../support/mcp/clients.ts";
import { McpBuyer, paymentRequiredOf } from "../../support/mcp/paying.ts";
import { McpStage } from "../../support/mcp/stage.ts";
import { richBuyer } from "../../support/buyer.ts";
import type { FreshAccount } from "../../support/payer.ts";
import { openSessionAt } from "../../support/sign-in.ts";

const closing = new AsyncDisposableStack();
let chain: Chain;
let stage: McpStage;
let gateway: RunningGateway;
beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  const folder = await mkdtemp(join(tmpdir(), "coinslot-probe-"));
  stage = closing.use(await McpStage.open({ json: true }));
  const routes = `
  /mcp:
    tools:
      quote: { price: $0.01, grants: { for: 24h, times: 2 } }
      fail: { price: $0.01, free: 2/d by address }
      echo: { price: $0.01, free: 2/d by address }
`;
  gateway = closing.use(
    await startGateway({
      chain,
      upstreamUrl: stage.origin,
      routes,
      more: `credits: { packs: [$1] }`,
      storePath: join(folder, "l.db"),
    }),
  );
});
afterAll(() => closing.disposeAsync());
const heads: unknown[] = [];
async function clientOf(account: FreshAccount): Promise<McpClient> {
  const session = await openSessionAt(gateway.url, account);
  const own: typeof fetch = async (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set(SESSION_HEADER, session);
    const r = await fetch(input, { ...init, headers });
    heads.push([r.status, r.headers.get("ratelimit"), r.headers.get("x-402-charged")]);
    return r;
  };
  return connectSdk(`${gateway.url}/mcp`, { fetch: own });
}
test("free quota, failing tool", async () => {
  await using client = await connectSdk(`${gateway.url}/mcp`);
  for (let i = 0; i < 4; i += 1) {
    const r = await client.call("fail");
    console.log("fail", i, paymentRequiredOf(r) !== null, JSON.stringify(r).slice(0, 200));
  }
});
test("counted purchase, call that fails", async () => {
  const buyer = await richBuyer(chain);
  await using plain = await connectSdk(`${gateway.url}/mcp`);
  const { receipt } = await McpBuyer.onEvm(plain, buyer).buy("quote", { ticker: "A" });
  console.log(receipt);
  await using client = await clientOf(buyer);
  heads.length = 0;
  for (let i = 0; i < 4; i += 1) {
    const r = await client.call("quote", { wrong: 1 }).catch((e) => ({ error: String(e) }));
    console.log(
      "counted",
      i,
      paymentRequiredOf(r as never) !== null,
      JSON.stringify(r).slice(0, 200),
      JSON.stringify(heads.at(-1)),
    );
  }
});
