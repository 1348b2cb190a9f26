import { describe, expect, test } from "vitest";
import { STUCK_MS } from "../../../../src/payments/settlement/submission-watch.ts";
import { ChainError } from "../../../../src/mechanism/mechanism.ts";
import { faultOf } from "../../../support/fault-of.ts";
import {
  keyOf,
  nonceOf,
  openEngine,
  payment,
  samplesOf,
  settle,
  unavailable,
  unfinished,
  type EngineStage,
  type EngineStageOptions,
} from "./engine-stage.ts";
import { ACCOUNT } from "./scripted-mechanism.ts";

/** Longest pause between two looks, milliseconds. */
const LOOK_MS = 500;
const THEIRS = "0xtheirs";
const SETTLED = { success: true, transaction: THEIRS };
const HELD = { kind: "unknown", transaction: THEIRS };

/** An engine whose payment 1 is signed and sent, in no block. */
async function withOneInTheAir(options: EngineStageOptions = {}) {
  const at = await openEngine(options);
  at.chain.automines = false;
  const settling = settle(at, payment(1), { key: "key", patienceMs: 600_000 });
  await at.time.until(() => at.chain.sent.length === 1);
  return { at, settling };
}

const stateOf = async (at: EngineStage) => (await unfinished(at))[0]?.state;
const isClosed = async (at: EngineStage) => (await unfinished(at)).length === 0;

/** One whose payment is settled and that is not final. */
async function included() {
  const { at, settling } = await withOneInTheAir();
  at.chain.mine();
  expect(await at.time.of(settling)).toMatchObject({ success: true });
  await at.time.until(async () => (await stateOf(at)) === "INCLUDED");
  return at;
}

/** Rounds of recovery, as long as something is not so. */
async function roundsUntil(at: EngineStage, isSo: () => Promise<boolean> | boolean) {
  for (let round = 0; round < 40 && !(await isSo()); round += 1) {
    await at.time.advance(2_000);
    await at.time.of(at.facilitator.recover());
  }
  expect(await isSo()).toBe(true);
}

describe("a submission that was sent", () => {
  test("is looked at often at first, and twice a second later on", async () => {
    const { at, settling } = await withOneInTheAir();
    await at.time.advance(51);
    expect(at.chain.count("look")).toBe(1);
    await at.time.advance(949);
    const looks = at.chain.count("look");
    expect(looks).toBeGreaterThanOrEqual(5);
    await at.time.advance(5_000);
    expect(at.chain.count("look") - looks).toBeLessThanOrEqual(11);
    at.chain.mine();
    expect(await at.time.of(settling)).toMatchObject({ success: true, transaction: "0x0" });
    expect(at.chain.sent).toEqual(["0x0"]);
  });

  test("is looked at at once when the node says that it is in a block", async () => {
    const at = await openEngine();
    at.chain.answer = "included";
    const started = at.time.now();
    expect(await at.time.of(settle(at, payment(1)))).toMatchObject({ success: true });
    expect(at.time.now()).toBe(started);
  });

  test("is sent again until a node takes it", async () => {
    const at = await openEngine();
    at.chain.broadcastError = new ChainError("CHAIN_ANSWER", "status 503");
    const settling = settle(at, payment(1));
    await at.time.until(() => at.chain.sent.length === 3);
    at.chain.broadcastError = undefined;
    expect(await at.time.of(settling)).toMatchObject({ success: true, transaction: "0x0" });
    expect(at.chain.sent).toEqual(["0x0", "0x0", "0x0", "0x0"]);
  });

  test.each([
    ["held under the transaction of whoever submitted it first", {}, HELD],
    ["settled under it, where that is configured", { foreign: "deliver" }, SETTLED],
  ] as const)("is %s, and its nonce is used up", async (_, options, expected) => {
    const { at, settling } = await withOneInTheAir(options);
    at.chain.movedBy(nonceOf(1), THEIRS);
    expect(await at.time.of(settling.catch((cause: unknown) => cause))).toMatchObject(expected);
    await at.time.advance(1_000);
    expect(await stateOf(at)).toBe("OPEN");
    at.chain.mine();
    await at.time.until(async () => (await stateOf(at)) === "INCLUDED");
  });

  test("survives a chain that cannot be asked for a while", async () => {
    const { at, settling } = await withOneInTheAir();
    at.chain.errors.set("look", new ChainError("CHAIN_TIMEOUT", "no answer"));
    await at.time.advance(5_000);
    at.chain.errors.clear();
    at.chain.mine();
    expect(await at.time.of(settling)).toMatchObject({ success: true, transaction: "0x0" });
  });

  test("is neither believed nor sent while its network has not proven itself", async () => {
    let isOpen = true;
    const { at, settling } = await withOneInTheAir({ isOpen: () => isOpen });
    await at.time.advance(1_000);
    isOpen = false;
    const [looks, sent] = [at.chain.count("look"), at.chain.sent.length];
    await at.time.advance(30_000);
    expect([at.chain.count("look"), at.chain.sent.length]).toEqual([looks, sent]);
    isOpen = true;
    at.chain.mine();
    expect(await at.time.of(settling)).toMatchObject({ success: true });
  });
});

