/** Transactions that a tracker follows on a local Solana node, watched as the settlement engine does it. */
import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import { Broadcaster } from "../../../../src/payments/settlement/broadcaster.ts";
import type { Look, SignedTransaction, Submission } from "../../../../src/mechanism/mechanism.ts";
import { openEndpoints } from "../../../../src/mechanism/solana/endpoints.ts";
import { readPayment, type SolanaAuthorization } from "../../../../src/mechanism/solana/payment.ts";
import { TOKEN_PROGRAM } from "../../../../src/mechanism/solana/programs.ts";
import { withFirstSignature } from "../../../../src/mechanism/solana/signing.ts";
import { Tracker } from "../../../../src/mechanism/solana/tracker.ts";
import { createLogger } from "../../../../src/telemetry/logger.ts";
import { systemTime, type Time } from "../../../../src/time/time.ts";
import { encodeBase58 } from "../../../../src/x402/solana-address.ts";
import type { TransactionVersion } from "../../../../src/x402/solana-transaction.ts";
import { buildTransaction, layOut, testKey } from "../../../support/solana-messages.ts";
import {
  devnet,
  devnetPayment,
  requestOf,
  requirementsOf,
} from "../../../support/solana-requests.ts";
import {
  startSolanaNode,
  type SolanaNode,
  type SolanaNodeOptions,
} from "../../../support/solana/solana-node.ts";

export const never = new AbortController().signal;

/** For what comes about by itself, on a slow machine too. */
export const eventually = <Value>(read: () => Value) =>
  expect.poll(read, { timeout: 15_000, interval: 10 });

/** Time that passes so many times as fast, so that seconds of patience are tested in fractions of one. */
export function hurriedTime(times: number): Time {
  const startMs = Date.now();
  return {
    now: () => startMs + (Date.now() - startMs) * times,
    sleep: (ms, signal) => systemTime.sleep(ms / times, signal),
    timeout: (ms) => AbortSignal.timeout(Math.ceil(ms / times)),
  };
}

export interface Tracking extends AsyncDisposable {
  readonly node: SolanaNode;
  readonly tracker: Tracker;
  readonly time: Time;
  /** What was said for the log. */
  readonly troubles: readonly string[];
}

export interface TrackingOptions extends SolanaNodeOptions {
  readonly commitment?: "confirmed" | "finalized";
  /** How fast the tracker's time passes. */
  readonly hurry?: number;
  /** Further endpoints, asked after the node. */
  readonly others?: readonly string[];
  /** Before the node. */
  readonly preferred?: readonly string[];
}

/** A node with funds for a cent from key 2 to key 3, and a tracker of it. */
export async function startTracking(options: TrackingOptions = {}): Promise<Tracking> {
  const node = await startSolanaNode({ slotMs: 20, ...options });
  const payment = devnetPayment();
  node.fundSol(payment.feePayer, 10_000_000_000n);
  node.fundSol(payment.payer.address, 10_000_000_000n);
  const { asset: mint, payer, payTo } = payment;
  await node.fundToken({ mint, owner: payer.address, amount: 100_000_000n });
  await node.fundToken({ mint, owner: payTo, amount: 0n });
  const time = options.hurry === undefined ? systemTime : hurriedTime(options.hurry);
  const troubles: string[] = [];
  const { preferred = [], others = [], commitment = "confirmed" } = options;
  const rpcUrls = [...preferred, node.rpcUrl, ...others];
  const tracker = openTracker(rpcUrls, commitment, time, (message) => troubles.push(message));
  return {
    node,
    tracker,
    time,
    troubles,
    async [Symbol.asyncDispose]() {
      await tracker.close();
      await node.stop();
    },
  };
}

export function openTracker(
  rpcUrls: readonly string[],
  commitment: "confirmed" | "finalized",
  time: Time,
  onTrouble?: (message: string) => void,
): Tracker {
  const { endpoints, urls } = openEndpoints({ network: devnet(), rpcUrls, time });
  return new Tracker({ endpoints, websocketUrls: urls, commitment, time, onTrouble });
}

