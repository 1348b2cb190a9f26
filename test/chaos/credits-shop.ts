/**
 * The backend behind balances: a price for a quote, and a model that is charged by use. How it answers stands in the
 * request, so that whoever asks knows what that may cost him: it fails, breaks off, leads elsewhere, and forgets to tell
 * what it has used.
 */
import { createServer, type ServerResponse } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import type { Random } from "../simulation/random.ts";

/** Atomic units. */
export const QUOTE_PRICE = 1_000n;
/** For one token of the model's, and the most for an answer. */
const TOKEN_PRICE = 10n;
export const MAX_CHAT = 10_000n;
/** Tokens that an answer tells at most where it tells no more than it may. */
export const MAX_TOKENS = 1_000;
/** How long an answer takes at most, milliseconds, and one that its buyer is to leave. */
const SLOW_MS = 60;
const HELD_MS = 400;
const PAD = "x".repeat(2_000);

/** `untold`, `too much`: of the model alone, which then costs the most. `leads …`: of quotes alone. */
export type Manner =
  | "whole"
  | "streams"
  | "fails"
  | "breaks"
  | "leads within"
  | "leads away"
  | "untold"
  | "too much"
  | "holds";

/** What one request asks for, as it stands in its query. */
export interface Order {
  readonly kind: "quote" | "chat";
  readonly manner: Manner;
  readonly tokens: number;
}

/** What is answered to it where the gateway passes it on; `text` null: it breaks off. */
export interface Expected {
  readonly status: number;
  readonly text: string | null;
  /** Atomic units that it costs then. */
  readonly cost: bigint;
}

export function expectedOf({ kind, manner, tokens }: Order): Expected {
  if (manner === "fails") return { status: tokens % 2 === 0 ? 500 : 404, text: "no", cost: 0n };
  if (manner === "breaks") return { status: 200, text: null, cost: 0n };
  // Within our own host for no more: it is not goods yet.
  if (manner === "leads within") return { status: 302, text: "", cost: 0n };
  if (kind === "quote") {
    const isAway = manner === "leads away";
    return {
      status: isAway ? 302 : 200,
      text: isAway ? "" : `quote ${tokens} ${PAD}`,
      cost: QUOTE_PRICE,
    };
  }
  const usage = {
    usage: { total_tokens: manner === "too much" ? tokens + 50 * MAX_TOKENS : tokens },
  };
  const told = manner === "untold" ? {} : usage;
  const isAll = manner === "untold" || manner === "too much";
  const cost = isAll ? MAX_CHAT : BigInt(tokens) * TOKEN_PRICE;
  const last = JSON.stringify({ choices: [], ...told });
  const isStream = manner === "streams" || manner === "holds";
  return { status: 200, text: isStream ? `${FIRST}data: ${last}\n\ndata: [DONE]\n\n` : last, cost };
}

const FIRST = `data: ${JSON.stringify({ choices: [{ delta: { content: PAD } }] })}\n\n`;

export function queryOf({ manner, tokens }: Order): string {
  return `?manner=${encodeURIComponent(manner)}&tokens=${tokens}`;
}

/** Of requests, some of everything; `isCalm`: nothing fails. */
export function randomOrder(chance: Random, isCalm = false): Order {
  const kind = chance.chance(0.5) ? "quote" : "chat";
  const tokens = chance.between(1, MAX_TOKENS);
  const good: readonly Manner[] =
    kind === "quote" ? ["leads away", "leads within"] : ["streams", "untold", "too much"];
  const manners: readonly Manner[] = isCalm
    ? ["whole"]
    : ["whole", "whole", "whole", "streams", "fails", "breaks", ...good];
  const manner = manners[chance.between(0, manners.length - 1)] ?? "whole";
  return { kind, manner: kind === "quote" && manner === "streams" ? "whole" : manner, tokens };
}

export interface CreditsShop extends AsyncDisposable {
  readonly url: string;
  /** Requests, by how they were answered. */
  readonly counts: Readonly<Record<string, number>>;
}

export async function startCreditsShop(chance: Random): Promise<CreditsShop> {
  const counts: Record<string, number> = {};
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://shop");
    const kind = pathname.endsWith("/chat") ? "chat" : "quote";
    const manner = (searchParams.get("manner") ?? "whole") as Manner;
    const order: Order = { kind, manner, tokens: Number(searchParams.get("tokens")) };
    const name = `backend: ${kind} ${manner}`;
    counts[name] = (counts[name] ?? 0) + 1;
    request.resume();
    void pause(chance.between(0, SLOW_MS)).then(() => answer(response, order, pathname));
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  return {
    url: `http://127.0.0.1:${port}`,
    counts,
    [Symbol.asyncDispose]: () => drain(server, AbortSignal.abort()),
  };
}

async function answer(response: ServerResponse, order: Order, pathname: string): Promise<void> {
  const { kind, manner, tokens } = order;
  const { status, text } = expectedOf(order);
  const isStream =
    kind === "chat" &&
    (manner === "streams" || manner === "holds" || (manner === "breaks" && tokens % 2 === 0));
  response.statusCode = status;
  if (manner === "leads away") response.setHeader("Location", "https://elsewhere.example/file");
  if (manner === "leads within") response.setHeader("Location", pathname);
  response.setHeader(
    "Content-Type",
    isStream ? "text/event-stream" : kind === "chat" ? "application/json" : "text/plain",
  );
  if (text === null) {
    response.write(isStream ? FIRST : `{"pad":"${PAD}`);
    await pause(SLOW_MS);
    return void response.destroy();
  }
  if (manner !== "holds") return void response.end(text);
  response.write(text.slice(0, PAD.length));
  await pause(HELD_MS);
  response.end(text.slice(PAD.length));
}
