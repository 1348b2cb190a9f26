import { expect, test } from "vitest";
import { PATIENT } from "./listener/secure-stage.ts";
import { buy, errorOf, openShop } from "./shop.ts";
import { backend, send } from "./stage.ts";

test("a request beyond those that may be worked on is told to come again, and is then served", async () => {
  const arrived = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const origin = await backend(async (_request, response) => {
    arrived.resolve();
    await released.promise;
    response.end("goods");
  });
  const shop = await openShop(origin, { maxInFlight: 1 });
  const first = send(shop.port, { path: "/free" });
  await arrived.promise;
  const second = await send(shop.port, { path: "/free" });
  expect(second).toMatchObject({ status: 503, headers: { "retry-after": "1" } });
  expect(errorOf(second)).toBe("too many requests at once");
  released.resolve();
  expect((await first).status).toBe(200);
  expect((await send(shop.port, { path: "/free" })).status).toBe(200);
});

test("a look at what became of a payment takes a place, like any other request", async () => {
  const arrived = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const origin = await backend(async (request, response) => {
    if (request.url === "/free") {
      arrived.resolve();
      await released.promise;
    }
    response.end("goods");
  });
  const shop = await openShop(origin, { maxInFlight: 1, tellsStatus: true });
  const [, url = ""] =
    /^<([^>]*)>; rel="status"$/.exec(String((await buy(shop)).headers["link"])) ?? [];
  const { pathname: path } = new URL(url);
  const first = send(shop.port, { path: "/free" });
  await arrived.promise;
  expect(await send(shop.port, { path })).toMatchObject({ status: 503 });
  released.resolve();
  await first;
  expect(await send(shop.port, { path })).toMatchObject({ status: 200 });
});

/** The clients are whoever a proxy says they are. */
const TRUSTED = { trusted: [{ address: "127.0.0.0", prefixBits: 8 }] };
const from = (client: string): readonly string[] => ["X-Forwarded-For", client];

/** A shop whose backend answers nothing before it is told to. */
async function silentShop(maxInFlight: number) {
  let arrived = 0;
  const released = Promise.withResolvers<void>();
  const origin = await backend(async (_request, response) => {
    arrived += 1;
    await released.promise;
    response.end("goods");
  });
  const shop = await openShop(origin, { maxInFlight, ...TRUSTED });
  const free = (client: string) => send(shop.port, { path: "/free", headers: from(client) });
  /** So many are with the backend, or turned away. */
  const hold = async (clients: readonly string[]) => {
    const before = arrived;
    let refused = 0;
    const answers = clients.map(async (client) => {
      // Those that are held when a test ends are cut.
      const { status } = await free(client).catch(() => ({ status: 0 }));
      if (status === 503) refused += 1;
      return status;
    });
    await expect.poll(() => arrived - before + refused, PATIENT).toBe(clients.length);
    return { held: clients.length - refused, answers };
  };
  return { shop, free, hold, release: released.resolve };
}

test("one client has at most half of the places that are not kept for payments", async () => {
  const { shop, hold, release } = await silentShop(20);
  const stranger = await hold(Array.from({ length: 30 }, () => "198.51.100.1"));
  expect(stranger.held).toBe(9);
  const others = await hold(["198.51.100.2", "198.51.100.3"]);
  expect(others.held).toBe(2);
  release();
  expect(await Promise.all(others.answers)).toEqual([200, 200]);
  await Promise.all(stranger.answers);
  await expect.poll(() => shop.gateway.work.inFlight).toBe(0);
  // All of them have been given back.
  expect((await hold(Array.from({ length: 9 }, () => "198.51.100.1"))).held).toBe(9);
});

test("of IPv6 all addresses of a network are one client", async () => {
  const { hold, release } = await silentShop(20);
  const hosts = Array.from({ length: 30 }, (_, host) => `2001:db8:0:7::${(host + 1).toString(16)}`);
  const stranger = await hold(hosts);
  expect(stranger.held).toBe(9);
  expect((await hold(["2001:db8:0:8::1"])).held).toBe(1);
  release();
  await Promise.all(stranger.answers);
});

test("what needs no backend is answered while every place is taken, and payments have some of their own", async () => {
  const { shop, hold, release } = await silentShop(10);
  await hold(Array.from({ length: 12 }, (_, client) => `198.51.100.${client}`));
  const headers = from("198.51.100.99");
  expect((await send(shop.port, { path: "/free", headers })).status).toBe(503);
  expect((await send(shop.port, { path: "/sold", headers })).status).toBe(402);
  expect((await send(shop.port, { path: "/%zz", headers })).status).toBe(400);
  const bought = buy(shop, { path: "/sold", headers });
  await expect.poll(() => shop.gateway.work.inFlight, PATIENT).toBe(10);
  // The last place is the payment's now.
  expect((await buy(shop, { path: "/sold", headers: from("198.51.100.98") }, 2)).status).toBe(503);
  release();
  expect((await bought).status).toBe(200);
});

test("a payment that finds no place waits for one that is left", async () => {
  const { shop, release } = await silentShop(1);
  const sold = (client: string, number: number) =>
    buy(shop, { path: "/sold", headers: from(client) }, number);
  const first = sold("198.51.100.1", 1);
  await expect.poll(() => shop.gateway.work.inFlight, PATIENT).toBe(1);
  const second = sold("198.51.100.2", 2);
  await expect.poll(() => shop.gateway.work.places.waiting, PATIENT).toBe(1);
  release();
  expect((await first).status).toBe(200);
  expect((await second).status).toBe(200);
});

test("any other request waits for one as well, one of an address", async () => {
  const { shop, free, hold, release } = await silentShop(1);
  const [first] = (await hold(["198.51.100.1"])).answers;
  const second = free("198.51.100.2");
  await expect.poll(() => shop.gateway.work.inFlight, PATIENT).toBe(2);
  expect((await free("198.51.100.2")).status).toBe(503);
  release();
  expect([await first, (await second).status]).toEqual([200, 200]);
});