/** A payment with our signature, ready to be sent. */
export interface SignedPayment {
  readonly signed: SignedTransaction;
  readonly authorization: SolanaAuthorization;
  readonly submission: Submission<SolanaAuthorization>;
}

export interface PaymentChanges {
  /** Makes a payment another one. */
  readonly memo?: string;
  readonly amount?: bigint;
  readonly blockhash?: string;
  readonly version?: TransactionVersion;
  /** Where the accounts are looked up. */
  readonly tables?: Readonly<Record<string, readonly string[]>>;
}

let made = 0;

export function signPayment(node: SolanaNode, changes: PaymentChanges = {}): SignedPayment {
  made += 1;
  const { amount = 10_000n, version = 0, memo = `payment ${made}`, tables } = changes;
  const payment = devnetPayment({ amount, tokenProgram: TOKEN_PROGRAM });
  const plan = layOut("svm", payment, { version, memo });
  const text = buildTransaction({
    ...plan,
    blockhash: changes.blockhash ?? node.blockhash,
    ...(tables === undefined ? {} : { tables }),
  });
  return signTransaction(text, requirementsOf(payment));
}

/** Reads a payment as any life of ours does, and signs it with key 1. */
export function signTransaction(
  text: string,
  requirements: ReturnType<typeof requirementsOf>,
): SignedPayment {
  const request = requestOf(text, requirements);
  const read = readPayment(request, "solana-devnet", null);
  if (!read.ok) throw new Error(read.error.detail);
  const authorization = read.value;
  const { transaction } = authorization;
  const ourKey = testKey(1);
  const signature = ourKey.sign(transaction.message);
  const bytes = withFirstSignature(transaction, signature);
  const signed = {
    transaction: encodeBase58(signature),
    raw: Buffer.from(bytes).toString("base64"),
    account: ourKey.address,
    accountNonce: made,
  };
  return {
    signed,
    authorization,
    submission: { variants: [signed], authorizations: [authorization] },
  };
}

/** What the engine's watch over a submission has come to. */
export interface Watched {
  readonly look: Look;
  readonly looks: number;
}

/** Pauses between looks, as the engine makes them, milliseconds. */
const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 500;

/**
 * Sends and looks until the payment is decided: confirmed by one look, failed by two in a row that found the
 * same.
 */
export async function watch(
  { tracker, time }: Pick<Tracking, "tracker" | "time">,
  { signed, submission }: SignedPayment,
): Promise<Watched> {
  const mechanism = {
    broadcast: tracker.broadcast.bind(tracker),
    rules: {
      isOrdered: false,
      maxOpen: 16,
      looksAtOnce: 256,
      firstLookMs: 250,
      maxLookMs: 400,
      attendedLookMs: 1_000,
      lateLookMs: 14_000,
      resendMs: 200,
      forgetMs: 180_000,
    },
  };
  const log = createLogger({ level: "fatal", format: "json" });
  const broadcaster = new Broadcaster({ mechanism, time, closing: never, log });
  let nudge = new AbortController();
  let last: Look | undefined;
  let pauseMs = FIRST_PAUSE_MS;
  try {
    for (let looks = 1; ; looks += 1) {
      if (last?.isSpent !== true) broadcaster.send(signed, () => nudge.abort());
      await time.sleep(pauseMs, nudge.signal);
      if (nudge.signal.aborted) nudge = new AbortController();
      pauseMs = Math.min(pauseMs * 1.5, MAX_PAUSE_MS);
      const look = await tracker.look(submission, time.timeout(10_000)).catch(() => undefined);
      if (look !== undefined && isDecided(look, last)) return { look, looks };
      last = look ?? last;
    }
  } finally {
    broadcaster.stop();
  }
}

function isDecided(look: Look, last: Look | undefined): boolean {
  const [said] = look.payments;
  if (said?.kind === "failed") return isDeepStrictEqual(look, last);
  return said?.kind === "confirmed";
}
