/**
 * The keep-alive race through the whole gateway: a backend that closes its idle connections at the very time
 * at which they are used again. A hundred thousand requests: `node test/proxy/keep-alive-race.ts`.
 */
import { describe, expect, test } from "vitest";
import { Dice } from "../../unit/http1/mutated-answers.ts";
import { openShop } from "./shop.ts";
import { onHead, rawBackend, send } from "./stage.ts";

const REQUESTS = 600;
const AT_ONCE = 8;
const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/** `seen` has the paths of the requests that arrived whole; `lost` of them died with their connection. */
async function closingBackend() {
  const dice = new Dice(1);
  const seen: string[] = [];
  const counts = { lost: 0 };
  const origin = await rawBackend((socket) => {
    let requests = 0;
    let isClosed = false;
    const close = (): void => {
      isClosed = true;
      if (dice.chance(0.5)) socket.destroy();
      else socket.resetAndDestroy();
    };
    onHead(socket, (head) => {
      requests += 1;
      if (isClosed) return;
      seen.push(head.split(" ")[1] ?? "");
      if (requests > 1 && dice.chance(0.2)) {
        counts.lost += 1;
        close();
        return;
      }
      socket.write(ok);
      const chance = dice.fraction();
      if (chance < 0.2) setImmediate(close);
      else if (chance < 0.6) setTimeout(close, dice.below(3));
    });
  });
  return { origin, seen, counts };
}

async function ask(port: number, method: string): Promise<Map<number, number>> {
  const statuses = new Map<number, number>();
  const headers = method === "POST" ? ["Content-Length", "0"] : [];
  let next = 0;
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (next < REQUESTS) {
        next += 1;
        const { status } = await send(port, { method, path: `/free?${next}`, headers });
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }
    }),
  );
  return statuses;
}

describe("a backend that closes idle connections as they are used again", () => {
  test("fails no GET", { timeout: 60_000 }, async () => {
    const { origin, counts } = await closingBackend();
    const { port } = await openShop(origin);
    expect([...(await ask(port, "GET")).keys()]).toEqual([200]);
    expect(counts.lost).toBeGreaterThan(5);
  });

  test("gets no POST twice", { timeout: 60_000 }, async () => {
    const { origin, seen, counts } = await closingBackend();
    const { port } = await openShop(origin);
    const statuses = await ask(port, "POST");
    expect(new Set(seen).size).toBe(seen.length);
    expect(new Set(statuses.keys())).toEqual(new Set([200, 502]));
    expect(counts.lost).toBeGreaterThan(5);
    // What failed had been sent, to a backend that took it or that was closing just then.
    expect(statuses.get(200)).toBeGreaterThan(REQUESTS / 2);
  });
});
