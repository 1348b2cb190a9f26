import type { ServerResponse } from "node:http";
import { describe, expect, test, vi } from "vitest";
import { RequestRefused } from "../../../src/payments/facilitator.ts";
import { faultOf } from "../../support/fault-of.ts";
import {
  startScriptedFacilitator,
  type FacilitatorReply,
} from "../../support/scripted-facilitator.ts";
import { exampleRequest, PAYER, TRANSACTION } from "../payments/settlement/example-request.ts";
import { failed, openRemote, samplesOf, settle, stage, success, verify } from "./remote-stage.ts";

describe("a settlement", () => {
  test.each([200, 400, 500])("is read from the body of a %i", async (status) => {
    const yes = await stage({ status, body: success });
    expect(await settle(yes)).toEqual(success);
    const no = await stage({ status, body: { ...failed, errorReason: "insufficient_funds" } });
    expect(await settle(no)).toMatchObject({ ...failed, errorReason: "insufficient_funds" });
  });

  test("is told in our own words for network and payer", async () => {
    const body = { success: true, transaction: TRANSACTION, network: "eip155:84532" };
    const opened = await stage({ status: 200, body });
    expect(await settle(opened)).toEqual(success);
  });

  test.each([
    ["errorReason", "settle_exact_failed_onchain"],
    ["error_reason", "invalid_exact_evm_payload_authorization_from_address_kyt"],
    ["error", "The payer is blacklisted."],
  ])("refused for a reason of its own in %s is refused with it as detail", async (name, reason) => {
    const opened = await stage({ status: 400, body: { success: false, [name]: reason } });
    expect(await settle(opened)).toEqual({
      ...failed,
      errorReason: "invalid_transaction_state",
      detail: expect.stringContaining(reason),
    });
  });

  test("that was reverted on chain is a failure, whatever its hash", async () => {
    const reason = { errorReason: "invalid_transaction_state", transaction: TRANSACTION };
    const opened = await stage({ status: 200, body: { ...failed, ...reason } });
    expect(await settle(opened)).toMatchObject({
      ...failed,
      errorReason: "invalid_transaction_state",
    });
  });

  test.each<[string, number, object]>([
    ["is still pending", 500, { errorReason: "settlement_pending", transaction: TRANSACTION }],
    ["is still pending", 200, { errorReason: "settlement_pending", transaction: "" }],
    ["timed out", 200, { errorReason: "settle_exact_svm_transaction_confirmation_timed_out" }],
    ["timed out", 200, { errorReason: "confirmation timeout" }],
    ["met a failing node", 200, { errorReason: "settle_exact_node_failure" }],
    ["has a hash and an unknown reason", 200, { errorReason: "oops", transaction: TRANSACTION }],
    ["broke with a reason of its own", 500, { errorReason: "internal error" }],
    ["broke with a reason of its own", 503, { error_reason: "overloaded" }],
    ["broke", 500, { errorReason: "unexpected_settle_error" }],
    ["broke", 200, { errorReason: "unexpected_settle_error", detail: "RPC" }],
    ["could not be judged", 200, { errorReason: "unexpected_verify_error" }],
  ])("that %s (%i) is unknown, not failed", async (_, status, reason) => {
    const opened = await stage({ status, body: { ...failed, ...reason } });
    const fault = await faultOf(settle(opened));
    expect(fault).toMatchObject({ kind: "unknown", code: "unexpected_settle_error" });
  });

  test.each<[string, FacilitatorReply]>([
    ["answers 500 without a body", { status: 500 }],
    ["answers 502 with HTML", { status: 502, body: "<html>Bad Gateway</html>" }],
    ["answers 504", { status: 504, body: {} }],
    ["answers 400 without one", { status: 400, body: { error: "Invalid request" } }],
    ["answers 408", { status: 408 }],
    ["answers 409", { status: 409 }],
    ["answers 422 without one", { status: 422, body: { error: "Unprocessable" } }],
    ["answers 200 without a settlement", { status: 200, body: {} }],
    ["answers 200 with half a body", { status: 200, body: '{"success":tr' }],
    ["tells no transaction", { status: 200, body: { success: true, payer: PAYER } }],
    ["tells an empty transaction", { status: 200, body: { ...success, transaction: "" } }],
    ["tells a number for a transaction", { status: 200, body: { ...success, transaction: 7 } }],
    ["answers success as text", { status: 200, body: { ...success, success: "true" } }],
    ["breaks the connection", { raw: (response) => void response.destroy() }],
    [
      "breaks off in the body",
      {
        raw(response) {
          response.writeHead(200, { "Content-Length": 1_000 });
          response.write('{"success":');
          response.socket?.end();
        },
      },
    ],
    ["answers more than is read", { status: 200, body: { ...success, note: "x".repeat(300_000) } }],
    ["redirects", { status: 307, location: "http://127.0.0.1:1/settle" }],
  ])("is unknown when the facilitator %s", async (_, reply) => {
    const opened = await stage(reply);
    const fault = await faultOf(settle(opened));
    expect(fault).toMatchObject({ kind: "unknown", code: "unexpected_settle_error" });
    expect(opened.scripted.calls.length).toBe(1);
  });

  test("may have been made where there is no place for a call: something on the way may have sent two", async () => {
    const crowded = { ...failed, errorReason: "unexpected_settle_error" };
    const opened = await stage({ status: 503, body: crowded });
    opened.remote.word.record({ finalRefusals: ["base-sepolia"] }, 0);
    expect(await faultOf(settle(opened))).toMatchObject({ kind: "unknown" });
  });

  test.each([400, 413, 422])(
    "may be odd where it is answered %i: that is told apart",
    async (status) => {
      const opened = await stage({ status, body: { error: "no" } });
      expect(await faultOf(settle(opened))).toBeInstanceOf(RequestRefused);
      expect(await faultOf(verify(opened))).toBeInstanceOf(RequestRefused);
    },
  );

  test("is unknown when no answer comes in time", async () => {
    const opened = await stage({ raw: () => {} }, { timeoutMs: 50 });
    expect(await faultOf(settle(opened))).toMatchObject({ kind: "unknown" });
    expect(opened.scripted.calls.length).toBe(1);
  });

  test("is unknown when the caller's time is up first", async () => {
    const asked = Promise.withResolvers<void>();
    const opened = await stage({ raw: () => asked.resolve() });
    const caller = new AbortController();
    const settling = faultOf(opened.remote.settle(exampleRequest, { signal: caller.signal }));
    await asked.promise;
    caller.abort();
    expect(await settling).toMatchObject({ kind: "unknown" });
  });

  test.each([401, 403, 404, 405, 413, 429])(
    "was not begun where the facilitator answers %i without one",
    async (status) => {
      const opened = await stage({ status, body: { error: "no" } });
      const fault = await faultOf(settle(opened));
      expect(fault).toMatchObject({ kind: "unavailable", code: "unexpected_settle_error" });
    },
  );

  test.each(["127.0.0.1", "localhost", "[::1]"])(
    "reaches nobody where nobody listens on %s",
    async (host) => {
      const scripted = await startScriptedFacilitator(() => ({ status: 200 }));
      await scripted.close();
      const { remote } = openRemote(`http://${host}:${new URL(scripted.url).port}`);
      expect(await faultOf(settle({ remote }))).toMatchObject({
        kind: "unreachable",
        code: "unexpected_settle_error",
      });
      expect(await faultOf(verify({ remote }))).toMatchObject({ kind: "unavailable" });
    },
  );
});

