/** Transactions whose blockhash expires: the end of those that are in no block, and of no others. */
import { describe, expect, test } from "vitest";
import type { Confirmation } from "../../../../src/mechanism/mechanism.ts";
import { Tracker } from "../../../../src/mechanism/solana/tracker.ts";
import { openEndpoints } from "../../../../src/mechanism/solana/endpoints.ts";
import { devnet } from "../../../support/solana-requests.ts";
import { startRpcProxy } from "../../../support/rpc-proxy.ts";
import { startSolanaNode, type SolanaNode } from "../../../support/solana/solana-node.ts";
import {
  hurriedTime,
  never,
  openTracker,
  signPayment,
  startTracking,
  watch,
  type SignedPayment,
  type Tracking,
} from "./tracking.ts";
import { isRecord } from "../../../../src/x402/json.ts";

/** Slots after which no blockhash of now is valid, confirmed. */
const EXPIRY_SLOTS = 152;
/** Makes seconds of patience a tenth of that. */
const HURRY = 10;
/** Slots pass by hand, and nothing but polls tells of them. */
const frozen = { slotMs: null, websocket: "none", hurry: HURRY } as const;

const EXPIRED = {
  payments: [
    {
      kind: "failed",
      retriable: false,
      refusal: {
        code: "invalid_transaction_state",
        detail: "the transaction's blockhash expired before it was included; nothing was paid",
      },
    },
  ],
  included: null,
  isSpent: true,
};

const UNTOLD = {
  payments: [{ kind: "unknown", detail: expect.stringContaining("keeps enough history") }],
  included: null,
  isSpent: false,
};

/** Looks until something is so, and tells what was said meanwhile. */
async function lookUntil(
  { tracker, time }: Pick<Tracking, "tracker" | "time">,
  { submission }: SignedPayment,
  isEnough: (kind: Confirmation["kind"]) => boolean,
): Promise<Set<Confirmation["kind"]>> {
  const said = new Set<Confirmation["kind"]>();
  for (;;) {
    const { payments } = await tracker.look(submission, never);
    for (const { kind } of payments) {
      said.add(kind);
      if (isEnough(kind)) return said;
    }
    await time.sleep(200);
  }
}

/** Enough once the node has been asked about a blockhash so many times from now on. */
function askedAgain(node: SolanaNode, times: number): () => boolean {
  const before = node.count("isBlockhashValid");
  return () => node.count("isBlockhashValid") >= before + times;
}

const untilFailed = (kind: string): boolean => kind === "failed";
const untilConfirmed = (kind: string): boolean => kind === "confirmed";

/** Sends what no block will hold. */
async function sendInVain(tracker: Tracker, node: SolanaNode): Promise<SignedPayment> {
  const payment = signPayment(node);
  const lost = node.inject({ method: "sendTransaction", lose: true });
  await tracker.broadcast(payment.signed, never);
  lost.lift();
  return payment;
}

describe("a transaction that is in no block", () => {
  test("has failed soon after its blockhash has expired, and not before", async () => {
    await using tracking = await startTracking({ slotMs: null, hurry: HURRY });
    const { node, time } = tracking;
    node.inject({ method: "sendTransaction", lose: true });
    let isDecided = false;
    const watching = watch(tracking, signPayment(node)).finally(() => {
      isDecided = true;
    });
    // Five seconds in which everything but a slot passes, and all but the last slot of its life.
    await time.sleep(5_000);
    node.tick(EXPIRY_SLOTS - 2);
    await node.asked("isBlockhashValid", node.count("isBlockhashValid") + 2);
    expect(isDecided).toBe(false);
    node.tick(2);
    node.resetCalls();
    const { look } = await watching;
    expect(look).toEqual(EXPIRED);
    // One that may have been on its way, and one for each of two looks.
    expect(node.count("isBlockhashValid")).toBeLessThanOrEqual(3);
  });

  test("is looked for in the history last, after the blockhash was found expired", async () => {
    await using tracking = await startTracking(frozen);
    const { node, tracker } = tracking;
    tracker.notedValid(node.blockhash, node.slot);
    const payment = await sendInVain(tracker, node);
    node.tick(EXPIRY_SLOTS);
    await lookUntil(tracking, payment, untilFailed);
    node.resetCalls();
    expect(await tracker.look(payment.submission, never)).toEqual(EXPIRED);
    expect(node.calls()).toEqual({ getSignatureStatuses: 2, isBlockhashValid: 1 });
  });

  test("is asked about every two seconds at most, for all with the same blockhash", async () => {
    await using tracking = await startTracking(frozen);
    const { node, tracker, time } = tracking;
    const payments = [];
    for (let count = 0; count < 10; count += 1) payments.push(await sendInVain(tracker, node));
    const startedMs = time.now();
    const isEnough = askedAgain(node, 3);
    await Promise.all(payments.map((payment) => lookUntil(tracking, payment, isEnough)));
    const mostAsked = Math.ceil((time.now() - startedMs) / 2_000) + 1;
    expect(node.count("isBlockhashValid")).toBeLessThanOrEqual(mostAsked);
  });

  test("may get there at the last moment", async () => {
    await using tracking = await startTracking(frozen);
    const { node, tracker } = tracking;
    const payment = signPayment(node);
    await tracker.broadcast(payment.signed, never);
    // It is in a block that nobody has told of; then everything else about it gets old.
    const hidden = node.inject({
      method: "getSignatureStatuses",
      result: { context: { slot: node.slot }, value: [null] },
    });
    node.tick(1);
    await lookUntil(tracking, payment, askedAgain(node, 1));
    node.tick(EXPIRY_SLOTS);
    const said = await lookUntil(tracking, payment, askedAgain(node, 2));
    expect(said).toEqual(new Set(["unknown"]));
    hidden.lift();
    expect(await lookUntil(tracking, payment, untilConfirmed)).not.toContain("failed");
  });
});

