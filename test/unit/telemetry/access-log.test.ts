import { execFileSync } from "node:child_process";
import { mkdtempSync, openSync, readFileSync, renameSync, rmSync } from "node:fs";
import { createReadStream } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import {
  AccessLog,
  openAccessLog,
  type AccessEntry,
  type AccessFormat,
} from "../../../src/telemetry/access-log.ts";

const NOW = Date.parse("2026-11-27T14:30:05.250Z");

/** A program of every Unix. */
const MAKE_PIPE = "mkfifo";

const SALE = {
  amount: "0.01",
  asset: "USDC",
  network: "base",
  payer: "0x857b06519E91e3A54538791bDbb0E22373e36b66",
  transaction: `0x${"ab".repeat(32)}`,
};

const SOLD: AccessEntry = {
  client: "192.0.2.1",
  method: "GET",
  target: "/weather?city=Lund",
  host: null,
  version: "1.1",
  status: 200,
  bytes: 42,
  ms: 1234.5678,
  route: "GET /weather",
  outcome: "paid",
  sale: SALE,
  would: null,
  payment: "0123456789abcdef",
  referrer: "https://search.example/?q=weather",
  agent: "curl/8.7",
  requestId: "a1b2-c3",
};

const ASKED: AccessEntry = {
  ...SOLD,
  status: 402,
  outcome: "challenged",
  sale: null,
  payment: null,
  referrer: null,
  agent: null,
};

function lineOf(entry: AccessEntry, format: AccessFormat, query = false): string {
  const lines: string[] = [];
  const to = { write: (line: string) => void lines.push(line) };
  new AccessLog({ format, file: null, query }, to, () => NOW).write(entry);
  expect(lines).toHaveLength(1);
  return lines[0] ?? "";
}

describe("a line of the access log", () => {
  test("is JSON with the client, what was paid and by which payment", () => {
    expect(JSON.parse(lineOf(SOLD, "json"))).toEqual({
      time: "2026-11-27T14:30:05.250Z",
      client: "192.0.2.1",
      method: "GET",
      target: "/weather",
      status: 200,
      bytes: 42,
      ms: 1234.568,
      route: "GET /weather",
      outcome: "paid",
      ...SALE,
      payment: "0123456789abcdef",
      agent: "curl/8.7",
      requestId: "a1b2-c3",
    });
    const asked = Object.keys(JSON.parse(lineOf(ASKED, "json")));
    for (const key of [...Object.keys(SALE), "payment", "agent"]) expect(asked).not.toContain(key);
  });

  test("begins in the other form as readers of access logs know it", () => {
    expect(lineOf(SOLD, "combined")).toBe(
      `192.0.2.1 - ${SALE.payer} [27/Nov/2026:14:30:05 +0000] "GET /weather HTTP/1.1" 200 42 ` +
        `"https://search.example/" "curl/8.7" "GET /weather" paid 0.01 USDC base ` +
        `${SALE.transaction} 0123456789abcdef 1.234568 a1b2-c3\n`,
    );
    expect(lineOf(ASKED, "combined")).toBe(
      `192.0.2.1 - - [27/Nov/2026:14:30:05 +0000] "GET /weather HTTP/1.1" 402 42 "-" "-" ` +
        `"GET /weather" challenged - - - - - 1.234568 a1b2-c3\n`,
    );
  });

  test("has a query where that is asked for", () => {
    expect(JSON.parse(lineOf(SOLD, "json", true))).toMatchObject({ target: "/weather?city=Lund" });
    expect(lineOf(SOLD, "combined", true)).toContain('"GET /weather?city=Lund HTTP/1.1"');
  });

  const FORGED = 'x" 200 1\n192.0.2.9 - - [\r\u001b[31m\u0085\u2028\ud800\\';

  test.each(["json", "combined"] as const)("is one, whatever strangers send (%s)", (format) => {
    const parts = { target: `/${FORGED}`, agent: FORGED, referrer: FORGED, method: FORGED };
    const line = lineOf({ ...SOLD, ...parts, client: FORGED }, format, true);
    expect(line).toMatch(/^[ -~]*\n$/);
    if (format === "json") expect(JSON.parse(line)).toMatchObject({ agent: FORGED });
    else {
      expect(line).toContain(
        "x\\x22 200 1\\x0a192.0.2.9 - - [\\x0d\\x1b[31m\\x85\\u2028\\ud800\\x5c",
      );
      // As many quotes as an honest line has, and the client is one word.
      expect(line.split('"')).toHaveLength(lineOf(SOLD, format).split('"').length);
      expect(line.split(" ")[1]).toBe("-");
    }
  });

  test.each(["json", "combined"] as const)("goes into a pipe in one piece (%s)", (format) => {
    const long = "\u0001".repeat(20_000);
    const texts = { client: long, method: long, target: long, route: long, agent: long };
    const sale = { ...SALE, asset: long, network: long, payer: long, transaction: long };
    const line = lineOf({ ...SOLD, ...texts, referrer: long, sale }, format, true);
    expect(line.length).toBeLessThanOrEqual(4096);
    expect(line.length).toBeGreaterThan(2_000);
    if (format === "json") expect(JSON.parse(line)).toMatchObject({ status: 200 });
  });
});

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "coinslot-access-"));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

