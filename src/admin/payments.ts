/**
 * `/payments` and `/payments/events` on the operator's listener: recent requests as a page, and what changes in it
 * as server-sent events. Never in a frame.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { sendPage } from "./send-page.ts";

/** Browsers that are kept up to date at the same time. */
const MAX_FOLLOWERS = 8;
/** What one of them may leave unread, bytes; then it is dropped, and may ask again. */
const MAX_UNREAD_BYTES = 1024 * 1024;
/** When a browser whose connection is lost asks again, milliseconds. */
const RETRY_MS = 2_000;
/** Longest text that is looked for, characters. */
const MAX_NAME = 300;

/** What is looked for in the list. */
export interface LookedFor {
  /** A payer, a part of a method and path, or the key, transaction or nonce of one payment; "": all. */
  readonly find: string;
  /** Only what waits for the operator. */
  readonly needsMe: boolean;
}

/** What is shown; the texts are complete. */
export interface PaymentsPages {
  /** Value of `Content-Security-Policy`. */
  readonly policy: string;
  /** The list of it; or one payment, where that has this very name. */
  list(asked: LookedFor): Promise<string>;
  /** A payment by its key, transaction or nonce; `found`: there is one. */
  show(name: string): Promise<{ readonly found: boolean; readonly page: string }>;
  /** What changes of it after that version, until it is stopped. */
  follow(after: number, asked: LookedFor, follower: PaymentFollower): () => void;
}

/** Who is kept up to date. */
export interface PaymentFollower {
  send(event: { readonly version: number; readonly data: string } | "still-there"): void;
  end(): void;
}

export class PaymentsListener {
  /** Undefined as long as there is nothing to show. */
  readonly #pages: () => PaymentsPages | undefined;
  #followers = 0;

  constructor(pages: () => PaymentsPages | undefined) {
    this.#pages = pages;
  }

  /** The request is a GET or a HEAD. */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path, search = ""] = (request.url ?? "").split("?", 2);
    response.setHeader("Cache-Control", "no-store");
    response.setHeader("X-Content-Type-Options", "nosniff");
    const pages = this.#pages();
    if (pages === undefined) return plain(response, 503, "starting");
    const query = new URLSearchParams(search);
    const asked = { find: query.get("find")?.trim() ?? "", needsMe: query.get("needs") === "me" };
    const name = query.get("show")?.trim() ?? "";
    if (Math.max(name.length, asked.find.length) > MAX_NAME) {
      return plain(response, 400, "nothing has so long a name");
    }
    if (path === "/payments/events") {
      if (isForeign(request)) return plain(response, 403, "not for other pages");
      if (request.method !== "GET") return plain(response, 405, "use GET");
      if (this.#followers >= MAX_FOLLOWERS) {
        return plain(response, 503, "too many browsers follow this page already");
      }
      const seen = String(request.headers["last-event-id"] ?? query.get("after") ?? "0");
      const after = /^\d{1,15}$/.test(seen) ? Number(seen) : 0;
      response.writeHead(200, {
        "Content-Type": "text/event-stream; charset=utf-8",
        "Cross-Origin-Resource-Policy": "same-origin",
      });
      response.write(`retry: ${RETRY_MS}\n\n`);
      this.#followers += 1;
      const stop = pages.follow(after, asked, {
        send(event) {
          if (response.writableLength > MAX_UNREAD_BYTES) response.destroy();
          else if (event === "still-there") response.write(":\n\n");
          else response.write(`event: list\nid: ${event.version}\ndata: ${event.data}\n\n`);
        },
        end: () => response.end(),
      });
      response.once("close", () => {
        this.#followers -= 1;
        stop();
      });
      return;
    }
    const shown =
      name === "" ? { found: true, page: await pages.list(asked) } : await pages.show(name);
    const { policy } = pages;
    sendPage(response, { status: shown.found ? 200 : 404, page: shown.page, policy });
  }
}

/** A page of another origin asks, as far as the browser says so. */
function isForeign({ headers }: IncomingMessage): boolean {
  const site = headers["sec-fetch-site"];
  if (site !== undefined && site !== "same-origin" && site !== "none") return true;
  const { origin, host } = headers;
  return origin !== undefined && origin.replace(/^https?:\/\//, "") !== host;
}

function plain(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { "Content-Type": "text/plain; charset=utf-8" });
  response.end(`${text}\n`);
}
