/** Payments as they are kept outside of the ledger: one JSON line each, with everything that its books know. */
import { join } from "node:path";
import type { Config } from "../config/config.ts";
import type { PaymentDetail } from "../ledger/books.ts";
import type { Time } from "../time/time.ts";
import { LINE_BEGIN, LineFile } from "./line-file.ts";
import { detailOf, Tokens } from "../admin/payment-view.ts";

/** What is `payments --show --json`, but for the advice, in one line. */
export function archiveLine(payment: PaymentDetail, tokens: Tokens): string {
  const { advice: _advice, ...view } = detailOf(payment, "", tokens);
  const line = JSON.stringify(view);
  if (!line.startsWith(LINE_BEGIN)) throw new TypeError("a line begins with its key");
  return line;
}

/** A folder with a file for each month in which payments were swept (UTC): `payments-2026-08.jsonl`. */
export class Archive {
  readonly #folder: string;
  readonly #inForce: () => Config;
  readonly #time: Time;

  /** @param inForce says which tokens have which names when something is added */
  constructor(folder: string, inForce: () => Config, time: Time) {
    this.#folder = folder;
    this.#inForce = inForce;
    this.#time = time;
  }

  /** Resolves when they are there for good. Rejects with what the system says. */
  readonly add = async (payments: readonly PaymentDetail[]): Promise<void> => {
    const month = new Date(this.#time.now()).toISOString().slice(0, 7);
    const tokens = new Tokens(this.#inForce());
    const file = await LineFile.open(join(this.#folder, `payments-${month}.jsonl`));
    try {
      await file.append(payments.map((payment) => archiveLine(payment, tokens)));
    } finally {
      await file.close();
    }
  };
}
