/**
 * The main function of a worker process: a public side whose payment service is in the process that forked it. It does what that
 * one says and lives as long as that one; a signal that is sent to the whole group is meant for that one.
 */
import type { AddressInfo } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import type { ToldCertificates } from "../certificates/told.ts";
import { createLogger, setLevel, type Logger, type LogLevel } from "../telemetry/logger.ts";
import { Metrics } from "../telemetry/metrics.ts";
import { MetricsPacker, type PackedMetrics } from "../telemetry/packed-metrics.ts";
import { openSpans, type Spans } from "../telemetry/otlp-spans.ts";
import { Timeline, type TimelinePart } from "../telemetry/timeline.ts";
import { atOnce } from "../time/breath.ts";
import { systemTime } from "../time/time.ts";
import { Channel } from "../workers/channel.ts";
import { portOfParent } from "../workers/port.ts";
import { RemotePots } from "../workers/remote-pots.ts";
import { RemotePaymentService } from "../workers/remote-payment-service.ts";
import type { WorkerPlaces } from "../workers/worker-process.ts";
import { openAccess } from "./access.ts";
import { RemoteDrafts } from "./drafts.ts";
import { PublicSide } from "./public-side.ts";
import { toldRoutes } from "./request-snapshot.ts";
import { QualityNews, type ToldQualities } from "../discovery/quality.ts";
import { SharedEntries, type EntryChanges } from "../discovery/shared-entries.ts";
import { SitePublications } from "../publishing/site-publications.ts";
import {
  FeePayerNews,
  NetworkNews,
  unpack,
  unpackParts,
  type PackedInParts,
  type StartOrder,
  type Told,
  StopNews,
  type ToldStates,
  type ToldStops,
} from "./start-order.ts";

/** In one turn of the event loop all that has come is read; what follows from that may take another. */
const NOTICE_TURNS = 3;
/** What is left after the end may hold up the process for so long, milliseconds. */
const EXIT_MS = 2_000;

/** Resolves with the exit code when there is nothing left to do. */
export async function runWorker(): Promise<number> {
  const port = portOfParent();
  if (port === undefined) {
    process.stderr.write(
      "coinslot worker: this is started by `coinslot serve`, and by nobody else\n",
    );
    return 1;
  }
  leaveSignals();
  const worker = new Worker();
  const channel: Channel = new Channel(port, {
    time: systemTime,
    serves: {
      start: ([told]) => worker.start(orderOf(told as ToldOrder), channel),
      listen: ([places]) => worker.listen(places as WorkerPlaces),
      sockets: () => worker.passSockets(channel),
      retire: () => worker.retire(),
      ping: () => hasNoticed(),
      feePayers: ([told]) => worker.tellFeePayers(told as Told),
      networks: ([told]) => worker.tellNetworks(told as ToldStates),
      stops: ([told]) => worker.tellStops(told as ToldStops),
      ticketKeys: ([keys]) => worker.tellTicketKeys(keys as Buffer),
      asked: ([replacedMs, untilMs]) => worker.tellAsked(Number(replacedMs), Number(untilMs)),
      certificates: ([told]) => worker.tellCertificates(told as ToldCertificates),
      others: ([changes]) => worker.tellOthers(changes as EntryChanges),
      quality: ([told]) => worker.tellQuality(told as ToldQualities),
      level: ([named]) => worker.setLevel(named as LogLevel),
      metrics: ([known]) => worker.counted(Number(known)),
      timeline: ([after]) => worker.timeline(Number(after)),
      finish: ([withinMs]) => worker.finish(Number(withinMs)),
    },
  });
  channel.onPassed("socket", (socket) => worker.take(socket));
  await channel.closed;
  await worker.orphaned();
  setTimeout(() => process.exit(), EXIT_MS).unref();
  return 0;
}

/** Whatever had come before it was asked has been seen: what broke off with it is told before the answer. */
async function hasNoticed(): Promise<null> {
  for (let turns = 0; turns < NOTICE_TURNS; turns += 1) await turn();
  return null;
}

/** A process group is told what the first process obeys; told to end twice, nobody is to wait any longer. */
function leaveSignals(): void {
  let count = 0;
  const obeyTheSecond = (): void => {
    count += 1;
    if (count > 1) process.exit(1);
  };
  process.on("SIGTERM", obeyTheSecond);
  process.on("SIGINT", obeyTheSecond);
  process.on("SIGHUP", () => undefined);
}

/** A {@link StartOrder} as it crosses. */
interface ToldOrder {
  readonly sold: PackedInParts;
  readonly order: unknown;
}

function orderOf({ sold, order }: ToldOrder): StartOrder {
  const told = { ...(unpack(order) as object), ...(unpackParts(sold) as object) };
  return told as StartOrder;
}

interface Started {
  readonly front: PublicSide;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly feePayers: FeePayerNews;
  readonly networks: NetworkNews;
  readonly stopped: StopNews;
  readonly others: SharedEntries;
  readonly quality: QualityNews;
  readonly spans: Spans;
  readonly timeline: Timeline | undefined;
  readonly withinMs: number;
}

