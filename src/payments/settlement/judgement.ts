/** Judges payments of one network: what can be said at once, then what only the chain knows. */
import {
  RENEWAL,
  type Asker,
  type Checked,
  type Inspected,
  type Mechanism,
} from "../../mechanism/mechanism.ts";
import type { Time } from "../../time/time.ts";
import { err, type Refusal, type Result } from "../../x402/result.ts";
import type { FacilitatorRequest } from "../../x402/x402.ts";
import type { FailureBudget } from "./failure-budget.ts";
import type { NetworkGate } from "./network-gate.ts";
import type { RevertedGas } from "./reverted-gas.ts";

/** How long a judgement by the chain counts for the settlement, milliseconds. */
const JUDGED_FOR_MS = 5_000;
/** Longest that the chain may take for one, where nobody sets a shorter limit, milliseconds. */
const INSPECT_TIMEOUT_MS = 10_000;

export interface JudgementOptions {
  readonly mechanism: Mechanism;
  readonly gate: Pick<NetworkGate, "isOpen">;
  readonly budget: FailureBudget;
  readonly revertedGas: RevertedGas;
  readonly time: Time;
}

export class Judgement {
  readonly #options: JudgementOptions;

  constructor(options: JudgementOptions) {
    this.#options = options;
  }

  /** What needs nobody else. */
  check(request: FacilitatorRequest): Result<Checked<unknown>, Refusal> {
    const { mechanism, time } = this.#options;
    return mechanism.check(request, Math.floor(time.now() / 1000));
  }

  /** Throws when the chain cannot be asked. */
  async inspect(
    checked: Checked<unknown>,
    signal: AbortSignal,
    asker?: Asker,
  ): Promise<Result<Inspected<unknown>, Refusal>> {
    const { mechanism } = this.#options;
    const refusal = checked.fault ?? this.suspension(checked);
    if (refusal !== undefined) return err(refusal);
    this.requireOpen();
    const inspected = await mechanism.inspect(checked, this.#within(signal), asker);
    // Whether code of the payer's runs is known only now.
    const suspension = inspected.ok ? this.suspension(inspected.value) : undefined;
    return suspension === undefined ? inspected : err(suspension);
  }

  /** Why no more of that payer's payments are taken for now; undefined where they are. */
  suspension({ payer, runsCode }: Checked<unknown>): Refusal | undefined {
    const { budget, revertedGas } = this.#options;
    const refusal = budget.refusal(payer, runsCode);
    const mayRevert = runsCode || budget.isSuspect(payer);
    return refusal ?? (mayRevert ? revertedGas.refusal() : undefined);
  }

  /** Both anew, for a payment that was found good and has waited. Throws when the chain cannot be asked. */
  async again(
    request: FacilitatorRequest,
    signal: AbortSignal,
    asker = RENEWAL,
  ): Promise<Result<Inspected<unknown>, Refusal>> {
    const checked = this.check(request);
    return checked.ok ? this.inspect(checked.value, signal, asker) : checked;
  }

  /** Whether a judgement of that time still counts. */
  isFresh(judgedMs: number): boolean {
    // A clock that was set back makes nothing younger.
    return Math.abs(this.#options.time.now() - judgedMs) < JUDGED_FOR_MS;
  }

  /** Throws as long as the network has not proven itself: nothing is believed and nothing signed. */
  requireOpen(): void {
    const { gate, mechanism } = this.#options;
    if (!gate.isOpen(mechanism.network)) throw new Error("its checks have not passed yet");
  }

  #within(signal: AbortSignal): AbortSignal {
    return AbortSignal.any([signal, this.#options.time.timeout(INSPECT_TIMEOUT_MS)]);
  }
}
