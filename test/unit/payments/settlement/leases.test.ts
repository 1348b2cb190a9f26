/** Several lives on one ledger: who signs, who waits, and who takes up what another one left. */
import { verifiedBy } from "../../../support/verified.ts";
import { onTheWire } from "../../../../src/facilitator/wire-facilitator.ts";
import { describe, expect, test } from "vitest";
import { ChainError } from "../../../../src/mechanism/mechanism.ts";
import type { ForeignRule } from "../../../../src/payments/facilitator.ts";
import { faultOf } from "../../../support/fault-of.ts";
import { ManualTime } from "../../../support/manual-time.ts";
import { MemoryLedger, MemoryStore } from "../../../support/memory-ledger.ts";
import {
  keyOf,
  nonceOf,
  openEngine,
  payment,
  settle,
  unavailable,
  unfinished,
  type EngineStage,
  type EngineStageOptions,
} from "./engine-stage.ts";
import { ACCOUNT, ScriptedChain } from "./scripted-mechanism.ts";

const ROUND_MS = 2_000;

/** Lives on one store, before one chain. */
class Lives {
  readonly store = new MemoryStore();
  readonly time = new ManualTime();
  readonly chain = new ScriptedChain();
  readonly #opened: EngineStage[] = [];

  async open(life: string, options: EngineStageOptions = {}): Promise<EngineStage> {
    const { store, time, chain } = this;
    const on = new MemoryLedger({ store, time, life });
    const at = await openEngine({ ...options, on, time, chain });
    this.#opened.push(at);
    return at;
  }

  /** Rounds of recovery of some of them, until something is so. */
  async roundsUntil(some: readonly EngineStage[], isSo: () => Promise<boolean> | boolean) {
    for (let round = 0; round < 40 && !(await isSo()); round += 1) {
      for (const { facilitator } of some) await this.time.of(facilitator.recover());
      await this.time.advance(ROUND_MS);
    }
    expect(await isSo()).toBe(true);
  }
}

/** Payments 2 and 3 in one transaction that moves only the first of them. */
async function withdrawn(at: EngineStage, key = "the third's own") {
  at.chain.automines = false;
  void settle(at, payment(1, 1)).catch(() => undefined);
  await at.time.until(() => at.chain.sent.length === 1);
  at.chain.failsTogether.add(nonceOf(3));
  const second = settle(at, payment(2, 2));
  const third = settle(at, payment(3, 3), { key, patienceMs: 600_000 });
  await at.time.until(() => at.chain.sent.includes("0x1"));
  return { second, third };
}

