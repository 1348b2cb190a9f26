/**
 * What proxies say about the clients before them: `X-Forwarded-For`, and `Forwarded` (RFC 7239). Read from
 * the right, because each proxy adds what it knows at the end: whatever stands further left may have been
 * written by the client. Both are read hop by hop under strict rules, and a hop that breaks them ends the
 * chain.
 */

import { valuesOf } from "../message/field-values.ts";
import { readIp, writeIp } from "../../http/ip-address.ts";

/** Hops of a chain that are read; nobody has more proxies than this before one gateway. */
export const MAX_HOPS = 32;
/** Characters of a chain that are read, counted from its end. */
export const MAX_CHAIN_CHARS = 4096;

/** One hop, as told by the proxy that it was seen by. */
export interface Hop {
  /** In the spelling of `writeIp`. */
  readonly address: string;
  /** The host and protocol that were asked for there, where the hop tells them; not checked. */
  readonly host?: string | undefined;
  readonly proto?: string | undefined;
}

/** The hops from the nearest to the furthest that is readable, lazily; each is read once. */
export interface Chain {
  /** Null at the end, and at a hop that cannot be read: what stands before that one says nothing. */
  next(): Hop | null;
  /** No hop is left. */
  readonly isOver: boolean;
}

/**
 * The chain of a request's raw lines. Where both fields are there, a proxy may have written one of them and
 * let the other one through, so a hop counts only if both name the same address; once one of them has ended,
 * the other one goes on alone.
 */
export function readChain(rawHeaders: readonly string[]): Chain {
  const plain = new Elements(valuesOf(rawHeaders, "x-forwarded-for"), readPlainHop);
  const forwarded = new Elements(valuesOf(rawHeaders, "forwarded"), readForwardedHop);
  if (forwarded.isOver) return plain;
  return plain.isOver ? forwarded : new Agreeing(plain, forwarded);
}

/** The elements of a comma-separated list, from the right. */
class Elements implements Chain {
  readonly #text: string;
  readonly #read: (element: string) => Hop | null;
  /** Where the part that is not read yet ends; -1: all of it is read. */
  #end: number;
  #left = MAX_HOPS;

  constructor(lines: readonly string[], read: (element: string) => Hop | null) {
    // Repeated lines are one list in their order (RFC 9110 section 5.3).
    const text = lines.length === 1 ? (lines[0] ?? "") : lines.join(",");
    this.#text = text;
    this.#read = read;
    this.#end = lines.length === 0 ? -1 : text.length;
  }

  get isOver(): boolean {
    return this.#end === -1;
  }

  next(): Hop | null {
    if (this.#end === -1 || this.#left === 0) return null;
    this.#left -= 1;
    return this.#read(this.#element());
  }

  /**
   * A comma ends an element even inside a quoted string: no address, port or host name has one, and what is
   * left of such a string is no element by itself, since its quotes do not pair.
   */
  #element(): string {
    const comma = this.#end === 0 ? -1 : this.#text.lastIndexOf(",", this.#end - 1);
    const start = comma + 1;
    const element = this.#text.slice(start, this.#end);
    this.#end = comma;
    // Too far from the end, it reads as empty, which is no hop.
    return this.#text.length - start > MAX_CHAIN_CHARS ? "" : trimBlanks(element);
  }
}

class Agreeing implements Chain {
  readonly #plain: Elements;
  readonly #forwarded: Elements;

  constructor(plain: Elements, forwarded: Elements) {
    this.#plain = plain;
    this.#forwarded = forwarded;
  }

  get isOver(): boolean {
    return this.#plain.isOver && this.#forwarded.isOver;
  }

  next(): Hop | null {
    if (this.#plain.isOver) return this.#forwarded.next();
    const plain = this.#plain.next();
    if (this.#forwarded.isOver) return plain;
    const forwarded = this.#forwarded.next();
    // What else `Forwarded` says may be the client's own: it can guess its address, too.
    return plain?.address === forwarded?.address ? plain : null;
  }
}

/** Without the spaces and tabs around it (RFC 9110 section 5.6.3), and without any other blank's loss. */
export function trimBlanks(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(text, start)) start += 1;
  while (start < end && isBlank(text, end - 1)) end -= 1;
  return text.slice(start, end);
}

function isBlank(text: string, index: number): boolean {
  return text[index] === " " || text[index] === "\t";
}

function readPlainHop(element: string): Hop | null {
  const address = readNode(element, true);
  return address === null ? null : { address };
}

const BRACKETED = /^\[([0-9A-Fa-f:.]{2,45})\](?::(\d{1,5}))?$/;
const DOTTED = /^([0-9.]{7,15})(?::(\d{1,5}))?$/;
const MAX_PORT = 65_535;
/** The longest spelling of an address, characters: IPv6 with an IPv4 tail. */
const MAX_ADDRESS_CHARS = 45;
const words = new Uint32Array(4);

/**
 * The address of a node in one spelling, with or without a port; null for anything else, `unknown` and
 * obfuscated names included: nothing can be proven of them. Bare IPv6 is for `X-Forwarded-For` only.
 */
function readNode(text: string, mayBeBare: boolean): string | null {
  const bracketed = BRACKETED.exec(text);
  const [, inner, port] = bracketed ?? DOTTED.exec(text) ?? [];
  if (port !== undefined && Number(port) > MAX_PORT) return null;
  if (inner !== undefined) {
    // Brackets are IPv6's, and nothing else has them.
    return (bracketed === null) === inner.includes(":") ? null : spell(inner);
  }
  return mayBeBare && text.length <= MAX_ADDRESS_CHARS ? spell(text) : null;
}

function spell(text: string): string | null {
  return readIp(text, words) ? writeIp(words) : null;
}

/** One `name=value` of a forwarded-element, and what ends it (RFC 7239 section 4). */
const PAIR =
  /([!#$%&'*+.^`|~\w-]+)=(?:([!#$%&'*+.^`|~\w-]+)|"((?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t \x21-\x7e\x80-\xff])*)")(;[\t ]*|$)/y;
/** Parameters of one element at most: there are four, and extensions. */
const MAX_PARAMETERS = 16;

/** Null unless it names an address, and each of its parameters once. */
function readForwardedHop(element: string): Hop | null {
  const found = new Map<string, string>();
  PAIR.lastIndex = 0;
  for (;;) {
    const [pair, name = "", token, quoted, ending] = PAIR.exec(element) ?? [];
    if (pair === undefined) return null;
    const key = name.toLowerCase();
    if (found.has(key) || found.size === MAX_PARAMETERS) return null;
    found.set(key, token ?? (quoted ?? "").replaceAll(/\\(.)/gs, "$1"));
    if (ending === "") break;
  }
  const address = readNode(found.get("for") ?? "", false);
  if (address === null) return null;
  return { address, host: found.get("host"), proto: found.get("proto") };
}
