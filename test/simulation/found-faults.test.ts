/** Faults that the simulation has found, each with the few steps that lead to it. */
import { takeOffers } from "../unit/ledger/ledger-driver.ts";
import { describe, expect, it } from "vitest";
import type { Ledger } from "../../src/ledger/ledger.ts";
import { MemoryLedger, MemoryStore } from "../support/memory-ledger.ts";
import type { Fault, FaultPlan } from "./faults.ts";
import {
  NETWORK,
  payerNamed,
  PRICE,
  requirementsOf,
  signPayment,
  type SimulatedPayment,
} from "./payments.ts";
import { CALM, type Profile } from "./profile.ts";
import { World } from "./world.ts";

const ACCOUNT = "0x00000000000000000000000000000000000000a1";
const NOW_MS = 1_750_000_000_000;
const REFUSED = { code: "invalid_transaction_state", detail: "the authorization is used" } as const;

const requirements = requirementsOf(60);
const { key, payload } = signPayment({ payer: 1, number: 1, nowMs: NOW_MS, requirements });
const request = { paymentPayload: payload, paymentRequirements: requirements };
const terms = {
  claimant: "",
  binding: "GET /a",
  target: "/a",
  idempotencyKey: "the claim's own",
  request,
};

function live(store: MemoryStore, life: string): Ledger {
  return new MemoryLedger({ store, life, time: { now: () => NOW_MS } });
}

async function sign(ledger: Ledger): Promise<void> {
  const lease = await ledger.signing.lease(NETWORK, ACCOUNT);
  if (lease === undefined) throw new Error("the account is taken");
  await ledger.signing.signed([key], { ...lease, seed: 0 }, (accountNonce) => ({
    transaction: "0x1",
    raw: "0x1",
    account: ACCOUNT,
    accountNonce,
  }));
}

describe("a claim that was offered without an answer", () => {
  it("is not failed by who offered it, once another life has signed it", async () => {
    const store = new MemoryStore();
    const [first, second] = [live(store, "first"), live(store, "second")];
    await first.step(key, { kind: "claim", terms });
    await first.step(key, { kind: "offer" });
    await takeOffers(second, NETWORK, 1);
    await sign(second);
    const failing = first.step(key, { kind: "failed", failure: { ...REFUSED, isUnsigned: true } });
    await expect(failing).rejects.toMatchObject({ code: "LEDGER_CONFLICT" });
    expect((await second.outcome(key)).kind).toBe("pending");
  });

  it("is not failed by who offered it, as long as others may take it", async () => {
    const ledger = live(new MemoryStore(), "first");
    await ledger.step(key, { kind: "claim", terms });
    await ledger.step(key, { kind: "offer" });
    const failing = ledger.step(key, { kind: "failed", failure: { ...REFUSED, isUnsigned: true } });
    await expect(failing).rejects.toMatchObject({ code: "LEDGER_CONFLICT" });
  });
});

describe("a settlement that was waited for", () => {
  it("is not delivered for one target when the answer for another has begun meanwhile", async () => {
    const ledger = live(new MemoryStore(), "first");
    await ledger.step(key, { kind: "claim", terms });
    await sign(ledger);
    await ledger.step(key, {
      kind: "settled",
      settlement: { transaction: "0x1", network: NETWORK, payer: "" },
    });
    await ledger.step(key, { kind: "delivering", sale: terms });
    await ledger.step(key, { kind: "undelivered", broken: { sent: true, served: "/a" } });
    expect(await ledger.step(key, { kind: "delivering", sale: { ...terms, target: "/a?b" } })).toBe(
      false,
    );
    expect(await ledger.step(key, { kind: "delivering", sale: terms })).toBe(true);
  });
});

describe("a claim that was reaped while its life went on", () => {
  it("does not deliver what another claim of the same payment has paid for", async () => {
    const store = new MemoryStore();
    const [first, second] = [live(store, "first"), live(store, "second")];
    await first.step(key, { kind: "claim", terms });
    store.takeForDead("first");
    await second.upkeep.reap();
    const others = { ...terms, binding: "GET /b", target: "/b", idempotencyKey: "another's" };
    expect((await second.step(key, { kind: "claim", terms: others })).kind).toBe("granted");
    await sign(second);
    await second.step(key, {
      kind: "settled",
      settlement: { transaction: "0x1", network: NETWORK, payer: "" },
    });
    expect(await first.step(key, { kind: "delivering", sale: terms })).toBe(false);
    expect(await second.step(key, { kind: "delivering", sale: others })).toBe(true);
  });

  it("is not settled in its absence, bound to nothing", async () => {
    const store = new MemoryStore();
    const [first, second] = [live(store, "first"), live(store, "second")];
    await first.step(key, { kind: "claim", terms });
    store.takeForDead("first");
    await second.upkeep.reap();
    const holder = { claimedUnder: terms.idempotencyKey };
    expect(await first.step(key, { kind: "begin", request, caller: holder })).toEqual({
      kind: "taken",
    });
    expect((await first.outcome(key)).kind).toBe("gone");
  });

  it("is settled for its holder while it is there", async () => {
    const ledger = live(new MemoryStore(), "first");
    await ledger.step(key, { kind: "claim", terms });
    const holder = { claimedUnder: terms.idempotencyKey };
    expect(await ledger.step(key, { kind: "begin", request, caller: holder })).toEqual({
      kind: "granted",
    });
  });
});

describe("an offered claim", () => {
  it("is settled by who has taken it without hearing so", async () => {
    const replicas = { accounts: [[ACCOUNT], [ACCOUNT]] };
    const steps = [
      { atMs: 10_000, payment: 1, to: "a1" },
      { atMs: 10_000, payment: 2, path: "/stocks", to: "b1" },
    ];
    let takes = 0;
    const at = (_crossing: number, name: string): Fault | undefined => {
      takes += Number(name === "ledger.take");
      return name === "ledger.take" && takes === 1 ? "fail-after" : undefined;
    };
    expect(await violationsOf(steps, replicas, { at })).toEqual({ violations: [], charged: 2 });
    expect(takes).toBeGreaterThan(1);
  });
});

