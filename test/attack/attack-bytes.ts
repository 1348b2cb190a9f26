/** What a case sends, byte by byte: its request or its frames, with every placeholder filled in. */
import { caip2Of, PAYMENT_FLOW, requirementsV2 } from "../../src/x402/version-2.ts";
import {
  X402_VERSION,
  X402_VERSION_2,
  type PaymentRequirements,
  type X402Version,
} from "../../src/x402/x402.ts";
import type { AttackCase, H2Frame, H2Step } from "./attack-case.ts";
import type { Step } from "./dialogue.ts";
import type { Line } from "./hpack.ts";
import { dataFrame, frame, headersFrame, integer, OPENING } from "./http2-frames.ts";
import { AUTHORITY, CALLERS_TOKEN } from "./shop.ts";

/** The payments that a case wants; made only where it names them. */
export interface Wallet {
  /** The version of its payments. */
  readonly version: X402Version;
  /** What /paid asks for. */
  offer(): Promise<PaymentRequirements>;
  /**
   * The header of a correct payment: the first, the second, or one that pays too little or too much, or owns nothing.
   *
   * @param version default: its own
   */
  pay(which: string, version?: X402Version): Promise<string>;
  /** The header of the first payment, of version 2, with another member of what it has accepted. */
  accept(member: string, value: unknown): Promise<string>;
  /** The header of a payment that fits but for these members, whose signature proves nothing. */
  forge(members: Readonly<Record<string, unknown>>): Promise<string>;
  /** JSON for a facilitator: a correct and funded payment of so many atomic units, and what it is for. */
  settlement(amount: string): Promise<string>;
}

/** What a case sends, byte by byte. */
export async function stepsOf(each: AttackCase, wallet: Wallet): Promise<readonly Step[]> {
  if (each.h2 !== undefined) return http2Steps(each, each.h2, wallet);
  const given =
    each.raw === undefined ? [requestOf(each), ...each.after] : [...each.raw, ...each.after];
  return readSteps(given, wallet);
}

/** What the backend answers to a case; undefined: goods. */
export async function scriptOf(
  { backend }: AttackCase,
  wallet: Wallet,
): Promise<readonly Step[] | undefined> {
  return backend && readSteps(backend, wallet);
}

export async function readSteps(
  given: AttackCase["after"],
  wallet: Wallet,
): Promise<readonly Step[]> {
  const steps: Step[] = [];
  for (const one of given) {
    if (typeof one === "string") {
      if (one === "end" || one === "reset") steps.push({ kind: one });
      else steps.push({ kind: "send", bytes: await fill(one, wallet) });
    } else if ("pause" in one) steps.push({ kind: "pause", ms: one.pause });
    else if ("until" in one) steps.push({ kind: "until", text: one.until });
    else steps.push({ kind: "drip", bytes: await fill(one.drip, wallet), everyMs: one.every });
  }
  return steps;
}

function requestOf({
  line,
  method,
  target,
  version,
  host,
  headers,
  eol,
  body,
}: AttackCase): string {
  const first = line ?? `${method} ${target} ${version}`;
  const hosts = host === null ? [] : [`Host: ${host}`];
  const length = String(repeat(body).length);
  const head = [first, ...hosts, ...headers].map(
    (text) => text.replaceAll("<length>", length) + eol,
  );
  return head.join("") + eol + body;
}

const repeat = (text: string): string =>
  text.replaceAll(/<([^<>]*?)\*(\d+)>/gs, (_, part: string, count: string) =>
    part.repeat(Number(count)),
  );

/** The payments that are made for a case. */
const PAYMENT = /<(payment|payment 2|cheap|dear|broke)(?: in version ([12]))?>/g;

async function fill(text: string, wallet: Wallet): Promise<string> {
  const encode = async (json: string): Promise<string> => {
    const isFirst = wallet.version === X402_VERSION;
    return Buffer.from(isFirst ? json : inVersion2(json, await wallet.offer())).toString("base64");
  };
  let filled = repeat(text)
    .replaceAll("<host>", AUTHORITY)
    .replaceAll("<handshake>", HANDSHAKE)
    .replaceAll("<token>", CALLERS_TOKEN);
  filled = await replaceAsync(filled, /<evm (\w+)=([^<>]*)>/g, (field = "", json = "") => {
    return encode(evmPayment(field, json));
  });
  filled = await replaceAsync(filled, /<base64 ([^<>]*)>/gs, (part = "") => encode(part));
  filled = await replaceAsync(
    filled,
    /<junk(?: (\w+)=([^<>]*))?>/g,
    (field = "", json = "null") => {
      return wallet.forge(field === "" ? {} : { [field]: JSON.parse(json) });
    },
  );
  filled = await replaceAsync(filled, /<settlement ([^<>]*)>/g, (amount = "") => {
    return wallet.settlement(amount);
  });
  filled = filled.replaceAll(/<chunk ([^<>]*)>/gs, (_, part: string) => {
    return `${part.length.toString(16)}\r\n${part}\r\n`;
  });
  filled = await replaceAsync(filled, /<accepted (\w+)=([^<>]*)>/g, (member = "", json = "") => {
    return wallet.accept(member, JSON.parse(json));
  });
  return replaceAsync(filled, PAYMENT, (which = "", version) => {
    return wallet.pay(which, version === undefined ? wallet.version : VERSIONS[version]);
  });
}

