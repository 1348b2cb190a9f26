import { createServer, type RequestListener } from "node:http";
import { createServer as createTcpServer, type AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { FacilitatorFault } from "../../../src/payments/facilitator.ts";
import { buy, errorOf, openShop, receiptOf } from "./shop.ts";
import { VERSIONS } from "../../support/buyer.ts";
import { backend, onHead, RawClient, send, type Answer } from "./stage.ts";

/** A backend on a port of its own that goes away and comes back. */
async function restartable(handler: RequestListener): Promise<{
  readonly origin: string;
  readonly stop: () => Promise<void>;
  readonly start: () => Promise<void>;
}> {
  let port = 0;
  let server = createServer();
  const start = async (): Promise<void> => {
    server = createServer(handler);
    await new Promise<void>((resolve) => void server.listen(port, "127.0.0.1", resolve));
    ({ port } = server.address() as AddressInfo);
  };
  const stop = async (): Promise<void> => {
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  };
  await start();
  onTestFinished(() => {
    if (server.listening) void stop();
  });
  return { origin: `http://127.0.0.1:${port}`, stop, start };
}

describe("after the settlement", () => {
  test("a backend's 5xx is passed on with the receipt and, while it may, an invitation", async () => {
    const keys = new Set<unknown>();
    const origin = await backend((request, response) => {
      keys.add(request.headers["idempotency-key"]);
      response.writeHead(503, { "Content-Type": "text/plain" }).end("busy");
    });
    const shop = await openShop(origin);
    for (const invited of [true, true, false]) {
      const answer = await buy(shop);
      expect(answer).toMatchObject({ status: 503, body: Buffer.from("busy") });
      expect(receiptOf(answer)).toMatchObject({ success: true });
      expect(answer.headers["retry-after"]).toBe(invited ? "2" : undefined);
    }
    const last = await buy(shop);
    expect(last.status).toBe(409);
    expect(errorOf(last)).toMatch(/^invalid_transaction_state: paid in /);
    expect(shop.facilitator.settled).toHaveLength(1);
    expect(keys.size).toBe(1);
  });

  test("a backend that says nothing usable is a 502 with the receipt and the same advice", async () => {
    const origin = await backend((request) => void request.socket.destroy());
    const shop = await openShop(origin);
    for (const invited of [true, true, false]) {
      const answer = await buy(shop, { method: "POST" });
      expect(answer.status).toBe(502);
      expect(receiptOf(answer)).toMatchObject({ success: true });
      expect(answer.headers["retry-after"]).toBe(invited ? "2" : undefined);
      expect(errorOf(answer)).toContain(
        invited ? "send the same X-PAYMENT again" : "sign a new payment: it is not charged",
      );
    }
  });

  test.each(VERSIONS)(
    "where the seller can be asked stands in each answer, in version %i",
    async (version) => {
      const link = '<mailto:help@shop.example>; rel="help"';
      const own = ['</terms>; rel="terms"', '</next>; rel="next"'];
      const origin = await backend((request, response) => {
        if (request.url === "/broken") request.socket.destroy();
        else {
          response.writeHead(request.url === "/busy" ? 503 : 200, { Link: own }).end("sold");
        }
      });
      const asks = "ask the seller: mailto:help@shop.example";
      const shop = await openShop(origin, { support: "mailto:help@shop.example", cors: "any" });
      const linesOf = ({ rawHeaders }: Answer, name: string): readonly string[] =>
        rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1] === name);

      // Sold, and given again.
      for (const _ of ["sold", "kept"]) {
        const answer = await buy(shop, {}, 1, version);
        expect([answer.status, linesOf(answer, "Link")]).toEqual([200, [...own, link]]);
      }
      for (const [path, number, status, links] of [
        ["/busy", 2, 503, [...own, link]],
        ["/broken", 3, 502, [link]],
      ] as const) {
        let last: Answer | undefined;
        for (let attempt = 0; attempt < 3; attempt += 1) {
          last = await buy(shop, { path }, number, version);
          expect([last.status, linesOf(last, "Link")]).toEqual([status, links]);
        }
        if (status === 502 && last !== undefined) expect(errorOf(last)).toContain(`, or ${asks}`);
        const none = await buy(shop, { path }, number, version);
        expect([none.status, linesOf(none, "Link")]).toEqual([409, [link]]);
        expect(errorOf(none)).toMatch(new RegExp(`, or ${asks}$`));
        expect(linesOf(none, "Access-Control-Expose-Headers")[0]).toContain("Link");
      }
    },
  );

  test("each of its three attempts is one request, though kept connections die of it", async () => {
    let sold = 0;
    const origin = await backend((request, response) => {
      if (request.url === "/free") return void response.end("free");
      sold += 1;
      request.socket.destroy();
    });
    const shop = await openShop(origin);
    for (let attempt = 0; attempt < 4; attempt += 1) {
      expect(await send(shop.port, { path: "/free" })).toMatchObject({ status: 200 });
      expect((await buy(shop)).status).toBe(attempt < 3 ? 502 : 409);
    }
    expect(sold).toBe(3);
  });

  test("a backend that does not answer in time is a 504 with both", async () => {
    const origin = await backend(() => {});
    const shop = await openShop(origin, { upstream: { responseTimeoutMs: 100 } });
    const answer = await buy(shop);
    expect(answer.status).toBe(504);
    expect(receiptOf(answer)).toMatchObject({ success: true });
    expect(answer.headers["retry-after"]).toBe("2");
  });

  test("a backend's 4xx lets the buyer correct the query and the body", async () => {
    const origin = await backend((request, response) => {
      response.statusCode = request.url === "/weather?city=Oslo" ? 200 : 404;
      request.resume().on("end", () => response.end());
    });
    const shop = await openShop(origin);
    const sent = { method: "POST", path: "/weather?city=Olso", body: ["a"] };
    const refused = await buy(shop, sent);
    expect(refused).toMatchObject({ status: 404 });
    expect(receiptOf(refused)).toMatchObject({ success: true });
    const corrected = { ...sent, path: "/weather?city=Oslo", body: ["b"] };
    expect(await buy(shop, corrected)).toMatchObject({ status: 200 });
    expect(shop.facilitator.settled).toHaveLength(1);
  });

  test("a backend that is restarted costs no attempt and delivers", async () => {
    const { origin, stop, start } = await restartable((_request, response) => {
      response.end("back");
    });
    const shop = await openShop(origin);
    const { onSettle } = shop.facilitator;
    shop.facilitator.onSettle = async (...values) => {
      await stop();
      return onSettle(...values);
    };
    for (let round = 0; round < 5; round += 1) {
      const answer = await buy(shop);
      expect(answer.status).toBe(502);
      expect(receiptOf(answer)).toMatchObject({ success: true });
      expect(answer.headers["retry-after"]).toBe("2");
    }
    await start();
    expect(await buy(shop)).toMatchObject({ status: 200, body: Buffer.from("back") });
    expect(shop.facilitator.settled).toHaveLength(1);
  });
});

