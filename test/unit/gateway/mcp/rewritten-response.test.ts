/** What is read of an answer as it passes, in whichever pieces it comes, and what is too large for that. */
import { describe, expect, test } from "vitest";
import {
  MAX_READ_BYTES,
  MAX_WAITING_BYTES,
  RewrittenResponse,
  type MessageReader,
} from "../../../../src/gateway/mcp/rewritten-response.ts";
import { SentResponse } from "./sent-response.ts";

const EVENTS = ["Content-Type", "text/event-stream"];
const JSON_LINES = ["Content-Type", "application/json", "Content-Length", "9"];

function passed(lines: readonly string[], reader: Partial<MessageReader> = {}) {
  const sent = new SentResponse();
  const read: string[] = [];
  const ended: boolean[] = [];
  const response = new RewrittenResponse(sent, {
    message: (text) => {
      read.push(text);
      return text.toUpperCase();
    },
    unreadable: () => null,
    ended: (mayBeMore) => void ended.push(mayBeMore),
    ...reader,
  });
  response.writeHead(200, "OK", [...lines]);
  return { sent, read, ended, response };
}

describe("a document", () => {
  test("is read when it is whole, and told with its length", () => {
    const { sent, read, ended, response } = passed(JSON_LINES);
    response.write(Buffer.from('{"a":'));
    expect(sent.headersSent).toBe(false);
    response.end(Buffer.from('"é"}'));
    expect([read, sent.text, ended]).toEqual([['{"a":"é"}'], '{"A":"É"}', [false]]);
    expect(sent.head[2]).toEqual(["Content-Type", "application/json", "Content-Length", "10"]);
  });

  test("passes as it is where it is too large, and is said to be more than was read", () => {
    const { sent, read, ended, response } = passed(JSON_LINES);
    const large = Buffer.alloc(MAX_READ_BYTES, "a");
    response.write(large);
    expect(sent.headersSent).toBe(false);
    response.write(Buffer.from("b"));
    response.end(Buffer.from("c"));
    expect([read, sent.text.length, ended]).toEqual([[], MAX_READ_BYTES + 2, [true]]);
  });

  test("is replaced where it is too large and may not pass", () => {
    const { sent, response } = passed(JSON_LINES, { unreadable: () => "no" });
    response.write(Buffer.alloc(MAX_READ_BYTES + 1, "a"));
    response.end(Buffer.from("b"));
    expect([sent.text, sent.writableEnded]).toEqual(["no", true]);
  });

  test("waits for what its reader has to do first", async () => {
    const first = Promise.withResolvers<string>();
    const { sent, response } = passed(JSON_LINES, { message: () => first.promise });
    response.end(Buffer.from("{}"));
    expect(sent.writableEnded).toBe(false);
    first.resolve("done");
    await expect.poll(() => sent.text).toBe("done");
    expect(sent.writableEnded).toBe(true);
  });

  test("is cut off where that fails", async () => {
    const { sent, response } = passed(JSON_LINES, {
      message: () => Promise.reject(new Error("the ledger is away")),
    });
    response.end(Buffer.from("{}"));
    await expect.poll(() => sent.destroyed).toBe(true);
    expect([sent.headersSent, sent.text]).toEqual([false, ""]);
  });
});

