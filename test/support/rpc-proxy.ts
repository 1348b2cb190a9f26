/**
 * A JSON-RPC proxy before a real node, with faults where a test wants them: a question that never gets
 * to the node, an answer that gets lost after the node has acted, one that comes late, an HTTP error,
 * nonsense. Whatever no fault meets is passed on as it is. Single calls only, as the product sends them.
 *
 *     await using proxy = await startRpcProxy(chain.rpcUrl);
 *     const lost = proxy.inject({ method: "eth_sendRawTransaction", at: "answer", drop: true, times: 2 });
 *     …settle through proxy.url…
 *     expect(lost.hits).toBe(2);
 *
 * It answers `eth_sendRawTransactionSync` as a node that does not have it, which most have not: so bytes are
 * sent the one way that faults are made for. `{ sync: true }` passes it on. `{ blind: true }` answers for
 * `pending` what is true of the newest block, as nodes do that show no transaction before it is in one.
 *
 * The product's client repeats a call once when its connection breaks: a `drop` with `times: 1` is
 * therefore a hiccup that nobody notices, and one that shall be noticed needs two.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { drain, listen } from "../../src/gateway/listener/listener.ts";

/** Largest question, bytes. */
const MAX_QUESTION_BYTES = 1024 * 1024;
/** Questions kept at most: a test that asks more is stuck in a loop. */
const MAX_QUESTIONS = 20_000;
/** Longest that the node may take, milliseconds. */
const NODE_TIMEOUT_MS = 10_000;

export interface Question {
  readonly method: string;
  readonly params: readonly unknown[];
}

/** What goes wrong. */
export type Fault =
  /** The connection breaks without an answer. */
  | { readonly drop: true }
  /** An HTTP answer of this status instead of the node's; 200 with a body makes a malformed answer. */
  | { readonly status: number; readonly body?: string }
  /** This JSON-RPC result instead of the node's: `null` withholds a receipt. */
  | { readonly result: unknown }
  /** This JSON-RPC error instead of the node's answer. */
  | { readonly error: { readonly code: number; readonly message: string; readonly data?: unknown } }
  /** The node's own result, changed. Always after forwarding. */
  | { readonly rewrite: (result: unknown) => unknown }
  /** Nothing at all until the injection is lifted; then the usual course. */
  | { readonly hold: true }
  /** The usual course, so many milliseconds late. */
  | { readonly delayMs: number };

export type Injection = Fault & {
  /** Default: every method. */
  readonly method?: string;
  readonly when?: (question: Question) => boolean;
  /**
   * `question` (default): before the node hears of it. `answer`: after the node has acted on it, so
   * that a broadcast is in its pool and only the word of it is lost.
   */
  readonly at?: "question" | "answer";
  /** Matching questions that pass unharmed before the first fault; default 0. */
  readonly skip?: number;
  /** How many questions meet the fault; default: all until it is lifted. */
  readonly times?: number;
};

/** A fault that is in force. */
export interface Injected {
  /** How many questions have met it. */
  readonly hits: number;
  /** Resolves once so many questions have met it; at `answer` the node has then acted on them. */
  hit(times?: number): Promise<void>;
  /** Ends the fault; questions held by it go on. */
  lift(): void;
}

