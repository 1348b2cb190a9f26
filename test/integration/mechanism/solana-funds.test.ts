/** Payments of one token account, presented at once: no more is signed than the account can pay. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { TOKEN_2022_PROGRAM } from "../../../src/mechanism/solana/programs.ts";
import { layOut, memo, sourceOf, transfer, unitLimit } from "../../support/solana-messages.ts";
import { MovableTime } from "../../support/movable-time.ts";
import { never } from "../../support/solana-requests.ts";
import { hurriedTime } from "../../unit/mechanism/solana/tracking.ts";
import {
  FEE_PAYER,
  MINT,
  openBench,
  type Bench,
  type ReadyPayment,
  type SolanaPayment,
} from "./solana-bench.ts";

/** Longer than a payment waits for others of its account. */
const TIMEOUT_MS = 20_000;

let bench: Bench;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());
beforeEach(() => bench.renew());

/** A buyer who owns that many prices, and nothing else. */
async function fund(prices: bigint): Promise<void> {
  bench.payment = { ...bench.payment, payer: bench.freshKey() };
  const { payer, amount } = bench.payment;
  await bench.node.fundToken({ mint: MINT, owner: payer.address, amount: prices * amount });
}

/** Different payments of the same price. */
function payments(count: number, source?: string): SolanaPayment[] {
  const changes = source === undefined ? {} : { source };
  return Array.from({ length: count }, (_, index) => {
    const instructions = [
      unitLimit(60_000),
      transfer(bench.payment, changes),
      memo(`one of many: ${index}`),
    ];
    return bench.accept(bench.plan({ instructions }));
  });
}

/** All at once; each is found good. */
function inspected(all: readonly SolanaPayment[]): Promise<ReadyPayment[]> {
  return Promise.all(all.map((each) => bench.inspect(each)));
}

/** Whether each is signed, asked for one after the other; what is signed is not sent. */
async function drafted(all: readonly ReadyPayment[]): Promise<readonly boolean[]> {
  const found: boolean[] = [];
  for (const each of all) {
    const { draft, leftOut } = await bench.solana.prepare([each], FEE_PAYER, never);
    expect(leftOut).toEqual(draft === undefined ? [0] : []);
    found.push(draft !== undefined);
  }
  return found;
}

describe("payments that were verified at once", { timeout: TIMEOUT_MS }, () => {
  test("are signed only as far as the account can pay all of them", async () => {
    await fund(2n);
    const all = payments(5);
    expect(await drafted(await inspected(all))).toEqual([true, true, false, false, false]);
  });

  test("are signed only as far as a delegate is allowed to pay", async () => {
    const owner = bench.freshKey().address;
    const source = await bench.node.fundToken({ mint: MINT, owner, amount: 1_000_000n });
    bench.node.approve(source, bench.payment.payer.address, 2n * bench.payment.amount);
    const all = payments(3, source);
    expect(await drafted(await inspected(all))).toEqual([true, true, false]);
  });

  test("are signed one by one where they are guarded by assertions", async () => {
    const all = ["a", "b"].map((text) => {
      const plan = layOut("phantom", bench.payment, { memo: text });
      return bench.accept({ ...plan, blockhash: bench.node.blockhash });
    });
    expect(await drafted(await inspected(all))).toEqual([true, false]);
  });
});

