/** Workers without processes: paywalls whose payment services are at the other end of a channel, before one real ledger. */
import { onTestFinished } from "vitest";
import { Paywall } from "../../../src/payments/sale/paywall.ts";
import { LocalPaymentService } from "../../../src/payments/sale/payment-service.ts";
import type { Ledger, WorkerLife } from "../../../src/ledger/ledger.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite/sqlite.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { systemTime } from "../../../src/time/time.ts";
import { Channel } from "../../../src/workers/channel.ts";
import { WorkerSession } from "../../../src/workers/worker-session.ts";
import { RemotePots } from "../../../src/workers/remote-pots.ts";
import { RemotePaymentService } from "../../../src/workers/remote-payment-service.ts";
import { Owing } from "../../../src/payments/sale/owing.ts";
import { UnpaidWorks } from "../../../src/payments/sale/unpaid-work.ts";
import { SaleGuard, type SaleRules } from "../../../src/payments/sale/sale-guard.ts";
import { ActedFacilitator, ALL_SOLD } from "../payments/sale/paywall-stage.ts";
import { portPair } from "./port-pair.ts";

const SETTLEMENT_WAIT_MS = 5_000;

export interface StagedWorker {
  readonly paywall: Paywall;
  readonly payments: RemotePaymentService;
  readonly pots: RemotePots;
  /** As kill -9 does: nothing more is said. Resolves when what it held is free. */
  die(): Promise<void>;
}

export interface WorkersStage {
  readonly ledger: Ledger;
  readonly facilitator: ActedFacilitator;
  readonly worker: (name: string) => StagedWorker;
}

/** What is stored for a worker only behind another event: a step of that kind, or that what it held is free. */
type Slow = Readonly<Record<string, Promise<void>>>;

/**
 * @param rules default: all is sold to everybody
 * @param notice as of {@link Owing}
 */
export async function workersStage(
  rules: Partial<SaleRules> = {},
  slow: Slow = {},
  notice?: () => Promise<unknown>,
): Promise<WorkersStage> {
  const time = systemTime;
  const ledger = await openSqliteLedger({ path: ":memory:", time, life: "first" });
  const facilitator = new ActedFacilitator(ledger);
  const logger = createLogger({ level: "silent", format: "json" });
  const guard = new SaleGuard({ ledger, rules: { ...ALL_SOLD, ...rules }, logger, time });
  const works = new UnpaidWorks(time);
  const owing = new Owing(time, notice);
  const closing = new AbortController();
  onTestFinished(async () => {
    closing.abort();
    await ledger.close();
  });
  return {
    ledger,
    facilitator,
    worker: (name) => {
      const life = slowed(ledger.worker(name), slow);
      const desk = new WorkerSession({
        life,
        payments: new LocalPaymentService({
          facilitator,
          redemptions: life,
          guard,
          owing,
          works,
          logger,
          time,
        }),
        settlementWaitMs: SETTLEMENT_WAIT_MS,
        logger,
        time,
        closing: closing.signal,
      });
      const [near, far] = portPair();
      const here = new Channel(far, { serves: desk.serves, time });
      const there = new Channel(near, { serves: {}, time });
      const payments = new RemotePaymentService(there, SETTLEMENT_WAIT_MS);
      onTestFinished(() => there.close());
      return {
        payments,
        pots: new RemotePots(there),
        paywall: new Paywall({ payments, logger, settlementWaitMs: SETTLEMENT_WAIT_MS, time }),
        async die() {
          here.close();
          await here.closed;
          await desk.close();
        },
      };
    },
  };
}

function slowed(life: WorkerLife, slow: Slow): WorkerLife {
  return new Proxy(life, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      if (name !== "step" && name !== "end") return member.bind(target);
      return async (...words: readonly unknown[]): Promise<unknown> => {
        await slow[name === "end" ? name : String(Object(words[1]).kind)];
        return Reflect.apply(member, target, words);
      };
    },
  });
}
