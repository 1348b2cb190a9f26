/**
 * Whose payments may be in the air, where each may burn our gas. Until it is decided a payment counts as
 * the failure that it may become: code of payers' runs in few of the places, once for each payer, and a payer
 * whom nobody knows has no more in the air than he may fail. A payment takes its place when it is handed to
 * a sender and has it until a block holds it well, or it is not to be signed.
 */
import { LRUCache } from "lru-cache";
import type { AccountRules } from "../../mechanism/mechanism.ts";
import type { Telemetry } from "../../telemetry/telemetry.ts";
import type { Time } from "../../time/time.ts";
import { Counts } from "../../fairness/counts.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import type { Refusal } from "../../x402/result.ts";
import { BatchPause } from "./batch-pause.ts";
import { MAX_FAILURES, type FailureBudget } from "./failure-budget.ts";
import type { Ending, PendingPayment } from "./pending-payment.ts";
import { NewPayers } from "./new-payers.ts";
import type { RevertedGas } from "./reverted-gas.ts";

/**
 * Of the transactions that one account may have in the air, the part for code of payers', on all accounts together;
 * and as much for payers whose payments did not move lately, and for new ones over their brim.
 */
const CODE_SHARE = 1 / 4;
/** Payers of whom it is known how often they paid, at most; the one that paid longest ago is forgotten first. */
const MAX_KNOWN = 10_000;

/** Why one is not signed that had to wait for its place for too long, or found too many waiting. */
const CROWDED: Refusal = {
  code: "invalid_transaction_state",
  detail: "too many payments of smart wallets are under way; try again later",
};
const CROWDED_NEW: Refusal = {
  code: "invalid_transaction_state",
  detail:
    "too many payments of payers who have not paid here before did not move, or are under way; " +
    "try again in a minute",
};

export interface PlacesOptions {
  readonly network: string;
  readonly rules: Pick<AccountRules, "isOrdered" | "maxOpen">;
  readonly budget: FailureBudget;
  readonly revertedGas: RevertedGas;
  readonly telemetry: Telemetry;
  readonly time: Pick<Time, "now">;
}

type Placed = Pick<PendingPayment, "key"> & {
  readonly checked: Pick<PendingPayment["checked"], "payer" | "runsCode">;
};

export class Places {
  readonly #at: PlacesOptions;
  readonly #maxCode: number;
  readonly #batchPause: BatchPause;
  readonly #taken = new Map<PaymentKey, Placed>();
  /** How many of them each payer has. */
  readonly #byPayer = new Counts();
  #code = 0;
  /** Those of payers whose payments did not move lately. */
  readonly #doubtful = new Set<PaymentKey>();
  readonly #newPayers: NewPayers;
  /** How often a payer has paid. */
  readonly #paid = new LRUCache<string, number>({ max: MAX_KNOWN });

  constructor(options: PlacesOptions) {
    this.#at = options;
    this.#maxCode = Math.max(1, Math.floor(options.rules.maxOpen * CODE_SHARE));
    this.#batchPause = new BatchPause(options.time);
    this.#newPayers = new NewPayers(this.#maxCode, options.time);
  }

  /** Whether payments go alone for now. */
  get isBatchingPaused(): boolean {
    return this.#batchPause.isOn;
  }

  /** Whether there is a place for it now, `beside` others that none is taken for yet. */
  admits({ checked: { payer, runsCode } }: Placed, beside: readonly Placed[] = []): boolean {
    const countBeside = (isCounted: (payer: string) => boolean): number =>
      beside.filter(({ checked }) => isCounted(checked.payer)).length;
    const undecided = this.#byPayer.of(payer) + countBeside((other) => other === payer);
    if (runsCode) return undecided === 0 && this.#code < this.#maxCode;
    // Where each transaction stands alone it takes nobody's place, and costs little.
    if (!this.#at.rules.isOrdered) return true;
    const { budget } = this.#at;
    if (budget.isSuspect(payer) && this.#doubtful.size >= this.#maxCode) return false;
    const isNew = (each: string): boolean => !this.#paid.has(each);
    if (isNew(payer) && !this.#newPayers.admits(countBeside(isNew))) return false;
    const failures = budget.failures(payer);
    return undecided + failures < MAX_FAILURES + (this.#paid.peek(payer) ?? 0);
  }

  /** Where it may wait in vain for its place: why it is not signed then. */
  crowding({ checked: { payer, runsCode } }: Placed): Refusal | undefined {
    if (runsCode) return CROWDED;
    return this.#newPayers.areFew && !this.#paid.has(payer) ? CROWDED_NEW : undefined;
  }

  /** One that has a place keeps just that one. */
  take(items: readonly Placed[]): void {
    for (const item of items) {
      this.release([item.key]);
      const { payer, runsCode } = item.checked;
      this.#taken.set(item.key, item);
      if (this.#at.budget.isSuspect(payer)) this.#doubtful.add(item.key);
      if (!runsCode && !this.#paid.has(payer)) this.#newPayers.take(item.key);
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
      this.#newPayers.release(key);
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

  /** A transaction with these payments was reverted as a whole. */
  reverted(gas: bigint, keys: readonly PaymentKey[]): void {
    const { network, revertedGas, telemetry } = this.#at;
    const { metrics, logger } = telemetry;
    const payments = keys.length;
    metrics.networks.reverted(network, Number(gas));
    // A batch that fails as a whole is one payer's doing: that is bounded by the pauses.
    if (payments === 1) this.#lost(keys, Number(gas));
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

  /** In a block with others, which they did not keep from moving; the gas is what they took of it. */
  leftBehind(gas: bigint, keys: readonly PaymentKey[]): void {
    this.#at.telemetry.metrics.networks.reverted(this.#at.network, Number(gas));
    this.#lost(keys, Number(gas));
    this.release(keys);
  }

  #lost(keys: readonly PaymentKey[], gas: number): void {
    const { network, telemetry } = this.#at;
    const opens = keys.map((key) => this.#newPayers.lost(key, gas / keys.length));
    if (!opens.includes(true)) return;
    telemetry.metrics.networks.paused(network, "new-payers");
    const said =
      "payments of new payers burn too much gas without moving; few of them are signed for a while";
    telemetry.logger.error({ network }, said);
  }

  #notePaid(payer: string): void {
    this.#paid.set(payer, (this.#paid.get(payer) ?? 0) + 1);
  }

  #count({ checked: { payer, runsCode } }: Placed, change: 1 | -1): void {
    this.#byPayer.change(payer, change);
    if (runsCode) this.#code += change;
  }
}
