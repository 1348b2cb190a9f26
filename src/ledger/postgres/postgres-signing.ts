/** What our accounts sign, in PostgreSQL, as one life asks for it. */
import type { PaymentKey } from "../../x402/payment-key.ts";
import type {
  Lease,
  Signing,
  StoredSubmission,
  StoredTransaction,
  SubmissionCost,
  SubmissionState,
} from "../ledger.ts";
import type { Moment } from "../machine.ts";
import type { Draws, Purse, Spend } from "../purse.ts";
import type { LeftAccount } from "../unattended.ts";
import { lease, unattended, unlease } from "./postgres-lives.ts";
import { readSpends } from "./postgres-purses.ts";
import type { PostgresGround } from "./postgres-redemptions.ts";
import {
  readHasSigned,
  readNextNonce,
  readUnfinished,
  storeConclusion,
  storeSigned,
  storeVariant,
} from "./postgres-submissions.ts";

export class PostgresSigning implements Signing {
  readonly #ground: PostgresGround;
  readonly #life: string;

  constructor(ground: PostgresGround, life: string) {
    this.#ground = ground;
    this.#life = life;
  }

  async lease(network: string, address: string): Promise<Lease | undefined> {
    return lease(this.#ground.database, { network, address }, this.#life);
  }

  async unlease(held: Lease): Promise<void> {
    await unlease(this.#ground.database, held, this.#life);
  }

  async signed(
    keys: readonly PaymentKey[],
    account: Lease & { readonly seed: number },
    sign: (accountNonce: number) => StoredTransaction,
    draws?: Draws,
  ): Promise<StoredSubmission> {
    return storeSigned(this.#ground.database, { keys, account, sign, draws }, this.#moment);
  }

  async replaced(held: Lease, submission: string, variant: StoredTransaction): Promise<void> {
    const wanted = { lease: held, id: submission, variant };
    await storeVariant(this.#ground.database, wanted, this.#moment);
  }

  async concluded(id: string, state: SubmissionState, cost?: SubmissionCost): Promise<void> {
    await storeConclusion(this.#ground.database, { id, state, cost }, this.#moment.nowMs);
  }

  async hasSigned(transaction: string): Promise<boolean> {
    return readHasSigned(this.#ground.database, transaction);
  }

  async unfinished(network: string, address: string): Promise<readonly StoredSubmission[]> {
    const { database, onUnreadable } = this.#ground;
    return readUnfinished(database, { network, address }, onUnreadable);
  }

  async unattended(): Promise<readonly LeftAccount[]> {
    return unattended(this.#ground.database, this.#life);
  }

  async nextAccountNonce(network: string, address: string): Promise<number | undefined> {
    return readNextNonce(this.#ground.database, network, address);
  }

  async spends(purse: Purse, settledAfterMs: number): Promise<readonly Spend[]> {
    return readSpends(this.#ground.database, purse, settledAfterMs);
  }

  get #moment(): Moment {
    return { life: this.#life, nowMs: this.#ground.time.now() };
  }
}
