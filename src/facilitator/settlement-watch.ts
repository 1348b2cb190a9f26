/**
 * Follows signed settlements to their end: sends their stored bytes, asks the chain what became of them,
 * stores what it says. Each settlement has one watch, whoever waits for it and for how long.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Ledger, StoredTransaction } from "../ledger/ledger.ts";
import type { Confirmation, Mechanism } from "../mechanism/mechanism.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { isEvmPayload, payerOf, type PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import type { NetworkGate } from "./network-gate.ts";

/** How long one watch over a settlement lasts before recovery starts the next, milliseconds. */
const WATCH_MS = 60_000;
/** First pause before bytes that the node did not take are sent again, milliseconds; it doubles. */
const FIRST_RESEND_MS = 250;
/** Longest pause between two sendings, milliseconds. */
const MAX_RESEND_MS = 8_000;

export interface WatchOptions {
  readonly mechanisms: ReadonlyMap<string, Mechanism>;
  readonly ledger: Pick<Ledger, "settled" | "failed">;
  /** Networks whose start-up checks passed: only their chains are believed and written to. */
  readonly gate: Pick<NetworkGate, "isOpen">;
  readonly telemetry: Telemetry;
  /** Symbol and decimals of a token that the mechanisms accept, for logs and metrics. */
  readonly describeAsset: (
    network: string,
    asset: string,
  ) => { readonly symbol: string; readonly decimals: number };
}

export class SettlementWatch {
  readonly #options: WatchOptions;
  readonly #watches = new Map<PaymentKey, Promise<Confirmation>>();
  readonly #closing = new AbortController();

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** Joins the watch that is running, or starts one. Never rejects: what goes wrong is `unknown`. */
  follow(
    key: PaymentKey,
    request: FacilitatorRequest,
    signed: StoredTransaction,
  ): Promise<Confirmation> {
    const running = this.#watches.get(key);
    if (running !== undefined) return running;
    const watch = this.#follow(key, request, signed)
      .catch((cause: unknown): Confirmation => {
        const { logger } = this.#options.telemetry;
        logger.error({ err: cause, key }, "a settlement could not be followed");
        return { kind: "unknown", detail: "the outcome could not be read or stored" };
      })
      .finally(() => this.#watches.delete(key));
    this.#watches.set(key, watch);
    return watch;
  }

  /** Stops watching; what is unresolved stays in the ledger for the next start. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.allSettled(this.#watches.values());
  }

  async #follow(
    key: PaymentKey,
    request: FacilitatorRequest,
    signed: StoredTransaction,
  ): Promise<Confirmation> {
    const { mechanisms, gate, telemetry, ledger } = this.#options;
    const { network } = request.paymentRequirements;
    const mechanism = mechanisms.get(network);
    const parsed = mechanism?.parse(request);
    if (mechanism === undefined || !parsed?.ok || !gate.isOpen(network)) {
      return { kind: "unknown", detail: `${network} cannot be used now` };
    }
    const log = telemetry.logger.child({ network, sent: signed.transaction });
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(WATCH_MS)]);
    const submission = { mechanism, authorization: parsed.value, signed, log };
    const outcome = await submit(submission, signal);
    const payer = payerOf(request.paymentPayload);
    if (outcome.kind === "confirmed") {
      const { transaction } = outcome;
      await ledger.settled(key, { transaction, network, payer });
      this.#countAmount(request);
      const submitter = transaction === signed.transaction ? "we" : "somebody else";
      log.info({ payer, settled: transaction, submitter }, "payment settled");
    } else if (outcome.kind === "failed") {
      await ledger.failed(key, outcome.refusal);
      log.warn({ code: outcome.refusal.code, detail: outcome.refusal.detail }, "settlement failed");
    } else {
      log.error({ detail: outcome.detail }, "settlement outcome not known yet; it stays watched");
    }
    return outcome;
  }

  #countAmount({ paymentPayload, paymentRequirements }: FacilitatorRequest): void {
    const { network, asset } = paymentRequirements;
    const { symbol, decimals } = this.#options.describeAsset(network, asset);
    const { payload } = paymentPayload;
    const amountAtomic = isEvmPayload(payload) ? BigInt(payload.authorization.value) : 0n;
    const { metrics } = this.#options.telemetry;
    metrics.settledAmount({ network, asset: symbol, decimals, amountAtomic });
  }
}

interface Submission {
  readonly mechanism: Mechanism;
  readonly authorization: unknown;
  readonly signed: StoredTransaction;
  readonly log: Logger;
}

/** Sends the bytes, again where the node did not take them, and asks the chain what became of them. */
async function submit(
  { mechanism, authorization, signed, log }: Submission,
  signal: AbortSignal,
): Promise<Confirmation> {
  const decided = new AbortController();
  const undecided = AbortSignal.any([signal, decided.signal]);
  const send = async (): Promise<boolean> => {
    try {
      await mechanism.broadcast(signed, undecided);
      log.debug("settlement sent");
      return true;
    } catch (cause) {
      // Only the chain decides from here: a lost answer is not a lost transaction.
      if (!undecided.aborted)
        log.warn({ err: cause }, "no answer to a broadcast; asking the chain");
      return false;
    }
  };
  const sending = (await send()) || resend(send, undecided);
  try {
    return await mechanism.confirm({ authorization }, signed, signal);
  } finally {
    decided.abort();
    await sending;
  }
}

/**
 * Sends again until the node has the bytes or the signal ends. As long as they are missing, so is their
 * account nonce, and every later settlement of the account waits behind it.
 */
async function resend(send: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
  let pauseMs = FIRST_RESEND_MS;
  do {
    await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
    pauseMs = Math.min(pauseMs * 2, MAX_RESEND_MS);
  } while (!signal.aborted && !(await send()));
}
