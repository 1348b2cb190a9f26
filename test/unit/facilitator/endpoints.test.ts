import { connect } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { Callers } from "../../../src/facilitator/callers.ts";
import { CrowdedFault, FacilitatorFault } from "../../../src/payments/facilitator.ts";
import { ask, good, stage, type Answer } from "./endpoints-stage.ts";
import { exampleRequest, PAYER, TRANSACTION } from "../payments/settlement/example-request.ts";

const KILOBYTE = 1024;
const JSON_TYPE = "Content-Type: application/json\r\n";

function fail(kind: FacilitatorFault["kind"], code: FacilitatorFault["code"]) {
  return () => Promise.reject(new FacilitatorFault(kind, code, "https://rpc.example/secret"));
}

/** A good request of so many bytes. */
function padded(bytes: number): string {
  const text = JSON.stringify(good);
  return text + " ".repeat(bytes - text.length);
}

/** What every answer has, whatever it says. */
function expectJson(answer: Answer): void {
  expect(answer.headers["content-type"]).toBe("application/json");
  expect(answer.headers["cache-control"]).toBe("no-store");
  expect(Number(answer.headers["content-length"])).toBe(Buffer.byteLength(answer.text));
}

describe.each(["/verify", "/settle"])("%s is not for web pages", (path) => {
  test.each(["text/plain", "", "text/plain;application/json", "application/jsonp"])(
    "which can send %j without asking: 415",
    async (type) => {
      const at = await stage();
      const answer = await ask(at, path, { body: good, headers: { "Content-Type": type } });
      expect([answer.status, answer.body]).toEqual([415, { error: "send application/json" }]);
      expect(at.asked).toEqual([]);
    },
  );

  test("JSON may name its alphabet", async () => {
    const headers = { "Content-Type": "Application/JSON ; charset=utf-8" };
    expect((await ask(await stage(), path, { body: good, headers })).status).toBe(200);
  });

  test("which name themselves: 403, but with a token, which no page knows", async () => {
    const headers = { Origin: "https://evil.example" };
    const open = await stage();
    expect((await ask(open, path, { body: good, headers })).status).toBe(403);
    expect(open.asked).toEqual([]);
    const guarded = await stage({ bearer: "secret" });
    const shown = { ...headers, Authorization: "Bearer secret" };
    expect((await ask(guarded, path, { body: good, headers: shown })).status).toBe(200);
  });
});

describe("an amount that is not worth its gas", () => {
  const of = (maxAmountRequired: string) => ({
    ...good,
    paymentRequirements: { ...good.paymentRequirements, maxAmountRequired },
  });

  test("is refused for what is asked, whatever was signed, and nobody is asked", async () => {
    const at = await stage({
      leastAmount: ({ network }) => (network === "base-sepolia" ? 7n : 9n),
    });
    const errorReason = "invalid_payment_requirements";
    const detail = "maxAmountRequired must be 7 or more to be settled here";
    expect(await ask(at, "/settle", { body: of("6") })).toMatchObject({
      status: 200,
      body: { success: false, transaction: "", errorReason, payer: PAYER, detail },
    });
    expect(await ask(at, "/verify", { body: of("6") })).toMatchObject({
      status: 200,
      body: { isValid: false, invalidReason: errorReason, payer: PAYER, detail },
    });
    expect(at.asked).toEqual([]);
    expect(await ask(at, "/settle", { body: of("7") })).toMatchObject({ body: { success: true } });
  });

  test("is 0 where nothing else is said", async () => {
    const at = await stage();
    expect(await ask(at, "/settle", { body: of("0") })).toMatchObject({ body: { success: false } });
    expect(await ask(at, "/settle", { body: of("1") })).toMatchObject({ body: { success: true } });
  });
});

