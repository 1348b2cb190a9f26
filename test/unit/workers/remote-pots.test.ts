/** Balances at workers: each leases for itself, and what a dead one had is there for its siblings. */
import { expect, it } from "vitest";
import { creditsPot } from "../../../src/ledger/pots.ts";
import { PotLeases, PotShare } from "../../../src/payments/credits/pot-leases.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { systemTime } from "../../../src/time/time.ts";
import { ChannelFault } from "../../../src/workers/fault.ts";
import { RemotePots } from "../../../src/workers/remote-pots.ts";
import { networkOf } from "../../../src/x402/network.ts";
import { examplePayment, PAYER } from "../ledger/example-payment.ts";
import { SETTLEMENT, termsOf } from "../ledger/ledger-driver.ts";
import { workersStage } from "./workers-stage.ts";

const POT = creditsPot(networkOf("base-sepolia"), PAYER);
const ROUTE = "GET /weather";
const AMOUNT = 10_000n;
const logger = createLogger({ level: "silent", format: "json" });

async function stageWithCredits() {
  const stage = await workersStage();
  const { key, request } = examplePayment(1);
  const terms = termsOf({ request }, { fills: { pot: POT, amount: AMOUNT } });
  await stage.ledger.step(key, { kind: "claim", terms });
  await stage.ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
  return stage;
}

function leasesOn(pots: RemotePots): PotLeases {
  return new PotLeases({ pots, atRisk: () => 1_000_000n, time: systemTime, logger });
}

async function spend(leases: PotLeases, amount: bigint): Promise<boolean | string> {
  const reserved = await leases.reserve(POT, { max: amount });
  return reserved instanceof PotShare ? reserved.settle(amount, ROUTE) : reserved;
}

it("two workers spend a balance side by side, each request once, and all of it", async () => {
  const { ledger, worker } = await stageWithCredits();
  const both = ["1", "2"].map((name) => leasesOn(worker(name).pots));
  const one = async (leases: PotLeases): Promise<number> => {
    let answered = 0;
    while ((await spend(leases, 100n)) === true) answered += 1;
    return answered;
  };
  const counts = await Promise.all([...both, ...both].map(one));
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(100);
  await Promise.all(both.map((leases) => leases.drain()));
  expect(await ledger.books.credits()).toMatchObject([{ used: AMOUNT, free: 0n, leased: 0n }]);
});

it("what a worker had leased when it died is there for its siblings", async () => {
  const { ledger, worker } = await stageWithCredits();
  const dying = worker("1");
  expect(await spend(leasesOn(dying.pots), 100n)).toBe(true);
  const other = leasesOn(worker("2").pots);
  await dying.die();
  expect(await spend(other, AMOUNT)).toBe(true);
  await other.drain();
  expect((await ledger.pots.balances([POT])).get(POT)).toMatchObject({ free: 0n, leased: 0n });
});

it("change is given through the process with the money, and balances are read there", async () => {
  const { ledger, worker } = await stageWithCredits();
  const { pots, payments } = worker("1");
  const { key, request } = examplePayment(2);
  const terms = termsOf({ request }, { idempotencyKey: key, change: POT });
  await payments.step(key, { kind: "claim", terms });
  await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
  await payments.step(key, { kind: "delivering" });
  const metered = { charged: 9_995n, usage: "1", reason: null };
  await payments.step(key, { kind: "delivered", metered });
  const balances = await pots.balances([POT, "none"]);
  expect([...balances]).toEqual([[POT, { free: AMOUNT + 5n, leased: 0n, untilMs: null }]]);
});

it("what is no answer is none", async () => {
  const drawn = { pot: POT, held: 1n, whole: 1n, isWanted: false, isOver: false };
  const ask = { pot: POT, turn: 1, chunks: [], isHeld: false, base: 0n, first: 1n, wish: 1n };
  const answering = (answer: unknown): RemotePots => new RemotePots({ call: async () => answer });
  expect(await answering([drawn]).draw([ask])).toEqual([drawn]);
  const wrong = [
    undefined,
    [],
    [{ ...drawn, pot: "another" }],
    [{ ...drawn, held: 1 }],
    [{ ...drawn, whole: -1n }],
    [{ ...drawn, isOver: undefined }],
  ];
  for (const answer of wrong) {
    await expect(answering(answer).draw([ask])).rejects.toThrow(ChannelFault);
  }
  await expect(answering([]).balances([POT])).rejects.toThrow(ChannelFault);
});
