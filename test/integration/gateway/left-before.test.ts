/** Buyers who leave before their answer, and where one asks later what became of it. */
import type { IncomingMessage, RequestListener } from "node:http";
import { describe, expect, test } from "vitest";
import { MAX_STORED_BODY_BYTES } from "../../../src/ledger/ledger.ts";
import { buy, head, openShop, type Shop, type ShopOptions } from "./shop.ts";
import { backend, RawClient } from "./stage.ts";

/** An answer that is not kept, and how long after its buyer has left it comes, milliseconds. */
const LARGE = "a".repeat(MAX_STORED_BODY_BYTES + 1);
const LATE_MS = 200;

/** A shop whose backend answers so; `asked` counts the requests that reached it. */
async function shopOf(
  handler: RequestListener,
  options: ShopOptions,
): Promise<Shop & { readonly asked: readonly IncomingMessage[] }> {
  const asked: IncomingMessage[] = [];
  const origin = await backend((request, response) => {
    asked.push(request);
    handler(request, response);
  });
  return { ...(await openShop(origin, options)), asked };
}

/** Leaves before the answer to that request, which the backend has. */
async function leaveBefore(
  shop: Shop & { readonly asked: readonly IncomingMessage[] },
  method: string,
): Promise<void> {
  const client = new RawClient(shop.port, head("/", [], method));
  const { length } = shop.asked;
  await expect.poll(() => shop.asked.length).toBe(length + 1);
  client.socket.destroy();
  await shop.gateway.work.drain(AbortSignal.timeout(5_000));
}

test("where a buyer asks what became of it stands beside the backend's own links, each time", async () => {
  const next = '</page/2>; rel="next"';
  const shop = await shopOf(
    (_request, response) => void response.setHeader("Link", next).end("page 1"),
    { tellsStatus: true, support: "https://shop.example/help" },
  );
  const status = expect.stringMatching(
    /^<https:\/\/shop\.example\/\.well-known\/.*>; rel="status"$/,
  );
  const links = [next, '<https://shop.example/help>; rel="help"', status];
  for (const _time of ["first", "again"]) {
    const answer = await buy(shop);
    expect(answer.status).toBe(200);
    expect(String(answer.headers["link"]).split(", ")).toEqual(links);
  }
  expect(shop.asked).toHaveLength(1);
});

describe("a buyer who leaves before the answer", () => {
  /** A backend that does what it is asked and answers, at first, when nobody is there any more. */
  async function ordering(): Promise<Awaited<ReturnType<typeof shopOf>>> {
    return shopOf((_request, response) => void setTimeout(() => response.end(LARGE), LATE_MS), {
      refundsLast: true,
    });
  }
  const paid = async ({ ledger }: Shop) => (await ledger.books.list({ limit: 1 }))[0];

  test("to what may have been carried out is not paid back by itself", async () => {
    const shop = await ordering();
    for (const _attempt of [1, 2, 3]) await leaveBefore(shop, "POST");
    expect(await paid(shop)).toMatchObject({ state: "SETTLED", attempts: 3, refund: null });
  });

  test("to what changes nothing is not either: everybody may leave", async () => {
    const shop = await ordering();
    for (const _attempt of [1, 2, 3]) await leaveBefore(shop, "GET");
    expect(await paid(shop)).toMatchObject({ state: "SETTLED", attempts: 3, refund: null });
  });

  const refused = { state: "SETTLED", attempts: 3, refund: null };
  const asked = { state: "FAILED", refund: { state: "ASKED" } };
  test.each([
    ["refuses him", 404, 404, refused],
    ["has failed", 503, 503, asked],
    ["does not answer", null, 502, asked],
  ])("and comes back: the backend %s", async (_, status, told, left) => {
    const shop = await shopOf(
      (request, response) => {
        if (shop.asked.length === 1) setTimeout(() => response.end(LARGE), LATE_MS);
        else if (status === null) request.socket.destroy();
        else response.writeHead(status).end();
      },
      { refundsLast: true },
    );
    await leaveBefore(shop, "GET");
    for (const _attempt of [2, 3]) expect(await buy(shop)).toMatchObject({ status: told });
    await shop.gateway.work.drain(AbortSignal.timeout(5_000));
    expect(await paid(shop)).toMatchObject(left);
  });

  test("to what may have been carried out is not paid back for what the backend fails then", async () => {
    const shop = await shopOf(
      (_request, response) => {
        if (shop.asked.length === 1) setTimeout(() => response.end(LARGE), LATE_MS);
        else response.writeHead(503).end();
      },
      { refundsLast: true },
    );
    await leaveBefore(shop, "POST");
    for (const _attempt of [2, 3])
      expect(await buy(shop, { method: "POST" })).toMatchObject({ status: 503 });
    await shop.gateway.work.drain(AbortSignal.timeout(5_000));
    expect(await paid(shop)).toMatchObject(refused);
  });

  test("and sends too much then gets nothing back by itself", async () => {
    const sent = { method: "POST", body: ["some", "more than that"] };
    const shop = await shopOf((_request, response) => void response.writeHead(503).end(), {
      refundsLast: true,
      upstream: { bodyLimitBytes: 10 },
    });
    for (const _attempt of [1, 2, 3]) expect(await buy(shop, sent)).toMatchObject({ status: 413 });
    await shop.gateway.work.drain(AbortSignal.timeout(5_000));
    expect(await paid(shop)).toMatchObject(refused);
  });

  test("and holds his body back until the backend gives up gets nothing back by itself", async () => {
    const shop = await shopOf(
      (request, response) => {
        request.on("error", () => undefined);
        request.resume().on("end", () => response.end("goods"));
      },
      { refundsLast: true, upstream: { idleTimeoutMs: 200 } },
    );
    const held = `${head("/", ["Transfer-Encoding: chunked"], "POST")}3\r\nabc\r\n`;
    for (const _attempt of [1, 2, 3]) {
      const client = new RawClient(shop.port, held);
      expect(await client.until("\r\n\r\n")).toMatch(/^HTTP\/1\.1 504 /);
      client.socket.destroy();
    }
    await shop.gateway.work.drain(AbortSignal.timeout(5_000));
    expect(await paid(shop)).toMatchObject(refused);
  });

  test("to what may have been carried out gets nothing back for asking wrongly then", async () => {
    const shop = await shopOf(
      (_request, response) => {
        const isFirst = shop.asked.length === 1;
        setTimeout(() => response.writeHead(isFirst ? 200 : 400).end(LARGE), isFirst ? LATE_MS : 0);
      },
      { refundsLast: true },
    );
    await leaveBefore(shop, "POST");
    for (const _attempt of [2, 3])
      expect(await buy(shop, { method: "POST" })).toMatchObject({ status: 400 });
    await shop.gateway.work.drain(AbortSignal.timeout(5_000));
    expect(await paid(shop)).toMatchObject({ state: "SETTLED", attempts: 3, refund: null });
  });
});