describe("two lives with one account", () => {
  test("have one signer, and the other's payments are settled by it", async () => {
    const lives = new Lives();
    const [one, two] = [await lives.open("one"), await lives.open("two")];
    const answers = await lives.time.of(
      Promise.all([
        settle(one, payment(1)),
        settle(two, payment(2)),
        settle(two, payment(3), { key: "key" }),
        settle(two, payment(3), { key: "key" }),
      ]),
    );
    expect(answers.every(({ success }) => success)).toBe(true);
    expect(new Set(answers.map(({ transaction }) => transaction)).size).toBe(3);
    expect(lives.store.nextNonces.size).toBe(1);
    expect([...lives.store.nextNonces.values()]).toEqual([3]);
    expect((await unfinished(one)).map(({ payments }) => payments.length)).toEqual([1, 1, 1]);
  });

  test("have an offer taken once, though two rounds have seen it", async () => {
    const lives = new Lives();
    const [one, two] = [await lives.open("one"), await lives.open("two")];
    const [late, judged] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const offers = one.ledger.queues.offers.bind(one.ledger);
    let rounds = 0;
    one.ledger.queues.offers = async (...asked) => {
      const found = await offers(...asked);
      if (found.length > 0 && (rounds += 1) === 1) await late.promise;
      return found;
    };
    const answer = settle(two, payment(1));
    await lives.time.until(() => rounds === 1);
    const before = lives.chain.count("inspect");
    lives.chain.hold("inspect", judged.promise);
    await lives.time.of(one.facilitator.recover());
    late.resolve();
    await lives.time.advance(0);
    expect(lives.chain.count("inspect") - before).toBe(1);
    judged.resolve();
    expect(await lives.time.of(answer)).toMatchObject({ success: true });
  });

  test("answer alike when the chain refuses an offered payment", async () => {
    const lives = new Lives();
    await lives.open("one");
    const two = await lives.open("two");
    const request = payment(1);
    await onTheWire(two.facilitator).verify(request, lives.time.timeout(1_000));
    lives.chain.refused.set(nonceOf(1), { code: "insufficient_funds", detail: "spent" });
    expect(await lives.time.of(settle(two, request))).toMatchObject({
      success: false,
      errorReason: "insufficient_funds",
    });
    // Nothing was signed, so the payer may try again.
    lives.chain.refused.clear();
    expect(await lives.time.of(settle(two, request))).toMatchObject({ success: true });
  });

  test("offer again what cannot be judged now", async () => {
    const lives = new Lives();
    const [one, two] = [await lives.open("one"), await lives.open("two")];
    const request = payment(1);
    const signal = lives.time.timeout(1_000);
    const verified = await verifiedBy(two.facilitator, request, signal);
    lives.chain.errors.set("inspect", new ChainError("CHAIN_TIMEOUT", "no answer"));
    const settling = settle(two, request, { verified });
    await lives.time.until(() => lives.chain.count("inspect") === 2);
    await lives.time.advance(1_000);
    expect(lives.chain.count("inspect")).toBe(2);
    lives.chain.errors.clear();
    await lives.roundsUntil([one], () => lives.chain.sent.length > 0);
    expect(await lives.time.of(settling)).toMatchObject({ success: true });
  });

  test("wait for a signer, and say that they do not know, when there is none", async () => {
    const lives = new Lives();
    const two = await lives.open("two", { ledger: { signing: { lease: async () => undefined } } });
    const late = lives.time.of(faultOf(settle(two, payment(1), { patienceMs: 5_000 })));
    expect(await late).toMatchObject({ kind: "unknown" });
    expect(lives.chain.count("prepare")).toBe(0);
    expect(await two.ledger.outcome(keyOf(payment(1)))).toMatchObject({ kind: "pending" });
  });

  test("do not know either when the time is up while they offer it", async () => {
    const lives = new Lives();
    const two = await lives.open("two", {
      ledger: { signing: { lease: async () => undefined } },
      onStep: (kind) => kind === "offer" && lives.time.sleep(10_000),
    });
    const late = lives.time.of(faultOf(settle(two, payment(1), { patienceMs: 5_000 })));
    expect(await late).toMatchObject({ kind: "unknown" });
    // The offer is stored before the process ends.
    await lives.time.advance(10_000);
  });
});

describe("a life that ends", () => {
  test("in order gives its account to the next, with what is not final yet", async () => {
    const lives = new Lives();
    const one = await lives.open("one");
    lives.chain.automines = false;
    const first = faultOf(settle(one, payment(1), { key: "key" }));
    await lives.time.until(() => lives.chain.sent.length === 1);
    await lives.time.of(one.facilitator.close());
    expect((await lives.time.of(first)).kind).toBe("unknown");
    const two = await lives.open("two");
    const second = settle(two, payment(2));
    const again = settle(two, payment(1), { key: "key" });
    await lives.time.until(() => lives.chain.sent.includes("0x1"));
    lives.chain.mine();
    expect(await lives.time.of(again)).toMatchObject({ success: true, transaction: "0x0" });
    expect(await lives.time.of(second)).toMatchObject({ success: true, transaction: "0x1" });
  });

  test("in a crash leaves signed bytes to the next, which sends them with nobody asking", async () => {
    const lives = new Lives();
    const one = await lives.open("one");
    lives.chain.broadcastError = new ChainError("CHAIN_UNREACHABLE", "no route");
    void settle(one, payment(1), { key: "key" }).catch(() => undefined);
    await lives.time.until(() => lives.chain.sent.length === 1);
    lives.store.kill("one");
    const two = await lives.open("two");
    lives.chain.broadcastError = undefined;
    await lives.roundsUntil([two], () => lives.chain.movedIn(nonceOf(1)) === "0x0");
    expect(await lives.time.of(settle(two, payment(1), { key: "key" }))).toMatchObject({
      success: true,
      transaction: "0x0",
    });
    expect([...lives.store.nextNonces.values()]).toEqual([1]);
  });

  test("in a crash before it signed leaves what it offered to the next", async () => {
    const lives = new Lives();
    const one = await lives.open("one", { ledger: { signing: { lease: async () => undefined } } });
    void settle(one, payment(1), { key: "old" }).catch(() => undefined);
    await lives.time.advance(100);
    lives.store.kill("one");
    const two = await lives.open("two");
    const again = settle(two, payment(1), { key: "old" });
    expect(await lives.time.of(again)).toMatchObject({ success: true, transaction: "0x0" });
  });
});

