/**
 * Messages of MCP to the tools of a site, by the official SDK: of revision 2026-07-28 and of those before it, each
 * message by itself, without a session. A call becomes a request, and its answer, with what it asks for or its receipt,
 * a result.
 */
import {
  createMcpHandler,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type CallToolResult,
  type ListToolsResult,
} from "@modelcontextprotocol/server";
import type { AskCall, CallOutcome, ToolMessage } from "../gateway/calls/tool-service.ts";
import {
  decodeBase64Json,
  encodeHeaderJson,
  PAYMENT_HEADERS,
  PAYMENT_REQUIRED_HEADER,
  RECEIPT_HEADERS,
} from "../x402/header.ts";
import { BAZAAR, sampleOf } from "../x402/bazaar.ts";
import { isRecord, parseJson } from "../x402/json.ts";
import {
  PAYMENT_META,
  paymentRequiredResult,
  PRICE_META,
  RECEIPT_META,
  withReceipt,
} from "../x402/mcp.ts";
import { toolExtension } from "../x402/tool-bazaar.ts";
import { X402_VERSION, X402_VERSION_2 } from "../x402/x402.ts";
import packageJson from "../../package.json" with { type: "json" };
import { failed, headerOf, toolResult, type AnsweredCall } from "./tool-answer.ts";
import { toolRequest } from "./tool-request.ts";
import type { SiteTools } from "./site-tools.ts";
import type { Tool } from "./tools.ts";

/** Tools on one page of the list. */
const PAGE_SIZE = 100;
/** How long a client may keep the list, milliseconds. */
const LIST_TTL_MS = 60_000;
const { version } = packageJson;
/** Header lines of a message that are the protocol's. */
const OF_THE_PROTOCOL = /^(?:content-type|accept|mcp-.*)$/;

/** Where a payment is over HTTP, in what is said of it. */
const IN_A_HEADER = `${PAYMENT_HEADERS[X402_VERSION_2]} header`;

type Values = Readonly<Record<string, unknown>>;

/** What a message is answered with. */
export async function answerMessage(
  site: SiteTools,
  { body, headers, signal }: ToolMessage,
  ask: AskCall,
): Promise<{ readonly status: number; readonly type: string | null; readonly body: string }> {
  // Of the message nothing but what the protocol says is seen here.
  const told = Object.entries(headers).flatMap(([name, value]) => {
    return OF_THE_PROTOCOL.test(name) && typeof value === "string" ? [[name, value] as const] : [];
  });
  const handler = createMcpHandler(() => serverFor(site, ask), {
    // Nothing is ever told but answers: the list changes with the configuration, and is asked for again.
    maxSubscriptions: 0,
    keepAliveMs: 0,
  });
  const request = new Request(site.url, {
    method: "POST",
    headers: told.map(([...pair]) => pair),
    signal,
  });
  const response = await handler.fetch(request, { parsedBody: body });
  const text = await response.text();
  return { status: response.status, type: response.headers.get("content-type"), body: text };
}

function serverFor(site: SiteTools, ask: AskCall): Server {
  const { seller } = site;
  const server = new Server(
    { name: `${seller} (coinslot)`, version },
    {
      capabilities: { tools: {} },
      cacheHints: { "tools/list": { ttlMs: LIST_TTL_MS, cacheScope: "public" } },
      instructions:
        "Each call of a tool costs what its description says. A call without payment is answered with what to sign (x402); " +
        `the same call with the payment in _meta["${PAYMENT_META}"] is answered, with the receipt in _meta["${RECEIPT_META}"].`,
    },
  );
  server.setRequestHandler("tools/list", ({ params }) => pageOf(site, params?.cursor));
  server.setRequestHandler("tools/call", async ({ params }) => {
    const { name, arguments: given = {}, _meta: meta } = params;
    const tool = site.byName.get(name);
    if (tool === undefined)
      throw new ProtocolError(
        ProtocolErrorCode.InvalidParams,
        `there is no tool ${name.slice(0, 64)}`,
      );
    return callTool(site, tool, { given, payment: meta?.[PAYMENT_META] }, ask);
  });
  return server;
}

/** Behind the tool that the cursor names: a page is the same whoever asks, and whenever. */
function pageOf({ tools, byName }: SiteTools, cursor: string | undefined): ListToolsResult {
  const last = cursor === undefined ? undefined : byName.get(cursor);
  if (cursor !== undefined && last === undefined) {
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, "the cursor is none of this list");
  }
  const from = last === undefined ? 0 : tools.indexOf(last) + 1;
  const page = tools.slice(from, from + PAGE_SIZE);
  const end = page.at(-1);
  const hasMore = end !== undefined && from + PAGE_SIZE < tools.length;
  return {
    tools: page.map(listed),
    ...(hasMore && { nextCursor: end.name }),
  };
}

