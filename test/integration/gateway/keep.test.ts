import { createHash } from "node:crypto";
import type { RequestListener } from "node:http";
import { describe, expect, test } from "vitest";
import type { Delivery, Sale } from "../../../src/gateway/upstream/upstream.ts";
import { backend, onHead, rawBackend, RawClient, send, stage, type Stage } from "./stage.ts";
import { UNSTORED_SALE } from "../../support/sale.ts";

const KEEP_BYTES = 1_000;
const SALE: Sale = {
  ...UNSTORED_SALE,
  failureLines: ["Retry-After", "2"],
  keepBytes: KEEP_BYTES,
  readOnMs: 10_000,
};
const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

const sale = (origin: string, members: Partial<Sale> = {}): Promise<Stage> =>
  stage(origin, {}, { sale: { ...SALE, ...members } });
const sha = (bytes: string | Buffer): string => createHash("sha256").update(bytes).digest("hex");

function keptBody(delivery: Delivery): string | undefined {
  const kept = "kept" in delivery ? delivery.kept : undefined;
  return kept && Buffer.from(kept.response.body).toString();
}

/** A backend whose handler gets a promise of the moment at which the gateway hangs up. */
async function cancellable(
  handler: RequestListener,
): Promise<{ readonly origin: string; readonly cancelled: Promise<void> }> {
  const { promise: cancelled, resolve: cancel } = Promise.withResolvers<void>();
  const origin = await backend((request, response) => {
    response.once("close", () => {
      if (!response.writableFinished) cancel();
    });
    handler(request, response);
  });
  return { origin, cancelled };
}

describe("a small answer that was paid for", () => {
  test.each([true, false])(
    "is cut when it is stored that it broke off, well: %s",
    async (isGood) => {
      const breaking = Promise.withResolvers<void>();
      const origin = await backend(async (_, response) => {
        response.writeHead(isGood ? 200 : 503, { "Content-Length": 10 }).write("first");
        await breaking.promise;
        response.destroy();
      });
      const stored = Promise.withResolvers<void>();
      const asked = Promise.withResolvers<void>();
      const refused = (): Promise<void> => {
        asked.resolve();
        return isGood ? stored.promise : Promise.resolve();
      };
      const { port, delivery } = await sale(origin, { refused });
      const client = new RawClient(port, get);
      await client.until("first");
      breaking.resolve();
      await asked.promise;
      expect(await delivery()).toMatchObject({ kind: "broken" });
      expect(client.socket.closed).toBe(false);
      stored.resolve();
      await client.closed;
    },
  );

  test("is kept as it was sent but for its cookies, with the hash of what it answers", async () => {
    const origin = await backend((request, response) => {
      request.resume().on("end", () => {
        response.setHeader("Set-Cookie", ["a=1", "b=2"]);
        response.setHeader("X-Goods", "all");
        response.write("he");
        response.end("llo");
      });
    });
    const large = "x".repeat(200_000);
    for (const [headers, body] of [
      [[], []],
      [["Content-Length", "5"], ["small"]],
      [[], ["in", "chunks"]],
      [["Content-Length", "200000"], [large]],
    ] as const) {
      const { port, delivery } = await sale(origin);
      const method = body.length === 0 ? "GET" : "POST";
      const answer = await send(port, { method, headers, body });
      expect(answer.body.toString()).toBe("hello");
      const done = await delivery();
      expect(done).toMatchObject({ kind: "delivered", status: 200 });
      expect(keptBody(done)).toBe("hello");
      if (done.kind !== "delivered" || done.kept === undefined) continue;
      expect(done.kept.bodyHash).toBe(sha(body.join("")));
      const sent = done.kept.response.headers.map(([name, value]) => `${name}: ${value}`);
      expect(answer.headers["set-cookie"]).toEqual(["a=1", "b=2"]);
      expect(sent).toContain("X-Goods: all");
      expect(sent.join("\n")).not.toMatch(/transfer-encoding|connection|cookie/i);
    }
  });

  test.each([
    ["at the limit", KEEP_BYTES, true],
    ["over the limit", KEEP_BYTES + 1, false],
  ])("is one %s", async (_name, length, isKept) => {
    for (const framed of [true, false]) {
      const origin = await backend((_request, response) => {
        if (framed) response.setHeader("Content-Length", length);
        response.write("a".repeat(length - 1));
        response.end("a");
      });
      const { port, delivery } = await sale(origin);
      expect((await send(port)).body.length).toBe(length);
      expect(keptBody(await delivery()) !== undefined).toBe(isKept);
    }
  });

  test.each([
    ["a free one", null, 200, {}],
    ["events", SALE, 200, { "content-type": "Text/Event-Stream; charset=utf-8" }],
    ["a refusal", SALE, 404, {}],
    ["a failure", SALE, 500, {}],
  ] as const)("is not %s", async (_name, kept, status, headers) => {
    const origin = await backend((_request, response) => {
      response.writeHead(status, headers).end("hi");
    });
    const { port, delivery } = await stage(origin, {}, { sale: kept });
    expect(await send(port)).toMatchObject({ status });
    expect(await delivery()).not.toHaveProperty("kept");
  });

  test("is not one to a body that the backend did not wait for", async () => {
    const origin = await backend((_request, response) => void response.end("early"));
    const { port, delivery } = await sale(origin);
    const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    const client = new RawClient(port, head);
    await client.until("early");
    expect(await delivery()).toMatchObject({ kind: "delivered" });
    client.socket.write("0\r\n\r\n");
  });
});

