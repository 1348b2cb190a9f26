/** The resource server's view of the SQLite ledger, for one life: the process' own, or a worker's. */
import { samePayment, type PaymentKey } from "../../x402/payment-key.ts";
import type { PaymentPayload } from "../../x402/x402.ts";
import {
  MISNAMED,
  type OutcomeOf,
  type Recalled,
  type RecalledSale,
  type Redemptions,
  type StoredResponse,
  type TransitionKind,
  type TransitionOf,
} from "../ledger.ts";
import { isMisnamed } from "../payment-judgement.ts";
import type { SqliteCore } from "./sqlite-core.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import { SqlitePots } from "./sqlite-pots.ts";
import { usedElsewhere, type AskedFor } from "../used-elsewhere.ts";
import { SqliteSignIns } from "./sqlite-sign-ins.ts";
import type { SignInRecords } from "../sign-ins.ts";

export class SqliteRedemptions implements Redemptions {
  readonly pots: SqlitePots;
  readonly signIns: SignInRecords;
  readonly #core: SqliteCore;
  readonly #life: string;

  constructor(core: SqliteCore, database: SqliteDatabase, life: string) {
    this.pots = new SqlitePots(core, database, life);
    this.signIns = new SqliteSignIns(core, database);
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

  async noteUsedElsewhere(key: PaymentKey, asked: AskedFor): Promise<void> {
    return this.#core.noteUsedElsewhere(usedElsewhere(key, asked, this.#core.time.now()));
  }
}
