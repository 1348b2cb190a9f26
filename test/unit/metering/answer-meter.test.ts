/** What an answer says of its use: whatever it is cut into, and whatever else stands in it. */
import { describe, expect, it } from "vitest";
import { AnswerMeter, MAX_READ_BYTES } from "../../../src/metering/answer-meter.ts";
import { MAX_EVENT_BYTES } from "../../../src/metering/events.ts";
import { MAX_DEPTH } from "../../../src/metering/json-path.ts";
import { readMeterSource, type MeterSource } from "../../../src/metering/meter.ts";
import type { UsageReading } from "../../../src/metering/usage.ts";
import { cut, dice, randomJson } from "./random-answers.ts";

function source(text: string): MeterSource {
  const read = readMeterSource(text);
  if (!read.ok) throw new Error(read.error.message);
  return read.value;
}

const ALL = ['json("usage.total_tokens")', 'sse("usage.total_tokens")', 'header("X-Usage")'];

type Head = Readonly<Record<string, readonly string[]>>;
const EVENTS: Head = { "content-type": ["text/event-stream; charset=utf-8"] };

function said(reading: UsageReading): string {
  return reading.kind === "read" ? reading.usage.text : reading.reason;
}

function metered(pieces: readonly (string | Uint8Array)[], head: Head = {}, of = ALL): string {
  const meter = new AnswerMeter(of.map(source));
  meter.begin((name) => head[name] ?? []);
  for (const piece of pieces) meter.take(typeof piece === "string" ? Buffer.from(piece) : piece);
  return said(meter.end());
}

describe("the usage of a JSON answer", () => {
  it.each([
    ['{"usage":{"total_tokens":12}}', "12"],
    ['\ufeff{"usage" : { "total_tokens" : 0 } } \r\n', "0"],
    ['{"usage":{"total_tokens":1.5}}', "1.5"],
    ['{"usage":{"total_tokens":1e3}}', "1e3"],
    ['{"us\\u0061ge":{"total_tokens":7}}', "7"],
    ['{"a":[{"usage":{"total_tokens":1}}],"usage":{"a":{"total_tokens":2},"total_tokens":3}}', "3"],
    ['{"x":"\\"usage\\":{\\"total_tokens\\":9}","usage":{"total_tokens":4}}', "4"],
    ['{"usage":{"total_tokens":null}}', "absent"],
    ['{"usage":null}', "absent"],
    ['{"usage":12}', "absent"],
    ['[{"usage":{"total_tokens":12}}]', "absent"],
    ['{"usage":[{"total_tokens":12}]}', "absent"],
    ['{"usage.total_tokens":12}', "absent"],
    ['{"Usage":{"total_tokens":12}}', "absent"],
    ["12", "absent"],
    ["", "absent"],
    ['{"usage":{"total_tokens":"12"}}', "no-number"],
    ['{"usage":{"total_tokens":-1}}', "no-number"],
    ['{"usage":{"total_tokens":-0}}', "no-number"],
    ['{"usage":{"total_tokens":1e400}}', "no-number"],
    ['{"usage":{"total_tokens":true}}', "no-number"],
    ['{"usage":{"total_tokens":[12]}}', "no-number"],
    ['{"usage":{"total_tokens":{}}}', "no-number"],
    [`{"usage":{"total_tokens":${"9".repeat(41)}}}`, "no-number"],
    ['{"usage":{"total_tokens":1,"total_tokens":2}}', "twice"],
    ['{"usage":{"total_tokens":1},"usage":{}}', "twice"],
    ['{"usage":{"total_tokens":1},"us\\u0061ge":null}', "twice"],
    ['{"usage":{"total_tokens":NaN}}', "malformed"],
    ['{"usage":{"total_tokens":Infinity}}', "malformed"],
    ['{"usage":{"total_tokens":012}}', "malformed"],
    ['{"usage":{"total_tokens":+1}}', "malformed"],
    ['{"usage":{"total_tokens":12}', "malformed"],
    ['{"usage":{"total_tokens":12}}}', "malformed"],
    ['{"usage":{"total_tokens":12}}{"usage":{"total_tokens":1}}', "malformed"],
    ['{"usage":{"total_tokens":12},}', "malformed"],
    ['{"usage":{"total_tokens":12]}', "malformed"],
    ['{"usage":{"total_tokens" 12}}', "malformed"],
    ['{usage:{"total_tokens":12}}', "malformed"],
    ['{"x":"\n","usage":{"total_tokens":12}}', "malformed"],
    ["<html>", "malformed"],
  ])("of %s is %s, in one piece and in bytes", (text, expected) => {
    expect(metered([text])).toBe(expected);
    expect(metered([...Buffer.from(text)].map((byte) => Uint8Array.of(byte)))).toBe(expected);
  });

  it("is not looked for where the text is deeper than anybody writes", () => {
    const nested = (depth: number) => {
      return `{"a":${"[".repeat(depth)}${"]".repeat(depth)},"usage":{"total_tokens":1}}`;
    };
    expect(metered([nested(MAX_DEPTH - 1)])).toBe("1");
    expect(metered([nested(MAX_DEPTH)])).toBe("malformed");
  });

  it("is not looked for behind so many bytes", () => {
    const part = Buffer.alloc(1024 * 1024, " ");
    const parts = Array.from({ length: MAX_READ_BYTES / part.length }, () => part);
    const text = '{"usage":{"total_tokens":1}}';
    expect(metered([text, ...parts.slice(1)])).toBe("1");
    expect(metered([text, ...parts])).toBe("too-long");
  });
});

