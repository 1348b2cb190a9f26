/**
 * The language of the attack cases, and their reader. A file of `cases/` is a topic, a YAML list; a case
 * is what one hostile client sends on one connection, and what the gateway must answer:
 *
 *     - name: an empty segment before a priced path      # what is tried
 *       cites: H1                                        # the rule of the front door that forbids it
 *       target: //paid                                   # what is sent
 *       expect: 400                                      # what is answered
 *
 * What is sent is a request: `method` (GET), `target` (/free/thing), `version` (HTTP/1.1), or all three as
 * one `line`; `host` (the served one; null for none); `headers`, raw lines; `eol`, what ends each line;
 * `body`, as it is (no length is added). Or it is `raw`: bytes instead of all that. `after` goes on in
 * either case. `raw` and `after` are lists of texts to send and of steps: `{ pause: MS }`, `{ until: TEXT }`
 * (of the answer), `{ drip: TEXT, every: MS }` (until the connection is over), `end`, `reset`. `methods`
 * names the methods of what is sent raw, where one is HEAD. Characters of the file up to U+00FF are bytes.
 *
 * Placeholders: `<TEXT*COUNT>` repeats; `<host>` is the served host; `<length>` the bytes of `body`;
 * `<handshake>` stands for the lines of a WebSocket handshake; `<base64 TEXT>` encodes; `<evm FIELD=JSON>` is an
 * EVM payment, well-formed but for that field; `<chunk TEXT>` is a chunk; `<payment>` is a correct and funded payment for /paid, `<payment 2>` another
 * one, `<cheap>` one that pays too little, `<broke>` one of a payer without money.
 *
 * `expect`: the statuses of all answers on the connection, in order (one number for one); `closed` where
 * the connection ends without any. `400 or 404` is a status, too, and `400 or closed`.
 * `{ deny, free }` where it depends on `unmatched`. `closes: true`: the
 * gateway ends the connection. `abandons: true`: the client leaves, nothing is expected. `within`: longest
 * wait, milliseconds. `says`, `lacks` and `once`: text that the answers hold, do not, and hold once. `arrives`: request lines
 * at the backend, in order; without it as many as there were answers of the backend. `holds`: text that the
 * backend receives; `withholds`: text that it does not, in any letter case. `on`: before that gateway only. `waits`: a defence that does not exist yet; the case
 * is told apart and counts for nothing.
 *
 * `at`: asked there instead, of the `admin` listener or the `facilitator`. `crowd`: other connections that are opened
 * before, and held: how many, and what each sends. `asks`: how many questions about payments the chain hears. `sells`:
 * a payment is good and is settled, once, for the price of /paid or for that sum. `<junk>` is a payment that fits and whose signature proves nothing,
 * `<junk FIELD=JSON>` with another member; `<settlement AMOUNT>` what a gateway sends a facilitator with a correct payment of
 * so many atomic units; `<token>` what callers of the facilitator of `listed` show.
 *
 * A case that shows a payment is written in version 1 and played in both: once more with the other header, in the
 * other envelope and by another client. `version2` says what is otherwise there, and `because` of what; `envelope` that
 * it is of that version alone. `<payment in version 1>` is in that envelope wherever it stands,
 * `<dear>` pays twice the price, and `<accepted MEMBER=JSON>` is a correct payment of version 2 for something else than
 * is offered, by that member of what was accepted (`extra.NAME` for one of those; nothing behind `=`: it is missing).
 *
 * `backend`: what a hostile backend answers, in steps; without it, goods. `isCut`: the client must see that the
 * answer is cut off. `retires`: the gateway asks nothing else on this connection to the backend. `h2`: frames that
 * are sent instead, over HTTP/2.
 *
 * Beside all that, every case is judged by the oracle (`judge.ts`): what is written here is only what the
 * oracle cannot know.
 */
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { X402_VERSION, X402_VERSION_2, type X402Version } from "../../src/x402/x402.ts";
import { FRAME_TYPES } from "./http2-frames.ts";
import type { Gateway } from "./shop.ts";

const FOLDER = join(import.meta.dirname, "cases");
/** Longest that an answer may take unless the case says otherwise, milliseconds. */
const PATIENCE_MS = 5_000;

const step = z.union([
  z.string(),
  z.strictObject({ pause: z.int() }),
  z.strictObject({ until: z.string() }),
  z.strictObject({ drip: z.string(), every: z.int() }),
]);
/** What is sent over HTTP/2, frame by frame. */
const h2Frame = z.union([
  z.strictObject({
    headers: z.array(z.string()),
    stream: z.int().exactOptional(),
    ends: z.boolean().default(true),
    isWhole: z.boolean().default(true),
  }),
  z.strictObject({
    data: z.string(),
    stream: z.int().exactOptional(),
    ends: z.boolean().default(true),
  }),
  z.strictObject({
    frame: z.union([z.enum(FRAME_TYPES), z.int()]),
    stream: z.int().default(0),
    flags: z.int().default(0),
    payload: z.string().default(""),
  }),
  z.strictObject({ rst: z.literal(true) }),
  z.strictObject({ bytes: z.string() }),
]);
const h2Step = z.union([
  h2Frame,
  z.strictObject({ times: z.int(), frames: z.array(h2Frame) }),
  z.strictObject({ pause: z.int() }),
  z.strictObject({ until: z.string() }),
]);

