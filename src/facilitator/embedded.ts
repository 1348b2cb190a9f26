/**
 * The facilitator inside this process: judges with a mechanism, settles through the ledger. What must
 * survive a crash is stored before the step that depends on it: the claim before any chain call, the
 * signed bytes before the broadcast, the result before the answer.
 */
import {
  LedgerConflict,
  LedgerUnavailable,
  type Ledger,
  type StoredTransaction,
} from "../ledger/ledger.ts";
import type { Checked, Confirmation, Mechanism } from "../mechanism/mechanism.ts";
import { compareSupported, isNetworkName, type NetworkName } from "../x402/network.ts";
import { payerOf, paymentKey, type PaymentKey } from "../x402/payment-key.ts";
import { err, ok, refuse, type Refusal, type Result } from "../x402/result.ts";
import {
  EXACT_SCHEME,
  type FacilitatorRequest,
  type SettleResponse,
  type SupportedResponse,
  type VerifyResponse,
} from "../x402/x402.ts";
import {
  FacilitatorFault,
  waitWithin,
  type Facilitator,
  type SettleOptions,
} from "./facilitator.ts";
import { NonceGaps } from "./nonce-gaps.ts";
import { SettlementWatch, type WatchOptions } from "./settlement-watch.ts";

/** Settlements that one round of recovery takes up at most; the oldest come first. */
const MAX_TAKEN_UP = 64;
/** How long a verification may stand in for the one that a settlement makes, milliseconds. */
const VERIFIED_FOR_MS = 5_000;

/** The ledger as this facilitator uses it. */
type Settlements = Pick<
  Ledger,
  "begin" | "signed" | "settled" | "failed" | "abandoned" | "unfinished" | "unusedNonces"
>;

export interface EmbeddedOptions extends Omit<WatchOptions, "mechanisms" | "ledger"> {
  readonly mechanisms: readonly Mechanism[];
  readonly ledger: Settlements;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
}

/** A payment that passed every local check, or whose only open question is for the chain. */
interface Judged {
  readonly mechanism: Mechanism;
  readonly checked: Checked<unknown>;
}

export class EmbeddedFacilitator implements Facilitator {
  isRemote(): boolean {
    return false;
  }

  readonly #mechanisms: ReadonlyMap<string, Mechanism>;
  readonly #ledger: Settlements;
  readonly #gate: EmbeddedOptions["gate"];
  readonly #telemetry: EmbeddedOptions["telemetry"];
  readonly #clock: () => number;
  /** Requests (by identity) that `verify` found valid, so that `settle` need not ask the chain again. */
  readonly #verified = new WeakMap<FacilitatorRequest, { judged: Judged; until: number }>();
  /** Settlements being signed: one signing each, however many callers show its idempotency key. */
  readonly #signings = new Map<PaymentKey, Promise<Result<StoredTransaction, Refusal>>>();
  readonly #watch: SettlementWatch;
  readonly #gaps: NonceGaps;
  /** The chain's account nonces, read once a process: from then on our store is ahead of any node. */
  readonly #seeds = new Map<string, number>();

  constructor(options: EmbeddedOptions) {
    this.#mechanisms = new Map(options.mechanisms.map((each) => [each.network, each]));
    this.#ledger = options.ledger;
    this.#gate = options.gate;
    this.#telemetry = options.telemetry;
    this.#clock = options.clock;
    this.#watch = new SettlementWatch({ ...options, mechanisms: this.#mechanisms });
    this.#gaps = new NonceGaps(options);
  }

  precheck(request: FacilitatorRequest): VerifyResponse | undefined {
    const judged = this.#judge(request);
    if (!judged.ok) return invalid(judged.error, payerOf(request.paymentPayload));
    const refusal = locallyRefused(judged.value);
    return refusal && invalid(refusal, judged.value.checked.payer);
  }

