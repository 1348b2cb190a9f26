/** Transactions on their way to a block of a local node, with and without a websocket that works. */
import { describe, expect, test } from "vitest";
import { RESEND_MS } from "../../../../src/mechanism/solana/tracker.ts";
import { USDC_DEVNET } from "../../../support/solana/set-up.ts";
import { startSolanaNode, type SolanaNode } from "../../../support/solana/solana-node.ts";
import { testKey } from "../../../support/solana-messages.ts";
import { eventually, never, openTracker, signPayment, startTracking, watch } from "./tracking.ts";

/** Two signatures, and the least priority. */
const FEE = { atomic: 10_001n, priorityAtomic: 1n };
const waiting = (detail: string) => ({ payments: [{ kind: "unknown", detail }], included: null });
const NOT_YET = "the transaction is not in a block yet";

/** The websocket is to tell of a transaction, and the node has it. */
async function isOnItsWay(node: SolanaNode): Promise<void> {
  await Promise.all([node.asked("signatureSubscribe"), node.asked("sendTransaction")]);
}

/** Slow enough that no limit of time is met, however slow the machine is. */
const SLOW = 0.2;

describe("with a websocket", () => {
  test("a transaction costs one sending and one status read", async () => {
    await using tracking = await startTracking({ hurry: SLOW });
    const { node } = tracking;
    const payment = signPayment(node);
    const { look } = await watch(tracking, payment);
    const { transaction } = payment.signed;
    expect(look).toEqual({
      payments: [{ kind: "confirmed", transaction }],
      included: { transaction, confirmations: 1, isFinal: false, fee: FEE },
      isSpent: true,
    });
    expect(node.calls()).toEqual({
      getGenesisHash: 1,
      signatureSubscribe: 1,
      sendTransaction: 1,
      getSignatureStatuses: 1,
    });
  });

  test.each(["legacy", 0, 1] as const)(
    "a transaction of version %s is confirmed",
    async (version) => {
      await using tracking = await startTracking();
      const { look } = await watch(tracking, signPayment(tracking.node, { version }));
      expect(look.payments[0]?.kind).toBe("confirmed");
    },
  );

  test("the first looks cost nothing, and find nothing", async () => {
    await using tracking = await startTracking({ slotMs: null, hurry: SLOW });
    const { node, tracker } = tracking;
    const { signed, submission } = signPayment(node);
    const broadcast = tracker.broadcast(signed, never);
    await isOnItsWay(node);
    for (let looks = 0; looks < 5; looks += 1) {
      expect(await tracker.look(submission, never)).toMatchObject(waiting(NOT_YET));
    }
    node.tick(2);
    expect(await broadcast).toBe("included");
    expect(node.count("getSignatureStatuses")).toBe(0);
  });

  test("transactions that are in flight together share status reads", async () => {
    await using tracking = await startTracking({ slotMs: 100 });
    const { node } = tracking;
    await watch(tracking, signPayment(node));
    node.resetCalls();
    const payments = Array.from({ length: 20 }, () => signPayment(node));
    const watched = await Promise.all(payments.map((payment) => watch(tracking, payment)));
    expect(watched.every(({ look }) => look.payments[0]?.kind === "confirmed")).toBe(true);
    expect(node.count("sendTransaction")).toBe(20);
    expect(node.count("signatureSubscribe")).toBe(20);
    expect(node.count("getSignatureStatuses")).toBeLessThan(10);
    expect(node.subscriptions).toBe(0);
  });

  test("on the next port, as a plain validator has it, is found", async () => {
    await using tracking = await startTracking({ websocket: "next-port", hurry: SLOW });
    const { look } = await watch(tracking, signPayment(tracking.node));
    expect(look.payments[0]?.kind).toBe("confirmed");
    expect(tracking.node.count("signatureSubscribe")).toBe(1);
    expect(tracking.node.count("getSignatureStatuses")).toBe(1);
    expect(tracking.troubles).toEqual([]);
  });

  test("that breaks is made again, with what it had to tell", async () => {
    await using tracking = await startTracking({ slotMs: null, hurry: SLOW });
    const { node, tracker } = tracking;
    const { signed } = signPayment(node);
    const broadcast = tracker.broadcast(signed, never);
    await isOnItsWay(node);
    node.disconnectWebsockets();
    await node.asked("signatureSubscribe", 2);
    node.tick(2);
    expect(await broadcast).toBe("included");
    expect(node.count("sendTransaction")).toBe(1);
  });
});

