import { describe, expect, test } from "vitest";
import { uintWord } from "../../../../src/mechanism/evm/abi.ts";
import { EXPIRY_FINALITY_SECONDS } from "../../../../src/mechanism/evm/confirmation.ts";
import { LookMemory } from "../../../../src/mechanism/evm/look-memory.ts";
import { openRpc } from "../../../../src/mechanism/rpc.ts";
import type { RpcReply } from "../../../support/scripted-node.ts";
import {
  authorization,
  block,
  cancelled,
  chainWith,
  failure,
  GAS_USED,
  FINAL_AFTER,
  hex,
  look,
  MARGIN_SECONDS,
  NOW,
  OUR_ACCOUNT,
  OUR_NONCE,
  OURS,
  paid,
  receipt,
  REVERTED,
  THEIRS,
  transfer,
  use,
  used,
  WITHOUT_TRANSFER,
} from "./scripted-chain.ts";

const NOT_YET = { kind: "unknown", detail: "the transaction is not in a block yet" };
const confirmed = { kind: "confirmed", transaction: OURS };
const elsewhere = `0x${"44".repeat(20)}`;
const past = NOW + 60 + EXPIRY_FINALITY_SECONDS + 1;

describe("a receipt with success", () => {
  test("confirms when it holds the exact use and transfer, in one call", async () => {
    const { payment, included, isSpent, methods } = await look(() => receipt("0x1", [used, paid]));
    expect(payment).toEqual(confirmed);
    expect(included).toEqual({ transaction: OURS, confirmations: 1, isFinal: false });
    expect(isSpent).toBe(true);
    expect(methods).toEqual(["eth_getTransactionReceipt"]);
  });

  test("confirms whatever the order of a token's two logs in our own transaction", async () => {
    const { payment } = await look(() => receipt("0x1", [paid, used]));
    expect(payment).toEqual(confirmed);
  });

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
    const { payment, methods } = await look(chainWith(receipt("0x1", logs), 0n));
    expect(payment).toEqual(failure(WITHOUT_TRANSFER, true));
    expect(methods).toEqual(["eth_getTransactionReceipt", "eth_blockNumber", "eth_call"]);
  });

  test("without our logs is looked into when the nonce is used", async () => {
    const found = { ...used, transactionHash: OURS };
    let receipts = 0;
    const { payment } = await look((method) => {
      if (method === "eth_getLogs") return { result: [found] };
      if (method !== "eth_getTransactionReceipt") return chainWith({ result: null }, 1n)(method);
      // The first receipt lacks its logs.
      return receipt("0x1", (receipts += 1) === 1 ? [] : [used, paid]);
    });
    expect(payment).toEqual(confirmed);
    expect(receipts).toBe(2);
  });
});

describe("an answer that makes no sense", () => {
  test.each<[string, RpcReply]>([
    ["an error", { error: { code: -32_000, message: "try again" } }],
    ["text", { result: "what" }],
    ["odd logs", { result: { status: "0x1", blockNumber: "0x64", logs: [{ address: 5 }] } }],
    ["HTTP 502", { raw: (response) => response.writeHead(502).end() }],
    ["another transaction's success", receipt("0x1", [used, paid], THEIRS)],
    ["another transaction's revert", receipt("0x0", [], THEIRS)],
    ["a receipt without hash", { result: { status: "0x0", blockNumber: "0x64", logs: [] } }],
  ])("ends the look without a word on the payment: %s", async (_title, reply) => {
    await expect(look(() => reply)).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
  });

  test("is not a receipt in no block, which some nodes show", async () => {
    const { payment } = await look(() => ({ result: { status: null, blockNumber: null } }));
    expect(payment).toEqual(NOT_YET);
  });

  test("is not another letter case of the hash", async () => {
    const { payment } = await look(() =>
      receipt("0x1", [used, paid], `0x${OURS.slice(2).toUpperCase()}`),
    );
    expect(payment).toEqual(confirmed);
  });
});

/** A chain with our transaction in block 100, and its newest block. */
function deep(head: number, found = receipt("0x1", [used, paid])) {
  return (method: string): RpcReply => {
    return method === "eth_blockNumber" ? { result: hex(head) } : chainWith(found, 0n)(method);
  };
}

