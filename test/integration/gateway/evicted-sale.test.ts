/** A paid answer whose client takes nothing of it, where all places are taken: what was paid for is not lost. */
import { expect, test } from "vitest";
import { MAX_STORED_BODY_BYTES } from "../../../src/ledger/ledger.ts";
import { PATIENT } from "./listener/secure-stage.ts";
import { buy, head, openShop, receiptOf } from "./shop.ts";
import { backend, RawClient, send } from "./stage.ts";

const PLACES = 20;
/** Of them those that are not kept for payments. */
const USABLE = 18;
/** More than all buffers on the way hold, and than is stored. */
const LARGE = Buffer.alloc(16 * 1024 * 1024, "a");

test("a paid answer that made room is owed: the same payment gets it, and settles nothing more", async () => {
  expect(LARGE.length).toBeGreaterThan(MAX_STORED_BODY_BYTES);
  const released = Promise.withResolvers<void>();
  let sold = 0;
  const origin = await backend(async (request, response) => {
    response.on("error", () => {});
    if (request.url === "/sold") {
      sold += 1;
      return response.end(LARGE);
    }
    if (request.url === "/free/slow") await released.promise;
    return response.end("goods");
  });
  const shop = await openShop(origin, { maxInFlight: PLACES });
  const buyer = new RawClient(shop.port, head("/sold"));
  await buyer.until("aaa");
  buyer.socket.pause();
  // The others wait for the backend: nobody but the buyer can make room.
  const slow = Array.from({ length: USABLE - 1 }, (_, index) =>
    send(shop.port, { path: "/free/slow", localAddress: `127.1.0.${index + 1}` }),
  );
  await expect.poll(() => shop.gateway.work.places.taken, PATIENT).toBe(USABLE);
  const newcomer = { path: "/free/goods", localAddress: "127.2.0.1" };
  await expect.poll(async () => (await send(shop.port, newcomer)).status, PATIENT).toBe(200);
  expect(shop.gateway.work.places.evicted).toBe(1);
  buyer.socket.resume();
  expect((await buyer.closed).text.length).toBeLessThan(LARGE.length);
  const again = await buy(shop, { path: "/sold" });
  expect(again).toMatchObject({ status: 200 });
  expect(again.body.length).toBe(LARGE.length);
  expect(receiptOf(again)).toMatchObject({ success: true });
  expect(shop.facilitator.settled).toHaveLength(1);
  expect(sold).toBe(2);
  released.resolve();
  expect((await Promise.all(slow)).every(({ status }) => status === 200)).toBe(true);
});
