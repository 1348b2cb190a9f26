/**
 * From the text of an HTTP request to the text of its answer: single calls and batches, faults, and a
 * record of what was asked.
 */
import type { Cluster } from "./cluster.ts";
import type { ActiveInjection, Faults } from "./faults.ts";
import { accountMethods } from "./rpc-accounts.ts";
import { clusterMethods } from "./rpc-cluster.ts";
import {
  INTERNAL_ERROR,
  INVALID_REQUEST,
  METHOD_NOT_FOUND,
  PARSE_ERROR,
  RpcError,
  type RpcErrorBody,
} from "./rpc-error.ts";
import { historyMethods } from "./rpc-history.ts";
import { View, type Method } from "./rpc-method.ts";
import { Params } from "./rpc-params.ts";
import { transactionMethods } from "./rpc-transactions.ts";

const METHODS: ReadonlyMap<string, Method> = new Map(
  Object.entries({
    ...clusterMethods,
    ...accountMethods,
    ...historyMethods,
    ...transactionMethods,
  }),
);

/** Transactions whose bytes are remembered at most; the oldest are forgotten. */
const MAX_SENT = 100_000;
/** Stands for a number that JSON cannot write by itself. */
const NUMBER_MARK = "u64:";

/** Control methods, by their whole name. */
export type ControlMethod = (values: readonly unknown[]) => unknown;

export interface DispatchOptions {
  readonly cluster: Cluster;
  readonly faults: Faults;
  readonly genesisHash: string;
  readonly control: ReadonlyMap<string, ControlMethod>;
}

/** What goes back over HTTP; null breaks the connection. */
export type HttpReply = { readonly status: number; readonly text: string } | null;

interface Question {
  readonly id: unknown;
  readonly method: string;
  readonly params: unknown;
}

interface Answer {
  readonly jsonrpc: "2.0";
  readonly result?: unknown;
  readonly error?: RpcErrorBody;
  readonly id: unknown;
}

/** One call's answer, or what happens to the whole HTTP request instead. */
type Reply = { readonly answer: Answer } | { readonly http: HttpReply };

export class Dispatch {
  readonly #options: DispatchOptions;
  readonly #calls = new Map<string, number>();
  readonly #sent: string[] = [];
  #waiting: { readonly method: string; readonly times: number; readonly resolve: () => void }[] =
    [];

  constructor(options: DispatchOptions) {
    this.#options = options;
  }

  /** How often each method was asked since the last reset. */
  get calls(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#calls);
  }

  /** What `sendTransaction` was given, in order, faults or not. */
  get sent(): readonly string[] {
    return this.#sent;
  }

  resetCalls(): void {
    this.#calls.clear();
    this.#sent.length = 0;
  }

  /** Resolves once a method has been asked so many times since the last reset. */
  asked(method: string, times: number): Promise<void> {
    if ((this.#calls.get(method) ?? 0) >= times) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting.push({ method, times, resolve });
    });
  }