interface Step {
  readonly atMs: number;
  /** Which of the payer's payments is shown: those of one number are one payment. */
  readonly payment: number;
  readonly path?: string;
  readonly patienceMs?: number;
  readonly to?: string;
}

/** The broken promises of a world in which one payer does this, and the payments that he is charged. */
async function violationsOf(steps: readonly Step[], profile: Partial<Profile>, plan?: FaultPlan) {
  // Whoever leaves has no sale to complain of.
  const alone = { payments: 0, payers: 0, impatience: 1 };
  const planned = plan === undefined ? {} : { plan };
  const world = new World({ seed: 1, profile: { ...CALM, ...alone, ...profile }, ...planned });
  world.chain.endow(payerNamed(0), PRICE * 9n);
  const signed = new Map<number, SimulatedPayment>();
  for (const { atMs, payment: number, path = "/weather", patienceMs = 60_000, to } of steps) {
    world.time.schedule(atMs, null, () => {
      const payment = signed.get(number) ?? world.sign(world.purchase(0));
      signed.set(number, payment);
      void world.send({ payment, path, target: path, client: "192.0.2.1" }, patienceMs, to);
    });
  }
  const { violations, charged } = await world.run();
  return { violations, charged };
}

describe("a payer who buys one thing several times", () => {
  const SLOW = { blockMs: 10_000 } as const;

  it("is charged for one while a request with a new payment waits for another", async () => {
    const steps = [
      { atMs: 1_000, payment: 1, patienceMs: 1_000, to: "a1/1" },
      { atMs: 3_000, payment: 2, to: "a1/2" },
      { atMs: 6_000, payment: 3, to: "a1/2" },
    ];
    const withWorkers = { ...SLOW, workers: 2 };
    expect(await violationsOf(steps, withWorkers)).toEqual({ violations: [], charged: 2 });
  });

  it("is not charged for one that waited for what another has had, while a third is owed", async () => {
    const steps = [
      { atMs: 1_000, payment: 1, patienceMs: 1_000 },
      { atMs: 1_000, payment: 2, patienceMs: 4_000 },
      { atMs: 3_000, payment: 3 },
      { atMs: 3_000, payment: 4 },
    ];
    const unkept = { ...SLOW, large: 1 };
    expect(await violationsOf(steps, unkept)).toEqual({ violations: [], charged: 2 });
  });

  it("is not charged for what was being given to him when the process died", async () => {
    const steps = [
      { atMs: 1_000, payment: 1, patienceMs: 8_000 },
      { atMs: 30_000, payment: 2 },
      { atMs: 40_000, payment: 3 },
      { atMs: 50_000, payment: 4 },
    ];
    const faults = new Map<string, Fault>([
      // The buyer leaves meanwhile, and the answer is kept.
      ["upstream", "slow"],
      ["client", "crash-before"],
    ]);
    const at = (_crossing: number, name: string): Fault | undefined => {
      const fault = faults.get(name);
      faults.delete(name);
      return fault;
    };
    // The last one buys it once more.
    expect(await violationsOf(steps, {}, { at })).toEqual({ violations: [], charged: 2 });
    expect(faults.size).toBe(0);
  });

  it("is not charged for one that he has shown for another sale before", async () => {
    const steps = [
      { atMs: 1_000, payment: 1 },
      { atMs: 1_000, payment: 2, path: "/stocks" },
      { atMs: 20_000, payment: 3 },
      { atMs: 30_000, payment: 3, path: "/stocks" },
    ];
    const failing = { upstreamFailing: 1 };
    expect(await violationsOf(steps, failing)).toEqual({ violations: [], charged: 2 });
  });

  it("is not charged for one whose claim died with its process, while another has become owed", async () => {
    const steps = [
      { atMs: 1_000, payment: 1, patienceMs: 1_000, to: "a1" },
      { atMs: 7_000, payment: 2, path: "/stocks", to: "b1" },
      { atMs: 7_500, payment: 2, to: "a1" },
    ];
    const replicas = { accounts: [[ACCOUNT], [ACCOUNT]] };
    let claims = 0;
    const at = (_crossing: number, name: string): Fault | undefined => {
      claims += Number(name === "ledger.claim");
      return name === "ledger.claim" && claims === 2 ? "crash-after" : undefined;
    };
    expect(await violationsOf(steps, replicas, { at })).toEqual({ violations: [], charged: 1 });
    expect(claims).toBeGreaterThan(2);
  });

  it("is not charged for one that could not be given back, while another has become owed", async () => {
    const steps = [
      { atMs: 1_000, payment: 1, to: "a1" },
      { atMs: 1_500, payment: 2, patienceMs: 1_000, to: "a1" },
      { atMs: 2_000, payment: 1, to: "b1" },
      { atMs: 13_000, payment: 1, to: "b1" },
    ];
    const replicas = { ...SLOW, accounts: [[ACCOUNT], [ACCOUNT]] };
    const [inspected, releases] = [new Set<string>(), { count: 0 }];
    const at = (_crossing: number, name: string): Fault | undefined => {
      if (name === "ledger.released" && (releases.count += 1) === 2) return "fail-before";
      if (name !== "chain.inspect" || inspected.has(name)) return undefined;
      inspected.add(name);
      return "slow";
    };
    expect(await violationsOf(steps, replicas, { at })).toEqual({ violations: [], charged: 1 });
    expect(releases.count).toBe(2);
  });
});