describe("a network that may not be used because of us", () => {
  test("is still watched for what was signed, and sent it again", async () => {
    let isOpen = true;
    const stage = { isOpen: () => isOpen, isTrusted: () => true };
    const { at, settling } = await withOneInTheAir(stage);
    isOpen = false;
    const sent = at.chain.sent.length;
    await at.time.advance(30_000);
    expect(at.chain.sent.length).toBeGreaterThan(sent);
    expect(await at.time.of(faultOf(settle(at, payment(2))))).toMatchObject({
      kind: "unavailable",
    });
    at.chain.mine();
    expect(await at.time.of(settling)).toMatchObject({ success: true });
  });
});

describe("a failure", () => {
  test("counts when two looks in a row have found it", async () => {
    const { at, settling } = await withOneInTheAir();
    await at.time.advance(3_000);
    const looks = at.chain.count("look");
    at.chain.expired.add(nonceOf(1));
    await at.time.until(() => at.chain.count("look") === looks + 1);
    expect((await at.ledger.outcome(keyOf(payment(1)))).kind).toBe("pending");
    at.chain.expired.clear();
    await at.time.advance(LOOK_MS);
    at.chain.expired.add(nonceOf(1));
    await at.time.until(() => at.chain.count("look") === looks + 3);
    expect((await at.ledger.outcome(keyOf(payment(1)))).kind).toBe("pending");
    expect(await at.time.of(settling)).toMatchObject({
      success: false,
      errorReason: "invalid_transaction_state",
      transaction: "",
    });
    expect(at.chain.count("look")).toBe(looks + 4);
  });

  test("that turns out to be paid in somebody else's transaction is held after all", async () => {
    const { at, settling } = await withOneInTheAir();
    at.chain.fails.add(nonceOf(1));
    at.chain.mine();
    expect(await at.time.of(settling)).toMatchObject({ success: false });
    await at.time.until(async () => (await stateOf(at)) === "INCLUDED");
    at.chain.movedBy(nonceOf(1), THEIRS);
    await at.time.advance(60_000);
    await at.facilitator.recover();
    const again = settle(at, payment(1), { key: "key" }).catch((cause: unknown) => cause);
    expect(await at.time.of(again)).toMatchObject(HELD);
  });
});

