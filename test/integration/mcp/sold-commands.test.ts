/** Tools of a program that is started by the gateway, sold by their names: on an EVM chain and on Solana. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PURSE, richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import { connectSdk, connectWeb, type Connect } from "../../support/mcp/clients.ts";
import { McpBuyer, paymentRequiredOf } from "../../support/mcp/paying.ts";
import { said, stdioCommand, type StdioKind } from "../../support/mcp/stdio.ts";
import { Site } from "../../support/serve.ts";
import { freshSolanaKey } from "../../support/solana-key.ts";
import { PAYEE, SOLANA_ENV, SolanaStage } from "../../support/solana-stage.ts";
import { USDC_DEVNET } from "../../support/solana/set-up.ts";

let chain: Chain;
let folder: string;

beforeAll(async () => {
  chain = await startChain();
  folder = await mkdtemp(join(tmpdir(), "coinslot-late-"));
});
afterAll(async () => {
  await chain[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

const CLIENTS: Readonly<Record<string, Connect>> = {
  "@modelcontextprotocol/sdk 1.32.2": connectSdk,
  "@modelcontextprotocol/client 2.4.0": connectWeb(),
};

const TOOLS = `tools: { self: free, echo: free, quote: $0.01, late: $0.01, hold: $0.02 }`;

const commandOf = (kind: StdioKind): string =>
  `{ command: { run: ${JSON.stringify(stdioCommand(kind))}, perClient: 16, processes: 16 } }`;

function open(kind: StdioKind): Promise<RunningGateway> {
  return startGateway({ chain, upstream: commandOf(kind), routes: `{ /mcp: { ${TOOLS} } }` });
}

describe.each(["sdk", "web"] as const)("a program of the SDK %s", (kind) => {
  test.each(Object.entries(CLIENTS))("sells a tool to %s", async (_, connect) => {
    await using gateway = await open(kind);
    await using client = await connect(`${gateway.url}/mcp`);
    const account = await richBuyer(chain);
    const unpaid = await client.call("quote", { ticker: "AAPL" });
    expect(paymentRequiredOf(unpaid)).toMatchObject({ accepts: [{ amount: "10000" }] });
    const bought = await McpBuyer.onEvm(client, account).buy("quote", { ticker: "AAPL" });
    expect(said(bought.result)).toBe("AAPL: 42");
    expect(bought.receipt).toMatchObject({ success: true, payer: account.address });
    expect(await chain.balanceOf(account.address)).toBe(PURSE - 10_000n);
    expect(said(await client.call("echo", { text: "on" }))).toBe("on");
  });

  test.each(Object.entries(CLIENTS))(
    "that crashes on a paid call owes it to %s, and delivers it for the same payment",
    async (_, connect) => {
      await using gateway = await open(kind);
      const account = await richBuyer(chain);
      const file = join(folder, crypto.randomUUID());
      await using client = await connect(`${gateway.url}/mcp`);
      const asked = paymentRequiredOf(await client.call("late", { file }));
      if (asked === null) throw new Error("nothing was asked for");
      const payment = await McpBuyer.onEvm(client, account).sign(asked);
      const failed = await McpBuyer.onEvm(client, account)
        .present(payment, "late", { file })
        .catch(String);
      expect(JSON.stringify(failed)).toContain("has ended with code 4");
      // The session is gone with its process.
      await using again = await connect(`${gateway.url}/mcp`);
      const buyer = McpBuyer.onEvm(again, account);
      expect(said(await buyer.present(payment, "late", { file }))).toBe("late");
      expect(await chain.balanceOf(account.address)).toBe(PURSE - 10_000n);
    },
  );

  test("is not asked again for a payment that has bought, in whichever session it is shown", async () => {
    await using gateway = await open(kind);
    const account = await richBuyer(chain);
    await using client = await connectSdk(`${gateway.url}/mcp`);
    const { payment } = await McpBuyer.onEvm(client, account).buy("quote", { ticker: "A" });
    if (payment === null) throw new Error("nothing was paid");
    await using other = await connectSdk(`${gateway.url}/mcp`);
    const thief = McpBuyer.onEvm(other, account);
    const replayed = await thief.present(payment, "quote", { ticker: "B" });
    expect(paymentRequiredOf(replayed)).not.toBeNull();
    expect(await chain.balanceOf(account.address)).toBe(PURSE - 10_000n);
  });
});

test("a program's tool is sold on Solana", async () => {
  await using stage = await SolanaStage.open();
  await using site = await Site.create();
  const routes = `  /mcp: { ${TOOLS} }\n`;
  const yaml = stage.yaml(undefined, { upstreamUrl: commandOf("web"), routes });
  const served = await site.serve(yaml, SOLANA_ENV);
  await served.untilReady();
  for (const connect of Object.values(CLIENTS)) {
    const key = freshSolanaKey();
    await stage.node.fundToken({ mint: USDC_DEVNET, owner: key.address, amount: 1_000_000n });
    await using client = await connect(`${served.url}/mcp`);
    const buyer = await McpBuyer.onSolana(client, key, stage.node.rpcUrl);
    const bought = await buyer.buy("quote", { ticker: "SOL" });
    expect(said(bought.result)).toBe("SOL: 42");
    expect(bought.receipt).toMatchObject({ success: true, payer: key.address });
    expect(bought.asked).toMatchObject({ accepts: [{ payTo: PAYEE.address, amount: "10000" }] });
  }
});
