/** Configuration and the settlement process -> a pool of workers, each of which is a public side that asks here for payments. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import type { ListenAddress } from "../config/config.ts";
import { NO_CERTIFICATES } from "../certificates/told.ts";
import { newTicketKeys, TICKET_KEYS_MS } from "../gateway/listener/ticket-keys.ts";
import { Owing } from "../payments/sale/owing.ts";
import { Proofs } from "../payments/sale/proofs.ts";
import { UnpaidWorks } from "../payments/sale/unpaid-work.ts";
import { LocalPaymentService } from "../payments/sale/payment-service.ts";
import { WorkerPool } from "../workers/worker-pool.ts";
import { WorkerSession } from "../workers/worker-session.ts";
import { WorkerProcess } from "../workers/worker-process.ts";
import { countWorkers } from "./count-workers.ts";
import { draftDesk } from "./drafts.ts";
import { SAME_MS, type KnownFeePayers } from "./fee-payers.ts";
import type { EntryChanges } from "../discovery/shared-entries.ts";
import type { SettlementProcess } from "./settlement-process.ts";
import { refundsLast } from "./resolutions.ts";
import type { Parts } from "./server.ts";
import type { LogLevel } from "../telemetry/logger.ts";
import type { Sales } from "./sales.ts";
import {
  frontPart,
  pack,
  packSteps,
  type PackedInParts,
  type SoldOrder,
  type StartOrder,
  type Told,
} from "./start-order.ts";
import { inTurns } from "../time/breath.ts";

/** How often an address that is taken is tried again, and the pause before, milliseconds. */
const ADDRESS_TRIES = 8;
const ADDRESS_PAUSE_MS = 250;
/** Where nobody else is listed. */
const NOTHING: EntryChanges = { revision: 0, isAll: true, put: [], dropped: [] };
/** Pause before workers are told of what others sell now, milliseconds. */
const ENTRIES_MS = 1_000;
/** The same of how well each route was delivered, milliseconds. */
const QUALITY_MS = 1_000;

/**
 * What of our environment a worker gets: what node and its libraries go by. Keys and tokens are in it under any
 * other name, and are nothing that a process with public listeners needs, but for the one that the collector of its
 * traces asks for.
 */
const ENVIRONMENT =
  /^(?:NODE_\w+|UV_\w+|OPENSSL_\w+|SSL_CERT_\w+|OTEL_\w+|LC_\w+|LANG|TZ|TERM|NO_COLOR|FORCE_COLOR|PATH|HOME|TMPDIR)$/;

/** How a worker process is begun. */
export interface WorkerEntry {
  /** The script of this process, which has the command `worker`. */
  readonly script: string;
  readonly version: string;
  /** See `PublicSideOptions.commands`. */
  readonly commands: string;
}

export interface Workers {
  readonly pool: WorkerPool;
  readonly addresses: readonly AddressInfo[];
}

/** Resolves when all workers listen; `closing` gets their end. */
export async function openWorkers(
  parts: Parts,
  money: SettlementProcess,
  entry: WorkerEntry,
): Promise<Workers> {
  const { config, telemetry, time, closing } = parts;
  for (const address of config.listen) await requireFree(address, parts);
  const count = countWorkers(config);
  const ending = new AbortController();
  closing.defer(() => ending.abort());
  const notice = (): Promise<unknown> => pool.noticed();
  const desks = new Desks({ ...parts, money, notice, closing: ending.signal });
  closing.defer(() => desks.closed());
  let ticketKeys = newTicketKeys();
  const pool = new WorkerPool({
    count,
    fork: (worker) => desks.fork(worker, entry),
    order: async (worker) => {
      const sold = await packedSold(money.sales);
      const order: Omit<StartOrder, keyof SoldOrder> = {
        worker,
        workers: count,
        version: entry.version,
        // It may have been set since.
        level: telemetry.logger.level as LogLevel,
        ticketKeys,
        signInKey: money.signInKey,
        certificates: money.certificates?.told ?? NO_CERTIFICATES,
        feePayers: toldBy(money.feePayers),
        networks: money.networks.told,
        stops: [...money.guard.stops],
        others: money.hub?.since(0) ?? NOTHING,
        quality: money.quality.told,
        draftNetworks: [...money.drafts.networks],
        commands: entry.commands,
        hasTimeline: money.sales.config.admin?.timeline === true,
      };
      return { sold, order: pack(order) };
    },
    withinMs: () => money.sales.config.shutdown.withinMs,
    logger: telemetry.logger,
    time,
  });
  money.certificates?.onTold((told) => pool.tell("certificates", [told]));
  closing.defer(() =>
    pool.close(parts.patience.aborted ? 0 : money.sales.config.shutdown.withinMs),
  );
  telemetry.metrics.observeWorkers(() => pool);
  // All get them at the same time, and those that are forked later with their order.
  const renew = (): Buffer => (ticketKeys = newTicketKeys());
  const tickets = { name: "ticketKeys", everyMs: TICKET_KEYS_MS, next: renew };
  const stopping = new AbortController();
  const signal = AbortSignal.any([ending.signal, stopping.signal]);
  const telling = [...newsOf(money), tickets].map(async ({ name, everyMs, next }) => {
    while (!signal.aborted) {
      await time.sleep(everyMs, signal);
      const told = next();
      if (told !== undefined) pool.tell(name, [told]);
    }
  });
  closing.defer(async () => {
    stopping.abort();
    await Promise.all(telling);
  });
  return { pool, addresses: await pool.open() };
}

