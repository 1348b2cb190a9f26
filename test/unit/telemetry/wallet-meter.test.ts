import { expect, test } from "vitest";
import { Metrics } from "../../../src/telemetry/metrics.ts";

const ADDRESS = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const WALLET = {
  address: ADDRESS,
  balanceAtomic: 1_234_567_890_123_456_789n,
  decimals: 18,
  settlementAtomic: 1_000_000_000_000_000n,
};

async function valuesOf(metrics: Metrics, name: string): Promise<Record<string, number>> {
  const values = await metrics.registry.getSingleMetric(name)?.get();
  return Object.fromEntries(
    (values?.values ?? []).map(({ labels, value }) => [
      Object.entries(labels)
        .map(([label, of]) => `${label}=${of}`)
        .toSorted()
        .join(" "),
      value,
    ]),
  );
}

test("shows a wallet in whole units, and for how many settlements it lasts", async () => {
  const metrics = new Metrics("test");
  metrics.wallets.feePayer("base", WALLET);
  const labels = `address=${ADDRESS} network=base`;
  const balance = await valuesOf(metrics, "coinslot_wallet_balance");
  expect(balance[labels]).toBeCloseTo(1.2345678901234567, 15);
  const left = "coinslot_wallet_settlements_left";
  expect(await valuesOf(metrics, left)).toEqual({ [labels]: 1234 });
  metrics.wallets.feePayer("base", { ...WALLET, balanceAtomic: 999_999_999_999_999n });
  expect(await valuesOf(metrics, left)).toEqual({ [labels]: 0 });
  metrics.wallets.feePayer("base", { ...WALLET, settlementAtomic: 0n });
  expect(await valuesOf(metrics, left)).toEqual({ [labels]: Number.POSITIVE_INFINITY });
});
