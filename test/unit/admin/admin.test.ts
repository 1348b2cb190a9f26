import { createServer, request as httpRequest, type IncomingMessage } from "node:http";
import { gunzipSync } from "node:zlib";
import { describe, expect, onTestFinished, test } from "vitest";
import { createAdminHandler, type Readiness } from "../../../src/admin/admin.ts";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { readScrape } from "../telemetry/scrape.ts";

const READY: Readiness = { isReady: true, said: [] };

async function stage(readiness: () => Promise<Readiness> = async () => READY) {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const logger = createLogger({ level: "info", format: "json", destination });
  const metrics = new Metrics("1.2.3");
  const server = createServer(createAdminHandler({ telemetry: { logger, metrics }, readiness }));
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  onTestFinished(() => drain(server, AbortSignal.abort()));
  const ask = async (path: string, method = "GET", fields: Record<string, string> = {}) => {
    const place = { port, host: "127.0.0.1", path, method };
    const outgoing = httpRequest({ ...place, headers: fields, agent: false }).end();
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.on("response", resolve).on("error", reject);
    });
    const parts: Buffer[] = [];
    for await (const part of answer) parts.push(Buffer.from(part));
    const { statusCode: status, headers } = answer;
    const body = Buffer.concat(parts);
    return { status, headers, body, text: body.toString("utf8") };
  };
  return { ask, metrics, lines };
}

const plain = {
  "content-type": "text/plain; charset=utf-8",
  "cache-control": "no-store",
};

describe("/metrics", () => {
  test("is what Prometheus reads", async () => {
    const { ask, metrics } = await stage();
    metrics.route("GET /a").finished(200, "paid", 0.2, 0.1);
    const { status, headers, text } = await ask("/metrics");
    expect([status, headers["content-type"], headers["cache-control"]]).toEqual([
      200,
      "text/plain; version=0.0.4; charset=utf-8",
      "no-store",
    ]);
    expect(Number(headers["content-length"])).toBe(Buffer.byteLength(text));
    const { samples } = readScrape(text);
    expect(samples).toContainEqual({
      name: "coinslot_http_requests_total",
      labels: { route: "GET /a", code: "200", outcome: "paid" },
      value: 1,
    });
  });

  test("is compressed for who asks for that, and is the same", async () => {
    const { ask, metrics } = await stage();
    metrics.route("GET /a").finished(200, "paid", 0.2, 0.1);
    const { headers, body } = await ask("/metrics", "GET", { "accept-encoding": "br, gzip;q=0.5" });
    expect([headers["content-encoding"], headers.vary]).toEqual([
      "gzip",
      "Accept, Accept-Encoding",
    ]);
    const plainly = await ask("/metrics", "GET", { "accept-encoding": "gzip;q=0, br" });
    expect(plainly.headers["content-encoding"]).toBeUndefined();
    expect(body.length).toBeLessThan(plainly.body.length / 4);
    const names = (text: string) => [...readScrape(text).types.keys()];
    expect(names(gunzipSync(body).toString("utf8"))).toEqual(names(plainly.text));
  });

  test("has a query that means nothing", async () => {
    const { ask } = await stage();
    expect(await ask("/metrics?name[]=up")).toMatchObject({ status: 200 });
  });
});

describe("/livez", () => {
  test("is alive whether or not the process is ready", async () => {
    const { ask } = await stage(async () => ({ isReady: false, said: ["starting"] }));
    expect(await ask("/livez")).toMatchObject({ status: 200, headers: plain, text: "alive\n" });
  });
});

describe("/readyz", () => {
  test("is 200 when nothing stands against it", async () => {
    const { ask } = await stage();
    expect(await ask("/readyz")).toMatchObject({ status: 200, headers: plain, text: "ready\n" });
  });

  test("is 503 with every reason, and asks anew each time", async () => {
    let found: Readiness = {
      isReady: false,
      said: ["nothing can be served", "base: closed (rpc)"],
    };
    const { ask } = await stage(async () => found);
    expect(await ask("/readyz")).toMatchObject({
      status: 503,
      headers: plain,
      text: "not ready\n- nothing can be served\n- base: closed (rpc)\n",
    });
    found = { isReady: true, said: ["base: closed (rpc)", "polygon: open"] };
    expect(await ask("/readyz")).toMatchObject({
      status: 200,
      text: "ready\n- base: closed (rpc)\n- polygon: open\n",
    });
  });

  test("is 500 when that cannot be found out, and the reason is in the log only", async () => {
    const { ask, lines } = await stage(() => Promise.reject(new Error("secret")));
    expect(await ask("/readyz")).toMatchObject({ status: 500, text: "internal error\n" });
    expect(lines.map((line): unknown => JSON.parse(line))).toMatchObject([
      { level: "error", err: { message: "secret" } },
    ]);
    expect(await ask("/livez")).toMatchObject({ status: 200 });
  });
});

describe("/listing", () => {
  test("is what is known of listings, also where nobody elsewhere is asked", async () => {
    const { ask } = await stage();
    const { status, headers, text } = await ask("/listing");
    expect([status, headers["content-type"], headers["cache-control"]]).toEqual([
      200,
      "application/json",
      "no-store",
    ]);
    expect(JSON.parse(text)).toEqual({ words: [] });
  });
});

describe("/-/config", () => {
  test("is for nobody where others may reach this address, as recent requests are", async () => {
    const { ask } = await stage();
    const shown = expect.stringContaining("are shown where only this machine can reach");
    expect(await ask("/-/config")).toMatchObject({ status: 404, text: shown });
    expect(await ask("/payments")).toMatchObject({ status: 404, text: shown });
  });
});

describe("anything else", () => {
  test.each(["/", "/metrics/", "/METRICS", "/healthz", "//metrics", "/readyz/x", "*"])(
    "is 404 at %s, with the paths that there are",
    async (path) => {
      const { ask } = await stage();
      expect(await ask(path)).toMatchObject({
        status: 404,
        headers: plain,
        text: "try /, /metrics, /livez, /readyz, /payments, /listing, /-/config, POST /-/reload or POST /-/log-level/debug\n",
      });
    },
  );

  test.each(["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])(
    "is 405 with %s",
    async (method) => {
      const { ask } = await stage();
      for (const path of ["/metrics", "/livez", "/readyz"]) {
        const answer = await ask(path, method);
        expect(answer).toMatchObject({ status: 405, headers: { ...plain, allow: "GET, HEAD" } });
      }
    },
  );

  test.each(["/metrics", "/livez", "/readyz"])("has no body at HEAD %s", async (path) => {
    const { ask } = await stage();
    const head = await ask(path, "HEAD");
    expect(head).toMatchObject({ status: 200, text: "" });
    expect(Number(head.headers["content-length"])).toBeGreaterThan(0);
  });
});