describe("a submission that stays out of the blocks", () => {
  test("is replaced after a few blocks' time, then after twice as long", async () => {
    const { at, settling } = await withOneInTheAir();
    const started = at.time.now();
    await at.time.until(() => at.chain.sent.includes("0x0+1"));
    const first = at.time.now() - started;
    expect(first).toBeGreaterThanOrEqual(STUCK_MS);
    expect(first).toBeLessThan(STUCK_MS + LOOK_MS);
    await at.time.until(() => at.chain.sent.includes("0x0+2"));
    expect(at.time.now() - started - first).toBeGreaterThanOrEqual(2 * STUCK_MS - LOOK_MS);
    const [stored] = await unfinished(at);
    expect(stored?.variants.map(({ transaction }) => transaction)).toEqual([
      "0x0",
      "0x0+1",
      "0x0+2",
    ]);
    expect(await samplesOf(at.metrics, "coinslot_settlement_replacements_total")).toEqual([
      'coinslot_settlement_replacements_total{network="base-sepolia"} 2',
    ]);
    at.chain.mine();
    expect(await at.time.of(settling)).toMatchObject({ success: true, transaction: "0x0+2" });
  });

  test("is not replaced by what the ledger has not stored", async () => {
    let isDown = true;
    const { at, settling } = await withOneInTheAir({
      ledger: {
        signing: {
          replaced: (...all) => (isDown ? unavailable() : at.ledger.signing.replaced(...all)),
        },
      },
    });
    await at.time.until(() => at.chain.count("raise") === 1);
    await at.time.advance(LOOK_MS);
    expect(at.chain.sent).not.toContain("0x0+1");
    isDown = false;
    await at.time.until(() => at.chain.sent.includes("0x0+1"));
    at.chain.mine();
    expect(await at.time.of(settling)).toMatchObject({ success: true });
  });

  test("is sent again as it is where our fee cap allows no more", async () => {
    const { at, settling } = await withOneInTheAir();
    at.chain.allowsRaise = false;
    await at.time.until(() => at.chain.sent.length === 3);
    expect(new Set(at.chain.sent)).toEqual(new Set(["0x0"]));
    expect(at.chain.count("raise")).toBeGreaterThan(0);
    at.chain.mine();
    expect(await at.time.of(settling)).toMatchObject({ success: true });
  });

  test("is the only one of its account that is replaced: the others wait behind it", async () => {
    const { at } = await withOneInTheAir();
    void settle(at, payment(2), { patienceMs: 600_000 }).catch(() => undefined);
    await at.time.until(() => at.chain.sent.includes("0x0+2"));
    expect(at.chain.sent.filter((each) => each.startsWith("0x1+"))).toEqual([]);
  });
});

describe("a submission whose payment is decided otherwise", () => {
  test("is sent until its account nonce is used, since others wait behind it", async () => {
    const at = await openEngine();
    at.chain.broadcastError = new ChainError("CHAIN_ANSWER", "pool is full");
    const lost = settle(at, payment(1), { key: "key" });
    await at.time.until(() => at.chain.sent.length === 1);
    at.chain.expired.add(nonceOf(1));
    expect(await at.time.of(lost)).toMatchObject({ success: false });
    const behind = settle(at, payment(2), { patienceMs: 120_000 });
    await at.time.advance(2 * STUCK_MS);
    expect(at.chain.sent).toContain("0x0+1");
    at.chain.broadcastError = undefined;
    expect(await at.time.of(behind)).toMatchObject({ success: true, transaction: "0x1" });
    expect(at.chain.movedIn(nonceOf(1))).toBeUndefined();
    await at.time.until(async () => (await unfinished(at)).every(({ state }) => state !== "OPEN"));
  });

  test("is over when somebody else has used its account nonce, and the payment is signed anew", async () => {
    const { at, settling } = await withOneInTheAir();
    at.chain.automines = true;
    // Nonces 0 to 2 are somebody else's: our next one is 3.
    for (let used = 0; used < 3; used += 1) at.chain.useNonce(ACCOUNT);
    expect(await at.time.of(settling)).toMatchObject({ success: true, transaction: "0x3" });
    expect(at.chain.count("prepare")).toBe(2);
    await at.time.until(async () => (await stateOf(at)) === "INCLUDED");
    at.chain.isFinal = true;
    await at.time.advance(4_000_000);
    await at.time.of(at.facilitator.recover());
    expect(await isClosed(at)).toBe(true);
  });
});

