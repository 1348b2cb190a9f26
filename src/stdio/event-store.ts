/** The newest events of one session, so that a stream that was cut is taken up where it ended. */
import type { EventStore, JSONRPCMessage } from "@modelcontextprotocol/server";

/** Of one session, events, and bytes of their messages. The oldest go first. */
export const MAX_EVENTS = 1_000;
export const MAX_EVENT_BYTES = 4 * 1024 * 1024;

interface StoredEvent {
  readonly id: string;
  readonly streamId: string;
  readonly message: JSONRPCMessage;
  readonly bytes: number;
}

export class SessionEvents implements EventStore {
  readonly #events: StoredEvent[] = [];
  #bytes = 0;
  #last = 0;

  async storeEvent(streamId: string, message: JSONRPCMessage): Promise<string> {
    this.#last += 1;
    const id = String(this.#last);
    const bytes = JSON.stringify(message).length;
    this.#events.push({ id, streamId, message, bytes });
    this.#bytes += bytes;
    while (this.#events.length > MAX_EVENTS || this.#bytes > MAX_EVENT_BYTES) {
      this.#bytes -= this.#events.shift()?.bytes ?? 0;
    }
    return id;
  }

  /** Undefined for what is too long ago. */
  async getStreamIdForEventId(id: string): Promise<string | undefined> {
    return this.#events.find((each) => each.id === id)?.streamId;
  }

  async replayEventsAfter(
    last: string,
    { send }: { readonly send: (id: string, message: JSONRPCMessage) => Promise<void> },
  ): Promise<string> {
    const at = this.#events.findIndex(({ id }) => id === last);
    const streamId = this.#events[at]?.streamId ?? "";
    for (const { id, message, ...event } of this.#events.slice(at + 1)) {
      // What opens a stream says nothing.
      if (event.streamId === streamId && "jsonrpc" in message) await send(id, message);
    }
    return streamId;
  }
}
