/**
 * A seller whose tools ask for money as the MCP transport of the payment protocol says, of either version, and that has payments
 * settled by a facilitator. The same payment again brings the same answer; who it serves first is as a test wants it.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import {
  createMcpHandler,
  fromJsonSchema,
  McpServer,
  ProtocolError,
} from "@modelcontextprotocol/server";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { caip2Of } from "../../../src/x402/version-2.ts";
import type { Chain } from "../chain.ts";

export interface McpSellerSetup {
  readonly chain: Chain;
  /** Base URL of a facilitator's endpoints. */
  readonly facilitatorUrl: string;
  readonly payTo: string;
  /** Atomic units. */
  readonly amount: bigint;
  /** In which version it asks; version 1 as an error of code 402. */
  readonly version?: 1 | 2;
  /** Before the result of a paid call is told. */
  readonly beforeTelling?: () => Promise<void>;
  /** Whether the answer of the so-manieth call of a tool, from 1, is cut as it begins. */
  readonly isCut?: (call: number) => boolean;
  /** Default: one JSON document. */
  readonly answersBy?: "json" | "sse";
  /** What `structuredContent` and text of an unpaid call are; default: both. */
  readonly asksBy?: "both" | "text" | "wrapper";
}

export interface McpSeller extends AsyncDisposable {
  readonly url: string;
  /** Arguments of calls that were paid for, once each. */
  readonly sold: readonly unknown[];
}

// As the specification writes them: not what the product calls so.
const META = { payment: "x402/payment", receipt: "x402/payment-response" } as const;

export async function startMcpSeller(setup: McpSellerSetup): Promise<McpSeller> {
  const sold: unknown[] = [];
  const sales = new Map<string, Promise<object>>();
  const { answersBy: responseMode = "auto", isCut = () => false } = setup;
  const handler = createMcpHandler(() => sellingServer(setup, sales, sold), { responseMode });
  const answer = getRequestListener((request) => handler.fetch(request));
  let calls = 0;
  const server = createServer((request, response) => {
    if (request.headers["mcp-method"] === "tools/call" && isCut((calls += 1))) {
      // Its head has come, and nothing behind it.
      response.write = () => response.destroy() === response;
      response.end = () => response.destroy();
    }
    void answer(request, response);
  });
  const { port }: AddressInfo = await listen(server, { host: "127.0.0.1", port: 0 });
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    sold,
    async [Symbol.asyncDispose]() {
      await handler.close();
      await drain(server, AbortSignal.abort());
    },
  };
}

type Sales = Map<string, Promise<object>>;

function sellingServer(setup: McpSellerSetup, sales: Sales, sold: unknown[]): McpServer {
  const server = new McpServer({ name: "seller", version: "1" }, { capabilities: { tools: {} } });
  const inputSchema = fromJsonSchema<Record<string, unknown>>({ type: "object" });
  const report = async (args: unknown, meta: unknown) => {
    const payment: unknown = Object(meta)[META.payment];
    if (payment === undefined) return asking(setup, "Payment required");
    const key = JSON.stringify(Object(Object(payment).payload).authorization?.nonce);
    const sale = sales.get(key) ?? sell(setup, payment, args, sold);
    sales.set(key, sale);
    const result = await sale;
    await setup.beforeTelling?.();
    return { content: [], ...result };
  };
  const description = "A report that costs money";
  server.registerTool("report", { description, inputSchema }, (args, { mcpReq }) =>
    report(args, mcpReq._meta),
  );
  server.registerTool("time", { description: "Free", inputSchema }, async () => FREE);
  // What a tool throws is a result of the SDK's: an error of the protocol comes from below it.
  if (setup.version === 1) {
    server.server.setRequestHandler("tools/call", ({ params }, { mcpReq }) =>
      params.name === "time" ? FREE : report(params.arguments, mcpReq._meta),
    );
  }
  return server;
}

const FREE = { content: [{ type: "text" as const, text: "noon" }] };

function requirements({ chain, payTo, amount, version = 2 }: McpSellerSetup): object {
  const { asset, network } = chain;
  const common = {
    scheme: "exact",
    asset,
    payTo,
    maxTimeoutSeconds: 60,
    extra: network.asset.eip712,
  };
  if (version === 2) return { ...common, network: caip2Of(network.name), amount: String(amount) };
  const sold = { resource: "mcp://tool/report", description: "A report", mimeType: "text/plain" };
  return { ...common, ...sold, network: network.name, maxAmountRequired: String(amount) };
}

function asking(setup: McpSellerSetup, error: string, more: object = {}) {
  const { version = 2, asksBy = "both" } = setup;
  const accepts = [requirements(setup)];
  if (version === 1) throw new ProtocolError(402, error, { x402Version: 1, error, accepts });
  const resource = { url: "mcp://tool/report", description: "A report", mimeType: "text/plain" };
  const required = { x402Version: 2, error, resource, accepts, ...more };
  const wrapped = { "x402/error": { code: 402, message: error, data: required } };
  const text = JSON.stringify(wrapped);
  const structured = asksBy === "wrapper" ? wrapped : required;
  return {
    isError: true,
    content: [{ type: "text" as const, text: asksBy === "wrapper" ? "pay" : text }],
    ...(asksBy !== "text" && { structuredContent: structured }),
  };
}

async function sell(
  setup: McpSellerSetup,
  paymentPayload: unknown,
  args: unknown,
  sold: unknown[],
): Promise<object> {
  const { version = 2, facilitatorUrl } = setup;
  const body = { x402Version: version, paymentPayload, paymentRequirements: requirements(setup) };
  const response = await fetch(`${facilitatorUrl}/settle`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const receipt = Object(await response.json());
  if (receipt.success !== true)
    return asking(setup, `Payment settlement failed: ${receipt.errorReason}`, {
      [META.receipt]: receipt,
    });
  sold.push(args);
  const text = `a report of ${JSON.stringify(args)}`;
  return { content: [{ type: "text", text }], _meta: { [META.receipt]: receipt } };
}
