/** How one process spends pots: what it asks the ledger, what it answers before that is written, and what it has too much of. */
import { expect, test } from "vitest";
import { LedgerUnavailable } from "../../../../src/ledger/ledger.ts";
import { creditsPot, MAX_DRAWS, type PotDraw, type Pots } from "../../../../src/ledger/pots.ts";
import {
  IDLE_MS,
  MAX_WAITING,
  PotLeases,
  PotShare,
  SHORT_WAIT_MS,
  WRITTEN_MS,
  type NotReserved,
} from "../../../../src/payments/credits/pot-leases.ts";
import { MAX_RISK_WAITING, Risk, RISK_WAIT_MS } from "../../../../src/payments/credits/risk.ts";
import { networkOf } from "../../../../src/x402/network.ts";
import { ManualTime } from "../../../support/manual-time.ts";
import { MemoryStore } from "../../../support/memory-ledger.ts";
import { potsIn } from "../../../support/memory-pots.ts";
import { silentTelemetry } from "../../../simulation/silent-telemetry.ts";

const ROUTE = "GET /weather";
const POT = potOf("one");
const OTHER = potOf("other");
const { logger } = silentTelemetry(undefined);

function potOf(payer: string): string {
  return creditsPot(networkOf("base"), payer);
}

type Answer = PotShare | NotReserved;

class Stage {
  readonly store = new MemoryStore();
  readonly time = new ManualTime();
  readonly asked: (readonly PotDraw[])[] = [];
  /** What becomes of the next questions: of each, before it is done or after. */
  readonly faults: ("before" | "after" | "never")[] = [];

  fill(pot: string, amount: bigint): void {
    const fill = { pot, amount };
    const key = `payment ${this.store.pots.fills.size}`;
    const nowMs = this.time.now();
    this.store.closed.push(...this.store.pots.pour({ key, fill, route: "packs", nowMs }));
  }

  leases(life = "one", { atRisk = 1_000_000n, maxPots = 100_000 } = {}): PotLeases {
    const pots = potsIn(this.store, this.time, life);
    const draw: Pots["draw"] = async (draws) => {
      this.asked.push(draws);
      const fault = this.faults.shift();
      await this.time.sleep(2);
      if (fault === "before") throw new LedgerUnavailable("not done");
      const drawn = await pots.draw(draws);
      await this.time.sleep(2);
      if (fault === "after") throw new LedgerUnavailable("done, or not");
      if (fault === "never") await this.time.sleep(1e9);
      return drawn;
    };
    const { time } = this;
    return new PotLeases({ pots: { draw }, atRisk: () => atRisk, time, logger, maxPots });
  }

  /** The answer, however long it takes. */
  reserve(leases: PotLeases, max: bigint, pot = POT): Promise<Answer> {
    return this.time.of(Promise.resolve(leases.reserve(pot, { max })));
  }

  async reserved(leases: PotLeases, max: bigint, pot = POT): Promise<PotShare> {
    const answer = await this.reserve(leases, max, pot);
    if (!(answer instanceof PotShare)) throw new Error(`not reserved: ${answer}`);
    return answer;
  }

  get used(): bigint {
    const [sum] = this.store.pots.sums(this.store.closed);
    return sum?.used ?? 0n;
  }

  get leased(): bigint {
    return this.store.pots.pots.get(POT)?.leased ?? 0n;
  }
}

test("after the first request of a pot the others ask nobody, and what was used is written in time", async () => {
  const stage = new Stage();
  stage.fill(POT, 10_000n);
  const leases = stage.leases();
  expect((await stage.reserved(leases, 10n)).settle(10n, ROUTE)).toBe(true);
  const questions = stage.asked.length;
  for (let number = 0; number < 50; number += 1) {
    const reserved = leases.reserve(POT, { max: 1n });
    if (!(reserved instanceof PotShare)) throw new Error("it had to ask");
    expect(reserved.settle(1n, ROUTE)).toBe(true);
  }
  expect(stage.asked.length).toBe(questions);
  expect(leases.atRisk).toBe(60n);
  await stage.time.advance(WRITTEN_MS);
  expect(stage.used).toBe(60n);
  expect(leases.atRisk).toBe(0n);
});

