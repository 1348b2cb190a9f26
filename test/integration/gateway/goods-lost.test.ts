/** What a buyer would have lost: the rest of a small answer, and what is behind a redirect to where nobody gets. */
import { once } from "node:events";
import { expect, test } from "vitest";
import { examplePayment } from "../../unit/ledger/example-payment.ts";
import { settledOf, shopOf } from "./goods-stage.ts";
import { buy, head, receiptOf } from "./shop.ts";
import { RawClient } from "./stage.ts";

const SMALL = Buffer.alloc(50_000, "0123456789abcdef");

const range = (text: string) => ({ headers: ["Range", `bytes=${text}`] });

test("a kept answer is given whole to who was cut and comes for the rest, also with a new signature", async () => {
  const shop = await shopOf(
    ({ url, headers }, response) => {
      if (headers.range === undefined && url !== "/unasked") response.end(SMALL);
      else response.writeHead(206, { "Content-Range": "bytes 0-4/5" }).end("01234");
    },
    { sold: { repeat: { forMs: 600_000, times: 4 } } },
  );
  const client = new RawClient(shop.port, head());
  await client.until("0123456789abcdef");
  client.socket.resetAndDestroy();
  await once(client.socket, "close");
  await expect.poll(() => shop.gateway.work.inFlight).toBe(0);
  const ifSame = { headers: ["Range", "bytes=100-", "If-Range", '"etag"'] };
  expect(await buy(shop, ifSame)).toMatchObject({ status: 200, body: SMALL });
  const left = new RawClient(shop.port, head());
  await left.until("0123456789abcdef");
  left.socket.resetAndDestroy();
  await expect
    .poll(async () => (await shop.ledger.books.show(examplePayment(1).key))?.isLeft)
    .toBe(true);
  expect(await buy(shop, range("100-"), 2)).toMatchObject({ status: 200, body: SMALL });
  expect(settledOf(shop)).toBe(1);
  // What is asked for in other units, or for a comparison, may be another answer.
  for (const [number, lines] of [
    [5, ["Range", "items=0-9"]],
    [6, ["Range", "bytes=0-9", "If-None-Match", "*"]],
  ] as const) {
    expect(await buy(shop, {}, number)).toMatchObject({ status: 200 });
    expect(await buy(shop, { headers: [...lines] }, number)).toMatchObject({ status: 402 });
  }
  // A part is for nobody who asks for another.
  expect(await buy(shop, { path: "/part", ...range("0-4") }, 3)).toMatchObject({ status: 206 });
  expect(await buy(shop, { path: "/part", ...range("2-4") }, 3)).toMatchObject({ status: 402 });
  expect(await buy(shop, { path: "/part" }, 3)).toMatchObject({ status: 402 });
  const unasked = { path: "/unasked" };
  expect(await buy(shop, unasked, 4)).toMatchObject({ status: 206 });
  expect(await buy(shop, { ...unasked, ...range("2-4") }, 4)).toMatchObject({ status: 402 });
  expect(shop.asked).toHaveLength(5);
});

test.each(["/caf%c3%a9", "/a%2Fb", "https://shop.example/to;id=1", `/${"a".repeat(5_000)}`])(
  "a redirect to %s, which is refused as it is spelt, sells nothing: it is owed and paid back as what fails",
  async (location) => {
    const shop = await shopOf(
      (_, response) => void response.writeHead(302, { Location: location }).end(),
      { refundsLast: true },
    );
    const first = await buy(shop, { path: "/from" });
    expect(first).toMatchObject({ status: 302, headers: { location } });
    expect(receiptOf(first)).toMatchObject({ success: true });
    const stateOf = async (): Promise<string | undefined> =>
      (await shop.ledger.books.list({ limit: 1 }))[0]?.state;
    expect(await stateOf()).toBe("SETTLED");
    expect(await buy(shop, { path: "/from" }, 2)).toMatchObject({ status: 302 });
    expect(await buy(shop, { path: "/from" })).toMatchObject({ status: 302 });
    expect(await stateOf()).toBe("FAILED");
    expect(settledOf(shop)).toBe(1);
  },
);