test("the last attempt is given back when the backend saw nothing of it", async () => {
  const { origin, stop, start } = await restartable((_request, response) => {
    response.writeHead(503).end();
  });
  const shop = await openShop(origin);
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    expect(await buy(shop)).toMatchObject({ status: 503 });
  }
  await stop();
  const unseen = await buy(shop);
  expect(unseen.status).toBe(502);
  expect(unseen.headers["retry-after"]).toBe("2");
  expect(errorOf(unseen)).toContain("send the same X-PAYMENT again");
  await start();
  expect(await buy(shop)).toMatchObject({ status: 503 });
  expect(await buy(shop)).toMatchObject({ status: 409 });
});

describe("a backend that is known to be down", () => {
  test("takes no payment until it is up", async () => {
    const { origin, stop, start } = await restartable((_request, response) => {
      response.end("back");
    });
    const shop = await openShop(origin);
    await stop();
    for (let failure = 0; failure < 3; failure += 1) {
      expect(await send(shop.port, { path: "/free" })).toMatchObject({ status: 502 });
    }
    const answer = await buy(shop);
    expect(answer.status).toBe(503);
    expect(answer.headers["retry-after"]).toBe("2");
    expect(receiptOf(answer)).toBeUndefined();
    expect(errorOf(answer)).toContain("no payment was taken");
    expect(shop.facilitator.verified).toHaveLength(0);
    expect(await shop.ledger.books.list({ limit: 1 })).toEqual([]);
    // What it costs is still told.
    expect(await send(shop.port)).toMatchObject({ status: 402 });

    await start();
    expect(await send(shop.port, { path: "/free" })).toMatchObject({ status: 200 });
    expect(await buy(shop)).toMatchObject({ status: 200 });
  });

  test("is up as soon as it takes a connection, before it has answered anything", async () => {
    const arrived = Promise.withResolvers<void>();
    const { origin, stop, start } = await restartable((request, response) => {
      if (request.url === "/free") arrived.resolve();
      else response.end();
    });
    const shop = await openShop(origin);
    await stop();
    for (let failure = 0; failure < 3; failure += 1) await send(shop.port, { path: "/free" });
    expect(await buy(shop)).toMatchObject({ status: 503 });
    await start();
    const hanging = new RawClient(shop.port, "GET /free HTTP/1.1\r\nHost: a\r\n\r\n");
    await arrived.promise;
    expect(await buy(shop)).toMatchObject({ status: 200 });
    hanging.socket.destroy();
  });

  test("is up when it answers on a connection that it has kept", async () => {
    const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    const slow = Promise.withResolvers<() => void>();
    const server = createTcpServer((socket) => {
      socket.on("error", () => {});
      onHead(socket, (text) => {
        if (text.startsWith("HEAD")) slow.resolve(() => void socket.write(ok.slice(0, -2)));
        else socket.write(ok);
      });
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const shop = await openShop(`http://127.0.0.1:${port}`);
    const first = send(shop.port, { method: "HEAD", path: "/free" });
    const finish = await slow.promise;
    // Takes no connection any more; the one that there is stays.
    server.close();
    for (let failure = 0; failure < 3; failure += 1) {
      expect(await send(shop.port, { path: "/free" })).toMatchObject({ status: 502 });
    }
    expect(await buy(shop)).toMatchObject({ status: 503 });
    finish();
    expect(await first).toMatchObject({ status: 200 });
    expect(await send(shop.port, { path: "/free" })).toMatchObject({ status: 200 });
  });

  test("takes no payment for a WebSocket either", async () => {
    const { origin, stop } = await restartable(() => {});
    const shop = await openShop(origin);
    await stop();
    const lines = [
      "GET /free HTTP/1.1",
      "Host: shop.example",
      "Connection: Upgrade",
      "Upgrade: websocket",
      "Sec-WebSocket-Version: 13",
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    for (let failure = 0; failure < 3; failure += 1) {
      const { text } = await new RawClient(shop.port, `${lines.join("\r\n")}\r\n\r\n`).closed;
      expect(text).toContain("HTTP/1.1 502");
    }
    expect(await buy(shop)).toMatchObject({ status: 503 });
  });

  test.each([["too large a body", { method: "POST", headers: ["Content-Length", "11"] }, 413]])(
    "is told apart from %s, which takes none either",
    async (_name, sent, status) => {
      const origin = await backend((_request, response) => void response.end());
      const shop = await openShop(origin, { upstream: { bodyLimitBytes: 10 } });
      const answer = await buy(shop, { ...sent, body: ["x".repeat(11)] });
      expect(answer.status).toBe(status);
      expect(answer.headers["retry-after"]).toBeUndefined();
      expect(shop.facilitator.verified).toHaveLength(0);
    },
  );
});

describe("a settlement", () => {
  test.each([
    ["unknown", 500, "unexpected_settle_error"],
    ["unavailable", 500, "unexpected_settle_error"],
  ] as const)("that is %s is a %i with Retry-After, never a 402", async (kind, status, code) => {
    const origin = await backend((_request, response) => void response.end());
    const shop = await openShop(origin);
    shop.facilitator.onSettle = async () =>
      Promise.reject(new FacilitatorFault(kind, code, "no answer"));
    const answer = await buy(shop);
    expect(answer.status).toBe(status);
    expect(answer.headers["retry-after"]).toBe("2");
    expect(errorOf(answer)).toMatch(new RegExp(`^${code}: `));
    expect(receiptOf(answer)).toBeUndefined();
  });
});
