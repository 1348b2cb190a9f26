/** The chain of proxies, against a reader that is as simple as can be, and against clients that lie. */
import { isIP, isIPv4, isIPv6 } from "node:net";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readClient } from "../../../../src/gateway/client/client.ts";
import { TrustedProxies } from "../../../../src/gateway/client/trusted-proxies.ts";
import { arriving } from "../arriving.ts";

const PEER = "10.0.0.1";
const proxies = new TrustedProxies([
  { address: "10.0.0.0", prefixBits: 8 },
  { address: "fd00::", prefixBits: 8 },
]);
const isTrusted = (address: string): boolean => /^(?:10\.|fd)/.test(address);

function addressOf(rawHeaders: readonly string[]): string {
  return readClient(arriving({ rawHeaders, peer: PEER }), proxies).address;
}

/** A text in one spelling; undefined for what is no address. */
function canonical(text: string): string | undefined {
  if (isIP(text) === 0 || text.includes("%")) return undefined;
  const folded = new URL(`http://[${isIPv4(text) ? `::ffff:${text}` : text}]`).hostname;
  const [, high = "", low = ""] = /^\[::ffff:([0-9a-f]+):([0-9a-f]+)\]$/.exec(folded) ?? [];
  if (high === "") return folded.slice(1, -1);
  const number = Number.parseInt(high, 16) * 0x10000 + Number.parseInt(low, 16);
  return [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join(".");
}

/** RFC 7239 section 6, without names. */
function plainNode(text: string, mayBeBare: boolean): string | undefined {
  const [, inner, innerPort = "0"] = /^\[(.*)\](?::(\d{1,5}))?$/s.exec(text) ?? [];
  if (inner !== undefined) {
    return isIPv6(inner) && Number(innerPort) < 65_536 ? canonical(inner) : undefined;
  }
  const [, bare = "", port = "0"] = /^([^:]*)(?::(\d{1,5}))?$/s.exec(text) ?? [];
  if (isIPv4(bare)) return Number(port) < 65_536 ? canonical(bare) : undefined;
  return mayBeBare ? canonical(text) : undefined;
}

/** All elements from the right until one is none; then the first that is not trusted. */
function oracle(elements: readonly (string | undefined)[]): string {
  let address = PEER;
  for (const hop of elements.toReversed()) {
    if (hop === undefined || !isTrusted(address)) break;
    address = hop;
  }
  return address;
}

const blanks = (text: string): string => text.replace(/^[ \t]+/, "").replace(/[ \t]+$/, "");

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+/;

/** A token or a quoted string that a text begins with, and what follows it. */
function value(text: string): readonly [string, string] | undefined {
  if (!text.startsWith('"')) {
    const [token] = TOKEN.exec(text) ?? [];
    return token === undefined ? undefined : [token, text.slice(token.length)];
  }
  let read = "";
  for (let index = 1; index < text.length; index += 1) {
    if (text[index] === '"') return [read, text.slice(index + 1)];
    if (text[index] === "\\") index += 1;
    read += text[index] ?? "";
  }
  return undefined;
}

/** All parameters of an element, from the left; undefined where it breaks the rules. */
function parameters(element: string): readonly (readonly [string, string])[] | undefined {
  const found: [string, string][] = [];
  for (let rest = element; ;) {
    const [name = ""] = TOKEN.exec(rest) ?? [];
    const [read, behind = ""] = value(rest.slice(name.length + 1)) ?? [];
    if (name === "" || rest[name.length] !== "=" || read === undefined) return undefined;
    found.push([name.toLowerCase(), read]);
    if (behind === "") return found;
    if (!behind.startsWith(";")) return undefined;
    rest = behind.slice(1).replace(/^[ \t]+/, "");
  }
}

/** The address that an element names. */
function forwardedFor(element: string): string | undefined {
  const found = parameters(element) ?? [];
  const isTwice = new Set(found.map(([name]) => name)).size < found.length;
  const [, node] = found.find(([name]) => name === "for") ?? [];
  return node === undefined || isTwice || found.length > 16 ? undefined : plainNode(node, false);
}

const trusted = fc.constantFrom("10.0.0.2", "10.9.9.9", "fd00::2", "::ffff:10.1.1.1");
const stranger = fc.constantFrom("203.0.113.9", "2001:db8::9", "198.51.100.1", "::ffff:192.0.2.1");
const address = fc.oneof(trusted, stranger);
const bare = fc
  .tuple(address, fc.constantFrom("", "", ":80", ":99999", "%eth0", " "))
  .map(([ip, tail]) => (ip.includes(":") && tail.startsWith(":") ? `[${ip}]${tail}` : ip + tail));
const WORDS = ["10.0.0.2", "203.0.113.9", "[2001:db8::9]", "for=", "For=", "proto=http", "host="];
const MARKS = [";", ",", ", ", '"', "\\", " ", "\t", "=", "unknown", "_hidden", ":80", "::", "a"];
const unit = fc.constantFrom(...WORDS, ...MARKS, "by=_x", "\u00e4", "1");
const junk = fc.array(unit, { maxLength: 12 }).map((units) => units.join(""));

const node = (ip: string): string => (ip.includes(":") ? `"[${ip}]"` : ip);
const element = fc.oneof(
  address.map((ip) => `for=${node(ip)}`),
  address.map((ip) => `for=${node(ip)};proto=https;host="a.example:80"`),
  fc
    .tuple(address, junk)
    .map(([ip, text]) => `for=${node(ip)};x="${text.replaceAll(/["\\,]/g, "")}"`),
  junk,
);

describe("a chain of proxies", () => {
  test("in X-Forwarded-For is read as by the simplest reader", () => {
    const hop = fc.oneof({ weight: 4, arbitrary: bare }, junk);
    const lines = fc.array(fc.array(hop, { maxLength: 5 }), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(lines, fc.constantFrom(",", ", ", "\t, "), (written, comma) => {
        const values = written.map((hops) => hops.join(comma));
        const elements = values
          .join(",")
          .split(",")
          .map((text) => plainNode(blanks(text), true));
        const raw = values.flatMap((value) => ["X-Forwarded-For", value]);
        expect(addressOf(raw)).toBe(oracle(elements));
      }),
      { numRuns: 5_000 },
    );
  });

  test("in Forwarded is read as by the simplest reader", () => {
    const lines = fc.array(fc.array(element, { maxLength: 5 }), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(lines, (written) => {
        const values = written.map((hops) => hops.join(", "));
        const elements = values
          .join(",")
          .split(",")
          .map((text) => forwardedFor(blanks(text)));
        const raw = values.flatMap((value) => ["Forwarded", value]);
        expect(addressOf(raw)).toBe(oracle(elements));
      }),
      { numRuns: 5_000 },
    );
  });

  /** What each proxy adds to what it was sent. */
  const habit = fc.constantFrom("plain", "forwarded", "both");
  const lies = fc.record({
    plain: fc.option(
      fc.oneof(
        junk,
        address,
        fc.array(bare).map((hops) => hops.join(", ")),
      ),
    ),
    forwarded: fc.option(
      fc.oneof(
        junk,
        fc.array(element).map((hops) => hops.join(", ")),
      ),
    ),
  });

  test("never ends at an address that the client made up", () => {
    const seen = fc.tuple(stranger, fc.array(trusted, { maxLength: 4 }));
    fc.assert(
      fc.property(seen, habit, lies, ([client, inner], written, forged) => {
        const chain = [client, ...inner];
        const raw: string[] = [];
        const add = (name: string, lie: string | null, hops: readonly string[]): void => {
          const parts = lie === null ? hops : [lie, ...hops];
          if (parts.length > 0) raw.push(name, parts.join(", "));
        };
        add("X-Forwarded-For", forged.plain, written === "forwarded" ? [] : chain);
        const elements = chain.map((ip) => `for=${node(ip)}`);
        add("Forwarded", forged.forwarded, written === "plain" ? [] : elements);
        const read = addressOf(raw);
        const real = canonical(client) ?? "";
        // Where only one field was written and the other one forged, less may be proven, but nothing else.
        const known = chain.map((ip) => canonical(ip)).filter((ip) => ip !== real);
        if (written === "both") expect(read).toBe(real);
        else expect([real, PEER, ...known]).toContain(read);
      }),
      { numRuns: 5_000 },
    );
  });
});