test("gives back what was not used, all of it where the request has failed, and debits once", async () => {
  const stage = new Stage();
  stage.fill(POT, 100n);
  const leases = stage.leases();
  const failed = await stage.reserved(leases, 100n);
  expect(failed.settle(0n, ROUTE)).toBe(true);
  const cut = await stage.reserved(leases, 100n);
  expect(cut.settle(30n, ROUTE)).toBe(true);
  expect(cut.settle(30n, ROUTE)).toBe(true);
  expect((await stage.reserved(leases, 70n)).settle(1_000n, ROUTE)).toBe(true);
  await stage.time.advance(WRITTEN_MS);
  expect(stage.used).toBe(100n);
  expect(await stage.reserve(leases, 1n)).toBe("short");
});

test("a request beyond the seller's risk waits until what was used is written, or given back", async () => {
  const stage = new Stage();
  stage.fill(POT, 10_000n);
  stage.fill(OTHER, 10_000n);
  stage.fill(potOf("third"), 10_000n);
  const leases = stage.leases("one", { atRisk: 100n });
  const one = await stage.reserved(leases, 60n);
  const waits = leases.reserve(OTHER, { max: 60n });
  expect(waits).toBeInstanceOf(Promise);
  // In their order, also one that would fit.
  const behind = leases.reserve(potOf("third"), { max: 40n });
  expect(behind).toBeInstanceOf(Promise);
  expect(leases.sizes.waiting).toBe(2);
  expect(leases.atRisk).toBe(60n);
  expect(one.settle(60n, ROUTE)).toBe(true);
  const shares = await stage.time.of(Promise.all([waits, behind]));
  expect(stage.used).toBe(60n);
  expect(leases.atRisk).toBe(100n);
  const next = leases.reserve(POT, { max: 50n });
  for (const share of shares) if (share instanceof PotShare) share.settle(0n, ROUTE);
  expect(await stage.time.of(Promise.resolve(next))).toBeInstanceOf(PotShare);
  expect(leases.atRisk).toBe(50n);
});

test("one request is at risk though it is dearer than the risk, and others wait for it", async () => {
  const stage = new Stage();
  stage.fill(POT, 10_000n);
  stage.fill(OTHER, 10_000n);
  const leases = stage.leases("one", { atRisk: 100n });
  const dear = await stage.reserved(leases, 500n);
  const other = leases.reserve(OTHER, { max: 1n });
  expect(other).toBeInstanceOf(Promise);
  dear.settle(500n, ROUTE);
  expect(await stage.time.of(Promise.resolve(other))).toBeInstanceOf(PotShare);
});

test("a payer's slow requests have of the risk what they leave to others, and hold nobody up", async () => {
  const stage = new Stage();
  stage.fill(POT, 10_000n);
  stage.fill(OTHER, 10_000n);
  stage.fill(potOf("third"), 10_000n);
  const leases = stage.leases("one", { atRisk: 100n });
  const slow: PotShare[] = [];
  for (let number = 0; number < 5; number += 1) slow.push(await stage.reserved(leases, 10n));
  const more = Array.from({ length: 4 }, () => leases.reserve(POT, { max: 10n }));
  for (const each of more) expect(each).toBeInstanceOf(Promise);
  expect([leases.atRisk, leases.sizes.waiting]).toEqual([50n, 4]);
  // What is left is for others, at once, and in equal parts.
  expect((await stage.reserved(leases, 10n, OTHER)).settle(0n, ROUTE)).toBe(true);
  const others = [
    await stage.reserved(leases, 10n, OTHER),
    await stage.reserved(leases, 10n, OTHER),
  ];
  const third = leases.reserve(OTHER, { max: 10n });
  // And for whoever has nothing yet.
  const fresh = await stage.reserved(leases, 30n, potOf("third"));
  expect(fresh.settle(0n, ROUTE)).toBe(true);
  for (const each of [...slow, ...others]) each.settle(0n, ROUTE);
  const served = await stage.time.of(Promise.all([...more, third]));
  for (const each of served) expect(each).toBeInstanceOf(PotShare);
});

