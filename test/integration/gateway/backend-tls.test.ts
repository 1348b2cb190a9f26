import { createSecureServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  AUTHORITY,
  BACKEND_CERTIFICATE,
  BACKEND_KEY,
  GATEWAY_CERTIFICATE,
  GATEWAY_KEY,
} from "../../support/upstream-tls.ts";
import { group, Target, type Group } from "./backend-stage.ts";
import { buy } from "./shop.ts";
import { send } from "./stage.ts";

const server = { cert: BACKEND_CERTIFICATE, key: BACKEND_KEY };

async function statusOf({ shop }: Group): Promise<number> {
  return (await send(shop.port, { path: "/free" })).status;
}

async function secure(): Promise<Target> {
  return new Target((_request, response) => response.end("secure"), server).start();
}

describe("a target over TLS", () => {
  test("is trusted by the authority and the name of the configuration", async () => {
    const of = await group([await secure()], {
      target: { tls: { ca: AUTHORITY, serverName: "api.internal" } },
    });
    expect(await statusOf(of)).toBe(200);
    expect(await buy(of.shop)).toMatchObject({ status: 200, body: Buffer.from("secure") });
  });

  test("is not trusted for what Host says", async () => {
    const of = await group([await secure()], {
      target: { tls: { ca: AUTHORITY, serverName: "api.internal" } },
      rewriting: { host: { kind: "name", name: "other.example" } },
    });
    expect(await statusOf(of)).toBe(200);
  });

  test.each([
    ["whose authority nobody knows", { serverName: "api.internal" }],
    ["that has another name", { ca: AUTHORITY, serverName: "other.internal" }],
    ["that has another name than its URL", { ca: AUTHORITY }],
  ])("is not asked anything %s, and nobody pays for it", async (_name, tls) => {
    const target = await secure();
    const of = await group([target], { target: { tls } });
    for (let count = 0; count < 3; count += 1) expect(await statusOf(of)).toBe(502);
    expect((await buy(of.shop)).status).toBe(503);
    expect(of.shop.facilitator.settled).toHaveLength(0);
    expect(target.seen).toEqual([]);
  });

  test("gets our own certificate where it asks for one", async () => {
    const strict = { ...server, ca: AUTHORITY, requestCert: true, rejectUnauthorized: true };
    const target = await new Target((_request, response) => response.end(), strict).start();
    const tls = { ca: AUTHORITY, serverName: "api.internal" };
    const own = { ...tls, cert: GATEWAY_CERTIFICATE, key: GATEWAY_KEY };
    expect(await statusOf(await group([target], { target: { tls: own } }))).toBe(200);
    expect(await statusOf(await group([target], { target: { tls } }))).toBe(502);
  });

  test("is checked over TLS", async () => {
    const target = await secure();
    const of = await group([target], {
      target: { tls: { ca: AUTHORITY, serverName: "api.internal" } },
      check: { path: "/healthz", intervalMs: 100, timeoutMs: 100, up: 1, down: 1 },
    });
    await expect.poll(() => target.seen.length).toBeGreaterThan(2);
    expect(target.seen).toContain("GET /healthz");
    expect(await statusOf(of)).toBe(200);
  });
});

async function secondGeneration(): Promise<{
  readonly origin: string;
  readonly versions: string[];
}> {
  const versions: string[] = [];
  const target = createSecureServer({ ...server, allowHTTP1: true }, (request, response) => {
    versions.push(request.httpVersion);
    response.end(JSON.stringify({ host: request.headers[":authority"], path: request.url }));
  });
  await new Promise<void>((resolve) => void target.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void target.close());
  return { origin: `https://127.0.0.1:${(target.address() as AddressInfo).port}`, versions };
}

describe("a target that speaks HTTP/2", () => {
  test("is spoken with in HTTP/2 where the configuration says so, and sells", async () => {
    const target = await secondGeneration();
    const tls = { ca: AUTHORITY, serverName: "api.internal" };
    const of = await group([target], {
      target: { tls, protocol: "h2" },
      rewriting: {
        path: { strip: "", prefix: "/internal" },
        host: { kind: "name", name: "api.internal" },
      },
    });
    const answer = await send(of.shop.port, { path: "/free" });
    expect(JSON.parse(answer.body.toString())).toEqual({
      host: "api.internal",
      path: "/internal/free",
    });
    expect((await buy(of.shop)).status).toBe(200);
    expect(target.versions).toEqual(["2.0", "2.0"]);
  });

  test("and in HTTP/1.1 otherwise", async () => {
    const target = await secondGeneration();
    const tls = { ca: AUTHORITY, serverName: "api.internal" };
    const of = await group([target], { target: { tls } });
    expect(await statusOf(of)).toBe(200);
    expect(target.versions).toEqual(["1.1"]);
  });
});
