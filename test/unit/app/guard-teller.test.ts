import { expect, test } from "vitest";
import { guardTeller } from "../../../src/app/guard-teller.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";

test("assertions that are off are an error once, and a number until they are on again", async () => {
  const metrics = new Metrics("test");
  const said: (readonly [level: string, facts: unknown, message: unknown])[] = [];
  const logger = {
    error: (facts: unknown, message?: unknown) => void said.push(["error", facts, message]),
    info: (facts: unknown, message?: unknown) => void said.push(["info", facts, message]),
  };
  const settings = { network: "solana", lighthouseLossPerHour: 300_000n } as const;
  const tell = guardTeller(settings, { metrics, logger });
  const shown = async (name: string): Promise<number | undefined> => {
    const metric = await metrics.registry.getSingleMetric(`coinslot_lighthouse_${name}`)?.get();
    return metric?.values.find(({ labels }) => labels["network"] === "solana")?.value;
  };

  tell({ lostLamports: 10_001n, isOff: false });
  expect(said).toEqual([]);
  tell({ lostLamports: 140_014n, isOff: true });
  tell({ lostLamports: 150_015n, isOff: true });
  const facts = { network: "solana", lostLamports: "140014", lighthouseLossPerHour: "300000" };
  const advice = expect.stringMatching(
    /coinslot payments.*lighthouse: deny.*lighthouseLossPerHour/,
  );
  expect(said).toEqual([["error", facts, advice]]);
  expect([await shown("lost_lamports"), await shown("off")]).toEqual([150_015, 1]);
  tell({ lostLamports: 0n, isOff: false });
  expect(said.slice(1)).toEqual([
    ["info", expect.anything(), "payments with wallet assertions are taken again"],
  ]);
  expect([await shown("lost_lamports"), await shown("off")]).toEqual([0, 0]);
});
