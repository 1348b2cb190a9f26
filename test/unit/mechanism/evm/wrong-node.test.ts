import { describe, expect, test } from "vitest";
import {
  chainWith,
  confirm,
  failure,
  OURS,
  paid,
  receipt,
  REVERTED,
  THEIRS,
  used,
} from "./scripted-chain.ts";

describe("a node that is wrong once", () => {
  test("does not end a payment with a false revert", async () => {
    const good = receipt("0x1", [used, paid]);
    const { confirmation } = await confirm(chainWith([receipt("0x0"), good], 0n));
    expect(confirmation).toEqual({ kind: "confirmed", transaction: OURS });
  });

  test("does not end a payment with a receipt that lacks its logs", async () => {
    const good = receipt("0x1", [used, paid]);
    const { confirmation } = await confirm(chainWith([receipt("0x1"), good], 0n));
    expect(confirmation).toEqual({ kind: "confirmed", transaction: OURS });
  });

  test.each([
    ["no receipt", { result: null }],
    ["an error", { error: { code: -32_000, message: "header not found" } }],
    ["another failure", receipt("0x1")],
  ])("must repeat itself: %s between two reverts starts anew", async (_title, between) => {
    const receipts = [receipt("0x0"), between, receipt("0x0")];
    const { confirmation, methods } = await confirm(chainWith(receipts, 0n));
    expect(confirmation).toEqual(failure(REVERTED));
    expect(methods.filter((method) => method === "eth_getTransactionReceipt")).toHaveLength(4);
  });

  test("leaves the outcome unknown when nothing more can be read", async () => {
    const abort = new AbortController();
    const chain = chainWith([receipt("0x0")], 0n);
    let receipts = 0;
    const { confirmation } = await confirm(
      (method) => {
        if (method === "eth_getTransactionReceipt" && (receipts += 1) === 2) abort.abort();
        return chain(method);
      },
      { signal: abort.signal },
    );
    expect(confirmation).toEqual({ kind: "unknown", detail: `read only once: ${REVERTED}` });
  });
});

describe("a receipt of another transaction", () => {
  test.each([
    ["success", receipt("0x1", [used, paid], THEIRS)],
    ["a revert", receipt("0x0", [], THEIRS)],
    ["no hash", { result: { status: "0x0", blockNumber: "0x64", logs: [] } }],
  ])("with %s says nothing of ours", async (_title, other) => {
    const abort = new AbortController();
    const { confirmation, methods } = await confirm(
      (_method, _params, count) => {
        if (count === 4) abort.abort();
        return other;
      },
      { signal: abort.signal },
    );
    expect(confirmation).toMatchObject({
      kind: "unknown",
      detail: expect.stringContaining("the receipt is another transaction's"),
    });
    expect(new Set(methods)).toEqual(new Set(["eth_getTransactionReceipt"]));
  });

  test("is told by its hash in any letter case", async () => {
    const { confirmation } = await confirm(() =>
      receipt("0x1", [used, paid], `0x${OURS.slice(2).toUpperCase()}`),
    );
    expect(confirmation).toEqual({ kind: "confirmed", transaction: OURS });
  });
});

describe("the nonce's state after a revert", () => {
  test.each([
    ["at the newest block", "0x70", "0x70"],
    ["at the receipt's block when the node's newest one is older", "0x60", "0x64"],
  ])("is read %s", async (_title, head, block) => {
    const { confirmation, node } = await confirm((method) =>
      method === "eth_blockNumber" ? { result: head } : chainWith([receipt("0x0")], 0n)(method),
    );
    expect(confirmation).toEqual(failure(REVERTED));
    const call = node.questions.find(({ method }) => method === "eth_call");
    expect(call?.params[1]).toBe(block);
  });
});