describe("without a websocket that works", () => {
  test.each(["silent", "closed", "refused"] as const)("%s: polling confirms", async (mode) => {
    await using tracking = await startTracking({ hurry: 4 });
    const { node } = tracking;
    node.setWebsocket(mode);
    for (let count = 0; count < 2; count += 1) {
      const { look } = await watch(tracking, signPayment(node));
      expect(look.payments[0]?.kind).toBe("confirmed");
    }
    expect(node.count("sendTransaction")).toBe(2);
    await eventually(() => node.subscriptions).toBe(0);
  });

  test("none at all: polling confirms, and the log hears of it once", async () => {
    await using tracking = await startTracking({ websocket: "none", hurry: 4 });
    const { node, troubles } = tracking;
    for (let count = 0; count < 3; count += 1) await watch(tracking, signPayment(node));
    const host = new URL(node.rpcUrl).host;
    expect(troubles).toEqual([
      `${host}: its websocket could not be opened; transactions are confirmed by polling meanwhile`,
    ]);
  });

  test("the log hears when it works again", async () => {
    await using tracking = await startTracking({ hurry: 4 });
    const { node, tracker, troubles } = tracking;
    node.setWebsocket("refused");
    await watch(tracking, signPayment(node));
    node.setWebsocket("normal");
    node.setSlotMs(null);
    const { signed } = signPayment(node);
    node.resetCalls();
    const broadcast = tracker.broadcast(signed, never);
    await isOnItsWay(node);
    node.tick(2);
    await broadcast;
    await eventually(() => troubles.length).toBe(2);
    expect(troubles[1]).toMatch(/its websocket works again$/);
  });

  test("a broadcast does not wait for what nobody will tell", async () => {
    await using tracking = await startTracking({ websocket: "none", slotMs: null });
    const { node, tracker } = tracking;
    const first = signPayment(node);
    await tracker.broadcast(first.signed, never);
    const startedMs = performance.now();
    expect(await tracker.broadcast(signPayment(node).signed, never)).toBe("sent");
    expect(performance.now() - startedMs).toBeLessThan(RESEND_MS);
  });

  test("many transactions share polls", async () => {
    await using tracking = await startTracking({ websocket: "none", slotMs: 100 });
    const { node } = tracking;
    const payments = Array.from({ length: 20 }, () => signPayment(node));
    const watched = await Promise.all(payments.map((payment) => watch(tracking, payment)));
    const looks = watched.reduce((sum, each) => sum + each.looks, 0);
    expect(watched.every(({ look }) => look.payments[0]?.kind === "confirmed")).toBe(true);
    expect(node.count("getSignatureStatuses")).toBeLessThan(looks / 2);
  });
});