test("payments with assertions are signed as far as all of them together may be lost", async () => {
  const time = new MovableTime();
  // Of new payers half, which is one payment's fee.
  const careful = bench.mechanism({ time, lighthouseLossPerHour: 30_000n });
  const guarded = async (): Promise<ReadyPayment> => {
    await fund(1n);
    const plan = { ...layOut("phantom", bench.payment), blockhash: bench.node.blockhash };
    const payment = bench.accept(plan, careful);
    return bench.inspect(payment, careful);
  };
  await careful.balance(FEE_PAYER, never);
  const [first, second] = [await guarded(), await guarded()];
  await bench.sign(first, careful);
  const leftOut = { draft: undefined, leftOut: [0] };
  expect(await careful.prepare([second], FEE_PAYER, never)).toEqual(leftOut);
  // What was signed, and is not known to have gone well, is lost for an hour.
  time.offsetMs += 3_000_000;
  expect(await careful.inspect(second, never)).toMatchObject({
    error: { detail: expect.stringContaining("are under way") },
  });
  time.offsetMs += 600_000;
  const again = await bench.inspect(second, careful);
  expect((await careful.prepare([again], FEE_PAYER, never)).leftOut).toEqual([]);
});

describe("a second payment of an account", { timeout: TIMEOUT_MS }, () => {
  test("waits for the first, and is refused when that has taken the money", async () => {
    await fund(1n);
    const [first, second] = payments(2);
    if (first === undefined || second === undefined) throw new Error("two payments");
    const [ready, waiting] = [await bench.inspect(first), await bench.inspect(second)];
    const signed = await bench.sign(ready);
    expect(await drafted([waiting])).toEqual([false]);
    const [said, verdict] = await Promise.all([
      bench.settle(first, signed),
      bench.solana.inspect(second, never),
    ]);
    expect(said.kind).toBe("confirmed");
    expect(verdict).toMatchObject({ error: { code: "insufficient_funds" } });
    expect(await drafted([waiting])).toEqual([false]);
  });

  test("waits for the first, and is paid where there is enough for both", async () => {
    await fund(2n);
    const [first, second] = payments(2);
    if (first === undefined || second === undefined) throw new Error("two payments");
    const signed = await bench.sign(await bench.inspect(first));
    // In a block, but not decided as yet: from what is seen, one price is left, and one is under way.
    await bench.solana.broadcast(signed, never);
    const waiting = bench.inspect(second);
    const said = await bench.settle(first, signed);
    expect(said.kind).toBe("confirmed");
    const signedLater = await bench.sign(await waiting);
    expect((await bench.settle(second, signedLater)).kind).toBe("confirmed");
    expect(await bench.node.tokenBalanceOf(bench.payment.payer.address, MINT)).toBe(0n);
  });

  test("is refused by name when the first is not decided in a few seconds", async () => {
    await fund(1n);
    const [first, second] = payments(2);
    if (first === undefined || second === undefined) throw new Error("two payments");
    const hurried = bench.mechanism({ time: hurriedTime(20) });
    await bench.sign(await bench.inspect(first, hurried), hurried);
    expect(await hurried.inspect(second, never)).toMatchObject({
      error: {
        code: "insufficient_funds",
        detail: expect.stringContaining(
          `other payments of this account are under way: ${sourceOf(bench.payment)}`,
        ),
      },
    });
  });
});

/** Anybody can make one, for any program. */
const HUGE = { lamports: 100_000_000_000n, data: new Uint8Array(10_000_000), executable: false };

describe("an account of ten megabytes", () => {
  test.each([
    ["another program's", "Vote111111111111111111111111111111111111111"],
    ["a token program's", TOKEN_2022_PROGRAM],
  ])("of %s, named as the source, costs a small answer", async (_whose, owner) => {
    const source = bench.freshKey().address;
    bench.node.setAccount(source, { ...HUGE, owner });
    const [payment] = payments(1, source);
    if (payment === undefined) throw new Error("a payment");
    const verdict = await bench.solana.inspect(payment, never);
    expect(verdict).toMatchObject({ error: { code: expect.stringMatching(/^in/) } });
  });

  test("named as a lookup table costs a small answer", async () => {
    const table = bench.freshKey().address;
    bench.node.setAccount(table, { ...HUGE, owner: "Vote111111111111111111111111111111111111111" });
    expect(await bench.verify(bench.plan({ tables: { [table]: [MINT] } }))).toMatch(
      /^invalid_payload: .*lookup table/,
    );
  });
});