describe("a node that is behind", () => {
  test("cannot make it expire: it has not heard of the blockhash yet", async () => {
    await using tracking = await startTracking(frozen);
    const { node, tracker } = tracking;
    node.tick(200);
    tracker.notedValid(node.blockhash, node.slot);
    const payment = await sendInVain(tracker, node);
    const behind = node.inject({ method: "isBlockhashValid", lagSlots: 30 });
    const early = await lookUntil(tracking, payment, askedAgain(node, 2));
    expect(early).toEqual(new Set(["unknown"]));
    // It goes on, and comes to where the blockhash was valid.
    node.tick(29);
    const late = await lookUntil(tracking, payment, askedAgain(node, 2));
    expect(late).toEqual(new Set(["unknown"]));
    expect(behind.hits).toBe(4);
    behind.lift();
    node.tick(EXPIRY_SLOTS);
    expect(await lookUntil(tracking, payment, untilFailed)).toContain("failed");
  });

  test("cannot end it by not knowing its block", async () => {
    await using tracking = await startTracking(frozen);
    const { node, tracker } = tracking;
    const payment = signPayment(node);
    tracker.notedValid(node.blockhash, node.slot);
    await tracker.broadcast(payment.signed, never);
    node.tick(EXPIRY_SLOTS);
    // Its blocks are behind its own word about the blockhash.
    const behind = node.inject({ method: "getSignatureStatuses", lagSlots: EXPIRY_SLOTS });
    const said = await lookUntil(tracking, payment, askedAgain(node, 2));
    expect(said).toEqual(new Set(["unknown"]));
    behind.lift();
    expect(await lookUntil(tracking, payment, untilConfirmed)).not.toContain("failed");
  });

  test("is not believed before 32 slots have passed, where no slot is known to have been valid", async () => {
    await using tracking = await startTracking(frozen);
    const { node, tracker } = tracking;
    const payment = signPayment(node);
    node.tick(EXPIRY_SLOTS);
    const first = await lookUntil(tracking, payment, askedAgain(node, 2));
    node.tick(31);
    const second = await lookUntil(tracking, payment, askedAgain(node, 2));
    expect([...first, ...second]).toEqual(["unknown", "unknown"]);
    node.tick(1);
    expect(await lookUntil(tracking, payment, untilFailed)).toContain("failed");
    expect(await tracker.look(payment.submission, never)).toEqual(EXPIRED);
  });
});

