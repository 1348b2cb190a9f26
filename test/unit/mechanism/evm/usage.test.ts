import { describe, expect, test } from "vitest";
import { uintWord } from "../../../../src/mechanism/evm/abi.ts";
import { EXPIRY_FINALITY_SECONDS } from "../../../../src/mechanism/evm/confirmation.ts";
import {
  AUTHORIZATION_CANCELED_EVENT,
  AUTHORIZATION_USED_EVENT,
} from "../../../../src/mechanism/evm/token.ts";
import { LOG_WINDOW_BLOCKS, MAX_LOG_WINDOWS } from "../../../../src/mechanism/evm/usage.ts";
import type { RpcReply } from "../../../support/scripted-node.ts";
import {
  block,
  cancelled,
  chainWith,
  failure,
  hex,
  look,
  NOW,
  OURS,
  paid,
  receipt,
  reconcile,
  standing,
  THEIRS,
  token,
  transfer,
  authorization,
  used,
  usedTopics,
} from "./scripted-chain.ts";

const past = NOW + 60 + EXPIRY_FINALITY_SECONDS + 1;
const OTHER_TRANSFER = failure("the authorization's nonce was used for another transfer", false);

/** Our transaction reverted in block 100; the log that says who used the nonce, and their receipt. */
function reverted(found: object | null, logs: readonly object[] = []) {
  return (method: string, params: readonly unknown[]): RpcReply => {
    if (method === "eth_call") return { result: `0x${uintWord(1)}` };
    if (method === "eth_blockNumber") return { result: "0x64" };
    if (method === "eth_getBlockByNumber") return block(100, NOW);
    if (method === "eth_getLogs") return { result: found === null ? [] : [found] };
    return params[0] === THEIRS ? receipt("0x1", logs, THEIRS) : receipt("0x0");
  };
}

describe("a used nonce", () => {
  test("by the same transfer of another submitter confirms with their transaction", async () => {
    const { payment, node } = await look(
      reverted({ ...used, transactionHash: THEIRS }, [used, paid]),
    );
    expect(payment).toEqual({ kind: "confirmed", transaction: THEIRS });
    const filter = node.questions.find(({ method }) => method === "eth_getLogs")?.params[0];
    expect(filter).toEqual({
      address: token.address,
      topics: [
        [AUTHORIZATION_USED_EVENT, AUTHORIZATION_CANCELED_EVENT],
        ...usedTopics("").slice(1),
      ],
      fromBlock: "0x0",
      toBlock: "0x64",
    });
  });

  test("is no payment when another transfer of the same transaction looks like ours", async () => {
    const self = transfer(authorization.from, authorization.value);
    const other = { ...used, topics: [...used.topics.slice(0, 2), `0x${"55".repeat(32)}`] };
    for (const logs of [
      [used, self, other, paid],
      [other, paid, used, self],
      [other, paid, used],
    ]) {
      const { payment } = await look(reverted({ ...used, transactionHash: THEIRS }, logs));
      expect(payment).toEqual(OTHER_TRANSFER);
    }
  });

  test.each([
    ["reverted", receipt("0x0", [], THEIRS)],
    ["has no such log", receipt("0x1", [paid], THEIRS)],
    ["is nowhere", { result: null }],
  ])("says nothing when the transaction that the log names %s", async (_title, theirs) => {
    const chain = reverted({ ...used, transactionHash: THEIRS });
    const looking = look((method, params) =>
      method === "eth_getTransactionReceipt" && params[0] === THEIRS
        ? theirs
        : chain(method, params),
    );
    await expect(looking).resolves.toMatchObject({
      isSpent: true,
      payment: {
        kind: "unknown",
        detail: expect.stringContaining("the receipt of a logged transaction"),
      },
    });
  });

  test("by another submitter is confirmed only as deep as ours would be", async () => {
    const theirs = { transactionHash: THEIRS, status: "0x1", blockNumber: "0x66" };
    const at = (head: number) => (method: string, params: readonly unknown[]) => {
      if (method === "eth_blockNumber") return { result: hex(head) };
      if (method === "eth_getBlockByNumber") return block(head, NOW);
      if (params[0] === THEIRS) return { result: { ...theirs, logs: [used, paid] } };
      return reverted({ ...used, transactionHash: THEIRS })(method, params);
    };
    const shallow = await look(at(0x67), { confirmations: 3 });
    expect(shallow.payment).toEqual({
      kind: "unknown",
      detail: "in a block, with 2 of 3 confirmations",
    });
    const { payment } = await look(at(0x68), { confirmations: 3 });
    expect(payment).toEqual({ kind: "confirmed", transaction: THEIRS });
  });

  test("by a cancellation is a failure", async () => {
    const { payment } = await look(reverted({ ...cancelled, transactionHash: THEIRS }));
    expect(payment).toEqual(failure("the payer cancelled the authorization", false));
  });

  test("whose log cannot be found says nothing, after a bounded search", async () => {
    const ranges: unknown[] = [];
    const found = { transactionHash: OURS, status: "0x0", blockNumber: "0xf4240", logs: [] };
    const looking = look((method, params) => {
      if (method === "eth_getLogs") ranges.push(params[0]);
      if (method === "eth_getBlockByNumber") return block(1_000_000, NOW);
      if (method === "eth_getTransactionReceipt") return { result: found };
      return reverted(null)(method, params);
    });
    await expect(looking).resolves.toMatchObject({
      isSpent: true,
      payment: { kind: "unknown", detail: expect.stringContaining("no log of 10000 blocks") },
    });
    expect(ranges).toHaveLength(MAX_LOG_WINDOWS);
    const last = 1_000_000n - LOG_WINDOW_BLOCKS * BigInt(MAX_LOG_WINDOWS) + 1n;
    expect(ranges.at(-1)).toMatchObject({ fromBlock: hex(last) });
  });

  test("long ago is looked for where the authorization expired", async () => {
    // A block a second; block 5,000,000 is a day after the authorization expired.
    const newest = 5_000_000;
    const timeOf = (number: number) => NOW + 60 + 86_400 - (newest - number);
    const usedIn = newest - 86_400 - 20;
    const ranges: { fromBlock: string; toBlock: string }[] = [];
    const { confirmation, methods } = await reconcile((method, params) => {
      const [first] = params;
      if (method === "eth_call") return { result: `0x${uintWord(1)}` };
      if (method === "eth_getBlockByNumber") {
        const number = first === "latest" ? newest : Number(first);
        return block(number, timeOf(number));
      }
      if (method === "eth_getTransactionReceipt") {
        const logs = [used, paid];
        return {
          result: { transactionHash: THEIRS, status: "0x1", blockNumber: hex(usedIn), logs },
        };
      }
      const { fromBlock, toBlock } = Object(first) as { fromBlock: string; toBlock: string };
      ranges.push({ fromBlock, toBlock });
      const isThere = Number(fromBlock) <= usedIn && usedIn <= Number(toBlock);
      return { result: isThere ? [{ ...used, transactionHash: THEIRS }] : [] };
    }, undefined);
    expect(confirmation).toEqual({ kind: "confirmed", transaction: THEIRS });
    expect(ranges).toHaveLength(1);
    expect(methods.length).toBeLessThan(32);
  });
});

