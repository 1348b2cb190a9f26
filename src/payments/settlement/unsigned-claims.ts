/**
 * What becomes of claims that are not signed. One that `begin` made here is dropped; one that another life
 * offered is offered again, or failed, since nobody there can tell; one that was withdrawn from a
 * transaction, by whichever life, is never dropped, since its payer was promised an outcome.
 */
import { LedgerConflict, LedgerUnavailable, type Settlements } from "../../ledger/ledger.ts";
import type { Mechanism } from "../../mechanism/mechanism.ts";
import type { Telemetry } from "../../telemetry/telemetry.ts";
import type { Time } from "../../time/time.ts";
import { payerOf, type PaymentKey } from "../../x402/payment-key.ts";
import type { Refusal } from "../../x402/result.ts";
import type { ForeignRule } from "../facilitator.ts";
import type { Ending, PendingPayment, PendingSettlement } from "./pending-payment.ts";
import { endingOf } from "./payment-verdicts.ts";

/** Longest that the chain may take to say what became of an authorization, milliseconds. */
const RECONCILE_TIMEOUT_MS = 10_000;

export type UnsignedClaim = Pick<PendingPayment, "key" | "request" | "origin">;

/** Not signed, and somebody may wait for it. */
export interface LeftClaim {
  readonly claim: UnsignedClaim;
  readonly pending: PendingSettlement;
  readonly judged: PendingPayment["judged"];
  readonly client: Pick<PendingPayment, "client">;
}

export interface UnsignedClaimsOptions {
  readonly mechanism: Pick<Mechanism, "parse" | "reconcile">;
  readonly ledger: Settlements;
  /** Default: what somebody else has put on chain is held. */
  readonly foreign?: ForeignRule | undefined;
  readonly telemetry: Telemetry;
  readonly time: Time;
}

/** Nothing here throws; undefined stands for "not now": the claim is to be judged again later. */
export class UnsignedClaims {
  readonly #at: UnsignedClaimsOptions;
  /** Claims whose drop the ledger did not take, or that may be signed: dropped, or offered, as soon as it can be. */
  readonly #undone = new Map<PaymentKey, UnsignedClaim>();

  constructor(options: UnsignedClaimsOptions) {
    this.#at = options;
  }

  /** It fails for certain. */
  refuse(claim: UnsignedClaim, refusal: Refusal): Promise<Ending | undefined> {
    const failed = { kind: "failed", refusal } as const;
    if (claim.origin === "begun") return this.#drop(claim, failed);
    return this.#guard(claim, async () => {
      if (claim.origin === "withdrawn") {
        const used = await this.#reconciled(claim);
        if (used !== "not used") return used;
      }
      // It may be at work elsewhere, where an offer of ours was stored and its answer lost.
      await this.#at.ledger.step(claim.key, {
        kind: "failed",
        failure: { ...refusal, isUnsigned: true },
      });
      return failed;
    });
  }

  /** It cannot be judged or signed now. */
  async giveUp(claim: UnsignedClaim, cause: unknown): Promise<Ending | undefined> {
    switch (claim.origin) {
      case "begun":
        return this.#drop(claim, { kind: "unavailable", cause });
      case "offered":
        return this.offer(claim);
      case "withdrawn":
        return undefined;
    }
  }

  /** Some other life may sign it. */
  offer(claim: UnsignedClaim): Promise<Ending | undefined> {
    const { ledger } = this.#at;
    return this.#guard(claim, async () => {
      if (await ledger.step(claim.key, { kind: "offer" }))
        return { kind: "open", detail: "it waits for a signer" };
      return endingOf(await ledger.outcome(claim.key));
    });
  }

  /** It may be signed: if it turns out not to be, it is dropped, or offered where it did not begin here. */
  doubt({ key, request, origin }: UnsignedClaim): void {
    this.#undone.set(key, { key, request, origin });
  }

  /** What another engine of this process could not do is to be done here. */
  inherit(before: UnsignedClaims): void {
    for (const claim of before.#undone.values()) this.doubt(claim);
    before.#undone.clear();
  }

  /** The claim is at work again. */
  revive(key: PaymentKey): void {
    this.#undone.delete(key);
  }

  /** Does what could not be done before. */
  async retry(): Promise<void> {
    for (const claim of this.#undone.values()) {
      if (claim.origin === "begun") await this.#drop(claim, NOBODY);
      else if ((await this.offer(claim)) !== undefined) this.#undone.delete(claim.key);
    }
  }

  async #drop(claim: UnsignedClaim, ending: Ending): Promise<Ending> {
    const { key } = claim;
    this.doubt(claim);
    try {
      await this.#at.ledger.step(key, { kind: "abandoned" });
      this.#undone.delete(key);
    } catch (cause) {
      if (cause instanceof LedgerConflict) {
        // It was signed after all, and the submission that carries it is watched.
        this.#undone.delete(key);
        return { kind: "open", detail: "it was signed" };
      }
      this.#at.telemetry.logger.warn({ err: cause, key }, "a claim could not be dropped yet");
    }
    return ending;
  }

  /**
   * Somebody may have submitted it after our transaction was through, and a reorganization may have given ours another
   * end: then it is paid, perhaps for another sale. Undefined: the chain has not decided yet.
   */
  async #reconciled({ key, request }: UnsignedClaim): Promise<Ending | "not used" | undefined> {
    const { mechanism, ledger, foreign, time } = this.#at;
    const parsed = mechanism.parse(request);
    if (!parsed.ok) return "not used";
    const signal = time.timeout(RECONCILE_TIMEOUT_MS);
    const found = await mechanism.reconcile(parsed.value, ANY_USE, signal);
    if (found.kind === "failed") return "not used";
    if (found.kind === "unknown") return found.isUnused === true ? "not used" : undefined;
    const { transaction } = found;
    if (foreign !== "deliver" && !(await ledger.signing.hasSigned(transaction))) {
      await ledger.step(key, { kind: "held", transaction });
      return { kind: "held", transaction };
    }
    const { network } = request.paymentRequirements;
    const payer = payerOf(request.paymentPayload);
    const settlement = { transaction, network, payer };
    await ledger.step(key, { kind: "settled", settlement });
    return { kind: "settled", settlement };
  }

  async #guard(
    { key, origin }: UnsignedClaim,
    act: () => Promise<Ending | undefined>,
  ): Promise<Ending | undefined> {
    try {
      return await act();
    } catch (cause) {
      this.#at.telemetry.logger.warn({ err: cause, key }, "an unsigned claim keeps its state");
      const isLedger = cause instanceof LedgerUnavailable || cause instanceof LedgerConflict;
      // A claim that began here and may be offered by now is followed in the ledger.
      if (cause instanceof LedgerConflict || (isLedger && origin === "begun")) {
        return { kind: "open", detail: "the ledger decides" };
      }
      return undefined;
    }
  }
}

/** Its transaction was one of ours, so that nobody's earlier use can be meant. */
const ANY_USE = { claimed: undefined, after: null };

const NOBODY: Ending = { kind: "open", detail: "nobody waits for it" };
