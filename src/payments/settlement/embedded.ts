/**
 * The facilitator inside this process: judges with a mechanism, settles through the ledger. Signed bytes are stored
 * before they are sent; a claim and what came of it are in the ledger before anybody hears of them, though a crash
 * may undo these within a moment (decision record 30): the chain is asked again then.
 */
import type { WatchSurroundings } from "./surroundings.ts";
import type { BeginOutcome, Ledger } from "../../ledger/ledger.ts";
import {
  ChainError,
  type Asker,
  type Checked,
  type Follower,
  type Mechanism,
} from "../../mechanism/mechanism.ts";
import type { Telemetry } from "../../telemetry/telemetry.ts";
import type { Time } from "../../time/time.ts";
import {
  compareSupported,
  isNetworkName,
  networkOf,
  type NetworkName,
} from "../../x402/network.ts";
import { payerOf } from "../../x402/payment-key.ts";
import { err, ok, refuse, type Refusal, type Result } from "../../x402/result.ts";
import { inBothVersions } from "../../x402/version-2.ts";
import {
  EXACT_SCHEME,
  type FacilitatorRequest,
  type SettleResponse,
  type SupportedResponse,
} from "../../x402/x402.ts";
import {
  CrowdedFault,
  FacilitatorFault,
  HeldPayment,
  Payment,
  type Facilitator,
  type ForeignRule,
  type SettleOptions,
  type Verified,
} from "../facilitator.ts";
import { TIME_UP, type Ending } from "./pending-payment.ts";
import { KeylessAccounts, type OrphanedSigner } from "./keyless-accounts.ts";
import type { NetworkGate } from "./network-gate.ts";
import { endingOf, open } from "./payment-verdicts.ts";
import { failure } from "../said-no.ts";
import { serve, type Served } from "./served.ts";
import type { SettlementEngine } from "./settlement-engine.ts";

/** Shortest pause between two looks for offered claims, milliseconds. */
const OFFERS_PAUSE_MS = 50;

export interface EmbeddedOptions {
  /** Empty where nothing is settled here any more, and what was signed before is seen to its end. */
  readonly mechanisms: readonly Mechanism[];
  /** Through which accounts without a key are watched, by network. Default: they are not looked for. */
  readonly followers?: ReadonlyMap<string, Follower>;
  readonly ledger: Ledger;
  /** Which networks' start-up checks passed. */
  readonly gate: Pick<NetworkGate, "isOpen" | "isTrusted">;
  readonly telemetry: Telemetry;
  readonly time: Time;
  /** Default: what somebody else has put on chain is held. */
  readonly foreign?: ForeignRule | undefined;
  /** Symbol and decimals of a token that the mechanisms accept, for logs and metrics. */
  readonly describeAsset: WatchSurroundings["describeAsset"];
  readonly nativePrice?: WatchSurroundings["nativePrice"];
}

export class EmbeddedFacilitator implements Facilitator {
  isRemote(): boolean {
    return false;
  }

  readonly #options: EmbeddedOptions;
  readonly #served: Map<string, Served>;
  readonly #keyless: KeylessAccounts | undefined;
  readonly #ledger: Ledger;
  readonly #telemetry: Telemetry;
  readonly #time: Time;
  readonly #closing = new AbortController();
  #round: Promise<number> | undefined;
  #listening: Promise<void> | undefined;

  constructor(options: EmbeddedOptions) {
    const { mechanisms, ledger, telemetry, time } = options;
    this.#options = options;
    this.#ledger = ledger;
    this.#telemetry = telemetry;
    this.#time = time;
    this.#served = new Map(mechanisms.map((each) => [each.network, serve(each, options)]));
    const { followers } = options;
    this.#keyless = followers && openKeyless({ ...options, followers }, this.#served);
  }

  read(request: FacilitatorRequest): Result<Payment, Refusal> {
    const payment = Payment.read(request, (each) => this.#judge(each));
    if (payment.ok) return payment;
    // What is wrong with it is told in the order of the wire text.
    const judged = this.#judge(request);
    return judged.ok ? payment : judged;
  }

  precheck({ fault: refusal }: Payment): Refusal | undefined {
    return refusal;
  }

  async verify(
    payment: Payment,
    signal: AbortSignal,
    client = "",
  ): Promise<Result<Verified, Refusal>> {
    const started = this.#time.now();
    const { network } = payment;
    const { metrics } = this.#telemetry;
    const code = "unexpected_verify_error";
    const asker: Asker = { kind: "client", name: client };
    const answer = await this.#verify(payment, asker, signal).catch((cause: unknown) => {
      metrics.verification(network, "error", code, this.#since(started));
      throw fault("unavailable", code, network, cause);
    });
    const seconds = this.#since(started);
    if (answer.ok) metrics.verification(network, "valid", "", seconds);
    else metrics.verification(network, "invalid", answer.error.code, seconds);
    return answer;
  }

