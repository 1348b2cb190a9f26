/**
 * A session of the revisions that have them: one process, and the streams of the one client that talks with it. What the
 * process says of a call goes to that call's stream, as far as it can be told which one that is.
 */
import {
  isJSONRPCErrorResponse,
  isJSONRPCNotification,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  WebStandardStreamableHTTPServerTransport,
  type JSONRPCMessage,
} from "@modelcontextprotocol/server";
import { SessionEvents } from "./event-store.ts";
import { failure, type StdioProcess } from "./stdio-process.ts";

/** Calls that a session may have under way. */
const MAX_CALLS = 64;
/** What a client is told to wait before it takes up a cut stream, milliseconds. */
const RETRY_MS = 500;

/** Of the language servers, for want of one of MCP's: whoever has asked has given it up. */
const CANCELLED = -32_800;

interface SessionOptions {
  readonly id: string;
  readonly process: StdioProcess;
  /** It is no session any more. */
  readonly onEnd: (why: string, byItself: boolean) => void;
  /** It has answered something. */
  readonly onAnswer: () => void;
}

export class StdioSession {
  readonly id: string;
  readonly #process: StdioProcess;
  readonly #transport: WebStandardStreamableHTTPServerTransport;
  readonly #options: SessionOptions;
  /** Calls under way, the newest last, each with what its progress is told by. */
  readonly #calls = new Map<string | number, unknown>();
  #isOver = false;

  constructor(options: SessionOptions) {
    const { id, process } = options;
    this.#options = options;
    this.id = id;
    this.#process = process;
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      eventStore: new SessionEvents(),
      retryInterval: RETRY_MS,
      onsessionclosed: () => void this.end("its client has ended it"),
    });
    this.#transport = transport;
    Object.assign(transport, {
      onmessage: (message: JSONRPCMessage) => this.#toProcess(message),
    });
    process.listen({
      onMessage: (message) => void this.#toClient(message),
      onEnd: (why, byItself) => void this.#over(why, byItself),
    });
  }

  get isBusy(): boolean {
    return this.#calls.size > 0;
  }

  /** Whether one more call is taken. */
  get isFull(): boolean {
    return this.#calls.size >= MAX_CALLS;
  }

  /** Whether a call of its id is under way: the answer to one of them would be told in the stream of the other. */
  isAsked(message: unknown): boolean {
    if (!isJSONRPCRequest(message)) return false;
    const asked = looseId(message.id);
    return [...this.#calls.keys()].some((id) => looseId(id) === asked);
  }

  start(): Promise<void> {
    return this.#transport.start();
  }

  handle(request: Request, parsedBody: unknown): Promise<Response> {
    return this.#transport.handleRequest(
      request,
      parsedBody === undefined ? {} : { parsedBody: parsedBody },
    );
  }

  /** Its process is not listened to while its client does not read. */
  pause(isPaused: boolean): void {
    this.#process.pause(isPaused);
  }

  /** Ends it with its process; calls under way are told why. */
  end(why: string): Promise<void> {
    return this.#process.end(why);
  }

  #toProcess(message: JSONRPCMessage): void {
    if (isJSONRPCRequest(message)) {
      this.#calls.set(message.id, message.params?._meta?.progressToken);
    }
    this.#process.send(message);
    const cancelled = cancelledBy(message);
    // A server does not answer what was cancelled, and its stream would stay open.
    if (cancelled !== undefined && this.#calls.has(cancelled)) {
      void this.#answer(failure(cancelled, "the call was cancelled", CANCELLED));
    }
  }

  async #toClient(message: JSONRPCMessage): Promise<void> {
    this.#options.onAnswer();
    if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) {
      return this.#answer(message);
    }
    const related = this.#relatedTo(message);
    await this.#transport
      .send(message, related === undefined ? {} : { relatedRequestId: related })
      .catch(nobodyHears);
  }

  async #answer(message: JSONRPCMessage & { readonly id?: unknown }): Promise<void> {
    const { id } = message;
    if (typeof id === "string" || typeof id === "number") this.#calls.delete(id);
    await this.#transport.send(message).catch(nobodyHears);
  }

  /** The call that it belongs to: by its progress; else the newest one, where there is one. */
  #relatedTo(message: JSONRPCMessage): string | number | undefined {
    const token = isJSONRPCNotification(message) ? message.params?.["progressToken"] : undefined;
    let newest: string | number | undefined;
    for (const [id, told] of this.#calls) {
      if (token !== undefined && told === token) return id;
      newest = id;
    }
    return token === undefined ? newest : undefined;
  }

  async #over(why: string, byItself: boolean): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#options.onEnd(why, byItself);
    const told = `The server's process is gone: ${why}.`;
    await Promise.all([...this.#calls.keys()].map((id) => this.#answer(failure(id, told))));
    await this.#transport.close();
  }
}

/** As a program may take it that makes numbers of digits, or another character of half of one. */
function looseId(id: string | number): string {
  return String(id).toWellFormed();
}

function cancelledBy(message: JSONRPCMessage): string | number | undefined {
  if (!isJSONRPCNotification(message) || message.method !== "notifications/cancelled") return;
  const id = message.params?.["requestId"];
  return typeof id === "string" || typeof id === "number" ? id : undefined;
}

/** Its stream is not known any more. */
export function nobodyHears(): void {}
