/**
 * The composition root: a configuration becomes a running process. Parts are opened in the order in
 * which they need each other and closed in the reverse one, so that a shutdown stops accepting, finishes
 * what is in flight, and only then lets go of the chain and the ledger.
 */
import type { AddressInfo } from "node:net";
import { createAdminHandler, type Readiness } from "./admin/admin.ts";
import { openAccess } from "./app/access.ts";
import { commandsOf } from "./app/commands.ts";
import type { ToldElsewhere } from "./app/fee-payers.ts";
import { PublicSide } from "./app/public-side.ts";
import { createTimeline, OperatorPages } from "./app/operator-pages.ts";
import { wordsOfRoutes } from "./diagnosis/listing/heard-words.ts";
import { toldRoutes } from "./app/request-snapshot.ts";
import { refundsLast } from "./app/resolutions.ts";
import { openSettlementProcess, type SettlementProcess } from "./app/settlement-process.ts";
import type { ConnectionTable } from "./gateway/listener/connection-table.ts";
import { openServer, type Parts } from "./app/server.ts";
import { openLedger } from "./app/store.ts";
import type { FeeWallet } from "./app/wallets.ts";
import { countWorkers } from "./app/count-workers.ts";
import { openWorkers } from "./app/workers.ts";
import {
  Reloading,
  type Prepared,
  type ReloadCause,
  type Reloaded,
  type ReloadWish,
} from "./app/reloading.ts";
import { cannotChange, restartProblems } from "./app/restart.ts";
import { loadConfig, type Config, type ParseResult, type Problem } from "./config/config.ts";
import type { NetworkProbe } from "./payments/settlement/network-gate.ts";
import { LocalPaymentService } from "./payments/sale/payment-service.ts";
import { Commands } from "./stdio/commands.ts";
import { createLogger, setLevel, type LogLevel } from "./telemetry/logger.ts";
import type { MetricsSnapshot } from "./telemetry/metric-registry.ts";
import { Metrics } from "./telemetry/metrics.ts";
import { openSpans } from "./telemetry/otlp-spans.ts";
import type { Telemetry } from "./telemetry/telemetry.ts";
import { systemTime } from "./time/time.ts";
import type { WorkerPool } from "./workers/worker-pool.ts";

/** A process that serves. */
export interface Running {
  readonly addresses: {
    readonly gateway: readonly AddressInfo[];
    readonly facilitator: AddressInfo | null;
    readonly admin: AddressInfo | null;
  };
  /** What the start-up checks of each embedded network found. */
  readonly probes: readonly NetworkProbe[];
  /** Our accounts that pay network fees. */
  readonly wallets: readonly FeeWallet[];
  /** Who pays network fees on Solana networks that others settle, as told so far. */
  readonly feePayers: readonly ToldElsewhere[];
  readonly telemetry: Telemetry;
  /** Processes that serve requests; 1: this one. */
  readonly workers: number;
  /** Resolves with the reason where it is no use to go on: the caller closes, and ends with an error. */
  readonly hopeless: Promise<string>;
  /**
   * Reads the configuration once more and serves by it from here on, without a dropped request; prices that
   * were asked for until now may still be paid for a while. Never rejects: what speaks against it is told, and
   * nothing has changed then.
   */
  reload(cause: ReloadCause, wish?: ReloadWish): Promise<Reloaded>;
  /**
   * Turns readiness red, stops accepting after `shutdown.delay` (or at once), finishes what is in flight within
   * `shutdown.within`, closes everything. Idempotent.
   */
  close(options?: { readonly atOnce: boolean }): Promise<void>;
}

export interface StartOptions {
  /** What a worker process runs, with the command `worker`; default: what this process runs. */
  readonly script?: string;
  /** Reads the configuration once more; default: its file. */
  readonly load?: () => Promise<ParseResult>;
  /** What was read of the file that the configuration is of; default: nothing is known of it. */
  readonly read?: Unconfigured;
}

/** What is known of a file beside what it means. */
type Unconfigured = Pick<ParseResult, "text" | "included" | "hash">;

