/**
 * MCP servers over streamable HTTP, as a seller's backend: of both official SDKs, on one port that stays theirs from one
 * life to the next.
 */
import { randomUUID } from "node:crypto";
import {
  createServer,
  type IncomingHttpHeaders,
  type RequestListener,
  type Server as HttpServer,
} from "node:http";
import { InMemoryEventStore } from "@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { createMcpHandler } from "@modelcontextprotocol/server";
import { freePort } from "../free-port.ts";
import { sdkServer } from "./sdk-server.ts";
import { Workshop } from "./tools.ts";
import { webListener } from "./web-listener.ts";
import { webServerFactory } from "./web-server.ts";

export interface McpStageOptions {
  /**
   * `sessions`: `@modelcontextprotocol/sdk`, revisions up to 2025-11-25, with sessions and an event store. `requests`:
   * `@modelcontextprotocol/server`, revision 2026-07-28, and earlier ones without sessions. Default: `sessions`.
   */
  readonly serves?: "sessions" | "requests";
  /** Answers of one JSON document in place of streams. Default: streams. */
  readonly json?: boolean;
}

export class McpStage {
  /** What its tools were called for, in all of its lives. */
  readonly workshop = new Workshop();
  /** Hears of each request as its head has arrived. */
  onRequest: (method: string, headers: IncomingHttpHeaders) => void = () => {};
  readonly #options: McpStageOptions;
  readonly #port: number;
  #http: HttpServer | null = null;
  #sessions = new Map<string, StreamableHTTPServerTransport>();

  private constructor(port: number, options: McpStageOptions) {
    this.#port = port;
    this.#options = options;
  }

  static async open(options: McpStageOptions = {}): Promise<McpStage> {
    const stage = new McpStage(await freePort(), options);
    await stage.start();
    return stage;
  }

  /** Without a path; its endpoint is `/mcp`. */
  get origin(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get sessions(): number {
    return this.#sessions.size;
  }

  /** Another life: sessions of the one before are not known to it. */
  async start(): Promise<void> {
    const listener =
      this.#options.serves === "requests" ? this.#requestsListener() : this.#sessionsListener();
    const http = createServer((request, response) => {
      // As the specification wants of servers on this machine: names of elsewhere are not answered.
      const { host = "", origin } = request.headers;
      if (!isLocal(`http://${host}`) || (origin !== undefined && !isLocal(origin))) {
        response.writeHead(403).end();
        return;
      }
      this.onRequest(request.method ?? "", request.headers);
      listener(request, response);
    });
    this.#http = http;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    http.once("error", reject).listen({ host: "127.0.0.1", port: this.#port }, resolve);
    await promise;
  }

  /** Ends this life as a crash does: connections break, sessions are forgotten. */
  async crash(): Promise<void> {
    const http = this.#http;
    if (http === null) return;
    this.#http = null;
    this.#sessions = new Map();
    const closed = new Promise<void>((resolve) => {
      http.close(() => resolve());
    });
    http.closeAllConnections();
    await closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.workshop.release();
    await this.crash();
  }

  #sessionsListener(): RequestListener {
    const sessions = this.#sessions;
    const begin = async (): Promise<StreamableHTTPServerTransport> => {
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        enableJsonResponse: this.#options.json ?? false,
        eventStore: new InMemoryEventStore(),
        retryInterval: RETRY_MS,
        onsessioninitialized: (id) => void sessions.set(id, transport),
        onsessionclosed: (id) => void sessions.delete(id),
      });
      await sdkServer(this.workshop.tools).connect(transport);
      return transport;
    };
    return async (request, response) => {
      const id = request.headers["mcp-session-id"];
      if (id === undefined) {
        await (await begin()).handleRequest(request, response);
        return;
      }
      const known = sessions.get(String(id));
      if (known !== undefined) {
        await known.handleRequest(request, response);
        return;
      }
      const error = { code: -32_001, message: "Session not found" };
      response.writeHead(404, { "Content-Type": "application/json" });
      response.end(JSON.stringify({ jsonrpc: "2.0", error, id: null }));
    };
  }

  #requestsListener(): RequestListener {
    const { json = false } = this.#options;
    const handler = createMcpHandler(webServerFactory(this.workshop.tools), {
      responseMode: json ? "json" : "auto",
    });
    return webListener((request) => handler.fetch(request));
  }
}

/** What a client is told to wait before it takes up a stream that has ended, milliseconds. */
const RETRY_MS = 100;

function isLocal(url: string): boolean {
  return URL.canParse(url) && ["localhost", "127.0.0.1"].includes(new URL(url).hostname);
}
