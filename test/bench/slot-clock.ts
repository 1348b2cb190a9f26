/** The newest slot of a Solana node, as it tells over its websocket. */

interface SlotNotification {
  readonly method?: string;
  readonly params?: { readonly result: { readonly slot: number } };
}

export class SlotClock {
  readonly #socket: WebSocket;
  #slot = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
  }

  /** Resolves with the first slot that begins. @param url the node's HTTP URL */
  static async open(url: string): Promise<SlotClock> {
    const socket = new WebSocket(url.replace(/^http/, "ws"));
    const clock = new SlotClock(socket);
    const begun = Promise.withResolvers<void>();
    socket.addEventListener("open", () => {
      socket.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "slotSubscribe" }));
    });
    socket.addEventListener("error", () => begun.reject(new Error("no websocket at the node")));
    socket.addEventListener("message", ({ data }) => {
      const { method, params } = JSON.parse(String(data)) as SlotNotification;
      if (method !== "slotNotification" || params === undefined) return;
      clock.#slot = params.result.slot;
      begun.resolve();
    });
    await begun.promise;
    return clock;
  }

  get slot(): number {
    return this.#slot;
  }

  close(): void {
    this.#socket.close();
  }
}
