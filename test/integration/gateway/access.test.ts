/** What the access log tells of requests, as they are really answered. */
import { once } from "node:events";
import { expect, test, vi } from "vitest";
import { AccessLog } from "../../../src/telemetry/access-log.ts";
import { examplePayment } from "../../unit/ledger/example-payment.ts";
import { buy, head, openShop, type Shop, type ShopOptions } from "./shop.ts";
import { backend, RawClient, send } from "./stage.ts";

const ANSWER = "the answer";

interface Logged extends Shop {
  /** The lines so far, parsed; waits for as many. */
  readonly lines: (count: number) => Promise<readonly Record<string, unknown>[]>;
}

async function shopOf(options: Partial<ShopOptions> = {}): Promise<Logged> {
  const origin = await backend((request, response) => {
    if (request.url?.endsWith("/slow") !== true) return void response.end(ANSWER);
    response.writeHead(200, { "Content-Length": 1_000 });
    response.write("only this");
  });
  const written: string[] = [];
  const to = { write: (line: string) => void written.push(line) };
  const access = new AccessLog({ format: "json", file: null, query: false }, to, Date.now);
  const shop = await openShop(origin, { access, ...options });
  const lines: Logged["lines"] = async (count) => {
    await vi.waitUntil(() => written.length >= count);
    return written.map((line): Record<string, unknown> => JSON.parse(line));
  };
  return { ...shop, lines };
}

test("a sale is told with its client, amount, payment and transaction; a kept answer without an amount", async () => {
  const shop = await shopOf();
  const asked = await send(shop.port, { path: "/weather?city=Lund" });
  const headers = ["User-Agent", 'curl "8"'];
  await buy(shop, { path: "/weather?city=Lund", headers });
  await buy(shop, { path: "/weather?city=Lund", headers });
  const [challenged, sold, again] = await shop.lines(3);
  expect(challenged).toMatchObject({
    client: "127.0.0.1",
    method: "GET",
    target: "/weather",
    status: 402,
    bytes: asked.body.length,
    route: "/*",
    outcome: "challenged",
  });
  expect(challenged).not.toHaveProperty("amount");
  const { network } = examplePayment(1).request.paymentRequirements;
  const paid = {
    status: 200,
    bytes: ANSWER.length,
    network,
    transaction: expect.stringMatching(/^0x/),
    payer: expect.stringMatching(/^0x/),
    payment: expect.stringMatching(/^[0-9a-f]{16}$/),
    agent: 'curl "8"',
  };
  expect(sold).toMatchObject({ ...paid, outcome: "paid", amount: "0.01", asset: "USDC" });
  expect(again).toMatchObject({ ...paid, outcome: "replayed", payment: sold?.["payment"] });
  expect(again).not.toHaveProperty("amount");
});

test("bytes are those of the body that were written", async () => {
  const shop = await shopOf();
  await send(shop.port, { path: "/free" });
  await send(shop.port, { path: "/free", method: "HEAD" });
  await send(shop.port, { path: "/weather", method: "HEAD" });
  const client = new RawClient(shop.port, "GET /free/slow HTTP/1.1\r\nHost: shop.example\r\n\r\n");
  await client.until("only this");
  client.socket.destroy();
  await once(client.socket, "close");
  const lines = await shop.lines(4);
  expect(lines.map(({ status, outcome, bytes }) => [status, outcome, bytes])).toEqual([
    [200, "free", ANSWER.length],
    [200, "free", 0],
    [402, "challenged", 0],
    // The client is gone by now, and its address is told all the same.
    [200, "free", "only this".length],
  ]);
  expect(lines[3]).toMatchObject({ client: "127.0.0.1" });
});

test("a client behind proxies is who they say that it is, and nobody else says that", async () => {
  const trusted = [{ address: "127.0.0.1", prefixBits: 32 }];
  const headers = ["X-Forwarded-For", "203.0.113.7"];
  for (const [options, address] of [
    [{ trusted }, "203.0.113.7"],
    [{}, "127.0.0.1"],
  ] as const) {
    const shop = await shopOf(options);
    await send(shop.port, { path: "/denied", headers });
    expect(await shop.lines(1)).toMatchObject([
      { client: address, status: 403, outcome: "denied" },
    ]);
  }
});

test("a payment that is refused is told, and no sale", async () => {
  const shop = await shopOf();
  await buy(shop, { path: "/weather" });
  const client = new RawClient(shop.port, head("/others"));
  await client.until("402");
  client.socket.destroy();
  const [, refused] = await shop.lines(2);
  expect(refused).toMatchObject({ status: 402, outcome: "refused", route: "/*" });
  expect(refused).not.toHaveProperty("transaction");
});
