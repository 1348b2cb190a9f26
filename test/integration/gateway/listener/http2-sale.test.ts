/** What is sold over HTTP/2 is sold as over HTTP/1.1. */
import { describe, expect, test } from "vitest";
import { MAX_STORED_BODY_BYTES } from "../../../../src/ledger/ledger.ts";
import { VERSIONS } from "../../../support/buyer.ts";
import { paymentLine, receiptOf } from "../shop.ts";
import { send } from "../stage.ts";
import { connectHttp2, openSecureShop, send1, send2 } from "./secure-stage.ts";
import { linesOf, telling, type Seen } from "./telling.ts";

/** More than is kept of an answer. */
const LARGE = Buffer.alloc(MAX_STORED_BODY_BYTES + 100_000, "x");

test("a sale is asked for in the same words over both protocols", async () => {
  const { shop, port } = await openSecureShop(await telling([]));
  const over2 = await send2(await connectHttp2(port), { path: "/report?a=1" });
  const over1 = await send1(port, { path: "/report?a=1" });
  const clear = await send(shop.port, { path: "/report?a=1" });
  expect(over2.status).toBe(402);
  expect(over1.status).toBe(402);
  expect(over2.body.equals(over1.body)).toBe(true);
  expect(over2.body.equals(clear.body)).toBe(true);
  const { connection: _, "keep-alive": _k, date: _d, ...lines } = over1.headers;
  expect(over2.headers).toMatchObject(lines);
  expect(lines["payment-required"]).toMatch(/^eyJ/);
});

describe.each(VERSIONS)("a sale in version %i", (version) => {
  const paying = (number: number) => Object.fromEntries([paymentLine(number, version)]);

  test("is made over HTTP/2 and over HTTP/1.1 with TLS", async () => {
    const seen: Seen[] = [];
    const { port, shop } = await openSecureShop(await telling(seen));
    const session = await connectHttp2(port);
    const over2 = await send2(session, { path: "/", headers: paying(1) });
    const over1 = await send1(port, { path: "/", headers: [...paymentLine(2, version)] });
    expect(over2.status).toBe(200);
    expect(over1.status).toBe(200);
    expect(over2.body.toString()).toBe("hello");
    expect(receiptOf(over2, version)).toMatchObject({ success: true });
    expect(receiptOf(over1, version)).toMatchObject({ success: true });
    expect(over2.headers["cache-control"]).toBe(over1.headers["cache-control"]);
    for (const name of ["x-payment", "payment-signature"]) {
      expect(linesOf(seen[0]?.rawHeaders, name)).toEqual([]);
    }
    const again = await send2(session, { path: "/", headers: paying(1) });
    expect(again.status).toBe(200);
    expect(seen).toHaveLength(2);
    expect(shop.gateway.work.inFlight).toBe(0);
  });

  test.each([
    ["a length", { "content-length": LARGE.length }],
    ["chunks", {}],
  ])("of something large, with %s, is sold once it is delivered", async (_name, head) => {
    const seen: Seen[] = [];
    const origin = await telling(seen, (_, response) => {
      response.writeHead(200, head);
      response.end(LARGE);
    });
    const { port } = await openSecureShop(origin);
    const session = await connectHttp2(port);
    for (let number = 1; number <= 5; number += 1) {
      const headers = paying(number);
      const bought = await send2(session, { path: "/", headers });
      expect(bought).toMatchObject({ status: 200, rstCode: 0 });
      expect(bought.body).toHaveLength(LARGE.length);
      expect((await send2(session, { path: "/", headers })).status).toBe(402);
      expect(seen).toHaveLength(number);
    }
  });

  test("with two payments is refused", async () => {
    const { port } = await openSecureShop(await telling([]));
    const session = await connectHttp2(port);
    const [name, value] = paymentLine(1, version);
    const headers = { [name]: [value, paymentLine(2, version)[1]] };
    expect((await send2(session, { path: "/", headers })).status).toBe(400);
  });
});