test("no more requests wait for their part of the risk than may, each so long, and who leaves makes room", async () => {
  const stage = new Stage();
  const payers = Array.from({ length: MAX_RISK_WAITING + 1 }, (_, number) => potOf(`${number}`));
  for (const pot of [POT, ...payers]) stage.fill(pot, 10_000n);
  const leases = stage.leases("one", { atRisk: 100n });
  await stage.reserved(leases, 100n);
  const leaving = new AbortController();
  const ask = (pot: string, signal?: AbortSignal) =>
    Promise.resolve(leases.reserve(pot, { max: 1n }, signal));
  const began = stage.time.now();
  const [first = "", last = "", ...others] = payers;
  const waiting = [ask(first, leaving.signal)];
  // Of one payer no more than he leaves to others.
  const half = MAX_RISK_WAITING / 2;
  for (let number = 1; number < half; number += 1) waiting.push(ask(first));
  expect(await stage.time.of(ask(first))).toBe("busy");
  for (const pot of others.slice(0, half)) waiting.push(ask(pot));
  expect(leases.sizes.waiting).toBe(MAX_RISK_WAITING);
  expect(await stage.time.of(ask(last))).toBe("busy");
  leaving.abort();
  waiting.push(ask(last));
  expect(leases.sizes.waiting).toBe(MAX_RISK_WAITING);
  const answers = await stage.time.of(Promise.all(waiting));
  expect(new Set(answers)).toEqual(new Set(["unavailable"]));
  expect(stage.time.now() - began).toBeLessThan(RISK_WAIT_MS + 1_000);
  expect(leases.sizes.waiting).toBe(0);
  expect(leases.atRisk).toBe(100n);
});

test("of payers who have nothing at risk nothing is kept", async () => {
  const time = new ManualTime();
  const risk = new Risk(() => 10n, time);
  expect(risk.take("one", 5n)).toBe(true);
  const late = risk.wait("one", 5n);
  const left = new AbortController();
  const leaving = risk.wait("other", 7n, left.signal);
  expect(risk.payers).toBe(2);
  left.abort();
  expect(await time.of(Promise.all([leaving, late]))).toEqual(["unavailable", "unavailable"]);
  risk.give("one", 5n);
  expect([risk.payers, risk.taken, risk.waiting]).toEqual([0, 0n, 0]);
});

test("two lives spend a balance of one cent once", async () => {
  const stage = new Stage();
  stage.fill(POT, 10_000n);
  const [one, other] = [stage.leases("one"), stage.leases("other")];
  const both = await stage.time.of(
    Promise.all([one, other].map(async (leases) => leases.reserve(POT, { max: 10_000n }))),
  );
  const got = both.filter((each) => each instanceof PotShare);
  expect(got.length).toBe(1);
  expect(both.filter((each) => each === "short").length).toBe(1);
  got[0]?.settle(10_000n, ROUTE);
  await stage.time.advance(SHORT_WAIT_MS);
  expect(stage.used).toBe(10_000n);
  expect(await stage.reserve(one, 1n)).toBe("short");
});

test("what one life has leased and does not need another one gets: idle, or in use", async () => {
  const stage = new Stage();
  stage.fill(POT, 1_000n);
  const [one, other] = [stage.leases("one"), stage.leases("other")];
  (await stage.reserved(one, 100n)).settle(100n, ROUTE);
  expect(stage.leased).toBeGreaterThan(200n);
  const idle = await stage.reserved(other, 800n);
  idle.settle(0n, ROUTE);
  // And back, while the other one goes on with little.
  const busy = Array.from({ length: 30 }, async (_, number) => {
    await stage.time.sleep(number * 100);
    const small = await other.reserve(POT, { max: 1n });
    if (small instanceof PotShare) small.settle(1n, ROUTE);
  });
  const back = await stage.time.of(Promise.resolve(one.reserve(POT, { max: 800n })));
  expect(back).toBeInstanceOf(PotShare);
  await stage.time.of(Promise.all(busy));
});

test("who waits for what others have reserved waits so long, and no longer", async () => {
  const stage = new Stage();
  stage.fill(POT, 100n);
  const reserved = await stage.reserved(stage.leases("one"), 100n);
  const other = stage.leases("other");
  const began = stage.time.now();
  expect(await stage.reserve(other, 10n)).toBe("short");
  expect(stage.time.now() - began).toBeGreaterThanOrEqual(SHORT_WAIT_MS);
  expect(stage.time.now() - began).toBeLessThan(SHORT_WAIT_MS + 200);
  reserved.settle(0n, ROUTE);
  expect(await stage.reserve(other, 100n)).toBeInstanceOf(PotShare);
});