function listed(tool: Tool): ListToolsResult["tools"][number] {
  const { name, description, input, output, price, isReading } = tool;
  return {
    name,
    description,
    inputSchema: jsonObject(input.schema),
    ...(output !== null && { outputSchema: jsonObject(output) }),
    annotations: { readOnlyHint: isReading, openWorldHint: true },
    _meta: { [PRICE_META]: price },
  };
}

interface Called {
  readonly given: Values;
  readonly payment: unknown;
}

async function callTool(
  site: SiteTools,
  tool: Tool,
  { given, payment }: Called,
  ask: AskCall,
): Promise<CallToolResult> {
  const made = toolRequest(tool, given);
  if (!made.ok) return failed(`The call cannot be made: ${made.error}.`);
  const { headers, ...asked } = made.value;
  const paid = payment === undefined ? [] : paymentLine(payment);
  const outcome = await ask({ ...asked, headers: [...headers, ...paid], route: tool.route });
  if (outcome.kind === "elsewhere") {
    return failed("The call cannot be made: with these arguments it would ask for something else.");
  }
  const receipt = receiptOf(outcome);
  const result = resultOf(site, tool, { outcome, target: asked.target });
  return isRecord(receipt) ? withReceipt(result, receipt) : result;
}

function resultOf(
  site: SiteTools,
  tool: Tool,
  {
    outcome,
    target,
  }: { readonly outcome: Exclude<CallOutcome, { kind: "elsewhere" }>; readonly target: string },
): CallToolResult {
  const resource = site.publicUrl + target;
  if (outcome.kind === "not-held")
    return failed(saidOf(outcome), `The same over HTTP: ${tool.method} ${resource}`);
  const required = outcome.status === 402 ? requiredIn(outcome) : undefined;
  if (required === undefined) return toolResult(outcome, tool, resource);
  const { structuredContent, content } = paymentRequiredResult(forTool(required, tool, site));
  return { isError: true, structuredContent: { ...structuredContent }, content: [...content] };
}

function saidOf({ why }: Extract<CallOutcome, { kind: "not-held" }>): string {
  const again = "What was paid for it is good for the same request over HTTP.";
  switch (why) {
    case "stream":
      return `The answer is a stream of events, which no result of a tool is. ${again}`;
    case "too-large":
      return `The answer is larger than a result of a tool may be here. ${again}`;
    case "crowded":
      return `Too many answers are on their way; the same call is to be made again, with the same payment.`;
    case null:
      return `The answer was broken off; the same call is to be made again, with the same payment.`;
  }
}

/** As the header of its version has it. What it repeats of how a tool is called was never told of the route itself. */
function paymentLine(payment: unknown): readonly string[] {
  if (!isRecord(payment)) return [PAYMENT_HEADERS[X402_VERSION_2], encodeHeaderJson({ payment })];
  const { extensions, ...rest } = payment;
  const version = payment["x402Version"] === X402_VERSION ? X402_VERSION : X402_VERSION_2;
  if (!isRecord(extensions)) return [PAYMENT_HEADERS[version], encodeHeaderJson(payment)];
  const { [BAZAAR]: _, ...others } = extensions;
  return [PAYMENT_HEADERS[version], encodeHeaderJson({ ...rest, extensions: others })];
}

/** What is asked for, in the newer version where that is spoken. */
function requiredIn(answer: AnsweredCall): Values | undefined {
  const newer = headerOf(answer, PAYMENT_REQUIRED_HEADER.toLowerCase());
  const text = newer === undefined ? Buffer.from(answer.body) : Buffer.from(newer, "base64");
  const read = parseJson(text.toString("utf8"));
  return isRecord(read) && Array.isArray(read["accepts"]) ? read : undefined;
}

/** The ways to pay are the route's; what is told of how it is asked for is the tool's. */
function forTool(required: Values, tool: Tool, { url }: SiteTools): Values {
  if (required["x402Version"] !== X402_VERSION_2) return required;
  const { resource, extensions, error, ...rest } = required;
  const { name, description, input, output } = tool;
  const example = output === null ? undefined : sampleOf(output).example;
  const told = {
    name,
    description,
    inputSchema: input.schema,
    example: input.example,
    output: example,
  };
  return {
    ...rest,
    ...(typeof error === "string" && {
      error: error.replace(IN_A_HEADER, `_meta["${PAYMENT_META}"]`),
    }),
    resource: { ...(isRecord(resource) && resource), url },
    extensions: { ...(isRecord(extensions) && extensions), ...toolExtension(told) },
  };
}

function receiptOf(outcome: CallOutcome): unknown {
  if (outcome.kind === "elsewhere") return undefined;
  for (const name of Object.values(RECEIPT_HEADERS)) {
    const value = headerOf(outcome, name.toLowerCase());
    if (value === undefined) continue;
    const read = decodeBase64Json(value, name);
    return read.ok ? read.value : undefined;
  }
  return undefined;
}

/** Of a schema of our own that is one of an object. */
function jsonObject(schema: object): { [name: string]: unknown; type: "object" } {
  return { ...schema, type: "object" };
}
