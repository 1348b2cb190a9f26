/** A paid request ends in the goods: behind a redirect, after a cut, and by its head first. */
import { once } from "node:events";
import type { IncomingMessage, RequestListener } from "node:http";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import { HostNames } from "../../../src/http/host-names.ts";
import { MAX_STORED_BODY_BYTES } from "../../../src/ledger/ledger.ts";
import { openTarget } from "../../../src/gateway/upstream/open-target.ts";
import { defaultUpstreamOptions } from "../../../src/gateway/upstream/upstream.ts";
import { Offers } from "../../../src/payments/sale/offers.ts";
import { VERSIONS } from "../../support/buyer.ts";
import { ManualTime } from "../../unit/gateway/manual-time.ts";
import { examplePayment } from "../../unit/ledger/example-payment.ts";
import { buy, errorOf, head, receiptOf, type ShopOptions } from "./shop.ts";
import { settledOf, shopOf, type Stage } from "./goods-stage.ts";
import { backend, RawClient } from "./stage.ts";

const LARGE = Buffer.alloc(4 * MAX_STORED_BODY_BYTES, "0123456789abcdef");
const REPEAT = { forMs: 600_000, times: 4 };

/** `/from` leads there, and everything else is the goods. */
function leading(location: string, status = 302): RequestListener {
  return ({ url = "" }, response) => {
    if (!url.startsWith("/from")) response.end(`goods of ${url}`);
    else response.writeHead(status, { Location: location }).end("elsewhere");
  };
}

