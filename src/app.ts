/**
 * The composition root: a configuration becomes a running process. Parts are opened in the order in
 * which they need each other and closed in the reverse one, so that a shutdown stops accepting, finishes
 * what is in flight, and only then lets go of the chain and the ledger.
 */
import type { AddressInfo } from "node:net";
import { createAdminHandler } from "./admin/admin.ts";
import type { ToldElsewhere } from "./app/fee-payers.ts";
import { Front } from "./app/front.ts";
import { openMoney, type Money } from "./app/money.ts";
import { openServer, type Parts } from "./app/server.ts";
import { openLedger } from "./app/store.ts";
import type { Wallet } from "./app/wallets.ts";
import { countWorkers, openWorkers } from "./app/workers.ts";
import type { Config } from "./config/config.ts";
import type { Probe } from "./facilitator/network-gate.ts";
import { LocalTill } from "./gateway/till.ts";
import { createLogger } from "./telemetry/logger.ts";
import type { MetricsSnapshot } from "./telemetry/metric-registry.ts";
import { Metrics } from "./telemetry/metrics.ts";
import { openSpans } from "./telemetry/otlp-spans.ts";
import type { Telemetry } from "./telemetry/telemetry.ts";
import { systemTime } from "./time/time.ts";
import type { Crew } from "./workers/crew.ts";

/** A process that serves. */
export interface Running {
  readonly addresses: {
    readonly gateway: readonly AddressInfo[];
    readonly facilitator: AddressInfo | null;
    readonly admin: AddressInfo | null;
  };
  /** What the start-up checks of each embedded network found. */
  readonly probes: readonly Probe[];
  /** Our accounts that pay network fees. */
  readonly wallets: readonly Wallet[];
  /** Who pays network fees on Solana networks that others settle, as told so far. */
  readonly feePayers: readonly ToldElsewhere[];
  readonly telemetry: Telemetry;
  /** Processes that serve requests; 1: this one. */
  readonly workers: number;
  /** Resolves with the reason where it is no use to go on: the caller closes, and ends with an error. */
  readonly hopeless: Promise<string>;
  /**
   * Puts another process in the place of each worker, one after another, without a dropped request. Resolves
   * when the old ones are gone; at once where there are none. Rejects where one cannot be replaced: it stays.
   */
  replaceWorkers(): Promise<void>;
  /**
   * Turns readiness red, stops accepting after `shutdown.delay` (or at once), finishes what is in flight within
   * `shutdown.within`, closes everything. Idempotent.
   */
  close(options?: { readonly atOnce: boolean }): Promise<void>;
}

/**
 * Starts everything that the configuration asks for, or nothing: what was opened is closed again. `script` is
 * what a worker process runs, with the command `worker`.
 */
export async function start(
  config: Config,
  version: string,
  script = process.argv[1] ?? "",
): Promise<Running> {
  await using closing = new AsyncDisposableStack();
  const telemetry = {
    logger: createLogger(config.logging),
    metrics: new Metrics(version),
  };
  const time = systemTime;
  const { logger } = telemetry;
  const { configuration, spans: meter } = telemetry.metrics;
  // The first to be opened is the last to be closed: by then all spans have ended.
  const spans = await openSpans({ env: process.env, version, meter, logger });
  closing.defer(() => spans.close());
  configuration.loaded(true, time.now());
  /** Aborts when the time for a shutdown is up. */
  const patience = new AbortController();
  const parts = { config, telemetry, time, closing, patience: patience.signal };
  // Before any address: a second process on the same ledger hears what is wrong.
  const ledger = await openLedger(config, { logger, time });
  closing.defer(() => ledger.close());

  let draining = false;
  /** Undefined until every listener is open. */
  let serving: { readonly money: Money; readonly crew: Crew | undefined } | undefined;
  const readiness = async (): Promise<readonly string[]> => {
    if (draining) return ["shutting down"];
    if (serving === undefined) return ["starting"];
    const idle = serving.crew?.listening === 0 ? ["no worker listens"] : [];
    return [...idle, ...(await serving.money.readiness())];
  };
  const metrics = async (): Promise<MetricsSnapshot> => {
    const own = await telemetry.metrics.registry.snapshot();
    return serving?.crew?.metrics(own) ?? own;
  };
  const operator = createAdminHandler({ telemetry, readiness, metrics });
  const admin = await openServer(parts, config.admin, operator);
  const money = await openMoney(parts, ledger);
  const workers = countWorkers(config);
  const front = config.routes.length === 0 || workers > 1 ? undefined : openFront(parts, money);
  const { crew, addresses: gateway } =
    workers > 1
      ? await openWorkers(parts, money, { script, version })
      : { crew: undefined, addresses: (await front?.open()) ?? [] };
  serving = { money, crew };

  const owned = closing.move();
  const close = async (atOnce: boolean): Promise<void> => {
    draining = true;
    front?.retire();
    crew?.retire();
    if (!atOnce) await time.sleep(config.shutdown.delayMs);
    const timer = setTimeout(() => patience.abort(), config.shutdown.withinMs);
    try {
      await owned.disposeAsync();
    } finally {
      clearTimeout(timer);
    }
  };
  let closed: Promise<void> | undefined;
  return {
    addresses: { gateway, facilitator: money.address, admin },
    probes: money.probes,
    wallets: money.wallets,
    feePayers: money.feePayers.elsewhere(),
    telemetry,
    workers,
    hopeless: crew?.hopeless ?? new Promise(() => undefined),
    replaceWorkers: async () => crew?.replace(),
    close: ({ atOnce } = { atOnce: false }) => (closed ??= close(atOnce)),
  };
}

function openFront({ config, telemetry, time, closing, patience }: Parts, money: Money): Front {
  const { logger } = telemetry;
  const { mesh: facilitator, feePayers, ledger: redemptions, list } = money;
  const till = new LocalTill({ facilitator, feePayers, redemptions, logger, time });
  const front = new Front({ config, telemetry, till, feePayers, list, fronts: 1 });
  closing.defer(() => front.close(patience));
  return front;
}