/** Each match with what comes of its groups. */
async function replaceAsync(
  text: string,
  pattern: RegExp,
  made: (...groups: readonly (string | undefined)[]) => Promise<string>,
): Promise<string> {
  const parts: string[] = [];
  let from = 0;
  for (const match of text.matchAll(pattern)) {
    parts.push(text.slice(from, match.index), await made(...match.slice(1)));
    from = match.index + match[0].length;
  }
  return parts.join("") + text.slice(from);
}

const VERSIONS: Readonly<Record<string, X402Version>> = { 1: X402_VERSION, 2: X402_VERSION_2 };

const HANDSHAKE = [
  "Connection: Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Version: 13",
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
].join("\r\n");

/** Well-formed and signed by nobody, with one field instead of what it was; as text, for any JSON at all. */
function evmPayment(field: string, json: string): string {
  const fields: Record<string, string> = {
    network: '"base-sepolia"',
    signature: `"0x${"11".repeat(65)}"`,
    from: `"0x${"11".repeat(20)}"`,
    to: `"0x${"11".repeat(20)}"`,
    value: '"10000"',
    validAfter: '"0"',
    validBefore: '"99999999999"',
    nonce: `"0x${"11".repeat(32)}"`,
    [field]: json,
  };
  const members = (names: readonly string[]): string =>
    names.map((name) => `"${name}":${fields[name]}`).join(",");
  const authorization = `{${members(["from", "to", "value", "validAfter", "validBefore", "nonce"])}}`;
  const payload = `{${members(["signature"])},"authorization":${authorization}}`;
  return `{"x402Version":1,"scheme":"exact",${members(["network"])},"payload":${payload}}`;
}

/** A payment of version 1 in the envelope of version 2, as text: also where it is not quite JSON. */
function inVersion2(json: string, offer: PaymentRequirements): string {
  const { scheme: _, network: _network, ...accepted } = requirementsV2(offer, PAYMENT_FLOW);
  const others = JSON.stringify(accepted).slice(1);
  return json
    .replaceAll(/(?<="x402Version":"?)[12]\b/g, (version) => String(3 - Number(version)))
    .replace(/("scheme":"[^"]*","network":)"([^"]*)"/, (_all, scheme: string, network: string) => {
      return `"accepted":{${scheme}"${caip2Of(network)}",${others}`;
    });
}

/** RFC 9113 section 7: CANCEL. */
const CANCEL = 8;

/** Over HTTP/2, with what opens a connection. Streams are numbered as they come. */
async function http2Steps(
  each: AttackCase,
  given: readonly H2Step[],
  wallet: Wallet,
): Promise<readonly Step[]> {
  const writer = new FrameWriter(each, wallet);
  const steps: Step[] = [{ kind: "send", bytes: OPENING }];
  for (const one of given) {
    if ("pause" in one) steps.push({ kind: "pause", ms: one.pause });
    else if ("until" in one) steps.push({ kind: "until", text: one.until });
    else steps.push({ kind: "send", bytes: await writer.write(one) });
  }
  return steps;
}

class FrameWriter {
  readonly #each: AttackCase;
  readonly #wallet: Wallet;
  #stream = -1;

  constructor(each: AttackCase, wallet: Wallet) {
    this.#each = each;
    this.#wallet = wallet;
  }

  async write(step: H2Frame | { readonly times: number; readonly frames: readonly H2Frame[] }) {
    if (!("times" in step)) return this.#one(step);
    let bytes = "";
    for (let time = 0; time < step.times; time += 1) {
      for (const one of step.frames) bytes += await this.#one(one);
    }
    return bytes;
  }

  async #one(one: H2Frame): Promise<string> {
    if ("headers" in one) {
      const stream = one.stream ?? this.#next();
      const lines = await Promise.all(this.#withPseudo(one).map((text) => this.#line(text)));
      return headersFrame(stream, lines, one);
    }
    if ("data" in one) {
      const text = await fill(one.data, this.#wallet);
      return dataFrame(one.stream ?? this.#stream, text, one.ends);
    }
    if ("frame" in one) {
      return frame(one.frame, one.stream, await fill(one.payload, this.#wallet), one.flags);
    }
    if ("bytes" in one) return fill(one.bytes, this.#wallet);
    return frame("rst", this.#stream, integer(CANCEL, 4));
  }

  #next(): number {
    this.#stream += 2;
    return this.#stream;
  }

  /** Those of the case, unless there are others; trailers have none. */
  #withPseudo({ headers, stream }: Extract<H2Frame, { headers: unknown }>): readonly string[] {
    const isTrailer = stream !== undefined && stream <= this.#stream;
    if (isTrailer || headers.some((text) => text.startsWith(":"))) return headers;
    const { method, target, host } = this.#each;
    const authority = host === null ? [] : [`:authority: ${host}`];
    return [`:method: ${method}`, ":scheme: https", ...authority, `:path: ${target}`, ...headers];
  }

  async #line(text: string): Promise<Line> {
    const [, name = text, value = ""] = /^(:?[^:]*): ?(.*)$/s.exec(text) ?? [];
    return [await fill(name, this.#wallet), await fill(value, this.#wallet)];
  }
}
