/** Ranges of IP addresses, as `trustedProxies` lists them: one address, or `10.0.0.0/8`. */
import type { AddressRange } from "./listener-settings.ts";
import { isIPv4, isIPv6 } from "node:net";
import { ok, type Result } from "../x402/result.ts";
import type { Fault } from "./problem.ts";
import { bad, type Reader } from "./reading.ts";

const FORM = "must be an address or a range such as 10.0.0.0/8 or 2001:db8::/32";
const IPV4_BITS = 32;
const IPV6_BITS = 128;
const GROUP_BITS = 16;
const GROUPS = 8;
/** How many leading bits all IPv4 addresses have in common as IPv6 maps them: `::ffff:0:0/96`. */
const MAPPED_BITS = 96;
const MAPPED = 0xffffn;

/** Names that other programs have for ranges. */
const RANGE_NAMES: Readonly<Record<string, string>> = {
  "*": "write the addresses of your proxies: nobody else may say who asks",
  all: "write the addresses of your proxies: nobody else may say who asks",
  loopback: "write 127.0.0.0/8 and ::1",
  linklocal: "write 169.254.0.0/16 and fe80::/10",
  uniquelocal: "write 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 and fc00::/7",
  private_ranges: "write 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 127.0.0.0/8, fc00::/7 and ::1",
};

/** Without bits behind the prefix; IPv4 that is written as IPv6 maps it becomes IPv4. */
export const readAddressRange: Reader<AddressRange> = (text) => {
  const slash = text.indexOf("/");
  const address = slash === -1 ? text : text.slice(0, slash);
  const family = isIPv4(address) ? IPV4_BITS : isPlainIpv6(address) ? IPV6_BITS : null;
  if (family === null) return bad(FORM, hintOf(text));
  const written = slash === -1 ? String(family) : text.slice(slash + 1);
  const prefix = /^(?:0|[1-9][0-9]{0,2})$/.test(written) ? Number(written) : Number.NaN;
  if (!(prefix <= family)) {
    return bad(
      `must have a prefix from 0 to ${family} behind the slash`,
      maskHint(address, written),
    );
  }
  return narrow(numberOf(address), { address, prefix, family });
};

/** A zone names an interface of this machine, which says nothing about a proxy. */
function isPlainIpv6(address: string): boolean {
  return isIPv6(address) && !address.includes("%");
}

function narrow(
  number: bigint,
  { address, prefix, family }: { address: string; prefix: number; family: number },
): Result<AddressRange, Fault> {
  const behind = BigInt(family - prefix);
  const first = (number >> behind) << behind;
  const isMapped = family === IPV6_BITS && prefix >= MAPPED_BITS && number >> 32n === MAPPED;
  const bits = isMapped ? prefix - MAPPED_BITS : prefix;
  const text = family === IPV4_BITS || isMapped ? writeIpv4(first) : writeIpv6(first);
  if (first === number) return ok({ address: text, prefixBits: bits });
  const hint = `write ${text}/${bits}, or ${address} for this one address`;
  return bad("has address bits behind its prefix", hint);
}

/** `10.0.0.0/255.0.0.0` is how some programs write `10.0.0.0/8`. */
function maskHint(address: string, written: string): string | undefined {
  if (!isIPv4(address) || !isIPv4(written)) return undefined;
  const ones = numberOf(written).toString(2).padStart(IPV4_BITS, "0");
  const prefix = ones.indexOf("0") === -1 ? IPV4_BITS : ones.indexOf("0");
  return ones.includes("1", prefix) ? undefined : `write ${address}/${prefix}`;
}

function hintOf(text: string): string | undefined {
  if (Object.hasOwn(RANGE_NAMES, text)) return RANGE_NAMES[text];
  const [, inner = ""] = /^\[(.*)\](?::[0-9]*)?$/.exec(text) ?? [];
  if (isPlainIpv6(inner)) return `write ${inner}`;
  const [, bare = ""] = /^([0-9.]+):[0-9]+$/.exec(text) ?? [];
  if (isIPv4(bare)) return `leave out the port: ${bare}`;
  if (text.includes("%")) return "leave out the zone: it is a name of this machine's own";
  return /[g-z]/i.test(text) ? "names are not looked up: write addresses" : undefined;
}

function numberOf(address: string): bigint {
  if (isIPv4(address)) {
    return address.split(".").reduce((number, part) => number * 256n + BigInt(part), 0n);
  }
  // The URL parser writes what follows the last colon in hexadecimal, and folds zeros at one place only.
  const plain = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [before = "", after] = plain.split("::");
  const left = groupsOf(before);
  const right = groupsOf(after ?? "");
  const zeros = Array.from({ length: GROUPS - left.length - right.length }, () => "0");
  return [...left, ...zeros, ...right].reduce(
    (number, group) => (number << BigInt(GROUP_BITS)) + BigInt(`0x${group}`),
    0n,
  );
}

function groupsOf(text: string): readonly string[] {
  return text === "" ? [] : text.split(":");
}

function writeIpv4(number: bigint): string {
  return [24n, 16n, 8n, 0n].map((shift) => (number >> shift) & 255n).join(".");
}

function writeIpv6(number: bigint): string {
  const groups = Array.from({ length: GROUPS }, (_, index) =>
    ((number >> BigInt((GROUPS - 1 - index) * GROUP_BITS)) & 0xffffn).toString(16),
  );
  return new URL(`http://[${groups.join(":")}]`).hostname.slice(1, -1);
}
