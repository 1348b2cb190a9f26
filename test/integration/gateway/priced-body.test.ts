/** A body that decides a price is waited for in a place, and no longer than any other; what is forwarded is what came. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { AtPrices } from "../../../src/gateway/computed-plans.ts";
import type { PricedPlan } from "../../../src/gateway/decision.ts";
import { Offers } from "../../../src/payments/sale/offers.ts";
import { ComputedPrice } from "../../../src/pricing/computed-price.ts";
import { examplePayment } from "../../unit/ledger/example-payment.ts";
import { buy, errorOf, openShop, type ShopOptions } from "./shop.ts";
import { backend, send } from "./stage.ts";

/** `10000` units at a body's `n` of 1: what the example payment is for. */
function computed(): Partial<PricedPlan> {
  const { resource: _url, ...offer } = examplePayment(1).request.paymentRequirements;
  const terms = { by: "10000 * int(body.n)", from: "$0.01", to: "$0.05" };
  const price = ComputedPrice.of(terms, { methods: null, segments: [], decimals: 6 });
  if (!price.ok) throw new Error(price.error.message);
  const offersAt = (amount: bigint) => new Offers([{ ...offer, maxAmountRequired: `${amount}` }]);
  // All else of a plan is as the shop's own has it.
  const plan = { offers: offersAt(50_000n) };
  const plans = new AtPrices(price.value, (each) => ({
    ...plan,
    offers: offersAt(each / 10n ** 12n),
  }));
  return { ...plan, computed: completing(plans) };
}

/** The shop knows the rest of its plan only once it is open. */
let whole: PricedPlan | undefined;
function completing(
  plans: AtPrices<{ readonly offers: Offers }>,
): NonNullable<PricedPlan["computed"]> {
  return {
    readsBody: plans.readsBody,
    planFor: (request) => {
      const found = plans.planFor(request);
      if (!found.ok) return found;
      if (whole === undefined) throw new Error("no plan");
      return { ok: true, value: { ...whole, ...found.value } };
    },
  };
}

async function openPriced(options: ShopOptions = {}) {
  const got: Buffer[] = [];
  const origin = await backend((request, response) => {
    void buffer(request).then((body) => {
      got.push(body);
      return response.end("goods");
    });
  });
  const shop = await openShop(origin, { ...options, sold: computed() });
  const match = shop.gateway.work.generation.settings.snapshot.router.match("POST", "/a");
  if (match.kind !== "route" || match.value.kind !== "priced") throw new Error("nothing is sold");
  whole = match.value;
  return { ...shop, got };
}

const JSON_LINES = ["Content-Type", "application/json"];

/** A request with that body. */
function posted(body: string, headers: readonly string[] = JSON_LINES) {
  const framed = headers.includes("Transfer-Encoding") ? [] : ["Content-Length", `${body.length}`];
  return { method: "POST", path: "/a", headers: [...headers, ...framed], body: [body] };
}

/** Sends a head that promises a body, and `sent` of it. */
async function begin(
  port: number,
  length: number,
  sent: string,
  more: readonly string[] = [],
): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  const lines = ["POST /a HTTP/1.1", "Host: shop.example", "Content-Type: application/json"];
  socket.write([...lines, `Content-Length: ${length}`, ...more, "", sent].join("\r\n"));
  return socket;
}

describe("a body that decides a price", () => {
  it("is quoted by, paid for, and forwarded as it came", async () => {
    const shop = await openPriced();
    const body = '{ "n" :1 }\n';
    const unpaid = await send(shop.port, posted(body));
    expect(JSON.parse(unpaid.body.toString()).accepts[0].maxAmountRequired).toBe("10000");
    const paid = await buy(shop, posted(body));
    expect(paid.status).toBe(200);
    expect(shop.got.map(String)).toEqual([body]);
    expect(
      shop.facilitator.settled.map(({ request }) => request.paymentRequirements),
    ).toMatchObject([{ maxAmountRequired: "10000" }]);
  });

  it("takes a place while it comes, which is free when it has come, or its client has left", async () => {
    const shop = await openPriced({ maxInFlight: 1 });
    const full = '{"n":2}';
    const ask = () => send(shop.port, posted(full));
    for (const end of ["whole", "gone"] as const) {
      const slow = await begin(shop.port, full.length, full.slice(0, 3));
      // Waits behind the one place, and has it as soon as the other is over.
      await expect.poll(() => shop.gateway.work.inFlight).toBe(1);
      const next = ask();
      await expect.poll(() => shop.gateway.work.inFlight).toBe(2);
      if (end === "whole") slow.write(full.slice(3));
      else slow.destroy();
      expect((await next).status).toBe(402);
      slow.destroy();
      await expect.poll(() => shop.gateway.work.inFlight).toBe(0);
    }
    expect(shop.got).toEqual([]);
  });

  it("is not waited for where it is refused as it is", async () => {
    const shop = await openPriced();
    const slow = await begin(shop.port, 70_000, '{"n":');
    const [answer] = await once(slow, "data");
    expect(String(answer)).toMatch(/^HTTP\/1\.1 402 /);
    expect(String(answer)).toContain(
      "the body is larger than 65536 bytes, and is refused when it is paid for",
    );
  });

  it("is asked for where its client waits to be asked", async () => {
    const shop = await openPriced();
    const body = '{"n":2}';
    const socket = await begin(shop.port, body.length, "", ["Expect: 100-continue"]);
    const [asked] = await once(socket, "data");
    expect(String(asked)).toBe("HTTP/1.1 100 Continue\r\n\r\n");
    socket.write(body);
    const [answer] = await once(socket, "data");
    expect(String(answer)).toContain('"maxAmountRequired":"20000"');
  });

  it("is told what it has to be when it is paid for", async () => {
    const shop = await openPriced();
    const body = '{"n":1}';
    const chunked = [...JSON_LINES, "Transfer-Encoding", "chunked"];
    const coded = [...JSON_LINES, "Content-Encoding", "gzip"];
    const utf16 = ["Content-Type", "application/json; charset=utf-16"];
    const twice = [...JSON_LINES, "Content-Type", "application/x-www-form-urlencoded"];
    const alone = [...JSON_LINES, "Connection", "close, Content-Type"];
    for (const [headers, status] of [
      [chunked, 411],
      [coded, 415],
      [utf16, 415],
      [twice, 415],
      [alone, 415],
      [[], 415],
    ] as const) {
      const answer = await buy(shop, posted(body, headers));
      expect([answer.status, errorOf(answer)]).toEqual([
        status,
        expect.stringMatching(
          /^this request has no price: (?:the|a) body has to .*no payment was taken/,
        ),
      ]);
    }
    expect(shop.facilitator.settled).toEqual([]);
    expect(shop.got).toEqual([]);
  });
});