describe("depth", () => {
  test("below the configured one leaves every payment unknown", async () => {
    for (const found of [receipt("0x1", [used, paid]), receipt("0x0")]) {
      const { payment, included } = await look(deep(101, found), { confirmations: 3 });
      expect(payment).toEqual({
        kind: "unknown",
        detail: "in a block, with 2 of 3 confirmations",
      });
      expect(included).toMatchObject({ transaction: OURS, confirmations: 2, isFinal: false });
    }
    const { payment } = await look(deep(102), { confirmations: 3 });
    expect(payment).toEqual(confirmed);
  });

  test("is final when the network's blocks are, and not one before", async () => {
    const asked = { depth: { nonce: false, head: true } };
    const final = 100 + Number(FINAL_AFTER) - 1;
    expect((await look(deep(final - 1), asked)).included?.isFinal).toBe(false);
    expect((await look(deep(final), asked)).included).toEqual({
      transaction: OURS,
      confirmations: Number(FINAL_AFTER),
      isFinal: true,
    });
  });

  test("is one block at least, when the node's newest one was read behind", async () => {
    const asked = { depth: { nonce: false, head: true } };
    const { payment, included } = await look(deep(98), asked);
    expect(payment).toEqual(confirmed);
    expect(included?.confirmations).toBe(1);
  });
});

describe("several variants", () => {
  test("are asked about together; the one in a block counts", async () => {
    const [first, second] = [THEIRS, OURS];
    const { payment, included, methods } = await look(
      (_method, params) =>
        params[0] === first ? receipt("0x1", [used, paid], first) : { result: null },
      { variants: [first, second] },
    );
    expect(payment).toEqual({ kind: "confirmed", transaction: first });
    expect(included?.transaction).toBe(first);
    expect(methods).toEqual(["eth_getTransactionReceipt", "eth_getTransactionReceipt"]);
  });
});

/** A chain with this receipt; used are the authorizations with these nonces. */
function chainOfSeveral(logs: readonly object[], usedNonces: readonly string[] = []) {
  return (method: string, params: readonly unknown[]): RpcReply => {
    if (method === "eth_blockNumber") return { result: "0x64" };
    if (method === "eth_getTransactionReceipt") return receipt("0x1", logs);
    const data = String(Object(params[0]).data);
    const state = usedNonces.some((nonce) => data.includes(nonce.slice(2))) ? 1n : 0n;
    return { result: `0x${uintWord(state)}` };
  };
}

/** One payment is there; of the two that are not, both are unused. */
function twoUnused(method: string, params: readonly unknown[]): RpcReply {
  if (method !== "eth_call") return chainOfSeveral([used, paid])(method, params);
  const item = uintWord(1) + uintWord(0x40) + uintWord(32) + uintWord(0);
  const offsets = uintWord(0x40) + uintWord(0x40 + item.length / 2);
  return { result: `0x${uintWord(0x20)}${uintWord(2)}${offsets}${item}${item}` };
}

describe("several payments in one transaction", () => {
  const other = { ...authorization, nonce: `0x${"55".repeat(32)}` };
  const third = { ...authorization, nonce: `0x${"66".repeat(32)}`, from: `0x${"77".repeat(20)}` };
  const refused = failure(
    "the token refused the transfer, one of several in its transaction",
    true,
  );
  const authorizations = [authorization, other];

  test("are told apart by their nonces, not by payer, payee and value", async () => {
    const { payments } = await look(chainOfSeveral([use(other), paid]), { authorizations });
    expect(payments).toEqual([refused, confirmed]);
  });

  test("each need a transfer of their own", async () => {
    const toElsewhere = transfer(elsewhere, authorization.value);
    const { payments } = await look(
      (method, params) => {
        if (method === "eth_getLogs") return { result: [{ ...used, transactionHash: OURS }] };
        if (method === "eth_getBlockByNumber") return block(100, NOW);
        return chainOfSeveral([used, toElsewhere, use(other), paid], [authorization.nonce])(
          method,
          params,
        );
      },
      { authorizations },
    );
    expect(payments).toEqual([
      failure("the authorization's nonce was used for another transfer", false),
      confirmed,
    ]);
  });

  test("are all paid with the logs in either order", async () => {
    for (const logs of [
      [used, paid, use(other), paid],
      [paid, used, paid, use(other)],
    ]) {
      const { payments, methods, included } = await look(chainOfSeveral(logs), { authorizations });
      expect(payments).toEqual([confirmed, confirmed]);
      expect(included).not.toHaveProperty("leftBehind");
      expect(methods).toEqual(["eth_getTransactionReceipt"]);
    }
  });

  test("that are missing are asked about in one call", async () => {
    const { payments, methods, included } = await look(twoUnused, {
      authorizations: [authorization, other, third],
    });
    expect(payments).toEqual([confirmed, refused, refused]);
    expect(methods).toEqual(["eth_getTransactionReceipt", "eth_blockNumber", "eth_call"]);
    expect(included).toMatchObject({
      leftBehind: { indices: [1, 2], gas: (GAS_USED * 2n) / 3n },
    });
    expect(included).not.toHaveProperty("revertedGas");
  });
});

