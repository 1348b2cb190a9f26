/** What our accounts sign, in SQLite: an account nonce is allocated, signed for and stored in one transaction. */
import type { PaymentKey } from "../../x402/payment-key.ts";
import {
  LedgerConflict,
  type Lease,
  type Signing,
  type StoredSubmission,
  type StoredTransaction,
  type SubmissionCost,
  type SubmissionState,
} from "../ledger.ts";
import * as machine from "../machine.ts";
import {
  earliestUnseen,
  LedgerOverdraft,
  overdrawn,
  type Draws,
  type Purse,
  type Spend,
} from "../purse.ts";
import { firstSubmission, requireSignedFor, submittedOf } from "../submission-row.ts";
import type { LeftAccount } from "../unattended.ts";
import type { SqliteCore } from "./sqlite-core.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import { boundSpends, readSpends } from "./sqlite-purses.ts";
import { SqliteSubmissions } from "./sqlite-submissions.ts";

export class SqliteSigning implements Signing {
  readonly #core: SqliteCore;
  readonly #database: SqliteDatabase;
  readonly #life: string;
  readonly #submissions: SqliteSubmissions;

  constructor(
    { core, database }: { readonly core: SqliteCore; readonly database: SqliteDatabase },
    life: string,
  ) {
    this.#core = core;
    this.#database = database;
    this.#life = life;
    this.#submissions = new SqliteSubmissions(database, core, life);
  }

  async lease(network: string, address: string): Promise<Lease | undefined> {
    return this.#core.write(() => this.#submissions.lease(network, address));
  }

  async unlease(lease: Lease): Promise<void> {
    return this.#core.write(() => this.#submissions.unlease(lease));
  }

  async signed(
    keys: readonly PaymentKey[],
    account: Lease & { readonly seed: number },
    sign: (accountNonce: number) => StoredTransaction,
    draws?: Draws,
  ): Promise<StoredSubmission> {
    const stored = await this.#core.write(() => {
      // Told to the caller, not thrown here: others of the same batch go on.
      const over = draws === undefined ? [] : this.#overdrawn(draws);
      if (over.length > 0) return new LedgerOverdraft(over);
      const nonce = this.#submissions.allocate(account);
      // Judged before anything is signed, and once more with the submission that they are in.
      for (const key of keys) this.#requireSignable(key, account.network);
      const variant = sign(nonce);
      requireSignedFor(variant, account.address, nonce);
      const submission = firstSubmission(account.network, variant, this.#core.time.now());
      this.#submissions.insert(submission);
      const payments = keys.map((key) => {
        const { next } = this.#core.take(key, this.#life, (row, moment) =>
          machine.sign(row, submission.id, moment),
        );
        if (!next) throw new TypeError("a signed payment has a row");
        return submittedOf(next, key);
      });
      return { ...submission, payments };
    });
    if (stored instanceof LedgerOverdraft) throw stored;
    return stored;
  }

  async replaced(lease: Lease, submission: string, variant: StoredTransaction): Promise<void> {
    return this.#core.write(() => {
      this.#submissions.requireLease(lease);
      this.#submissions.replace(lease, submission, variant, this.#core.time.now());
    });
  }

  async concluded(
    submission: string,
    state: SubmissionState,
    cost?: SubmissionCost,
  ): Promise<void> {
    return this.#core.writeLater(() => {
      // Nobody looks for the payments of what is concluded: what they have come to is stored with it.
      this.#core.storeSubmission(submission);
      this.#submissions.conclude(submission, state, cost);
    });
  }

  async hasSigned(transaction: string): Promise<boolean> {
    return this.#submissions.hasSigned(transaction);
  }

  async unfinished(network: string, address: string): Promise<readonly StoredSubmission[]> {
    return this.#submissions.unfinished(network, address, this.#core.onUnreadable);
  }

  async unattended(): Promise<readonly LeftAccount[]> {
    return this.#submissions.unattended();
  }

  async nextAccountNonce(network: string, address: string): Promise<number | undefined> {
    return this.#submissions.nextNonce(network, address);
  }

  async spends(purse: Purse, settledAfterMs: number): Promise<readonly Spend[]> {
    this.#core.storeNow();
    return readSpends(this.#database, purse, settledAfterMs);
  }

  #overdrawn(draws: Draws): readonly PaymentKey[] {
    const sinceMs = earliestUnseen(draws);
    const roughly = overdrawn(draws, (purse) => [boundSpends(this.#database, purse, sinceMs)]);
    if (roughly.length === 0) return [];
    return overdrawn(draws, (purse) => readSpends(this.#database, purse, sinceMs));
  }

  #requireSignable(key: PaymentKey, network: string): void {
    const row = this.#core.read(key);
    machine.sign(row, "", { life: this.#life, nowMs: this.#core.time.now() });
    if (row?.network === network) return;
    throw new LedgerConflict(`a payment on ${row?.network} cannot be signed for ${network}`);
  }
}