describe("events", () => {
  const stream = ': hi\n\nid: 1\ndata: \n\nevent: message\r\nid: 2\r\ndata: {"a":1}\r\n\r\n';
  const told = ': hi\n\nid: 1\ndata: \n\nevent: message\nid: 2\ndata: {"A":1}\n\n';

  test.each([1, 2, 7, 1_000])("are read one by one, in pieces of %i bytes", (size) => {
    const { sent, read, ended, response } = passed(EVENTS);
    const bytes = Buffer.from(stream);
    for (let at = 0; at < bytes.length; at += size) response.write(bytes.subarray(at, at + size));
    expect([read, sent.text]).toEqual([['{"a":1}'], told]);
    response.end();
    expect([ended, sent.writableEnded]).toEqual([[true], true]);
  });

  test.each(["\n\n", "\r\r", "\r\n\r\n", "\n\r\n", "\n\r", "\r\n\r", "\r\n\n", "\r\r\n"])(
    "are read whichever lines end them, %j",
    (end) => {
      for (const size of [1, 1_000]) {
        const { sent, read, response } = passed(EVENTS);
        const bytes = Buffer.from(`data: {"a":1}${end}data: {"b":2}${end}`);
        for (let at = 0; at < bytes.length; at += size) {
          response.write(bytes.subarray(at, at + size));
        }
        response.end();
        expect(read).toEqual(['{"a":1}', '{"b":2}']);
        expect(sent.text.trim().split(/\s+(?=data)/)).toEqual(['data: {"A":1}', 'data: {"B":2}']);
      }
    },
  );

  test("are read behind a mark of their coding, which none but the first one has", () => {
    const { sent, read, response } = passed(EVENTS);
    response.write(Buffer.from('\uFEFFdata: {"a":1}\n\n\uFEFFdata: {"b":2}\n\n'));
    expect(read).toEqual(['{"a":1}']);
    expect(sent.text).toBe('data: {"A":1}\n\n\uFEFFdata: {"b":2}\n\n');
  });

  test("keep their order while one of them is waited for", async () => {
    const first = Promise.withResolvers<string>();
    let count = 0;
    const { sent, response } = passed(EVENTS, {
      message: (text) => {
        count += 1;
        return count === 1 ? first.promise : text;
      },
    });
    response.write(Buffer.from('data: {"a":1}\n\ndata: {"b":2}\n\n'));
    response.write(Buffer.from('data: {"c":3}\n\n'));
    response.end();
    expect([sent.text, sent.writableEnded]).toEqual(["", false]);
    first.resolve("{}");
    await expect.poll(() => sent.writableEnded).toBe(true);
    expect(sent.text).toBe('data: {}\n\ndata: {"b":2}\n\ndata: {"c":3}\n\n');
  });

  test("of more than is read pass as they are, or are replaced", () => {
    const large = Buffer.from(`data: {${"a".repeat(MAX_READ_BYTES)}`);
    const passing = passed(EVENTS);
    passing.response.write(large);
    passing.response.end();
    expect([passing.sent.text.length, passing.ended]).toEqual([large.length, [true]]);
    const replaced = passed(EVENTS, { unreadable: () => "no" });
    replaced.response.write(large);
    replaced.response.end();
    expect(replaced.sent.text).toBe("data: no\n\n");
  });
});

test.each([1, 2, 7, 5_000])(
  "one text of what passes unread is another, in pieces of %i bytes",
  (size) => {
    const { sent, response } = passed(JSON_LINES, { instead: ['"coinslot.a"', "7"] });
    response.write(Buffer.from('{"id": '));
    response.write(Buffer.alloc(MAX_READ_BYTES, " "));
    const rest = Buffer.from('"coinslot.b" "coinslot.a" "coinslot.a"}"coin');
    for (let at = 0; at < rest.length; at += size) response.write(rest.subarray(at, at + size));
    response.end();
    expect(sent.text.replaceAll(/ +/g, " ")).toBe('{"id": "coinslot.b" 7 "coinslot.a"}"coin');
    expect(sent.lines).toEqual(["Content-Type", "application/json"]);
  },
);

test("what is neither, or in another coding, passes unread", () => {
  const other = passed(["Content-Type", "text/plain"]);
  other.response.end(Buffer.from('{"a":1}'));
  expect([other.sent.text, other.read, other.ended]).toEqual(['{"a":1}', [], [false]]);
  const packed = passed([...JSON_LINES, "Content-Encoding", "gzip"]);
  packed.response.end(Buffer.from('{"a":1}'));
  expect([packed.sent.text, packed.read, packed.ended]).toEqual(['{"a":1}', [], [true]]);
});

test("what comes behind a message that holds it up waits, and is cut where it is too much", async () => {
  const held = Promise.withResolvers<string>();
  const { sent, response } = passed(EVENTS, { message: () => held.promise });
  response.write(Buffer.from('data: {"a":1}\n\n'));
  const half = Buffer.alloc(MAX_WAITING_BYTES / 2, "x");
  response.write(half);
  response.write(half);
  expect([sent.destroyed, sent.text]).toEqual([false, ""]);
  held.resolve('{"a":2}');
  await expect.poll(() => sent.text).toContain('data: {"a":2}\n\n');

  const never = passed(EVENTS, { message: () => new Promise(() => {}) });
  never.response.write(Buffer.from('data: {"a":1}\n\n'));
  for (const piece of [half, half]) never.response.write(piece);
  expect(never.sent.destroyed).toBe(false);
  never.response.write(Buffer.from("x"));
  expect(never.sent.destroyed).toBe(true);
});