const UNREAD: Unconfigured = { text: "", included: [], hash: "" };

/** Starts everything that the configuration asks for, or nothing: what was opened is closed again. */
export async function start(
  config: Config,
  version: string,
  {
    script = process.argv[1] ?? "",
    load = () => loadConfig(config.file),
    read = UNREAD,
  }: StartOptions = {},
): Promise<Running> {
  await using closing = new AsyncDisposableStack();
  const time = systemTime;
  const telemetry = await openTelemetry(config, version, { closing, time, hash: read.hash });
  const { logger } = telemetry;
  /** Aborts when the time for a shutdown is up. */
  const patience = new AbortController();
  const tables = new Set<ConnectionTable>();
  const parts = { config, telemetry, time, closing, patience: patience.signal, tables };
  // Before any address: a second process on the same ledger hears what is wrong.
  const ledger = await openLedger(config, { logger, time });
  closing.defer(() => ledger.close());

  let draining = false;
  const isEnding = (): boolean => draining;
  /** Undefined until every listener is open. */
  let serving: Serving | undefined;
  const readiness = async (): Promise<Readiness> => {
    if (draining) return { isReady: false, said: ["shutting down"] };
    if (serving === undefined) return { isReady: false, said: ["starting"] };
    const { isReady, said } = await serving.money.readiness();
    if (serving.pool?.listening !== 0) return { isReady, said };
    return { isReady: false, said: ["no worker listens", ...said] };
  };
  const metrics = async (): Promise<MetricsSnapshot> => {
    const own = await telemetry.metrics.registry.snapshot();
    return serving?.pool?.metrics(own) ?? own;
  };
  const reloading = new Reloading({
    load,
    running: { ...read, config },
    prepare: async (next, isTrial) => {
      if (isEnding()) return refusal(cannotChange(next, "shutting down"));
      if (serving === undefined) return refusal(cannotChange(next, "starting"));
      const prepared = await prepare({ ...serving, telemetry, tables }, next, isTrial);
      if (!isEnding()) return prepared;
      // What closes them may have been there already.
      await prepared.drop();
      return refusal(cannotChange(next, "shutting down"));
    },
    logger,
    onEnd: (isInUse, hashes) => telemetry.metrics.configuration.loaded(isInUse, time.now(), hashes),
  });
  const reload = (wish: ReloadWish): Promise<Reloaded> => reloading.reload("POST /-/reload", wish);
  const shown = new OperatorPages(parts, ledger, () => serving);
  const { payments, hosts } = shown;
  const listing = () => wordsOfRoutes(serving?.money);
  const overview = shown.overview({ readiness, metrics, script });
  const reads = { telemetry, readiness, metrics, overview, payments, listing, hosts };
  const level = (named: LogLevel): void => {
    setLevel(logger, named);
    serving?.pool?.tell("level", [named]);
  };
  const inForce = (): Config => serving?.money.sales.config ?? config;
  const running = config.admin?.timeline === true ? inForce : undefined;
  const operator = createAdminHandler({ ...reads, running, reload, level });
  const admin = await openServer(parts, config.admin, operator);
  closing.defer(() => shown.stop());
  const money = await openSettlementProcess(parts, ledger);
  const workers = countWorkers(config);
  const commands = await openCommands(parts);
  const isAlone = config.routes.length > 0 && workers === 1;
  const front = isAlone ? openSide(parts, money, commands.folder) : undefined;
  const { pool, addresses: gateway } =
    workers > 1
      ? await openWorkers(parts, money, { script, version, commands: commands.folder })
      : { pool: undefined, addresses: (await front?.open()) ?? [] };
  serving = { money, front, pool, commands };

  const owned = closing.move();
  const close = async (atOnce: boolean): Promise<void> => {
    draining = true;
    front?.retire();
    pool?.retire();
    const { delayMs, withinMs } = money.sales.config.shutdown;
    if (!atOnce) await time.sleep(delayMs);
    const timer = setTimeout(() => patience.abort(), withinMs);
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
    hopeless: pool?.hopeless ?? new Promise(() => undefined),
    reload: (cause, wish) => reloading.reload(cause, wish),
    close: ({ atOnce } = { atOnce: false }) => (closed ??= close(atOnce)),
  };
}