describe("a life that was taken for dead", () => {
  test("signs no more, and what it could not sign is signed by the other", async () => {
    const lives = new Lives();
    const [one, two] = [await lives.open("one"), await lives.open("two")];
    const [name] = lives.store.leases.keys();
    lives.store.leases.set(name ?? "", { holder: "two", epoch: 9 });
    await lives.time.of(two.facilitator.recover());
    const answers = await lives.time.of(
      Promise.all([settle(one, payment(1)), settle(two, payment(2))]),
    );
    expect(answers.every(({ success }) => success)).toBe(true);
    for (const { transaction } of answers) expect(["0x0", "0x1"]).toContain(transaction);
    expect([...lives.store.submissions.keys()].length).toBe(2);
    // One signature was refused; from then on it does not try.
    const before = one.lines.filter((line) => line.includes("took no signature")).length;
    expect(before).toBe(1);
    await lives.time.of(settle(one, payment(3)));
    expect(one.lines.filter((line) => line.includes("took no signature")).length).toBe(before);
  });

  test("replaces nothing that it signed before", async () => {
    const lives = new Lives();
    const one = await lives.open("one");
    lives.chain.automines = false;
    void settle(one, payment(1), { patienceMs: 600_000 }).catch(() => undefined);
    await lives.time.until(() => lives.chain.sent.length === 1);
    const [name] = lives.store.leases.keys();
    lives.store.leases.set(name ?? "", { holder: "two", epoch: 9 });
    await lives.time.advance(60_000);
    expect(new Set(lives.chain.sent)).toEqual(new Set(["0x0"]));
    expect((await one.ledger.signing.unfinished("base-sepolia", ACCOUNT))[0]?.variants.length).toBe(
      1,
    );
    expect(lives.chain.count("raise")).toBe(1);
  });
});

