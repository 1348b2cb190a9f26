/**
 * The operator of a simulated world, who pays back what is unspent, and the chain that moves his transfers: some at once, some
 * when it was long asked, and some never, which it says for certain.
 */
import type { Ledger, OpenRefund, RefundStep } from "../../../src/ledger/ledger.ts";
import { openRefundOf } from "../../../src/ledger/refunds.ts";
import { readPaymentRow } from "../../../src/ledger/payment-row.ts";
import type { SqliteDatabase } from "../../../src/ledger/sqlite/sqlite-database.ts";
import { ROW_COLUMNS } from "../../../src/ledger/sqlite/sqlite-rows.ts";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";
import { examplePayment } from "../../unit/ledger/example-payment.ts";
import type { Random } from "../random.ts";

const BY = "operator";
/** More than all worlds pay back on their day. */
const MOST = 10n ** 12n;
const ROUNDS = 100;
const ROUND_MS = 1_000;

interface Surroundings {
  readonly database: SqliteDatabase;
  readonly random: Random;
  /** Undefined while no process lives. */
  readonly ledger: () => Ledger | undefined;
  readonly tell: (what: string) => void;
}

export class RefundedCredits {
  /** Payments that were delivered once at least. */
  readonly bought = new Set<PaymentKey>();
  readonly #at: Surroundings;
  /** What the chain has moved, by the payment that it pays back and the number of the transfer. */
  readonly #chain = new Map<string, bigint>();
  /** Transfers of which the chain says that they can never be moved. */
  readonly #never = new Set<string>();

  constructor(at: Surroundings) {
    this.#at = at;
  }

  /** Transfers that the chain has moved. */
  get moved(): number {
    return this.#chain.size;
  }

  /** Some of some payment, be it free or not, twice at once now and then. */
  ask(): void {
    const { random, ledger } = this.#at;
    const key = [...this.bought][random.between(0, Math.max(0, this.bought.size - 1))];
    const open = ledger();
    if (key === undefined || open === undefined) return;
    const creditsAtomic = String(random.pick([1, 7, 20, 100, 100, 1_000]));
    const asked = { verb: "refund", note: "", by: BY, isSent: true, creditsAtomic } as const;
    for (let times = random.pick([1, 1, 2]); times > 0; times -= 1)
      void open.step(key, { kind: "resolve", resolution: asked }).catch(() => undefined);
  }

  /** One round of those who pay back: whatever it was told or not, the next one finds it in the ledger and on the chain. */
  async send(): Promise<void> {
    const ledger = this.#at.ledger();
    if (ledger === undefined) return;
    const steps = this.#open().map((refund) =>
      this.#advance(ledger, refund).catch(() => undefined),
    );
    await Promise.all(steps);
  }

  /** Nothing is asked for any more: what is under way ends, and what the chain has moved is what is paid back, each once. */
  async finish(pass: (ms: number) => Promise<void>): Promise<void> {
    for (let round = 0; round < ROUNDS && this.#open().length > 0; round += 1) {
      void this.send();
      await pass(ROUND_MS);
    }
    if (this.#open().length > 0) this.#at.tell("a refund has no end");
    const rows = this.#at.database.all(
      `SELECT ${ROW_COLUMNS} FROM payments WHERE refund_state = 'REFUNDED'`,
      [],
    );
    const told = new Map(
      rows.map((row) => [String(row.key), openRefundOf(readPaymentRow(row), keyOf(row))]),
    );
    for (const [name, amount] of this.#chain) {
      const [key = "", attempt] = name.split(" ");
      const refund = told.get(key);
      if (refund?.creditsAtomic !== amount || String(refund.attempt) !== attempt)
        this.#at.tell(
          `${key}: the chain has moved ${amount} in ${attempt}, the ledger tells ${refund?.creditsAtomic}`,
        );
      told.delete(key);
    }
    if (told.size > 0) this.#at.tell(`${told.size} are told as paid back, and were not moved`);
  }

  async #advance(ledger: Ledger, refund: OpenRefund): Promise<void> {
    const { random } = this.#at;
    const { key, attempt, amountAtomic, state } = refund;
    const step = (to: RefundStep) => ledger.step(key, { kind: "refund", to });
    if (state === "ASKED") {
      if (random.chance(0.1)) await step({ kind: "failed", attempt, detail: "over the day" });
      else await step(sending(attempt + 1, MOST));
      return;
    }
    const name = `${key} ${attempt}`;
    if (!this.#chain.has(name) && !this.#never.has(name)) {
      if (random.chance(0.3)) this.#chain.set(name, amountAtomic);
      else if (random.chance(0.2)) this.#never.add(name);
    }
    // Whoever has seen it may die before he says so.
    if (random.chance(0.3)) return;
    if (this.#chain.has(name)) await step({ kind: "refunded", attempt, transaction: `0x${name}` });
    else if (this.#never.has(name)) await step({ kind: "failed", attempt, detail: "never moved" });
  }

  #open(): readonly OpenRefund[] {
    const rows = this.#at.database.all(
      `SELECT ${ROW_COLUMNS} FROM payments WHERE refund_state IN ('ASKED', 'SENDING')`,
      [],
    );
    return rows.map((row) => openRefundOf(readPaymentRow(row), keyOf(row)));
  }
}

function keyOf(columns: Readonly<Record<string, unknown>>): PaymentKey {
  return String(columns["key"]) as PaymentKey;
}

function sending(attempt: number, maxAtomic: bigint): RefundStep {
  const { key, request } = examplePayment(900_000 + attempt);
  const transfer = { key, request, idempotencyKey: `back ${attempt}`, signedMs: 1 };
  return { kind: "sending", attempt, transfer, maxAtomic };
}