describe("POST /verify", () => {
  test("answers 200 with the verdict, whatever it is", async () => {
    const refusal = { isValid: false, invalidReason: "insufficient_funds", payer: PAYER } as const;
    for (const verdict of [{ isValid: true, payer: PAYER } as const, refusal]) {
      const at = await stage({ facilitator: { verify: async () => verdict } });
      const answer = await ask(at, "/verify", { body: good });
      expect(answer).toMatchObject({ status: 200, body: verdict });
      expectJson(answer);
      expect(at.asked).toMatchObject([{ what: "verify", request: exampleRequest }]);
    }
  });

  test("answers 400 in its own shape to what it cannot read", async () => {
    const at = await stage();
    for (const body of ["", "{", "[]", "null", '"text"', "{}", '{"paymentPayload":{}}']) {
      const answer = await ask(at, "/verify", { body });
      expect(answer.status).toBe(400);
      expect(answer.body).toEqual({
        isValid: false,
        invalidReason: "invalid_payload",
        payer: "",
        detail: expect.any(String),
      });
      expectJson(answer);
    }
    expect(at.asked).toEqual([]);
  });

  test.each(["unavailable", "unreachable", "unknown"] as const)(
    "answers 500 in its own shape when the verification was %s, and when to come again",
    async (kind) => {
      const at = await stage({ facilitator: { verify: fail(kind, "unexpected_verify_error") } });
      const answer = await ask(at, "/verify", { body: good });
      expect(answer.status).toBe(500);
      expect(answer.headers["retry-after"]).toBe("2");
      expect(answer.body).toEqual({
        isValid: false,
        invalidReason: "unexpected_verify_error",
        payer: PAYER,
        detail: expect.any(String),
      });
      expect(answer.text).not.toContain("secret");
      expectJson(answer);
    },
  );
});

describe("POST /settle", () => {
  test("answers 200 with the settlement, whatever it is", async () => {
    const at = await stage();
    const answer = await ask(at, "/settle", { body: good });
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      success: true,
      transaction: TRANSACTION,
      network: "base-sepolia",
      payer: PAYER,
    });
    expectJson(answer);
  });

  test("answers 400 in its own shape to what it cannot read, with the network where it is named", async () => {
    const at = await stage();
    const named = { ...good, paymentRequirements: { network: "base-sepolia" } };
    for (const [body, network] of [
      ["{", ""],
      [named, "base-sepolia"],
    ] as const) {
      const answer = await ask(at, "/settle", { body });
      expect(answer.status).toBe(400);
      expect(answer.body).toEqual({
        success: false,
        errorReason: body === named ? "invalid_payment_requirements" : "invalid_payload",
        transaction: "",
        network,
        payer: "",
        detail: expect.any(String),
      });
      expectJson(answer);
    }
    expect(at.asked).toEqual([]);
  });

  test.each([
    ["unavailable", "no money moved"],
    ["unknown", "send the same payment again"],
  ] as const)("answers 500 when the outcome is %s, and says what it means", async (kind, said) => {
    const at = await stage({ facilitator: { settle: fail(kind, "unexpected_settle_error") } });
    const answer = await ask(at, "/settle", { body: good });
    expect(answer.status).toBe(500);
    expect(answer.headers["retry-after"]).toBe("2");
    expect(answer.body).toEqual({
      success: false,
      errorReason: "unexpected_settle_error",
      transaction: "",
      network: "base-sepolia",
      payer: PAYER,
      detail: expect.stringContaining(said),
    });
    expect(answer.text).not.toContain("secret");
  });

  test("tells nothing of a fault that nobody expected, and logs it", async () => {
    const secret = new TypeError("secret is undefined");
    const at = await stage({ facilitator: { settle: () => Promise.reject(secret) } });
    const answer = await ask(at, "/settle", { body: good });
    expect(answer.status).toBe(500);
    expect(answer.body).toMatchObject({ success: false, detail: "internal error" });
    expect(at.log).toMatchObject([
      { level: "error", err: { type: "TypeError", message: "secret is undefined" } },
    ]);
  });

  test.each<[string, string, string | undefined]>([
    ["passed on", "key-1", "key-1"],
    ["passed on up to 255 characters", "k".repeat(255), "k".repeat(255)],
    ["ignored beyond 255 characters", "k".repeat(256), undefined],
    ["ignored when empty", "", undefined],
  ])("has its idempotency key %s", async (_, sent, got) => {
    const at = await stage();
    await ask(at, "/settle", { body: good, headers: { "Idempotency-Key": sent } });
    expect(at.asked).toMatchObject([{ what: "settle", idempotencyKey: got }]);
  });

  test("goes on when its caller leaves", async () => {
    const begun = Promise.withResolvers<AbortSignal>();
    const at = await stage({
      facilitator: {
        settle(_, { signal }) {
          begun.resolve(signal);
          return new Promise(() => {});
        },
      },
    });
    const text = JSON.stringify(good);
    const socket = connect(at.port, "127.0.0.1");
    socket.write(
      `POST /settle HTTP/1.1\r\nHost: a\r\n${JSON_TYPE}Content-Length: ${text.length}\r\n\r\n${text}`,
    );
    const signal = await begun.promise;
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.destroy();
    await closed;
    await ask(at, "/supported");
    expect(signal.aborted).toBe(false);
  });
});