/** A chain on which nothing is used, with a newest block of that time. */
const unused =
  (timestamp: number) =>
  (method: string): RpcReply => {
    if (method === "eth_getTransactionReceipt") return { result: null };
    if (method === "eth_call") return { result: `0x${uintWord(0)}` };
    return block(100, timestamp);
  };

describe("reconciling", () => {
  test("does not ask about a claim that no transaction is named by", async () => {
    const theirs = { ...used, transactionHash: THEIRS };
    const { confirmation } = await reconcile((method, params) => {
      if (method === "eth_getLogs") return { result: [theirs] };
      if (method !== "eth_getTransactionReceipt") return chainWith({ result: null }, 1n)(method);
      if (params[0] === THEIRS) return receipt("0x1", [used, paid], THEIRS);
      return { error: { code: -32_602, message: "invalid argument 0: hex string too short" } };
    }, "0xdeadbeef");
    expect(confirmation).toEqual({ kind: "confirmed", transaction: THEIRS });
  });

  test("believes the claimed transaction's own logs", async () => {
    const { confirmation, methods } = await reconcile(
      (method, params) => reverted(null, [used, paid])(method, params),
      THEIRS,
    );
    expect(confirmation).toEqual({ kind: "confirmed", transaction: THEIRS });
    expect(methods).not.toContain("eth_getLogs");
  });

  test("believes no claim that the chain does not bear out", async () => {
    const { confirmation } = await reconcile(
      reverted({ ...used, transactionHash: THEIRS }, [used, paid]),
      OURS,
    );
    expect(confirmation).toEqual({ kind: "confirmed", transaction: THEIRS });
  });

  test("waits for as many blocks as are asked for", async () => {
    const { confirmation } = await reconcile(reverted(null, [used, paid]), THEIRS, {
      confirmations: 2,
    });
    expect(confirmation).toEqual({
      kind: "unknown",
      detail: "in a block, with 1 of 2 confirmations",
    });
  });

  test("knows nothing of an authorization that may still be used", async () => {
    const { confirmation } = await reconcile(unused(past - 1), OURS, { now: past });
    expect(confirmation).toEqual({
      kind: "unknown",
      detail: "the authorization is not used yet",
      isUnused: true,
    });
  });

  test("knows that it expired by the chain's time", async () => {
    const { confirmation, methods } = await reconcile(unused(past), undefined);
    expect(confirmation).toEqual(failure("the authorization expired unused", false));
    expect(methods).toEqual(["eth_getBlockByNumber", "eth_call"]);
  });
});

describe("where the chain stands", () => {
  const saying = (state: RpcReply) => (method: string) =>
    method === "eth_call" ? state : { result: hex(77) };

  test.each([
    ["used", 1, { head: 77, used: { code: "invalid_transaction_state" } }],
    ["unused", 0, { head: 77, used: null }],
  ])("is told with the newest block (%s)", async (_, state, expected) => {
    expect(await standing(saying({ result: `0x${uintWord(state)}` }))).toMatchObject(expected);
  });

  test.each<[string, RpcReply]>([
    ["no contract", { result: "0x" }],
    ["another contract", { result: `0x${uintWord(1)}${uintWord(1)}` }],
    ["one that reverts", { error: { code: 3, message: "execution reverted" } }],
  ])("is nowhere with what is no token: %s", async (_, state) => {
    expect(await standing(saying(state))).toBeNull();
  });

  test.each<[string, RpcReply]>([
    ["that has enough of us", { error: { code: -32_005, message: "limit exceeded" } }],
    ["that has not that block", { error: { code: -32_000, message: "header not found" } }],
    ["that answers nonsense", { result: null }],
  ])("is not known from a node %s", async (_, state) => {
    await expect(standing(saying(state))).rejects.toMatchObject({ name: /Error|Refusal/ });
  });
});
