/** Payments that somebody else settles, found by their message on a local node. */
import { describe, expect, test } from "vitest";
import { startRpcProxy } from "../../../support/rpc-proxy.ts";
import { destinationOf, sourceOf } from "../../../support/solana-messages.ts";
import { devnetPayment } from "../../../support/solana-requests.ts";
import type { SolanaNode } from "../../../support/solana/solana-node.ts";
import {
  never,
  openTracker,
  signPayment,
  startTracking,
  type SignedPayment,
  type Tracking,
} from "./tracking.ts";

const EXPIRY_SLOTS = 152;
const frozen = { slotMs: null, websocket: "none", hurry: 10 } as const;
const UNKNOWN = {
  kind: "unknown",
  detail: "no transaction with the payment is on the chain yet",
  isUnused: true,
};
const EXPIRED = {
  kind: "failed",
  retriable: false,
  refusal: {
    code: "invalid_transaction_state",
    detail: "the transaction's blockhash expired before it was included; nothing was paid",
  },
};

/** A facilitator elsewhere: it sends the payment, and a block takes it. */
async function settleElsewhere(node: SolanaNode, { signed }: SignedPayment): Promise<void> {
  const body = { jsonrpc: "2.0", id: 1, method: "sendTransaction" };
  const params = [signed.raw, { encoding: "base64", skipPreflight: true }];
  await fetch(node.rpcUrl, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...body, params }),
  });
  node.tick(2);
}

function reconcile(
  { tracker }: Pick<Tracking, "tracker">,
  { authorization }: SignedPayment,
  claimed?: string,
) {
  return tracker.reconcile(authorization, { claimed, after: null }, never);
}

const confirmed = ({ signed }: SignedPayment) => ({
  kind: "confirmed",
  transaction: signed.transaction,
});

describe("the claimed transaction", () => {
  test.each(["legacy", 0, 1] as const)(
    "of version %s, with the payment's message, is it",
    async (version) => {
      await using tracking = await startTracking(frozen);
      const { node } = tracking;
      const payment = signPayment(node, { version });
      await settleElsewhere(node, payment);
      node.resetCalls();
      const said = await reconcile(tracking, payment, payment.signed.transaction);
      expect(said).toEqual(confirmed(payment));
      expect(node.calls()).toEqual({ getGenesisHash: 1, getTransaction: 1 });
    },
  );

  test("that failed in its block has failed", async () => {
    await using tracking = await startTracking(frozen);
    const { node } = tracking;
    const payment = signPayment(node, { amount: 200_000_000n });
    await settleElsewhere(node, payment);
    const said = await reconcile(tracking, payment, payment.signed.transaction);
    expect(said).toMatchObject({
      kind: "failed",
      retriable: false,
      refusal: { code: "insufficient_funds" },
    });
  });

  test("that is another one is no answer", async () => {
    await using tracking = await startTracking(frozen);
    const { node } = tracking;
    const [payment, other] = [signPayment(node), signPayment(node)];
    await settleElsewhere(node, other);
    expect(await reconcile(tracking, payment, other.signed.transaction)).toEqual(UNKNOWN);
    await settleElsewhere(node, payment);
    const said = await reconcile(tracking, payment, other.signed.transaction);
    expect(said).toEqual(confirmed(payment));
  });

  test.each(["", "0x1234", "not a signature", "1".repeat(88)])(
    "that is no signature is not asked for: %j",
    async (claimed) => {
      await using tracking = await startTracking(frozen);
      const { node } = tracking;
      const payment = signPayment(node);
      expect(await reconcile(tracking, payment, claimed)).toEqual(UNKNOWN);
      expect(node.count("getTransaction")).toBe(0);
    },
  );

  test("that no node has is looked for by the payer's account", async () => {
    await using tracking = await startTracking(frozen);
    const { node } = tracking;
    const payment = signPayment(node);
    await settleElsewhere(node, payment);
    const claimed = signPayment(node).signed.transaction;
    expect(await reconcile(tracking, payment, claimed)).toEqual(confirmed(payment));
  });

  test("that is confirmed is not enough where finality is asked for", async () => {
    await using tracking = await startTracking({ ...frozen, commitment: "finalized" });
    const { node } = tracking;
    const payment = signPayment(node);
    await settleElsewhere(node, payment);
    const { transaction } = payment.signed;
    expect(await reconcile(tracking, payment, transaction)).toEqual({
      kind: "unknown",
      detail: "the transaction is confirmed, but not finalized yet",
    });
    node.tick(32);
    expect(await reconcile(tracking, payment, transaction)).toEqual(confirmed(payment));
  });
});

