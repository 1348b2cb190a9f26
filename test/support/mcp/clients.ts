/** The official clients of both SDKs, as they are, as one thing: what tests ask of them and nothing more. */
import {
  Client as WebClient,
  StreamableHTTPClientTransport as WebTransport,
} from "@modelcontextprotocol/client";
import { Client as SdkClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as SdkTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

/** An answer of a tool, as far as tests look at it. */
export interface CallResult {
  readonly isError?: boolean | undefined;
  readonly content: readonly { readonly type: string; readonly text?: string | undefined }[];
  readonly structuredContent?: unknown;
  readonly _meta?: Readonly<Record<string, unknown>> | undefined;
}

export interface CallOptions {
  readonly signal?: AbortSignal;
  /** How far it is. */
  readonly onProgress?: (done: number) => void;
  readonly meta?: Readonly<Record<string, unknown>>;
}

export interface McpClient extends AsyncDisposable {
  /** Undefined: it has no session. */
  readonly sessionId: string | undefined;
  readonly revision: string | undefined;
  /** Tools with what was told of them. */
  list(): Promise<
    readonly {
      readonly name: string;
      readonly description?: string | undefined;
      readonly _meta?: unknown;
    }[]
  >;
  call(
    name: string,
    args?: Readonly<Record<string, unknown>>,
    options?: CallOptions,
  ): Promise<CallResult>;
  /** Contents of a resource. */
  read(uri: string): Promise<unknown>;
  /** Ends the session. */
  terminate(): Promise<void>;
}

export interface ConnectOptions {
  /** In place of the global one: to see, and to break, what is sent. */
  readonly fetch?: typeof fetch;
  /** What its user says to whatever he is asked. */
  readonly answer?: Readonly<Record<string, string>>;
}

export type Connect = (url: string, options?: ConnectOptions) => Promise<McpClient>;

const INFO = { name: "stage-client", version: "1.0.0" };

/** `@modelcontextprotocol/sdk` 1.32.2: sessions. */
export const connectSdk: Connect = async (url, { fetch: own, answer } = {}) => {
  const client = new SdkClient(INFO, {
    capabilities: answer === undefined ? {} : { elicitation: {} },
  });
  if (answer !== undefined) {
    const { ElicitRequestSchema } = await import("@modelcontextprotocol/sdk/types.js");
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept", content: answer }));
  }
  const transport = new SdkTransport(new URL(url), { ...(own !== undefined && { fetch: own }) });
  await client.connect(transport);
  return {
    get sessionId() {
      return transport.sessionId;
    },
    get revision() {
      return transport.protocolVersion;
    },
    list: async () => (await client.listTools()).tools,
    call: async (name, args = {}, { signal, onProgress, meta } = {}) => {
      const result = await client.callTool(
        { name, arguments: args, ...(meta !== undefined && { _meta: meta }) },
        undefined,
        {
          ...(signal !== undefined && { signal }),
          ...(onProgress !== undefined && { onprogress: ({ progress }) => onProgress(progress) }),
        },
      );
      return resultOf(result);
    },
    read: async (uri) => (await client.readResource({ uri })).contents,
    terminate: () => transport.terminateSession(),
    [Symbol.asyncDispose]: () => client.close(),
  };
};

/** `@modelcontextprotocol/client` 2.4.0, of whatever revision the server speaks; `legacy`: as one of before. */
export const connectWeb =
  (mode: "auto" | "legacy" = "auto"): Connect =>
  async (url, { fetch: own, answer } = {}) => {
    const client = new WebClient(INFO, {
      capabilities: answer === undefined ? {} : { elicitation: {} },
      versionNegotiation: { mode },
    });
    if (answer !== undefined) {
      client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: answer }));
    }
    const transport = new WebTransport(new URL(url), { ...(own !== undefined && { fetch: own }) });
    await client.connect(transport);
    return {
      get sessionId() {
        return transport.sessionId;
      },
      get revision() {
        return client.getNegotiatedProtocolVersion();
      },
      list: async () => (await client.listTools()).tools,
      call: async (name, args = {}, { signal, onProgress, meta } = {}) => {
        const result = await client.callTool(
          { name, arguments: args, ...(meta !== undefined && { _meta: meta }) },
          {
            ...(signal !== undefined && { signal }),
            ...(onProgress !== undefined && { onprogress: ({ progress }) => onProgress(progress) }),
          },
        );
        return resultOf(result);
      },
      read: async (uri) => (await client.readResource({ uri })).contents,
      terminate: () => transport.terminateSession(),
      [Symbol.asyncDispose]: () => client.close(),
    };
  };

/** Throws where a server has answered something else than a tool's result. */
function resultOf(result: object): CallResult {
  const { content, isError, structuredContent, _meta } = Object(result);
  if (!Array.isArray(content)) throw new Error("a result without content");
  return { content, isError, structuredContent, _meta };
}