describe("the usage of events", () => {
  const last = 'data: {"usage":{"total_tokens":12}}';
  it.each([
    [`${last}\n\n`, "12"],
    [last, "12"],
    [`\ufeff${last}\r\n\r\n`, "12"],
    [`data:{\r\rdata:1\r\r${last}\r\rdata: [DONE]\r\r`, "12"],
    [`data: {"usage":null}\n\n${last}\n\ndata: [DONE]\n\n`, "12"],
    [`data: {"usage":{"total_tokens":5}}\n\n${last}\n\n`, "12"],
    ['data: {"usage":\ndata: {"total_tokens":\ndata: 12}}\n\n', "12"],
    ['event: x\nid: 1\n: data: 3\nretry: 5\ndata: {"usage":{"total_tokens":12}}\n\n', "12"],
    [`${last}\n\ndata: {"usage":{"total_tokens":9}`, "12"],
    ['data: {"usage":{"total_tokens":1}}\ndata: {"usage":{"total_tokens":2}}\n\n', "absent"],
    [`database: 1\n\n${last.slice(1)}\n\n`, "absent"],
    [`  ${last}\n\n`, "absent"],
    ["data\n\ndata:\n\n", "absent"],
    ["", "absent"],
    ['data: {"usage":{"total_tokens":"12"}}\n\n', "no-number"],
    [`${last}\n\ndata: {"usage":{"total_tokens":-1}}\n\n`, "no-number"],
    ['data: {"usage":{"total_tokens":1,"total_tokens":2}}\n\n', "twice"],
  ])("of %j is %s, in one piece and in bytes", (text, expected) => {
    expect(metered([text], EVENTS)).toBe(expected);
    const bytes = [...Buffer.from(text)].map((byte) => Uint8Array.of(byte));
    expect(metered(bytes, EVENTS)).toBe(expected);
  });

  it("passes over an event that is too long, and says so where no other has it", () => {
    const long = `data: {"x":"${"x".repeat(MAX_EVENT_BYTES)}","usage":{"total_tokens":9}}\n\n`;
    expect(metered([long], EVENTS)).toBe("too-long");
    expect(metered([long, `${last}\n\n`], EVENTS)).toBe("12");
    expect(metered([`${last}\n\n`, long], EVENTS)).toBe("12");
  });
});

