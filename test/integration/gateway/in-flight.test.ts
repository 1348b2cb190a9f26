import { expect, test } from "vitest";
import { errorOf, openShop } from "./shop.ts";
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
