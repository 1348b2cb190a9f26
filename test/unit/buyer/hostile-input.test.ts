/** Whatever a seller writes, reading it neither throws nor lets through what nobody asked for. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AnswerChanged, BoughtAnswerSink } from "../../../src/buyer/answer-sink.ts";
import { readQuote } from "../../../src/buyer/offer.ts";
import { readReceipt } from "../../../src/buyer/receipt.ts";
import { limitFault, readTerms } from "../../../src/buyer/terms.ts";

const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const LIMIT = { kind: "dollars", amount: 10n ** 35n, written: "$0.1" } as const;

const odd = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom("base", "solana", "exact", PAYEE, "10000", "9".repeat(90), -1, 60, null),
);
const offer = fc.record(
  {
    scheme: fc.oneof(fc.constant("exact"), odd),
    network: fc.oneof(fc.constantFrom("base", "eip155:8453"), odd),
    maxAmountRequired: fc.oneof(fc.constantFrom("1", "100000", "100001"), odd),
    amount: fc.oneof(fc.constantFrom("1", "100000", "100001"), odd),
    asset: fc.oneof(fc.constant("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"), odd),
    payTo: fc.oneof(fc.constant(PAYEE), odd),
    maxTimeoutSeconds: fc.oneof(fc.constant(60), odd),
    description: odd,
    extra: odd,
  },
  { requiredKeys: [] },
);

test("any quote is read or refused, and what is within the limit costs at most ten cents of USDC", () => {
  const quote = fc.record({ x402Version: fc.constantFrom(1, 1, 2), accepts: fc.array(offer) });
  fc.assert(
    fc.property(fc.oneof(quote, fc.jsonValue()), (json) => {
      const body = Buffer.from(JSON.stringify(json));
      const reads = [
        readQuote({ header: "", body }),
        readQuote({ header: encode({ ...Object(json) }), body }),
      ];
      for (const each of reads.flatMap((read) => (read.ok ? read.value.offers : []))) {
        const terms = readTerms(each, []);
        if (!terms.ok || limitFault(terms.value, LIMIT) !== undefined) continue;
        expect(terms.value.token?.symbol).toBe("USDC");
        expect(terms.value.offer.amount).toBeLessThanOrEqual(100_000n);
      }
    }),
    { numRuns: 3_000 },
  );
});

test("any receipt is read or passed over", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.jsonValue().map((json) => JSON.stringify(json)),
      ),
      (text) => {
        readReceipt(text);
        const receipt = readReceipt(Buffer.from(text).toString("base64"));
        expect(receipt === null || receipt.explorer === null).toBe(true);
      },
    ),
  );
});

function encode(json: object): string {
  return Buffer.from(JSON.stringify(json)).toString("base64");
}

test("only what is a transaction of its network is linked", () => {
  const hash = `0x${"ab".repeat(32)}`;
  const base = { success: true, network: "base", payer: "0x" };
  expect(readReceipt(encode({ ...base, transaction: hash }))?.explorer).toBe(
    `https://basescan.org/tx/${hash}`,
  );
  expect(readReceipt(encode({ ...base, transaction: "/../evil" }))?.explorer).toBeNull();
  expect(
    readReceipt(encode({ ...base, network: "solana", transaction: hash }))?.explorer,
  ).toBeNull();
});

async function* parts(text: string, sizes: readonly number[]): AsyncGenerator<Buffer> {
  let rest = Buffer.from(text);
  for (const size of sizes) {
    yield rest.subarray(0, size);
    rest = rest.subarray(size);
  }
  yield rest;
}

async function take(first: string, second: string, sizes: readonly number[]): Promise<string> {
  let written = "";
  const sink = new BoughtAnswerSink(
    async (bytes) => void (written += Buffer.from(bytes).toString()),
  );
  await sink.take(parts(first, sizes));
  await sink.take(parts(second, sizes.toReversed()));
  return written;
}

describe("an answer in two attempts", () => {
  test("is one answer, however it is cut", async () => {
    const sizes = fc.array(fc.integer({ min: 0, max: 9 }), { maxLength: 9 });
    const whole = "0123456789abcdefghij";
    await fc.assert(
      fc.asyncProperty(fc.nat(20), sizes, async (until, cuts) => {
        expect(await take(whole.slice(0, until), whole, cuts)).toBe(whole);
      }),
    );
  });

  test.each([
    ["begins differently", "0123", "012x456"],
    ["is shorter", "0123", "012"],
  ])("that %s the second time is refused", async (_, first, second) => {
    await expect(take(first, second, [1, 2])).rejects.toThrow(AnswerChanged);
  });
});
