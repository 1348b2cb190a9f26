/** What strangers send to a price that is computed: what decides it here decides it at the backend, or it has none. */
import { describe, expect, it } from "vitest";
import {
  ComputedPrice,
  dollarsText,
  MAX_PRICED_BODY_BYTES,
  type PricedRequest,
} from "../../../src/pricing/computed-price.ts";

const ROUTE = {
  methods: null,
  segments: [
    { kind: "static", text: "a" },
    { kind: "param", name: "id" },
  ],
  decimals: 6,
} as const;

function priced(by: string, asked: Partial<PricedRequest> & { readonly json?: string } = {}) {
  const price = ComputedPrice.of({ by, from: "$0.001", to: "$0.05" }, ROUTE);
  if (!price.ok) throw new Error(price.error.message);
  const { json, ...rest } = asked;
  const body = json === undefined ? undefined : Buffer.from(json);
  const request = { method: "POST", target: "/a/b", rawHeaders: [], body, ...rest };
  const result = price.value.priceOf(request);
  return result.ok ? dollarsText(result.value) : result.error;
}

describe("a price", () => {
  it("is what the expression comes to, to a unit of the token", () => {
    expect(priced("12345")).toBe("$0.012345");
    expect(priced("0.01 + 0.02")).toBe("$0.03");
    expect(priced("0.0100000001")).toBe("$0.010001");
    expect(priced('"$0.0123"')).toBe("$0.0123");
    expect(priced("1000 * size(path.id)", { target: "/a/%C3%A9x" })).toBe("$0.002");
    expect(priced('method == "GET" ? 1000 : 2000', { method: "GET" })).toBe("$0.001");
  });

  it.each([
    ["-5", "it comes to less than $0.001, the least that is sold"],
    ["999", "it comes to less than $0.001, the least that is sold"],
    ["0.0", "it comes to less than $0.001, the least that is sold"],
    ["-0.02", "it comes to less than $0.001, the least that is sold"],
    ["50001", "it comes to more than $0.05, the most that is sold at once"],
    ["0.0500001", "it comes to more than $0.05, the most that is sold at once"],
    ["0.0 / 0.0", "it comes to no number"],
    ["max(0.0 / 0.0, 0.01)", "it comes to no number"],
    ["max(0.01, 0.0 / 0.0)", "it comes to no number"],
    ["min(0.0 / 0.0, 0.01)", "it comes to no number"],
    ["min(0.01, 0.0 / 0.0)", "it comes to no number"],
    ["1.0 / 0.0", "it comes to more than is sold"],
    ["-1.0 / 0.0", "it comes to more than is sold"],
    ['"$-1"', "it comes to text that is no price such as $0.01"],
    [
      "9223372036854775807 + size(path.id)",
      "it cannot be computed: integer overflow: 9223372036854775808",
    ],
    ["1 / (size(path.id) - 1)", "it cannot be computed: division by zero"],
  ])("of %s is none: %s", (by, said) => expect(priced(by)).toBe(said));

  it("is at its bounds, too", () => {
    expect([priced("1000"), priced("50000")]).toEqual(["$0.001", "$0.05"]);
  });
});

describe("the query", () => {
  const by = "1000 * int(query.n)";

  it("is read as programs do that decode it", () => {
    expect(priced(by, { target: "/a/b?n=3" })).toBe("$0.003");
    expect(priced(by, { target: "/a/b?%6e=%33&other=1&other=2" })).toBe("$0.003");
    expect(priced(by, { target: "/a/b" })).toBe("it cannot be computed: No such key: n");
    expect(priced(by, { target: "/a/b?n=3&ids=1;2;3" })).toBe("$0.003");
  });

  it("has no other name that PHP takes for one of it", () => {
    const named = "1000 * int(query.max_tokens)";
    expect(priced(named, { target: "/a/b?max_tokens=3" })).toBe("$0.003");
    for (const other of ["max.tokens", "max+tokens", "max%20tokens", "MAX.tokens"]) {
      expect(priced(named, { target: `/a/b?max_tokens=3&${other}=30` })).toBe(
        "a query parameter is there in other letters than is asked for",
      );
    }
  });

  it.each([
    ["n=1&n=30", "the query parameter n is there twice"],
    ["n=1&%6E=30", "the query parameter n is there twice"],
    ["n=1&N=30", "a query parameter is there in other letters than is asked for"],
    ["N=30", "a query parameter is there in other letters than is asked for"],
    ["n=", "the query parameter n is empty"],
    ["n", "the query parameter n is empty"],
    ["n=1;n=30", "a semicolon is in what the query is read for"],
    ["n=1&x=2;n=30", "a semicolon is in what the query is read for"],
    ["n=1;x", "a semicolon is in what the query is read for"],
    ["n=1&n[]=30", "a query parameter is there in other letters than is asked for"],
    ["n=1&n%5B0%5D=30", "a query parameter is there in other letters than is asked for"],
    ["n=1&+n=30", "a query parameter is there in other letters than is asked for"],
    ["n=1&n%00x=30", "a query parameter is there in other letters than is asked for"],
    ["n=99999999999999999999", "it cannot be computed: int() type error: cannot convert to int"],
    ["n=1e3", "it cannot be computed: int() type error: cannot convert to int"],
  ])("is one value, or the request has no price: %s", (query, said) => {
    expect(priced(by, { target: `/a/b?${query}` })).toBe(said);
  });
});

