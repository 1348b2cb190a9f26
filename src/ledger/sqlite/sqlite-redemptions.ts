/** The resource server's view of the SQLite ledger, for one life: the process' own, or a worker's. */
import { samePayment, type PaymentKey } from "../../x402/payment-key.ts";
import type { PaymentPayload } from "../../x402/x402.ts";
import {
  MISNAMED,
  type BoughtSale,
  type HandedOver,
  type OutcomeOf,
  type OwedPayment,
  type Recalled,
  type RecalledSale,
  type Redemptions,
  type StoredResponse,
  type TransitionKind,
  type TransitionOf,
} from "../ledger.ts";
import { isMisnamed } from "../payment-judgement.ts";
import { handedOverOf, type PaymentRow } from "../payment-row.ts";
import type { PaidSale, SignInUse, SignInVerdict } from "../sign-ins.ts";
import type { SqliteCore } from "./sqlite-core.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import { SqlitePots } from "./sqlite-pots.ts";
import { usedElsewhere, type AskedFor } from "../used-elsewhere.ts";

export class SqliteRedemptions implements Redemptions {
  readonly pots: SqlitePots;
  readonly #core: SqliteCore;
  readonly #life: string;

  constructor(core: SqliteCore, database: SqliteDatabase, life: string) {
    this.pots = new SqlitePots(core, database, life);
    this.#core = core;
    this.#life = life;
  }

  async step<Kind extends TransitionKind>(
    key: PaymentKey,
    transition: TransitionOf<Kind>,
  ): Promise<OutcomeOf<Kind>> {
    return this.#core.step(key, this.#life, transition);
  }

  async recall(payment: PaymentPayload, sale: RecalledSale): Promise<Recalled> {
    const named = this.#core.named(sale.identifier);
    if (isMisnamed({ paymentPayload: payment }, sale, named)) return MISNAMED;
    const used = this.#core.recall(payment);
    const request = used.find(({ paymentPayload }) => samePayment(paymentPayload, payment));
    // Of a nonce that is known another signature proves nothing.
    return { request, owed: used.length === 0 ? this.#core.owed(payment, sale) : [] };
  }

  async changed(key: PaymentKey, version: number, signal: AbortSignal): Promise<void> {
    try {
      if (this.#core.read(key)?.version !== version) return;
    } catch {
      return;
    }
    await this.#core.wait(key, signal);
  }

  async answer(key: PaymentKey): Promise<StoredResponse | undefined> {
    return this.#core.answer(key);
  }

  async buried(keys: readonly PaymentKey[]): Promise<readonly PaymentKey[]> {
    return keys.filter((key) => this.#core.tombstone(key) !== undefined);
  }

  async bought(payer: string, sale: BoughtSale): Promise<readonly OwedPayment[]> {
    return this.#core.bought(payer, sale);
  }

  async purchases(payer: string, routes: readonly string[] | null): Promise<readonly PaidSale[]> {
    return this.#core.purchases(payer, routes);
  }

  async useSignIn(use: SignInUse): Promise<SignInVerdict> {
    return this.#core.useSignIn(use);
  }

  async noteUsedElsewhere(key: PaymentKey, asked: AskedFor): Promise<void> {
    return this.#core.noteUsedElsewhere(usedElsewhere(key, asked, this.#core.time.now()));
  }

  async handedOvers(limit: number): Promise<readonly HandedOver[]> {
    const where =
      "WHERE state = 'SIGNED' AND submission IS NULL AND facilitator IS NOT NULL AND held_transaction IS NULL";
    return this.#core.readable(`${where} ORDER BY updated_ms, rowid`, { limit }, readHandedOver);
  }

  async doubted(limit: number): Promise<readonly HandedOver[]> {
    const due = { limit, now: this.#core.time.now() };
    const where = "WHERE look_again_ms <= :now ORDER BY look_again_ms, rowid";
    return this.#core.readable(where, due, readHandedOver);
  }
}

function readHandedOver(
  row: PaymentRow,
  key: string,
  { updatedMs }: Readonly<Record<string, unknown>>,
): HandedOver {
  return handedOverOf(row, key as PaymentKey, Number(updatedMs));
}