test("leases of many that come once are given back as fast as they come", async () => {
  const stage = new Stage();
  const leases = stage.leases();
  const names = Array.from({ length: 4 * MAX_DRAWS }, (_, number) => potOf(`payer ${number}`));
  for (const name of names) stage.fill(name, 10n);
  const reserving = names.map(async (name) => leases.reserve(name, { max: 1n }));
  for (const each of await stage.time.of(Promise.all(reserving))) {
    if (each instanceof PotShare) each.settle(1n, ROUTE);
  }
  const began = stage.time.now();
  await stage.time.until(() => leases.sizes.pots === 0);
  expect(stage.time.now() - began).toBeLessThan(2 * IDLE_MS);
  expect(stage.used).toBe(BigInt(names.length));
});

test("a lease of which nobody uses anything is given back, and the pot forgotten", async () => {
  const stage = new Stage();
  stage.fill(POT, 1_000n);
  const leases = stage.leases();
  (await stage.reserved(leases, 100n)).settle(100n, ROUTE);
  await stage.time.advance(2 * IDLE_MS + WRITTEN_MS);
  expect(stage.leased).toBe(0n);
  await stage.time.advance(IDLE_MS);
  expect(leases.sizes).toEqual({ pots: 0, waiting: 0 });
  const { length } = stage.asked;
  await stage.time.advance(60_000);
  expect(stage.asked.length).toBe(length);
});

test("no more requests wait for one pot than may, and who leaves makes room", async () => {
  const stage = new Stage();
  stage.fill(POT, 1_000_000n);
  const leases = stage.leases();
  const leaving = new AbortController();
  const ask = async (signal?: AbortSignal): Promise<Answer> =>
    leases.reserve(POT, { max: 1n }, signal);
  const waiting = [ask(leaving.signal), ...Array.from({ length: MAX_WAITING - 1 }, () => ask())];
  expect(leases.reserve(POT, { max: 1n })).toBe("busy");
  leaving.abort();
  waiting.push(ask());
  expect(leases.sizes.waiting).toBe(MAX_WAITING);
  const answers = await stage.time.of(Promise.all(waiting));
  expect(answers.filter((each) => each instanceof PotShare).length).toBe(MAX_WAITING);
  expect(answers[0]).toBe("unavailable");
  expect(leases.sizes.waiting).toBe(0);
  expect(leases.reserve(POT, { max: 1n }, leaving.signal)).toBeInstanceOf(PotShare);
});

test("no more pots are in memory than may be, and one that nobody uses makes room", async () => {
  const stage = new Stage();
  for (const payer of ["a", "b", "c"]) stage.fill(potOf(payer), 100n);
  const leases = stage.leases("one", { maxPots: 2 });
  const held = await stage.reserved(leases, 10n, potOf("a"));
  (await stage.reserved(leases, 10n, potOf("b"))).settle(0n, ROUTE);
  expect(leases.reserve(potOf("c"), { max: 1n })).toBe("busy");
  await stage.time.until(async () => stage.store.pots.pots.get(potOf("b"))?.leased === 0n);
  await stage.time.advance(5);
  expect(await stage.reserve(leases, 1n, potOf("c"))).toBeInstanceOf(PotShare);
  expect(leases.sizes.pots).toBe(2);
  expect(held.settle(10n, ROUTE)).toBe(true);
});

test("strangers who have something for nothing leave half of the pots to who has prepaid", async () => {
  const stage = new Stage();
  const leases = stage.leases("one", { maxPots: 4 });
  for (const payer of ["a", "b", "c"]) stage.fill(potOf(payer), 100n);
  const opens = { amount: 2n, untilMs: stage.time.now() + 60_000 };
  const free = (name: string) =>
    stage.time.of(Promise.resolve(leases.reserve(`quota/${name}`, { max: 1n, opens })));
  const firsts = [await free("one"), await free("two")];
  expect(await free("three")).toBe("busy");
  const a = await stage.reserved(leases, 1n, potOf("a"));
  await stage.reserved(leases, 1n, potOf("b"));
  expect(leases.reserve(potOf("c"), { max: 1n })).toBe("busy");
  // Those of strangers make room for one another, and not what is prepaid.
  a.settle(0n, ROUTE);
  expect(await free("three")).toBe("busy");
  expect(leases.sizes.pots).toBe(4);
  for (const first of firsts) {
    if (!(first instanceof PotShare)) throw new Error("not reserved");
    first.settle(1n, ROUTE);
  }
  // Only what somebody has reserved is left.
  await stage.time.until(() => leases.sizes.pots === 1);
  for (const name of ["three", "four"]) expect(await free(name)).toBeInstanceOf(PotShare);
});

