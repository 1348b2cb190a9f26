/**
 * Attacks that nobody thought of: the cases' own bytes, changed at random. What is answered is not known, but
 * whatever reaches the backend is judged as ever: free by every reading, framed in one way, decided about; and
 * nothing that is sent may make the gateway answer 5xx or end.
 */
import { X402_VERSION } from "../../src/x402/x402.ts";
import { startChain } from "../support/chain.ts";
import { stepsOf, type Wallet } from "./attack-bytes.ts";
import { readCases } from "./attack-case.ts";
import { OPENING } from "./http2-frames.ts";
import type { Gateway } from "./shop.ts";
import { Stage, type Finding } from "./stage.ts";

/** What is put in somewhere. */
const PIECES = [
  "\r\n",
  "\n",
  "\r",
  "\0",
  " ",
  "\t",
  ":",
  ";",
  ",",
  "_",
  "\x80",
  "%2e",
  "%2F",
  "//",
  "/../",
  "/./",
  "/paid",
  "/PAID",
  "?",
  "#",
  "chunked",
  "HTTP/1.0",
  "GET /paid HTTP/1.1\r\nHost: shop.example\r\n\r\n",
  "GET /free/b HTTP/1.1\r\nHost: shop.example\r\n\r\n",
  "Transfer-Encoding: chunked\r\n",
  "Transfer-Encoding: identity\r\n",
  "Content-Length: 0\r\n",
  "Content-Length: 5\r\n",
  "Content-Length: 60\r\n",
  "Connection: close\r\n",
  "Connection: X-A\r\n",
  "Connection: Upgrade\r\n",
  "Upgrade: websocket\r\n",
  "Expect: 100-continue\r\n",
  "Host: other.example\r\n",
  "X-402-Payer: me\r\n",
  "X-Forwarded-For: 192.0.2.1\r\n",
  "X-Original-URL: /paid\r\n",
  "0\r\n\r\n",
  "5\r\nhello\r\n",
];

/** Seeded (mulberry32): a seed repeats its run. */
class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** 0 to below `sides`. */
  throw(sides: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * sides);
  }

  pick<Item>(items: readonly Item[]): Item {
    const item = items[this.throw(items.length)];
    if (item === undefined) throw new Error("there is nothing to pick from");
    return item;
  }
}

const CHANGES: readonly ((bytes: string, dice: Dice) => string)[] = [
  (bytes, dice) => {
    const at = dice.throw(bytes.length + 1);
    return bytes.slice(0, at) + dice.pick(PIECES) + bytes.slice(at);
  },
  (bytes, dice) => {
    const at = dice.throw(bytes.length);
    return bytes.slice(0, at) + bytes.slice(at + 1 + dice.throw(3));
  },
  (bytes, dice) => {
    const at = dice.throw(bytes.length);
    return bytes.slice(0, at) + String.fromCharCode(dice.throw(256)) + bytes.slice(at + 1);
  },
  (bytes, dice) => {
    const lines = bytes.split("\r\n");
    const line = lines[dice.throw(lines.length)] ?? "";
    return lines.toSpliced(dice.throw(lines.length), 0, line).join("\r\n");
  },
  (bytes, dice) => {
    const lines = bytes.split("\r\n");
    return lines.toSpliced(1 + dice.throw(lines.length), 0, dice.pick(PIECES).trim()).join("\r\n");
  },
];

/** Changes of one attack at most. */
const MOST_CHANGES = 4;
/** Bytes of a case that is worth changing. */
const MOST_BYTES = 4_000;

/** What is not paid for by anybody: a payment may end in a sale. */
const NO_WALLET: Wallet = {
  version: X402_VERSION,
  offer: () => Promise.reject(new Error("nothing is asked for")),
  pay: () => Promise.resolve("AAAA"),
  accept: () => Promise.resolve("AAAA"),
  forge: () => Promise.resolve("AAAA"),
  settlement: () => Promise.resolve("{}"),
};

/** Every case over one protocol as one text, without what opens a connection. */
async function readSeeds(isHttp2: boolean): Promise<readonly string[]> {
  const plain = readCases().filter(({ h2, backend, on, at }) => {
    if (at !== undefined) return false;
    return (
      backend === undefined && (isHttp2 ? h2 !== undefined : h2 === undefined && on === undefined)
    );
  });
  const texts = await Promise.all(
    plain.map(async (each) => {
      const steps = await stepsOf(each, NO_WALLET);
      const text = steps.map((step) => (step.kind === "send" ? step.bytes : "")).join("");
      return isHttp2 ? text.slice(OPENING.length) : text;
    }),
  );
  return texts.filter((text) => text !== "" && text.length <= MOST_BYTES);
}

/** Plays `count` changed attacks before each of three gateways, over HTTP/2 before the one with TLS. */
export async function provoke(seed: number, count: number): Promise<readonly Finding[]> {
  await using chain = await startChain();
  const before = async (gateway: Gateway): Promise<readonly Finding[]> => {
    const isHttp2 = gateway === "secure";
    const seeds = await readSeeds(isHttp2);
    const dice = new Dice(seed);
    await using stage = await Stage.start(chain, gateway);
    const findings: Finding[] = [];
    for (let index = 0; index < count; index += 1) {
      const bytes = change(dice.pick(seeds), dice, seeds);
      findings.push(...(await stage.provoke(isHttp2 ? OPENING + bytes : bytes)));
    }
    return [...findings, ...(await stage.audit())];
  };
  return (await Promise.all([before("deny"), before("free"), before("secure")])).flat();
}

function change(text: string, dice: Dice, seeds: readonly string[]): string {
  let bytes = dice.throw(8) === 0 ? text + dice.pick(seeds) : text;
  for (let left = 1 + dice.throw(MOST_CHANGES); left > 0; left -= 1) {
    if (bytes !== "") bytes = dice.pick(CHANGES)(bytes, dice);
  }
  return bytes;
}