  async settle(payment: Payment, options: SettleOptions): Promise<SettleResponse> {
    const started = this.#time.now();
    const { network } = payment;
    const { metrics } = this.#telemetry;
    try {
      const answer = await this.#settle(payment, options);
      if (answer.success) metrics.settlement(network, "settled", "", this.#since(started));
      else metrics.settlement(network, "failed", answer.errorReason, this.#since(started));
      return answer;
    } catch (cause) {
      const code = "unexpected_settle_error";
      const thrown =
        cause instanceof FacilitatorFault ? cause : fault("unknown", code, network, cause);
      const result = thrown.kind === "unknown" ? "unknown" : "unavailable";
      metrics.settlement(network, result, thrown.code, this.#since(started));
      throw thrown;
    }
  }

  async supported(): Promise<SupportedResponse> {
    const mechanisms = [...this.#served.values()].map(({ mechanism }) => mechanism);
    mechanisms.sort((left, right) => compareSupported(left.network, right.network));
    return {
      kinds: inBothVersions(mechanisms.map((mechanism) => mechanism.kind)),
      signers: signersOf(mechanisms),
      finalRefusals: mechanisms.map(({ network }) => network),
    };
  }

  /** The networks that are settled here. */
  get networks(): readonly NetworkName[] {
    return [...this.#served.values()].map(({ mechanism }) => mechanism.network);
  }

  /**
   * One round of recovery: frees what dead lives left, takes the leases that nobody holds, and takes up
   * unfinished submissions, offered claims, and settlements that are not final yet. It begins what there
   * is to do and does not wait for blocks; asked while it runs, it is the same round. Resolves with the
   * number of submissions in the air.
   */
  async recover(): Promise<number> {
    if (this.#closing.signal.aborted) return 0;
    this.#listening ??= this.#listen();
    this.#round ??= this.#recover().finally(() => {
      this.#round = undefined;
    });
    return this.#round;
  }

  /** Accounts whose key is not here and that left something open. Throws what the ledger throws. */
  async strangers(): Promise<readonly OrphanedSigner[]> {
    return (await this.#keyless?.strangers()) ?? [];
  }

  /**
   * From here on these settle, one for each network that is settled here. A network whose mechanism is the same goes on
   * undisturbed; of every other one what is under way goes on with the new one, whoever waits for it, and one that has
   * gone leaves what it signed to those who watch over accounts without a key.
   * @param followed networks whose chain is asked by others now
   */
  async replace(mechanisms: readonly Mechanism[], followed: readonly string[]): Promise<void> {
    const next = new Map(mechanisms.map((each) => [each.network as string, each]));
    const ended = [...this.#served].filter(([network]) => !next.has(network));
    const changed = mechanisms.filter((each) => {
      return this.#served.get(each.network)?.mechanism !== each;
    });
    await Promise.all([
      ...ended.map(([network, { engine }]) => this.#end(network, engine)),
      ...changed.map((mechanism) => this.#change(mechanism)),
    ]);
    await Promise.all(followed.map(async (network) => this.#keyless?.renew(network)));
  }

  async #end(network: string, engine: SettlementEngine): Promise<void> {
    this.#served.delete(network);
    await engine.close();
    await engine.drained();
  }

  async #change(mechanism: Mechanism): Promise<void> {
    const { network } = mechanism;
    const before = this.#served.get(network);
    // Comes until the accounts are free: what is settled meanwhile is taken over with the rest.
    await before?.engine.leave();
    const served = serve(mechanism, this.#options, before);
    this.#served.set(network, served);
    if (before !== undefined) {
      served.engine.inherit(before.engine);
      await before.engine.drained();
      served.engine.inherit(before.engine);
    }
    await served.engine.round();
  }

  /** Submissions in the air on that network. */
  openOn(network: string): number {
    return this.#served.get(network)?.engine.openCount ?? 0;
  }

  /** Signs no more, and gives back the accounts; what is unresolved stays in the ledger. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#keyless?.close();
    const engines = [...this.#served.values()].map(({ engine }) => engine);
    await Promise.all(engines.map((engine) => engine.close()));
    await Promise.allSettled([this.#listening, this.#round]);
    await Promise.all(engines.map((engine) => engine.drained()));
  }

  /** Rejects where the dead could not be reaped, though not before everything else was done. */
  async #recover(): Promise<number> {
    const [reaped] = await Promise.allSettled([this.#ledger.upkeep.reap()]);
    const engines = [...this.#served.values()].map(({ engine }) => engine);
    const keyless = this.#keyless;
    await Promise.all([...engines.map((engine) => engine.round()), keyless?.round()]);
    if (reaped.status === "rejected") throw reaped.reason;
    const { value: freed } = reaped;
    const { logger } = this.#telemetry;
    if (freed > 0) logger.info({ freed }, "payments that a dead process left are free again");
    return engines.reduce((sum, { openCount }) => sum + openCount, keyless?.openCount ?? 0);
  }

  /** Looks for offered claims as soon as there may be one. */
  async #listen(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      // Asked before the look, so that nothing is offered unnoticed in between.
      const next = this.#ledger.queues.offered(signal);
      const tookMs = this.#time.now();
      for (const { engine } of this.#served.values()) await engine.takeOffered();
      await next;
      await this.#time.sleep(Math.max(0, tookMs + OFFERS_PAUSE_MS - this.#time.now()), signal);
    }
  }

  async #verify(
    { key, network, checked = NOT_SERVED }: Payment,
    asker: Asker,
    signal: AbortSignal,
  ): Promise<Result<Verified, Refusal>> {
    if (!checked.ok) return checked;
    const served = this.#served.get(network);
    if (served === undefined) return NOT_SERVED;
    if (served.engine.pending(key) !== undefined) return err(SETTLING);
    const found = await served.judgement.inspect(checked.value, signal, asker);
    if (!found.ok) return found;
    return ok({ judged: { inspected: found.value, atMs: this.#time.now() } });
  }

  async #settle(payment: Payment, options: SettleOptions): Promise<SettleResponse> {
    const { key, network, payer } = payment;
    const { idempotencyKey, isNewKey, signal } = options;
    // With an idempotency key the payment may be an old one, whose outcome is asked for again.
    const isNew = idempotencyKey === undefined || isNewKey === true;
    const refusal = isNew ? payment.fault : undefined;
    if (refusal !== undefined) return failure(refusal, network, payer);

    const begun = await this.#begin(payment, options);
    switch (begun.kind) {
      case "taken":
        if (options.claim === undefined) return failure(USED, network, payer);
        throw fault("unavailable", "unexpected_settle_error", network, CLAIM_GONE);
      case "settled":
        return { success: true, ...begun.settlement };
      case "held":
        throw new HeldPayment(begun.transaction);
      case "failed":
        return failure(begun.failure, network, payer);
      case "granted": {
        const unfit = this.#launch(payment, options, begun.isPublic === true);
        if (unfit === undefined) break;
        await this.#ledger.step(key, { kind: "abandoned" });
        return failure(unfit, network, payer);
      }
      case "pending":
        break;
    }
    return this.#answer(payment, await this.#finish(payment, signal));
  }

  /** Begins the work on it, or says why there is none to do. */
  #launch(
    { key, network, request, checked = NOT_SERVED }: Payment,
    { verified: { judged } = {}, client = "" }: SettleOptions,
    isPublic: boolean,
  ): Refusal | undefined {
    const engine = this.#served.get(network)?.engine;
    if (isPublic) {
      engine?.resume({ key, request });
      return undefined;
    }
    if (!checked.ok) return checked.error;
    if (engine === undefined) return NOT_SERVED.error;
    engine.settle({ key, request, checked: judged?.inspected ?? checked.value, judged, client });
    return undefined;
  }

  /**
   * Nothing was signed for a caller without an idempotency key when its claim was not taken; who shows a
   * key may ask for a settlement that was begun before.
   */
  async #begin(
    { key, network, request }: Payment,
    { idempotencyKey, isNewKey, claim }: SettleOptions,
  ): Promise<BeginOutcome> {
    // Whether it is there is found when it is signed.
    if (claim === "new") return GRANTED;
    const isHolder = claim !== undefined && idempotencyKey !== undefined;
    try {
      const caller = isHolder ? { claimedUnder: idempotencyKey } : idempotencyKey;
      return await this.#ledger.step(key, { kind: "begin", request, caller });
    } catch (cause) {
      const isNew = idempotencyKey === undefined || isNewKey === true;
      const kind = isNew ? "unavailable" : "unknown";
      throw fault(kind, "unexpected_settle_error", network, cause);
    }
  }

  /** Joins the work in this process, if there is any, and follows the row for the rest. */
  async #finish({ key, network }: Payment, signal: AbortSignal): Promise<Ending> {
    const either = AbortSignal.any([signal, this.#closing.signal]);
    for (;;) {
      const pending = this.#served.get(network)?.engine.pending(key);
      const ended = await pending?.wait(either);
      if (ended !== undefined && ended.kind !== "open") return ended;
      const outcome = await this.#ledger.outcome(key);
      if (outcome.kind !== "pending") return endingOf(outcome);
      if (either.aborted) return open(ended?.detail ?? TIME_UP, outcome);
      await this.#ledger.changed(key, outcome.version, either);
    }
  }

  #answer({ network, request }: Payment, ending: Ending): SettleResponse {
    const code = "unexpected_settle_error";
    switch (ending.kind) {
      case "settled":
        return { success: true, ...ending.settlement };
      case "held":
        throw new HeldPayment(ending.transaction);
      case "failed":
        return failure(ending.refusal, network, payerOf(request.paymentPayload));
      case "unavailable":
        throw fault("unavailable", code, network, ending.cause);
      case "open": {
        const { detail, transaction } = ending;
        throw new FacilitatorFault("unknown", code, detail, { transaction });
      }
    }
  }

  /** Steps that need nobody else, in the order of the wire text: version, scheme, network, the rest. */
  #judge(request: FacilitatorRequest): Result<Checked<unknown>, Refusal> {
    const { paymentPayload: payment, paymentRequirements: wanted } = request;
    for (const { scheme } of [payment, wanted]) {
      if (scheme !== EXACT_SCHEME) {
        return refuse("unsupported_scheme", `only the scheme "${EXACT_SCHEME}" is served here`);
      }
    }
    if (payment.network !== wanted.network) {
      return refuse("invalid_network", "payment and requirements name different networks");
    }
    const served = this.#served.get(wanted.network);
    if (!isNetworkName(wanted.network) || served === undefined) return NOT_SERVED;
    return served.judgement.check(request);
  }

  /** Seconds since a reading of the clock, for metrics. */
  #since(started: number): number {
    return (this.#time.now() - started) / 1000;
  }
}

function openKeyless(
  options: EmbeddedOptions & { readonly followers: ReadonlyMap<string, Follower> },
  served: ReadonlyMap<string, Served>,
): KeylessAccounts {
  const { gate } = options;
  return new KeylessAccounts({
    ...options,
    accounts: () =>
      [...served.values()].flatMap(({ mechanism: { network, accounts } }) =>
        accounts.map((address) => ({ network, address })),
      ),
    // The endpoints of a network that is settled elsewhere show their chain before they are believed.
    isTrusted: (network) => !served.has(network) || gate.isTrusted(network),
    signerOf: (network) => served.get(network)?.engine,
  });
}

/** By the namespace of their networks: `eip155:*`. */
function signersOf(mechanisms: readonly Mechanism[]): Record<string, readonly string[]> {
  const signers = new Map<string, ReadonlySet<string>>();
  for (const { network, accounts } of mechanisms) {
    const pattern = networkOf(network).caip2.replace(/:.*/, ":*");
    signers.set(pattern, new Set([...(signers.get(pattern) ?? []), ...accounts]));
  }
  return Object.fromEntries([...signers].map(([pattern, accounts]) => [pattern, [...accounts]]));
}

const NOT_SERVED = refuse("invalid_network", "that network is not served here");

const GRANTED: BeginOutcome = { kind: "granted" };

const CLAIM_GONE = new Error("the claim is gone; this process was taken for dead");

const SETTLING: Refusal = {
  code: "invalid_transaction_state",
  detail: "this payment is being settled",
};

const USED: Refusal = {
  code: "invalid_transaction_state",
  detail: "this payment authorization was used before",
};

function fault(
  kind: FacilitatorFault["kind"],
  code: FacilitatorFault["code"],
  network: string,
  cause: unknown,
): FacilitatorFault {
  const isCrowded = cause instanceof ChainError && cause.code === "CHAIN_BUSY";
  if (isCrowded && kind === "unavailable") return new CrowdedFault(network, code, { cause });
  const reason = cause instanceof Error ? cause.message : "unknown reason";
  return new FacilitatorFault(kind, code, `${network}: ${reason}`, { cause });
}
