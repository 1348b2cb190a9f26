/** A buyer who gives up just as his answer comes: it is sent, and he never reads it. */
import { once } from "node:events";
import { ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { expect, onTestFinished, test, vi } from "vitest";
import { examplePayment } from "../../unit/ledger/example-payment.ts";
import { stateOf } from "../../unit/payments/sale/paywall-stage.ts";
import { openSecureShop } from "./listener/secure-stage.ts";
import { buy, head, openShop, receiptOf, type Shop } from "./shop.ts";
import { backend, RawClient } from "./stage.ts";

const SALE = { binding: "GET /", target: "/" };
const GOODS = "the goods";
const UNREAD = "its answer was not read";

async function shopOf(): Promise<Shop & { readonly asked: () => number }> {
  let asked = 0;
  const origin = await backend((_request, response) => {
    asked += 1;
    response.end(GOODS);
  });
  return { ...(await openShop(origin)), asked: () => asked };
}

/** A client that has sent its request and reads nothing. */
function deafClient(port: number, isSecure = false): Socket {
  const place = { port, host: "127.0.0.1" };
  const socket = isSecure ? connectTls({ ...place, rejectUnauthorized: false }) : connect(place);
  if (!isSecure) socket.pause();
  socket.on("error", () => undefined);
  socket.write(head());
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** How many payments are owed to the payer of the next one. */
async function owed({ ledger }: Shop): Promise<number> {
  const { paymentPayload } = examplePayment(2).request;
  return (await ledger.recall(paymentPayload, SALE)).owed.length;
}

async function eventsOf({ ledger }: Shop, number: number): Promise<readonly string[]> {
  const detail = await ledger.books.show(examplePayment(number).key);
  return detail?.events.map(({ note }) => note) ?? [];
}

test("an answer whose client breaks the connection before it has read it is owed, and given once more", async () => {
  const shop = await shopOf();
  const client = deafClient(shop.port);
  await expect.poll(() => stateOf(shop.ledger)).toBe("DELIVERED");
  expect(await owed(shop)).toBe(0);
  client.destroy();
  await expect.poll(() => owed(shop)).toBe(1);
  const answer = await buy(shop, {}, 2);
  expect(answer).toMatchObject({ status: 200, body: Buffer.from(GOODS) });
  expect(receiptOf(answer)).toMatchObject({ success: true });
  expect(shop.asked()).toBe(1);
  expect(shop.facilitator.settled).toHaveLength(1);
  expect(await owed(shop)).toBe(0);
});

test.each([
  ["in the clear", false],
  ["behind TLS", true],
])(
  "so is one whose client has closed the connection when it is written, %s",
  async (_, isSecure) => {
    const ending = vi.spyOn(ServerResponse.prototype, "end");
    onTestFinished(() => ending.mockRestore());
    const origin = await backend((_request, response) => {
      response.end(GOODS);
      // The next one is the gateway's own: nothing is read from any connection between the two.
      ending.mockImplementationOnce(function (
        this: ServerResponse,
        ...given: Parameters<ServerResponse["end"]>
      ) {
        client.destroy();
        return this.end(...given);
      });
    });
    const { shop, port } = await openSecureShop(origin);
    const client = deafClient(isSecure ? port : shop.port, isSecure);
    await expect.poll(() => stateOf(shop.ledger)).toBe("DELIVERED");
    await expect.poll(() => owed(shop)).toBe(1);
  },
);

test("so is one that is given again", async () => {
  const shop = await shopOf();
  await buy(shop);
  const client = deafClient(shop.port);
  await expect.poll(async () => (await eventsOf(shop, 1)).at(-1)).toBe("collected");
  client.destroy();
  await expect.poll(() => owed(shop)).toBe(1);
});

test("a connection that buys many things is watched for the last of them", async () => {
  const shop = await shopOf();
  const warned = vi.fn<(warning: Error) => void>();
  process.on("warning", warned);
  onTestFinished(() => void process.off("warning", warned));
  const heads = Array.from({ length: 12 }, (_, index) =>
    head("/", [], "GET", { number: index + 1 }),
  );
  const client = new RawClient(shop.port, heads.join(""));
  await expect.poll(async () => (await client.until(GOODS)).split(GOODS).length).toBe(13);
  await expect.poll(() => stateOf(shop.ledger, 12)).toBe("DELIVERED");
  client.socket.resetAndDestroy();
  await expect.poll(async () => (await eventsOf(shop, 12)).at(-1)).toBe(UNREAD);
  expect(await eventsOf(shop, 11)).not.toContain(UNREAD);
  expect(warned).not.toHaveBeenCalled();
});

test("one whose client has read it and leaves in good order is his, and the next one is paid", async () => {
  const shop = await shopOf();
  const client = new RawClient(shop.port, head());
  await client.until(GOODS);
  client.socket.end();
  await client.closed;
  await buy(shop, {}, 2);
  expect(shop.asked()).toBe(2);
  expect(shop.facilitator.settled).toHaveLength(2);
});

test("one whose client has asked for something else since has been read, however that ends", async () => {
  const shop = await shopOf();
  const client = new RawClient(shop.port, head());
  await client.until(GOODS);
  client.socket.write("GET /free HTTP/1.1\r\nHost: shop.example\r\n\r\n");
  await expect.poll(shop.asked).toBe(2);
  client.socket.resetAndDestroy();
  await once(client.socket, "close");
  await buy(shop, {}, 2);
  expect(shop.facilitator.settled).toHaveLength(2);
});
