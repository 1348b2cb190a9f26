import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readAddressRange } from "../../../src/config/listener/address-range.ts";
import { parseConfig } from "../../../src/config/config.ts";
import { TrustedProxies } from "../../../src/gateway/client/trusted-proxies.ts";
import { environment, GATEWAY, parse, ROUTES } from "./fixture.ts";
import { effort } from "../../support/effort.ts";

/** What is said about one line of the file. */
function problemsOf(line: string): readonly (readonly [string, string | undefined])[] {
  const text = `${GATEWAY}${ROUTES}${line}\n`;
  const { problems } = parseConfig(text, { file: "gateway.yaml", ...environment });
  return problems
    .filter(({ line }) => line === text.trimEnd().split("\n").length)
    .map(({ message, suggestion }) => [message, suggestion]);
}

describe("limits", () => {
  test("are read with their units", () => {
    const { limits } = parse(`${GATEWAY}${ROUTES}
limits:
  unpaidPerIp: 50/s
  bodyTimeout: 1h
  bodyIdle: 10s
  bodyRate: 2KiB/s
  answerIdle: 45s
  answerRate: 1KiB/s
  tunnels: 0
  tunnelIdle: 90s
  tunnelLife: 12h
`);
    expect(limits).toMatchObject({
      unpaidPerIp: { requests: 50, perMs: 1_000 },
      bodyTimeoutMs: 3_600_000,
      bodyIdleMs: 10_000,
      bodyBytesPerSecond: 2048,
      answerIdleMs: 45_000,
      answerBytesPerSecond: 1024,
      tunnels: 0,
      tunnelIdleMs: 90_000,
      tunnelLifeMs: 43_200_000,
    });
    const perMinute = parse(`${GATEWAY}${ROUTES}limits: { unpaidPerIp: 600/m }`).limits;
    expect(perMinute.unpaidPerIp).toEqual({ requests: 600, perMs: 60_000 });
  });

  const form = "unpaidPerIp must be a rate such as 50/s or 600/m";
  test.each<[string, string, string | undefined]>([
    ["50", form, "write 50/s"],
    ["50/sec", form, "write 50/s"],
    ["50 / s", form, "write 50/s"],
    ["50 per minute", form, "write 50/m"],
    ["50s", form, "write 50/s"],
    ["3000/h", form, "write 50/m"],
    ["10/h", form, "write 1/m"],
    ["many", form, undefined],
    ["1.5/s", form, undefined],
    ["-1/s", form, undefined],
    ["0/s", "unpaidPerIp must be a rate from 1 to 1000000", "leave the key out for no limit"],
    ["1000001/s", "unpaidPerIp must be a rate from 1 to 1000000", undefined],
  ])("have no rate of requests that is written %s", (rate, message, suggestion) => {
    expect(problemsOf(`limits: { unpaidPerIp: ${rate} }`)).toEqual([[message, suggestion]]);
  });

  test("of an hour are in millionths of a dollar", () => {
    const written = `limits: { perPayer: $10/h, sales: "$0.000001/h", gas: $2.50/h }`;
    const { limits } = parse(`${GATEWAY}${ROUTES}${written}`);
    expect([limits.payerPerHour, limits.salesPerHour, limits.gasPerHour]).toEqual([
      10_000_000, 1, 2_500_000,
    ]);
  });

  const hourly = "sales must be dollars an hour such as $10/h or $0.50/h";
  const range = "sales must be more than zero and at most $1000000000/h";
  test.each<[string, string, string | undefined]>([
    ["10", hourly, "write $10/h"],
    ["$10", hourly, "write $10/h"],
    ["$10 per hour", hourly, "write $10/h"],
    ["$10/d", hourly, undefined],
    ["$1.0000001/h", hourly, undefined],
    ["$0/h", range, "leave the key out for no limit; coinslot pause stops sales"],
    ["$1000000001/h", range, undefined],
  ])("have no dollars of an hour that are written %s", (amount, message, suggestion) => {
    expect(problemsOf(`limits: { sales: "${amount}" }`)).toEqual([[message, suggestion]]);
  });

  const bytes = "bodyRate must be a rate such as 512B/s or 1KiB/s";
  test.each<[string, string | undefined]>([
    ["512B", "write 512B/s"],
    ["512/s", undefined],
    ["0B/s", undefined],
    ["512B/m", undefined],
  ])("have no rate of bytes that is written %s", (rate, suggestion) => {
    expect(problemsOf(`limits: { bodyRate: ${rate} }`)).toEqual([[bytes, suggestion]]);
  });
});

