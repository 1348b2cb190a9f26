/** `settle: after` over real HTTP, with a facilitator that does what the test says: time, bodies, targets, HTTP/2. */
import { describe, expect, test, vi } from "vitest";
import { HeldBytes } from "../../../src/gateway/held-response.ts";
import { MAX_UNPAID_WORKS, UNPAID_WORK_MS } from "../../../src/payments/sale/unpaid-work.ts";
import { group, lettered, nobody } from "./backend-stage.ts";
import { settledOf, shopOf } from "./goods-stage.ts";
import { connectHttp2, openSecureShop, send2 } from "./listener/secure-stage.ts";
import { buy, errorOf, head, paymentLine, receiptOf } from "./shop.ts";
import { backend, RawClient } from "./stage.ts";

const sold = { isSettledAfter: true };

describe("a backend", () => {
  test("that does not answer in time is not paid", async () => {
    const upstream = { responseTimeoutMs: 100 };
    const stage = await shopOf(() => undefined, { sold, upstream });
    expect(await buy(stage)).toMatchObject({ status: 504 });
    expect(settledOf(stage)).toBe(0);
  });

  test("that stalls in its answer is not paid", async () => {
    const upstream = { idleTimeoutMs: 200 };
    const stage = await shopOf((_, response) => void response.write("half"), { sold, upstream });
    const answer = await buy(stage);
    expect([answer.status, settledOf(stage)]).toEqual([502, 0]);
    expect(errorOf(answer)).toContain("nothing was charged");
  });

  test("of several targets is asked where it is there", async () => {
    const [dead, alive] = [await nobody(), await lettered("b")];
    const { shop } = await group([dead, alive], {}, { sold });
    for (const number of [1, 2, 3]) {
      const answer = await buy(shop, {}, number);
      expect([answer.status, answer.body.toString()]).toEqual([200, "b"]);
      expect(receiptOf(answer)).toMatchObject({ success: true });
    }
    expect(settledOf(shop)).toBe(3);
  });

  test("that asks for money itself in a way that nobody knows is not paid", async () => {
    const stage = await shopOf((_, response) => void response.writeHead(402).end("pay"), { sold });
    expect(await buy(stage)).toMatchObject({ status: 502 });
    expect(settledOf(stage)).toBe(0);
  });

  test("may be counted: what it had nothing for is `unsold`, what it had is `paid`", async () => {
    const stage = await shopOf(
      ({ url }, response) => void response.writeHead(url === "/none" ? 404 : 200).end(),
      { sold },
    );
    await buy(stage, { path: "/none" });
    await buy(stage, { path: "/some" }, 2);
    const text = await stage.metrics.registry.metrics();
    expect(text).toMatch(/coinslot_http_requests_total\{[^}]*code="404",outcome="unsold"\} 1/);
    expect(text).toMatch(/coinslot_http_requests_total\{[^}]*code="200",outcome="paid"\} 1/);
  });
});

describe("a buyer", () => {
  test("whose body does not come is told 408, and not charged", async () => {
    const bodyLimits = { idleMs: 700 };
    const stage = await shopOf(
      (request, response) => void request.resume().on("end", () => response.end("goods")),
      { sold, bodyLimits },
    );
    const client = new RawClient(stage.port, head("/", ["Content-Length: 10"], "POST") + "abc");
    const { text } = await client.closed;
    expect(text).toContain("HTTP/1.1 408 ");
    expect(settledOf(stage)).toBe(0);
    const body = ["abcdefghij"];
    expect(
      await buy(stage, { method: "POST", body, headers: ["Content-Length", "10"] }),
    ).toMatchObject({ status: 200 });
    expect(settledOf(stage)).toBe(1);
  });

  test("who waits to be asked for his body is asked, and pays for what comes of it", async () => {
    const stage = await shopOf(
      (request, response) => void request.resume().on("end", () => response.end("goods")),
      { sold },
    );
    const lines = ["Content-Length: 3", "Expect: 100-continue", "Connection: close"];
    const client = new RawClient(stage.port, head("/", lines, "POST"));
    await client.until("HTTP/1.1 100 Continue");
    client.socket.write("abc");
    const { text } = await client.closed;
    expect(text).toContain("HTTP/1.1 200 ");
    expect(text).toContain("goods");
    expect(settledOf(stage)).toBe(1);
  });

  test("who leaves cuts the backend off, which nobody waits for", async () => {
    const begun = Promise.withResolvers<void>();
    const over = Promise.withResolvers<void>();
    // Nothing else ends it before the test does.
    const upstream = { responseTimeoutMs: 3_600_000, idleTimeoutMs: 3_600_000 };
    const stage = await shopOf(
      (_request, response) => {
        response.on("close", () => over.resolve());
        begun.resolve();
      },
      { sold, upstream },
    );
    const client = new RawClient(stage.port, head());
    await begun.promise;
    client.socket.destroy();
    await over.promise;
    expect(settledOf(stage)).toBe(0);
  });

  test("over HTTP/2 pays for what he gets, and for nothing else", async () => {
    let status = 500;
    const origin = await backend(
      (_request, response) => void response.writeHead(status).end("goods"),
    );
    const stage = await openSecureShop(origin, { sold });
    const session = await connectHttp2(stage.port);
    const headers = Object.fromEntries([paymentLine(1, 2)]);
    expect(await send2(session, { path: "/goods", headers })).toMatchObject({ status: 500 });
    expect(stage.shop.facilitator.settled).toHaveLength(0);
    status = 200;
    const answer = await send2(session, { path: "/goods", headers });
    expect([answer.status, answer.body.toString()]).toEqual([200, "goods"]);
    expect(stage.shop.facilitator.settled).toHaveLength(1);
    session.destroy();
  });
});

describe("a payer", () => {
  test("has so many works under way, and is told when he may have another", async () => {
    const done = Promise.withResolvers<void>();
    const all = Promise.withResolvers<void>();
    let count = 0;
    const stage = await shopOf(
      async (_request, response) => {
        count += 1;
        if (count === MAX_UNPAID_WORKS) all.resolve();
        await done.promise;
        response.end("goods");
      },
      { sold },
    );
    const buyers = Array.from({ length: MAX_UNPAID_WORKS }, (_, index) =>
      buy(stage, {}, index + 1),
    );
    await all.promise;
    const late = await buy(stage, {}, MAX_UNPAID_WORKS + 1);
    expect([late.status, late.headers["retry-after"]]).toEqual([
      429,
      String(UNPAID_WORK_MS / 1000),
    ]);
    done.resolve();
    for (const answer of await Promise.all(buyers)) expect(answer.status).toBe(200);
    expect(await buy(stage, {}, MAX_UNPAID_WORKS + 1)).toMatchObject({ status: 200 });
    expect(settledOf(stage)).toBe(MAX_UNPAID_WORKS + 1);
  });
});

test("an answer for which no room is left is 503, and not charged", async () => {
  const stage = await shopOf((_, response) => void response.end("goods"), { sold });
  const full = vi.spyOn(HeldBytes.prototype, "take").mockReturnValueOnce(false);
  const late = await buy(stage);
  full.mockRestore();
  expect([late.status, settledOf(stage)]).toEqual([503, 0]);
  expect(errorOf(late)).toContain("nothing was charged");
  expect(await buy(stage)).toMatchObject({ status: 200 });
});