describe("a submission in a block", () => {
  test("is closed when it is final, and not before", async () => {
    const at = await included();
    await at.time.advance(60_000);
    await at.facilitator.recover();
    expect(await stateOf(at)).toBe("INCLUDED");
    at.chain.isFinal = true;
    await roundsUntil(at, () => isClosed(at));
    const looks = at.chain.count("look");
    await at.time.advance(120_000);
    await at.facilitator.recover();
    expect(at.chain.count("look")).toBe(looks);
  });

  test("is closed at once where its network's blocks are final at once", async () => {
    const at = await openEngine();
    at.chain.isFinal = true;
    expect(await at.time.of(settle(at, payment(1)))).toMatchObject({ success: true });
    await at.time.until(() => isClosed(at));
    expect(at.chain.count("look")).toBe(1);
  });

  test.each([
    ["warn", false],
    ["error", true],
  ])("that is gone again is sent again, and told about (%s)", async (level, delivered) => {
    const at = await included();
    if (delivered) {
      // As a resource server would have claimed it.
      const key = keyOf(payment(1));
      const row = await at.ledger.step(key, { kind: "delivering" });
      expect(row).toBe(true);
      await at.ledger.step(key, { kind: "delivered" });
    }
    const sent = at.chain.sent.length;
    at.chain.reorganize("0x0");
    await roundsUntil(at, () => at.chain.sent.length > sent);
    expect(await stateOf(at)).toBe("OPEN");
    expect(at.chain.sent.at(-1)).toBe("0x0");
    const name = "coinslot_settlement_reorganizations_total";
    const counted = (which: boolean) => `${name}{network="base-sepolia",delivered="${which}"}`;
    expect(new Set(await samplesOf(at.metrics, name))).toEqual(
      new Set([`${counted(delivered)} 1`, `${counted(!delivered)} 0`]),
    );
    const told = at.lines.filter((line) => line.includes("gone from the chain"));
    expect(told.map((line): unknown => JSON.parse(line))).toMatchObject([{ level }]);
    // In a block once more, and paid for once, as before.
    at.chain.mine();
    await at.time.until(async () => (await stateOf(at)) === "INCLUDED");
    expect(await at.ledger.outcome(keyOf(payment(1)))).toMatchObject({ kind: "settled" });
    expect(await samplesOf(at.metrics, "coinslot_gas_spent_total")).toEqual([
      'coinslot_gas_spent_total{network="base-sepolia",kind="base"} 0.0009',
      'coinslot_gas_spent_total{network="base-sepolia",kind="priority"} 0.0001',
    ]);
    expect(await samplesOf(at.metrics, "coinslot_gas_spent_dollars_total")).toEqual([
      'coinslot_gas_spent_dollars_total{network="base-sepolia"} 2',
    ]);
  });

  test("that one look alone does not find stays where it is", async () => {
    const at = await included();
    const sent = at.chain.sent.length;
    const looks = at.chain.count("look");
    at.chain.reorganize("0x0");
    await roundsUntil(at, () => at.chain.count("look") === looks + 1);
    expect([await stateOf(at), at.chain.sent.length]).toEqual(["INCLUDED", sent]);
  });
});

describe("the ledger, when it fails", () => {
  test("keeps a settlement unknown until its result is stored", async () => {
    let isDown = true;
    const at: EngineStage = await openEngine({
      onStep: (kind) => kind === "settled" && isDown && unavailable(),
    });
    const fault = await at.time.of(faultOf(settle(at, payment(1), { key: "key" })));
    expect(fault).toMatchObject({ kind: "unknown" });
    expect(await stateOf(at)).toBe("OPEN");
    isDown = false;
    expect(await at.time.of(settle(at, payment(1), { key: "key" }))).toMatchObject({
      success: true,
      transaction: "0x0",
    });
    expect(at.chain.count("prepare")).toBe(1);
  });
});
