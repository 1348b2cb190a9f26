/** A request at sellers that answer without an end. */
import { once } from "node:events";
import { createServer } from "node:http";
import { afterEach, beforeEach, expect, test } from "vitest";
import { HttpErrand } from "../../../../src/buyer/agent/http-errand.ts";
import { MAX_ANSWER_BYTES, MAX_READ_BYTES } from "../../../../src/buyer/agent/told-answer.ts";
import { drain, listen } from "../../../../src/gateway/listener/listener.ts";

let closing: AsyncDisposableStack;

beforeEach(() => {
  closing = new AsyncDisposableStack();
});

afterEach(() => closing.disposeAsync());

test("so much is read of what has no end, and then the connection ends", async () => {
  const left: Promise<unknown>[] = [];
  const part = Buffer.alloc(1024 * 1024, "a");
  const server = createServer((_, response) => {
    left.push(once(response, "close"));
    response.writeHead(200, { "Content-Type": "text/plain" });
    const say = (): void => void response.write(part, (fault) => fault ?? say());
    say();
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(server, AbortSignal.abort()));
  const url = new URL(`http://127.0.0.1:${port}/`);
  const errand = new HttpErrand({ url, method: "GET", headers: [], body: null }, 60_000);
  const { signal } = new AbortController();
  const asked = await errand.ask(signal);
  const paid = await errand.present({
    payment: { version: 1, value: "e30=" },
    wasSent: false,
    session: null,
    onSession: () => undefined,
    signal,
  });
  expect(asked).toMatchObject({ ok: true, value: { answer: { isCut: true } } });
  expect(paid).toMatchObject({ kind: "served", answer: { isCut: true } });
  for (const answer of [
    asked.ok && asked.value.kind === "answer" && asked.value.answer,
    paid.answer,
  ]) {
    const { bytes, body } = Object(answer);
    expect(bytes).toBeGreaterThanOrEqual(MAX_READ_BYTES);
    expect(bytes).toBeLessThan(MAX_READ_BYTES + part.length);
    expect(body).toHaveLength(MAX_ANSWER_BYTES);
  }
  await Promise.all(left);
  expect(left).toHaveLength(2);
}, 30_000);
