/** One house for each way of speaking to the gateway, with connections that live across cases. */
import { Client, askOnce, type Ask, type Handlers, type Place, type Reply } from "./client.ts";
import type { Protocol } from "./differences.ts";
import { House } from "./house.ts";
import { Http2Client } from "./http2-client.ts";

/** Backends behind each front: one, except where several have to look like one. */
const TARGETS: Readonly<Record<Protocol, number>> = {
  "HTTP/1.1": 1,
  "HTTP/1.1 over TLS": 3,
  "HTTP/2": 2,
};

export class Fronts {
  static readonly protocols: readonly Protocol[] = ["HTTP/1.1", "HTTP/1.1 over TLS", "HTTP/2"];

  readonly #houses = new Map<Protocol, House>();
  readonly #clients = new Map<string, Client>();
  readonly #sessions = new Map<Protocol, Http2Client>();

  async open(): Promise<void> {
    for (const protocol of Fronts.protocols) {
      const isTls = protocol !== "HTTP/1.1";
      this.#houses.set(protocol, await House.open({ isTls, targets: TARGETS[protocol] }));
    }
  }

  of(protocol: Protocol): House {
    const house = this.#houses.get(protocol);
    if (house === undefined) throw new Error(`nothing listens for ${protocol}`);
    return house;
  }

  askDirectly(protocol: Protocol, ask: Ask, handlers: Handlers = {}): Promise<Reply> {
    return this.#askOver(`direct ${protocol}`, this.of(protocol).direct, { ask, handlers });
  }

  ask(protocol: Protocol, ask: Ask, handlers: Handlers = {}): Promise<Reply> {
    const { front } = this.of(protocol);
    if (protocol !== "HTTP/2") return this.#askOver(protocol, front, { ask, handlers });
    let session = this.#sessions.get(protocol);
    if (session?.isOpen !== true) {
      session = new Http2Client(front.port);
      this.#sessions.set(protocol, session);
    }
    return session.ask(ask, handlers);
  }

  /** One connection for all that do not end it: what a case leaves on it is the next one's fault to find. */
  async #askOver(
    key: string,
    place: Place,
    { ask, handlers }: { readonly ask: Ask; readonly handlers: Handlers },
  ): Promise<Reply> {
    if (ask.version === "1.0" || ask.connection === "close") return askOnce(place, ask, handlers);
    let client = this.#clients.get(key);
    if (client?.isOpen !== true) {
      client = new Client(place);
      this.#clients.set(key, client);
    }
    try {
      const reply = await client.ask(ask, handlers);
      if (reply.after === "closed") client.close();
      return reply;
    } catch (error) {
      client.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    for (const client of this.#clients.values()) client.close();
    for (const session of this.#sessions.values()) session.close();
    for (const house of this.#houses.values()) await house[Symbol.asyncDispose]();
  }
}