describe("with several endpoints", () => {
  test("the second look at an expiry is another one's", async () => {
    await using node = await startSolanaNode({ slotMs: null });
    await using second = await startRpcProxy(node.rpcUrl);
    const time = hurriedTime(HURRY);
    const tracker = openTracker([node.rpcUrl, second.url], "confirmed", time);
    tracker.notedValid(node.blockhash, node.slot);
    const payment = signPayment(node);
    await tracker.look(payment.submission, never);
    // The heads of both have been compared before one of them seems to be far ahead.
    await time.sleep(1_000);
    node.tick(EXPIRY_SLOTS);
    await time.sleep(2_500);
    expect(await tracker.look(payment.submission, never)).toEqual(EXPIRED);
    expect(second.count("isBlockhashValid")).toBe(0);
    expect(await tracker.look(payment.submission, never)).toEqual(EXPIRED);
    expect(second.count("isBlockhashValid")).toBe(1);
    await tracker.close();
  });

  test("one that knows nothing does not end what another one shows", async () => {
    await using liar = await startSolanaNode({ slotMs: null });
    await using tracking = await startTracking({
      preferred: [liar.rpcUrl],
      hurry: HURRY,
    });
    const { node, tracker } = tracking;
    const payment = signPayment(node);
    tracker.notedValid(node.blockhash, liar.slot - 1);
    // The one that is asked first takes whatever it is given, and has never heard of it.
    liar.inject({ method: "sendTransaction", lose: true });
    node.setWebsocket("refused");
    const { look } = await watch(tracking, payment);
    expect(look.payments).toEqual([{ kind: "confirmed", transaction: payment.signed.transaction }]);
  });

  test("what a websocket has told is looked for elsewhere, where it is not found", async () => {
    await using blind = await startSolanaNode({ slotMs: 20 });
    await using tracking = await startTracking({ preferred: [blind.rpcUrl] });
    const { node, time } = tracking;
    blind.inject({ method: "sendTransaction", lose: true });
    const startedMs = time.now();
    const { look } = await watch(tracking, signPayment(node));
    expect(look.payments[0]?.kind).toBe("confirmed");
    expect(blind.count("getSignatureStatuses")).toBe(1);
    expect(blind.count("isBlockhashValid")).toBe(0);
    expect(time.now() - startedMs).toBeLessThan(10_000);
  });

  test.each<[string, Record<string, unknown>]>([
    [
      "a block that is never confirmed",
      {
        getSignatureStatuses: [{ slot: 2, err: null, confirmationStatus: "processed" }],
      },
    ],
    ["no block, and a valid blockhash", { getSignatureStatuses: [null], isBlockhashValid: true }],
  ])("one that is stuck is not the only one asked: %s", async (_title, stuck) => {
    await using tracking = await startTracking({ websocket: "none" });
    const { node } = tracking;
    await using first = await startRpcProxy(node.rpcUrl);
    for (const [method, value] of Object.entries(stuck)) {
      first.inject({
        method,
        rewrite: (result) => (isRecord(result) ? { ...result, value } : result),
      });
    }
    const time = hurriedTime(HURRY);
    const tracker = openTracker([first.url, node.rpcUrl], "confirmed", time);
    const payment = signPayment(node);
    tracker.notedValid(payment.authorization.message.blockhash, node.slot);
    const { look } = await watch({ tracker, time }, payment);
    expect(look.payments).toEqual([{ kind: "confirmed", transaction: payment.signed.transaction }]);
    await tracker.close();
  });

  test("one that fails a transaction is asked alone in the end, where no other knows of it", async () => {
    await using node = await startSolanaNode({ slotMs: null });
    await using first = await startRpcProxy(node.rpcUrl);
    const time = hurriedTime(HURRY);
    const tracker = openTracker([first.url, node.rpcUrl], "confirmed", time);
    const payment = signPayment(node);
    const { slot } = node;
    const status = { slot, err: "AccountNotFound", confirmationStatus: "confirmed" };
    first.inject({
      method: "getSignatureStatuses",
      result: { context: { slot }, value: [status] },
    });
    const kinds: (string | undefined)[] = [];
    while (kinds.at(-1) !== "failed" || kinds.at(-2) !== "failed") {
      const { payments } = await tracker.look(payment.submission, never);
      kinds.push(payments[0]?.kind);
      await time.sleep(250);
    }
    expect(kinds.filter((kind) => kind === "unknown")).toHaveLength(3);
    await tracker.close();
  });
});

describe("a node without history", () => {
  const NO_HISTORY = {
    code: -32_011,
    message: "Transaction history is not available from this node",
  };

  test("is believed as far as its recent memory reaches", async () => {
    await using tracking = await startTracking(frozen);
    const { node, tracker } = tracking;
    await using proxy = await startRpcProxy(node.rpcUrl);
    proxy.inject({
      method: "getSignatureStatuses",
      when: ({ params }) => params.length > 1,
      error: NO_HISTORY,
    });
    const forgetful = openTracker([proxy.url], "confirmed", tracking.time);
    forgetful.notedValid(node.blockhash, node.slot);
    const payment = signPayment(node);
    await forgetful.look(payment.submission, never);
    node.tick(EXPIRY_SLOTS - 3);
    forgetful.notedValid(payment.authorization.message.blockhash, node.slot - 1);
    node.tick(3);
    await tracking.time.sleep(2_500);
    expect(await forgetful.look(payment.submission, never)).toEqual(EXPIRED);
    // Much later nobody there can tell.
    node.tick(400);
    expect(await forgetful.look(payment.submission, never)).toEqual(UNTOLD);
    await forgetful.close();
    await tracker.close();
  });

  test("is well all the same, and leaves an old transaction to one that has a history", async () => {
    await using tracking = await startTracking(frozen);
    const { node, time } = tracking;
    await using proxy = await startRpcProxy(node.rpcUrl);
    proxy.inject({
      method: "getSignatureStatuses",
      when: ({ params }) => params.length > 1,
      error: NO_HISTORY,
    });
    const unhealthy: string[] = [];
    const { endpoints, urls } = openEndpoints({
      network: devnet(),
      rpcUrls: [proxy.url, node.rpcUrl],
      time,
      onHealth: (host, isHealthy) => isHealthy || unhealthy.push(host),
    });
    const commitment = "confirmed";
    const restarted = new Tracker({ endpoints, websocketUrls: urls, commitment, time });
    const payment = signPayment(node);
    node.tick(EXPIRY_SLOTS);
    await lookUntil({ tracker: restarted, time }, payment, askedAgain(node, 2));
    node.tick(400);
    const looks: unknown[] = [];
    // Each look is another one's by now: one of them can tell, and finds it twice where it is asked twice.
    while (looks.length < 4) {
      await time.sleep(2_500);
      looks.push(await restarted.look(payment.submission, never));
    }
    expect(looks).toContainEqual(UNTOLD);
    expect(looks).toContainEqual(EXPIRED);
    expect(unhealthy).toEqual([]);
    await restarted.close();
  });
});
