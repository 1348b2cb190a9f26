/** A facilitator elsewhere that catalogues traffic: a real one behind it settles, and its listing is what a test says. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import type { PaymentRequirements } from "../../src/x402/x402.ts";

/** Stands before a real facilitator: notes what passes, and has a listing of its own. */
export interface Catalogue {
  readonly url: string;
  readonly passed: readonly Passed[];
  /** Answers `GET /discovery/resources` for a query. */
  list: (query: URLSearchParams) => { readonly status: number; readonly body: unknown } | null;
  /** Value of `EXTENSION-RESPONSES` in answers to what passes; null: there is none. */
  says: string | null;
  close(): Promise<void>;
}

/** A request with a body that went on to the facilitator. */
export interface Passed {
  readonly path: string;
  readonly paymentRequirements: PaymentRequirements;
}

const JSON_TYPE = { "Content-Type": "application/json" };

/** @param target base URL of the facilitator behind it */
export async function startCatalogue(target: string): Promise<Catalogue> {
  const all: Passed[] = [];
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const asked = new URL(request.url ?? "", "http://localhost");
    if (asked.pathname === "/discovery/resources") {
      const answered = made.list(asked.searchParams);
      if (answered === null) return;
      response.writeHead(answered.status).end(JSON.stringify(answered.body));
      return;
    }
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts).toString();
    const init = {
      method: request.method ?? "GET",
      ...(body === "" ? {} : { body, headers: JSON_TYPE }),
    };
    const passed = await fetch(target + asked.pathname, init);
    if (body !== "") {
      const { paymentRequirements } = Object(JSON.parse(body));
      all.push({ path: asked.pathname, paymentRequirements });
    }
    if (made.says !== null) response.setHeader("EXTENSION-RESPONSES", made.says);
    response.writeHead(passed.status, JSON_TYPE);
    response.end(await passed.text());
  };
  const server = createServer((request, response) => void answer(request, response));
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  const made: Catalogue = {
    url: `http://127.0.0.1:${port}`,
    passed: all,
    list: () => ({ status: 404, body: {} }),
    says: null,
    close: () => drain(server, AbortSignal.abort()),
  };
  return made;
}
