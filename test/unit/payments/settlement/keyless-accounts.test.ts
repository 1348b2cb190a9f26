/** Accounts whose keys are gone: what they left is seen to its end, by whoever is there, and signed by nobody. */
import { describe, expect, test } from "vitest";
import { ChainError } from "../../../../src/mechanism/mechanism.ts";
import { ManualTime } from "../../../support/manual-time.ts";
import { MemoryLedger, MemoryStore } from "../../../support/memory-ledger.ts";
import {
  keyOf,
  nonceOf,
  openEngine,
  payment,
  settle,
  type EngineStage,
  type EngineStageOptions,
} from "./engine-stage.ts";
import { ACCOUNT, OTHER_ACCOUNT, ScriptedChain } from "./scripted-mechanism.ts";

const ROUND_MS = 2_000;
const WITHOUT_KEY = { accounts: [OTHER_ACCOUNT], follows: "everything" } as const;

/** Lives on one store, before one chain. */
class Lives {
  readonly store = new MemoryStore();
  readonly time = new ManualTime();
  readonly chain = new ScriptedChain();

  open(life: string, options: EngineStageOptions = {}): Promise<EngineStage> {
    const { store, time, chain } = this;
    const on = new MemoryLedger({ store, time, life });
    return openEngine({ ...options, on, time, chain });
  }

  async rounds(count: number, ...some: readonly EngineStage[]): Promise<void> {
    for (let round = 0; round < count; round += 1) {
      for (const { facilitator } of some) await this.time.of(facilitator.recover());
      await this.time.advance(ROUND_MS);
    }
  }

  /** A life with the key dies with that payment in the air. */
  async leave(number: number, life = "one"): Promise<void> {
    this.chain.automines = false;
    const sent = this.chain.sent.length;
    const one = await this.open(life);
    void settle(one, payment(number), { key: "key" }).catch(() => undefined);
    await this.time.until(() => this.chain.sent.length > sent);
    await this.#end(one, life);
  }

  /** The same with three payments: the last of them shares a transaction, which does not move it. */
  async leaveBehind(): Promise<void> {
    this.chain.automines = false;
    const one = await this.open("one", { maxTogether: 10 });
    void settle(one, payment(1, 1)).catch(() => undefined);
    await this.time.until(() => this.chain.sent.length === 1);
    this.chain.failsTogether.add(nonceOf(3));
    for (const number of [2, 3]) void settle(one, payment(number, number)).catch(() => undefined);
    await this.time.until(() => this.chain.sent.includes("0x1"));
    await this.#end(one, "one");
  }

  /** Dead to the others, and silent. */
  async #end({ facilitator }: EngineStage, life: string): Promise<void> {
    this.store.kill(life);
    await this.time.of(facilitator.close());
  }

  /** Who watches the account without its key. */
  get watcher(): string | null | undefined {
    return this.store.leases.get(`base-sepolia/keyless/${ACCOUNT.toLowerCase()}`)?.holder;
  }
}

function warnings({ lines }: EngineStage, said: string): readonly Record<string, unknown>[] {
  return lines.filter((line) => line.includes(said)).map((line) => JSON.parse(line));
}

const NAMED = "an account whose key is not in this configuration";

