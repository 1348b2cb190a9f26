/** A payment is presented until its fate is known; servers are real, pauses are only counted. */
import { createServer, type RequestListener } from "node:http";
import { afterEach, beforeEach, expect, test } from "vitest";
import { BoughtAnswerSink } from "../../../src/buyer/answer-sink.ts";
import { present, type PresentedOnce } from "../../../src/buyer/presentation.ts";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import type { Time } from "../../../src/time/time.ts";

let closing: AsyncDisposableStack;
let pauses: number[];
let written: string;

beforeEach(() => {
  closing = new AsyncDisposableStack();
  [pauses, written] = [[], ""];
});

afterEach(() => closing.disposeAsync());

const time: Time = {
  now: () => 0,
  sleep: async (ms) => void pauses.push(ms),
  timeout: () => new AbortController().signal,
};

async function presentTo(
  listener: RequestListener,
  signal = new AbortController().signal,
): Promise<PresentedOnce & { readonly asked: number }> {
  let asked = 0;
  const server = createServer((request, response) => {
    asked += 1;
    listener(request, response);
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(server, AbortSignal.abort()));
  const presented = await presentAt(port, signal);
  return { ...presented, asked };
}

function presentAt(port: number, signal: AbortSignal): Promise<PresentedOnce> {
  const url = new URL(`http://127.0.0.1:${port}/`);
  return present({
    request: { url, method: "GET", headers: [], body: null },
    payment: { version: 1, value: "abc" },
    sink: new BoughtAnswerSink(async (bytes) => void (written += Buffer.from(bytes).toString())),
    onHead: async () => undefined,
    onRepeat: () => undefined,
    silenceMs: 5_000,
    time,
    signal,
  });
}

function header(success: boolean): string {
  const receipt = { success, transaction: "", network: "base", payer: "0x1", errorReason: "why" };
  return Buffer.from(JSON.stringify(receipt)).toString("base64");
}

test("a server that says `not now` is asked five times, as late as it wants up to half a minute", async () => {
  const waits = ["2", "600", "Sun, 22 Nov 2026 00:00:00 GMT"];
  const presented = await presentTo((_, response) => {
    response.writeHead(503, { "Retry-After": waits.shift() ?? "0" }).end('{"error":"busy"}');
  });
  expect(presented).toMatchObject({ kind: "unserved", status: 503, asked: 5 });
  expect(pauses).toEqual([2_000, 30_000, 6_000, 12_000]);
  expect(written).toBe('{"error":"busy"}');
});

test("a success that was told outlives the refusals behind it", async () => {
  let answers = 0;
  const presented = await presentTo((_, response) => {
    answers += 1;
    if (answers === 1) response.writeHead(502, { "X-PAYMENT-RESPONSE": header(true) });
    else response.writeHead(402, { "X-PAYMENT-RESPONSE": header(false) });
    response.end();
  });
  expect(presented).toMatchObject({ kind: "unserved", status: 402, receipt: { success: true } });
});

test("a refusal with its receipt is believed, after an answer that was lost as well", async () => {
  let answers = 0;
  const presented = await presentTo((request, response) => {
    answers += 1;
    if (answers === 1) return void request.socket.destroy();
    response.writeHead(402, { "X-PAYMENT-RESPONSE": header(false) }).end('{"error":"no"}');
  });
  expect(presented).toMatchObject({ kind: "refused", status: 402, reason: "402: no" });
});

test("what reached nobody was not paid", async () => {
  const server = createServer();
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  await drain(server, AbortSignal.abort());
  const presented = await presentAt(port, new AbortController().signal);
  expect(presented).toMatchObject({ kind: "refused", status: null, receipt: null });
  expect(presented.reason).toContain("nothing listens there");
});

test("whoever interrupts it while the server works does not know whether it was paid", async () => {
  const stop = new AbortController();
  const presented = await presentTo(() => stop.abort(), stop.signal);
  expect(presented).toMatchObject({
    kind: "unserved",
    reason: expect.stringMatching("interrupted"),
  });
  expect(presented.asked).toBe(1);
});

test("another fault of the request is passed on and not repeated", async () => {
  const presented = await presentTo((_, response) => response.writeHead(400).end("bad"));
  expect(presented).toMatchObject({ kind: "refused", status: 400, asked: 1 });
  expect(written).toBe("bad");
});