class Worker {
  /** What is told while it starts waits for this. */
  readonly #starting = Promise.withResolvers<Started>();
  #started: Started | undefined;
  readonly #sockets: object[] = [];
  readonly #packer = new MetricsPacker();
  #finished: Promise<void> | undefined;

  async start(order: StartOrder, channel: Channel): Promise<void> {
    const { config, worker, workers, version, termsChanges, level } = order;
    const logger = createLogger({ ...config.logging, level, isShared: true }).child({ worker });
    const metrics = new Metrics(version);
    metrics.configureRoutes(toldRoutes(config));
    const spans = await openSpans({ env: process.env, version, meter: metrics.spans, logger });
    const feePayers = new FeePayerNews(order.feePayers);
    const stopped = new StopNews(order.stops);
    const networks = new NetworkNews(order.networks, stopped);
    const others = new SharedEntries();
    others.apply(order.others);
    const quality = new QualityNews();
    quality.tell(order.quality);
    const changes = new Map(termsChanges);
    const published = { changes, feePayers, others, quality, stopped };
    const timeline = order.hasTimeline ? new Timeline(() => systemTime.now()) : undefined;
    const front = new PublicSide({
      config,
      telemetry: { logger, metrics, timeline, access: openAccess(config, { logger, metrics }) },
      payments: new RemotePaymentService(channel, config.limits.settlementWaitMs),
      pots: new RemotePots(channel),
      feePayers,
      networks,
      drafts: new RemoteDrafts(channel, order.draftNetworks),
      publish: atOnce(SitePublications.steps(config, published)).publish,
      fronts: workers,
      commands: order.commands,
      earlier: order.earlier,
      signInKey: order.signInKey,
      ticketKeys: order.ticketKeys,
    });
    front.tellCertificates(order.certificates);
    const { withinMs } = config.shutdown;
    const told = { feePayers, networks, stopped, others, quality };
    this.#started = { front, metrics, logger, ...told, spans, timeline, withinMs };
    this.#starting.resolve(this.#started);
  }

  async listen({ ports, sockets }: WorkerPlaces): Promise<readonly AddressInfo[]> {
    const taken = this.#sockets.slice(0, sockets);
    if (taken.length !== sockets)
      throw new Error("a socket of the worker before this one is missing");
    return this.#require().front.open({ ports, sockets: taken });
  }

  take(socket: unknown): void {
    if (typeof socket === "object" && socket !== null) this.#sockets.push(socket);
  }

  passSockets(channel: Channel): number {
    const { sockets } = this.#require().front;
    for (const socket of sockets) channel.pass("socket", socket);
    return sockets.length;
  }

  retire(): void {
    this.#started?.front.retire();
  }

  async tellFeePayers(told: Told): Promise<void> {
    (await this.#starting.promise).feePayers.tell(told);
  }

  async tellNetworks(told: ToldStates): Promise<void> {
    (await this.#starting.promise).networks.tell(told);
  }

  async tellStops(told: ToldStops): Promise<void> {
    (await this.#starting.promise).stopped.tell(told);
  }

  async tellTicketKeys(keys: Buffer): Promise<void> {
    (await this.#starting.promise).front.tellTicketKeys(keys);
  }

  async tellAsked(replacedMs: number, untilMs: number): Promise<void> {
    (await this.#starting.promise).front.tellAsked(replacedMs, untilMs);
  }

  async tellCertificates(told: ToldCertificates): Promise<void> {
    (await this.#starting.promise).front.tellCertificates(told);
  }

  async tellOthers(changes: EntryChanges): Promise<void> {
    (await this.#starting.promise).others.apply(changes);
  }

  async tellQuality(told: ToldQualities): Promise<void> {
    (await this.#starting.promise).quality.tell(told);
  }

  async setLevel(level: LogLevel): Promise<void> {
    setLevel((await this.#starting.promise).logger, level);
  }

  /** @param known see `MetricsPacker.pack` */
  async counted(known: number): Promise<PackedMetrics> {
    const counted = await this.#started?.metrics.registry.snapshot();
    return this.#packer.pack(counted ?? [], known);
  }

  timeline(after: number): TimelinePart | undefined {
    return this.#started?.timeline?.read(after);
  }

  /** Resolves with the last that is counted. */
  async finish(withinMs: number): Promise<PackedMetrics> {
    this.#finished ??= this.#finish(withinMs);
    await this.#finished;
    return this.counted(0);
  }

  /** The process with the money is gone, in order or not: no payment can be taken any more. */
  async orphaned(): Promise<void> {
    if (this.#finished === undefined && this.#started !== undefined) {
      const said = "the process that started this worker is gone; finishing what is in flight";
      this.#started.logger.error(said);
    }
    await this.finish(this.#started?.withinMs ?? 0);
  }

  async #finish(withinMs: number): Promise<void> {
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(), withinMs);
    await this.#started?.front.close(patience.signal);
    clearTimeout(timer);
    await this.#started?.spans.close();
  }

  #require(): Started {
    if (this.#started === undefined)
      throw new Error("this worker has not been told what it is for");
    return this.#started;
  }
}
