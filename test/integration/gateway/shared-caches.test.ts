/** Real caches before a gateway whose backend asks them, by every name that caches know, to keep what it sells. */
import { once } from "node:events";
import { request, type IncomingHttpHeaders } from "node:http";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PURSE, richBuyer, sign } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import { hasCache, SHARED_CACHES, startCache } from "../../support/shared-cache.ts";

const STEERING = {
  "Cache-Control": "public, max-age=600",
  "CDN-Cache-Control": "max-age=600",
  "Cloudflare-CDN-Cache-Control": "max-age=600",
  "Surrogate-Control": "max-age=600",
  "X-Accel-Expires": "600",
  "Edge-Control": "max-age=600",
  Expires: "Thu, 01 Jan 2099 00:00:00 GMT",
  Pragma: "public",
};

let chain: Chain;
let gateway: RunningGateway;

beforeAll(async () => {
  chain = await startChain();
  gateway = await startGateway({
    chain,
    more: "trustedProxies: [127.0.0.1]",
    backend: (_request, response) => response.writeHead(200, STEERING).end("goods"),
  });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await chain.stop();
});

interface Seen {
  readonly status: number;
  readonly cache: unknown;
  readonly body: string;
}

/** From an address of its own, which the cache tells the gateway. */
async function ask(url: string, localAddress: string, payment?: string): Promise<Seen> {
  const headers: Record<string, string> = payment === undefined ? {} : { "X-PAYMENT": payment };
  const sent = request(url, { agent: false, localAddress, headers });
  sent.end();
  const [response] = await once(sent, "response");
  const lines: IncomingHttpHeaders = response.headers;
  return { status: response.statusCode, cache: lines["x-cache"], body: await text(response) };
}

describe.for(SHARED_CACHES.filter(hasCache))("behind $name", (cache) => {
  it("what was sold is for its buyer alone, and a 402 for nobody else", async () => {
    await using front = await startCache(cache, new URL(gateway.url));
    const path = `/weather?cache=${encodeURIComponent(cache.name)}`;
    const url = front.url + path;
    const buyer = await richBuyer(chain);
    expect(await ask(url, "127.0.0.2")).toMatchObject({ status: 402, cache: "MISS" });
    const payment = await sign(buyer, url);

    const bought = await ask(url, "127.0.0.2", payment);
    expect(bought).toEqual({ status: 200, cache: "MISS", body: "goods" });
    const stranger = await ask(url, "127.0.0.3", payment);
    expect(stranger).toMatchObject({ status: 402, cache: "MISS" });
    expect(await ask(url, "127.0.0.3")).toMatchObject({ status: 402, cache: "MISS" });
    // By the gateway, which knows him.
    expect(await ask(url, "127.0.0.2", payment)).toEqual(bought);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
  });

  it("what is free is kept", async () => {
    await using front = await startCache(cache, new URL(gateway.url));
    const url = `${front.url}/health?cache=${encodeURIComponent(cache.name)}`;
    expect(await ask(url, "127.0.0.2")).toEqual({ status: 200, cache: "MISS", body: "goods" });
    expect(await ask(url, "127.0.0.3")).toEqual({ status: 200, cache: "HIT", body: "goods" });
  });
});

// Named so that it is seen what was not tested, and what would change that.
for (const { name, needs } of SHARED_CACHES.filter((each) => !hasCache(each))) {
  it.skip(`behind ${name}: apt-get install ${needs === "nginx" ? "nginx-light" : "varnish"}`, () =>
    undefined);
}