describe("sending", () => {
  test("a transaction that a node has lost is sent again", async () => {
    await using tracking = await startTracking({ hurry: 4 });
    const { node, time } = tracking;
    node.inject({ method: "sendTransaction", lose: true, times: 1 });
    const payment = signPayment(node);
    const startedMs = time.now();
    const { look } = await watch(tracking, payment);
    expect(look.payments[0]?.kind).toBe("confirmed");
    expect(node.sent).toEqual([payment.signed.raw, payment.signed.raw]);
    // Less a little, since timers of this kind are not exact.
    expect(time.now() - startedMs).toBeGreaterThan(RESEND_MS * 0.9);
  });

  test("a lost answer is no failure: the transaction may be on its way", async () => {
    await using tracking = await startTracking();
    const { node } = tracking;
    node.inject({ method: "sendTransaction", drop: true, at: "answer" });
    const { look } = await watch(tracking, signPayment(node));
    expect(look.payments[0]?.kind).toBe("confirmed");
  });

  test("an answer that comes late does not hold up a word of the websocket", async () => {
    await using tracking = await startTracking();
    const { node, tracker } = tracking;
    node.inject({ method: "sendTransaction", hold: true, at: "answer" });
    expect(await tracker.broadcast(signPayment(node).signed, never)).toBe("included");
  });

  test.each([
    {
      code: -32_002,
      message: "Transaction simulation failed: This transaction has already been processed",
    },
    { code: -32_002, message: "Transaction simulation failed", data: { err: "AlreadyProcessed" } },
  ])("a node that has it already has taken it: $message", async (error) => {
    await using tracking = await startTracking({ websocket: "none", slotMs: null });
    const { node, tracker } = tracking;
    node.inject({ method: "sendTransaction", error });
    expect(await tracker.broadcast(signPayment(node).signed, never)).toBe("sent");
  });

  test("a refusal by all nodes is thrown, and the next attempt goes out at once", async () => {
    await using other = await startSolanaNode({ slotMs: null, websocket: "none" });
    await using tracking = await startTracking({
      websocket: "none",
      slotMs: null,
      others: [other.rpcUrl],
    });
    const { node, tracker } = tracking;
    const error = { code: -32_003, message: "Transaction signature verification failure" };
    for (const each of [node, other]) each.inject({ method: "sendTransaction", error, times: 1 });
    const { signed } = signPayment(node);
    await expect(tracker.broadcast(signed, never)).rejects.toMatchObject({
      rpcMessage: error.message,
    });
    expect(await tracker.broadcast(signed, never)).toBe("sent");
    expect([node.sent.length, other.sent.length]).toEqual([2, 2]);
  });

  test("goes to every endpoint, and one that takes it is enough", async () => {
    await using other = await startSolanaNode({ slotMs: null, websocket: "none" });
    await using tracking = await startTracking({ preferred: [other.rpcUrl], hurry: 4 });
    const { node } = tracking;
    other.inject({ method: "sendTransaction", status: 503 });
    other.inject({ method: "getSignatureStatuses", status: 503 });
    const payment = signPayment(node);
    const { look } = await watch(tracking, payment);
    expect(look.payments[0]?.kind).toBe("confirmed");
    expect(other.sent[0]).toBe(payment.signed.raw);
  });

  test("is not repeated before its time, however often it is asked for", async () => {
    await using tracking = await startTracking({ websocket: "none", slotMs: null });
    const { node, tracker } = tracking;
    const { signed } = signPayment(node);
    for (let count = 0; count < 5; count += 1) await tracker.broadcast(signed, never);
    expect(node.count("sendTransaction")).toBe(1);
  });

  test("names the options that leave repeating and judging to us", async () => {
    await using tracking = await startTracking();
    const { node } = tracking;
    // A node that simulated it would refuse it: the payer has too little.
    const { look } = await watch(tracking, signPayment(node, { amount: 200_000_000n }));
    expect(look.payments[0]).toMatchObject({ kind: "failed" });
  });
});