describe("what an answer is read by", () => {
  it("is its header, where it has that, and else what its type says", () => {
    const json = '{"usage":{"total_tokens":1}}';
    expect(metered([json], { "x-usage": [" 5 "] })).toBe("5");
    expect(metered([json], { "x-usage": ["5", "5"] })).toBe("twice");
    expect(metered([json], { "x-usage": ["5, 5"] })).toBe("no-number");
    expect(metered([json], { "x-usage": [""] })).toBe("no-number");
    expect(metered([json], {}, ['header("X-Usage")'])).toBe("absent");
    expect(metered([`data: ${json}\n\n`], { "content-type": ["Text/Event-Stream"] })).toBe("1");
    expect(metered([`data: ${json}\n\n`], EVENTS, ['json("usage.total_tokens")'])).toBe("absent");
    expect(metered([json], {}, ['sse("usage.total_tokens")'])).toBe("absent");
  });

  it("is nothing where it is compressed", () => {
    const json = '{"usage":{"total_tokens":1}}';
    expect(metered([json], { "content-encoding": ["gzip"] })).toBe("encoded");
    expect(metered([json], { "content-encoding": ["identity"] })).toBe("1");
    expect(metered([json], { "content-encoding": ["gzip"], "x-usage": ["3"] })).toBe("3");
  });

  it("says of an answer that its buyer has left what its head has said", () => {
    const meter = new AnswerMeter(ALL.map(source));
    const headless = meter.begin(() => []);
    meter.take(Buffer.from('{"usage":{"total_tokens":1}}'));
    expect([headless, said(meter.cut()), meter.isOver]).toEqual([null, "left", true]);
    meter.begin((name) => (name === "x-usage" ? ["4"] : []));
    expect(said(meter.cut())).toBe("4");
  });

  it("forgets an answer that another one came in place of", () => {
    const meter = new AnswerMeter(ALL.map(source));
    meter.begin((name) => (name === "x-usage" ? ["4"] : []));
    meter.begin(() => []);
    meter.take(Buffer.from('{"usage":{"total_tokens":1}}'));
    expect(said(meter.end())).toBe("1");
  });
});

/** What a program makes of the same text, where it has each member once. */
function plainly(text: string): string {
  const value: unknown = JSON.parse(text);
  const usage = memberOf(value, "usage");
  const total = memberOf(usage, "total_tokens");
  if (total === undefined || total === null) return "absent";
  return typeof total === "number" && total >= 0 && !Object.is(total, -0) ? "number" : "no-number";
}

function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return Object.hasOwn(value, name)
    ? Object.entries(value).find(([key]) => key === name)?.[1]
    : undefined;
}

describe("random answers", () => {
  it("say the same in any pieces, and what a plain reader finds", () => {
    const roll = dice(105);
    const found = new Map<string, number>();
    for (let round = 0; round < 5_000; round += 1) {
      const text = randomJson(roll);
      const whole = metered([text]);
      expect(metered(cut(Buffer.from(text), roll)), text).toBe(whole);
      const events = `data: ${text.replaceAll("\n", "\ndata:")}${["\n", "\r", "\r\n"][roll(3)]?.repeat(2)}`;
      const inEvents = whole === "malformed" ? "absent" : whole;
      expect(metered(cut(Buffer.from(events), roll), EVENTS), events).toBe(inEvents);
      const kind = /^[0-9]/.test(whole) ? "number" : whole;
      found.set(kind, (found.get(kind) ?? 0) + 1);
      // 1e400 and whatever else is more than is counted to is a number to JavaScript.
      if (kind === "twice" || text.includes("1e400")) continue;
      expect(kind, text).toBe(plainly(text));
    }
    expect([...found.keys()].sort()).toEqual(["absent", "no-number", "number", "twice"]);
  });

  it("never say something of bytes that are no text", () => {
    const roll = dice(7);
    for (let round = 0; round < 2_000; round += 1) {
      const bytes = Uint8Array.from({ length: roll(60) }, () => roll(256));
      const whole = metered([bytes]);
      expect(metered(cut(bytes, roll))).toBe(whole);
      expect(metered(cut(bytes, roll), EVENTS)).toBe(metered([bytes], EVENTS));
    }
  });
});
