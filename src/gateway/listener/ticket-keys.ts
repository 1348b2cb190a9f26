/**
 * What TLS session tickets are sealed with: whoever has them reads each session that was agreed on under them, of
 * TLS 1.2 without anything else. So they are replaced again and again and written nowhere. Node has one set at a
 * time: a ticket from before is passed over, and its client agrees on a new session.
 */
import { randomBytes } from "node:crypto";

/** How long tickets are sealed with the same keys, milliseconds. */
export const TICKET_KEYS_MS = 12 * 3_600_000;
/** What node wants for them: a name, and keys that sign and encrypt. */
const TICKET_KEYS_BYTES = 48;

export function newTicketKeys(): Buffer {
  return randomBytes(TICKET_KEYS_BYTES);
}

/** The keys of one server. Those that it was given are replaced by whoever gave them; its own by itself. */
export class TicketKeys {
  readonly #use: (keys: Buffer) => void;
  readonly #rotation: NodeJS.Timeout | undefined;
  #keys: Buffer;

  /** @param use hears of each set after the first */
  constructor(given: Buffer | undefined, use: (keys: Buffer) => void) {
    this.#use = use;
    this.#keys = given ?? newTicketKeys();
    if (given !== undefined) return;
    this.#rotation = setInterval(() => this.replace(newTicketKeys()), TICKET_KEYS_MS);
    this.#rotation.unref();
  }

  get now(): Buffer {
    return this.#keys;
  }

  replace(keys: Buffer): void {
    this.#keys = keys;
    this.#use(keys);
  }

  close(): void {
    clearInterval(this.#rotation);
  }
}
