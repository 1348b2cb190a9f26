import { describe, expect, test } from "vitest";
import { readClient, type Client } from "../../../../src/gateway/client/client.ts";
import { MAX_CHAIN_CHARS, MAX_HOPS } from "../../../../src/gateway/client/forwarded.ts";
import { TrustedProxies } from "../../../../src/gateway/client/trusted-proxies.ts";
import { arriving } from "../arriving.ts";

const proxies = new TrustedProxies([
  { address: "10.0.0.0", prefixBits: 8 },
  { address: "fd00::", prefixBits: 8 },
]);

function clientOf(lines: readonly string[], peer = "10.0.0.1", encrypted = false): Client {
  const rawHeaders = ["Host", "shop.example", ...lines];
  return readClient(arriving({ rawHeaders, peer, encrypted }), proxies);
}

describe("a client that connects by itself", () => {
  test("is its peer, whatever it says", () => {
    const lines = Object.entries({
      "X-Forwarded-For": "203.0.113.9",
      Forwarded: "for=203.0.113.9;host=evil;proto=https",
      "X-Forwarded-Host": "evil.example",
      "X-Forwarded-Proto": "https",
    }).flat();
    expect(clientOf(lines, "192.0.2.1")).toEqual({
      address: "192.0.2.1",
      proto: "http",
      host: "shop.example",
      isDirect: true,
      forwardedFor: "192.0.2.1",
    });
  });

  test.each([
    ["::ffff:192.0.2.1", "192.0.2.1"],
    ["2001:db8::1", "2001:db8::1"],
    ["fe80::1%eth0", "fe80::1"],
    [undefined, "unknown"],
  ])("from %s is %s", (peer, address) => {
    const client = readClient(arriving({ rawHeaders: [], peer }), proxies);
    expect(client).toMatchObject({ address, forwardedFor: address, host: undefined });
  });

  test("over TLS has asked by https", () => {
    expect(clientOf([], "192.0.2.1", true).proto).toBe("https");
  });
});