describe("a settlement that never left", () => {
  const unreachable = { kind: "unreachable", code: "unexpected_settle_error" } as const;

  test("is unreachable when the caller's time was up before it could be sent", async () => {
    const opened = await stage({ status: 200, body: success });
    const settling = opened.remote.settle(exampleRequest, { signal: AbortSignal.abort() });
    expect(await faultOf(settling)).toMatchObject(unreachable);
    expect(opened.scripted.calls).toEqual([]);
  });

  test("is unreachable when it waited for a connection, and is not sent afterwards", async () => {
    const held: ServerResponse[] = [];
    const opened = await stage({ raw: (response) => void held.push(response) });
    // More than there are connections.
    const before = Array.from({ length: 96 }, () => settle(opened).catch(() => undefined));
    await vi.waitFor(() => expect(held.length).toBe(88));
    const caller = new AbortController();
    const last = faultOf(opened.remote.settle(exampleRequest, { signal: caller.signal }));
    caller.abort();
    expect(await last).toMatchObject(unreachable);
    for (const response of held.splice(0)) response.end(JSON.stringify(success));
    await vi.waitFor(() => expect(held.length).toBe(8));
    for (const response of held) response.end(JSON.stringify(success));
    await Promise.all(before);
    expect(opened.scripted.calls.length).toBe(96);
  });

  test("is unreachable where the other side speaks no TLS", async () => {
    const opened = await stage({ status: 200, body: success });
    const { remote } = openRemote(opened.scripted.url.replace("http:", "https:"));
    expect(await faultOf(settle({ remote }))).toMatchObject(unreachable);
    expect(opened.scripted.calls).toEqual([]);
  });

  test("is unreachable after the connections were closed", async () => {
    const opened = await stage({ status: 200, body: success });
    await opened.remote.close();
    expect(await faultOf(settle(opened))).toMatchObject(unreachable);
  });
});

describe("the metrics", () => {
  test.each<[string, FacilitatorReply]>([
    ['result="settled",code=""', { status: 200, body: success }],
    [
      'result="failed",code="insufficient_funds"',
      { status: 200, body: { success: false, errorReason: "insufficient_funds" } },
    ],
    ['result="unknown",code="unexpected_settle_error"', { status: 500 }],
    ['result="unavailable",code="unexpected_settle_error"', { status: 429 }],
  ])("count a settlement as %s", async (labels, reply) => {
    const opened = await stage(reply);
    await settle(opened).catch(() => undefined);
    expect(await samplesOf(opened.metrics, "coinslot_settlements_total")).toEqual([
      `coinslot_settlements_total{network="base-sepolia",${labels}} 1`,
    ]);
  });
});