describe("trusted proxies", () => {
  test("are addresses and ranges of both families, each in one spelling", () => {
    const { trustedProxies } = parse(`${GATEWAY}${ROUTES}
trustedProxies: [10.0.0.0/8, 192.0.2.7, "2001:DB8:0::/32", "::1", "::ffff:172.16.0.0/108"]
`);
    expect(trustedProxies).toEqual([
      { address: "10.0.0.0", prefixBits: 8 },
      { address: "192.0.2.7", prefixBits: 32 },
      { address: "2001:db8::", prefixBits: 32 },
      { address: "::1", prefixBits: 128 },
      { address: "172.16.0.0", prefixBits: 12 },
    ]);
  });

  test("are at most a thousand", () => {
    const list = Array.from({ length: 1001 }, (_, index) => `10.0.${index >> 8}.${index & 255}`);
    expect(problemsOf(`trustedProxies: [${list.join(", ")}]`)).toEqual([
      ["trustedProxies must have at most 1000 entries", undefined],
    ]);
  });

  test.each([
    ["hosts", "hosts: "],
    ["admin.hosts", "admin: { address: 127.0.0.1:0, hosts: "],
  ])("has so many names of hosts at most: %s", (_where, key) => {
    const end = key.includes("{") ? " }" : "";
    const named = (count: number): string =>
      `${key}[${Array.from({ length: count }, (_, index) => `h${index}.example.com`).join(", ")}]${end}`;
    expect(problemsOf(named(1_024))).toEqual([]);
    expect(JSON.stringify(problemsOf(named(1_025)))).toContain("must have at most 1024 names");
  });

  test("gets so many certificates at most, also for names that are not listed for that", () => {
    const acme = "{ agreeToTerms: true, directory: https://ca.example/directory }";
    const listen = `listen: [{ address: ":443", tls: { acme: ${acme} } }]`;
    const named = (count: number): string => {
      const hosts = Array.from({ length: count }, (_, index) => `h${index}.example.com`);
      return `hosts: [${hosts.join(", ")}]\n${listen}`;
    };
    expect(JSON.stringify(problemsOf(named(99)))).not.toContain("certificates");
    expect(JSON.stringify(problemsOf(named(100)))).toContain(
      "would ask for 101 certificates, and 100 are the most",
    );
  });

  test("that are accepted are trusted at their own address", () => {
    const byte = fc.integer({ min: 0, max: 255 });
    const ipv4 = fc.tuple(byte, byte, byte, byte).map((parts) => parts.join("."));
    const group = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff }));
    const ipv6 = fc
      .array(group, { minLength: 8, maxLength: 8 })
      .map((groups) => groups.map((each) => each.toString(16)).join(":"));
    const prefix = fc.option(fc.integer({ min: 0, max: 130 }), { nil: undefined });
    const written = fc.tuple(
      fc.oneof(ipv4, ipv6, fc.constant("::"), fc.constant("fe80::1")),
      prefix,
    );
    fc.assert(
      fc.property(written, ([address, bits]) => {
        const text = bits === undefined ? address : `${address}/${bits}`;
        const read = readAddressRange(text);
        if (read.ok) {
          expect(new TrustedProxies([read.value]).has(address)).toBe(true);
        } else {
          // What is refused says what to write, or has a prefix that there is not.
          const [, suggested] = /^write (\S+),/.exec(read.error.suggestion ?? "") ?? [];
          if (suggested === undefined)
            expect(bits).toBeGreaterThan(address.includes(":") ? 128 : 32);
          else expect(readAddressRange(suggested)).toMatchObject({ ok: true });
        }
      }),
      { numRuns: effort(3_000, 10_000) },
    );
  });
});
