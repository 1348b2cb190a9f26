import type { ServerResponse } from "node:http";
import { setImmediate } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { ERROR_CODES } from "../../../src/x402/error-code.ts";
import { faultOf } from "../../support/fault-of.ts";
import type { FacilitatorReply } from "../../support/scripted-facilitator.ts";
import { exampleRequest, PAYER } from "../payments/settlement/example-request.ts";
import { openRemote, samplesOf, settle, soon, stage, success, verify } from "./remote-stage.ts";

describe("what is sent", () => {
  test.each(["/verify", "/settle"])(
    "to %s is the request with its version on top",
    async (path) => {
      const opened = await stage({
        status: 200,
        body: { ...success, isValid: true, payer: PAYER },
      });
      await (path === "/verify" ? verify(opened) : settle(opened));
      const [call] = opened.scripted.calls;
      expect(call).toMatchObject({ method: "POST", url: path });
      expect(call?.headers).toMatchObject({
        "content-type": "application/json",
        "accept-encoding": "identity",
        accept: "application/json",
      });
      expect(JSON.parse(call?.body ?? "")).toEqual({ x402Version: 1, ...exampleRequest });
    },
  );

  test.each(["/v2/x402", "/v2/x402/"])("goes below the base path %s", async (path) => {
    const opened = await stage(
      { status: 200, body: { kinds: [], isValid: true, ...success } },
      { path },
    );
    await verify(opened);
    await settle(opened);
    await opened.remote.supported(soon());
    expect(opened.scripted.calls.map(({ method, url }) => `${method} ${url}`)).toEqual([
      "POST /v2/x402/verify",
      "POST /v2/x402/settle",
      "GET /v2/x402/supported",
    ]);
  });

  test("carries the configured headers with every call", async () => {
    const opened = await stage(
      { status: 200, body: { kinds: [], isValid: true, ...success } },
      { headers: { Authorization: "Bearer secret", "X-Tenant": "shop" } },
    );
    await verify(opened);
    await settle(opened);
    await opened.remote.supported(soon());
    for (const { headers } of opened.scripted.calls) {
      expect(headers).toMatchObject({ authorization: "Bearer secret", "x-tenant": "shop" });
    }
  });

  test("goes over the connection that is there", async () => {
    const sockets = new Set<unknown>();
    const raw = (response: ServerResponse): void => {
      sockets.add(response.socket);
      response.end(JSON.stringify({ ...success, isValid: true, kinds: [] }));
    };
    const opened = await stage({ raw });
    for (const ask of [verify, settle, verify, settle]) {
      await ask(opened);
      // A connection is not used again in the turn in which its last answer ended.
      await setImmediate();
    }
    expect(sockets.size).toBe(1);
  });

  test("carries an idempotency key with every settlement, and with nothing else", async () => {
    const opened = await stage({ status: 200, body: { ...success, isValid: true } });
    await verify(opened);
    await settle(opened);
    await settle(opened);
    await settle(opened, "key-1");
    const keys = opened.scripted.calls.map(({ headers }) => headers["idempotency-key"]);
    const fresh = expect.stringMatching(/^[0-9a-f-]{36}$/);
    expect(keys).toEqual([undefined, fresh, fresh, "key-1"]);
    expect(keys[1]).not.toBe(keys[2]);
  });
});

describe("the name", () => {
  test.each([
    ["http://facilitator.example:8080/v2/x402/", "http://facilitator.example:8080/v2/x402"],
    ["https://facilitator.example", "https://facilitator.example"],
    ["https://facilitator.example:443/", "https://facilitator.example"],
  ])("of %s is its origin and path", (url, name) => {
    expect(openRemote(url, { headers: { Authorization: "Bearer secret" } }).remote.name).toBe(name);
  });
});

