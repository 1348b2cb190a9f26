import { isIP, isIPv4 } from "node:net";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isIpv4, readIp, writeIp } from "../../../src/http/ip-address.ts";

const words = new Uint32Array(4);

/** The one spelling; undefined for what is not an address. */
function spelling(text: string): string | undefined {
  return readIp(text, words) ? writeIp(words) : undefined;
}

/** As the URL parser folds it, which writes IPv4 in hexadecimal. */
function folded(text: string): string {
  const host = isIPv4(text) ? `::ffff:${text}` : text;
  return new URL(`http://[${host}]`).hostname.slice(1, -1);
}

const octet = fc.integer({ min: 0, max: 255 });
const ipv4 = fc.tuple(octet, octet, octet, octet).map((parts) => parts.join("."));
const group = fc.oneof(
  { weight: 2, arbitrary: fc.constant("0") },
  fc.integer({ min: 0, max: 0xffff }).map((number) => number.toString(16)),
  fc.integer({ min: 0, max: 0xff }).map((number) => number.toString(16).padStart(4, "0")),
);
/** Eight groups, some of them folded away, the last two perhaps in decimal. */
const ipv6 = fc
  .tuple(
    fc.array(group, { minLength: 8, maxLength: 8 }),
    fc.integer({ min: 0, max: 8 }),
    fc.integer({ min: 0, max: 8 }),
    fc.boolean(),
    ipv4,
  )
  .map(([groups, one, other, isMixed, tail]) => {
    const parts = isMixed ? [...groups.slice(0, 6), tail] : groups;
    const [from, to] = [Math.min(one, other), Math.max(one, other)];
    const left = parts.slice(0, from).join(":");
    const right = parts.slice(to).join(":");
    return to > from ? `${left}::${right}` : parts.join(":");
  });

const UNITS = ["::", "255", "00", "ffff", "%", "g", " "];

describe("an IP address", () => {
  test.each([
    ["192.0.2.1", "192.0.2.1"],
    ["0.0.0.0", "0.0.0.0"],
    ["255.255.255.255", "255.255.255.255"],
    ["::ffff:192.0.2.1", "192.0.2.1"],
    ["::FFFF:c000:0201", "192.0.2.1"],
    ["0:0:0:0:0:ffff:192.0.2.1", "192.0.2.1"],
    ["::", "::"],
    ["::1", "::1"],
    ["1::", "1::"],
    ["2001:DB8:0:0:0:0:0:1", "2001:db8::1"],
    ["2001:db8::0001", "2001:db8::1"],
    ["2001:db8:0:1:0:0:0:1", "2001:db8:0:1::1"],
    ["2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
    ["2001:0:3:4:5:6:7:8", "2001:0:3:4:5:6:7:8"],
    ["64:ff9b::192.0.2.33", "64:ff9b::c000:221"],
  ])("%s is spelled %s", (text, expected) => {
    expect(spelling(text)).toBe(expected);
  });

  test.each([
    "",
    " ",
    ".",
    ":",
    ":::",
    "1",
    "1.2.3",
    "1.2.3.4.5",
    "1.2.3.",
    ".1.2.3",
    "1..2.3",
    "256.0.0.1",
    "1.2.3.1000",
    "01.2.3.4",
    "1.2.3.04",
    "00.0.0.0",
    "0x7f.0.0.1",
    "1.2.3.4 ",
    " 1.2.3.4",
    "1.2.3.4:80",
    "1.2.3.-4",
    "+1.2.3.4",
    "1.2.3.4/8",
    "2130706433",
    "127.1",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1::2::3",
    "12345::",
    "g::",
    "1:2:3:4:5:6:7:",
    ":1:2:3:4:5:6:7",
    "::1:2:3:4:5:6:7:8",
    "1:2:3:4:5:6:7:8::",
    "1:2:3:4::5:6:7:8",
    "[::1]",
    "fe80::1%eth0",
    "::1.2.3",
    "::1.2.3.256",
    "1.2.3.4::",
    "1:2:3:4:5:6:7:1.2.3.4",
    "::ffff:1.2.3.4:1",
    "::01.2.3.4",
    "\u0661.2.3.4",
    "1.2.3.4\0",
    "::1\n",
  ])("%j is none", (text) => {
    expect(spelling(text)).toBeUndefined();
  });

  test("of every spelling is read as the platform reads it, and written in one", () => {
    fc.assert(
      fc.property(fc.oneof(ipv4, ipv6), (text) => {
        fc.pre(isIP(text) !== 0);
        const spelled = spelling(text) ?? "";
        expect(folded(spelled)).toBe(folded(text));
        expect(spelling(spelled)).toBe(spelled);
        // RFC 5952, but for IPv4 in decimal.
        expect(isIpv4(words) ? isIPv4(spelled) : folded(spelled) === spelled).toBe(true);
      }),
      { numRuns: 5_000 },
    );
  });

  test("is read where the platform reads one, and nowhere else", () => {
    const unit = fc.constantFrom(...Array.from("0123456789abcfF:.:."), ...UNITS);
    const text = fc.array(unit, { maxLength: 14 }).map((units) => units.join(""));
    fc.assert(
      fc.property(text, (candidate) => {
        const isOne = isIP(candidate) !== 0 && !candidate.includes("%");
        expect(spelling(candidate) !== undefined).toBe(isOne);
      }),
      { numRuns: 30_000 },
    );
  });
});
