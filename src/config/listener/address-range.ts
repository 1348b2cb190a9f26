/** `trustedProxies`: ranges of IP addresses whose word about clients is taken, one address or `10.0.0.0/8`. */
import { isIpv4, maskOf, readIp, writeIp, type IpWords } from "../../http/ip-address.ts";
import { ok } from "../../x402/result.ts";
import type { Context } from "../reading/context.ts";
import { bad, fault, type Reader } from "../reading/reading.ts";
import { listOf, matching, text } from "../reading/shapes.ts";
import type { Path } from "../reading/tree.ts";

/** An address without bits behind its prefix: dotted decimal with 0 to 32 of them, or IPv6 with 0 to 128. */
export interface AddressRange {
  readonly address: string;
  readonly prefixBits: number;
}

const FORM = "must be an address or a range such as 10.0.0.0/8 or 2001:db8::/32";
/** Ranges at most: each is compared with every client's address. */
const MAX_RANGES = 1_000;
const IPV4_BITS = 32;
const IPV6_BITS = 128;
/** How many leading bits all IPv4 addresses have in common as IPv6 maps them: `::ffff:0:0/96`. */
const MAPPED_BITS = 96;

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
  const words = wordsOf(address);
  if (words === undefined) return bad(FORM, hintOf(text));
  const family = address.includes(":") ? IPV6_BITS : IPV4_BITS;
  const written = slash === -1 ? String(family) : text.slice(slash + 1);
  const prefix = /^(?:0|[1-9][0-9]{0,2})$/.test(written) ? Number(written) : Number.NaN;
  if (!(prefix <= family)) {
    return bad(
      `must have a prefix from 0 to ${family} behind the slash`,
      maskHint(address, written),
    );
  }
  const bits = prefix + IPV6_BITS - family;
  const first = words.map((word, index) => word & maskOf(bits - index * 32));
  const prefixBits = isIpv4(words) && bits >= MAPPED_BITS ? bits - MAPPED_BITS : prefix;
  const range = { address: writeIp(first), prefixBits };
  if (first.every((word, index) => word === words[index])) return ok(range);
  const hint = `write ${range.address}/${prefixBits}, or ${address} for this one address`;
  return bad("has address bits behind its prefix", hint);
};

function wordsOf(address: string): IpWords | undefined {
  const words = new Uint32Array(IPV6_BITS / 32);
  return readIp(address, words) ? words : undefined;
}

/** `10.0.0.0/255.0.0.0` is how some programs write `10.0.0.0/8`. */
function maskHint(address: string, written: string): string | undefined {
  const mask = address.includes(":") || written.includes(":") ? undefined : wordsOf(written)?.[3];
  if (mask === undefined) return undefined;
  const prefix = Math.clz32(~mask);
  return maskOf(prefix) === mask ? `write ${address}/${prefix}` : undefined;
}

function hintOf(text: string): string | undefined {
  if (Object.hasOwn(RANGE_NAMES, text)) return RANGE_NAMES[text];
  const [, inner = ""] = /^\[(.*)\](?::[0-9]*)?$/.exec(text) ?? [];
  if (inner.includes(":") && wordsOf(inner)) return `write ${inner}`;
  const [, bare = ""] = /^([0-9.]+):[0-9]+$/.exec(text) ?? [];
  if (wordsOf(bare)) return `leave out the port: ${bare}`;
  if (text.includes("%")) return "leave out the zone: it is a name of this machine's own";
  return /[g-z]/i.test(text) ? "names are not looked up: write addresses" : undefined;
}

export const trustedProxies = listOf(
  text(readAddressRange, matching(/^[0-9A-Fa-f.:]+(?:\/[0-9]{1,3})?$/, FORM, "10.0.0.0/8")),
).max(MAX_RANGES, `must have at most ${MAX_RANGES} entries`);

/** Warns of ranges without a prefix in the list at a path: they are everybody. `what`: what each of them does. */
export function warnOfEverybody(
  ranges: readonly AddressRange[],
  list: Path,
  [what, hint]: readonly [what: string, hint: string],
  { problems }: Context,
): void {
  for (const [index, { prefixBits }] of ranges.entries()) {
    if (prefixBits > 0) continue;
    const found = fault("trusts-everybody", `this range ${what}`, hint);
    problems.add("warning", [...list, index], found);
  }
}
