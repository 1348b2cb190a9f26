import { BlockList, isIPv4 } from "node:net";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  TrustedProxies,
  type TrustedRange,
} from "../../../../src/gateway/client/trusted-proxies.ts";

function range(text: string): TrustedRange {
  const [address = "", prefix] = text.split("/");
  return { address, prefixBits: Number(prefix ?? (address.includes(":") ? 128 : 32)) };
}

function trusting(...texts: readonly string[]): TrustedProxies {
  return new TrustedProxies(texts.map(range));
}

describe("a proxy", () => {
  test("is trusted at every address of its range and at no other", () => {
    const proxies = trusting("10.0.0.0/8", "192.0.2.7", "2001:db8::/33", "fd00::1");
    for (const address of ["10.0.0.0", "10.255.255.255", "192.0.2.7", "2001:db8:7fff::", "fd00::1"])
      expect(proxies.has(address), address).toBe(true);
    for (const address of ["9.255.255.255", "11.0.0.0", "192.0.2.6", "2001:db8:8000::", "fd00::2"])
      expect(proxies.has(address), address).toBe(false);
  });

  test("is the same as IPv4 and as IPv6 maps it", () => {
    expect(trusting("10.0.0.0/8").has("::ffff:10.1.2.3")).toBe(true);
    expect(trusting("::ffff:10.0.0.0/104").has("10.1.2.3")).toBe(true);
    expect(trusting("::ffff:10.0.0.0/104").has("11.1.2.3")).toBe(false);
  });

  test("of all IPv6 is none that speaks IPv4, and the other way round", () => {
    expect(trusting("::/0").has("2001:db8::1")).toBe(true);
    expect(trusting("::/0").has("192.0.2.1")).toBe(false);
    expect(trusting("::ffff:0.0.0.0/90").has("192.0.2.1")).toBe(false);
    expect(trusting("0.0.0.0/0").has("192.0.2.1")).toBe(true);
    expect(trusting("0.0.0.0/0").has("2001:db8::1")).toBe(false);
  });

  test("is nobody without a readable address", () => {
    const everybody = trusting("0.0.0.0/0", "::/0");
    for (const address of ["", "unknown", "10.0.0", "[::1]", "fe80::1%eth0"])
      expect(everybody.has(address), address).toBe(false);
  });

  test("is nobody where the list is empty", () => {
    expect(trusting().isEmpty).toBe(true);
    expect(trusting().has("127.0.0.1")).toBe(false);
  });

  test("is found as node's own BlockList finds it", () => {
    const octet = fc.constantFrom(0, 1, 10, 127, 128, 192, 254, 255);
    const ipv4 = fc.tuple(octet, octet, octet, octet).map((parts) => parts.join("."));
    const group = fc.constantFrom("0", "1", "fd00", "8000", "7fff", "ffff", "db8");
    // A range of IPv6 around the mapped addresses is another thing to BlockList: none begins with zeros here.
    const ipv6 = fc
      .array(group, { minLength: 7, maxLength: 7 })
      .map((parts) => ["fd00", ...parts].join(":"));
    const ranges = fc.array(
      fc.oneof(
        fc.record({ address: ipv4, prefixBits: fc.integer({ min: 0, max: 32 }) }),
        fc.record({ address: ipv6, prefixBits: fc.integer({ min: 16, max: 128 }) }),
      ),
      { minLength: 1, maxLength: 8 },
    );
    fc.assert(
      fc.property(ranges, fc.oneof(ipv4, ipv6), (listed, asked) => {
        const oracle = new BlockList();
        for (const { address, prefixBits } of listed) {
          oracle.addSubnet(address, prefixBits, isIPv4(address) ? "ipv4" : "ipv6");
        }
        const expected = oracle.check(asked, isIPv4(asked) ? "ipv4" : "ipv6");
        expect(new TrustedProxies(listed).has(asked)).toBe(expected);
      }),
      { numRuns: 5_000 },
    );
  });
});