describe("what an account without its key left", () => {
  test("is told to whoever asks for its payment, and the account is named once", async () => {
    const lives = new Lives();
    await lives.leave(1);
    const two = await lives.open("two", WITHOUT_KEY);
    const again = settle(two, payment(1), { key: "key" });
    lives.chain.mine();
    expect(await lives.time.of(again)).toMatchObject({ success: true, transaction: "0x0" });
    await lives.rounds(3, two);
    expect(warnings(two, NAMED)).toMatchObject([
      { level: "warn", network: "base-sepolia", account: ACCOUNT, open: 1 },
    ]);
  });

  test("is sent again until a block has it, and its failure is told", async () => {
    const lives = new Lives();
    lives.chain.broadcastError = new ChainError("CHAIN_UNREACHABLE", "no route");
    await lives.leave(1);
    lives.chain.broadcastError = undefined;
    const sent = lives.chain.sent.length;
    const two = await lives.open("two", WITHOUT_KEY);
    await lives.time.until(() => lives.chain.sent.length > sent);
    lives.chain.fails.add(nonceOf(1));
    lives.chain.mine();
    await lives.rounds(2, two);
    expect(await two.ledger.outcome(keyOf(payment(1)))).toMatchObject({ kind: "failed" });
  });

  test("is never replaced where it is stuck, which is told with what helps", async () => {
    const lives = new Lives();
    await lives.leave(1);
    const two = await lives.open("two", WITHOUT_KEY);
    await lives.rounds(30, two);
    expect(lives.chain.count("raise")).toBe(0);
    expect(new Set(lives.chain.sent)).toEqual(new Set(["0x0"]));
    const stuck = warnings(two, "cannot be replaced, since its account's key is not here");
    expect(stuck.length).toBeGreaterThan(0);
    expect(stuck[0]).toMatchObject({ level: "warn", seconds: expect.any(Number) });
    expect(JSON.stringify(stuck[0])).toContain("put the key back as one more signer");
  });

  test("and did not move goes with another account", async () => {
    const lives = new Lives();
    await lives.leaveBehind();
    const two = await lives.open("two", { ...WITHOUT_KEY, maxTogether: 10 });
    lives.chain.automines = true;
    lives.chain.mine();
    await lives.rounds(3, two);
    for (const [number, transaction] of [
      [1, "0x0"],
      [2, "0x1"],
      [3, "0x90F7/0"],
    ] as const) {
      const settlement = { transaction };
      const outcome = await two.ledger.outcome(keyOf(payment(number, number)));
      expect(outcome).toMatchObject({ kind: "settled", settlement });
    }
  });

  test("and did not move fails where nobody signs on that network any more", async () => {
    const lives = new Lives();
    await lives.leaveBehind();
    const two = await lives.open("two", { follows: "everything", isMoved: true });
    lives.chain.mine();
    await lives.rounds(3, two);
    const [moved, left] = [payment(2, 2), payment(3, 3)].map(keyOf);
    if (moved === undefined || left === undefined) throw new Error("two payments");
    expect(await two.ledger.outcome(moved)).toMatchObject({ kind: "settled" });
    expect(await two.ledger.outcome(left)).toMatchObject({ kind: "failed" });
  });

  test("is named where no endpoint shows its network, and nothing is asked", async () => {
    const lives = new Lives();
    await lives.leave(1);
    const asked = lives.chain.calls.length;
    const two = await lives.open("two", { follows: "nothing", isMoved: true });
    await lives.rounds(3, two);
    expect(lives.chain.calls.length).toBe(asked);
    expect(warnings(two, "name one under facilitator.rpc.base-sepolia")).toHaveLength(1);
    expect(await two.facilitator.strangers()).toMatchObject([
      { address: ACCOUNT, open: 1, isFollowed: false },
    ]);
  });

  test("is not looked at through a chain that is not trusted", async () => {
    const lives = new Lives();
    await lives.leave(1);
    const looks = lives.chain.count("look");
    const two = await lives.open("two", { ...WITHOUT_KEY, isOpen: () => false });
    await lives.rounds(3, two);
    expect(lives.chain.count("look")).toBe(looks);
    expect(lives.watcher).toBeUndefined();
  });

  test("is left alone by a life with the key, and not named by it", async () => {
    const lives = new Lives();
    await lives.leave(1);
    const two = await lives.open("two", { follows: "everything" });
    await lives.rounds(3, two);
    expect(lives.watcher).toBeUndefined();
    expect(warnings(two, NAMED)).toEqual([]);
    expect(await two.facilitator.strangers()).toEqual([]);
  });

  test("is seen to its end also where a life with the key came and went between two looks", async () => {
    const lives = new Lives();
    await lives.leave(1);
    const two = await lives.open("two", WITHOUT_KEY);
    await lives.rounds(1, two);
    await lives.leave(2, "three");
    lives.chain.mine();
    await lives.rounds(2, two);
    for (const number of [1, 2]) {
      const outcome = await two.ledger.outcome(keyOf(payment(number)));
      expect(outcome).toMatchObject({ kind: "settled" });
    }
  });

  test("is forgotten once it is final, and what comes later is named again", async () => {
    const lives = new Lives();
    await lives.leave(1);
    lives.chain.isFinal = true;
    const two = await lives.open("two", WITHOUT_KEY);
    lives.chain.mine();
    await lives.rounds(3, two);
    expect(lives.watcher).toBeNull();
    await lives.leave(2, "three");
    await lives.rounds(3, two);
    expect(lives.watcher).toBe("two");
    expect(warnings(two, NAMED)).toHaveLength(2);
  });
});

describe("several replicas", () => {
  test("without the key watch an account one at a time, the next when that one is gone", async () => {
    const lives = new Lives();
    await lives.leave(1);
    const two = await lives.open("two", WITHOUT_KEY);
    const three = await lives.open("three", WITHOUT_KEY);
    await lives.rounds(2, two, three);
    expect(lives.watcher).toBe("two");
    await lives.time.of(two.facilitator.close());
    await lives.rounds(1, three);
    expect(lives.watcher).toBe("three");
    lives.chain.mine();
    await lives.rounds(2, three);
    expect(await three.ledger.outcome(keyOf(payment(1)))).toMatchObject({ kind: "settled" });
  });

  test("leave an account to the one with the key, which replaces what is stuck", async () => {
    const lives = new Lives();
    await lives.leave(1);
    const two = await lives.open("two", WITHOUT_KEY);
    await lives.rounds(1, two);
    expect(lives.watcher).toBe("two");
    const three = await lives.open("three");
    await lives.rounds(1, two);
    expect(lives.watcher).toBeNull();
    await lives.rounds(10, three, two);
    expect(lives.chain.sent).toContain("0x0+1");
    expect(lives.watcher).toBeNull();
    lives.chain.mine();
    await lives.rounds(2, three);
    expect(await three.ledger.outcome(keyOf(payment(1)))).toMatchObject({ kind: "settled" });
  });
});

test("a life that settles nothing frees what dead ones left, too, and tells it", async () => {
  const lives = new Lives();
  const one = new MemoryLedger({ store: lives.store, time: lives.time, life: "one" });
  await one.step(keyOf(payment(1)), { kind: "begin", request: payment(1), caller: "key" });
  lives.store.kill("one");
  const two = await lives.open("two", { follows: "everything", isMoved: true });
  expect(await two.ledger.outcome(keyOf(payment(1)))).toMatchObject({ kind: "gone" });
  expect(warnings(two, "payments that a dead process left")).toMatchObject([{ freed: 1 }]);
});
