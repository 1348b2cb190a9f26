/** Subscriptions of websocket clients: to the fate of a signature, and to slots. */
import type { WebSocket } from "ws";
import type { Block, Cluster } from "./cluster.ts";
import { INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, RpcError } from "./rpc-error.ts";
import { readQuestion, toJson } from "./rpc-dispatch.ts";
import { inContext, View } from "./rpc-method.ts";
import { Params, type Commitment } from "./rpc-params.ts";

/** Subscriptions of all clients at most. */
const MAX_SUBSCRIPTIONS = 100_000;

type Subscription = { readonly id: number; readonly client: WebSocket } & (
  | { readonly kind: "slot" }
  | { readonly kind: "signature"; readonly signature: string; readonly commitment: Commitment }
);

export class Subscriptions {
  readonly #cluster: Cluster;
  readonly #view: View;
  readonly #active = new Map<number, Subscription>();
  readonly #note: (method: string) => void;
  #isSilent = false;
  #lastId = 0;
  #lastSlot = -1;

  /** `note` is told of every method that a client calls. */
  constructor(cluster: Cluster, note: (method: string) => void) {
    this.#cluster = cluster;
    this.#view = new View(cluster);
    this.#note = note;
    cluster.onBlock((block) => this.#notify(block));
  }

  /** How many subscriptions are waiting. */
  get count(): number {
    return this.#active.size;
  }

  setSilent(isSilent: boolean): void {
    this.#isSilent = isSilent;
  }

  attach(client: WebSocket): void {
    client.on("message", (data) => {
      const text = Buffer.isBuffer(data) ? data.toString("utf8") : "";
      this.#answer(client, text);
    });
    client.on("error", () => client.terminate());
    client.on("close", () => {
      for (const { id, client: owner } of this.#active.values()) {
        if (owner === client) this.#active.delete(id);
      }
    });
  }

  #answer(client: WebSocket, text: string): void {
    const question = readQuestion(parse(text));
    if (question === null) {
      const code = parse(text) === undefined ? PARSE_ERROR : INVALID_REQUEST;
      const message = code === PARSE_ERROR ? "Parse error" : "Invalid request";
      client.send(toJson({ jsonrpc: "2.0", error: { code, message }, id: null }));
      return;
    }
    const { id, method } = question;
    this.#note(method);
    try {
      const result = this.#call(client, method, new Params(question.params));
      client.send(toJson({ jsonrpc: "2.0", result, id }));
      // The answer that names the subscription comes before what it tells.
      if (method === "signatureSubscribe") this.#notify(this.#cluster.tip);
    } catch (cause) {
      const error =
        cause instanceof RpcError ? cause.body : { code: -32_603, message: String(cause) };
      client.send(toJson({ jsonrpc: "2.0", error, id }));
    }
  }

  #call(client: WebSocket, method: string, params: Params): unknown {
    switch (method) {
      case "slotSubscribe":
        return this.#add((id) => ({ id, client, kind: "slot" }));
      case "signatureSubscribe": {
        const signature = params.signature(0);
        const commitment = params.config(1).commitment();
        return this.#add((id) => ({ id, client, kind: "signature", signature, commitment }));
      }
      case "slotUnsubscribe":
      case "signatureUnsubscribe": {
        const id = params.integer(0);
        if (this.#active.get(id)?.client === client) return this.#active.delete(id);
        throw new RpcError(-32_602, "Invalid subscription id.");
      }
      default:
        throw new RpcError(METHOD_NOT_FOUND, "Method not found");
    }
  }

  #add(make: (id: number) => Subscription): number {
    if (this.#active.size >= MAX_SUBSCRIPTIONS) {
      throw new RpcError(
        INVALID_REQUEST,
        "Internal Error: Subscription refused. Node limit reached",
      );
    }
    this.#lastId += 1;
    this.#active.set(this.#lastId, make(this.#lastId));
    return this.#lastId;
  }

  #notify(block: Block): void {
    if (this.#isSilent) return;
    for (const subscription of this.#active.values()) {
      if (subscription.kind === "signature") this.#notifySignature(subscription);
      else if (block.slot !== this.#lastSlot) this.#notifySlot(subscription, block);
    }
    this.#lastSlot = block.slot;
  }

  #notifySignature(subscription: Subscription & { kind: "signature" }): void {
    const { id, client, signature, commitment } = subscription;
    const landed = this.#view.landed(signature, commitment);
    if (landed === undefined) return;
    // Once, and then the subscription is over.
    this.#active.delete(id);
    const result = inContext(this.#view.block(commitment), { err: landed.outcome.err });
    const params = { result, subscription: id };
    client.send(toJson({ jsonrpc: "2.0", method: "signatureNotification", params }));
  }

  #notifySlot({ id, client }: Subscription, { slot }: Block): void {
    const result = { parent: slot - 1, root: this.#view.block("finalized").slot, slot };
    const params = { result, subscription: id };
    client.send(toJson({ jsonrpc: "2.0", method: "slotNotification", params }));
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