export interface RpcProxy {
  /** `http://127.0.0.1:port`, the same all its life. */
  readonly url: string;
  /** Every question so far, in order, those that met a fault included. */
  readonly questions: readonly Question[];
  /** How often a method was asked. */
  count(method: string): number;
  /** Resolves once a method has been asked so many times since the start. */
  asked(method: string, times: number): Promise<void>;
  /** The first injection that matches a question is the one it meets. */
  inject(injection: Injection): Injected;
  /** Stops listening: connections are refused until `up`. */
  down(): Promise<void>;
  up(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Opens a proxy before the node at `nodeUrl`. */
export async function startRpcProxy(
  nodeUrl: string,
  { sync = false, blind = false }: { readonly sync?: boolean; readonly blind?: boolean } = {},
): Promise<RpcProxy> {
  const questions: Question[] = [];
  const injections: ActiveInjection[] = [];
  const asked = new Milestones();
  const count = (method: string): number =>
    questions.filter((question) => question.method === method).length;

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await readBody(request);
    const { id, ...question } = readQuestion(body);
    if (questions.length >= MAX_QUESTIONS) throw new Error("too many questions for one test");
    questions.push(question);
    asked.reached(question.method, count(question.method));
    if (!sync && question.method === "eth_sendRawTransactionSync") {
      const error = { code: -32_601, message: "Method not found" };
      return sendJson(response, { jsonrpc: "2.0", id, error });
    }
    const injection = injections.find((each) => each.takes(question));
    const passed = blind ? blinded(body, question.method) : body;
    if (injection === undefined) return send(response, await forward(nodeUrl, passed));
    await injection.meet(response, { id, forward: () => forward(nodeUrl, passed) });
  };
  const server = createServer((request, response) => {
    answer(request, response).catch((cause: unknown) => {
      // The node is gone, or the caller: either way there is nobody to answer well.
      if (response.headersSent) response.destroy();
      else send(response, { status: 502, text: String(cause) });
    });
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  return {
    url: `http://127.0.0.1:${port}`,
    questions,
    count,
    asked: (method, times) => asked.reach(method, times, count(method)),
    inject(injection) {
      const active = new ActiveInjection(injection);
      injections.push(active);
      return active;
    },
    down: () => close(server),
    async up() {
      await listen(server, { host: "127.0.0.1", port });
    },
    async [Symbol.asyncDispose]() {
      for (const injection of injections) injection.lift();
      if (server.listening) await close(server);
    },
  };
}

interface Reply {
  readonly status: number;
  readonly text: string;
}

interface Asked {
  readonly id: unknown;
  readonly forward: () => Promise<Reply>;
}

class ActiveInjection implements Injected {
  hits = 0;
  readonly #injection: Injection;
  readonly #lifted = Promise.withResolvers<void>();
  readonly #met = new Milestones();
  #skip: number;
  #left: number;

  constructor(injection: Injection) {
    this.#injection = injection;
    this.#skip = injection.skip ?? 0;
    this.#left = injection.times ?? Number.POSITIVE_INFINITY;
  }

  /** Whether the question meets this fault; one that does counts against `times` at once. */
  takes(question: Question): boolean {
    const { method, when } = this.#injection;
    if (this.#left <= 0 || (method !== undefined && method !== question.method)) return false;
    if (when !== undefined && !when(question)) return false;
    if (this.#skip > 0) {
      this.#skip -= 1;
      return false;
    }
    this.#left -= 1;
    return true;
  }

  async meet(response: ServerResponse, { id, forward }: Asked): Promise<void> {
    const fault = this.#injection;
    const forwarded = fault.at === "answer" || "rewrite" in fault;
    const answered = forwarded ? await forward() : undefined;
    this.hits += 1;
    this.#met.reached("", this.hits);
    if ("drop" in fault) {
      response.destroy();
    } else if ("status" in fault) {
      send(response, { status: fault.status, text: fault.body ?? "" });
    } else if ("result" in fault) {
      sendJson(response, { jsonrpc: "2.0", id, result: fault.result });
    } else if ("error" in fault) {
      sendJson(response, { jsonrpc: "2.0", id, error: fault.error });
    } else if ("rewrite" in fault) {
      const result = fault.rewrite(resultOf(answered));
      sendJson(response, { jsonrpc: "2.0", id, result });
    } else {
      await ("hold" in fault ? this.#lifted.promise : this.#pause(fault.delayMs));
      send(response, answered ?? (await forward()));
    }
  }

  hit(times = 1): Promise<void> {
    return this.#met.reach("", times, this.hits);
  }

  lift(): void {
    this.#left = 0;
    this.#lifted.resolve();
  }

  /** Late, or at once when the fault is lifted. */
  #pause(delayMs: number): Promise<void> {
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, delayMs);
    void this.#lifted.promise.then(late.resolve);
    return late.promise.finally(() => clearTimeout(timer));
  }
}

/** Promises for "so often", by name. */
class Milestones {
  #waiting: { readonly name: string; readonly times: number; readonly resolve: () => void }[] = [];

  reach(name: string, times: number, now: number): Promise<void> {
    if (now >= times) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting.push({ name, times, resolve });
    });
  }

  reached(name: string, now: number): void {
    const isDue = (each: { name: string; times: number }): boolean =>
      each.name === name && each.times <= now;
    const due = this.#waiting.filter(isDue);
    this.#waiting = this.#waiting.filter((each) => !isDue(each));
    for (const { resolve } of due) resolve();
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request) {
    const bytes = Buffer.from(part);
    size += bytes.length;
    if (size > MAX_QUESTION_BYTES) throw new Error("the question is too large");
    parts.push(bytes);
  }
  return Buffer.concat(parts).toString("utf8");
}

function readQuestion(body: string): Question & { readonly id: unknown } {
  const call: unknown = JSON.parse(body);
  if (typeof call !== "object" || call === null || !("method" in call)) {
    throw new Error("not a single JSON-RPC call");
  }
  const params: unknown = "params" in call ? call.params : [];
  return {
    id: "id" in call ? call.id : null,
    method: String(call.method),
    params: Array.isArray(params) ? params : [params],
  };
}

/** Account nonces are counted in the pool by every node. */
function blinded(body: string, method: string): string {
  return method === "eth_getTransactionCount" ? body : body.replaceAll('"pending"', '"latest"');
}

async function forward(nodeUrl: string, body: string): Promise<Reply> {
  const answer = await fetch(nodeUrl, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
    signal: AbortSignal.timeout(NODE_TIMEOUT_MS),
  });
  return { status: answer.status, text: await answer.text() };
}

function resultOf(answered: Reply | undefined): unknown {
  const body: unknown = JSON.parse(answered?.text ?? "");
  if (typeof body === "object" && body !== null && "result" in body) return body.result;
  throw new Error(`the node refused what was to be rewritten: ${answered?.text ?? ""}`);
}

function sendJson(response: ServerResponse, body: object): void {
  send(response, { status: 200, text: JSON.stringify(body) });
}

function send(response: ServerResponse, { status, text }: Reply): void {
  if (response.destroyed) return;
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(text);
}

/** At once: whoever is connected loses the connection. */
function close(server: Server): Promise<void> {
  return drain(server, AbortSignal.abort());
}
