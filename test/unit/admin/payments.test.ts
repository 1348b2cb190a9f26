import { createServer, request as httpRequest, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { describe, expect, onTestFinished, test } from "vitest";
import { createAdminHandler } from "../../../src/admin/admin.ts";
import {
  PaymentsListener,
  type PaymentFollower,
  type PaymentsPages,
} from "../../../src/admin/payments.ts";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";

interface Stage {
  readonly followers: Set<PaymentFollower>;
  readonly asked: number[];
  /** What was looked for. */
  readonly found: string[];
  readonly ask: (
    path: string,
    headers?: Record<string, string>,
    method?: string,
  ) => Promise<IncomingMessage>;
}

async function stage({ host = "127.0.0.1", isStarted = true } = {}): Promise<Stage> {
  const followers = new Set<PaymentFollower>();
  const asked: number[] = [];
  const found: string[] = [];
  const pages: PaymentsPages = {
    policy: "default-src 'none'",
    list: async ({ find, needsMe }) => {
      found.push(`${find} ${needsMe}`);
      return "<p>list</p>";
    },
    show: async (name) => ({ found: name === "known", page: `<p>${name.length}</p>` }),
    follow(after, { find, needsMe }, follower) {
      asked.push(after);
      found.push(`${find} ${needsMe}`);
      followers.add(follower);
      return () => void followers.delete(follower);
    },
  };
  const payments = new PaymentsListener(() => (isStarted ? pages : undefined));
  const telemetry = {
    logger: createLogger({ level: "silent", format: "json" }),
    metrics: new Metrics("test"),
  };
  const server = createServer(
    createAdminHandler({
      telemetry,
      readiness: async () => ({ isReady: true, said: [] }),
      payments,
      hosts: [host],
    }),
  );
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  onTestFinished(() => drain(server, AbortSignal.abort()));
  return {
    followers,
    asked,
    found,
    ask: (path, headers = {}, method = "GET") => {
      const answered = Promise.withResolvers<IncomingMessage>();
      const options = { port, host: "127.0.0.1", path, method, headers, agent: false };
      const sent = httpRequest(options, answered.resolve);
      sent.once("error", answered.reject).end();
      onTestFinished(() => void sent.destroy());
      return answered.promise;
    },
  };
}

async function statusOf(asked: Promise<IncomingMessage>): Promise<number | undefined> {
  const answer = await asked;
  answer.resume();
  return answer.statusCode;
}

describe("the page of payments", () => {
  test("is in no frame, runs nothing of others, is not kept, and no other origin may read it", async () => {
    const { ask } = await stage();
    const { statusCode, headers } = await ask("/payments");
    expect(statusCode).toBe(200);
    expect(headers).toMatchObject({
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": "default-src 'none'",
      "x-frame-options": "DENY",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cross-origin-resource-policy": "same-origin",
      "cache-control": "no-store",
    });
    expect(headers["access-control-allow-origin"]).toBeUndefined();
  });

  test("shows one payment, or 404", async () => {
    const { ask } = await stage();
    expect(await statusOf(ask("/payments?show=known"))).toBe(200);
    expect(await statusOf(ask("/payments?show=other"))).toBe(404);
    expect(await statusOf(ask(`/payments?show=${"x".repeat(301)}`))).toBe(400);
  });

  test("shows what is looked for, and follows the same", async () => {
    const { ask, found } = await stage();
    for (const path of ["/payments", "/payments/events"]) {
      expect(await statusOf(ask(`${path}?find=${"x".repeat(301)}`))).toBe(400);
      await ask(`${path}?find=%20%2Freports%20&needs=me`);
      await ask(`${path}?needs=you`);
    }
    expect(found).toEqual(["/reports true", " false", "/reports true", " false"]);
  });

  test.each(["localhost:9402", "127.0.0.1", "[::1]:9402", "10.0.0.7:80", "shop.localhost"])(
    "is shown to who calls it %s",
    async (host) => {
      const { ask } = await stage();
      expect(await statusOf(ask("/payments", { host }))).toBe(200);
    },
  );

  test.each(["evil.example", "127.0.0.1.evil.example:9402", "localhost.evil.example", "127.1"])(
    "is not shown to who calls it %j, whose name somebody else gives out",
    async (host) => {
      const { ask } = await stage();
      const all = ["/metrics", "/livez", "/readyz", "/listing", "/payments", "/payments/events"];
      for (const path of all) {
        expect([path, await statusOf(ask(path, { host }))]).toEqual([path, 403]);
      }
      expect(await statusOf(ask("/-/reload", { host }, "POST"))).toBe(403);
    },
  );

  test("is shown under a name that the configuration has", async () => {
    const { ask } = await stage({ host: "ops.internal" });
    expect(await statusOf(ask("/payments", { host: "OPS.internal:9402" }))).toBe(200);
    expect(await statusOf(ask("/metrics", { host: "ops.internal" }))).toBe(200);
  });

  test("says that it is starting before there is anything to show", async () => {
    const { ask } = await stage({ isStarted: false });
    expect(await statusOf(ask("/payments"))).toBe(503);
  });
});

describe("what changes in it", () => {
  test("comes as events, from the version on that the browser has", async () => {
    const { ask, followers, asked } = await stage();
    const answer = await ask("/payments/events?after=7");
    expect(answer.headers["content-type"]).toBe("text/event-stream; charset=utf-8");
    const all = text(answer);
    for (const follower of followers) {
      follower.send({ version: 8, data: '{"items":[]}' });
      follower.send("still-there");
      follower.end();
    }
    expect(await all).toBe('retry: 2000\n\nevent: list\nid: 8\ndata: {"items":[]}\n\n:\n\n');
    await ask("/payments/events?after=7", { "last-event-id": "9" });
    await ask("/payments/events?after=x");
    expect(asked).toEqual([7, 9, 0]);
  });

  test.each([
    { "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "same-site" },
    { origin: "https://evil.example" },
    { origin: "null" },
  ])("is for no page of others: %j", async (headers) => {
    const { ask, followers } = await stage();
    expect(await statusOf(ask("/payments/events", headers as Record<string, string>))).toBe(403);
    expect(followers.size).toBe(0);
  });

  test("is for eight browsers at the same time, and for another one when one has left", async () => {
    const { ask, followers } = await stage();
    const answers = await Promise.all(Array.from({ length: 8 }, () => ask("/payments/events")));
    expect(await statusOf(ask("/payments/events"))).toBe(503);
    answers[0]?.destroy();
    await expect.poll(() => followers.size).toBe(7);
    expect(await statusOf(ask("/payments/events"))).toBe(200);
  });

  test("is dropped for a browser that reads nothing, so that nothing piles up", async () => {
    const { ask, followers } = await stage();
    (await ask("/payments/events")).pause();
    const data = "x".repeat(256 * 1024);
    let sent = 0;
    while (followers.size > 0 && sent < 1_000) {
      for (const follower of followers) follower.send({ version: 1, data });
      sent += 1;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(followers.size).toBe(0);
  });
});
