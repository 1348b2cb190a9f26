/**
 * Answers that are not read: whoever gives a connection up because its client takes nothing of what waits for it
 * notes that here, so that such a client is not taken for one that has left.
 */
import type { InboundSocket } from "./inbound.ts";

/** A client that takes nothing of an answer of ours for so long is given up, milliseconds. */
export const UNREAD_MS = 60_000;

const unread = new WeakSet<InboundSocket>();

export function noteUnread(socket: InboundSocket): void {
  unread.add(socket);
}

export function wasUnread(socket: InboundSocket): boolean {
  return unread.has(socket);
}
