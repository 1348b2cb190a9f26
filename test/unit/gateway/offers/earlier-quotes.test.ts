import { describe, expect, test } from "vitest";
import {
  askedUntil,
  earlierRequirements,
  payableVersions,
  type AskedEarlier,
  type EarlierQuotes,
  type QuotedEarlier,
} from "../../../../src/gateway/offers/earlier-quotes.ts";
import { Offers, type Offer } from "../../../../src/payments/sale/offers.ts";
import { examplePayment } from "../../ledger/example-payment.ts";
import { Router } from "../../../../src/gateway/paths/router.ts";

const REPLACED_MS = 1_000_000;

function quotes(amount: string, maxTimeoutSeconds: number, pattern = "/weather"): EarlierQuotes {
  const offer: Offer = {
    scheme: "exact",
    network: "base-sepolia",
    maxAmountRequired: amount,
    asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
    payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
    description: "",
    mimeType: "",
    maxTimeoutSeconds,
    extra: { name: "USDC", version: "2" },
  };
  const routes = [
    { methods: ["GET"], pattern, value: { offers: new Offers([offer]), members: [] } },
    { methods: ["GET"], pattern: "/free", value: null },
  ];
  const router = new Router<QuotedEarlier | null>(routes, {
    guarded: (value) => value !== null,
    unmatchedGuarded: true,
  });
  const untilMs = REPLACED_MS + maxTimeoutSeconds * 1000;
  const protocol = { v1: true, v2: true };
  return {
    site: "",
    router,
    publicUrl: "https://before.example",
    protocol,
    replacedMs: REPLACED_MS,
    untilMs,
  };
}

const { paymentPayload: payment } = examplePayment(1).request;
const asked = {
  payment,
  method: "GET",
  path: "/weather",
  target: "/weather?day=1",
  version: 1,
} as const;
const amounts = (
  earlier: readonly EarlierQuotes[],
  nowMs: number,
  at: AskedEarlier = asked,
): string[] =>
  earlierRequirements(earlier, at, nowMs).map(({ maxAmountRequired }) => maxAmountRequired);

describe("what was asked for before a change", () => {
  test("may be paid for as long as it was said to take, and not a millisecond longer", () => {
    const earlier = [quotes("10000", 60)];
    expect(amounts(earlier, REPLACED_MS)).toEqual(["10000"]);
    expect(amounts(earlier, REPLACED_MS + 59_999)).toEqual(["10000"]);
    expect(amounts(earlier, REPLACED_MS + 60_000)).toEqual([]);
  });

  test("may be paid for as long after others have asked for it last, and what was replaced before that is not", () => {
    const earlier = [
      quotes("30000", 60),
      { ...quotes("20000", 60), replacedMs: REPLACED_MS - 1_000, untilMs: REPLACED_MS + 59_000 },
    ];
    askedUntil(earlier, REPLACED_MS, REPLACED_MS + 7_000);
    expect(amounts(earlier, REPLACED_MS + 58_999)).toEqual(["30000", "20000"]);
    expect(amounts(earlier, REPLACED_MS + 66_999)).toEqual(["30000"]);
    expect(amounts(earlier, REPLACED_MS + 67_000)).toEqual([]);
    expect(earlier.map(({ untilMs }) => untilMs - REPLACED_MS)).toEqual([67_000, 59_000]);
  });

  test("is tried in the order of the changes, each for its own time", () => {
    const earlier = [quotes("30000", 10), quotes("20000", 60)];
    expect(amounts(earlier, REPLACED_MS + 5_000)).toEqual(["30000", "20000"]);
    expect(amounts(earlier, REPLACED_MS + 10_000)).toEqual(["20000"]);
  });

  test("is that of the route that the URL had then, under the name that it had then", () => {
    const earlier = [quotes("10000", 60, "/:city")];
    const [first] = earlierRequirements(earlier, asked, REPLACED_MS);
    expect(first?.resource).toBe("https://before.example/weather?day=1");
    expect(amounts(earlier, REPLACED_MS, { ...asked, method: "POST" })).toEqual([]);
  });

  test("may be paid in the version in which it was told, though that is switched off now", () => {
    const older = { v1: true, v2: false };
    const newer = { v1: false, v2: true };
    const both = { v1: true, v2: true };
    expect(payableVersions(older, [], REPLACED_MS)).toEqual(older);
    expect(payableVersions(older, [quotes("10000", 60)], REPLACED_MS + 59_999)).toEqual(both);
    expect(payableVersions(newer, [quotes("10000", 60)], REPLACED_MS + 59_999)).toEqual(both);
    expect(payableVersions(older, [quotes("10000", 60)], REPLACED_MS + 60_000)).toEqual(older);
    const alike = { ...quotes("10000", 60), protocol: older };
    expect(payableVersions(older, [alike], REPLACED_MS)).toEqual(older);
  });

  test("is nothing where nothing was asked for", () => {
    const at = { ...asked, path: "/free", target: "/free" };
    expect(amounts([quotes("10000", 60)], REPLACED_MS, at)).toEqual([]);
    expect(amounts([], REPLACED_MS)).toEqual([]);
  });
});