describe("a redirect of the backend", () => {
  test.each(VERSIONS)(
    "within our origin carries the payment: one charge, one delivery (version %i)",
    async (version) => {
      const shop = await shopOf(leading("/to/?a=1"));
      const first = await buy(shop, { path: "/from" }, 1, version);
      expect(first).toMatchObject({ status: 302, headers: { location: "/to/?a=1" } });
      expect(receiptOf(first, version)).toMatchObject({ success: true });
      const goods = await buy(shop, { path: "/to/?a=1" }, 1, version);
      expect(goods).toMatchObject({ status: 200, body: Buffer.from("goods of /to/?a=1") });
      expect(receiptOf(goods, version)).toEqual(receiptOf(first, version));
      expect(settledOf(shop)).toBe(1);
      // Once: another query of it is another purchase.
      expect(await buy(shop, { path: "/to/?a=2" }, 1, version)).toMatchObject({ status: 402 });
    },
  );

  test.each([
    ["a POST that is answered 303", 303, "POST", "GET"],
    ["a POST that is answered 307", 307, "POST", "POST"],
    ["a HEAD that is answered 308", 308, "HEAD", "GET"],
    ["a POST that is answered 302", 302, "POST", "GET"],
    ["a PUT that is answered 302", 302, "PUT", "PUT"],
  ])("of %s carries it to the method that follows", async (_, status, method, next) => {
    const shop = await shopOf(leading("https://shop.example/to", status));
    expect(await buy(shop, { path: "/from", method })).toMatchObject({ status });
    const wrong = next === "GET" ? "POST" : "GET";
    expect(await buy(shop, { path: "/to", method: wrong })).toMatchObject({ status: 402 });
    expect(await buy(shop, { path: "/to", method: next })).toMatchObject({ status: 200 });
    expect(settledOf(shop)).toBe(1);
  });

  test("is followed for a new signature, too, which is not charged", async () => {
    const shop = await shopOf(leading("/to"));
    await buy(shop, { path: "/from" });
    expect(await buy(shop, { path: "/from" }, 2)).toMatchObject({ status: 302 });
    expect(await buy(shop, { path: "/to" })).toMatchObject({ status: 200 });
    expect(settledOf(shop)).toBe(1);
  });

  test("leads on again from its beginning, when its goods are sold", async () => {
    const shop = await shopOf(leading("/to"));
    await buy(shop, { path: "/from" });
    await buy(shop, { path: "/to" });
    const again = await buy(shop, { path: "/from" });
    expect(again).toMatchObject({ status: 307, headers: { location: "/to" } });
    expect(receiptOf(again)).toMatchObject({ success: true });
    expect(await buy(shop, { path: "/to" })).toMatchObject({ status: 200 });
    expect(shop.asked).toEqual(["GET /from", "GET /to"]);
  });

  test.each(["/dear", "/others"])(
    "to what costs more, or another seller, is no payment for that: %s; it says what was bought",
    async (target) => {
      const shop = await shopOf(leading(target));
      const first = await buy(shop, { path: "/from" });
      expect(first.status).toBe(302);
      const answer = await buy(shop, { path: target });
      expect(answer.status).toBe(402);
      expect(errorOf(answer)).toContain("it has bought GET /from in 0x");
      expect(receiptOf(answer)).toEqual(receiptOf(first));
      expect(shop.asked).toEqual(["GET /from"]);
    },
  );

  test.each(["https://elsewhere.example/to", "//elsewhere.example/to", "/denied", "http://["])(
    "to %s is what was sold",
    async (location) => {
      const shop = await shopOf(leading(location));
      const first = await buy(shop, { path: "/from" });
      expect(first).toMatchObject({ status: 302, headers: { location } });
      const [payment] = await shop.ledger.books.list({ limit: 1 });
      expect(payment).toMatchObject({ state: "DELIVERED" });
    },
  );

  test("to the host that was asked carries it where that is one of ours, and else is what was sold", async () => {
    const hosts = { names: new HostNames(["alias.example"]), only: false };
    for (const [host, state] of [
      ["alias.example", "SETTLED"],
      ["127.0.0.1:8402", "SETTLED"],
      ["cdn.example", "DELIVERED"],
    ] as const) {
      const shop = await shopOf(leading(`http://${host}/to`), { hosts });
      const asked = { path: "/from", headers: ["Host", host] };
      expect(await buy(shop, asked)).toMatchObject({ status: 302 });
      const [payment] = await shop.ledger.books.list({ limit: 1 });
      expect(payment).toMatchObject({ state });
    }
  });

  test.each(["to/", "/base/to/", "https://shop.example/base/to/", "/to/"])(
    "to %s below the prefix of publicUrl is read without it",
    async (location) => {
      const publicUrl = "https://shop.example/base";
      const shop = await shopOf(leading(location), { publicUrl });
      expect(await buy(shop, { path: "/from" })).toMatchObject({ status: 302 });
      expect(await buy(shop, { path: "/to/" })).toMatchObject({ status: 200 });
      expect(settledOf(shop)).toBe(1);
    },
  );

  test("at a cheap shop is no payment for that path at a dear one with the same ledger", async () => {
    const shop = await shopOf(leading("/to"));
    const { ledger } = shop;
    const { resource: _, ...offer } = examplePayment(1).request.paymentRequirements;
    const other = async (publicUrl: string, amount: string): Promise<Stage> => {
      const offers = new Offers([{ ...offer, maxAmountRequired: amount }]);
      return shopOf(leading("/to"), { ledger, publicUrl, sold: { offers } });
    };
    const dear = await other("https://dear.example", `${offer.maxAmountRequired}0`);
    const same = await other("https://same.example", offer.maxAmountRequired);
    const risen = await other("https://shop.example", `${offer.maxAmountRequired}0`);
    for (const number of [1, 2])
      expect(await buy(shop, { path: "/from" }, number)).toMatchObject({ status: 302 });
    expect(await buy(dear, { path: "/to" })).toMatchObject({ status: 402 });
    expect(dear.asked).toEqual([]);
    expect(await buy(same, { path: "/to" })).toMatchObject({ status: 200 });
    expect(await buy(risen, { path: "/to" }, 2)).toMatchObject({ status: 200 });
  });

  test("in a circle ends: the backend is asked so often, and no more", async () => {
    const shop = await shopOf((_, response) => {
      response.writeHead(302, { Location: "/round" }).end();
    });
    let answer = await buy(shop, { path: "/round" });
    for (let times = 0; times < 30 && answer.status === 302; times += 1) {
      answer = await buy(shop, { path: "/round" });
    }
    expect(answer.status).toBe(409);
    expect(shop.asked).toHaveLength(13);
    expect(settledOf(shop)).toBe(1);
  });

  test("is for its buyer: who saw the payment on chain gets nothing behind it", async () => {
    const shop = await shopOf(leading("/to"));
    expect(await buy(shop, { path: "/from", localAddress: "127.0.0.1" })).toMatchObject({
      status: 302,
    });
    expect(await buy(shop, { path: "/to", localAddress: "127.0.0.9" })).toMatchObject({
      status: 409,
    });
    expect(await buy(shop, { path: "/to", localAddress: "127.0.0.1" })).toMatchObject({
      status: 200,
    });
  });

  test("is stored before the buyer is told of it", async () => {
    const shop = await shopOf(leading("/to"));
    const step = shop.ledger.step.bind(shop.ledger);
    let isStored = false;
    vi.spyOn(shop.ledger, "step").mockImplementation(async (key, transition) => {
      if (transition.kind === "undelivered") await setTimeout(100);
      const outcome = await step(key, transition);
      isStored ||= transition.kind === "undelivered";
      return outcome;
    });
    expect(await buy(shop, { path: "/from" })).toMatchObject({ status: 302 });
    expect(isStored).toBe(true);
    expect(await buy(shop, { path: "/to" })).toMatchObject({ status: 200 });
  });
});

