/**
 * The backend behind the gateways: sells numbered items, remembers each execution, and fails as backends
 * do. It must never be asked for an item whose payment is not on chain.
 */
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import type { Random } from "../simulation/random.ts";

/** How long an answer takes at most, milliseconds. */
const SLOW_MS = 120;

/** Each such item is sold out: it fails for ever, and its buyer is to be paid back. */
const SOLD_OUT_EACH = 10;

export interface Execution {
  readonly item: string;
  /** The transaction that the gateway says has paid for it. */
  readonly transaction: string;
  readonly idempotencyKey: string;
  /** For whom, as the gateway says. */
  readonly client: string;
}

export interface Shop extends AsyncDisposable {
  readonly url: string;
  readonly executions: readonly Execution[];
  readonly failures: number;
  /** From now on every request is answered. */
  calm(): void;
}

export function isSoldOut(item: string): boolean {
  return Number(item) % SOLD_OUT_EACH === SOLD_OUT_EACH - 1;
}

/** What a buyer of that item receives. */
export function goodsOf(item: string): string {
  return `goods ${item} ${"x".repeat(200)}`;
}

/**
 * @param failing share of the requests that fail: half with 500, half with a broken connection
 * @param hasSoldOut fails for each item that {@link isSoldOut}, also once calm
 */
export async function startShop(
  failing: number,
  chance: Random,
  hasSoldOut: boolean,
): Promise<Shop> {
  const executions: Execution[] = [];
  let failures = 0;
  let active = true;
  const server = createServer((request, response) => {
    const item = (request.url ?? "").split("/").at(-1) ?? "";
    const { headers } = request;
    executions.push({
      item,
      transaction: String(headers["x-402-transaction"]),
      idempotencyKey: String(headers["idempotency-key"]),
      client: String(headers["x-forwarded-for"]),
    });
    const fails = active && chance.chance(failing);
    if (fails) failures += 1;
    const rude = chance.chance(0.5);
    void pause(chance.between(0, SLOW_MS)).then(() => {
      if (!fails && !(hasSoldOut && isSoldOut(item))) return response.end(goodsOf(item));
      if (rude) return request.socket.destroy();
      response.statusCode = 500;
      return response.end("out of order");
    });
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  return {
    url: `http://127.0.0.1:${port}`,
    executions,
    get failures() {
      return failures;
    },
    calm() {
      active = false;
    },
    [Symbol.asyncDispose]: () => drain(server, AbortSignal.abort()),
  };
}