describe("a payment without a claimed transaction", () => {
  test("is found among those of the payer's token account, each fetched once", async () => {
    await using tracking = await startTracking(frozen);
    const { node } = tracking;
    const others = [signPayment(node), signPayment(node), signPayment(node)];
    for (const other of others) await settleElsewhere(node, other);
    const payment = signPayment(node);
    node.resetCalls();
    for (let count = 0; count < 3; count += 1) {
      expect(await reconcile(tracking, payment)).toEqual(UNKNOWN);
    }
    expect(node.count("getTransaction")).toBe(3);
    await settleElsewhere(node, payment);
    expect(await reconcile(tracking, payment)).toEqual(confirmed(payment));
    expect(node.count("getTransaction")).toBe(4);
  });

  test("is found by the payer where the token account is in a lookup table", async () => {
    await using tracking = await startTracking(frozen);
    const { node } = tracking;
    const plain = devnetPayment();
    const addresses = [sourceOf(plain), destinationOf(plain)];
    const table = node.lookupTable(addresses);
    const payment = signPayment(node, { tables: { [table]: addresses } });
    expect(payment.authorization.message.lookups).toHaveLength(1);
    await settleElsewhere(node, payment);
    expect(await reconcile(tracking, payment)).toEqual(confirmed(payment));
  });

  test("is not taken for one of a version that cannot be the payment's", async () => {
    await using tracking = await startTracking(frozen);
    const { node } = tracking;
    const newer = signPayment(node, { version: 1 });
    await settleElsewhere(node, newer);
    const payment = signPayment(node, { version: 0 });
    expect(await reconcile(tracking, payment)).toEqual(UNKNOWN);
    // What could not be read for that one can be for this one.
    expect(await reconcile(tracking, newer)).toEqual(confirmed(newer));
    await settleElsewhere(node, payment);
    expect(await reconcile(tracking, payment)).toEqual(confirmed(payment));
  });

  test("has failed once its blockhash has expired, and not while it is valid", async () => {
    await using tracking = await startTracking(frozen);
    const { node, time } = tracking;
    const payment = signPayment(node);
    await settleElsewhere(node, signPayment(node));
    expect(await reconcile(tracking, payment)).toEqual(UNKNOWN);
    node.tick(EXPIRY_SLOTS - 4);
    await time.sleep(2_500);
    expect(await reconcile(tracking, payment)).toEqual(UNKNOWN);
    node.tick(4);
    await time.sleep(2_500);
    for (let count = 0; count < 2; count += 1) {
      expect(await reconcile(tracking, payment)).toEqual(EXPIRED);
    }
  });

  test("has failed after a restart only when that was found twice, 32 slots apart", async () => {
    await using tracking = await startTracking(frozen);
    const { node, time } = tracking;
    const payment = signPayment(node);
    node.tick(EXPIRY_SLOTS);
    expect(await reconcile(tracking, payment)).toEqual(UNKNOWN);
    node.tick(31);
    await time.sleep(2_500);
    expect(await reconcile(tracking, payment)).toEqual(UNKNOWN);
    node.tick(1);
    await time.sleep(2_500);
    expect(await reconcile(tracking, payment)).toEqual(EXPIRED);
  });

  test("that was in the last block that could hold it is found", async () => {
    await using tracking = await startTracking(frozen);
    const { node } = tracking;
    const payment = signPayment(node);
    tracking.tracker.notedValid(payment.authorization.message.blockhash, node.slot);
    node.tick(EXPIRY_SLOTS - 3);
    await settleElsewhere(node, payment);
    node.tick(100);
    expect(await reconcile(tracking, payment)).toEqual(confirmed(payment));
  });

  test("has failed when another endpoint finds the same", async () => {
    await using tracking = await startTracking(frozen);
    const { node, time } = tracking;
    await using second = await startRpcProxy(node.rpcUrl);
    const tracker = openTracker([node.rpcUrl, second.url], "confirmed", time);
    const payment = signPayment(node);
    tracker.notedValid(payment.authorization.message.blockhash, node.slot);
    node.tick(EXPIRY_SLOTS);
    expect(await reconcile({ tracker }, payment)).toEqual(EXPIRED);
    expect(second.count("isBlockhashValid")).toBe(0);
    expect(await reconcile({ tracker }, payment)).toEqual(EXPIRED);
    expect(second.count("isBlockhashValid")).toBe(1);
    await tracker.close();
  });

  test("cannot be judged by a node that does not reach its own word on the blockhash", async () => {
    await using tracking = await startTracking(frozen);
    const { node, tracker } = tracking;
    const payment = signPayment(node);
    tracker.notedValid(payment.authorization.message.blockhash, node.slot);
    await settleElsewhere(node, payment);
    node.tick(EXPIRY_SLOTS);
    const behind = node.inject({ method: "getSignaturesForAddress", lagSlots: EXPIRY_SLOTS + 2 });
    await expect(reconcile(tracking, payment)).rejects.toMatchObject({ rpcCode: -32_016 });
    behind.lift();
    expect(await reconcile(tracking, payment)).toEqual(confirmed(payment));
  });
});