describe("redirects: follow", () => {
  const follow: ShopOptions = { sold: { redirects: "follow" } };

  test("answers with what is at the end, and a retry finds the same", async () => {
    const shop = await shopOf((request, response) => {
      const [, step = ""] = /^\/from(\d*)/.exec(request.url ?? "") ?? [];
      if (step === "4") response.end("goods");
      else response.writeHead(302, { Location: `/from${Number(step) + 1}` }).end("moved");
    }, follow);
    const answer = await buy(shop, { path: "/from" });
    expect(answer).toMatchObject({ status: 200, body: Buffer.from("goods") });
    expect(answer.headers["content-location"]).toBe("/from4");
    expect(receiptOf(answer)).toMatchObject({ success: true });
    expect(await buy(shop, { path: "/from" })).toMatchObject({ status: 200 });
    expect(shop.asked).toHaveLength(5);
    expect(settledOf(shop)).toBe(1);
  });

  test("ends after five", async () => {
    const shop = await shopOf((_, response) => {
      response.writeHead(302, { Location: "/round" }).end("round");
    }, follow);
    expect(await buy(shop, { path: "/round" })).toMatchObject({ status: 302 });
    expect(shop.asked).toHaveLength(6);
  });

  test.each(["/dear", "/denied", "https://elsewhere.example/", "/others"])(
    "passes on what leads to %s",
    async (location) => {
      const shop = await shopOf(leading(location), follow);
      const answer = await buy(shop, { path: "/from" });
      expect(answer).toMatchObject({ status: 302, headers: { location } });
      expect(shop.asked).toHaveLength(1);
    },
  );

  test("passes on what another upstream serves", async () => {
    const origin = await backend((_, response) => void response.end("apart"));
    const apart = openTarget({ ...defaultUpstreamOptions, origin });
    const shop = await shopOf(leading("/apart"), { ...follow, apart });
    expect(await buy(shop, { path: "/from" })).toMatchObject({ status: 302 });
    expect(await buy(shop, { path: "/apart" })).toMatchObject({ body: Buffer.from("apart") });
    expect(shop.asked).toEqual(["GET /from"]);
    expect(settledOf(shop)).toBe(1);
    await apart.close(AbortSignal.abort());
  });

  test("leads into what is free, and a POST is not sent twice", async () => {
    const shop = await shopOf(leading("/free"), follow);
    expect(await buy(shop, { path: "/from" })).toMatchObject({ status: 200 });
    const answer = await buy(shop, { path: "/from", method: "POST" }, 2);
    expect(answer).toMatchObject({ status: 302 });
    expect(shop.asked).toEqual(["GET /from", "GET /free", "POST /from"]);
  });

  test("does not send a body twice", async () => {
    const shop = await shopOf(leading("/to"), follow);
    const asked = { path: "/from", headers: ["Content-Length", "2"], body: ["{}"] };
    expect(await buy(shop, asked)).toMatchObject({ status: 302 });
    expect(shop.asked).toEqual(["GET /from"]);
  });

  test("tells of a backend that is gone behind the redirect, and the payment is kept", async () => {
    let isBroken = true;
    const shop = await shopOf((request, response) => {
      if (request.url === "/from") response.writeHead(302, { Location: "/to" }).end();
      else if (isBroken) request.socket.destroy();
      else response.end("goods");
    }, follow);
    expect(await buy(shop, { path: "/from" })).toMatchObject({ status: 502 });
    isBroken = false;
    expect(await buy(shop, { path: "/from" })).toMatchObject({ status: 200 });
    expect(settledOf(shop)).toBe(1);
  });
});

