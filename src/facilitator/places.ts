/**
 * Whose payments may be in the air, where each may burn our gas. Until it is decided a payment counts as
 * the failure that it may become: code of payers' runs in few of the places, once for each payer, and a payer
 * whom nobody knows has no more in the air than he may fail. A payment takes its place when it is handed to
 * a lane and has it until a block holds it well, or it is not to be signed.
 */
import type { AccountRules } from "../mechanism/mechanism.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Time } from "../time/time.ts";
import type { PaymentKey } from "../x402/payment-key.ts";
import { BatchPause } from "./batch-pause.ts";
import { MAX_FAILURES, type FailureBudget } from "./failure-budget.ts";
import type { Ending, Settling } from "./flight.ts";
import type { RevertedGas } from "./reverted-gas.ts";

/**
 * Of the transactions that one account may have in the air, the part for code of payers', on all accounts together;
 * and as much for payers whose payments did not move lately.
 */
const CODE_SHARE = 1 / 4;
/** Payers of whom it is known how often they paid, at most; the one that paid longest ago is forgotten first. */
const MAX_KNOWN = 10_000;

export interface PlacesOptions {
  readonly network: string;
  readonly rules: Pick<AccountRules, "isOrdered" | "maxOpen">;
  readonly budget: FailureBudget;
  readonly revertedGas: RevertedGas;
  readonly telemetry: Telemetry;
  readonly time: Pick<Time, "now">;
}

type Placed = Pick<Settling, "key" | "runsCode"> & { readonly checked: { readonly payer: string } };

export class Places {
  readonly #at: PlacesOptions;
  readonly #maxCode: number;
  readonly #batchPause: BatchPause;
  readonly #taken = new Map<PaymentKey, Placed>();
  /** How many of them each payer has. */
  readonly #byPayer = new Map<string, number>();
  #code = 0;
  /** Those of payers whose payments did not move lately. */
  readonly #doubtful = new Set<PaymentKey>();
  /** How often a payer has paid. */
  readonly #paid = new Map<string, number>();

  constructor(options: PlacesOptions) {
    this.#at = options;
    this.#maxCode = Math.max(1, Math.floor(options.rules.maxOpen * CODE_SHARE));
    this.#batchPause = new BatchPause(options.time);
  }

  /** Whether payments go alone for now. */
  get isBatchingPaused(): boolean {
    return this.#batchPause.isOn;
  }

  /** Whether there is a place for it now. */
  admits({ runsCode, checked: { payer } }: Placed): boolean {
    const undecided = this.#byPayer.get(payer) ?? 0;
    if (runsCode) return undecided === 0 && this.#code < this.#maxCode;
    // Where each transaction stands alone it takes nobody's place, and costs little.
    if (!this.#at.rules.isOrdered) return true;
    const { budget } = this.#at;
    if (budget.isSuspect(payer) && this.#doubtful.size >= this.#maxCode) return false;
    const failures = budget.failures(payer);
    return undecided + failures < MAX_FAILURES + (this.#paid.get(payer) ?? 0);
  }

  take(items: readonly Placed[]): void {
    for (const item of items) {
      this.#taken.set(item.key, item);
      if (this.#at.budget.isSuspect(item.checked.payer)) this.#doubtful.add(item.key);
      this.#count(item, 1);
    }
  }

  /** They cannot burn anything any more, or are not signed. Those without a place have none to lose. */
  release(keys: readonly PaymentKey[]): void {
    for (const key of keys) {
      const item = this.#taken.get(key);
      if (item === undefined) continue;
      this.#taken.delete(key);
      this.#doubtful.delete(key);
      this.#count(item, -1);
    }
  }

  landed(key: PaymentKey, ending: Ending): void {
    this.release([key]);
    if (ending.kind === "settled") this.#notePaid(ending.settlement.payer);
  }

  /** Its payment was in a block and did not move; what it paid before counts for nothing now. */
  failedOnChain(payer: string, hasCode: boolean): void {
    this.#paid.delete(payer);
    this.#at.budget.failedOnChain(payer, hasCode);
  }

  /** A transaction with so many payments was reverted as a whole. */
  reverted(gas: bigint, payments: number): void {
    const { network, revertedGas, telemetry } = this.#at;
    const { metrics, logger } = telemetry;
    metrics.networks.reverted(network, Number(gas));
    const pauseMs = payments > 1 ? this.#batchPause.reverted() : undefined;
    if (pauseMs !== undefined) {
      metrics.networks.paused(network, "batches");
      const facts = { network, payments, gas: Number(gas), pauseMs };
      logger.error(facts, "payments were reverted together; they go alone for a while");
    }
    if (!revertedGas.burnt(Number(gas))) return;
    metrics.networks.paused(network, "smart-wallets");
    const said =
      "reverted transactions burn too much gas; payers with code are refused for a while";
    logger.error({ network }, said);
  }

  #notePaid(payer: string): void {
    const times = (this.#paid.get(payer) ?? 0) + 1;
    // Set anew, so that the map is in the order of the last payment.
    this.#paid.delete(payer);
    this.#paid.set(payer, times);
    if (this.#paid.size <= MAX_KNOWN) return;
    const [oldest] = this.#paid.keys();
    if (oldest !== undefined) this.#paid.delete(oldest);
  }

  #count({ runsCode, checked: { payer } }: Placed, change: 1 | -1): void {
    const left = (this.#byPayer.get(payer) ?? 0) + change;
    if (left > 0) this.#byPayer.set(payer, left);
    else this.#byPayer.delete(payer);
    if (runsCode) this.#code += change;
  }
}
