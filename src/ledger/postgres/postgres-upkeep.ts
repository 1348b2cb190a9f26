/** What is done beside the sales, in PostgreSQL. */
import type { ForgetStep, ForgottenInStep } from "../forgetting.ts";
import type { Swept, SweepStep } from "../sweep.ts";
import type { Upkeep } from "../upkeep.ts";
import { forgetBudgets } from "./postgres-budgets.ts";
import { forgetPayer } from "./postgres-forgetting.ts";
import { deadHolders, reapPayments } from "./postgres-lives.ts";
import { forgetResponses } from "./postgres-payments.ts";
import { returnLeases, tidyPots } from "./postgres-pots.ts";
import type { PostgresGround } from "./postgres-redemptions.ts";
import { sweepOnce } from "./postgres-sweep.ts";

export class PostgresUpkeep implements Upkeep {
  readonly #ground: PostgresGround;
  readonly #life: string;

  constructor(ground: PostgresGround, life: string) {
    this.#ground = ground;
    this.#life = life;
  }

  /** Operators write to the database themselves. */
  async resolveAsked(): Promise<number> {
    return 0;
  }

  async reap(): Promise<number> {
    const { database, time, onUnreadable } = this.#ground;
    const moment = { life: this.#life, nowMs: time.now() };
    await returnLeases(database, await deadHolders(database, this.#life));
    const freed = await reapPayments(database, moment, onUnreadable);
    await forgetResponses(database, moment.nowMs);
    await forgetBudgets(database, moment.nowMs);
    await tidyPots(database, moment.nowMs);
    return freed;
  }

  async sweep(step: SweepStep): Promise<Swept> {
    const { database, time, onUnreadable } = this.#ground;
    return sweepOnce(database, { ...step, nowMs: time.now() }, onUnreadable);
  }

  async forget(step: ForgetStep): Promise<ForgottenInStep> {
    const { database, time } = this.#ground;
    return forgetPayer(database, { ...step, nowMs: time.now() });
  }
}
