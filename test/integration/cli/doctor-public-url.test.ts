/** `coinslot doctor` on the public URL of a running gateway: where it leads, and what a proxy does on the way. */
import type { IncomingHttpHeaders } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Site } from "../../support/serve.ts";
import { DoctorShop, NOWHERE } from "./doctor-shop.ts";
import { about, fixOf, troubles, type DoctorStage, type ProxyChanges } from "./doctor-stage.ts";

let shop: DoctorShop;
let stage: DoctorStage;

beforeAll(async () => {
  shop = await DoctorShop.open();
  ({ stage } = shop);
});

afterAll(() => shop[Symbol.asyncDispose]());

/** A status in place of another one. */
const turned =
  (from: number, to: number) =>
  (status: number): number =>
    status === from ? to : status;

/** Headers without one of them. */
const without =
  (name: string) =>
  (headers: IncomingHttpHeaders): IncomingHttpHeaders =>
    Object.fromEntries(Object.entries(headers).filter(([each]) => each !== name));

describe("the public URL", () => {
  test("of a file that is newer than the running gateway fails with the first difference", async () => {
    const report = await stage.examine(shop.with({ price: "$0.02" }), shop.env);
    expect(troubles(report)).toEqual([
      'fail publicUrl: sells GET /weather on other terms than this file: maxAmountRequired is "10000", not "20000"',
    ]);
    expect(fixOf(report, /other terms/)).toMatch(/reload or restart it/);
  });

  test("that leads past the gateway fails", async () => {
    const report = await stage.examine(shop.own(shop.upstream), shop.env);
    expect(troubles(report)).toEqual(["fail publicUrl: answers 200 for GET /weather, not 402"]);
    expect(fixOf(report, /answers 200/)).toMatch(/gives away what has a price/);
  });

  test("that does not resolve, or refuses, fails", async () => {
    const unknown = await stage.examine(shop.own("http://coinslot.invalid"), shop.env);
    expect(troubles(unknown)).toEqual([
      expect.stringMatching(
        /^fail publicUrl: coinslot\.invalid is a name that (?:does not resolve|cannot be resolved now)$/,
      ),
    ]);
    const refused = await stage.examine(shop.own(NOWHERE), shop.env);
    expect(troubles(refused)).toEqual([
      "fail publicUrl: refuses connections: nothing listens there",
    ]);
  });

  test("that redirects fails", async () => {
    const redirecting = await stage.serve((_, response) => {
      response.writeHead(301, { Location: shop.served.url }).end();
    });
    const report = await stage.examine(shop.own(redirecting), shop.env);
    expect(troubles(report)).toEqual([
      `fail publicUrl: answers 301, to ${shop.served.url}, for GET /weather`,
    ]);
  });
});

test("a gateway of version 2 alone is found well", async () => {
  await using site = await Site.create();
  const yaml = `protocol: { v1: false }\n${shop.yaml()}`;
  const running = await site.serve(yaml, shop.env);
  await running.untilReady();
  const report = await stage.examine(shop.own(running.url, yaml, site.store), shop.env);
  expect(report).toMatchObject({ code: 0, ok: true });
  expect(about(report, /^publicUrl$/)).toEqual([
    expect.stringMatching(/^ok is this gateway: /),
    "ok no cache keeps the 402",
    "ok PAYMENT-SIGNATURE reaches the gateway",
    "ok preflights of browsers reach the gateway",
  ]);
});

describe("a proxy before the gateway", () => {
  let changes: ProxyChanges = {};
  let proxied: string;
  let inner: Site;

  beforeAll(async () => {
    let origin = NOWHERE;
    proxied = await stage.proxy(
      () => origin,
      () => changes,
    );
    inner = await Site.create({ publicUrl: proxied });
    const running = await inner.serve(shop.yaml(), shop.env);
    await running.untilReady();
    origin = running.url;
  });

  afterAll(() => inner[Symbol.asyncDispose]());

  const examineBehind = async (given: ProxyChanges): Promise<readonly string[]> => {
    changes = given;
    const report = await stage.examine(
      shop.own(proxied).replace(shop.site.store, inner.store),
      shop.env,
    );
    return troubles(report);
  };

  test("that passes everything on is fine", async () => {
    expect(await examineBehind({})).toEqual([]);
  });

  test("that drops what carries a payment, or a price, is found", async () => {
    expect(await examineBehind({ request: without("x-payment") })).toEqual([
      "fail publicUrl: X-PAYMENT is lost on the way to the gateway",
    ]);
    expect(await examineBehind({ request: without("payment-signature") })).toEqual([
      "fail publicUrl: PAYMENT-SIGNATURE is lost on the way to the gateway",
    ]);
    expect(await examineBehind({ answer: without("payment-required") })).toEqual([
      "fail publicUrl: answers 402 for GET /weather without PAYMENT-REQUIRED",
    ]);
  });

  test("that turns 402 into something else is found", async () => {
    expect(await examineBehind({ status: turned(402, 502) })).toEqual([
      "fail publicUrl: answers 502 for GET /weather, not 402",
    ]);
  });

  test("that has pages of its own for errors is found", async () => {
    expect(await examineBehind({ body: "<h1>Payment required</h1>" })).toEqual([
      "fail publicUrl: answers 402 for GET /weather without the offers in its body",
    ]);
  });

  test("that caches, or lets others do so, is found", async () => {
    const cached = { answer: (headers: IncomingHttpHeaders) => ({ ...headers, age: "7" }) };
    expect(await examineBehind(cached)).toEqual([
      "fail publicUrl: a cache answers in place of the gateway",
    ]);
    expect(await examineBehind({ answer: without("cache-control") })).toEqual([
      "fail publicUrl: a 402 comes without Cache-Control: no-store, which it was sent with",
    ]);
  });

  test("that answers preflights itself is found", async () => {
    expect(await examineBehind({ status: turned(204, 405) })).toEqual([
      "warn publicUrl: answers 405 to a browser's preflight, not 204",
    ]);
  });
});
