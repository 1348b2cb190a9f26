/**
 * The metrics and their label vocabulary, in one place. Names follow Prometheus' conventions: base
 * units, `_total` for counters, labels whose number is bounded by the configuration; a payer, a path or
 * a transaction is never a label.
 */
import { Counter, Gauge, Histogram, collectDefaultMetrics } from "prom-client";
import type { ErrorCode } from "../x402/error-code.ts";
import { ATTODOLLAR_DECIMALS, formatAmount, worthOf } from "../x402/amount.ts";
import { findNetwork, isNetworkName } from "../x402/network.ts";
import { X402_VERSION, X402_VERSION_2, type X402Version } from "../x402/x402.ts";
import { CatalogueMeter } from "./catalogue-meter.ts";
import { CommandMeters } from "./command-meter.ts";
import { ConfigurationMeter } from "./configuration-meter.ts";
import { EndpointMeter } from "./endpoint-meter.ts";
import { FlatHistogram } from "./histogram.ts";
import { MetricRegistry } from "./metric-registry.ts";
import { HolderMeter } from "./holder-meter.ts";
import { SalesMeter } from "./sales-meter.ts";
import { WalletMeter } from "./wallet-meter.ts";
import { WebhookMeter } from "./webhook-meter.ts";
import { NetworkMeter } from "./network-meter.ts";
import { currentContext, exemplarOf } from "./request-context.ts";
import {
  RouteMeters,
  type PaymentOutcome,
  type Priced,
  type ReplayReason,
  type RouteMeter,
  type RouteMeterSettings,
} from "./route-meter.ts";
import { UseMeter } from "./use-meter.ts";
import { SpanMeter } from "./span-meter.ts";
import { TargetMeters } from "./target-meter.ts";

export { PAYMENT_OUTCOMES, UNMATCHED, UNROUTED } from "./route-meter.ts";
export type {
  PaymentOutcome,
  ReplayReason,
  RouteMeter,
  RouteMeterSettings,
} from "./route-meter.ts";

/** Upper bounds in seconds: a judgement takes milliseconds, a settlement seconds, a slow chain a minute. */
const PAYMENT_BOUNDS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** How many payments one transaction carries. */
const SUBMISSION_BOUNDS = [1, 2, 3, 5, 8, 13, 20, 30, 50, 80];

/** An amount of a token, for the sum of what was settled. */
export interface SettledAmount {
  /** Key of the route that has sold for it; null or none: it was settled for somebody else. */
  readonly route?: string | null | undefined;
  readonly network: string;
  readonly asset: string;
  readonly decimals: number;
  readonly amountAtomic: bigint;
}

/** What a transaction of ours has cost, in the smallest unit of the network's own currency. */
export interface SpentGas {
  readonly fee: bigint;
  /** Part of the fee. */
  readonly priority: bigint;
  /** What a whole unit of that currency is worth, attodollars; null: nobody says. */
  readonly price: bigint | null;
}

/** How many payments wait, and for what. */
export interface PaymentsWaiting {
  readonly unresolved: number;
  readonly held: number;
  readonly undelivered: number;
  readonly offered: number;
  readonly refunding: number;
  readonly unrefunded: number;
}

type Reading = (counter: Counter) => void;

/** How often the delay of the event loop is sampled, milliseconds: each sample wakes an idle process. */
const EVENT_LOOP_SAMPLE_MS = 100;

/** Places for requests in flight: had now, waited for, there are, and taken back from whoever hardly moved. */
export interface PlacesReading {
  readonly taken: number;
  /** Payments: for one, or for their turn to take one. */
  readonly waiting: number;
  readonly total: number;
  readonly evicted: number;
}

export class Metrics {
  readonly registry = new MetricRegistry();
  readonly targets = new TargetMeters(this.registry);
  readonly commands = new CommandMeters(this.registry);
  readonly catalogue = new CatalogueMeter(this.registry);
  readonly configuration = new ConfigurationMeter(this.registry);
  readonly networks = new NetworkMeter(this.registry);
  readonly wallets = new WalletMeter(this.registry);
  readonly sales = new SalesMeter(this.registry);
  readonly holders = new HolderMeter(this.registry);
  readonly webhooks = new WebhookMeter(this.registry);
  readonly spans = new SpanMeter(this.registry);
  readonly use = new UseMeter(this.registry);
  readonly #routes = new RouteMeters(this.registry);
  readonly #queues = new Map<string, () => number>();
  #readInFlight = (): number => 0;