describe("a client that leaves", () => {
  test.each(["Content-Length: 10", "Transfer-Encoding: chunked"])(
    "in the middle of a small answer (%s) does not end it",
    async (framing) => {
      const begun = Promise.withResolvers<() => void>();
      const origin = await rawBackend((socket) => {
        const chunked = framing.includes("chunked");
        onHead(socket, () => {
          socket.write(
            `HTTP/1.1 200 OK\r\n${framing}\r\n\r\n${chunked ? "5\r\nfirst\r\n" : "first"}`,
          );
          begun.resolve(() => void socket.write(chunked ? "5\r\n then\r\n0\r\n\r\n" : " then"));
        });
      });
      const { port, delivery, exchanges } = await sale(origin);
      const client = new RawClient(port, get);
      await client.until("first");
      const gone = new Promise((resolve) => exchanges[0]?.response.once("close", resolve));
      client.socket.destroy();
      await gone;
      (await begun.promise)();
      const done = await delivery();
      expect(done).toMatchObject({ kind: "abandoned", status: 200, sent: true });
      expect(keptBody(done)).toBe("first then");
    },
  );

  test("before the head of a small answer does not end it", async () => {
    const arrived = Promise.withResolvers<() => void>();
    const origin = await backend((request, response) => {
      request.resume();
      arrived.resolve(() => void response.end("late"));
    });
    const { port, delivery, exchanges } = await sale(origin);
    const client = new RawClient(port, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    const finish = await arrived.promise;
    const gone = new Promise((resolve) => exchanges[0]?.response.once("close", resolve));
    client.socket.destroy();
    await gone;
    finish();
    const done = await delivery();
    expect(done).toMatchObject({ status: 200, kept: { bodyHash: sha("hi") } });
    expect(keptBody(done)).toBe("late");
  });

  test.each<[string, RequestListener]>([
    [
      "that says it is large",
      (_request, response) => {
        response.writeHead(200, { "content-length": 1_000_000 }).write("first");
      },
    ],
    [
      "that turns out large",
      (_request, response) => {
        response.write("first");
        const more = setInterval(() => response.write("a".repeat(100)), 1);
        response.once("close", () => clearInterval(more));
      },
    ],
    [
      "of events",
      (_request, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" }).write("data: first\n\n");
      },
    ],
    ["that refuses", (_request, response) => void response.writeHead(404).write("first")],
  ])("in the middle of an answer %s ends it", async (_name, handler) => {
    const { origin, cancelled } = await cancellable(handler);
    const { port, delivery } = await sale(origin);
    const client = new RawClient(port, get);
    const text = await client.until("first");
    client.socket.destroy();
    await cancelled;
    const status = text.includes("404") ? 404 : 200;
    expect(await delivery()).toEqual({ kind: "abandoned", status, sent: true });
  });

  test.each<[string, RequestListener]>([
    [
      "events",
      (_request, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" }).write("data: first\n\n");
      },
    ],
    ["a failure", (_request, response) => void response.writeHead(500).write("no")],
  ])("before the head of %s ends that when it comes", async (_name, handler) => {
    const arrived = Promise.withResolvers<() => void>();
    const { origin, cancelled } = await cancellable((request, response) => {
      arrived.resolve(() => handler(request, response));
    });
    const { port, delivery, exchanges } = await sale(origin);
    const client = new RawClient(port, get);
    const begin = await arrived.promise;
    const gone = new Promise((resolve) => exchanges[0]?.response.once("close", resolve));
    client.socket.destroy();
    await gone;
    begin();
    await cancelled;
    expect(await delivery()).toEqual({ kind: "abandoned", status: null, sent: true });
  });

  test("is not waited for longer than the limit", async () => {
    const { origin, cancelled } = await cancellable((_request, response) => {
      response.write("first");
    });
    const { port, delivery } = await sale(origin, { readOnMs: 50 });
    const client = new RawClient(port, get);
    await client.until("first");
    client.socket.destroy();
    await cancelled;
    expect(await delivery()).toEqual({ kind: "abandoned", status: 200, sent: true });
  });

  test("before its own body is complete ends the request", async () => {
    const begun = Promise.withResolvers<void>();
    const { origin, cancelled } = await cancellable((request) => {
      request.on("error", () => {}).on("data", () => begun.resolve());
    });
    const { port, delivery } = await sale(origin);
    const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n";
    const client = new RawClient(port, head);
    await begun.promise;
    client.socket.destroy();
    await cancelled;
    expect(await delivery()).toEqual({ kind: "abandoned", status: null, sent: true });
  });

  test("and a backend that dies after it leave nothing", async () => {
    const begun = Promise.withResolvers<() => void>();
    const origin = await rawBackend((socket) => {
      onHead(socket, () => {
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst");
        begun.resolve(() => void socket.resetAndDestroy());
      });
    });
    const { port, delivery, exchanges } = await sale(origin);
    const client = new RawClient(port, get);
    await client.until("first");
    const gone = new Promise((resolve) => exchanges[0]?.response.once("close", resolve));
    client.socket.destroy();
    await gone;
    (await begun.promise)();
    expect(await delivery()).toEqual({ kind: "abandoned", status: 200, sent: true });
  });
});

describe("a paid request", () => {
  test.each([
    ["ours", [], "ours"],
    [
      "ours, though the client takes its own back",
      ["Connection", "Idempotency-Key", "Idempotency-Key", "mine"],
      "ours",
    ],
    ["the client's own", ["idempotency-key", "mine"], "mine"],
  ])("has one Idempotency-Key: %s", async (_name, headers, key) => {
    const seen = Promise.withResolvers<string[]>();
    const origin = await backend((request, response) => {
      seen.resolve(request.headersDistinct["idempotency-key"] ?? []);
      response.end();
    });
    const { port } = await sale(origin);
    await send(port, { headers });
    expect(await seen.promise).toEqual([key]);
  });

  test.each([
    [500, {}, "2"],
    [503, { "Retry-After": "60" }, "60"],
    [404, {}, undefined],
    [200, {}, undefined],
  ] as const)(
    "that is answered %i %j is told when to come again: %s",
    async (status, headers, after) => {
      const origin = await backend((_request, response) => {
        response.writeHead(status, headers).end();
      });
      const { port } = await sale(origin);
      expect((await send(port)).headers["retry-after"]).toBe(after);
    },
  );
});
