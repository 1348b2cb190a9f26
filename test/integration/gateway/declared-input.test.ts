/** Nobody is charged, and no paid attempt is spent, for a request that lacks what its route declares. */
import { describe, expect, test } from "vitest";
import { DeclaredInput } from "../../../src/gateway/declared-input.ts";
import { settledOf, shopOf } from "./goods-stage.ts";
import { buy, errorOf, head } from "./shop.ts";
import { RawClient, send, type Answer } from "./stage.ts";

describe("declared input", () => {
  const input = new DeclaredInput(
    {
      queryParams: { city: { type: "string", required: true }, days: { type: "integer" } },
      bodyType: "json",
      bodyFields: {
        text: { type: "string", minLength: 2, required: true },
        tags: { type: "array", items: { type: "string" } },
      },
    },
    [{ kind: "rest" }],
  );
  const told = ({ body }: Answer): unknown => Object(JSON.parse(body.toString()))["faults"];

  test.each([
    ["/weather", "GET", undefined, ["the query parameter city is missing"]],
    ["/weather?city=", "GET", undefined, ["the query parameter city is missing"]],
    ["/weather?city=oslo&days=abc", "GET", undefined, ["the query parameter days must be integer"]],
    ["/weather?city=oslo", "POST", "", ["the body is missing"]],
    ["/weather?city=oslo", "POST", "{", ["the body is no JSON"]],
    ["/weather?city=oslo", "POST", "[]", ["the body is no JSON object"]],
    ["/weather?city=oslo", "POST", "{}", ["the body field text is missing"]],
    [
      "/weather?city=oslo",
      "POST",
      '{"text":"a"}',
      ["the body field text must NOT have fewer than 2 characters"],
    ],
    [
      "/weather?city=oslo",
      "POST",
      '{"text":"ab","tags":[1]}',
      ["the body field tags (0) must be string"],
    ],
  ])("%s %s %s is told before anything is charged", async (path, method, text, faults) => {
    const length = ["Content-Length", String(text?.length ?? 0)];
    const body = text === undefined ? {} : { body: [text], headers: length };
    const shop = await shopOf((_, response) => void response.end("goods"), { sold: { input } });
    // Who shows no payment is told the price.
    expect(await send(shop.port, { path, method, ...body })).toMatchObject({ status: 402 });
    const answer = await buy(shop, { path, method, ...body });
    expect(answer).toMatchObject({ status: 400 });
    expect(told(answer)).toEqual(faults);
    expect(errorOf(answer)).toContain("no payment was taken");
    expect(shop.asked).toEqual([]);
    expect(settledOf(shop)).toBe(0);
    // The same payment, with what was missing.
    const right = method === "POST" ? ['{"text":"ab"}'] : [];
    const goods = await buy(shop, { path: "/weather?city=oslo&days=3", method, body: right });
    expect(goods).toMatchObject({ status: 200 });
    expect(settledOf(shop)).toBe(1);
  });

  test.each([
    ["a mark of its byte order, as .NET writes it", "application/json", "utf8"],
    [
      "another charset, which is its backend's to read",
      "application/json; charset=utf-16le",
      "utf16le",
    ],
  ] as const)("takes JSON with %s", async (_, type, encoding) => {
    const shop = await shopOf((_request, response) => void response.end("goods"), {
      sold: { input },
    });
    const body = Buffer.from('\uFEFF{"text":"ab"}', encoding);
    const headers = ["Content-Type", type, "Content-Length", String(body.length)];
    const sent = { path: "/weather?city=oslo", method: "POST", headers, body: [body] };
    expect(await buy(shop, sent)).toMatchObject({ status: 200 });
  });

  test.each(["/read/:id", "/read/%3Aid", "/read/%7Bid%7D", "/read/*"])(
    "%s is no value of a path parameter",
    async (path) => {
      const pattern = [
        { kind: "static", text: "read" },
        { kind: "param", name: "id" },
      ] as const;
      const shop = await shopOf((_, response) => void response.end("goods"), {
        sold: { input: new DeclaredInput({}, pattern) },
      });
      const answer = await buy(shop, { path });
      expect(answer.status).toBe(400);
      expect(errorOf(answer)).toMatch(/^put a value in the place of .* in the path; no payment/);
      expect(await buy(shop, { path: "/read/7" })).toMatchObject({ status: 200 });
    },
  );

  test("is told before a paid attempt is spent, too", async () => {
    const shop = await shopOf(
      ({ url = "" }, response) => {
        response.writeHead(url.includes("oslo") ? 200 : 422).end();
      },
      { sold: { input } },
    );
    expect(await buy(shop, { path: "/weather?city=olso" })).toMatchObject({ status: 422 });
    for (let times = 0; times < 5; times += 1) {
      expect(await buy(shop, { path: "/weather" })).toMatchObject({ status: 400 });
    }
    expect(await buy(shop, { path: "/weather?city=oslo" })).toMatchObject({ status: 200 });
    expect(shop.asked).toHaveLength(2);
    expect(settledOf(shop)).toBe(1);
  });

  test("of a pattern that has no end is stopped, and not checked any more", async () => {
    const slow = { type: "string", pattern: "^(a+)+$" };
    const looked = new DeclaredInput({ queryParams: { name: slow } }, [{ kind: "rest" }]);
    const shop = await shopOf((_, response) => void response.end("goods"), {
      sold: { input: looked },
    });
    expect(await buy(shop, { path: "/w?name=b" })).toMatchObject({ status: 400 });
    // Many seconds without an end to it.
    const slowly = `/w?name=${"a".repeat(26)}b`;
    const started = performance.now();
    for (const number of [1, 2]) {
      expect(await buy(shop, { path: slowly }, number)).toMatchObject({ status: 200 });
    }
    expect(performance.now() - started).toBeLessThan(3_000);
  });

  test("is checked on a busy machine, too: who had no processor is looked at again", () => {
    const named = { type: "string", pattern: "^a+$" };
    const looked = new DeclaredInput({ headerFields: { "X-Name": named } }, [{ kind: "rest" }]);
    let waits = 1;
    // As an array of one it stands for what is in it, which is slow to come and takes no work.
    const late = Object.defineProperty(["b"], 0, {
      get() {
        waits -= 1;
        if (waits >= 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000);
        return "b";
      },
    });
    const faultsOf = () => looked.headFaults("/w", { headers: { "x-name": late } });
    expect(faultsOf()).toEqual(['the header x-name must match pattern "^a+$"']);
    expect(waits).toBeLessThan(0);
    // For ever late, it is not looked at any more.
    waits = 100;
    expect(faultsOf()).toEqual([]);
    expect(waits).toBeLessThanOrEqual(97);
    waits = 0;
    expect(faultsOf()).toEqual([]);
  });

  test("of a body that is sent without a length is left to the backend", async () => {
    const shop = await shopOf((_, response) => void response.end(), { sold: { input } });
    const lines = ["Transfer-Encoding: chunked", "Content-Type: application/json"];
    const client = new RawClient(
      shop.port,
      `${head("/w?city=oslo", lines, "POST")}2\r\n{}\r\n0\r\n\r\n`,
    );
    await client.until("200 OK");
  });
});
