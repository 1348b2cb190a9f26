import { describe, expect, test } from "vitest";
import { uintWord } from "../../../../src/mechanism/evm/abi.ts";
import {
  EXPIRY_FINALITY_SECONDS,
  LOG_WINDOW_BLOCKS,
  MAX_LOG_WINDOWS,
} from "../../../../src/mechanism/evm/confirmation.ts";
import {
  AUTHORIZATION_CANCELED_EVENT,
  AUTHORIZATION_USED_EVENT,
} from "../../../../src/mechanism/evm/token.ts";
import type { RpcReply } from "../../../support/scripted-node.ts";
import {
  authorization,
  cancelled,
  chainWith,
  confirm,
  failure,
  NOW,
  OURS,
  paid,
  receipt,
  THEIRS,
  token,
  transfer,
  used,
  usedTopics,
  WITHOUT_TRANSFER,
} from "./scripted-chain.ts";

describe("a receipt with success", () => {
  test("confirms when it holds the exact use and transfer", async () => {
    const { confirmation, methods } = await confirm(() => receipt("0x1", [used, paid]));
    expect(confirmation).toEqual({ kind: "confirmed", transaction: OURS });
    expect(methods).toEqual(["eth_getTransactionReceipt"]);
  });

  test("confirms whatever the order of a token's two logs in our own transaction", async () => {
    const { confirmation } = await confirm(() => receipt("0x1", [paid, used]));
    expect(confirmation.kind).toBe("confirmed");
  });

  const elsewhere = `0x${"44".repeat(20)}`;
  test.each([
    ["no logs", []],
    ["only the use", [used]],
    ["only the transfer", [paid]],
    ["another recipient", [used, transfer(elsewhere, 10_000n)]],
    ["another value", [used, transfer(authorization.to, 9_999n)]],
    ["another contract's transfer", [used, { ...paid, address: elsewhere }]],
    ["another contract's use", [{ ...used, address: elsewhere }, paid]],
    ["a cancellation", [cancelled, paid]],
  ])("is a failure with %s, when the nonce is unused", async (_title, logs) => {
    const { confirmation, methods } = await confirm(chainWith([receipt("0x1", logs)], 0n));
    expect(confirmation).toEqual(failure(WITHOUT_TRANSFER));
    const question = ["eth_getTransactionReceipt", "eth_blockNumber", "eth_call"];
    expect(methods).toEqual([...question, ...question]);
  });

  test("without our logs is looked into when the nonce is used", async () => {
    const found = { ...used, transactionHash: OURS };
    let receipts = 0;
    const { confirmation } = await confirm((method) => {
      if (method === "eth_getLogs") return { result: [found] };
      if (method !== "eth_getTransactionReceipt") return chainWith([], 1n)(method);
      // The first receipt lacks its logs.
      return receipt("0x1", (receipts += 1) === 1 ? [] : [used, paid]);
    });
    expect(confirmation).toEqual({ kind: "confirmed", transaction: OURS });
    expect(receipts).toBe(2);
  });
});

describe("waiting", () => {
  test("goes on over errors, odd answers and missing receipts", async () => {
    const replies: RpcReply[] = [
      { result: null },
      { error: { code: -32_000, message: "try again" } },
      { result: "what" },
      { result: { status: null, blockNumber: null } },
      { result: { status: "0x1", blockNumber: "0x64", logs: [{ address: 5 }] } },
      { raw: (response) => response.writeHead(502).end() },
      receipt("0x1", [used, paid]),
    ];
    const { confirmation, methods } = await confirm(
      (_method, _params, count) => replies[count - 1] ?? { result: null },
    );
    expect(confirmation.kind).toBe("confirmed");
    expect(methods).toHaveLength(replies.length);
  });

  test("ends as unknown, with the last reason, when the signal ends it", async () => {
    const abort = new AbortController();
    const { confirmation } = await confirm(
      (_method, _params, count) => {
        if (count === 3) abort.abort();
        return { error: { code: -32_005, message: "over the limit" } };
      },
      { signal: abort.signal },
    );
    expect(confirmation.kind).toBe("unknown");
    expect(confirmation).toMatchObject({ detail: expect.stringContaining("over the limit") });
  });

  test("asks nothing when the signal has ended before", async () => {
    const { confirmation, methods } = await confirm(() => ({ result: null }), {
      signal: AbortSignal.abort(),
    });
    expect(confirmation.kind).toBe("unknown");
    expect(methods).toEqual([]);
  });

  test("lasts until enough blocks are on top, and reads the receipt anew each time", async () => {
    let head = 100;
    const { confirmation, methods } = await confirm(
      (method) => {
        if (method === "eth_getTransactionReceipt") return receipt("0x1", [used, paid]);
        return { result: `0x${(head++).toString(16)}` };
      },
      { confirmations: 3 },
    );
    expect(confirmation.kind).toBe("confirmed");
    expect(methods.filter((method) => method === "eth_blockNumber")).toHaveLength(3);
    expect(methods.filter((method) => method === "eth_getTransactionReceipt")).toHaveLength(3);
  });
});

/** A chain without our transaction: the time of its newest block, and the nonce's state. */
function chainWithout(timestamp: number, state: bigint) {
  return (method: string): RpcReply => {
    if (method === "eth_getTransactionReceipt") return { result: null };
    if (method === "eth_call") return { result: `0x${uintWord(state)}` };
    return { result: { number: "0x64", timestamp: `0x${timestamp.toString(16)}` } };
  };
}

