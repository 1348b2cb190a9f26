/**
 * One target of a backend: its engine, what its connections, its answers and its checks say of it, and who
 * is told when that changes.
 */
import type { Logger } from "../../../telemetry/logger.ts";
import type { TargetMeter, TargetResult } from "../../../telemetry/target-meter.ts";
import type { Delivery, TargetEngine } from "../upstream.ts";
import type { Weighted } from "./balance.ts";
import { Ejection } from "./ejection.ts";
import { CheckedState, type HealthFinding, type HealthCheckOptions } from "./health-check.ts";

/**
 * - `up`: it gets its share.
 * - `ejected`: it can be reached and answers badly: it gets something where no target is up, and now and
 *   then a request that finds out.
 * - `down`: it cannot be reached, or its checks fail: nobody pays for a request to it.
 */
export type MemberState = "up" | "ejected" | "down";

/** Answers of a gateway that does not get on with what stands behind it. */
const GATEWAY_FAULTS: ReadonlySet<number> = new Set([502, 503, 504]);
/** So much longer waits a request that is paid for, or whose method is not safe, to find out, milliseconds. */
const PATIENCE_MS = 5_000;

export interface BackendTargetOptions {
  /** Of the backend. */
  readonly upstream: string;
  /** Host and port. */
  readonly name: string;
  readonly weight: number;
  readonly engine: TargetEngine;
  readonly meter: TargetMeter;
  readonly logger: Logger;
  readonly check: Pick<HealthCheckOptions, "up" | "down">;
  /** Milliseconds that only grow. */
  readonly now: () => number;
  /** Whether it can be done without for bad answers alone. */
  readonly mayEject: () => boolean;
  /** Called when {@link BackendTarget.state} has changed. */
  readonly onChange: () => void;
}

export class BackendTarget implements Weighted {
  readonly name: string;
  readonly weight: number;
  readonly engine: TargetEngine;
  credit = 0;
  readonly #options: BackendTargetOptions;
  readonly #ejection: Ejection;
  readonly #checked: CheckedState;
  #state: MemberState = "up";
  #cause = "";

  constructor(options: BackendTargetOptions) {
    this.#options = options;
    this.name = options.name;
    this.weight = options.weight;
    this.engine = options.engine;
    this.#ejection = new Ejection(options.now);
    this.#checked = new CheckedState(options.check);
    this.engine.health.watch(() => this.#update("its connections fail"));
  }

  get state(): MemberState {
    return this.#state;
  }

  get active(): number {
    return this.engine.active;
  }

  /**
   * Whether a request may find out how a target that is not up is doing, while others are.
   * @param isHarmless nobody paid, and it may be sent twice
   */
  mayReturn(isHarmless: boolean): boolean {
    if (this.#checked.isDown) return false;
    const patienceMs = isHarmless ? 0 : PATIENCE_MS;
    const { health } = this.engine;
    return health.isDown ? health.mayReturn(patienceMs) : this.#ejection.mayReturn(patienceMs);
  }

  /** Whether checks, and not requests, find out about it. */
  get isHeldByChecks(): boolean {
    return this.#checked.isDown;
  }

  /** After each exchange. */
  note(delivery: Delivery): void {
    const result = resultOf(delivery);
    this.#options.meter.count(result);
    if (result === "answered") {
      if (this.#ejection.answered()) this.#update("");
    } else if (isFault(result) && this.#ejection.faulted() && this.#options.mayEject()) {
      this.#ejection.eject();
      this.#update(`it answers badly (${result})`);
    }
  }

  async close(signal: AbortSignal): Promise<void> {
    await this.engine.close(signal);
    this.#options.meter.retire();
  }

  /** After each active check. */
  check(finding: HealthFinding): void {
    const isGood = finding === null;
    this.#options.meter.checked(isGood);
    const isChanged = this.#checked.note(isGood);
    // The check has just made a connection.
    if (isGood && !this.#checked.isDown) this.engine.health.succeeded();
    if (isChanged) this.#update(`it ${finding ?? "is well"}`);
  }

  #update(cause: string): void {
    const isDown = this.engine.health.isDown || this.#checked.isDown;
    const state = isDown ? "down" : this.#ejection.isOut ? "ejected" : "up";
    if (state === this.#state) return;
    const before = this.#state;
    this.#state = state;
    if (state !== "up") this.#cause = cause;
    const { upstream, name, logger, meter } = this.#options;
    const facts = { upstream, target: name, state, before, cause: this.#cause };
    if (state === "up") logger.info(facts, "a target is up again");
    else logger.warn(facts, "a target gets no more requests than it takes to find out how it is");
    if (state !== "up") meter.left(state);
    this.#options.onChange();
  }
}

function resultOf(delivery: Delivery): TargetResult {
  switch (delivery.kind) {
    case "delivered":
      return GATEWAY_FAULTS.has(delivery.status) ? "gateway-error" : "answered";
    case "redirected":
      return "answered";
    case "abandoned":
      return delivery.isUnread === true ? "unread" : "abandoned";
    case "broken":
      return "broken";
    case "unanswered":
      switch (delivery.reason) {
        case "connect":
        case "timeout":
        case "broken":
        case "malformed":
          return delivery.reason;
        case "declined":
          return "gateway-error";
        default:
          return "refused";
      }
  }
}

/** Connections are counted by the engine, which sees each of them. */
function isFault(result: TargetResult): boolean {
  return (
    result === "gateway-error" ||
    result === "timeout" ||
    result === "broken" ||
    result === "malformed"
  );
}
