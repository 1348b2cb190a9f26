/** Listed routes as tools of an MCP server, before both official clients and a chain with the real token. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PURSE, richBuyer } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { PUBLIC_URL, startGateway, type RunningGateway } from "../support/gateway.ts";
import type { FreshAccount } from "../support/payer.ts";
import { payFor, PAYMENT, RECEIPT, toolClients, type ToolClient } from "../support/tool-clients.ts";

const closing = new AsyncDisposableStack();
let chain: Chain;
let gateway: RunningGateway;

const ROUTES = `
  GET /weather:
    price: $0.01
    description: Current weather
    mimeType: application/json
    input: { queryParams: { city: { type: string, required: true, description: Where } } }
  GET /reports/:id: { price: $0.25, description: A report, mimeType: application/json }
  GET /reports/secret: { price: $0.01, discoverable: false }
  GET /reports/denied: deny
  POST /summarize:
    price: $0.02
    description: A summary
    input: { bodyType: json, bodyFields: { text: { type: string, required: true } } }
    outputSchema: { type: object, properties: { method: { type: string }, url: { type: string } }, required: [method] }
  GET /files/*: { price: $0.01, description: A file }
  GET /page: { price: $0.01, mimeType: text/html }
  POST /upload: { price: $0.01, input: { bodyType: binary } }
  GET /health: free
`;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  gateway = closing.use(await startGateway({ chain, routes: ROUTES, more: "mcp: { path: /mcp }" }));
});

afterAll(() => closing.disposeAsync());

const connect = async (kind: (typeof toolClients)[string], headers = {}): Promise<ToolClient> => {
  const client = await kind(`${gateway.url}/mcp`, headers);
  closing.defer(() => client.close());
  return client;
};

const charged = async ({ address }: Pick<FreshAccount, "address">): Promise<bigint> =>
  PURSE - (await chain.balanceOf(address));

describe.each(Object.entries(toolClients))("%s", (_, kind) => {
  it("lists a tool for each listed route, and none of the others", async () => {
    const client = await connect(kind);
    const tools = await client.list();
    expect(tools.map(({ name }) => name)).toEqual([
      "get_weather",
      "get_reports_id",
      "post_summarize",
      "get_files",
    ]);
    expect(tools[0]).toMatchObject({
      description: "Current weather. Price: $0.01 a call, paid by x402.",
      inputSchema: {
        type: "object",
        properties: { city: { type: "string", description: "Where" } },
        required: ["city"],
      },
    });
  });

  it("buys a call, and has its receipt", async () => {
    const client = await connect(kind);
    const buyer = await richBuyer(chain);
    const asked = await client.call("get_weather", { city: "Ghent" });
    expect(asked.isError).toBe(true);
    expect(asked.structured).toMatchObject({
      x402Version: 2,
      resource: { url: `${PUBLIC_URL}/mcp` },
    });
    expect(JSON.parse(asked.content[0]?.text ?? "")).toEqual(asked.structured);
    const payment = await payFor(buyer, asked.structured);
    const bought = await client.call("get_weather", { city: "Ghent" }, { [PAYMENT]: payment });
    expect(bought).toMatchObject({
      isError: false,
      meta: { [RECEIPT]: { success: true, payer: buyer.address } },
    });
    expect(JSON.parse(bought.content[0]?.text ?? "")).toMatchObject({ url: "/weather?city=Ghent" });
    expect(await charged(buyer)).toBe(10_000n);
    const { transaction } = Object(bought.meta[RECEIPT]);
    expect(gateway.upstream.at(-1)?.headers).toMatchObject({
      "x-402-payer": buyer.address,
      "x-402-transaction": transaction,
    });
  });
});