function open(file: string, onLost: (cause?: Error) => void = () => {}): AccessLog {
  return openAccessLog({ format: "json", file, query: false }, onLost, () => NOW);
}

describe("the file of the access log", () => {
  test("is appended to, and opened anew when it was moved away", async () => {
    const file = join(folder(), "new", "access.log");
    const linesIn = (path: string) => readFileSync(path, "utf8").split("\n").length - 1;
    const log = open(file);
    log.write(SOLD);
    await vi.waitUntil(() => linesIn(file) === 1);
    renameSync(file, `${file}.1`);
    log.reopen();
    await vi.waitFor(() => expect(linesIn(file)).toBe(0));
    log.write(SOLD);
    log.write(ASKED);
    await vi.waitFor(() => expect(linesIn(file)).toBe(2));
    expect(linesIn(`${file}.1`)).toBe(1);
    open(file).write(SOLD);
    await vi.waitFor(() => expect(linesIn(file)).toBe(3));
  });

  test("is refused where it cannot be opened, and told about where it cannot be written", async () => {
    expect(() => open(folder())).toThrow("EISDIR");
    const pipe = join(folder(), "pipe");
    execFileSync(MAKE_PIPE, [pipe]);
    expect(() => open(pipe)).toThrow("ENXIO");
    const lost: (Error | undefined)[] = [];
    open("/dev/full", (cause) => void lost.push(cause)).write(SOLD);
    await vi.waitFor(() => expect(lost[0]).toMatchObject({ code: "ENOSPC" }));
  });

  test("holds nobody up where nobody reads it: lines are left out, and counted", async () => {
    const pipe = join(folder(), "pipe");
    execFileSync(MAKE_PIPE, [pipe]);
    // Whoever opens the other end alone would wait.
    const end = openSync(pipe, "r+");
    let lost = 0;
    const log = open(pipe, () => void (lost += 1));
    const count = 60_000;
    const began = performance.now();
    for (let written = 0; written < count; written += 1) log.write(SOLD);
    expect(performance.now() - began).toBeLessThan(10_000);
    const size = Buffer.byteLength(lineOf(SOLD, "json"));
    const waiting = count - lost;
    expect(lost).toBeGreaterThan(0);
    // What waits is bounded: eight megabytes, beside what the pipe holds.
    expect(waiting * size).toBeLessThan(9 * 1024 * 1024);
    // And comes when somebody reads.
    let read = 0;
    const reader = createReadStream("", { fd: end, autoClose: false });
    reader.on("data", (chunk) => void (read += chunk.length));
    await vi.waitUntil(() => read === waiting * size, { timeout: 20_000 });
    // Its last read waits for more.
    log.write(SOLD);
    reader.destroy();
  });
});