export type H2Frame = z.infer<typeof h2Frame>;
export type H2Step = z.infer<typeof h2Step>;

/** In place of a status: the connection ends instead, or over HTTP/2 the stream. */
export const CLOSED = 0;
const word = "(?:[1-9]\\d\\d|closed)";
/** The statuses that one answer may have. */
const status = z
  .union([z.int(), z.string().regex(new RegExp(`^${word}(?: or ${word})+$`))])
  .transform((given) => String(given).split(" or "))
  .transform((words) => words.map((each) => (each === "closed" ? CLOSED : Number(each))));
const answers = z.union([
  z.literal("closed").transform((): number[][] => []),
  status.transform((one) => [one]),
  z.array(z.union([z.literal("closed").transform(() => [CLOSED]), status])),
]);
const texts = z.union([z.string(), z.array(z.string())]).transform((given) => [given].flat());
const expected = z.union([
  answers.transform((same) => ({ deny: same, free: same })),
  z.strictObject({ deny: answers, free: answers }),
]);
/** What may be otherwise in version 2. */
const version2 = z.strictObject({
  because: z.string(),
  expect: expected.exactOptional(),
  says: texts.exactOptional(),
  asks: z.int().exactOptional(),
  sells: z.literal(false).exactOptional(),
});

const attackCase = z.strictObject({
  name: z.string(),
  cites: z.string().regex(/^H\d+(?:, H\d+)*$/),
  method: z.string().default("GET"),
  target: z.string().default("/free/thing"),
  version: z.string().default("HTTP/1.1"),
  line: z.string().exactOptional(),
  host: z.string().nullable().default("<host>"),
  headers: z.array(z.string()).default([]),
  eol: z.string().default("\r\n"),
  body: z.string().default(""),
  raw: z.array(step).exactOptional(),
  after: z.array(step).default([]),
  methods: z.array(z.string()).exactOptional(),
  expect: expected.exactOptional(),
  closes: z.literal(true).exactOptional(),
  abandons: z.literal(true).exactOptional(),
  within: z.int().default(PATIENCE_MS),
  says: texts.default([]),
  lacks: texts.default([]),
  once: texts.default([]),
  arrives: texts.exactOptional(),
  holds: texts.default([]),
  withholds: texts.default([]),
  on: z
    .enum(["deny", "free", "trusting", "secure", "rewriting", "listed", "crowded"])
    .exactOptional(),
  at: z.enum(["admin", "facilitator"]).exactOptional(),
  crowd: z.strictObject({ connections: z.int(), sends: z.array(step) }).exactOptional(),
  asks: z.int().exactOptional(),
  sells: z.union([z.literal(true), z.int()]).exactOptional(),
  envelope: z.literal([X402_VERSION, X402_VERSION_2]).exactOptional(),
  version2: version2.exactOptional(),
  h2: z.array(h2Step).exactOptional(),
  backend: z.array(step).exactOptional(),
  isCut: z.literal(true).exactOptional(),
  retires: z.literal(true).exactOptional(),
  waits: z.string().exactOptional(),
});

type WrittenCase = z.infer<typeof attackCase>;

export interface AttackCase extends Omit<WrittenCase, "envelope" | "version2" | "sells"> {
  readonly topic: string;
  /** The version of its payments. */
  readonly envelope: X402Version;
  readonly sells?: WrittenCase["sells"] | false;
  /** The name of the case that it plays once more, over HTTP/2 or in version 2. */
  readonly repeats?: string;
}

/** Every case, topic by topic. @throws where a file is not written as above, or two cases share a name. */
export function readCases(): readonly AttackCase[] {
  const files = readdirSync(FOLDER).filter((file) => file.endsWith(".yaml"));
  const cases = files.sort().flatMap((file) => {
    const topic = basename(file, ".yaml");
    const listed = z.array(z.unknown()).parse(parse(readFileSync(join(FOLDER, file), "utf8")));
    return listed.flatMap((each, index): AttackCase[] => {
      const read = attackCase.safeParse(each);
      if (!read.success) {
        throw new Error(`${file}, case ${index + 1}: ${z.prettifyError(read.error)}`);
      }
      if (read.data.expect === undefined && read.data.abandons === undefined) {
        throw new Error(`${file}, case ${index + 1}: nothing is expected`);
      }
      const { envelope, version2: other, ...written } = read.data;
      const known = { ...written, topic, envelope: envelope ?? X402_VERSION };
      return envelope === undefined ? inBothVersions(known, other) : [known];
    });
  });
  const names = new Set<string>();
  for (const { name, topic } of cases) {
    if (names.has(name)) throw new Error(`${topic}: there are two cases named "${name}"`);
    names.add(name);
  }
  return [...cases, ...cases.flatMap(overHttp2)];
}

