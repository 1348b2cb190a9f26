/** Whether, of what, and to whom the operator's pages are shown. */
import { Overview, type OverviewGround } from "../admin/overview.ts";
import { PaymentsListener } from "../admin/payments.ts";
import type { AdminSettings } from "../config/config.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { Timeline } from "../telemetry/timeline.ts";
import type { Time } from "../time/time.ts";
import type { MoneyView } from "../web/overview-view.ts";
import type { WorkerPool } from "../workers/worker-pool.ts";
import { moneyInThread } from "./read-accounts.ts";
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

/** Whose pages they are. */
type Shown = Pick<Parts, "config" | "telemetry" | "time">;

export class OperatorPages {
  /** Undefined where it is shown to nobody. */
  readonly payments: PaymentsListener | undefined;
  /** Names by which the operator's listener is asked. */
  readonly hosts: readonly string[];
  readonly #parts: Shown;
  readonly #books: Ledger["books"];
  /** Of the configuration in force. */
  readonly #tokens: () => Tokens;
  readonly #pages: TimelinePages | undefined;

  constructor(parts: Shown, { books }: Pick<Ledger, "books">, serving: () => Served | undefined) {
    const { config, telemetry, time } = parts;
    const { logger, timeline: own } = telemetry;
    this.#parts = parts;
    this.#books = books;
    this.hosts = config.admin?.hosts ?? [];
    let known = { config, tokens: new Tokens(config) };
    this.#tokens = (): Tokens => {
      const now = serving()?.money.sales.config ?? config;
      if (now !== known.config) known = { config: now, tokens: new Tokens(now) };
      return known.tokens;
    };
    if (config.admin === null || own === undefined) return;
    const sources = (): readonly TimelineSource[] => {
      return [{ key: own, read: async (after) => own.read(after) }, ...workersOf(serving())];
    };
    const tokens = this.#tokens;
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

  /** Undefined where it is shown to nobody. `script`: see {@link moneyInThread}. */
  overview({
    script,
    ...reads
  }: Pick<OverviewGround, "metrics" | "readiness"> & { readonly script: string }):
    | Overview
    | undefined {
    if (this.payments === undefined) return undefined;
    const { config, time } = this.#parts;
    const { file, store } = config;
    const money = (nowMs: number): Promise<MoneyView> => {
      return moneyInThread(script, { store, tokens: this.#tokens().known, nowMs });
    };
    return new Overview({ ...reads, money, counts: () => this.#books.counts(), file, time });
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
