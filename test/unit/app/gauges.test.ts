import { describe, expect, test, vi } from "vitest";
import { readBalances, startGauges } from "../../../src/app/gauges.ts";
import type { PaymentCounts } from "../../../src/ledger/books.ts";
import type { WalletBalance } from "../../../src/mechanism/mechanism.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { MemoryBooks } from "../../support/memory-books.ts";
import { MemoryStore } from "../../support/memory-store.ts";
import { SteppedTime } from "./stepped-time.ts";

const COUNTS = { held: 0, unresolved: 1, undelivered: 2, offered: 3, refunding: 0, unrefunded: 0 };

function ledgerOf(counts: () => Promise<PaymentCounts>) {
  return { books: Object.assign(new MemoryBooks(new MemoryStore()), { counts }) };
}

function mechanismOf(balances: Readonly<Record<string, bigint | Error>>) {
  return {
    network: "base" as const,
    accounts: Object.keys(balances),
    async balance(address: string): Promise<WalletBalance> {
      const balanceAtomic = balances[address] ?? 0n;
      if (balanceAtomic instanceof Error) throw balanceAtomic;
      return { address, balanceAtomic, decimals: 18, settlementAtomic: 10n ** 15n };
    },
  };
}

function setUp(counts: () => Promise<PaymentCounts>) {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const logger = createLogger({ level: "warn", format: "json", destination });
  const telemetry = { logger, metrics: new Metrics("test") };
  const time = new SteppedTime();
  const mechanism = mechanismOf({ "0xA": 10n ** 18n, "0xB": new Error("no answer") });
  const mechanisms: ReturnType<typeof mechanismOf>[] = [mechanism];
  const gauges = startGauges({
    assetsOf: () => [],
    ledger: ledgerOf(counts),
    mechanisms,
    telemetry,
    time,
  });
  const value = async (name: string) => {
    const metric = await telemetry.metrics.registry.getSingleMetric(name)?.get();
    return metric?.values.map((each) => each.value);
  };
  const bothRead = () => vi.waitFor(() => expect(time.pauses).toEqual([5_000, 15_000, 60_000]));
  return { gauges, lines, mechanism, mechanisms, telemetry, time, value, bothRead };
}

describe("the gauges", () => {
  test("are read at once, and again after each pause", async () => {
    let counts = COUNTS;
    const { gauges, time, value, bothRead } = setUp(async () => counts);
    await bothRead();
    expect(await value("coinslot_payments_unresolved")).toEqual([1]);
    expect(await value("coinslot_payments_undelivered")).toEqual([2]);
    expect(await value("coinslot_payments_offered")).toEqual([3]);
    expect(await value("coinslot_wallet_settlements_left")).toEqual([1000]);

    counts = { held: 0, unresolved: 0, undelivered: 9, offered: 0, refunding: 0, unrefunded: 0 };
    time.wakeAll();
    await bothRead();
    expect(await value("coinslot_payments_undelivered")).toEqual([9]);
    await gauges.stop();
  });

  test("of an account or a network that a reload has taken away are told no more", async () => {
    const { gauges, mechanisms, telemetry, time, value, bothRead } = setUp(async () => COUNTS);
    await bothRead();
    telemetry.metrics.networks.head("base", 1);
    mechanisms[0] = mechanismOf({ "0xC": 10n ** 16n });
    time.wakeAll();
    await bothRead();
    expect(await value("coinslot_wallet_settlements_left")).toEqual([10]);
    expect(await value("coinslot_wallet_balance")).toEqual([0.01]);
    expect(await value("coinslot_rpc_head_timestamp_seconds")).toEqual([1]);
    mechanisms.length = 0;
    time.wakeAll();
    await bothRead();
    expect(await value("coinslot_wallet_settlements_left")).toEqual([]);
    expect(await value("coinslot_rpc_head_timestamp_seconds")).toEqual([]);
    await gauges.stop();
  });

  test("go on after a ledger or a node that does not answer, and say so", async () => {
    let isBroken = true;
    const { gauges, lines, time, value, bothRead } = setUp(async () => {
      if (isBroken) throw new Error("disk full");
      return COUNTS;
    });
    await bothRead();
    expect(lines.join("")).toContain("disk full");
    expect(lines.join("")).toContain("no answer");

    isBroken = false;
    time.wakeAll();
    await bothRead();
    expect(await value("coinslot_payments_undelivered")).toEqual([2]);
    await gauges.stop();
  });

  test("stop only when no reading is running", async () => {
    const reading = Promise.withResolvers<PaymentCounts>();
    const { gauges } = setUp(() => reading.promise);
    let isStopped = false;
    const stopping = gauges.stop().then(() => (isStopped = true));
    await new Promise(setImmediate);
    expect(isStopped).toBe(false);
    reading.resolve(COUNTS);
    await stopping;
  });
});

test("balances that cannot be read are left out", async () => {
  const { gauges, mechanism, telemetry, time } = setUp(async () => COUNTS);
  const balances = await readBalances(mechanism, { telemetry, time }, new AbortController().signal);
  expect(balances.map(({ address }) => address)).toEqual(["0xA"]);
  await gauges.stop();
});