describe("GET /supported and GET /discovery/resources", () => {
  test("answer 200", async () => {
    const at = await stage();
    const supported = await ask(at, "/supported");
    expect(supported).toMatchObject({
      status: 200,
      body: { kinds: [{ x402Version: 1, scheme: "exact", network: "base-sepolia" }] },
    });
    expectJson(supported);
    expectJson(await ask(at, "/discovery/resources"));
  });

  test("answer with what the listing says to the query as it came", async () => {
    const listing = { status: 400, body: '{"error":"limit"}', etag: null } as const;
    const at = await stage({ listing });
    const query = "limit=1000&metadata[provider]=a%20b&?";
    const answer = await ask(at, `/discovery/resources?${query}`);
    expect(answer).toMatchObject({ status: 400, body: { error: "limit" } });
    expectJson(answer);
    expect(at.queries).toEqual([query]);
  });

  test("answer 500 without a word of the reason", async () => {
    const at = await stage({
      facilitator: { supported: fail("unavailable", "unexpected_verify_error") },
    });
    const answer = await ask(at, "/supported");
    expect(answer).toMatchObject({ status: 500, body: { error: "internal error" } });
    expectJson(answer);
  });

  test.each(["/supported", "/discovery/resources"])(
    "answer HEAD %s like GET, without a body",
    async (path) => {
      const at = await stage();
      const [head, get] = [await ask(at, path, { method: "HEAD" }), await ask(at, path)];
      expect(head).toMatchObject({ status: 200, text: "" });
      expect(head.headers["content-length"]).toBe(get.headers["content-length"]);
    },
  );
});