describe("a payment withdrawn from its batch", () => {
  test("waits for a chain that can be asked, and is settled alone", async () => {
    const lives = new Lives();
    const at = await lives.open("one", { maxTogether: 10 });
    const { second, third } = await withdrawn(at);
    at.chain.errors.set("inspect", new ChainError("CHAIN_TIMEOUT", "no answer"));
    at.chain.automines = true;
    at.chain.mine();
    expect(await at.time.of(second)).toMatchObject({ success: true });
    await at.time.advance(5_000);
    expect(await at.ledger.outcome(keyOf(payment(3, 3)))).toMatchObject({ kind: "pending" });
    at.chain.errors.clear();
    await lives.roundsUntil([at], () => at.chain.movedIn(nonceOf(3)) !== undefined);
    expect(await at.time.of(third)).toMatchObject({ success: true });
  });

  test("is signed once for a buyer who asks while it waits for that chain", async () => {
    const lives = new Lives();
    const at = await lives.open("one", { maxTogether: 10 });
    const key = "its buyer's";
    const { second } = await withdrawn(at, key);
    at.chain.errors.set("inspect", new ChainError("CHAIN_TIMEOUT", "no answer"));
    at.chain.automines = true;
    at.chain.mine();
    await at.time.of(second);
    await at.time.until(() => at.lines.some((line) => line.includes("was left behind")));
    at.chain.errors.clear();
    const asked = settle(at, payment(3, 3), { key, patienceMs: 600_000 });
    await lives.roundsUntil([at], () => at.chain.movedIn(nonceOf(3)) !== undefined);
    expect(await at.time.of(asked)).toMatchObject({ success: true });
    expect(at.lines.filter((line) => line.includes("took no signature"))).toEqual([]);
  });

  test("fails when the chain refuses it alone", async () => {
    const at = await new Lives().open("one", { maxTogether: 10 });
    const { third } = await withdrawn(at);
    at.chain.refused.set(nonceOf(3), { code: "insufficient_funds", detail: "spent" });
    at.chain.mine();
    expect(await at.time.of(third)).toMatchObject({ errorReason: "insufficient_funds" });
    expect(await at.ledger.outcome(keyOf(payment(3, 3)))).toMatchObject({ kind: "failed" });
  });

  test("is settled after all where it failed, and the chain's new past has its batch move it", async () => {
    const lives = new Lives();
    const at = await lives.open("one", { maxTogether: 10 });
    const { second, third } = await withdrawn(at);
    at.chain.refused.set(nonceOf(3), { code: "insufficient_funds", detail: "spent" });
    at.chain.mine();
    expect(await at.time.of(second)).toMatchObject({ success: true, transaction: "0x1" });
    expect(await at.time.of(third)).toMatchObject({ errorReason: "insufficient_funds" });
    at.chain.reorganize("0x1");
    at.chain.failsTogether.clear();
    at.chain.automines = true;
    const kind = async () => (await at.ledger.outcome(keyOf(payment(3, 3)))).kind;
    await lives.roundsUntil([at], async () => (await kind()) === "settled");
    expect(at.chain.movedIn(nonceOf(3))).toBe("0x1");
  });

  test("is settled after all where it failed, and another life watches its batch by then", async () => {
    const lives = new Lives();
    const one = await lives.open("one", { maxTogether: 10 });
    const { third } = await withdrawn(one);
    one.chain.refused.set(nonceOf(3), { code: "insufficient_funds", detail: "spent" });
    one.chain.mine();
    expect(await one.time.of(third)).toMatchObject({ errorReason: "insufficient_funds" });
    lives.store.kill("one");
    const two = await lives.open("two");
    await lives.time.of(two.facilitator.recover());
    lives.chain.reorganize("0x1");
    lives.chain.failsTogether.clear();
    lives.chain.automines = true;
    const kind = async () => (await two.ledger.outcome(keyOf(payment(3, 3)))).kind;
    await lives.roundsUntil([two], async () => (await kind()) === "settled");
    expect(lives.chain.movedIn(nonceOf(3))).toBe("0x1");
  });

  test("is not failed while it is in a block that is too new to count", async () => {
    const at = await new Lives().open("one", { maxTogether: 10 });
    const { third } = await withdrawn(at);
    const used = { code: "invalid_transaction_state", detail: "used" } as const;
    at.chain.refused.set(nonceOf(3), used);
    at.chain.tooNew.add(nonceOf(3));
    at.chain.mine();
    await at.time.until(() => at.chain.count("reconcile") > 0);
    await at.time.of(at.facilitator.recover());
    expect(await at.ledger.outcome(keyOf(payment(3, 3)))).toMatchObject({ kind: "pending" });
    at.chain.tooNew.clear();
    at.chain.movedBy(nonceOf(3), "0x1");
    await at.time.of(at.facilitator.recover());
    expect(await at.time.of(third)).toMatchObject({ success: true, transaction: "0x1" });
  });

  test("is asked for once a round while the chain decides nothing, and its buyers hear so", async () => {
    const lives = new Lives();
    const at = await lives.open("one", { maxTogether: 10 });
    const key = "the third's own";
    const { third } = await withdrawn(at, key);
    third.catch(() => undefined);
    const used = { code: "invalid_transaction_state", detail: "used" } as const;
    at.chain.refused.set(nonceOf(3), used);
    at.chain.tooNew.add(nonceOf(3));
    at.chain.mine();
    await at.time.until(() => at.chain.count("reconcile") > 0);
    const before = at.chain.count("reconcile");
    const rounds = 30;
    for (let round = 0; round < rounds; round += 1) {
      const again = settle(at, payment(3, 3), { key, patienceMs: 1_000 });
      const fault = faultOf(again);
      await at.time.of(at.facilitator.recover());
      await at.time.advance(ROUND_MS);
      expect(await at.time.of(fault)).toMatchObject({ kind: "unknown" });
    }
    expect(at.chain.count("reconcile") - before).toBeLessThanOrEqual(rounds + 1);
    lives.store.kill("one");
    const two = await lives.open("two");
    at.chain.tooNew.clear();
    await lives.roundsUntil(
      [two],
      async () => (await two.ledger.outcome(keyOf(payment(3, 3)))).kind === "failed",
    );
  });

  /** It is refused since somebody has submitted it meanwhile, as the chain says after a while. */
  async function overtaken(foreign: ForeignRule = "hold") {
    const at = await new Lives().open("one", { maxTogether: 10, foreign });
    const { third } = await withdrawn(at);
    const used = { code: "invalid_transaction_state", detail: "used" } as const;
    at.chain.refused.set(nonceOf(3), used);
    at.chain.errors.set("reconcile", new ChainError("CHAIN_TIMEOUT", "no answer"));
    at.chain.mine();
    await at.time.until(() => at.chain.count("reconcile") > 0);
    at.chain.errors.clear();
    at.chain.movedBy(nonceOf(3), "0xtheirs");
    const answer = faultOf(third).catch(() => third);
    await at.time.of(at.facilitator.recover());
    return at.time.of(answer);
  }

  test("is held when it is refused because somebody submitted it meanwhile", async () => {
    const held = { kind: "unknown", transaction: "0xtheirs" };
    expect(await overtaken()).toMatchObject(held);
  });

  test("is settled in somebody else's transaction where that is configured", async () => {
    expect(await overtaken("deliver")).toMatchObject({ success: true, transaction: "0xtheirs" });
  });

  describe("whose life ends in a crash", () => {
    /** Left behind and not signed again, by a life that is dead then. */
    async function leftByCrash(lives: Lives): Promise<void> {
      const at = await lives.open("one", { maxTogether: 10 });
      const { second, third } = await withdrawn(at);
      third.catch(() => undefined);
      at.chain.errors.set("inspect", new ChainError("CHAIN_TIMEOUT", "no answer"));
      at.chain.automines = true;
      at.chain.mine();
      await at.time.of(second);
      await at.time.until(() => at.lines.some((line) => line.includes("was left behind")));
      lives.store.kill("one");
      at.chain.errors.clear();
    }

    test("is settled by the next one with nobody asking, and for nobody else", async () => {
      const lives = new Lives();
      await leftByCrash(lives);
      const two = await lives.open("two");
      expect(await lives.time.of(settle(two, payment(3, 3), { key: "thief" }))).toMatchObject({
        success: false,
      });
      await lives.roundsUntil([two], () => lives.chain.movedIn(nonceOf(3)) !== undefined);
      await lives.time.until(
        async () => (await two.ledger.outcome(keyOf(payment(3, 3)))).kind === "settled",
      );
    });

    test("is held when somebody else has submitted it before the next one could", async () => {
      const lives = new Lives();
      await leftByCrash(lives);
      const used = { code: "invalid_transaction_state", detail: "used" } as const;
      lives.chain.refused.set(nonceOf(3), used);
      lives.chain.movedBy(nonceOf(3), "0xtheirs");
      const two = await lives.open("two");
      await lives.time.until(
        async () => (await two.ledger.outcome(keyOf(payment(3, 3)))).kind !== "pending",
      );
      expect(await two.ledger.outcome(keyOf(payment(3, 3)))).toMatchObject({
        kind: "held",
        transaction: "0xtheirs",
      });
    });
  });

  test("is offered where it is not known whether it was signed, and settled", async () => {
    const lives = new Lives();
    let failing = false;
    let offers = 0;
    const at: EngineStage = await lives.open("one", {
      maxTogether: 10,
      onStep: (kind) => kind === "offer" && ++offers === 1 && unavailable(),
      ledger: {
        signing: {
          signed: (...all) => (failing ? unavailable() : at.ledger.signing.signed(...all)),
        },
      },
    });
    const { second } = await withdrawn(at);
    failing = true;
    at.chain.automines = true;
    at.chain.mine();
    await at.time.of(second);
    await at.time.until(() => at.lines.some((line) => line.includes("may not be stored")));
    failing = false;
    await lives.roundsUntil([at], () => at.chain.movedIn(nonceOf(3)) !== undefined);
  });

  describe("that nothing here works on any more", () => {
    /** It is not known whether it was signed again; its buyer asks, and `then` it comes to another end. */
    async function askedFor(then: (at: EngineStage) => void) {
      const lives = new Lives();
      let failing = false;
      const at: EngineStage = await lives.open("one", {
        maxTogether: 10,
        ledger: {
          signing: {
            signed: (...all) => (failing ? unavailable() : at.ledger.signing.signed(...all)),
          },
        },
      });
      const key = "its buyer's";
      const { second } = await withdrawn(at, key);
      failing = true;
      at.chain.automines = true;
      at.chain.mine();
      await at.time.of(second);
      const doubts = () => at.lines.filter((line) => line.includes("may not be stored")).length;
      await at.time.until(() => doubts() === 1);
      then(at);
      const again = settle(at, payment(3, 3), { key, patienceMs: 600_000 });
      const isOver = async () => (await at.ledger.outcome(keyOf(payment(3, 3)))).kind !== "pending";
      await at.time.until(async () => doubts() === 2 || (await isOver()));
      failing = false;
      await lives.roundsUntil([at], isOver);
      return at.time.of(again);
    }

    test("is settled for its buyer, though it is not known again whether it was signed", async () => {
      expect(await askedFor(() => undefined)).toMatchObject({ success: true });
    });

    test("fails for its buyer, who may not be told so while it is as before", async () => {
      const refusal = { code: "insufficient_funds", detail: "spent" } as const;
      const told = await askedFor(({ chain }) => chain.refused.set(nonceOf(3), refusal));
      expect(told).toMatchObject({ errorReason: "insufficient_funds" });
    });
  });
});
