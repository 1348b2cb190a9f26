/** The REST endpoints over a facilitator that answers what a test says; closed when the test ends. */
import type { WireFacilitator } from "../../../src/facilitator/wire-facilitator.ts";
import { createServer, request as httpRequest, type ServerOptions } from "node:http";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { onTestFinished } from "vitest";
import { Callers } from "../../../src/facilitator/callers.ts";
import {
  FacilitatorEndpoints,
  type EndpointOptions,
  type Listing,
} from "../../../src/facilitator/endpoints.ts";
import type { SettleOptions } from "../../../src/payments/facilitator.ts";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import type { FacilitatorRequest } from "../../../src/x402/x402.ts";
import { exampleRequest, PAYER, TRANSACTION } from "../payments/settlement/example-request.ts";

export interface Asked {
  readonly what: "verify" | "settle";
  readonly request: FacilitatorRequest;
  readonly idempotencyKey: string | undefined;
}

export interface Stage {
  readonly port: number;
  /** What got through to the facilitator. */
  readonly asked: readonly Asked[];
  /** Raw query strings of the discovery listing; those of version 2 behind the form that was asked for. */
  readonly queries: readonly string[];
  /** Log lines. */
  readonly log: readonly Record<string, unknown>[];
}

export interface StageOptions extends Partial<
  Pick<
    EndpointOptions,
    "addressOf" | "basePath" | "callers" | "catalogue" | "isClosed" | "leastAmount"
  >
> {
  /** A token that callers need; default: as `callers` say, else none. */
  readonly bearer?: string;
  readonly server?: ServerOptions;
  readonly facilitator?: Partial<WireFacilitator>;
  readonly listing?: Listing;
}

/** By default every payment is good and settled. */
export async function stage(options: StageOptions = {}): Promise<Stage> {
  const { bearer } = options;
  const asked: Asked[] = [];
  const queries: string[] = [];
  const log: Record<string, unknown>[] = [];
  const answering: WireFacilitator = {
    verify: async () => ({ isValid: true, payer: PAYER }),
    settle: async () => ({
      success: true,
      transaction: TRANSACTION,
      network: "base-sepolia",
      payer: PAYER,
    }),
    supported: async () => ({
      kinds: [{ x402Version: 1, scheme: "exact", network: "base-sepolia" }],
    }),
    ...options.facilitator,
  };
  const facilitator: WireFacilitator = {
    ...answering,
    verify(request, signal, client) {
      asked.push({ what: "verify", request, idempotencyKey: undefined });
      return answering.verify(request, signal, client);
    },
    settle(request, settling: SettleOptions) {
      asked.push({ what: "settle", request, idempotencyKey: settling.idempotencyKey });
      return answering.settle(request, settling);
    },
  };
  const write = (line: string): void => void log.push(JSON.parse(line));
  const endpoints = new FacilitatorEndpoints({
    facilitator,
    list(query, _, form) {
      queries.push(form === undefined ? query : `${form}: ${query}`);
      return options.listing ?? { status: 200, body: '{"items":[]}', etag: null };
    },
    basePath: options.basePath ?? "",
    callers:
      options.callers ?? new Callers(bearer === undefined ? [] : [{ gateway: null, bearer }]),
    ...(options.addressOf === undefined ? {} : { addressOf: options.addressOf }),
    ...(options.leastAmount === undefined ? {} : { leastAmount: options.leastAmount }),
    ...(options.catalogue === undefined ? {} : { catalogue: options.catalogue }),
    ...(options.isClosed === undefined ? {} : { isClosed: options.isClosed }),
    logger: createLogger({ level: "trace", format: "json", destination: { write } }),
  });
  const server = createServer(options.server ?? {}, endpoints.handle);
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  onTestFinished(() => drain(server, AbortSignal.abort()));
  return { port, asked, queries, log };
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The text as JSON; undefined when there is none. */
  readonly body: unknown;
}

export interface Sent {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** An object is sent as JSON, several buffers in chunks. */
  readonly body?: object | string | readonly Buffer[];
}

/** One request on a connection of its own; POST where there is a body, else GET. */
export async function ask({ port }: Pick<Stage, "port">, path: string, sent: Sent = {}) {
  const { body, method = body === undefined ? "GET" : "POST" } = sent;
  const type = body === undefined ? {} : { "Content-Type": "application/json" };
  const headers = { ...type, ...sent.headers };
  const outgoing = httpRequest({ port, host: "127.0.0.1", path, method, headers, agent: false });
  if (Array.isArray(body)) for (const part of body) outgoing.write(part);
  outgoing.end(typeof body === "string" ? body : plainJson(body));
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.on("response", resolve).on("error", reject);
  });
  const parts: Buffer[] = [];
  for await (const part of answer) parts.push(Buffer.from(part));
  const text = Buffer.concat(parts).toString("utf8");
  const parsed: unknown = text === "" ? undefined : JSON.parse(text);
  const read: Answer = {
    status: answer.statusCode ?? 0,
    headers: answer.headers,
    text,
    body: parsed,
  };
  return read;
}

function plainJson(body: Sent["body"]): string | undefined {
  return body === undefined || Array.isArray(body) ? undefined : JSON.stringify(body);
}

/** A good request as the clients send it. */
export const good = { x402Version: 1, ...exampleRequest };
