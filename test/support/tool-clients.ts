/** The official MCP clients of both revisions, each connected to one server; and a buyer that pays by official packages. */
import {
  Client as ClientOf2026,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import { Client as ClientOf2025 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportOf2025 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/client";
import { x402Client } from "@x402/fetch";
import type { FreshAccount } from "./payer.ts";

type Values = Readonly<Record<string, unknown>>;

/** A result as it came. */
export interface CalledTool {
  readonly isError: boolean;
  readonly content: readonly {
    readonly type: string;
    readonly text?: string;
    readonly [name: string]: unknown;
  }[];
  readonly structured: Values | undefined;
  readonly meta: Values;
}

export interface ToolClient {
  /** Of the protocol that was agreed upon. */
  readonly revision: string | undefined;
  /** All pages. */
  list(): Promise<readonly Values[]>;
  call(name: string, given?: Values, meta?: Values): Promise<CalledTool>;
  close(): Promise<void>;
}

const INFO = { name: "test-agent", version: "1.0.0" };

function told(result: unknown): CalledTool {
  const { isError = false, content = [], structuredContent, _meta: meta = {} } = Object(result);
  return { isError, content, structured: structuredContent, meta };
}

export const toolClients: Readonly<
  Record<string, (url: string, headers?: Record<string, string>) => Promise<ToolClient>>
> = {
  "@modelcontextprotocol/sdk 1.32.2": async (url, headers = {}) => {
    const client = new ClientOf2025(INFO);
    const transport = new TransportOf2025(new URL(url), { requestInit: { headers } });
    await client.connect(transport);
    return {
      revision: transport.protocolVersion,
      list: async () => {
        const tools: Values[] = [];
        let cursor: string | undefined;
        do {
          const page = await client.listTools(cursor === undefined ? {} : { cursor });
          tools.push(...page.tools);
          cursor = page.nextCursor;
        } while (cursor !== undefined);
        return tools;
      },
      call: async (name, given = {}, meta) => {
        const call = { name, arguments: { ...given }, ...(meta && { _meta: { ...meta } }) };
        return told(await client.callTool(call));
      },
      close: () => client.close(),
    };
  },
  "@modelcontextprotocol/client 2.4.0": async (url, headers = {}) => {
    const client = new ClientOf2026(INFO, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
    await client.connect(transport);
    return {
      revision: client.getNegotiatedProtocolVersion(),
      list: async () => (await client.listTools()).tools,
      call: async (name, given = {}, meta) => {
        const call = { name, arguments: { ...given }, ...(meta && { _meta: { ...meta } }) };
        return told(await client.callTool(call));
      },
      close: () => client.close(),
    };
  },
};

/** What a buyer's official packages sign for what a result asks for; of version 1 what that asks for over HTTP. */
export async function payFor(
  { account }: Pick<FreshAccount, "account">,
  required: unknown,
): Promise<Values> {
  const client = new x402Client();
  client.register("eip155:*", new ExactEvmScheme(account));
  client.registerV1("base-sepolia", new ExactEvmSchemeV1(account));
  const { x402Version, accepts, resource, extensions } = Object(required);
  return { ...(await client.createPaymentPayload({ x402Version, accepts, resource, extensions })) };
}

export const PAYMENT = "x402/payment";
export const RECEIPT = "x402/payment-response";
