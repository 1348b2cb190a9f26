/** The resource server's view of the SQLite ledger, for one life: the process' own, or a worker's. */
import { samePayment, type PaymentKey } from "../x402/payment-key.ts";
import type { PaymentPayload } from "../x402/x402.ts";
import {
  MAX_STORED_BODY_BYTES,
  type BrokenDelivery,
  type ClaimOutcome,
  type ClaimTerms,
  type Collector,
  type Failing,
  type Fingerprint,
  type HandedOver,
  type Recalled,
  type Redemptions,
  type SaleTerms,
  type SettledPayment,
  type SoldAnswer,
  type StoredResponse,
} from "./ledger.ts";
import * as machine from "./machine.ts";
import { handedOverOf, type PaymentRow } from "./payment-row.ts";
import { hold } from "./resolution.ts";
import type { Judge, SqliteCore } from "./sqlite-core.ts";
import { claimBuried } from "./tombstone.ts";
import { usedElsewhere, type AskedFor } from "./used-elsewhere.ts";

/** Answers up to here may wait to be stored, bytes. */
const MAX_SOON_BODY_BYTES = 8 * 1024;

export class SqliteRedemptions implements Redemptions {
  readonly #core: SqliteCore;
  readonly #life: string;

  constructor(core: SqliteCore, life: string) {
    this.#core = core;
    this.#life = life;
  }

  async claim(key: PaymentKey, terms: ClaimTerms): Promise<ClaimOutcome> {
    return this.#stepSoon(key, (row, moment) => {
      const tombstone = row === undefined ? this.#core.tombstone(key) : undefined;
      if (tombstone !== undefined) return { outcome: claimBuried(tombstone) };
      return machine.claim(row, terms, moment);
    });
  }

  async recall(
    payment: PaymentPayload,
    sale: Pick<ClaimTerms, "binding" | "target">,
  ): Promise<Recalled> {
    const used = this.#core.recall(payment);
    const request = used.find(({ paymentPayload }) => samePayment(paymentPayload, payment));
    // Of a nonce that is known another signature proves nothing.
    return { request, owed: used.length === 0 ? this.#core.owed(payment, sale) : [] };
  }

  async leave(key: PaymentKey): Promise<void> {
    return this.#stepSoon(key, machine.leave);
  }

  async changed(key: PaymentKey, version: number, signal: AbortSignal): Promise<void> {
    try {
      if (this.#core.read(key)?.version !== version) return;
    } catch {
      return;
    }
    await this.#core.wait(key, signal);
  }

  async handedOver(
    key: PaymentKey,
    facilitator: string,
    head: number | null = null,
  ): Promise<void> {
    return this.#step(key, (row, moment) => machine.handOver(row, { facilitator, head }, moment));
  }

  async settled(key: PaymentKey, settlement: SettledPayment): Promise<void> {
    return this.#stepSoon(key, (row) => machine.settle(row, settlement));
  }

  async held(key: PaymentKey, transaction: string): Promise<void> {
    return this.#step(key, (row) => hold(row, transaction));
  }

  async failed(key: PaymentKey, failure: Failing): Promise<void> {
    return this.#step(key, (row, moment) => machine.fail(row, failure, moment));
  }

  async released(key: PaymentKey): Promise<void> {
    return this.#stepSoon(key, machine.release);
  }

  async delivering(key: PaymentKey, sale?: SaleTerms): Promise<boolean> {
    return this.#step(key, (row, moment) => machine.deliver(row, sale ?? null, moment));
  }

  async delivered(key: PaymentKey, sold?: SoldAnswer): Promise<void> {
    const kept = sold && sold.response.body.byteLength <= MAX_STORED_BODY_BYTES ? sold : null;
    const judge: Judge<void> = (row, moment) => machine.delivered(row, kept, moment);
    const response = kept?.response;
    const isSmall = (response?.body.byteLength ?? 0) <= MAX_SOON_BODY_BYTES;
    return isSmall
      ? this.#core.stepSoon(key, this.#life, judge, response)
      : this.#core.step(key, this.#life, judge, response);
  }

  async undelivered(key: PaymentKey, broken: BrokenDelivery): Promise<void> {
    // Seen at once by the buyer's next request; a crash undoes it to what its death makes of the delivery.
    return this.#stepSoon(key, (row, moment) => machine.undelivered(row, broken, moment));
  }

  async replay(
    key: PaymentKey,
    asked: Fingerprint & Collector,
  ): Promise<StoredResponse | undefined> {
    return this.#core.write(() => {
      const response = this.#core.answer(key);
      if (response === undefined) return undefined;
      const { outcome } = this.#take(key, (row, moment) => machine.replay(row, asked, moment));
      return outcome ? response : undefined;
    });
  }

  async collected(key: PaymentKey): Promise<void> {
    return this.#stepSoon(key, machine.collected);
  }

  async unread(key: PaymentKey): Promise<void> {
    return this.#stepSoon(key, machine.unread);
  }

  async buried(keys: readonly PaymentKey[]): Promise<readonly PaymentKey[]> {
    return keys.filter((key) => this.#core.tombstone(key) !== undefined);
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

  async lookedAgain(key: PaymentKey, nextMs: number | null): Promise<void> {
    return this.#stepSoon(key, (row) => machine.lookAgain(row, nextMs));
  }

  #step<Outcome>(key: PaymentKey, judge: Judge<Outcome>): Promise<Outcome> {
    return this.#core.step(key, this.#life, judge);
  }

  #stepSoon<Outcome>(key: PaymentKey, judge: Judge<Outcome>): Promise<Outcome> {
    return this.#core.stepSoon(key, this.#life, judge);
  }

  #take<Outcome>(key: PaymentKey, judge: Judge<Outcome>): machine.Step<Outcome> {
    return this.#core.take(key, this.#life, judge);
  }
}

function readHandedOver(
  row: PaymentRow,
  key: string,
  { updatedMs }: Readonly<Record<string, unknown>>,
): HandedOver {
  return handedOverOf(row, key as PaymentKey, Number(updatedMs));
}