/**
 * Topics whose requests are sent over HTTP/2 as well: they are about targets, which come as `:path`, and about
 * what comes back.
 */
const OVER_HTTP2: ReadonlyMap<string, string> = new Map([
  ["path-spellings", "http2-targets"],
  ["queries", "http2-targets"],
  ["hostile-backend", "http2-backends"],
]);

/** What shows a payment, or what was said of one. */
const SHOWN = /x[^a-z0-9\s]payment|<(?:payment|cheap|dear|broke|junk|evm|settlement)\b/i;
/** The header of a payment of either version and its receipt, whatever stands for the dashes. */
const HEADERS = /x([^a-z0-9\s])payment(?:[^a-z0-9\s]response)?|payment([^a-z0-9\s])signature/gi;
/** Another client has its own share of what a client may do, and is not remembered. */
const OTHER_CLIENT = Object.entries({
  "192.0.2.": "203.0.113.",
  "2001:db8": "3fff:1",
  "0x7777": "0x8888",
});

function inBothVersions(each: AttackCase, other?: WrittenCase["version2"]): AttackCase[] {
  const { name } = each;
  const text = JSON.stringify(each);
  if (!SHOWN.test(text)) return [each];
  const again: AttackCase = JSON.parse(text, (_name, member) => {
    return typeof member === "string" ? inOtherVersion(member) : member;
  });
  const { because: _, ...otherwise } = other ?? {};
  const named = { name: `${name} (version 2)`, repeats: name };
  return [each, { ...again, ...otherwise, ...named, envelope: X402_VERSION_2 }];
}

function inOtherVersion(text: string): string {
  const swapped = text
    .replaceAll(HEADERS, (all, dash: string | undefined, back: string | undefined) => {
      if (dash === undefined) return `X${back}PAYMENT`;
      const isReceipt = /response$/i.test(all);
      return (
        all.slice(2) + (isReceipt ? "" : dash + (all.startsWith("x") ? "signature" : "SIGNATURE"))
      );
    })
    .replaceAll(/(?<= in version )[12](?=>)/g, (version) => String(3 - Number(version)));
  return OTHER_CLIENT.reduce((told, [one, another]) => told.replaceAll(one, another), swapped);
}

/** Whether a case is another one sent once more, over HTTP/2 or in version 2. */
export function isRepeat({ repeats }: AttackCase): boolean {
  return repeats !== undefined;
}

function overHttp2(each: AttackCase): AttackCase[] {
  const { topic, name, expect, isCut, ...rest } = each;
  const over = OVER_HTTP2.get(topic);
  if (over === undefined || !isSimple(each)) return [];
  const wanted = isCut === true ? [[CLOSED]] : (expect?.deny ?? []).map(alsoRefused);
  const same = {
    ...rest,
    ...(expect === undefined ? {} : { expect: { deny: wanted, free: wanted } }),
  };
  return [
    {
      ...same,
      topic: over,
      repeats: name,
      name: `${name} (HTTP/2)`,
      on: "secure",
      h2: [{ headers: [], ends: true, isWhole: true }],
    },
  ];
}

/** Nothing but a method and a target is sent. */
function isSimple({ raw, line, version, headers, host, method, after }: AttackCase): boolean {
  const isPlain = raw === undefined && line === undefined && version === "HTTP/1.1";
  const isBare = headers.length === 0 && host !== null && method !== "CONNECT";
  return isPlain && isBare && after.length === 0;
}

/** What no HTTP/2 library would send is refused below us, stream by stream; it knows no status above 599. */
function alsoRefused(statuses: readonly number[]): number[] {
  const isRefused = statuses.some((one) => one >= 400 && one < 500);
  return isRefused ? [...statuses, CLOSED, 400] : [...statuses];
}

/** The threats that a case names: `H1`, `H2`… */
export function threatsOf(cites: string): readonly string[] {
  return cites.split(", ");
}

/** The methods of the requests that are sent, as far as the case tells. */
export function methodsOf({ methods, line, method }: AttackCase): readonly string[] {
  return methods ?? [line?.split(" ", 1)[0] ?? method];
}

/** For each answer in turn, the statuses that it may have. */
export function expectedOf(
  { expect }: AttackCase,
  gateway: Gateway,
): readonly (readonly number[])[] {
  return expect?.[gateway === "free" ? "free" : "deny"] ?? [];
}