  readonly #verifications = this.#counter(
    "coinslot_verifications_total",
    "Payments judged, by network, result (valid, invalid, error) and error code",
    ["network", "result", "code"],
  );
  readonly #settlements = this.#counter(
    "coinslot_settlements_total",
    "Settlements, by network, result (settled, failed, unavailable, unknown) and error code",
    ["network", "result", "code"],
  );
  readonly #rpcCalls = this.#counter(
    "coinslot_rpc_calls_total",
    "Calls to chain nodes, by network, method and result",
    ["network", "method", "result"],
  );
  readonly #verificationSeconds = this.#flat(
    "coinslot_verification_duration_seconds",
    "Time to judge a payment, by network",
  );
  readonly #settlementSeconds = this.#flat(
    "coinslot_settlement_duration_seconds",
    "Time from asking for a settlement to its outcome, by network",
  );
  readonly #rpcSeconds = this.#flat(
    "coinslot_rpc_duration_seconds",
    "Duration of calls to chain nodes, by network",
  );
  readonly #submissions = this.#counter(
    "coinslot_submissions_total",
    "Transactions signed for an account nonce of ours, by network; replacements are not counted again",
    ["network"],
  );
  readonly #submissionPayments = new Histogram({
    name: "coinslot_submission_payments",
    help: "Payments that one transaction carries, by network",
    labelNames: ["network"],
    buckets: SUBMISSION_BOUNDS,
    registers: [this.registry],
  });
  readonly #replacements = this.#counter(
    "coinslot_settlement_replacements_total",
    "Transactions signed again with higher fees, by network",
    ["network"],
  );
  readonly #withdrawals = this.#counter(
    "coinslot_settlement_withdrawals_total",
    "Payments that their transaction did not move and that are signed again, by network",
    ["network"],
  );
  readonly #reorganizations = this.#counter(
    "coinslot_settlement_reorganizations_total",
    "Settled payments whose block left the chain, by network and whether it was delivered already",
    ["network", "delivered"],
  );
  readonly #presented = this.#counter(
    "coinslot_payments_presented_total",
    "Payments presented by buyers, by version of the protocol and payment outcome",
    ["version", "outcome"],
  );
  readonly #accessLost = this.#counter(
    "coinslot_access_log_lost_total",
    "Lines of the access log that were not written, since it was read too slowly or could not be written",
    [],
  );
  readonly #paymentsUnresolved = this.#gauge(
    "coinslot_payments_unresolved",
    "Payments signed or handed over whose outcome is not known, in the whole store",
  );
  readonly #paymentsHeld = this.#gauge(
    "coinslot_payments_held",
    "Payments on chain in a transaction that is not ours, which wait for the operator, in the whole store",
  );
  readonly #paymentsUndelivered = this.#gauge(
    "coinslot_payments_undelivered",
    "Payments settled for a resource and not delivered, in the whole store",
  );
  readonly #refundsOpen = this.#gauge(
    "coinslot_refunds_open",
    "Refunds that are under way, in the whole store",
  );
  readonly #refundsFailed = this.#gauge(
    "coinslot_refunds_failed",
    "Refunds that have failed or are over what may be paid back on a day, which wait for the operator, in the whole store",
  );
  readonly #paymentsOffered = this.#gauge(
    "coinslot_payments_offered",
    "Payments claimed that wait for a process that can sign, in the whole store",
  );
  readonly #lighthouseLost = this.#gauge(
    "coinslot_lighthouse_lost_lamports",
    "What payments with wallet assertions have cost by failing on chain within the last hour, by network",
    ["network"],
  );
  readonly #lighthouseOff = this.#gauge(
    "coinslot_lighthouse_off",
    "1 while no payments with wallet assertions are taken of new payers, since too many failed; by network",
    ["network"],
  );
  readonly #endpoints = new EndpointMeter(this.registry);
  readonly #facilitatorHealthy = this.#gauge(
    "coinslot_facilitator_healthy",
    "1 where the remote facilitator answers as it should, 0 where it does not",
    ["facilitator"],
  );

  /** @param withRuntime false: nothing of what describes the process itself */
  constructor(version: string, withRuntime = true) {
    const eventLoopMonitoringPrecision = EVENT_LOOP_SAMPLE_MS;
    if (withRuntime)
      collectDefaultMetrics({ register: this.registry, eventLoopMonitoringPrecision });
    this.registry.tidy();
    for (const version of [X402_VERSION, X402_VERSION_2]) {
      this.#presented.inc({ version, outcome: "paid" }, 0);
    }
    new Gauge({
      name: "coinslot_build_info",
      help: "1, labelled with the running version",
      labelNames: ["version"],
      registers: [this.registry],
      aggregator: "first",
    }).set({ version }, 1);
    const inFlight = this.#gauge(
      "coinslot_http_requests_in_flight",
      "Requests being answered now",
      [],
      () => inFlight.set(this.#readInFlight()),
    );
    const queueLength = this.#gauge(
      "coinslot_settlement_queue_length",
      "Payments that wait to be signed, by network",
      ["network"],
      () => this.#queues.forEach((read, network) => queueLength.set({ network }, read())),
    );
  }

  /** `prices`: how it can be paid for; none where it cannot. */
  route(label: string, prices: readonly Priced[] = []): RouteMeter {
    return this.#routes.prepare(label, prices);
  }

  /** To be called with each configuration that comes into force; without it, whatever was asked for is told. */
  configureRoutes(settings: RouteMeterSettings): void {
    this.#routes.configure(settings);
  }

  verification(
    network: string,
    result: "valid" | "invalid" | "error",
    code: ErrorCode | "",
    seconds: number,
  ): void {
    const labels = { network: networkLabel(network) };
    this.#verifications.inc({ ...labels, result, code });
    this.#verificationSeconds.prepare(labels).observe(seconds, exemplarNow());
  }

  settlement(
    network: string,
    result: "settled" | "failed" | "unavailable" | "unknown",
    code: ErrorCode | "",
    seconds: number,
  ): void {
    const labels = { network: networkLabel(network) };
    this.#settlements.inc({ ...labels, result, code });
    this.#settlementSeconds.prepare(labels).observe(seconds, exemplarNow());
  }

  settledAmount({ route = null, network, asset, decimals, amountAtomic }: SettledAmount): void {
    const tokens = Number(formatAmount(amountAtomic, decimals));
    this.#routes.earn({ route, network, asset, tokens });
  }

  rpcCall(network: string, method: string, result: string, seconds: number): void {
    this.#rpcCalls.inc({ network, method, result });
    this.#rpcSeconds.prepare({ network }).observe(seconds, exemplarNow());
  }

  /** Requests in flight are counted by the listener; it is asked at each scrape. */
  observeInFlight(read: () => number): void {
    this.#readInFlight = read;
  }

  /** Asked at each scrape; without a call there are no such metrics. */
  observePlaces(read: () => PlacesReading): void {
    const taken = this.#gauge(
      "coinslot_places_taken",
      "Places of limits.inFlight that requests have now",
      [],
      () => taken.set(read().taken),
    );
    const waiting = this.#gauge(
      "coinslot_payments_waiting",
      "Payments that wait for a place of limits.inFlight, or for their turn to take one",
      [],
      () => waiting.set(read().waiting),
    );
    const total = this.#gauge(
      "coinslot_places",
      "Places for requests that are forwarded or pay: limits.inFlight",
      [],
      () => total.set(read().total),
    );
    this.#counter(
      "coinslot_places_evicted_total",
      "Requests that were ended to make room, since their clients hardly moved",
      [],
      (counter) => counter.inc(read().evicted),
    );
  }

  /** Our own facilitator signed the first transaction for an account nonce. */
  submission(network: string, payments: number): void {
    this.#submissions.inc({ network });
    this.#submissionPayments.observe({ network }, payments);
  }

  /** A transaction was signed again for the same account nonce. */
  replacement(network: string): void {
    this.#replacements.inc({ network });
  }

  /** A transaction of ours is in a block. */
  gasSpent(network: string, { fee, priority, price }: SpentGas): void {
    const decimals = findNetwork(network)?.nativeCurrency.decimals ?? 0;
    const whole = (atomic: bigint): number => Number(formatAmount(atomic, decimals));
    const worth = price === null ? null : worthOf(fee, decimals, price);
    const dollars = worth === null ? null : Number(formatAmount(worth, ATTODOLLAR_DECIMALS));
    this.networks.spent(network, {
      base: whole(fee - priority),
      priority: whole(priority),
      dollars,
    });
  }

  /** A payment was left behind by its transaction and waits to be signed anew. */
  withdrawal(network: string): void {
    this.#withdrawals.inc({ network });
  }

  /** A settled payment is no longer on chain; `delivered`: what it bought is given away already. */
  reorganization(network: string, delivered: boolean): void {
    this.#reorganizations.inc({ network, delivered: String(delivered) });
  }

  /** Worker processes of this one, asked at each scrape; without a call there are no such metrics. */
  observeWorkers(read: () => { readonly listening: number; readonly deaths: number }): void {
    const listening = this.#gauge(
      "coinslot_workers_listening",
      "Worker processes that accept connections, those that are about to leave not counted",
      [],
      () => listening.set(read().listening),
    );
    this.#counter(
      "coinslot_worker_deaths_total",
      "Worker processes that ended though nobody had told them to",
      [],
      (counter) => counter.inc(read().deaths),
    );
  }

  /**
   * The queue of a network is asked at each scrape; asked again, the later reader counts.
   * @param price as of {@link SpentGas}
   */
  observeQueue(network: string, read: () => number, price: bigint | null = null): void {
    this.#queues.set(network, read);
    // There from the beginning: a counter that begins at 1 looks to an alert like one that did not change.
    this.#verifications.inc({ network, result: "valid", code: "" }, 0);
    this.#settlements.inc({ network, result: "settled", code: "" }, 0);
    const counters = [this.#submissions, this.#replacements, this.#withdrawals];
    for (const counter of counters) counter.inc({ network }, 0);
    for (const delivered of ["true", "false"]) {
      this.#reorganizations.inc({ network, delivered }, 0);
    }
    this.networks.begin(network);
    this.gasSpent(network, { fee: 0n, priority: 0n, price });
  }

  counts(waiting: PaymentsWaiting): void {
    const { unresolved, held, undelivered, offered, refunding, unrefunded } = waiting;
    this.#refundsOpen.set(refunding);
    this.#refundsFailed.set(unrefunded);
    this.#paymentsUnresolved.set(unresolved);
    this.#paymentsHeld.set(held);
    this.#paymentsUndelivered.set(undelivered);
    this.#paymentsOffered.set(offered);
  }

  lighthouse(network: string, lostLamports: number, isOff: boolean): void {
    this.#lighthouseLost.set({ network }, lostLamports);
    this.#lighthouseOff.set({ network }, Number(isOff));
  }

  rpcHealth(network: string, host: string, isHealthy: boolean | undefined, who?: object): void {
    this.#endpoints.tell(network, host, isHealthy, who);
  }

  /** Undefined: it is asked no more. */
  facilitatorHealth(name: string, isHealthy: boolean | undefined): void {
    if (isHealthy === undefined) this.#facilitatorHealthy.remove({ facilitator: name });
    else this.#facilitatorHealthy.set({ facilitator: name }, Number(isHealthy));
  }

  /** A line of the access log is not written. */
  accessLost(): void {
    this.#accessLost.inc();
  }

  /** A request that brought a payment in the envelope of that version has ended. */
  presented(version: X402Version, outcome: PaymentOutcome): void {
    this.#presented.inc({ version, outcome });
  }

  /** A kept answer was given again; `route` is the label of the route's meter. */
  replayed(route: string): void {
    this.#routes.find(route)?.replayed();
  }

  /** A payment was refused because it had been presented before; `route` as of {@link replayed}. */
  replayRefused(route: string, reason: ReplayReason): void {
    this.#routes.find(route)?.replayRefused(reason);
  }

  /** With `read`, the counter is filled from our own counts at each scrape. */
  #counter(name: string, help: string, labelNames: string[], read?: Reading): Counter {
    const settings = { name, help, labelNames, registers: [this.registry] };
    if (read === undefined) return new Counter(settings);
    const counter = new Counter({
      ...settings,
      collect: () => {
        counter.reset();
        read(counter);
      },
    });
    return counter;
  }

  #gauge(name: string, help: string, labelNames: string[] = [], collect?: () => void): Gauge {
    const settings = { name, help, labelNames, registers: [this.registry] };
    return new Gauge(collect === undefined ? settings : { ...settings, collect });
  }

  #flat(name: string, help: string): FlatHistogram {
    return new FlatHistogram(name, help, PAYMENT_BOUNDS, this.registry);
  }
}

function exemplarNow(): string | undefined {
  return exemplarOf(currentContext());
}

/** A caller may name any network; a label may not grow with what callers invent. */
function networkLabel(network: string): string {
  return isNetworkName(network) ? network : "unknown";
}