describe("a header", () => {
  const by = '"x-n" in headers ? 1000 * int(headers["x-n"]) : 7000';

  it("is one line, in whatever letters", () => {
    expect(priced(by, { rawHeaders: ["X-N", "3"] })).toBe("$0.003");
    expect(priced(by)).toBe("$0.007");
    expect(priced(by, { rawHeaders: ["X-N", "1", "x-n", "30"] })).toBe(
      "the header x-n is there twice",
    );
    expect(priced(by, { rawHeaders: ["X-N", ""] })).toBe("the header x-n is empty");
  });

  it("is not there where Connection keeps it from the backend", () => {
    for (const named of ["X-N", "close, x-n", "x-a ,X-n"]) {
      expect(priced(by, { rawHeaders: ["X-N", "1", "Connection", named] })).toBe("$0.007");
    }
  });
});

describe("the body", () => {
  const by = "1000 * int(body.n)";

  it.each([
    ['{"n":3}', "$0.003"],
    ['{"n":"3"}', "$0.003"],
    ['{"n":3.9}', "$0.003"],
    ['{"n":1,"n":30}', "the body has a member twice"],
    ['{"n":1,"\\u006e":30}', "the body has a member twice"],
    ['{"n":1,"N":30}', "the body has a member in other letters than is asked for"],
    ['{"n":1e400}', "the body has a number of more digits than are kept exactly"],
    ['{"n":NaN}', "the body is no JSON"],
    ['{"n":null}', "it cannot be computed: found no matching overload for 'int(null)'"],
    ['{"__proto__":{"n":1}}', "it cannot be computed: No such key: n"],
    ['[{"n":1}]', "it cannot be computed: No such key: n"],
    ["3", "it cannot be computed: No such key: n"],
  ])("%s comes to %s", (json, said) => {
    expect(priced(by, { json })).toBe(said);
  });

  it("is no price of more digits than there is money", () => {
    expect(priced("1000 * int(body.n)", { json: '{"n":1e300}' })).toMatch(/overflow/);
    expect(priced("double(body.n)", { json: '{"n":1e300}' })).toBe("it comes to more than is sold");
  });

  it("is no part of a price that does not read it, and is missing where one does", () => {
    expect(priced("5000", { json: "no JSON" })).toBe("$0.005");
    expect(priced(by)).toBe("its body is missing");
  });

  it("is not given back as what is missing in it", () => {
    const json = JSON.stringify({ name: "n".repeat(60_000) });
    const said = priced("int(body[body.name])", { json });
    expect(said).toMatch(/^it cannot be computed: No such key: n+…$/);
    expect(said.length).toBeLessThan(300);
  });

  it("has no more values than its price takes time for", () => {
    const looking = "1000 + size(body.l.filter(x, body.l.exists(y, y == 1)))";
    const list = (count: number) => `{"l":[${Array.from({ length: count }, () => "2").join()}]}`;
    expect(priced(looking, { json: list(20) })).toBe("$0.001");
    expect(priced(looking, { json: list(500) })).toMatch(/^the body has more than \d+ values$/);
    expect(list(500).length).toBeLessThan(MAX_PRICED_BODY_BYTES);
  });
});