test("many pots at once are asked for in turns, and each gets its turn", async () => {
  const stage = new Stage();
  const names = Array.from({ length: 2 * MAX_DRAWS + 1 }, (_, number) => potOf(`payer ${number}`));
  for (const name of names) stage.fill(name, 10n);
  const leases = stage.leases();
  const all = names.map(async (name) => leases.reserve(name, { max: 1n }));
  const answers = await stage.time.of(Promise.all(all));
  expect(answers.every((each) => each instanceof PotShare)).toBe(true);
  expect(stage.asked.map(({ length }) => length)).toEqual([MAX_DRAWS, MAX_DRAWS, 1]);
});

test("a quota is made when it is first asked for, and nothing of it is at risk", async () => {
  const stage = new Stage();
  const leases = stage.leases("one", { atRisk: 0n });
  const opens = { amount: 2n, untilMs: stage.time.now() + 60_000 };
  const ask = (): Promise<Answer> =>
    stage.time.of(Promise.resolve(leases.reserve("free/one", { max: 1n, opens })));
  for (const each of [await ask(), await ask()]) {
    if (!(each instanceof PotShare)) throw new Error("not reserved");
    expect(each.settle(1n, ROUTE)).toBe(true);
  }
  expect(await ask()).toBe("short");
});

test("while the ledger is away requests hear so, and what was used is written when it is back", async () => {
  const stage = new Stage();
  stage.fill(POT, 1_000n);
  const leases = stage.leases();
  stage.faults.push("before");
  expect(await stage.reserve(leases, 10n)).toBe("unavailable");
  (await stage.reserved(leases, 10n)).settle(10n, ROUTE);
  stage.faults.push("before", "after", "after", "before");
  await stage.time.advance(WRITTEN_MS);
  expect(leases.atRisk).toBe(10n);
  await stage.time.until(() => leases.atRisk === 0n);
  expect(stage.used).toBe(10n);
});

test("what a question may have given back is not spent, though nobody knows", async () => {
  const stage = new Stage();
  stage.fill(POT, 1_000n);
  const leases = stage.leases();
  (await stage.reserved(leases, 100n)).settle(0n, ROUTE);
  stage.faults.push("after");
  await stage.time.until(() => stage.leased === 0n);
  await stage.time.advance(3);
  const other = await stage.reserved(stage.leases("other"), 1_000n);
  const late = leases.reserve(POT, { max: 100n });
  expect(late).not.toBeInstanceOf(PotShare);
  expect(await stage.time.of(Promise.resolve(late))).toBe("short");
  expect(other.settle(1_000n, ROUTE)).toBe(true);
});

test("who was taken for dead debits nothing of what he had, answers nothing for it, and begins anew", async () => {
  const stage = new Stage();
  stage.fill(POT, 1_000n);
  const leases = stage.leases();
  const before = await stage.reserved(leases, 100n);
  (await stage.reserved(leases, 10n)).settle(10n, ROUTE);
  stage.store.pots.returnLeases(() => true);
  await stage.time.advance(WRITTEN_MS);
  expect(stage.used).toBe(0n);
  expect(leases.atRisk).toBe(100n);
  expect(before.settle(100n, ROUTE)).toBe(false);
  expect(leases.atRisk).toBe(0n);
  expect((await stage.reserved(leases, 1_000n)).settle(1_000n, ROUTE)).toBe(true);
  await stage.time.advance(WRITTEN_MS);
  expect(stage.used).toBe(1_000n);
});

test("a drain writes what was used and gives back what no request has; later again for those", async () => {
  const stage = new Stage();
  stage.fill(POT, 1_000n);
  const leases = stage.leases();
  const late = await stage.reserved(leases, 100n);
  (await stage.reserved(leases, 10n)).settle(10n, ROUTE);
  await stage.time.of(leases.drain());
  expect(stage.used).toBe(10n);
  expect(stage.leased).toBe(100n);
  expect(leases.reserve(POT, { max: 1n })).toBe("unavailable");
  late.settle(40n, ROUTE);
  await stage.time.of(leases.drain());
  expect(stage.used).toBe(50n);
  expect(stage.leased).toBe(0n);
});

test("a drain ends though the ledger does not answer", async () => {
  const stage = new Stage();
  stage.fill(POT, 1_000n);
  const leases = stage.leases();
  (await stage.reserved(leases, 10n)).settle(10n, ROUTE);
  stage.faults.push("never");
  const began = stage.time.now();
  await stage.time.of(leases.drain());
  expect(stage.time.now() - began).toBeLessThan(11_000);
});
