/**
 * Whoever calls by the revision without sessions: one process, as long as he calls again. Each request is one of its own,
 * whose id is ours on the way, since two of them may have the same.
 */
import {
  isJSONRPCErrorResponse,
  isJSONRPCNotification,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  PerRequestHTTPServerTransport,
  SUBSCRIPTION_ID_META_KEY,
  type JSONRPCMessage,
  type JSONRPCNotification,
  type JSONRPCRequest,
} from "@modelcontextprotocol/server";
import { nobodyHears } from "./stdio-session.ts";
import { failure, type StdioProcess } from "./stdio-process.ts";

/** Requests that a caller may have under way. */
const MAX_CALLS = 64;

/** JSON-RPC's own. */
const METHOD_NOT_FOUND = -32_601;
/** What asks which revisions are spoken. */
export const DISCOVER = "server/discover";

interface Call {
  readonly transport: PerRequestHTTPServerTransport;
  /** As its client wrote it. */
  readonly id: string | number;
  readonly method: string;
  readonly progressToken: unknown;
}

interface CallerOptions {
  readonly process: StdioProcess;
  readonly onEnd: (why: string, byItself: boolean) => void;
  readonly onAnswer: () => void;
  /** The server does not know the revision without sessions. */
  readonly onUnknown: () => void;
}

type Classification = ConstructorParameters<
  typeof PerRequestHTTPServerTransport
>[0]["classification"];

export class StdioCaller {
  readonly #options: CallerOptions;
  readonly #process: StdioProcess;
  readonly #calls = new Map<string | number, Call>();
  #last = 0;

  constructor(options: CallerOptions) {
    this.#options = options;
    this.#process = options.process;
    this.#process.listen({
      onMessage: (message) => void this.#toClient(message),
      onEnd: (why, byItself) => this.#over(why, byItself),
    });
  }

  get isBusy(): boolean {
    return this.#calls.size > 0;
  }

  get isFull(): boolean {
    return this.#calls.size >= MAX_CALLS;
  }

  async handle(
    message: JSONRPCRequest | JSONRPCNotification,
    classification: Classification,
    request: Request,
  ): Promise<Response> {
    const transport = new PerRequestHTTPServerTransport({ classification });
    Object.assign(transport, {
      onmessage: (told: JSONRPCMessage) => this.#toProcess(transport, told),
    });
    await transport.start();
    return transport.handleMessage(message, { request });
  }

  pause(isPaused: boolean): void {
    this.#process.pause(isPaused);
  }

  end(why: string): Promise<void> {
    return this.#process.end(why);
  }

  #toProcess(transport: PerRequestHTTPServerTransport, message: JSONRPCMessage): void {
    if (!isJSONRPCRequest(message)) {
      this.#process.send(message);
      return;
    }
    this.#last += 1;
    const ours = this.#last;
    const { id, method, params } = message;
    const progressToken = params?._meta?.progressToken;
    this.#calls.set(ours, { transport, id, method, progressToken });
    // Ended by its answer, or by its client's leaving: that is how this revision cancels.
    const onclose = (): void => {
      if (!this.#calls.delete(ours)) return;
      const told = { requestId: ours, reason: "the client has left" };
      this.#process.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: told });
    };
    Object.assign(transport, { onclose });
    const asked =
      progressToken === undefined
        ? params
        : { ...params, _meta: { ...params?._meta, progressToken: ours } };
    this.#process.send({ ...message, id: ours, ...(asked !== undefined && { params: asked }) });
  }

  async #toClient(message: JSONRPCMessage): Promise<void> {
    this.#options.onAnswer();
    if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) {
      const call = message.id === undefined ? undefined : this.#calls.get(message.id);
      if (call === undefined || message.id === undefined) return;
      this.#calls.delete(message.id);
      const isUnknown =
        call.method === DISCOVER &&
        isJSONRPCErrorResponse(message) &&
        message.error.code === METHOD_NOT_FOUND;
      if (isUnknown) this.#options.onUnknown();
      await call.transport.send({ ...message, id: call.id }).catch(nobodyHears);
      return;
    }
    // In this revision a server asks nothing by itself, and tells only what a request is open for.
    if (!isJSONRPCNotification(message)) return;
    const { params = {} } = message;
    const { progressToken, _meta } = params;
    const subscription = _meta?.[SUBSCRIPTION_ID_META_KEY];
    const key = progressToken ?? subscription;
    if (typeof key !== "string" && typeof key !== "number") {
      await this.#log(message);
      return;
    }
    const call = this.#calls.get(key) ?? this.#calls.get(Number(key));
    if (call === undefined) return;
    const told = {
      ...params,
      ...(progressToken !== undefined && { progressToken: call.progressToken }),
      ...(subscription !== undefined && {
        _meta: { ..._meta, [SUBSCRIPTION_ID_META_KEY]: call.id },
      }),
    };
    await call.transport
      .send({ ...message, params: told }, { relatedRequestId: call.id })
      .catch(nobodyHears);
  }

  /** What says not what it belongs to belongs to the only request that there is, or to nobody. */
  async #log(message: JSONRPCNotification): Promise<void> {
    const [call, ...others] = this.#calls.values();
    if (call === undefined || others.length > 0) return;
    await call.transport.send(message, { relatedRequestId: call.id }).catch(nobodyHears);
  }

  #over(why: string, byItself: boolean): void {
    this.#options.onEnd(why, byItself);
    const told = `The server's process is gone: ${why}.`;
    for (const [ours, { transport, id }] of this.#calls) {
      this.#calls.delete(ours);
      void transport.send(failure(id, told)).catch(nobodyHears);
    }
  }
}
