import { describe, expect, test } from "vitest";
import { BALANCE_CACHE_SECONDS, GasBalance } from "../../../../src/mechanism/evm/gas-balance.ts";
import type { Rpc } from "../../../../src/mechanism/rpc.ts";

const never = new AbortController().signal;
const ACCOUNT = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";

/** An account on a chain that answers with its balance as it stands. */
function account(wei: unknown) {
  const chain = { now: 100, wei, calls: new Array<unknown>() };
  const rpc: Rpc = {
    host: "node.example",
    async call(method, params) {
      chain.calls.push([method, ...params]);
      return chain.wei;
    },
    async close() {},
  };
  const clock = () => chain.now;
  const kept = new GasBalance({ account: ACCOUNT, network: "base", clock });
  const reserve = (cost: bigint) => kept.reserve(rpc, cost, never);
  return { chain, balance: { reserve } };
}

const short = { code: "CHAIN_GAS" };

describe("a gas balance", () => {
  test("may be promised to the last wei, and no further", async () => {
    const { chain, balance } = account("0x64");
    await balance.reserve(60n);
    await balance.reserve(40n);
    await expect(balance.reserve(1n)).rejects.toMatchObject({
      ...short,
      message: `base: ${ACCOUNT} has 0 wei left for network fees, the next settlement may cost 1`,
    });
    expect(chain.calls).toEqual([["eth_getBalance", ACCOUNT, "pending"]]);
  });

  test("refuses what is too dear without losing what is left", async () => {
    const { balance } = account("0x64");
    await expect(balance.reserve(101n)).rejects.toMatchObject(short);
    await balance.reserve(100n);
  });

  test("is promised once, however many read it at the same time", async () => {
    const { balance } = account("0x64");
    const asked = Array.from({ length: 5 }, () => balance.reserve(40n));
    const outcomes = await Promise.allSettled(asked);
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(2);
  });

  test("that was filled up is read again within a second, unless something of it is promised", async () => {
    const { chain, balance } = account("0x0");
    for (let times = 0; times < 3; times += 1) {
      await expect(balance.reserve(1n)).rejects.toMatchObject(short);
    }
    expect(chain.calls).toHaveLength(1);
    chain.wei = "0x64";
    chain.now += 1;
    await balance.reserve(100n);
    chain.wei = "0xc8";
    chain.now += 1;
    await expect(balance.reserve(101n)).rejects.toMatchObject(short);
    expect(chain.calls).toHaveLength(2);
    chain.now += BALANCE_CACHE_SECONDS;
    chain.wei = "0x64";
    for (let times = 0; times < 2; times += 1) {
      await expect(balance.reserve(1n)).rejects.toMatchObject(short);
      chain.now += 1;
    }
    expect(chain.calls).toHaveLength(3);
  });

  test("is read again after a few seconds, or when the clock was set back", async () => {
    const { chain, balance } = account("0x64");
    await balance.reserve(100n);
    chain.now += BALANCE_CACHE_SECONDS - 1;
    await expect(balance.reserve(1n)).rejects.toMatchObject(short);
    chain.now += BALANCE_CACHE_SECONDS + 1;
    await balance.reserve(100n);
    chain.now -= 50;
    await balance.reserve(100n);
    expect(chain.calls).toHaveLength(3);
  });

  test("keeps what was promised just before it was read again, and no longer", async () => {
    const { chain, balance } = account("0x64");
    await balance.reserve(60n);
    chain.now += BALANCE_CACHE_SECONDS;
    await expect(balance.reserve(41n)).rejects.toMatchObject(short);
    await balance.reserve(40n);
    chain.now += 2 * BALANCE_CACHE_SECONDS;
    await balance.reserve(100n);
  });

  test("of the wrong shape is an error, not a balance", async () => {
    const { balance } = account("100");
    await expect(balance.reserve(0n)).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
  });
});