describe("a verdict", () => {
  const invalid = { isValid: false, payer: PAYER };

  test.each([200, 400, 402, 500])("is read from the body of a %i", async (status) => {
    const yes = await stage({ status, body: { isValid: true, payer: PAYER } });
    expect(await verify(yes)).toEqual({ isValid: true, payer: PAYER });
    const no = await stage({
      status,
      body: { ...invalid, invalidReason: "insufficient_funds", detail: "It has a cent." },
    });
    expect(await verify(no)).toEqual({
      ...invalid,
      invalidReason: "insufficient_funds",
      detail: "It has a cent.",
    });
  });

  test.each([
    ["is missing", undefined],
    ["is null", null],
    ["is empty", ""],
    ["is a number", 5],
  ])("names the payer who signed when its own %s", async (_, payer) => {
    const opened = await stage({ status: 200, body: { isValid: true, payer } });
    expect(await verify(opened)).toEqual({ isValid: true, payer: PAYER });
  });

  test.each(ERROR_CODES.filter((code) => code !== "unexpected_verify_error"))(
    "keeps the code %s",
    async (code) => {
      const opened = await stage({ status: 200, body: { ...invalid, invalidReason: code } });
      expect(await verify(opened)).toMatchObject({ isValid: false, invalidReason: code });
    },
  );

  test.each([
    ["invalidReason", "invalid_exact_evm_payload_authorization_value_too_low"],
    ["invalid_reason", "The payment is not what was asked for."],
    ["error", "KYT"],
  ])(
    "for a reason of its own in %s is refused with that reason as detail",
    async (name, reason) => {
      const opened = await stage({ status: 400, body: { isValid: false, [name]: reason } });
      expect(await verify(opened)).toEqual({
        ...invalid,
        invalidReason: "invalid_payload",
        detail: expect.stringContaining(reason),
      });
    },
  );

  test.each([
    ["none", {}],
    ["an object", { invalidReason: { code: 7 } }],
    ["a code with blanks", { invalidReason: " insufficient_funds" }],
  ])("with %s for a reason is refused with a code of the closed list", async (_, reason) => {
    const opened = await stage({ status: 200, body: { isValid: false, ...reason } });
    expect(await verify(opened)).toMatchObject({
      isValid: false,
      invalidReason: "invalid_payload",
      detail: expect.stringContaining("127.0.0.1"),
    });
  });

  test.each(["detail", "invalidReason"])(
    "is told without what a terminal obeys (%s)",
    async (name) => {
      const said = "no\u009b31m\u202e\u0000";
      const body = { isValid: false, invalidReason: "insufficient_funds", [name]: said };
      const verdict = await verify(await stage({ status: 200, body }));
      expect(verdict).toMatchObject({ detail: expect.stringContaining("no\ufffd31m\ufffd\ufffd") });
    },
  );

  test("keeps only the beginning of a long reason", async () => {
    const invalidReason = "x".repeat(5_000);
    const opened = await stage({ status: 200, body: { isValid: false, invalidReason } });
    const verdict = await verify(opened);
    if (verdict.isValid) throw new Error("refused");
    expect(verdict.detail?.length).toBeLessThan(300);
  });

  test.each<[string, FacilitatorReply]>([
    [
      "says that it could not verify",
      { status: 500, body: { ...invalid, invalidReason: "unexpected_verify_error" } },
    ],
    ["answers 500 without a body", { status: 500 }],
    ["answers 404", { status: 404, body: { error: "no such endpoint" } }],
    ["answers 429", { status: 429, body: "slow down" }],
    ["answers 200 with HTML", { status: 200, body: "<html>" }],
    ["answers 200 with a list", { status: 200, body: [{ isValid: true }] }],
    ["answers with isValid as text", { status: 200, body: { isValid: "true" } }],
    ["answers null", { status: 200, body: "null" }],
    ["breaks the connection", { raw: (response) => void response.destroy() }],
  ])("is unavailable when the facilitator %s", async (_, reply) => {
    const opened = await stage(reply);
    const fault = await faultOf(verify(opened));
    expect(fault).toMatchObject({ kind: "unavailable", code: "unexpected_verify_error" });
    expect(fault.message).toContain("127.0.0.1");
  });
});

describe("an answer", () => {
  /** A megabyte in pieces, without a length. */
  const giant: FacilitatorReply = {
    raw(response) {
      response.writeHead(200, { "Content-Type": "application/json" });
      response.write('{"isValid":true,"success":true,"transaction":"');
      for (let piece = 0; piece < 64; piece += 1) response.write("a".repeat(16_384));
      response.end('"}');
    },
  };

  test("of a megabyte is not read to its end", async () => {
    const opened = await stage(giant);
    expect(await faultOf(verify(opened))).toMatchObject({ kind: "unavailable" });
    expect(await faultOf(settle(opened))).toMatchObject({ kind: "unknown" });
    await expect(opened.remote.supported(soon())).rejects.toThrow(/127\.0\.0\.1/);
  });

  test.each([301, 302, 303, 307, 308])("%i is not followed", async (status) => {
    const elsewhere = await stage({ status: 200, body: { ...success, isValid: true } });
    const opened = await stage({ status, location: `${elsewhere.scripted.url}/settle` });
    expect(await faultOf(settle(opened))).toMatchObject({ kind: "unknown" });
    expect(await faultOf(verify(opened))).toMatchObject({ kind: "unavailable" });
    expect(elsewhere.scripted.calls).toEqual([]);
  });

  test("never brings the URL or the credentials into a message", async () => {
    const opened = await stage(
      { status: 500 },
      { path: "/key-in-the-path", headers: { Authorization: "Bearer secret" } },
    );
    for (const { message } of await Promise.all([verify(opened), settle(opened)].map(faultOf))) {
      expect(message).not.toMatch(/secret|key-in-the-path/);
    }
  });
});

describe("the supported kinds", () => {
  test("are read, and what is no kind is left out", async () => {
    const kinds = [
      { x402Version: 1, scheme: "exact", network: "base" },
      { x402Version: 1, scheme: "exact", network: "solana", extra: { feePayer: "abc" } },
    ];
    const odd = [null, "exact", { x402Version: "1", scheme: "exact", network: "base" }, {}];
    const opened = await stage({ status: 200, body: { kinds: [...kinds, ...odd] } });
    expect(await opened.remote.supported(soon())).toEqual({ kinds, signers: {} });
  });

  test.each<[string, FacilitatorReply]>([
    ["an answer without them", { status: 200, body: {} }],
    ["an error", { status: 500 }],
    ["no answer", { raw: (response) => void response.destroy() }],
  ])("are a fault where there is %s", async (_, reply) => {
    const opened = await stage(reply);
    const fault = await faultOf(opened.remote.supported(soon()));
    expect(fault).toMatchObject({ kind: "unavailable" });
  });
});

describe("the metrics", () => {
  test.each<[string, FacilitatorReply]>([
    ['result="valid",code=""', { status: 200, body: { isValid: true } }],
    ['result="invalid",code="invalid_payload"', { status: 200, body: { isValid: false } }],
    ['result="error",code="unexpected_verify_error"', { status: 500 }],
  ])("count a verification as %s", async (labels, reply) => {
    const opened = await stage(reply);
    await verify(opened).catch(() => undefined);
    expect(await samplesOf(opened.metrics, "coinslot_verifications_total")).toEqual([
      `coinslot_verifications_total{network="base-sepolia",${labels}} 1`,
    ]);
  });
});
