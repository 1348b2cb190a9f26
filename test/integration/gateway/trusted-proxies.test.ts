import type { IncomingHttpHeaders } from "node:http";
import { describe, expect, test } from "vitest";
import { buy, openShop, type Shop } from "./shop.ts";
import { backend, send } from "./stage.ts";

const LOOPBACK = [{ address: "127.0.0.0", prefixBits: 8 }];

async function shopOf(isTrusted = true): Promise<Shop & { readonly asked: IncomingHttpHeaders[] }> {
  const asked: IncomingHttpHeaders[] = [];
  const origin = await backend((request, response) => {
    asked.push(request.headers);
    response.end("goods");
  });
  return { ...(await openShop(origin, { trusted: isTrusted ? LOOPBACK : [] })), asked };
}

const TOLD = Object.entries({
  "X-Forwarded-For": "198.51.100.1, 203.0.113.9, 127.0.0.5",
  "X-Forwarded-Host": "api.example",
  "X-Forwarded-Proto": "https",
  "X-Forwarded-Port": "443",
  "X-Real-IP": "198.51.100.1",
}).flat();

/** A request of that client, as its proxy passes it on. */
const from = (address: string) => ({ headers: ["X-Forwarded-For", address] });

describe("what a proxy tells of its client", () => {
  test("reaches the backend where the proxy is trusted, as far as it is proven", async () => {
    const { port, asked } = await shopOf();
    await send(port, { path: "/free", headers: TOLD });
    expect(asked[0]).toMatchObject({
      "x-forwarded-for": "203.0.113.9, 127.0.0.5, 127.0.0.1",
      "x-forwarded-host": "api.example",
      "x-forwarded-proto": "https",
    });
    expect(Object.keys(asked[0] ?? {})).not.toContain("x-real-ip");
    expect(Object.keys(asked[0] ?? {})).not.toContain("x-forwarded-port");
  });

  test("is replaced where nobody is trusted", async () => {
    const { port, asked } = await shopOf(false);
    await send(port, { path: "/free", headers: [...TOLD, "Forwarded", "for=203.0.113.9"] });
    expect(asked[0]).toMatchObject({
      "x-forwarded-for": "127.0.0.1",
      "x-forwarded-host": "front",
      "x-forwarded-proto": "http",
    });
    expect(Object.keys(asked[0] ?? {})).not.toContain("forwarded");
  });

  test("in Forwarded reaches the backend as X-Forwarded lines", async () => {
    const { port, asked } = await shopOf();
    const element = 'for="[2001:db8::9]:4711";host=api.example;proto=https';
    await send(port, { path: "/free", headers: ["Forwarded", element] });
    expect(asked[0]).toMatchObject({
      "x-forwarded-for": "2001:db8::9, 127.0.0.1",
      "x-forwarded-host": "api.example",
      "x-forwarded-proto": "https",
    });
    expect(Object.keys(asked[0] ?? {})).not.toContain("forwarded");
  });

  test("never changes what is sold: the resource is that of the configuration", async () => {
    const { port } = await shopOf();
    const { status, body } = await send(port, { path: "/paid", headers: TOLD });
    expect(status).toBe(402);
    expect(body.toString()).toContain("https://shop.example/paid");
    expect(body.toString()).not.toContain("api.example");
  });

  test("is told to the operator where nobody trusts it, once", async () => {
    const origin = await backend((_request, response) => void response.end("goods"));
    const log: string[] = [];
    const { port } = await openShop(origin, { log });
    await send(port, { path: "/free" });
    for (const path of ["/free", "/paid", "/free"]) await send(port, { path, headers: TOLD });
    expect(log).toEqual([expect.stringContaining("trustedProxies does not name")]);
  });

  test("says whom a kept answer is given to again", async () => {
    const shop = await shopOf();
    expect(await buy(shop, from("203.0.113.9"))).toMatchObject({ status: 200 });
    expect(await buy(shop, from("203.0.113.8"))).toMatchObject({ status: 402 });
    expect(await buy(shop, from("203.0.113.9"))).toMatchObject({ status: 200 });
    expect(shop.asked).toHaveLength(1);
  });
});
