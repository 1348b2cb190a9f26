/** A worker process' share in the ledger of the process that forked it. */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { Redemptions } from "./ledger.ts";

/**
 * The resource server's view for one life of a worker process. What it claims is busy for its siblings until it
 * is settled by the process; what it delivers is its own.
 */
export interface WorkerLife extends Redemptions {
  /**
   * The life is over: its claims are dropped and its deliveries broken, as {@link Ledger.reap} does for a
   * process. Not so the claims of `kept`, whose settlement goes on without a request. Resolves with the number of payments freed.
   */
  end(kept: ReadonlySet<PaymentKey>): Promise<number>;
}
