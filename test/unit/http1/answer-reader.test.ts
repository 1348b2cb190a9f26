import { describe, expect, test } from "vitest";
import type { AnswerHead } from "../../../src/http1/answer-head.ts";
import { AnswerReader } from "../../../src/http1/answer-reader.ts";
import { H1Fault, MAX_FIELD_LINES, MAX_INTERIM_ANSWERS } from "../../../src/http1/fault.ts";

const HEAD_LIMIT = 4096;

/** Everything that came out, in its order. */
function open(method = "GET") {
  const told: unknown[] = [];
  const heads: AnswerHead[] = [];
  const reader = new AnswerReader(
    {
      onHead: (head) => {
        heads.push(head);
        told.push(head.status);
      },
      onData: (chunk) => told.push(chunk.toString("latin1")),
      onEnd: (trailers) => told.push(trailers),
    },
    HEAD_LIMIT,
  );
  reader.begin(method);
  const take = (text: string): void => reader.take(Buffer.from(text, "latin1"), text.length);
  return { reader, told, heads, take };
}

function read(text: string, method = "GET") {
  const opened = open(method);
  opened.take(text);
  return opened;
}

/** The rule that the answer breaks; null when it breaks none. */
function rule(text: string, method = "GET"): string | null {
  try {
    read(text, method);
    return null;
  } catch (thrown) {
    return thrown instanceof H1Fault ? thrown.rule : String(thrown);
  }
}

const ok = "HTTP/1.1 200 OK\r\n";

