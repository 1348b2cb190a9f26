import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import * as fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { EmbeddedFacilitator } from "../../../src/payments/settlement/embedded.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite/sqlite.ts";
import { createEvmMechanism } from "../../../src/mechanism/evm/evm.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { systemTime } from "../../../src/time/time.ts";
import { isErrorCode } from "../../../src/x402/error-code.ts";
import { networkOf } from "../../../src/x402/network.ts";
import { ask, good, stage, type Answer, type Stage } from "./endpoints-stage.ts";

/** Bodies in one test; each is posted to both endpoints. */
const RUNS = 300;

/** The real facilitator before a chain that was never reached: every judgement but the chain's. */
async function openStage(): Promise<Stage> {
  const network = networkOf("base-sepolia");
  if (network.kind !== "evm") throw new Error("an EVM network");
  const time = { ...systemTime, now: () => 1_700_000_000_000 };
  const ledger = await openSqliteLedger({ path: ":memory:", time, life: "life" });
  onTestFinished(() => ledger.close());
  const mechanism = createEvmMechanism({
    network,
    assets: [network.asset],
    rpcUrls: ["http://127.0.0.1:1"],
    keys: [`0x${"01".repeat(32)}`],
    clock: () => 1_700_000_000,
    allowPayTo: "any",
  });
  onTestFinished(() => mechanism.close());
  const facilitator = new EmbeddedFacilitator({
    mechanisms: [mechanism],
    ledger,
    gate: { isOpen: () => false, isTrusted: () => false },
    telemetry: {
      logger: createLogger({ level: "silent", format: "json" }),
      metrics: new Metrics("test"),
    },
    time,
    describeAsset: () => network.asset,
  });
  return stage({
    facilitator: {
      verify: (...asked) => onTheWire(facilitator).verify(...asked),
      settle: (...asked) => onTheWire(facilitator).settle(...asked),
    },
  });
}

function expectVerdict({ status, body }: Answer): void {
  expect(body).toMatchObject({ isValid: false, payer: expect.any(String) });
  const { invalidReason } = Object(body);
  expect(isErrorCode(invalidReason), String(invalidReason)).toBe(true);
  expectStatus(status, invalidReason);
}

function expectSettlement({ status, body }: Answer): void {
  expect(body).toMatchObject({
    success: false,
    transaction: "",
    network: expect.any(String),
    payer: expect.any(String),
  });
  const { errorReason } = Object(body);
  expect(isErrorCode(errorReason), String(errorReason)).toBe(true);
  expectStatus(status, errorReason);
}

function expectStatus(status: number, reason: unknown): void {
  expect([200, 400, 500]).toContain(status);
  expect(String(reason).startsWith("unexpected_")).toBe(status === 500);
}

/** Nothing but what an unreachable chain explains may be in the log. */
function expectQuiet({ log }: Stage): void {
  expect(log.filter(({ level }) => level === "error")).toEqual([]);
}

async function post(at: Stage, body: string | readonly Buffer[]): Promise<void> {
  expectVerdict(await ask(at, "/verify", { body }));
  expectSettlement(await ask(at, "/settle", { body }));
  const headers = { "Idempotency-Key": "k" };
  expectSettlement(await ask(at, "/settle", { body, headers }));
}

/** Every place in a JSON value, as a path of member names. */
function placesIn(value: unknown, path: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== "object" || value === null) return [path];
  const inner = Object.entries(value).flatMap(([name, each]) => placesIn(each, [...path, name]));
  return [path, ...inner];
}

function replaceAt(value: unknown, path: readonly string[], replacement: unknown): unknown {
  const [name, ...rest] = path;
  if (name === undefined) return replacement;
  const members = new Map<string, unknown>(Object.entries(Object(value)));
  members.set(name, replaceAt(members.get(name), rest, replacement));
  return Object.fromEntries(members);
}

const oddText = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.constantFrom("", "0", "-1", "1e3", "0x10", "٣", "1".repeat(100), "0x", "__proto__", "\u0000"),
);
const oddValue = fc.oneof(
  oddText,
  fc.jsonValue(),
  fc.constantFrom(null, true, 0, -1, 1.5, 2 ** 53, 1e300, [], {}, [[]], { toString: 1 }),
);

describe("whatever bytes are posted", () => {
  test("the answer is a refusal in the endpoint's shape", async () => {
    const at = await openStage();
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 2_000 }), (bytes) =>
        post(at, [Buffer.from(bytes)]),
      ),
      { numRuns: RUNS },
    );
    expectQuiet(at);
  });

  test("as JSON of any shape, the answer is a refusal in the endpoint's shape", async () => {
    const at = await openStage();
    await fc.assert(
      fc.asyncProperty(fc.json({ maxDepth: 6 }), (text) => post(at, text)),
      { numRuns: RUNS },
    );
    expectQuiet(at);
  });

  test("as a request with any member replaced, it is a refusal in the endpoint's shape", async () => {
    const at = await openStage();
    const place = fc.constantFrom(...placesIn(good));
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(place, oddValue), { minLength: 1, maxLength: 3 }),
        (odd) => {
          let body: unknown = good;
          for (const [path, value] of odd) body = replaceAt(body, path, value);
          return post(at, JSON.stringify(body));
        },
      ),
      { numRuns: RUNS * 2 },
    );
    expectQuiet(at);
  });

  test.each([
    ["nesting", `${"[".repeat(30_000)}${"]".repeat(30_000)}`],
    ["nesting in a member", `{"paymentPayload":${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}}`],
    ["members", `{${Array.from({ length: 5_000 }, (_, n) => `"k${n}":1`).join(",")}}`],
    ["a prototype", '{"__proto__":{"paymentPayload":{}},"constructor":{"prototype":{}}}'],
    [
      "repeated members",
      `{"paymentPayload":1,"paymentPayload":${JSON.stringify(good.paymentPayload)}}`,
    ],
    ["a byte order mark", `\uFEFF${JSON.stringify(good)}`],
    [
      "lone surrogates",
      '{"paymentPayload":{"x402Version":1,"scheme":"\\ud800","network":"\\udfff"}}',
    ],
  ])("with much %s, it is a refusal", async (_, text) => {
    const at = await openStage();
    await post(at, text);
    expectQuiet(at);
  });
});
