import { setImmediate } from "node:timers/promises";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createLogger } from "../../../src/telemetry/logger.ts";
import {
  contextOfPayments,
  currentContext,
  exemplarOf,
  formatTraceParent,
  forNobody,
  inContext,
  newTraceParent,
  notePayment,
  otherTraces,
  parseTraceParent,
  paymentId,
  readContext,
  rememberPayment,
  type RequestContext,
} from "../../../src/telemetry/request-context.ts";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const SPAN_ID = "b7ad6b7169203331";

function contextOf(requestId: string, isTraced = true): RequestContext {
  const trace = { ...newTraceParent(), traceId: TRACE_ID };
  return { facts: { requestId, payment: null }, trace: isTraced ? trace : null };
}

function openLog() {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const logger = createLogger({ level: "info", format: "json", destination });
  const read = () =>
    lines.map((line) => {
      const { level, time, msg, ...facts } = JSON.parse(line);
      return [typeof level, typeof time, typeof msg].join() === "string,string,string" && facts;
    });
  return { logger, read };
}

describe("traceparent", () => {
  test.each([
    `00-${TRACE_ID}-${SPAN_ID}-00`,
    `00-${TRACE_ID}-${SPAN_ID}-01`,
    `00-${TRACE_ID}-${SPAN_ID}-ff`,
    // Later versions: what is known of them is read.
    `01-${TRACE_ID}-${SPAN_ID}-01`,
    `cc-${TRACE_ID}-${SPAN_ID}-01-what-the-future-will-be-like`,
  ])("is read where it is valid: %s", (text) => {
    const [, traceId, spanId, flags] = text.split("-");
    expect(parseTraceParent(text)).toEqual({ traceId, spanId, flags });
  });

  test.each([
    "",
    "00",
    `ff-${TRACE_ID}-${SPAN_ID}-01`,
    `00-${TRACE_ID}-${SPAN_ID}-01-more`,
    `00-${TRACE_ID}-${SPAN_ID}-01-`,
    `00-${TRACE_ID}-${SPAN_ID}-1`,
    `00-${TRACE_ID}-${SPAN_ID}`,
    `00-${"0".repeat(32)}-${SPAN_ID}-01`,
    `00-${TRACE_ID}-${"0".repeat(16)}-01`,
    `00-${TRACE_ID.toUpperCase()}-${SPAN_ID}-01`,
    `0-${TRACE_ID}-${SPAN_ID}-01`,
    `00-${TRACE_ID}0-${SPAN_ID}-01`,
    ` 00-${TRACE_ID}-${SPAN_ID}-01`,
    `00-${TRACE_ID}-${SPAN_ID}-01, 00-${TRACE_ID}-${SPAN_ID}-01`,
  ])("is refused where it is not: %j", (text) => {
    expect(parseTraceParent(text)).toBeNull();
  });

  test("never throws, and what it reads is written as it came", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const read = parseTraceParent(text);
        return read === null || formatTraceParent(read).slice(2) === text.slice(2, 55);
      }),
    );
    for (let count = 0; count < 100; count += 1) {
      const made = newTraceParent();
      expect(parseTraceParent(formatTraceParent(made))).toEqual(made);
    }
  });
});

describe("the context of a request", () => {
  test("follows what is awaited for it, and nothing else", async () => {
    const seen = await Promise.all(
      ["one", "two"].map((id) =>
        inContext(contextOf(id), async () => {
          await setImmediate();
          return currentContext()?.facts?.requestId;
        }),
      ),
    );
    expect(seen).toEqual(["one", "two"]);
    expect(currentContext()).toBeUndefined();
    inContext(contextOf("one"), () => forNobody(() => expect(currentContext()).toBeUndefined()));
  });

  test("crosses to another process as plain values, and nonsense does not", () => {
    const context = contextOf("one");
    expect(readContext(structuredClone(context))).toEqual(context);
    expect(readContext(structuredClone(contextOf("two", false)))).toEqual(contextOf("two", false));
    for (const value of [undefined, null, 1, {}, { facts: {} }, { facts: { requestId: 1 } }]) {
      expect(readContext(value)).toBeUndefined();
    }
    const trace = { traceId: "x", spanId: SPAN_ID, flags: "01" };
    expect(readContext({ facts: { requestId: "a" }, trace })?.trace).toBeNull();
  });

  test("makes exemplars of what can be looked up", () => {
    expect(exemplarOf(undefined)).toBeUndefined();
    expect(exemplarOf(contextOf("one", false))).toBeUndefined();
    const facts = { requestId: "one", payment: "base/a" };
    const { trace } = contextOf("one");
    const payment = `payment_id="${paymentId("base/a")}"`;
    expect(exemplarOf({ facts, trace })).toBe(`trace_id="${TRACE_ID}",${payment}`);
    expect(exemplarOf({ facts, trace: null })).toBe(payment);
    // OpenMetrics 1.0.0: no more than 128 characters, names and values together.
    expect(exemplarOf({ facts, trace })?.length).toBeLessThan(128);
  });
});

describe("log lines", () => {
  test("carry the ids of their request, and its payment from where it is known", () => {
    const { logger, read } = openLog();
    logger.info("before");
    inContext(contextOf("one"), () => {
      logger.info("asked");
      notePayment("base/a");
      logger.info({ route: "GET /" }, "paid");
    });
    const ids = { requestId: "one", traceId: TRACE_ID };
    expect(read()).toEqual([
      {},
      ids,
      { ...ids, payment: paymentId("base/a"), key: "base/a", route: "GET /" },
    ]);
  });

  test("that name a payment carry the ids of the request that brought it, whoever writes them", () => {
    const { logger, read } = openLog();
    inContext(contextOf("one"), () => rememberPayment("base/one"));
    inContext(contextOf("two", false), () => rememberPayment("base/two"));
    inContext(contextOf("one"), () => {
      notePayment("base/one");
      logger.info({ key: "base/two" }, "settled");
    });
    logger.info({ key: "base/one" }, "settled");
    logger.info({ key: "base/nobody's" }, "settled");
    expect(read()).toEqual([
      { requestId: "two", payment: paymentId("base/two"), key: "base/two" },
      { requestId: "one", traceId: TRACE_ID, payment: paymentId("base/one"), key: "base/one" },
      { payment: paymentId("base/nobody's"), key: "base/nobody's" },
    ]);
  });
});

describe("payments that go on without their requests", () => {
  test("are worked on under the request that brought them, several under the trace of the first", () => {
    const [one, two] = [contextOf("one"), contextOf("two")];
    inContext(one, () => rememberPayment("base/1"));
    inContext(two, () => rememberPayment("base/2"));
    expect(contextOfPayments(["base/1"])).toBe(one);
    expect(contextOfPayments(["base/unknown"])).toBeUndefined();
    expect(contextOfPayments(["base/unknown", "base/none"])).toBeUndefined();
    const both = contextOfPayments(["base/unknown", "base/2", "base/1"]);
    expect(both).toEqual({ facts: null, trace: two.trace });
    expect(otherTraces(["base/2", "base/unknown", "base/1"])).toEqual([one.trace]);
  });

  test("are forgotten, oldest first, when there are too many", () => {
    inContext(contextOf("old"), () => rememberPayment("base/oldest"));
    for (let count = 0; count < 4_096; count += 1) {
      inContext(contextOf("new"), () => rememberPayment(`base/new-${count}`));
    }
    expect(contextOfPayments(["base/oldest"])).toBeUndefined();
    expect(contextOfPayments(["base/new-0"])).toBeDefined();
  });
});