describe("a request that is not for an endpoint", () => {
  test.each([
    ["/verify", "POST", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"]],
    ["/settle", "POST", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"]],
    ["/supported", "GET, HEAD", ["POST", "PUT", "DELETE", "OPTIONS"]],
    ["/discovery/resources", "GET, HEAD", ["POST", "PUT", "DELETE", "OPTIONS"]],
  ])("by its method is told for %s that it allows %s", async (path, allowed, methods) => {
    const at = await stage();
    for (const method of methods) {
      const answer = await ask(at, path, { method });
      expect(answer).toMatchObject({ status: 405, headers: { allow: allowed } });
    }
    expect(at.asked).toEqual([]);
  });

  test.each([
    "/",
    "/verify/",
    "/Verify",
    "//verify",
    "/x402/verify",
    "/verify%20",
    "/metrics",
    "*",
  ])("by its path %s is not found", async (path) => {
    const at = await stage();
    const answer = await ask(at, path, { body: good });
    expect(answer).toMatchObject({ status: 404, body: { error: expect.any(String) } });
    expectJson(answer);
  });

  test("is one without the base path", async () => {
    const at = await stage({ basePath: "/v2/x402" });
    for (const path of ["/verify", "/settle"]) {
      expect(await ask(at, path, { body: good })).toMatchObject({ status: 404 });
      expect(await ask(at, `/v2/x402${path}`, { body: good })).toMatchObject({ status: 200 });
    }
    for (const path of ["/supported", "/discovery/resources"]) {
      expect(await ask(at, path)).toMatchObject({ status: 404 });
      expect(await ask(at, `/v2/x402${path}?limit=1`)).toMatchObject({ status: 200 });
    }
  });
});

describe("a bearer token", () => {
  const token = "correct horse";
  const endpoints = ["/verify", "/settle", "/supported", "/discovery/resources"];

  test.each<[string, string | undefined]>([
    ["none", undefined],
    ["another", "Bearer correct hors"],
    ["a longer one", "Bearer correct horses"],
    ["one in other letters", "Bearer CORRECT HORSE"],
    ["an endless one", `Bearer ${"x".repeat(8_000)}`],
    ["one with a blank before it", "Bearer  correct horse"],
    ["one without its scheme", "correct horse"],
    ["one of another scheme", "Basic correct horse"],
    ["an empty one", "Bearer "],
  ])("is required by every endpoint: %s will not do", async (_, authorization) => {
    const at = await stage({ bearer: token });
    const headers = authorization === undefined ? {} : { Authorization: authorization };
    for (const path of endpoints) {
      const body = path.startsWith("/s") || path === "/verify" ? good : undefined;
      const method = path === "/supported" || path.startsWith("/d") ? "GET" : "POST";
      const answer = await ask(at, path, { method, headers, ...(body && { body }) });
      expect(answer).toMatchObject({ status: 401, headers: { "www-authenticate": "Bearer" } });
      expectJson(answer);
    }
    expect([at.asked, at.queries]).toEqual([[], []]);
  });

  test.each(["Bearer", "bearer", "BEARER"])("opens every endpoint as %s", async (scheme) => {
    const at = await stage({ bearer: token });
    const headers = { Authorization: `${scheme} ${token}` };
    for (const path of ["/verify", "/settle"]) {
      expect(await ask(at, path, { body: good, headers })).toMatchObject({ status: 200 });
    }
    for (const path of ["/supported", "/discovery/resources"]) {
      expect(await ask(at, path, { headers })).toMatchObject({ status: 200 });
    }
  });
});

describe("a body", () => {
  test("of 64 KiB is read", async () => {
    const at = await stage();
    expect(await ask(at, "/verify", { body: padded(64 * KILOBYTE) })).toMatchObject({
      status: 200,
    });
  });

  test.each([64 * KILOBYTE + 1, 65 * KILOBYTE, 300 * KILOBYTE])(
    "of %i bytes is refused with an answer",
    async (bytes) => {
      const at = await stage();
      const chunks = Array.from({ length: Math.ceil(bytes / 4096) }, (_, index) =>
        Buffer.from(padded(bytes)).subarray(index * 4096, (index + 1) * 4096),
      );
      for (const body of [padded(bytes), chunks]) {
        const answer = await ask(at, "/settle", { body });
        expect(answer).toMatchObject({
          status: 400,
          body: { success: false, errorReason: "invalid_payload", transaction: "", payer: "" },
        });
        expectJson(answer);
      }
      expect(at.asked).toEqual([]);
    },
  );

  test.each([
    [300 * KILOBYTE, "read to its end, then refused"],
    [5_000 * KILOBYTE, "cut off"],
  ])("of %i bytes that a caller is still sending is %s", async (bytes, end) => {
    const at = await stage();
    const socket = connect(at.port, "127.0.0.1");
    socket.on("error", () => {});
    let text = "";
    socket.on("data", (data) => (text += data.toString()));
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.write(
      `POST /verify HTTP/1.1\r\nHost: a\r\n${JSON_TYPE}Content-Length: ${bytes}\r\n\r\n`,
    );
    for (let sent = 0; sent < bytes && !socket.destroyed; sent += 4 * KILOBYTE) {
      await new Promise((resolve) => socket.write(Buffer.alloc(4 * KILOBYTE, " "), resolve));
    }
    if (end !== "cut off") {
      while (!text.includes("}")) await new Promise((resolve) => socket.once("data", resolve));
      expect(text).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n[^]*invalid_payload/);
      socket.end();
    }
    await closed;
    expect(at.asked).toEqual([]);
  });

  test("that stops coming is cut off by the listener's own limit", async () => {
    const server = { requestTimeout: 100, headersTimeout: 100, connectionsCheckingInterval: 20 };
    const at = await stage({ server });
    const socket = connect(at.port, "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.on("error", () => {}).resume();
    socket.write(
      `POST /settle HTTP/1.1\r\nHost: a\r\n${JSON_TYPE}Content-Length: 500\r\n\r\n{"x402`,
    );
    await closed;
    expect(at.asked).toEqual([]);
    expect(await ask(at, "/settle", { body: good })).toMatchObject({ status: 200 });
    expect(at.log).toEqual([]);
  });

  test("that breaks off is nobody's payment", async () => {
    const at = await stage();
    const socket = connect(at.port, "127.0.0.1");
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.on("error", () => {});
    socket.write(
      `POST /settle HTTP/1.1\r\nHost: a\r\n${JSON_TYPE}Content-Length: 500\r\n\r\n{"x402`,
      () => {
        socket.destroy();
      },
    );
    await closed;
    expect(await ask(at, "/settle", { body: good })).toMatchObject({ status: 200 });
    expect(at.asked.length).toBe(1);
    expect(at.log).toEqual([]);
  });
});

test("a settlement is a settlement though what was sold cannot be listed", async () => {
  const callers = new Callers([{ gateway: "weather", bearer: "w" }]);
  const catalogue = {
    isPublic: false,
    judge: () => undefined,
    sold(): never {
      throw new RangeError("too deep");
    },
  };
  const at = await stage({ callers, catalogue });
  const answer = await ask(at, "/settle", { body: good, headers: { Authorization: "Bearer w" } });
  expect(answer).toMatchObject({ status: 200, body: { success: true } });
  expect(answer.headers).not.toHaveProperty("extension-responses");
  expect(at.log).toMatchObject([{ msg: "what a gateway sold cannot be listed" }]);
});

describe("callers", () => {
  test("are told from each other: gateways by their names, others by their addresses", async () => {
    const clients: (string | undefined)[] = [];
    const at = await stage({
      callers: new Callers([
        { gateway: "north", bearer: "of the north" },
        { gateway: null, bearer: "shared" },
      ]),
      facilitator: {
        verify: async (_request, _signal, client) => {
          clients.push(client);
          return { isValid: true, payer: PAYER };
        },
        settle: async (_request, { client }) => {
          clients.push(client);
          throw new CrowdedFault("base-sepolia", "unexpected_settle_error");
        },
      },
    });
    for (const bearer of ["of the north", "shared"]) {
      const headers = { Authorization: `Bearer ${bearer}` };
      await ask(at, "/verify", { body: good, headers });
      const refused = await ask(at, "/settle", { body: good, headers });
      expect([refused.status, refused.headers["retry-after"]]).toEqual([500, "2"]);
    }
    const [gateway, other] = ["gateway north", "address 127.0.0.1"];
    expect(clients).toEqual([gateway, gateway, other, other]);
    // Who makes a crowd does not fill the log as well.
    expect(at.log.filter(({ level }) => level === "warn")).toEqual([]);
  });
});