/** While others work; once more where another configuration has come into force meanwhile. */
async function packedSold(sales: Sales): Promise<PackedInParts> {
  for (;;) {
    const { config, termsChanges, earlier } = sales;
    const sold: SoldOrder = { config: frontPart(config), termsChanges: [...termsChanges], earlier };
    const packed = await inTurns(packSteps(sold));
    if (sales.config === config) return packed;
  }
}

interface DeskGround extends Pick<Parts, "telemetry" | "time"> {
  readonly money: SettlementProcess;
  readonly notice: () => Promise<unknown>;
  readonly closing: AbortSignal;
}

/** A desk and a life in the ledger for every worker process that is ever forked. */
class Desks {
  readonly #ground: DeskGround;
  readonly #ending = new Set<Promise<void>>();
  readonly #proofs = new Proofs();
  readonly #owing: Owing;
  readonly #works: UnpaidWorks;
  #forked = 0;

  constructor(ground: DeskGround) {
    this.#ground = ground;
    this.#owing = new Owing(ground.time, ground.notice);
    this.#works = new UnpaidWorks(ground.time);
  }

  fork(worker: number, { script }: WorkerEntry): WorkerProcess {
    const { time, money } = this.#ground;
    const { drafts } = money;
    this.#forked += 1;
    const desk = this.#open(`${worker}.${this.#forked}`);
    const child = fork(script, ["worker"], { serialization: "advanced", env: environment() });
    const process = new WorkerProcess(child, { ...desk.serves, ...draftDesk(drafts) }, time);
    process.onEnded(() => {
      const ending = desk.close().finally(() => this.#ending.delete(ending));
      this.#ending.add(ending);
    });
    return process;
  }

  /** Resolves when what all of them held is free. */
  async closed(): Promise<void> {
    await Promise.all(this.#ending);
  }

  #open(name: string): WorkerSession {
    const { money, telemetry, time, closing } = this.#ground;
    const { logger, timeline } = telemetry;
    const { router: facilitator, feePayers, networks, guard, ledger, signers, holdings } = money;
    const life = ledger.worker(name);
    const books = { redemptions: life, timeline };
    const shared = { proofs: this.#proofs, owing: this.#owing, works: this.#works };
    const known = { feePayers, networks, guard, signers, holdings, ...shared };
    const lasting = { refundsLast: refundsLast(() => money.sales.config), logger, time };
    const payments = new LocalPaymentService({ facilitator, ...known, ...books, ...lasting });
    const { settlementWaitMs } = money.sales.config.limits;
    return new WorkerSession({ life, payments, settlementWaitMs, logger, time, closing });
  }
}

function environment(): NodeJS.ProcessEnv {
  const passed = Object.entries(process.env).filter(([name]) => ENVIRONMENT.test(name));
  return Object.fromEntries(passed);
}

function toldBy(feePayers: KnownFeePayers): Told {
  return feePayers.networks.flatMap((network) => {
    const address = feePayers.offered(network);
    return address === undefined ? [] : [[network, address] as const];
  });
}

/** Something that workers have to hear of. */
interface News {
  readonly name: string;
  /** Pause before it is asked for again, milliseconds. */
  readonly everyMs: number;
  /** What is to be told now; undefined: nothing new. */
  readonly next: () => unknown;
}

/** Workers hear of another fee payer, and of a network that closes, about as soon as this process notices. */
function newsOf({ feePayers, networks, guard, hub, quality }: SettlementProcess): readonly News[] {
  const news: News[] = [
    { name: "quality", everyMs: QUALITY_MS, next: whenNew(quality, () => quality.told) },
    { name: "stops", everyMs: SAME_MS, next: whenNew(guard, () => [...guard.stops]) },
    { name: "networks", everyMs: SAME_MS, next: whenNew(networks, () => networks.told) },
    { name: "feePayers", everyMs: SAME_MS, next: whenNew(feePayers, () => toldBy(feePayers)) },
  ];
  if (hub !== undefined) {
    let { revision } = hub.since(0);
    const next = (): EntryChanges | undefined => {
      const changes = hub.since(revision);
      if (changes.revision === revision) return undefined;
      ({ revision } = changes);
      return changes;
    };
    news.push({ name: "others", everyMs: ENTRIES_MS, next });
  }
  return news;
}

/** What is told once for each revision from now on. */
function whenNew(source: { readonly revision: number }, tell: () => unknown): () => unknown {
  let { revision } = source;
  return () => {
    const now = source.revision;
    if (now === revision) return undefined;
    revision = now;
    return tell();
  };
}

/**
 * Workers share their addresses, with each other and so with whoever else does that: another gateway of ours
 * would get a part of the connections unnoticed. Rejects, once for all workers, where somebody listens there.
 * Tries for a while: workers of a process that was killed are just letting go.
 */
async function requireFree({ host, port }: ListenAddress, { time }: Parts): Promise<void> {
  if (port === 0) return;
  for (let tries = 1; ; tries += 1) {
    const server = createServer();
    try {
      server.listen({ port, ...(host === null ? {} : { host }) });
      await once(server, "listening");
      server.close();
      await once(server, "close");
      return;
    } catch (cause) {
      const isTaken = cause instanceof Error && "code" in cause && cause.code === "EADDRINUSE";
      if (!isTaken || tries >= ADDRESS_TRIES) throw cause;
      await time.sleep(ADDRESS_PAUSE_MS);
    }
  }
}
