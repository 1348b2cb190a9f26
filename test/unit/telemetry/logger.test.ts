import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import { createLogger, type LogLevel } from "../../../src/telemetry/logger.ts";

const SECRET = "0xsecret";
const SECRETS = [
  "signature",
  "payload",
  "paymentPayload",
  "raw",
  "privateKey",
  "authorization",
  "Authorization",
  "x-payment",
  "X-PAYMENT",
];

function open(level: LogLevel = "trace") {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  return { logger: createLogger({ level, format: "json", destination }), lines };
}

const parsed = (lines: readonly string[]) => lines.map((line): unknown => JSON.parse(line));

describe("a log line", () => {
  test("is one JSON object with its level as a word and its time in ISO 8601", () => {
    const { logger, lines } = open();
    logger.info({ network: "base" }, 'two\nlines and "quotes"');
    expect(lines.length).toBe(1);
    expect(lines[0]?.endsWith("\n")).toBe(true);
    expect(lines[0]?.indexOf("\n")).toBe((lines[0]?.length ?? 0) - 1);
    expect(parsed(lines)).toEqual([
      {
        level: "info",
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        network: "base",
        msg: 'two\nlines and "quotes"',
      },
    ]);
  });

  test("can be parsed whatever was logged", () => {
    const { logger, lines } = open();
    const loop: Record<string, unknown> = { name: "loop" };
    loop["self"] = loop;
    const odd = ["\u0000\u2028\ud800", -0, Number.NaN, undefined, null, new Map([[1, 2]]), loop];
    for (const value of odd) logger.warn({ value }, "odd");
    logger.error({ err: new Error("broken", { cause: new TypeError("inner") }) }, "failed");
    expect(parsed(lines).length).toBe(odd.length + 1);
    expect(parsed(lines).at(-1)).toMatchObject({
      level: "error",
      err: { type: "Error", message: expect.stringContaining("inner") },
    });
  });

  test("carries what its child logger was given", () => {
    const { logger, lines } = open();
    logger.child({ network: "base" }).debug("sent");
    expect(parsed(lines)).toMatchObject([{ level: "debug", network: "base", msg: "sent" }]);
  });
});

describe("a secret", () => {
  test.each(SECRETS)("named %s is redacted at the top and one level deep", (name) => {
    const { logger, lines } = open();
    logger.info({ [name]: SECRET, kept: "yes" }, "top");
    logger.info({ headers: { [name]: SECRET, kept: "yes" } }, "deep");
    logger.info({ request: { [name]: { signature: SECRET } } }, "an object");
    expect(lines.join("")).not.toContain(SECRET);
    expect(parsed(lines)).toMatchObject([
      { [name]: "[redacted]", kept: "yes" },
      { headers: { [name]: "[redacted]", kept: "yes" } },
      { request: { [name]: "[redacted]" } },
    ]);
  });

  test.each(SECRETS)("named %s is redacted in a child logger and in an error", (name) => {
    const { logger, lines } = open();
    logger.child({ [name]: SECRET }).info("top");
    logger.child({ request: { [name]: SECRET } }).info("deep");
    logger.error({ err: Object.assign(new Error("failed"), { [name]: SECRET }) }, "error");
    expect(lines.length).toBe(3);
    expect(lines.join("")).not.toContain(SECRET);
  });

  test.each(SECRETS)("named %s is redacted for people, too", async (name) => {
    const written = Promise.withResolvers<void>();
    let text = "";
    const destination = new PassThrough({ encoding: "utf8" }).on("data", (part: string) => {
      text += part;
      if (text.includes("good-bye")) written.resolve();
    });
    const logger = createLogger({ level: "info", format: "pretty", destination });
    logger.info({ [name]: SECRET, headers: { [name]: SECRET } }, "hello");
    logger.info("good-bye");
    await written.promise;
    expect(text).toContain("hello");
    expect(text).not.toContain(SECRET);
  });

  test("does not change the object that it was in", () => {
    const { logger } = open();
    const headers = { "x-payment": SECRET };
    logger.info({ headers, privateKey: SECRET }, "hello");
    expect(headers).toEqual({ "x-payment": SECRET });
  });
});

describe("a level", () => {
  test("lets itself and what is graver through", () => {
    const { logger, lines } = open("warn");
    for (const level of ["trace", "debug", "info", "warn", "error", "fatal"] as const) {
      logger[level](level);
    }
    expect(parsed(lines)).toMatchObject([{ msg: "warn" }, { msg: "error" }, { msg: "fatal" }]);
  });

  test("of silent writes nothing and looks at nothing", () => {
    const { logger, lines } = open("silent");
    const untouchable = {
      get network(): string {
        throw new Error("was read");
      },
    };
    for (const level of ["trace", "debug", "info", "warn", "error", "fatal"] as const) {
      logger[level](untouchable, level);
      logger.child({ child: true })[level](untouchable, level);
    }
    expect(lines).toEqual([]);
  });
});