/** Serves what is asked for of {@link LARGE}, as every file server does. */
function serveLarge(
  { method, headers }: IncomingMessage,
  response: Parameters<RequestListener>[1],
): void {
  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? "") ?? [];
  const from = Number(first ?? 0);
  const to = last === undefined || last === "" ? LARGE.length - 1 : Number(last);
  const part = LARGE.subarray(from, to + 1);
  const range = { "Content-Range": `bytes ${from}-${to}/${LARGE.length}` };
  response.writeHead(first === undefined ? 200 : 206, {
    "Accept-Ranges": "bytes",
    "Content-Length": part.length,
    ...(first !== undefined && range),
  });
  response.end(method === "HEAD" ? undefined : part);
}

const range = (text: string) => ({ headers: ["Range", `bytes=${text}`] });

describe("a download", () => {
  const repeating: ShopOptions = { sold: { repeat: REPEAT } };

  test("that was sold is fetched again with its payment, whole and in parts, so often", async () => {
    const shop = await shopOf(serveLarge, repeating);
    const whole = await buy(shop);
    expect(whole.body.equals(LARGE)).toBe(true);
    expect((await buy(shop)).body.equals(LARGE)).toBe(true);
    const part = await buy(shop, range("100000-"));
    expect(part).toMatchObject({ status: 206 });
    expect(part.body.equals(LARGE.subarray(100_000))).toBe(true);
    expect(receiptOf(part)).toEqual(receiptOf(whole));
    expect(await buy(shop, { method: "HEAD" })).toMatchObject({ status: 200 });
    expect(await buy(shop, range("0-9"))).toMatchObject({ status: 206 });
    expect(await buy(shop, range("0-9"))).toMatchObject({ status: 402 });
    expect(settledOf(shop)).toBe(1);
    expect(await buy(shop, { path: "/other" }, 1)).toMatchObject({ status: 402 });
  });

  test("begun with a part goes on with others: a kept part is for nobody else", async () => {
    const shop = await shopOf(serveLarge, repeating);
    const first = await buy(shop, range("0-0"));
    expect(first).toMatchObject({ status: 206, body: LARGE.subarray(0, 1) });
    expect(await buy(shop, range("0-0"))).toMatchObject({ status: 206 });
    expect(shop.asked).toHaveLength(1);
    const second = await buy(shop, range("1-5"));
    expect(second.body.equals(LARGE.subarray(1, 6))).toBe(true);
    expect((await buy(shop)).body.equals(LARGE)).toBe(true);
    expect(settledOf(shop)).toBe(1);
  });

  test("is not fetched again by who saw its payment, nor where the route says none", async () => {
    const shop = await shopOf(serveLarge, repeating);
    expect(await buy(shop, { localAddress: "127.0.0.1" })).toMatchObject({ status: 200 });
    expect(await buy(shop, { localAddress: "127.0.0.9" })).toMatchObject({ status: 402 });
    expect(await buy(shop, { localAddress: "127.0.0.1" })).toMatchObject({ status: 200 });
    expect(shop.asked).toHaveLength(2);
    const none = await shopOf(serveLarge);
    expect(await buy(none)).toMatchObject({ status: 200 });
    expect(await buy(none)).toMatchObject({ status: 402 });
  });

  test("that is cut again and again spends no attempt, so often", async () => {
    const shop = await shopOf(serveLarge, repeating);
    for (let times = 0; times < REPEAT.times; times += 1) {
      const client = new RawClient(shop.port, head());
      await client.until("0123456789abcdef");
      client.socket.resetAndDestroy();
      await once(client.socket, "close");
      await expect.poll(() => shop.gateway.work.inFlight).toBe(0);
    }
    const [payment] = await shop.ledger.books.list({ limit: 1 });
    expect(payment?.attempts ?? 0).toBeLessThanOrEqual(1);
    expect((await buy(shop)).body.equals(LARGE)).toBe(true);
    expect(settledOf(shop)).toBe(1);
  });

  test("that was cut where only its connection tells is owed: a new signature is not charged", async () => {
    const shop = await shopOf(serveLarge, repeating);
    const client = new RawClient(shop.port, head());
    await client.until("0123456789abcdef");
    await expect.poll(() => shop.gateway.work.inFlight).toBe(0);
    client.socket.resetAndDestroy();
    await once(client.socket, "close");
    const noteOf = async (): Promise<string | undefined> =>
      (await shop.ledger.books.show(examplePayment(1).key))?.events.at(-1)?.note;
    await expect.poll(noteOf).toBe("its answer was not read");
    expect((await buy(shop, {}, 2)).body.equals(LARGE)).toBe(true);
    expect(settledOf(shop)).toBe(1);
  });

  test("whose client closes its connection at once is owed for a moment", async () => {
    const time = new ManualTime();
    const shop = await shopOf(serveLarge, { ...repeating, time });
    const client = new RawClient(shop.port, head());
    await expect.poll(() => client.socket.bytesRead).toBeGreaterThan(LARGE.length);
    client.socket.end();
    const noteOf = async (): Promise<string | undefined> =>
      (await shop.ledger.books.show(examplePayment(1).key))?.events.at(-1)?.note;
    await expect.poll(noteOf).toBe("its answer was not read");
    await time.advance(30_000);
    await expect.poll(noteOf).toBe("collected");
    expect((await buy(shop, {}, 2)).body.equals(LARGE)).toBe(true);
    expect(settledOf(shop)).toBe(2);
  });

  test("of events or of a small answer is not fetched again", async () => {
    for (const type of ["text/event-stream", "text/plain"]) {
      const shop = await shopOf((_, response) => {
        response.writeHead(200, { "Content-Type": type }).end("data: 1\n\n");
      }, repeating);
      expect(await buy(shop)).toMatchObject({ status: 200 });
      await buy(shop, range("0-1"));
      expect(shop.asked).toHaveLength(1);
    }
  });

  test("asked for with a body is not fetched again: another body would be another purchase", async () => {
    const shop = await shopOf(serveLarge, repeating);
    const asking = (text: string) => ({ headers: ["Content-Length", "2"], body: [text] });
    expect(await buy(shop, asking("{}"))).toMatchObject({ status: 200 });
    expect(await buy(shop, asking("[]"))).toMatchObject({ status: 402 });
    expect(await buy(shop)).toMatchObject({ status: 402 });
    expect(await buy(shop, {}, 2)).toMatchObject({ status: 200 });
    expect(await buy(shop, asking("[]"), 2)).toMatchObject({ status: 402 });
    expect(shop.asked).toHaveLength(2);
  });

  test("asked for by a handshake is not fetched again, nor a tunnel for a download", async () => {
    const shop = await shopOf(serveLarge, repeating);
    const upgrade = [
      "Connection: Upgrade",
      "Upgrade: websocket",
      "Sec-WebSocket-Version: 13",
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    const small = await shopOf((_, response) => void response.end("fresh"), repeating);
    const handshake = new RawClient(small.port, head("/sold", upgrade));
    await handshake.until("fresh");
    expect(await buy(small, { path: "/sold" })).toMatchObject({ status: 402 });
    expect(small.asked).toHaveLength(1);
    expect(await buy(shop, { path: "/sold" })).toMatchObject({ status: 200 });
    const again = new RawClient(shop.port, head("/sold", upgrade));
    await again.until("HTTP/1.1 402");
    expect(shop.asked).toHaveLength(1);
  });

  test("in part of what is small is kept, and not made anew", async () => {
    const shop = await shopOf((_, response) => {
      response.writeHead(206, { "Content-Range": "bytes 0-4/5" }).end("fresh");
    }, repeating);
    expect(await buy(shop, range("0-"))).toMatchObject({ status: 206 });
    expect(await buy(shop, range("0-"))).toMatchObject({ status: 206 });
    expect(await buy(shop, range("0-4"))).toMatchObject({ status: 402 });
    expect(shop.asked).toHaveLength(1);
  });

  test("is told 503 while its backend is away, and fetched afterwards", async () => {
    const shop = await shopOf(serveLarge, repeating);
    expect(await buy(shop)).toMatchObject({ status: 200 });
    const { engine } = shop;
    const refusal = {
      kind: "unanswered",
      status: 503,
      reason: "down",
      detail: "",
      sent: false,
      retriable: true,
    } as const;
    vi.spyOn(engine, "refusal").mockReturnValueOnce(refusal);
    expect(await buy(shop)).toMatchObject({ status: 503 });
    expect(await buy(shop)).toMatchObject({ status: 200 });
  });
});

describe("a HEAD", () => {
  test("with a payment leaves that for the GET, and for a HEAD that comes again", async () => {
    const shop = await shopOf((_, response) => void response.end("goods"));
    for (let times = 0; times < 4; times += 1) {
      const answer = await buy(shop, { method: "HEAD" });
      expect(answer.status).toBe(200);
      expect(receiptOf(answer)).toMatchObject({ success: true });
    }
    expect(await buy(shop)).toMatchObject({ status: 200, body: Buffer.from("goods") });
    expect(await buy(shop)).toMatchObject({ status: 200, body: Buffer.from("goods") });
    expect(shop.asked.filter((line) => line.startsWith("GET"))).toHaveLength(1);
    expect(settledOf(shop)).toBe(1);
  });

  test("of a route for another method only is what that sells", async () => {
    const shop = await shopOf((_, response) => void response.end());
    expect(await buy(shop, { method: "HEAD", path: "/read/1" })).toMatchObject({ status: 200 });
    expect(await buy(shop, { path: "/read/1" })).toMatchObject({ status: 200 });
    expect(settledOf(shop)).toBe(1);
    expect(await buy(shop, { method: "HEAD", path: "/head" }, 2)).toMatchObject({ status: 200 });
    expect(await buy(shop, { path: "/head" }, 2)).toMatchObject({ status: 402 });
  });
});

describe("a refusal of the backend", () => {
  const byCity: RequestListener = ({ url = "" }, response) => {
    response.writeHead(url.includes("city=oslo") ? 200 : 404).end(url);
  };

  test("leaves the payment for the same path with other input, so often", async () => {
    const shop = await shopOf(byCity);
    expect(await buy(shop, { path: "/weather?city=olso" })).toMatchObject({ status: 404 });
    const good = await buy(shop, { path: "/weather?city=oslo" });
    expect(good).toMatchObject({ status: 200 });
    const used = await shopOf(byCity);
    for (let times = 0; times < 3; times += 1) {
      expect(await buy(used, { path: `/weather?try=${times}` })).toMatchObject({ status: 404 });
    }
    expect(await buy(used, { path: "/weather?city=oslo" })).toMatchObject({ status: 409 });
    expect(settledOf(used)).toBe(1);
  });

  test("is what is sold where the route says so", async () => {
    const shop = await shopOf(byCity, { sold: { goods: new Set([404]) } });
    const sold = await buy(shop, { path: "/name" });
    expect(sold).toMatchObject({ status: 404, body: Buffer.from("/name") });
    expect(await buy(shop, { path: "/name" })).toMatchObject({ status: 404 });
    expect(shop.asked).toHaveLength(1);
    expect(await buy(shop, { path: "/name?city=oslo" })).toMatchObject({ status: 402 });
    const [payment] = await shop.ledger.books.list({ limit: 1 });
    expect(payment).toMatchObject({ state: "DELIVERED" });
  });
});