  async verify(request: FacilitatorRequest, signal: AbortSignal): Promise<VerifyResponse> {
    const started = this.#clock();
    const { network } = request.paymentRequirements;
    const { metrics } = this.#telemetry;
    const code = "unexpected_verify_error";
    const answer = await this.#verify(request, signal).catch((cause: unknown) => {
      metrics.verification(network, "error", code, this.#since(started));
      throw fault("unavailable", code, network, cause);
    });
    const seconds = this.#since(started);
    if (answer.isValid) metrics.verification(network, "valid", "", seconds);
    else metrics.verification(network, "invalid", answer.invalidReason, seconds);
    return answer;
  }

  async settle(request: FacilitatorRequest, options: SettleOptions): Promise<SettleResponse> {
    const started = this.#clock();
    const { network } = request.paymentRequirements;
    try {
      const answer = await this.#settle(request, options);
      const { metrics } = this.#telemetry;
      if (answer.success) metrics.settlement(network, "settled", "", this.#since(started));
      else metrics.settlement(network, "failed", answer.errorReason, this.#since(started));
      return answer;
    } catch (cause) {
      const thrown =
        cause instanceof FacilitatorFault
          ? cause
          : fault("unavailable", "unexpected_settle_error", network, cause);
      const result = thrown.kind === "unknown" ? "unknown" : "unavailable";
      this.#telemetry.metrics.settlement(network, result, thrown.code, this.#since(started));
      throw thrown;
    }
  }

  async supported(): Promise<SupportedResponse> {
    const mechanisms = [...this.#mechanisms.values()];
    mechanisms.sort((left, right) => compareSupported(left.network, right.network));
    return { kinds: mechanisms.map((mechanism) => mechanism.kind) };
  }

  /** The networks that are settled here. */
  get networks(): readonly NetworkName[] {
    return [...this.#mechanisms.values()].map((mechanism) => mechanism.network);
  }

  /**
   * Takes up every settlement whose outcome is not known and that nobody watches: sends its stored bytes
   * again (the same hash, harmless) and watches the chain for it. Resolves with the number still unknown.
   */
  async recover(): Promise<number> {
    await this.#gaps.fill();
    const unfinished = (await this.#ledger.unfinished()).slice(0, MAX_TAKEN_UP);
    const outcomes = await Promise.all(
      unfinished.map(({ key, request, signed }) => this.#watch.follow(key, request, signed)),
    );
    return outcomes.filter(({ kind }) => kind === "unknown").length;
  }

  /** Stops watching; what is unresolved stays in the ledger for the next start. */
  close(): Promise<void> {
    return this.#watch.close();
  }

  async #verify(request: FacilitatorRequest, signal: AbortSignal): Promise<VerifyResponse> {
    const judged = this.#judge(request);
    if (!judged.ok) return invalid(judged.error, payerOf(request.paymentPayload));
    const refusal = await this.#inspect(judged.value, signal);
    const { payer } = judged.value.checked;
    if (refusal !== undefined) return invalid(refusal, payer);
    const until = this.#clock() + VERIFIED_FOR_MS;
    this.#verified.set(request, { judged: judged.value, until });
    return { isValid: true, payer };
  }

  async #settle(request: FacilitatorRequest, options: SettleOptions): Promise<SettleResponse> {
    const { network } = request.paymentRequirements;
    const payer = payerOf(request.paymentPayload);
    const judged = this.#recall(request) ?? this.#judge(request);
    const refusal = judged.ok ? locallyRefused(judged.value) : judged.error;
    // With an idempotency key the payment may be an old one, whose outcome is asked for again.
    if (refusal && options.idempotencyKey === undefined) return failure(refusal, network, payer);
    const key = paymentKey(request);
    if (!key.ok) return failure(key.error, network, payer);

    const begun = await this.#ledger.begin(key.value, request, options.idempotencyKey);
    switch (begun.kind) {
      case "taken":
        return failure(USED, network, payer);
      case "settled":
        return { success: true, ...begun.settlement };
      case "failed":
        return failure(begun.failure, network, payer);
      case "resume":
        return this.#finish(key.value, request, begun.signed, options.signal);
      default: {
        const signed = await this.#signOnce(key.value, request, judged, options.signal);
        if (!signed.ok) return failure(signed.error, network, payer);
        return this.#finish(key.value, request, signed.value, options.signal);
      }
    }
  }

  /** Joins the signing that another caller with the same idempotency key has begun, or begins it. */
  #signOnce(
    key: PaymentKey,
    request: FacilitatorRequest,
    judged: Result<Judged, Refusal>,
    signal: AbortSignal,
  ): Promise<Result<StoredTransaction, Refusal>> {
    const running = this.#signings.get(key);
    if (running !== undefined) return running;
    const signing = this.#sign(key, request, judged, signal).finally(() => {
      this.#signings.delete(key);
    });
    this.#signings.set(key, signing);
    return signing;
  }

  /** CLAIMED -> SIGNED, or the claim is dropped. Whatever throws here throws before anything was sent. */
  async #sign(
    key: PaymentKey,
    request: FacilitatorRequest,
    judged: Result<Judged, Refusal>,
    signal: AbortSignal,
  ): Promise<Result<StoredTransaction, Refusal>> {
    try {
      const payable = judged.ok ? await this.#payable(request, judged.value, signal) : judged;
      if (payable.ok) return ok(await this.#store(key, payable.value, signal));
      await this.#ledger.abandoned(key);
      return payable;
    } catch (cause) {
      if (cause instanceof FacilitatorFault) throw cause;
      await this.#ledger.abandoned(key).catch(() => undefined);
      throw cause;
    }
  }

  async #payable(
    request: FacilitatorRequest,
    judged: Judged,
    signal: AbortSignal,
  ): Promise<Result<Judged, Refusal>> {
    const refusal = this.#recall(request) ? undefined : await this.#inspect(judged, signal);
    return refusal === undefined ? ok(judged) : err(refusal);
  }

  async #store(
    key: PaymentKey,
    { mechanism, checked }: Judged,
    signal: AbortSignal,
  ): Promise<StoredTransaction> {
    const { network } = mechanism;
    const draft = await mechanism.prepare(checked, signal);
    const seed = await this.#seed(mechanism, draft.account, signal);
    const account = { network, address: draft.account, seed };
    try {
      return await this.#ledger.signed(key, account, (nonce) => draft.sign(nonce));
    } catch (cause) {
      // A commit without an answer, or another's, may have stored bytes, and recovery would send them.
      const mayBeStored = cause instanceof LedgerUnavailable || cause instanceof LedgerConflict;
      throw mayBeStored ? fault("unknown", "unexpected_settle_error", network, cause) : cause;
    }
  }

  /** SIGNED -> SETTLED or FAILED, or unknown when the caller's time is up first. */
  async #finish(
    key: PaymentKey,
    request: FacilitatorRequest,
    signed: StoredTransaction,
    signal: AbortSignal,
  ): Promise<SettleResponse> {
    const { network } = request.paymentRequirements;
    const payer = payerOf(request.paymentPayload);
    const outcome = await waitWithin(this.#watch.follow(key, request, signed), signal, TIME_UP);
    if (outcome.kind === "unknown") {
      throw new FacilitatorFault("unknown", "unexpected_settle_error", outcome.detail);
    }
    if (outcome.kind === "failed") return failure(outcome.refusal, network, payer);
    return { success: true, transaction: outcome.transaction, network, payer };
  }

  /** Steps that need nobody else, in the order of the wire text: version, scheme, network, the rest. */
  #judge(request: FacilitatorRequest): Result<Judged, Refusal> {
    const { paymentPayload: payment, paymentRequirements: wanted } = request;
    for (const { scheme } of [payment, wanted]) {
      if (scheme !== EXACT_SCHEME) {
        return refuse("unsupported_scheme", `only the scheme "${EXACT_SCHEME}" is served here`);
      }
    }
    if (payment.network !== wanted.network) {
      return refuse("invalid_network", "payment and requirements name different networks");
    }
    const mechanism = this.#mechanisms.get(wanted.network);
    if (!isNetworkName(wanted.network) || mechanism === undefined) {
      return refuse("invalid_network", "that network is not served here");
    }
    const checked = mechanism.check(request, this.#seconds());
    return checked.ok ? ok({ mechanism, checked: checked.value }) : checked;
  }

  /** The chain's judgement, after the local one: a refusal, or undefined for a valid payment. */
  async #inspect(judged: Judged, signal: AbortSignal): Promise<Refusal | undefined> {
    const refusal = locallyRefused(judged);
    if (refusal !== undefined) return refusal;
    const { mechanism, checked } = judged;
    if (!this.#gate.isOpen(mechanism.network)) throw new Error("its checks have not passed yet");
    const inspected = await mechanism.inspect(checked, signal);
    return inspected.ok ? undefined : inspected.error;
  }

  #recall(request: FacilitatorRequest): Result<Judged, Refusal> | undefined {
    const verified = this.#verified.get(request);
    return verified && this.#clock() < verified.until ? ok(verified.judged) : undefined;
  }

  async #seed(mechanism: Mechanism, account: string, signal: AbortSignal): Promise<number> {
    const name = `${mechanism.network}/${account}`;
    const known = this.#seeds.get(name);
    if (known !== undefined) return known;
    const seed = await mechanism.accountNonce(account, signal);
    this.#seeds.set(name, seed);
    return seed;
  }

  /** Seconds since a reading of the clock, for metrics. */
  #since(started: number): number {
    return (this.#clock() - started) / 1000;
  }

  #seconds(): number {
    return Math.floor(this.#clock() / 1000);
  }
}

const TIME_UP: Confirmation = { kind: "unknown", detail: "the chain has not answered in time" };

const USED: Refusal = {
  code: "invalid_transaction_state",
  detail: "this payment authorization was used before",
};

/** A fault that is certain without the chain; an unproven signature leaves every question to it. */
function locallyRefused({ checked }: Judged): Refusal | undefined {
  return checked.proven && checked.fault ? checked.fault : undefined;
}

function invalid({ code, detail }: Refusal, payer: string): VerifyResponse {
  return { isValid: false, invalidReason: code, payer, detail };
}

function failure({ code, detail }: Refusal, network: string, payer: string): SettleResponse {
  return { success: false, errorReason: code, transaction: "", network, payer, detail };
}

function fault(
  kind: FacilitatorFault["kind"],
  code: FacilitatorFault["code"],
  network: string,
  cause: unknown,
): FacilitatorFault {
  const reason = cause instanceof Error ? cause.message : "unknown reason";
  return new FacilitatorFault(kind, code, `${network}: ${reason}`, { cause });
}
