/** Whether, of what, and to whom the operator's page of recent requests is shown. */
import { PaymentsListener } from "../admin/payments.ts";
import type { AdminSettings } from "../config/config.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { Timeline } from "../telemetry/timeline.ts";
import type { Time } from "../time/time.ts";
import type { WorkerPool } from "../workers/worker-pool.ts";
import type { SettlementProcess } from "./settlement-process.ts";
import { TimelinePages } from "../admin/payments-pages.ts";
import { Tokens } from "../admin/payment-view.ts";
import type { Parts } from "./server.ts";
import { PaymentTimeline, type TimelineSource } from "../admin/timeline.ts";

/** Requests are remembered where somebody can look at them. */
export function createTimeline(admin: AdminSettings | null, time: Time): Timeline | undefined {
  return admin?.timeline === true ? new Timeline(() => time.now()) : undefined;
}

/** What is there once every listener is open. */
interface Served {
  readonly money: Pick<SettlementProcess, "sales" | "stopped">;
  readonly pool: WorkerPool | undefined;
}

export class PaymentsPageAccess {
  /** Undefined where it is shown to nobody. */
  readonly payments: PaymentsListener | undefined;
  /** Names by which the operator's listener is asked. */
  readonly hosts: readonly string[];
  readonly #pages: TimelinePages | undefined;

  constructor(parts: Parts, { books }: Pick<Ledger, "books">, serving: () => Served | undefined) {
    const { config, telemetry, time } = parts;
    const { logger, timeline: own } = telemetry;
    this.hosts = config.admin?.hosts ?? [];
    if (config.admin === null || own === undefined) return;
    const sources = (): readonly TimelineSource[] => {
      return [{ key: own, read: async (after) => own.read(after) }, ...workersOf(serving())];
    };
    let known = { config, tokens: new Tokens(config) };
    const tokens = (): Tokens => {
      const now = serving()?.money.sales.config ?? config;
      if (now !== known.config) known = { config: now, tokens: new Tokens(now) };
      return known.tokens;
    };
    const timeline = new PaymentTimeline({ sources, books, tokens, now: () => time.now() });
    const pages = new TimelinePages({
      timeline,
      stopped: () => serving()?.money.stopped() ?? [],
      time,
      logger,
    });
    this.#pages = pages;
    this.payments = new PaymentsListener(() => (serving() === undefined ? undefined : pages));
  }

  /** Browsers that are kept up to date would keep the listener from closing. */
  stop(): void {
    this.#pages?.stop();
  }
}

function workersOf(served: Served | undefined): readonly TimelineSource[] {
  const processes = served?.pool?.processes ?? [];
  return processes.map(({ process }) => ({
    key: process,
    read: (after) => process.readTimeline(after),
  }));
}