describe("without a receipt", () => {
  const past = NOW + 60 + EXPIRY_FINALITY_SECONDS + 1;
  test("an unused authorization has failed once the chain is well past validBefore", async () => {
    const { confirmation, node } = await confirm(chainWithout(past, 0n), { now: past });
    expect(confirmation).toEqual({
      kind: "failed",
      refusal: { code: "invalid_transaction_state", detail: "the authorization expired unused" },
    });
    const call = node.questions.find(({ method }) => method === "eth_call");
    expect(call?.params[1]).toBe("0x64");
  });

  test("our clock alone decides nothing: the chain must be past it too", async () => {
    const abort = new AbortController();
    let blocks = 0;
    const { confirmation, methods } = await confirm(
      (method) => {
        if (method === "eth_getBlockByNumber" && (blocks += 1) === 2) abort.abort();
        return chainWithout(past - 1, 0n)(method);
      },
      { now: past, signal: abort.signal },
    );
    expect(confirmation.kind).toBe("unknown");
    expect(methods).not.toContain("eth_call");
  });
});

/** Our transaction reverted in block 100; the log that says who used the nonce, and their receipt. */
function reverted(found: object | null, logs: readonly object[] = []) {
  return (method: string, params: readonly unknown[]): RpcReply => {
    if (method === "eth_call") return { result: `0x${uintWord(1)}` };
    if (method === "eth_blockNumber") return { result: "0x64" };
    if (method === "eth_getLogs") return { result: found === null ? [] : [found] };
    return params[0] === THEIRS ? receipt("0x1", logs, THEIRS) : receipt("0x0");
  };
}

describe("a used nonce", () => {
  test("by the same transfer of another submitter confirms with their transaction", async () => {
    const { confirmation, node } = await confirm(
      reverted({ ...used, transactionHash: THEIRS }, [used, paid]),
    );
    expect(confirmation).toEqual({ kind: "confirmed", transaction: THEIRS });
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
      const { confirmation } = await confirm(reverted({ ...used, transactionHash: THEIRS }, logs));
      expect(confirmation).toMatchObject({
        kind: "failed",
        refusal: { detail: "the authorization's nonce was used for another transfer" },
      });
    }
  });

  test.each([
    ["reverted", receipt("0x0", [], THEIRS)],
    ["has no such log", receipt("0x1", [paid], THEIRS)],
  ])("stays unknown when the transaction that the log names %s", async (_title, theirs) => {
    const abort = new AbortController();
    const chain = reverted({ ...used, transactionHash: THEIRS });
    let receipts = 0;
    const { confirmation } = await confirm(
      (method, params) => {
        if (method !== "eth_getTransactionReceipt" || params[0] !== THEIRS) {
          return chain(method, params);
        }
        if ((receipts += 1) === 3) abort.abort();
        return theirs;
      },
      { signal: abort.signal },
    );
    expect(confirmation).toMatchObject({
      kind: "unknown",
      detail: expect.stringContaining("the receipt of a logged transaction"),
    });
  });

  test("by another submitter is confirmed only as deep as ours would be", async () => {
    const theirs = { transactionHash: THEIRS, status: "0x1", blockNumber: "0x66" };
    let head = 0x66;
    const { confirmation, methods } = await confirm(
      (method, params) => {
        if (method === "eth_blockNumber") return { result: `0x${head.toString(16)}` };
        if (params[0] === THEIRS) {
          head += 1;
          return { result: { ...theirs, logs: [used, paid] } };
        }
        return reverted({ ...used, transactionHash: THEIRS })(method, params);
      },
      { confirmations: 3 },
    );
    expect(confirmation).toEqual({ kind: "confirmed", transaction: THEIRS });
    expect(methods.filter((method) => method === "eth_getLogs")).toHaveLength(2);
  });

  test("by a cancellation is a failure", async () => {
    const { confirmation } = await confirm(reverted({ ...cancelled, transactionHash: THEIRS }));
    expect(confirmation).toMatchObject({
      kind: "failed",
      refusal: { detail: "the payer cancelled the authorization" },
    });
  });

  test("whose log cannot be found stays unknown, after a bounded search", async () => {
    const abort = new AbortController();
    const ranges: unknown[] = [];
    const { confirmation } = await confirm(
      (method, params) => {
        if (method === "eth_getTransactionReceipt" && ranges.length > 0) abort.abort();
        if (method === "eth_getLogs") ranges.push(params[0]);
        if (method === "eth_getTransactionReceipt") {
          return {
            result: { transactionHash: OURS, status: "0x0", blockNumber: "0xf4240", logs: [] },
          };
        }
        return reverted(null)(method, params);
      },
      { signal: abort.signal },
    );
    expect(confirmation).toMatchObject({
      kind: "unknown",
      detail: expect.stringContaining("no log of the last 10000 blocks"),
    });
    expect(ranges).toHaveLength(MAX_LOG_WINDOWS);
    const last = 1_000_000n - LOG_WINDOW_BLOCKS * BigInt(MAX_LOG_WINDOWS) + 1n;
    expect(ranges.at(-1)).toMatchObject({ fromBlock: `0x${last.toString(16)}` });
  });
});