describe("a node that does not tell who used one of several authorizations", () => {
  const second = { ...authorization, nonce: `0x${"34".repeat(32)}` };
  const asked = { authorizations: [authorization, second] };
  const chain = (method: string, params: readonly unknown[]): RpcReply => {
    if (method === "eth_getLogs") return { error: { code: -32_600, message: "range too large" } };
    if (method === "eth_getBlockByNumber") return block(100, NOW);
    return chainOfSeveral([used, paid], [second.nonce])(method, params);
  };

  test("leaves that payment open, and none of the others", async () => {
    const { payments, isSpent } = await look(chain, asked);
    expect(isSpent).toBe(true);
    expect(payments[0]).toEqual(confirmed);
    expect(payments[1]?.kind).toBe("unknown");
    expect(payments[1]).toHaveProperty("detail", expect.stringContaining("range too large"));
  });

  test("is asked last at the next look", async () => {
    const memory = new LookMemory(() => NOW);
    const signed = { raw: "0x", account: OUR_ACCOUNT, accountNonce: OUR_NONCE, transaction: OURS };
    const submission = { variants: [signed], authorizations: asked.authorizations };
    memory.next(submission);
    const rpc = openRpc("http://a.example");
    memory.found(submission, await look(chain, asked), rpc);
    expect(memory.next(submission).avoid).toBe(rpc);
  });
});

describe("a failure", () => {
  test("leaves the authorization to another transaction while it has time", async () => {
    const until = NOW + 60 - MARGIN_SECONDS;
    const reverted = chainWith(receipt("0x0"), 0n);
    expect((await look(reverted, { now: until })).payment).toEqual(failure(REVERTED, true));
    expect((await look(reverted, { now: until + 1 })).payment).toEqual(failure(REVERTED, false));
  });

  test.each([
    ["at the newest block", 0x70, "0x70"],
    ["at the receipt's block when the node's newest one is older", 0x60, "0x64"],
  ])("is told by the nonce's state %s", async (_title, head, at) => {
    const { payment, node } = await look(deep(head, receipt("0x0")));
    expect(payment).toEqual(failure(REVERTED, true));
    const call = node.questions.find(({ method }) => method === "eth_call");
    expect(call?.params[1]).toBe(at);
  });
});

/** A chain without our transaction: the time of its newest block, the nonce's state and our account's. */
function chainWithout(timestamp: number, state: bigint, accountNonce = OUR_NONCE) {
  return (method: string): RpcReply => {
    if (method === "eth_getTransactionReceipt") return { result: null };
    if (method === "eth_call") return { result: `0x${uintWord(state)}` };
    if (method === "eth_getTransactionCount") return { result: hex(accountNonce) };
    return block(100, timestamp);
  };
}

describe("without a receipt", () => {
  test("nothing more is asked as long as the authorization may be used", async () => {
    const { payment, included, isSpent, methods } = await look(chainWithout(past, 0n));
    expect(payment).toEqual(NOT_YET);
    expect({ included, isSpent }).toEqual({ included: null, isSpent: false });
    expect(methods).toEqual(["eth_getTransactionReceipt"]);
  });

  test("an unused authorization has failed once the chain is well past validBefore", async () => {
    const { payment, isSpent, node } = await look(chainWithout(past, 0n), { now: past });
    expect(payment).toEqual(failure("the authorization expired unused", false));
    expect(isSpent).toBe(false);
    // All at one block.
    const blocks = node.questions.flatMap(({ method, params }) =>
      method === "eth_call" || method === "eth_getTransactionCount" ? [params[1]] : [],
    );
    expect(blocks).toEqual(["0x64", "0x64"]);
  });

  test("our clock alone decides nothing: the chain must be past it too", async () => {
    const { payment, methods } = await look(chainWithout(past - 1, 0n), { now: past });
    expect(payment).toEqual(NOT_YET);
    expect(methods).not.toContain("eth_call");
  });

  const asked = { depth: { nonce: true, head: false } };

  test("our account nonce is asked for when it is wanted", async () => {
    const { payment, isSpent, node } = await look(chainWithout(NOW, 0n), asked);
    expect({ payment, isSpent }).toEqual({ payment: NOT_YET, isSpent: false });
    expect(node.questions.at(-1)?.params).toEqual([OUR_ACCOUNT, "0x64"]);
  });

  test("a used account nonce ends all hope for its payments, unless they were used elsewhere", async () => {
    const taken = chainWithout(NOW, 0n, OUR_NONCE + 1);
    const { payment, isSpent, included } = await look(taken, asked);
    expect(payment).toEqual(failure("another transaction has used our account's nonce", true));
    expect({ isSpent, included }).toEqual({ isSpent: true, included: null });

    const foreign = await look((method, params) => {
      if (method === "eth_getLogs") return { result: [{ ...used, transactionHash: THEIRS }] };
      if (params[0] === THEIRS) return receipt("0x1", [used, paid], THEIRS);
      return chainWithout(NOW, 1n, OUR_NONCE + 1)(method);
    }, asked);
    expect(foreign.payment).toEqual({ kind: "confirmed", transaction: THEIRS });
  });
});
