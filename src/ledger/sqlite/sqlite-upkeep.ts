/** What is done beside the sales, in SQLite. */
import type { Books } from "../books.ts";
import type { ForgetStep, ForgottenInStep } from "../forgetting.ts";
import type { Swept, SweepStep } from "../sweep.ts";
import type { Upkeep } from "../upkeep.ts";
import type { SqliteCore } from "./sqlite-core.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import { forgetPayer } from "./sqlite-forgetting.ts";
import { reapOthers } from "./sqlite-reaping.ts";
import { SqliteResolutions } from "./sqlite-resolutions.ts";
import { sweepOnce } from "./sqlite-sweep.ts";

interface Ground {
  readonly core: SqliteCore;
  readonly database: SqliteDatabase;
  readonly books: Books;
}

export class SqliteUpkeep implements Upkeep {
  readonly #ground: Ground;
  readonly #life: string;
  readonly #resolutions: SqliteResolutions;

  constructor(ground: Ground, life: string) {
    this.#ground = ground;
    this.#life = life;
    this.#resolutions = new SqliteResolutions(ground.database, ground.core, life);
  }

  async resolveAsked(): Promise<number> {
    return this.#resolutions.answer();
  }

  async reap(): Promise<number> {
    await this.#ground.core.forgetOld();
    return reapOthers(this.#ground, this.#life);
  }

  async sweep(step: SweepStep): Promise<Swept> {
    return sweepOnce(this.#ground, this.#life, step);
  }

  async forget(step: ForgetStep): Promise<ForgottenInStep> {
    return this.#ground.core.write(() => forgetPayer(this.#ground, this.#life, step));
  }
}