describe("the client behind trusted proxies", () => {
  test.each<[string, readonly string[], string]>([
    ["one hop", ["203.0.113.9"], "203.0.113.9, 10.0.0.1"],
    ["several", ["203.0.113.9, 10.0.0.3,10.0.0.2"], "203.0.113.9, 10.0.0.3, 10.0.0.2, 10.0.0.1"],
    [
      "what it forged before",
      ["1.1.1.1, 203.0.113.9, 10.0.0.2"],
      "203.0.113.9, 10.0.0.2, 10.0.0.1",
    ],
    ["several lines", ["1.1.1.1", "203.0.113.9", "10.0.0.2"], "203.0.113.9, 10.0.0.2, 10.0.0.1"],
    ["a proxy itself", ["10.0.0.3, 10.0.0.2"], "10.0.0.3, 10.0.0.2, 10.0.0.1"],
    ["nothing", [], "10.0.0.1"],
    ["an empty line", [""], "10.0.0.1"],
    ["an empty hop", ["203.0.113.9, , 10.0.0.2"], "10.0.0.2, 10.0.0.1"],
    ["an empty hop at the end", ["203.0.113.9,"], "10.0.0.1"],
    ["a name", ["203.0.113.9, unknown, 10.0.0.2"], "10.0.0.2, 10.0.0.1"],
    ["no address", ["203.0.113.9, 10.0.0.999"], "10.0.0.1"],
    ["two in one hop", ["203.0.113.9 10.0.0.2"], "10.0.0.1"],
    ["a port", ["203.0.113.9:4711"], "203.0.113.9, 10.0.0.1"],
    ["a port that is none", ["203.0.113.9:65536"], "10.0.0.1"],
    ["IPv6", ["2001:DB8::0009"], "2001:db8::9, 10.0.0.1"],
    ["IPv6 in brackets", ["[2001:db8::9]"], "2001:db8::9, 10.0.0.1"],
    ["IPv6 with a port", ["[2001:db8::9]:443"], "2001:db8::9, 10.0.0.1"],
    ["IPv4 in brackets", ["[203.0.113.9]"], "10.0.0.1"],
    ["IPv4 as IPv6 maps it", ["::ffff:203.0.113.9"], "203.0.113.9, 10.0.0.1"],
    ["a proxy of IPv6", ["203.0.113.9, fd00::2"], "203.0.113.9, fd00::2, 10.0.0.1"],
    ["an octal address", ["0203.0.113.9"], "10.0.0.1"],
    ["a blank that is none", ["203.0.113.9\u00a0"], "10.0.0.1"],
    ["quotes", ['"203.0.113.9"'], "10.0.0.1"],
    ["a zone", ["fe80::1%eth0"], "10.0.0.1"],
  ])("is read from X-Forwarded-For with %s", (_, values, forwardedFor) => {
    const client = clientOf(values.flatMap((value) => ["X-Forwarded-For", value]));
    expect(client.forwardedFor).toBe(forwardedFor);
    expect(client.address).toBe(forwardedFor.split(", ")[0]);
  });

  test.each<[string, readonly string[], string]>([
    ["one hop", ["for=203.0.113.9"], "203.0.113.9, 10.0.0.1"],
    ["in any letter case", ["FOR=203.0.113.9;Proto=http"], "203.0.113.9, 10.0.0.1"],
    ["all parameters", ["for=203.0.113.9;proto=http;by=10.0.0.1;host=a"], "203.0.113.9, 10.0.0.1"],
    ["extensions", ['secret=x;for="203.0.113.9";y="z"'], "203.0.113.9, 10.0.0.1"],
    ["blanks", ["for=203.0.113.9; proto=http"], "203.0.113.9, 10.0.0.1"],
    ["IPv6", ['for="[2001:db8::9]:4711"'], "2001:db8::9, 10.0.0.1"],
    ["IPv6 without quotes", ["for=[2001:db8::9]"], "10.0.0.1"],
    ["IPv6 without brackets", ['for="2001:db8::9"'], "10.0.0.1"],
    ["several hops", ["for=203.0.113.9,for=10.0.0.2"], "203.0.113.9, 10.0.0.2, 10.0.0.1"],
    ["a hidden hop", ["for=203.0.113.9, for=_hidden, for=10.0.0.2"], "10.0.0.2, 10.0.0.1"],
    ["an unknown hop", ["for=unknown"], "10.0.0.1"],
    ["a hop without a client", ["proto=http;by=10.0.0.1"], "10.0.0.1"],
    ["two clients in a hop", ["for=203.0.113.9;for=203.0.113.8"], "10.0.0.1"],
    ["an open quote before", ['for="1.1.1.1, for=203.0.113.9'], "203.0.113.9, 10.0.0.1"],
    ["an open quote behind", ['for=203.0.113.9, for="10.0.0.2'], "10.0.0.1"],
    ["a comma in quotes", ['for=203.0.113.9;x="a, for=10.0.0.2"'], "10.0.0.1"],
    ["an escaped quote", ['for=203.0.113.9;x="a\\"b"'], "203.0.113.9, 10.0.0.1"],
    ["a trailing semicolon", ["for=203.0.113.9;"], "10.0.0.1"],
    ["no value", ["for="], "10.0.0.1"],
  ])("is read from Forwarded with %s", (_, values, forwardedFor) => {
    const client = clientOf(values.flatMap((value) => ["Forwarded", value]));
    expect(client.forwardedFor).toBe(forwardedFor);
  });

  test.each<[string, string, string, string]>([
    ["agree", "203.0.113.9, 10.0.0.2", "for=203.0.113.9, for=10.0.0.2", "203.0.113.9"],
    ["disagree", "203.0.113.9", "for=203.0.113.8", "10.0.0.1"],
    ["disagree further on", "203.0.113.9, 10.0.0.2", "for=1.1.1.1, for=10.0.0.2", "10.0.0.2"],
    ["differ in length", "203.0.113.9, 10.0.0.2", "for=10.0.0.2", "203.0.113.9"],
    ["differ in what can be read", "203.0.113.9", "for=unknown", "10.0.0.1"],
  ])("is proven by both fields where they %s", (_, plain, forwarded, address) => {
    const lines = ["X-Forwarded-For", plain, "Forwarded", forwarded];
    expect(clientOf(lines).address).toBe(address);
  });

  test("is read from no more hops than there can be proxies", () => {
    const inner = Array.from({ length: MAX_HOPS - 1 }, (_, index) => `10.1.0.${index}`);
    const few = ["203.0.113.9", ...inner].join(", ");
    const many = ["203.0.113.9", "10.2.0.0", ...inner].join(", ");
    expect(clientOf(["X-Forwarded-For", few]).address).toBe("203.0.113.9");
    expect(clientOf(["X-Forwarded-For", many]).address).toBe("10.2.0.0");
  });

  test("is read from no more text than such a chain has", () => {
    const short = "203.0.113.9,10.0.0.2".replace(",", ",".padEnd(MAX_CHAIN_CHARS - 19));
    expect(short).toHaveLength(MAX_CHAIN_CHARS);
    const long = short.replace(",", ", ");
    expect(clientOf(["X-Forwarded-For", short]).address).toBe("203.0.113.9");
    expect(clientOf(["X-Forwarded-For", long]).address).toBe("10.0.0.2");
  });

  test.each<[string, readonly string[], Partial<Client>]>([
    ["the protocol", ["X-Forwarded-Proto", "https"], { proto: "https" }],
    ["that of a WebSocket", ["X-Forwarded-Proto", "WSS"], { proto: "https" }],
    ["none that there is", ["X-Forwarded-Proto", "gopher"], { proto: "http" }],
    ["none of every object", ["X-Forwarded-Proto", "constructor"], { proto: "http" }],
    ["the last protocol", ["X-Forwarded-Proto", "http, https"], { proto: "https" }],
    ["the host", ["X-Forwarded-Host", "api.example:8443"], { host: "api.example:8443" }],
    ["a host of IPv6", ["X-Forwarded-Host", "[2001:db8::1]:80"], { host: "[2001:db8::1]:80" }],
    ["the last host", ["X-Forwarded-Host", "a", "X-Forwarded-Host", "b , c"], { host: "c" }],
    ["a host with a path", ["X-Forwarded-Host", "a/b"], { host: "shop.example" }],
    ["a host with a user", ["X-Forwarded-Host", "a@b"], { host: "shop.example" }],
    ["an empty host", ["X-Forwarded-Host", ""], { host: "shop.example" }],
    [
      "both in Forwarded",
      ["Forwarded", "for=203.0.113.9;host=far;proto=https, for=10.0.0.2;host=near;proto=http"],
      { host: "far", proto: "https" },
    ],
    [
      "them in Forwarded, which may be forged",
      ["X-Forwarded-For", "203.0.113.9", "Forwarded", "for=203.0.113.9;host=evil;proto=https"],
      { host: "shop.example", proto: "http" },
    ],
  ])("is told %s", (_, lines, expected) => {
    expect(clientOf(lines)).toMatchObject(expected);
  });
});
