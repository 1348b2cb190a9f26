/** How many may call `/verify` and `/settle` at a time, and who is told that there is no place. */
import { connect } from "node:net";
import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { BODY_TIMEOUT_MS } from "../../../src/facilitator/called-request.ts";
import { MAX_CALLS, MAX_HANDED_OVER } from "../../../src/facilitator/caller-places.ts";
import { Callers } from "../../../src/facilitator/callers.ts";
import { ask, good, stage, type Stage, type StageOptions } from "./endpoints-stage.ts";
import { PAYER } from "../payments/settlement/example-request.ts";
import type { SettleResponse } from "../../../src/x402/x402.ts";

const BEARER = "shared by several";
const GATEWAY = "of a gateway";
const callers = new Callers([
  { gateway: null, bearer: BEARER },
  { gateway: "shop", bearer: GATEWAY },
]);
const shown = (bearer: string) => ({ Authorization: `Bearer ${bearer}` });

/**
 * A stage whose calls wait until the test lets them go on; from as many addresses as there are calls. `signals`: what
 * ends the work of each.
 */
async function waiting(options: StageOptions = {}) {
  const go = Promise.withResolvers<void>();
  const signals: AbortSignal[] = [];
  let addresses = 0;
  const at = await stage({
    callers,
    addressOf: () => `192.0.2.${addresses++}`,
    facilitator: {
      async verify(_, signal) {
        signals.push(signal);
        await go.promise;
        return { isValid: true, payer: PAYER };
      },
      async settle(_, { signal }) {
        signals.push(signal);
        await go.promise;
        return { success: true, transaction: "0x01", network: "base-sepolia", payer: PAYER };
      },
    },
    ...options,
  });
  return { at, go, signals };
}

/** All places but those of the gateways; resolves when the facilitator has been asked for each of them. */
async function fill(at: Stage): Promise<Promise<unknown>[]> {
  const calls = Array.from({ length: MAX_CALLS }, () =>
    ask(at, "/settle", { body: good, headers: shown(BEARER) }),
  );
  await expect.poll(() => at.asked.length, { timeout: 20_000 }).toBe(MAX_CALLS);
  return calls;
}

describe("where all places are taken", { timeout: 30_000 }, () => {
  test("the next is told at once, in the shape of its endpoint, and nothing of it is read", async () => {
    const { at, go } = await waiting();
    const calls = await fill(at);
    const body = "no JSON at all";
    const settled = await ask(at, "/settle", { body, headers: shown(BEARER) });
    const detail = expect.stringContaining("no money moved");
    const failed = { errorReason: "unexpected_settle_error", transaction: "", network: "" };
    expect(settled).toMatchObject({ status: 503, headers: { "retry-after": "2" } });
    expect(settled.body).toEqual({ success: false, ...failed, payer: "", detail });
    const verified = await ask(at, "/verify", { body, headers: shown(BEARER) });
    const invalidReason = "unexpected_verify_error";
    expect(verified).toMatchObject({ status: 503, headers: { "retry-after": "2" } });
    expect(verified.body).toEqual({ isValid: false, invalidReason, payer: "", detail });
    go.resolve();
    await Promise.all(calls);
    expect(await ask(at, "/settle", { body: good, headers: shown(BEARER) })).toMatchObject({
      status: 200,
    });
  });

  test.each(["/verify", "/settle"])(
    "who leaves makes room once what it asked for is done: %s",
    async (path) => {
      const { at, go, signals } = await waiting();
      const leaving = connect(at.port, "127.0.0.1");
      const lines = [
        "Host: a",
        "Content-Type: application/json",
        `Authorization: Bearer ${BEARER}`,
      ];
      const head = `POST ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n`;
      const body = JSON.stringify(good);
      leaving.write(`${head}Content-Length: ${body.length}\r\n\r\n${body}`);
      await expect.poll(() => at.asked.length).toBe(1);
      const calls = Array.from({ length: MAX_CALLS - 1 }, () =>
        ask(at, "/settle", { body: good, headers: shown(BEARER) }),
      );
      await expect.poll(() => at.asked.length, { timeout: 20_000 }).toBe(MAX_CALLS);
      const next = () => ask(at, "/settle", { body: "no JSON", headers: shown(BEARER) });
      expect(await next()).toMatchObject({ status: 503 });
      leaving.destroy();
      // By the second one the listener has read that it left.
      for (let times = 0; times < 3; times += 1) expect((await next()).status).toBe(503);
      expect(signals[0]?.aborted).toBe(false);
      go.resolve();
      await Promise.all(calls);
      await expect.poll(async () => (await next()).status).toBe(400);
    },
  );

  test("a gateway with a token of its own has places that nobody else takes", async () => {
    const { at, go } = await waiting();
    const calls = await fill(at);
    const call = ask(at, "/settle", { body: good, headers: shown(GATEWAY) });
    await expect.poll(() => at.asked.length).toBe(MAX_CALLS + 1);
    go.resolve();
    expect(await call).toMatchObject({ status: 200 });
    await Promise.all(calls);
  });
});

test("settlements for a facilitator elsewhere are handed over a few at a time", async () => {
  const go = Promise.withResolvers<SettleResponse>();
  let handed = 0;
  const at = await stage({
    facilitator: {
      async settle(_, { inTurn, signal }) {
        const work = (): Promise<SettleResponse> => {
          handed += 1;
          return go.promise;
        };
        return inTurn?.(work, signal) ?? work();
      },
    },
  });
  const calls = Array.from({ length: MAX_HANDED_OVER + 5 }, () =>
    ask(at, "/settle", { body: good }),
  );
  await expect.poll(() => at.asked.length).toBe(MAX_HANDED_OVER + 5);
  expect(handed).toBe(MAX_HANDED_OVER);
  go.resolve({ success: true, transaction: "0x01", network: "base-sepolia", payer: PAYER });
  expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(calls.map(() => 200));
  expect(handed).toBe(MAX_HANDED_OVER + 5);
});

test.each([
  ["that is as long as it likes", "Transfer-Encoding: chunked", "close"],
  ["that is too long", "Content-Length: 100000", "close"],
  ["that is dropped", "Content-Length: 100", "keep-alive"],
])("whose call is refused before its body %s, has its connection: %s", async (_, line, said) => {
  const at = await stage({ callers });
  const socket = connect(at.port, "127.0.0.1");
  const head = "POST /settle HTTP/1.1\r\nHost: a\r\nContent-Type: application/json";
  socket.write(`${head}\r\n${line}\r\n\r\n`);
  const [answer] = await once(socket, "data");
  expect(String(answer)).toContain("401 Unauthorized");
  expect(String(answer)).toContain(`Connection: ${said}`);
  socket.destroy();
});

test("a body that does not end gives its place back", { timeout: 20_000 }, async () => {
  const at = await stage();
  const socket = connect(at.port, "127.0.0.1");
  const head = "POST /settle HTTP/1.1\r\nHost: a\r\nContent-Type: application/json";
  socket.write(`${head}\r\nContent-Length: 100\r\n\r\n{`);
  const [answer] = await once(socket, "data");
  expect(String(answer)).toContain("400 Bad Request");
  expect(String(answer)).toContain(`more than ${BODY_TIMEOUT_MS / 1_000} s`);
  socket.destroy();
});