  async answer(body: string): Promise<HttpReply> {
    const request = parse(body);
    if (request === undefined) {
      return json({
        jsonrpc: "2.0",
        error: { code: PARSE_ERROR, message: "Parse error" },
        id: null,
      });
    }
    if (!Array.isArray(request) || request.length === 0) {
      const reply = await this.#answerOne(request);
      return "http" in reply ? reply.http : json(reply.answer);
    }
    const replies = await Promise.all(request.map((each) => this.#answerOne(each)));
    const broken = replies.find((reply) => "http" in reply);
    if (broken !== undefined) return broken.http;
    return json(replies.flatMap((reply) => ("answer" in reply ? [reply.answer] : [])));
  }

  async #answerOne(request: unknown): Promise<Reply> {
    const question = readQuestion(request);
    if (question === null) {
      const error = { code: INVALID_REQUEST, message: "Invalid request" };
      return { answer: { jsonrpc: "2.0", error, id: null } };
    }
    const control = this.#options.control.get(question.method);
    if (control !== undefined) return { answer: await answerControl(question, control) };
    this.note(question.method, question.params);
    const met = this.#options.faults.meet(question.method);
    if (met === undefined) return { answer: this.#run(question) };
    const reply = await this.#meet(question, met);
    met.done();
    return reply;
  }

  async #meet(question: Question, met: ActiveInjection): Promise<Reply> {
    const { fault } = met;
    const { id } = question;
    if ("lose" in fault) return { answer: this.#run(question, { isLost: true }) };
    if ("lagSlots" in fault) return { answer: this.#run(question, { lagSlots: fault.lagSlots }) };
    const early = fault.at === "answer" ? this.#run(question) : undefined;
    if ("drop" in fault) return { http: null };
    if ("status" in fault) return { http: { status: fault.status, text: fault.body ?? "" } };
    if ("result" in fault) return { answer: { jsonrpc: "2.0", result: fault.result, id } };
    if ("error" in fault) return { answer: { jsonrpc: "2.0", error: fault.error, id } };
    await met.pause();
    return { answer: early ?? this.#run(question) };
  }

  #run(
    { id, method, params }: Question,
    {
      isLost = false,
      lagSlots = 0,
    }: { readonly isLost?: boolean; readonly lagSlots?: number } = {},
  ): Answer {
    const { cluster, genesisHash } = this.#options;
    try {
      const run = METHODS.get(method);
      if (run === undefined) throw new RpcError(METHOD_NOT_FOUND, "Method not found");
      const result = run({
        params: new Params(params),
        view: new View(cluster, lagSlots),
        genesisHash,
        submit: (wire) => {
          if (!isLost) cluster.submit(wire);
        },
      });
      return { jsonrpc: "2.0", result, id };
    } catch (cause) {
      return { jsonrpc: "2.0", error: errorOf(cause), id };
    }
  }

  /** Records a call, whichever way it came. */
  note(method: string, params?: unknown): void {
    const count = (this.#calls.get(method) ?? 0) + 1;
    this.#calls.set(method, count);
    if (method === "sendTransaction" && Array.isArray(params)) {
      this.#sent.push(String(params[0]));
      if (this.#sent.length > MAX_SENT) this.#sent.shift();
    }
    const isDue = (each: { method: string; times: number }): boolean =>
      each.method === method && each.times <= count;
    const due = this.#waiting.filter(isDue);
    this.#waiting = this.#waiting.filter((each) => !isDue(each));
    for (const { resolve } of due) resolve();
  }
}

/** JSON in which 64-bit numbers are numbers, as Agave writes them. */
export function toJson(value: unknown): string {
  const text = JSON.stringify(value, (_, each: unknown) =>
    typeof each === "bigint" ? `${NUMBER_MARK}${each}` : each,
  );
  return text.replaceAll(/"u64:(\d+)"/g, "$1");
}

async function answerControl(question: Question, control: ControlMethod): Promise<Answer> {
  const { id, params } = question;
  try {
    const values: readonly unknown[] = Array.isArray(params) ? params : [];
    const result = (await control(values)) ?? null;
    return { jsonrpc: "2.0", result, id };
  } catch (cause) {
    return { jsonrpc: "2.0", error: errorOf(cause), id };
  }
}

function errorOf(cause: unknown): RpcErrorBody {
  if (cause instanceof RpcError) return cause.body;
  return { code: INTERNAL_ERROR, message: `Internal error: ${String(cause)}` };
}

function json(body: unknown): HttpReply {
  return { status: 200, text: toJson(body) };
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

export function readQuestion(request: unknown): Question | null {
  if (typeof request !== "object" || request === null || !("method" in request)) return null;
  const { method } = request;
  if (typeof method !== "string" || !("jsonrpc" in request) || request.jsonrpc !== "2.0")
    return null;
  return {
    id: "id" in request ? request.id : null,
    method,
    params: "params" in request ? request.params : [],
  };
}
