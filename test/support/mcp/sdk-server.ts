/** An MCP server of `@modelcontextprotocol/sdk` (revision 2025-11-25 and before) with the stage's tools, without a transport. */
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import {
  CallToolRequestSchema,
  CompleteRequestSchema,
  CreateMessageResultSchema,
  ElicitResultSchema,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  ReadResourceRequestSchema,
  SetLevelRequestSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import {
  PROMPTS,
  readResource,
  RESOURCES,
  TEMPLATE,
  text,
  type AskedMethod,
  type Tool,
} from "./tools.ts";

const CAPABILITIES = {
  tools: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  prompts: { listChanged: true },
  logging: {},
  completions: {},
};

const NO_ARGUMENTS = { type: "object" } as const;

/** JSON-RPC's "invalid params". */
const INVALID_PARAMS = -32_602;

function failed(message: string): Error {
  return Object.assign(new Error(message), { code: INVALID_PARAMS });
}

/** One instance for each session. */
export function sdkServer(tools: readonly Tool[]): Server {
  const server = new Server({ name: "stage", version: "1.0.0" }, { capabilities: CAPABILITIES });
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: tools.map(({ name, description, input = NO_ARGUMENTS }) => {
      return { name, description, inputSchema: { ...input, type: "object" as const } };
    }),
  }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    const tool = tools.find(({ name }) => name === params.name);
    if (tool === undefined) throw failed(`no tool named ${params.name}`);
    const progressToken = params._meta?.progressToken;
    const notify = (method: string, told: object) =>
      extra.sendNotification({ method, params: { ...told } });
    const ask = (method: AskedMethod, asked: object) => {
      const request = { method, params: asked } as Parameters<typeof extra.sendRequest>[0];
      return method === "elicitation/create"
        ? extra.sendRequest(request, ElicitResultSchema)
        : extra.sendRequest(request, CreateMessageResultSchema);
    };
    try {
      const content = await tool.run({
        args: params.arguments ?? {},
        progress:
          progressToken === undefined
            ? null
            : (progress, total) =>
                notify("notifications/progress", { progressToken, progress, total }),
        log: (data) => notify("notifications/message", { level: "info", data }),
        ask,
        closeStream: extra.closeSSEStream,
        signal: extra.signal,
      });
      const used = tool.used?.(params.arguments ?? {});
      return { content: [...content], ...(used !== undefined && { _meta: { used } }) };
    } catch (error) {
      return { isError: true, content: [text(error instanceof Error ? error.message : "failed")] };
    }
  });
  addResources(server);
  addPrompts(server);
  server.setRequestHandler(SetLevelRequestSchema, () => ({}));
  return server;
}

function addResources(server: Server): void {
  server.setRequestHandler(ListResourcesRequestSchema, () => ({
    resources: RESOURCES.map(({ uri, name, description, mimeType }) => {
      return { uri, name, description, mimeType };
    }),
  }));
  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: [TEMPLATE],
  }));
  server.setRequestHandler(ReadResourceRequestSchema, ({ params }) => {
    const content = readResource(params.uri);
    if (content === null) throw failed(`no resource ${params.uri}`);
    const { uri, mimeType, text: written, blob } = content;
    if (blob !== undefined) return { contents: [{ uri, mimeType, blob }] };
    return { contents: [{ uri, mimeType, text: written ?? "" }] };
  });
  server.setRequestHandler(SubscribeRequestSchema, () => ({}));
  server.setRequestHandler(UnsubscribeRequestSchema, () => ({}));
}

function addPrompts(server: Server): void {
  server.setRequestHandler(ListPromptsRequestSchema, () => ({
    prompts: PROMPTS.map(({ name, description, arguments: asked = [] }) => {
      return { name, description, arguments: [...asked] };
    }),
  }));
  server.setRequestHandler(GetPromptRequestSchema, ({ params }) => {
    const prompt = PROMPTS.find(({ name }) => name === params.name);
    if (prompt === undefined) throw failed(`no prompt ${params.name}`);
    const messages = prompt.messages(params.arguments ?? {});
    return { messages: messages.map((content) => ({ role: "user" as const, content })) };
  });
  server.setRequestHandler(CompleteRequestSchema, () => ({
    completion: { values: [], total: 0, hasMore: false },
  }));
}