describe("a status line", () => {
  test.each<[string, number, string]>([
    ["HTTP/1.1 200 OK", 200, "OK"],
    ["HTTP/1.0 404 Not Found", 404, "Not Found"],
    ["HTTP/1.1 204 ", 204, ""],
    ["HTTP/1.1 204", 204, ""],
    ["HTTP/1.1 999 caf\xe9\tand more", 999, "caf\xe9\tand more"],
    ["HTTP/1.1 200  OK", 200, " OK"],
  ])("%j is taken", (line, status, statusText) => {
    // Twice: the second time it is remembered.
    for (const _ of [1, 2]) {
      expect(read(`${line}\r\n\r\n`).heads).toMatchObject([{ status, statusText }]);
    }
  });

  test.each([
    "HTTP/1.2 200 OK",
    "HTTP/2.0 200 OK",
    "HTTP/0.9 200 OK",
    "HTTP/11 200 OK",
    "http/1.1 200 OK",
    "HTTP/1.1 099 OK",
    "HTTP/1.1 20 OK",
    "HTTP/1.1 2000 OK",
    "HTTP/1.1 2x0 OK",
    "HTTP/1.1  200 OK",
    "HTTP/1.1\t200 OK",
    "HTTP/1.1 200OK",
    "HTTP/1.1 200 O\0K",
    "HTTP/1.1 200 O\rK",
    "HTTP/1.1 200 O\nK",
    "HTTP/1.1",
    "ICY 200 OK",
    "",
  ])("%j is refused", (line) => {
    expect(rule(`${line}\r\n\r\n`)).toBe("status-line");
  });

  test.each(["S", "HTTP/2", "HTTP/1.1 OK\r\n", "\r\n", "<html>"])(
    "that begins with %j is not waited for",
    (text) => expect(rule(text)).toBe("status-line"),
  );

  test.each(["", "H", "HTTP/1.", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nA"])(
    "that begins with %j may still become one",
    (text) => expect(rule(text)).toBeNull(),
  );
});

describe("header lines", () => {
  test("keep names, order, repetition and blanks within values", () => {
    const { heads } = read(
      `${ok}aCCept:a\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2 \t\r\nE:\r\nF: \t \r\nG: x  y\xe9\r\n\r\n`,
    );
    const lines = ["aCCept", "a", "Set-Cookie", "a=1", "Set-Cookie", "b=2"];
    expect(heads[0]?.lines).toEqual([...lines, "E", "", "F", "", "G", "x  y\xe9"]);
  });

  test.each([
    "no colon",
    ": nameless",
    "A : b",
    "A b: c",
    "A\0: b",
    "A\xe9: b",
    " folded: a",
    "A: b\r\n folded",
    "A: b\r\n\tfolded: c",
    "(A): b",
  ])("with %j break the rule of names", (lines) => {
    expect(rule(`${ok}${lines}\r\n\r\n`)).toBe("field-name");
  });

  test.each(["A: b\0", "A: b\rc", "A: b\nc", "A: b\nC: d", "A: \x7f", "A: \x0b", "A: b\r"])(
    "with %j break the rule of values",
    (lines) => expect(rule(`${ok}${lines}\r\n\r\n`)).toBe("field-value"),
  );

  test("are so many at most", () => {
    const lines = "a:\r\n".repeat(MAX_FIELD_LINES);
    expect(rule(`${ok}${lines}\r\n`)).toBeNull();
    expect(rule(`${ok}${lines}a:\r\n\r\n`)).toBe("field-count");
  });

  test("are so large at most, the status line included", () => {
    const most = `${ok}A: ${"a".repeat(HEAD_LIMIT - ok.length - 7)}`;
    expect(rule(`${most}\r\n\r\n`)).toBeNull();
    expect(rule(`${most}a\r\n\r\n`)).toBe("size");
    // It is not waited for the end of what is too large already.
    expect(rule(`${most}aaaaa`)).toBe("size");
  });
});

describe("framing", () => {
  test.each([
    ["Content-Length: 2\r\nContent-Length: 3", "content-length"],
    ["Content-Length: 2\r\ncontent-length: 2", "content-length"],
    ["Content-Length: 2, 2", "content-length"],
    ["Content-Length: two", "content-length"],
    ["Content-Length: +2", "content-length"],
    ["Content-Length: -2", "content-length"],
    ["Content-Length: 0x2", "content-length"],
    ["Content-Length: 2 2", "content-length"],
    ["Content-Length:", "content-length"],
    ["Content-Length: 1234567890123456", "content-length"],
    ["Transfer-Encoding: gzip, chunked", "transfer-encoding"],
    ["Transfer-Encoding: chunked, chunked", "transfer-encoding"],
    ["Transfer-Encoding: identity", "transfer-encoding"],
    ["Transfer-Encoding: xchunked", "transfer-encoding"],
    ["Transfer-Encoding:", "transfer-encoding"],
    ["Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "transfer-encoding"],
    ["Content-Length: 2\r\nTransfer-Encoding: chunked", "two-framings"],
    ["Transfer-Encoding: chunked\r\nContent-Length: 2", "two-framings"],
  ])("by %j is refused", (lines, expected) => {
    expect(rule(`${ok}${lines}\r\n\r\n`)).toBe(expected);
    // A head is judged as a whole, whether or not a body follows.
    expect(rule(`${ok}${lines}\r\n\r\n`, "HEAD")).toBe(expected);
  });

  test("by chunks is refused from HTTP/1.0", () => {
    expect(rule("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")).toBe("old-chunked");
  });

  test("by a length takes exactly so many bytes", () => {
    const { told, take, reader } = read(`${ok}Content-Length: 5\r\n\r\nab`);
    take("cde");
    expect(told).toEqual([200, "ab", "cde", []]);
    expect(reader.isReusable).toBe(true);
  });

  test.each(["Content-Length: 0\r\n", "Content-Length: 000\r\n"])("by %j is no body", (line) => {
    expect(read(`${ok}${line}\r\n`).told).toEqual([200, []]);
  });

  test("by nothing lasts until the connection ends", () => {
    const { told, take, reader } = read(`${ok}Connection: keep-alive\r\n\r\nab`);
    take("cd");
    expect(told).toEqual([200, "ab", "cd"]);
    reader.end();
    expect(told).toEqual([200, "ab", "cd", []]);
    expect(reader.isReusable).toBe(false);
  });

  test.each([
    ["half a head", "HTTP/1.1 200"],
    ["half a body", `${ok}Content-Length: 5\r\n\r\nabcd`],
    ["no last chunk", `${ok}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n`],
    ["half a trailer", `${ok}Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n`],
    ["an interim answer", "HTTP/1.1 103 Early Hints\r\n\r\n"],
    ["nothing", ""],
  ])("leaves an answer broken that ends after %s", (_, text) => {
    const { reader } = read(text);
    expect(() => reader.end()).toThrow(expect.objectContaining({ code: "broken" }));
  });

  test("is not asked of answers to HEAD, of 204 and of 304", () => {
    for (const line of ["Content-Length: 5", "Transfer-Encoding: chunked", "A: b"]) {
      expect(read(`${ok}${line}\r\n\r\n`, "HEAD").told).toEqual([200, []]);
      expect(read(`HTTP/1.1 204 None\r\n${line}\r\n\r\n`).told).toEqual([204, []]);
      expect(read(`HTTP/1.1 304 Same\r\n${line}\r\n\r\n`).told).toEqual([304, []]);
    }
  });
});

describe("interim answers", () => {
  const hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";

  test("are skipped, an unsolicited 100 among them", () => {
    const continues = "HTTP/1.1 100 Continue\r\n\r\n";
    const text = `${continues}${hints}${continues}${ok}Content-Length: 2\r\n\r\nhi`;
    expect(read(text).told).toEqual([200, "hi", []]);
  });

  test("are told, each before what follows it, until the answer is not wanted", () => {
    const told: string[] = [];
    const text = Buffer.from(
      `${hints}HTTP/1.1 102 Processing\r\n\r\n${ok}Content-Length: 2\r\n\r\nhi`,
    );
    for (const last of [0, 103, 102]) {
      const reader: AnswerReader = new AnswerReader(
        {
          onInterim: ({ status, lines }) => {
            told.push(`${status} ${lines.join(":")}`);
            if (status === last) reader.stop();
          },
          onHead: ({ status }) => void told.push(String(status)),
          onData: (chunk) => void told.push(chunk.toString()),
          onEnd: () => void told.push("end"),
        },
        HEAD_LIMIT,
      );
      reader.begin("GET");
      reader.take(text, text.length);
    }
    const interim = ["103 Link:</a>", "102 "];
    expect(told).toEqual([...interim, "200", "hi", "end", "103 Link:</a>", ...interim]);
  });

  test("do not come without end", () => {
    const most = hints.repeat(MAX_INTERIM_ANSWERS);
    expect(rule(`${most}${ok}\r\n`)).toBeNull();
    expect(rule(`${most}${hints}${ok}\r\n`)).toBe("interim-count");
  });

  test("count for the size of the head", () => {
    const large = `HTTP/1.1 103 Early Hints\r\nA: ${"a".repeat(HEAD_LIMIT / 2)}\r\n\r\n`;
    expect(rule(large)).toBeNull();
    expect(rule(large + large)).toBe("size");
  });

  test("announce no body", () => {
    expect(rule("HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\n\r\n")).toBe("interim-framing");
    expect(rule("HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\n")).toBe("interim-close");
    expect(rule("HTTP/1.0 103 Early Hints\r\n\r\n")).toBe("interim-close");
    const chunks = "HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n\r\n";
    expect(rule(chunks)).toBe("interim-framing");
  });

  test("do not switch protocols", () => {
    const text = "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
    expect(rule(text)).toBe("switch");
  });
});

describe("a connection is kept", () => {
  const length = "Content-Length: 0\r\n";

  test.each<[string, boolean]>([
    [`${ok}${length}`, true],
    [`${ok}${length}Connection: keep-alive\r\n`, true],
    [`${ok}${length}Connection: close\r\n`, false],
    [`${ok}${length}Connection: x, Close\r\n`, false],
    [`${ok}${length}Connection: keep-alive\r\nConnection: close\r\n`, false],
    [`HTTP/1.0 200 OK\r\n${length}`, false],
    [`HTTP/1.0 200 OK\r\n${length}Connection: Keep-Alive\r\n`, true],
    ["HTTP/1.1 204 None\r\n", true],
    ["HTTP/1.1 204 None\r\nContent-Length: 5\r\n", false],
    ["HTTP/1.1 304 Same\r\nContent-Length: 5\r\n", false],
    ["HTTP/1.1 304 Same\r\nTransfer-Encoding: chunked\r\n", false],
  ])("after %j: %s", (head, isKept) => {
    expect(read(`${head}\r\n`).reader.isReusable).toBe(isKept);
  });

  test("after an answer to HEAD that says how long it would be", () => {
    expect(read(`${ok}Content-Length: 5\r\n\r\n`, "HEAD").reader.isReusable).toBe(true);
  });

  test.each([
    `${ok}${length}\r\nx`,
    `${ok}Content-Length: 1\r\n\r\nab`,
    `${ok}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n\r\n`,
    "HTTP/1.1 204 None\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
  ])("not after %j: more came than the answer", (text) => {
    const { reader, told } = read(text);
    expect(told.at(-1)).toEqual([]);
    expect(reader.isReusable).toBe(false);
  });

  test("not when more comes later", () => {
    const { reader, take, told } = read(`${ok}${length}\r\n`);
    expect(reader.isReusable).toBe(true);
    take("x");
    expect(reader.isReusable).toBe(false);
    expect(told).toEqual([200, []]);
  });

  test.each<[string, number | null]>([
    ["timeout=5", 5],
    ["timeout=5, max=100", 5],
    ["max=100, Timeout = 15", 15],
    ['timeout="7"', 7],
    ["max=100", null],
    ["notimeout=5", null],
  ])("as long as Keep-Alive %j says", (value, seconds) => {
    const { heads } = read(`${ok}${length}Keep-Alive: ${value}\r\n\r\n`);
    expect(heads[0]?.keepAliveSeconds).toBe(seconds);
  });
});

describe("memory", () => {
  test("of a head's buffer is the caller's again, that of a body's is handed on", () => {
    const { reader, told } = open();
    const chunks: Buffer[] = [];
    const keeping = new AnswerReader(
      { onHead() {}, onData: (chunk) => chunks.push(chunk), onEnd() {} },
      HEAD_LIMIT,
    );
    keeping.begin("GET");
    const shared = Buffer.from(`${ok}Content-Length: 4\r\n\r\nab`);
    expect(keeping.isInBody).toBe(false);
    keeping.take(shared, shared.length);
    shared.fill("-");
    expect(keeping.isInBody).toBe(true);
    expect(keeping.bytesLeft).toBe(2);
    const own = Buffer.from("cd--");
    keeping.take(own, 2);
    expect(chunks.map(String)).toEqual(["ab", "cd"]);
    expect(chunks[1]?.buffer).toBe(own.buffer);
    expect(keeping.isInBody).toBe(false);
    expect([reader.isInBody, told]).toEqual([false, []]);
  });

  test("stop leaves the rest alone", () => {
    const { reader, told, take } = read(`${ok}Content-Length: 4\r\n\r\nab`);
    reader.stop();
    take("cd");
    reader.end();
    expect(told).toEqual([200, "ab"]);
    expect(reader.isReusable).toBe(false);
  });
});