describe("a transaction in a block", () => {
  test("that found too little money has failed for that reason", async () => {
    await using tracking = await startTracking();
    const { node } = tracking;
    const payment = signPayment(node, { amount: 200_000_000n });
    const { look } = await watch(tracking, payment);
    expect(look).toEqual({
      payments: [
        {
          kind: "failed",
          retriable: false,
          refusal: {
            code: "insufficient_funds",
            detail:
              "the payer's token account held too little when the transaction was executed; nothing was paid",
          },
        },
      ],
      included: {
        transaction: payment.signed.transaction,
        confirmations: 1,
        isFinal: false,
        fee: FEE,
      },
      isSpent: true,
    });
    expect(node.count("getSignatureStatuses")).toBe(2);
  });

  test("that failed for another reason has failed", async () => {
    await using tracking = await startTracking();
    const { node } = tracking;
    const source = await node.associatedTokenAccount(testKey(2).address, USDC_DEVNET);
    node.freeze(source);
    const { look } = await watch(tracking, signPayment(node));
    const [said] = look.payments;
    expect(said).toMatchObject({ refusal: { code: "invalid_transaction_state" } });
    expect(said).toHaveProperty("refusal.detail", expect.stringContaining('{"Custom":17}'));
  });

  test("that is not confirmed yet is neither paid nor failed", async () => {
    await using tracking = await startTracking({ slotMs: null, confirmedAfterSlots: 3, hurry: 10 });
    const { node, tracker } = tracking;
    const detail = "the transaction is in a block that is not confirmed yet";
    for (const amount of [10_000n, 200_000_000n]) {
      const { signed, submission } = signPayment(node, { amount });
      await tracker.broadcast(signed, never);
      node.tick();
      await eventually(() => tracker.look(submission, never)).toMatchObject({
        ...waiting(detail),
        isSpent: false,
      });
      node.tick(3);
      await eventually(
        async () => (await tracker.look(submission, never)).included?.confirmations,
      ).toBe(1);
    }
  });

  test("settles when it is finalized, where that is asked for", async () => {
    await using tracking = await startTracking({
      commitment: "finalized",
      slotMs: null,
      hurry: 10,
    });
    const { node, tracker } = tracking;
    const { signed, submission } = signPayment(node);
    const { transaction } = signed;
    const broadcast = tracker.broadcast(signed, never);
    await isOnItsWay(node);
    node.tick(3);
    expect(await broadcast).toBe("sent");
    await eventually(() => tracker.look(submission, never)).toEqual({
      payments: [
        { kind: "unknown", detail: "the transaction is confirmed, but not finalized yet" },
      ],
      included: { transaction, confirmations: 1, isFinal: false, fee: FEE },
      isSpent: true,
    });
    node.tick(32);
    await eventually(() => tracker.look(submission, never)).toEqual({
      payments: [{ kind: "confirmed", transaction }],
      included: { transaction, confirmations: 32, isFinal: true, fee: FEE },
      isSpent: true,
    });
    // Nothing is remembered of it, so the node is asked.
    node.resetCalls();
    await tracker.look(submission, never);
    expect(node.calls()).toEqual({ getSignatureStatuses: 1 });
  });

  test("of another life is found however long ago that was", async () => {
    await using tracking = await startTracking();
    const { node } = tracking;
    const payment = signPayment(node);
    await watch(tracking, payment);
    node.setSlotMs(null);
    node.tick(300);
    const later = openTracker([node.rpcUrl], "confirmed", tracking.time);
    expect(await later.look(payment.submission, never)).toMatchObject({
      included: { isFinal: true },
    });
    await later.close();
  });
});

describe("the end", () => {
  test("ends what waits, and refuses what comes after", async () => {
    await using tracking = await startTracking({ slotMs: null });
    const { node, tracker } = tracking;
    const { signed, submission } = signPayment(node);
    const broadcast = tracker.broadcast(signed, never);
    await isOnItsWay(node);
    await tracker.close();
    expect(await broadcast).toBe("sent");
    await expect(tracker.look(submission, never)).rejects.toMatchObject({ code: "CHAIN_TIMEOUT" });
    await eventually(() => node.subscriptions).toBe(0);
  });

  test("of a caller's patience ends its own look only", async () => {
    await using tracking = await startTracking({ websocket: "none", slotMs: null });
    const { node, tracker } = tracking;
    const held = node.inject({ method: "getSignatureStatuses", hold: true });
    const { submission } = signPayment(node);
    const patient = tracker.look(submission, never);
    await node.asked("getSignatureStatuses");
    await expect(tracker.look(submission, AbortSignal.timeout(20))).rejects.toMatchObject({
      code: "CHAIN_TIMEOUT",
    });
    held.lift();
    expect(await patient).toMatchObject(waiting(NOT_YET));
  });
});