interface Serving {
  readonly money: SettlementProcess;
  readonly front: PublicSide | undefined;
  readonly pool: WorkerPool | undefined;
  readonly commands: Commands;
}

interface Changed extends Serving, Pick<Parts, "tables"> {
  readonly telemetry: Telemetry;
}

/** Everything that a change takes, so far that nothing can go wrong with it any more. */
async function prepare(
  { money, front, pool, commands, telemetry, tables }: Changed,
  next: Config,
  isTrial: boolean,
): Promise<Prepared> {
  const problems = restartProblems(money.sales.config, next);
  if (problems.length > 0) return refusal(...problems);
  const prepared = await money.prepare(next, isTrial);
  const asked = commandsOf(next);
  return {
    ...prepared,
    async commit() {
      await commands.open(asked);
      await prepared.commit();
      commands.configure(asked);
      const { logger, metrics, access } = telemetry;
      setLevel(logger, next.logging.level);
      access?.reopen();
      metrics.configureRoutes(toldRoutes(next));
      for (const table of tables) table.limit(next.limits.connections);
      await front?.configure(next, money.sales.publish);
      if (pool === undefined) return commands.retain(asked);
      pool.configureRoutes(toldRoutes(next));
      logger.info("replacing the workers");
      // Until then they have asked for what was sold before.
      const noteAsked = (): void => {
        const asked = money.sales.askedUntilNow();
        if (asked !== undefined) pool.tell("asked", asked);
      };
      await pool.replace(noteAsked).finally(noteAsked);
      commands.retain(asked);
      logger.info("all workers were replaced");
    },
  };
}

async function nothing(): Promise<void> {}

function refusal(...problems: readonly Problem[]): Prepared {
  return { problems, commit: nothing, drop: nothing };
}

/** The first to be opened is the last to be closed: by then all spans have ended. */
async function openTelemetry(
  config: Config,
  version: string,
  { closing, time, hash }: Pick<Parts, "closing" | "time"> & { readonly hash: string },
): Promise<Telemetry> {
  const { access } = config.logging;
  const isShared = config.workers !== 1 || access?.file === null;
  const logger = createLogger({ ...config.logging, isShared });
  const metrics = new Metrics(version);
  metrics.configureRoutes(toldRoutes(config));
  const spans = await openSpans({ env: process.env, version, meter: metrics.spans, logger });
  closing.defer(() => spans.close());
  metrics.configuration.loaded(true, time.now(), [hash]);
  const told = { logger, metrics, timeline: createTimeline(config.admin, time) };
  return { ...told, access: openAccess(config, told) };
}

/** They end behind the public side, which asks them. */
async function openCommands({ config, telemetry, time, closing }: Parts): Promise<Commands> {
  const { logger, metrics } = telemetry;
  const commands = new Commands({ logger, time, meters: metrics.commands });
  closing.defer(() => commands.close());
  await commands.open(commandsOf(config));
  return commands;
}

function openSide(
  { config, telemetry, time, closing, patience }: Parts,
  money: SettlementProcess,
  commands: string,
): PublicSide {
  const { logger, timeline } = telemetry;
  const { router: facilitator, feePayers, networks, drafts, ledger: redemptions, sales } = money;
  const { guard, signers, holdings, signInKey } = money;
  const { publish } = sales;
  const payments = new LocalPaymentService({
    facilitator,
    feePayers,
    networks,
    redemptions,
    guard,
    signers,
    holdings,
    logger,
    time,
    timeline,
    refundsLast: refundsLast(() => sales.config),
  });
  const front = new PublicSide({
    config,
    telemetry,
    payments,
    pots: redemptions.pots,
    feePayers,
    networks,
    drafts,
    publish,
    signInKey,
    fronts: 1,
    commands,
  });
  closing.defer(() => front.close(patience));
  money.certificates?.onTold((told) => front.tellCertificates(told));
  return front;
}
