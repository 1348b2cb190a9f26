/**
 * Hub mode: what gateways sell through our facilitator is listed beside our own routes, so that several gateways
 * share one listing. A gateway shows its token, may have URLs listed that the configuration gives it, and is listed
 * for as long as it sells. What is listed of others is in the listing and nowhere else: no payment is judged by it.
 */
import type { CallingGateway, CatalogueSettings } from "../../config/config.ts";
import { comparable } from "../../discovery/catalogue.ts";
import { termsHash } from "../../discovery/discovery.ts";
import type { EntryChanges, OtherEntries } from "../../discovery/shared-entries.ts";
import { isListable, readSoldTerms, type SoldTerms } from "../../discovery/sold-resource.ts";
import type { CatalogueWord } from "../../facilitator/catalogue-word.ts";
import type { SalesCatalogue } from "../../facilitator/endpoints.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { SoldOffer, SoldResource } from "../../ledger/sold-offers.ts";
import type { Telemetry } from "../../telemetry/telemetry.ts";
import type { Time } from "../../time/time.ts";
import { parsePaymentRequirements } from "../../x402/schema.ts";
import type { PaymentRequirements } from "../../x402/x402.ts";
import { HubCatalogue, type CataloguedSale } from "./hub-catalogue.ts";

/** A sale in terms that are stored already is noted again after so long, milliseconds, or sooner. */
const NOTE_MS = 3_600_000;
/** The part of the time to its expiry after which it is noted again at the latest. */
const NOTED_PARTS = 10;
/** Pause before it is looked for what other replicas have noted, milliseconds. */
const LOOK_MS = 5_000;
/** Notes this much older than the last look are read again: clocks differ, and notes take their time. */
const OVERLAP_MS = 60_000;
/** Pause before what has expired is dropped from the store, milliseconds. */
const TIDY_MS = 3_600_000;
/** Rows that one look reads, the newest ones: some for each resource that may be listed. */
const MAX_READ = 40_000;
/** Notes that wait for the store: a sale beyond them is noted with the next one. */
const MAX_WAITING = 256;
/** A gateway is told why it is not listed each time; the log says it again after so long, milliseconds. */
const REPEAT_MS = 3_600_000;

const LISTED: CatalogueWord = { status: "success", reason: undefined };
const TO_BE_LISTED: CatalogueWord = { status: "processing", reason: undefined };

export interface HubGround {
  readonly ledger: Pick<Ledger, "sold">;
  readonly telemetry: Telemetry;
  readonly time: Time;
}

export interface HubSettings {
  /** Those of which nothing may be listed are left out. */
  readonly gateways: readonly Pick<CallingGateway, "name" | "urls">[];
  readonly catalogue: CatalogueSettings;
}

/** Of a way to pay. */
interface Noted {
  readonly hash: string;
  readonly soldMs: number;
}

export class Hub implements SalesCatalogue, OtherEntries {
  readonly isPublic: boolean;
  readonly #urls: ReadonlyMap<string, readonly string[]>;
  readonly #expiresMs: number;
  readonly #ground: HubGround;
  readonly #catalogue: HubCatalogue;
  /** What the store last heard of each resource, by its ways to pay. */
  readonly #noted = new Map<string, Map<string, Noted>>();
  readonly #told = new Map<string, number>();
  readonly #closing = new AbortController();
  readonly #writing = new Set<Promise<void>>();
  #isStoring = true;
  #looking: Promise<void> = Promise.resolve();

  private constructor({ gateways, catalogue }: HubSettings, ground: HubGround) {
    const { expiresMs, maxResources, isPublic } = catalogue;
    this.isPublic = isPublic;
    this.#urls = new Map(gateways.map(({ name, urls }) => [name, urls]));
    this.#expiresMs = expiresMs;
    this.#ground = ground;
    this.#catalogue = new HubCatalogue({ expiresMs, maxResources }, () => ground.time.now());
    ground.telemetry.metrics.catalogue.observe(() => {
      return new Map([...this.#urls.keys()].map((name) => [name, this.#catalogue.count(name)]));
    });
  }

  /** Rejects where the store cannot be read. */
  static async open(settings: HubSettings, ground: HubGround): Promise<Hub> {
    const hub = new Hub(settings, ground);
    await hub.#tidy();
    const now = ground.time.now();
    await hub.#read(now - hub.#expiresMs);
    hub.#looking = hub.#lookAgain(now);
    return hub;
  }

  since(revision: number): EntryChanges {
    return this.#catalogue.since(revision);
  }

  judge(gateway: string, requirements: PaymentRequirements): CatalogueWord | undefined {
    const terms = this.#termsOf(gateway, requirements);
    if (terms === undefined) return undefined;
    return terms.ok ? TO_BE_LISTED : { status: "rejected", reason: terms.error };
  }

  sold(gateway: string, requirements: PaymentRequirements): CatalogueWord | undefined {
    const terms = this.#termsOf(gateway, requirements);
    if (terms === undefined) return undefined;
    if (!terms.ok) {
      const { logger } = this.#ground.telemetry;
      const said = "what a gateway sold is not listed";
      this.#say(`${gateway} ${terms.error}`, () =>
        logger.warn({ gateway, reason: terms.error }, said),
      );
      return { status: "rejected", reason: terms.error };
    }
    this.#take(gateway, terms.value);
    return LISTED;
  }

  /** Resolves when nothing is read or written any more. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#looking;
    await Promise.all(this.#writing);
  }

  /** Undefined where nothing of it is to be listed. */
  #termsOf(
    gateway: string,
    requirements: PaymentRequirements,
  ): ReturnType<typeof readSoldTerms> | undefined {
    const urls = this.#urls.get(gateway) ?? [];
    return urls.length === 0 ? undefined : readSoldTerms(requirements, urls);
  }

  #take(gateway: string, { resource, method, requirements }: SoldTerms): void {
    const nowMs = this.#ground.time.now();
    const { network } = requirements;
    // One token is one way to pay, however the letters of its address are written.
    const way = { gateway, resource, method, network, asset: comparable(requirements.asset) };
    // The newest sale there is, though the clock was set back since the one before, or is slow beside a replica's.
    const soldMs = Math.max(nowMs, this.#catalogue.soldMs(way) ?? nowMs);
    const times = { changedAt: Math.floor(nowMs / 1000), soldMs };
    const sale = { ...way, ...times, requirements, hash: hashOf(way, requirements) };
    const { isNews, isFirst, evicted } = this.#catalogue.put(sale);
    const { logger } = this.#ground.telemetry;
    // At most as many lines as there is room: prices and URLs may be others with each sale.
    const level = isFirst && evicted === undefined ? "info" : "debug";
    if (isNews)
      logger[level]({ gateway, method, resource, network }, "what a gateway sold is listed");
    if (evicted !== undefined) this.#forget(evicted);
    this.#note(sale);
  }

  #note(sale: CataloguedSale): void {
    const { requirements, ...row } = sale;
    const name = nameOf(row);
    const way = `${row.network} ${row.asset}`;
    const ways = this.#noted.get(name) ?? new Map<string, Noted>();
    const noted = ways.get(way);
    const againMs = Math.min(NOTE_MS, this.#expiresMs / NOTED_PARTS);
    if (noted?.hash === row.hash && row.soldMs - noted.soldMs < againMs) return;
    if (this.#writing.size >= MAX_WAITING) return;
    this.#noted.set(name, ways.set(way, { hash: row.hash, soldMs: row.soldMs }));
    const terms = JSON.stringify(requirements);
    this.#write(this.#ground.ledger.sold.note({ ...row, terms }), () => ways.delete(way));
  }

  #forget(resource: SoldResource): void {
    const { gateway, method, resource: url } = resource;
    const { logger } = this.#ground.telemetry;
    const said =
      "a gateway has as many resources as are listed: the one sold longest ago made room";
    this.#say(`${gateway} full`, () => logger.warn({ gateway, method, resource: url }, said));
    this.#noted.delete(nameOf(resource));
    this.#write(this.#ground.ledger.sold.forget(resource), () => undefined);
  }

  /** What cannot be stored is listed all the same, until the process ends. */
  #write(work: Promise<void>, undo: () => void): void {
    const { logger } = this.#ground.telemetry;
    const write = async (): Promise<void> => {
      try {
        await work;
        this.#isStoring = true;
      } catch (cause) {
        undo();
        if (this.#isStoring) logger.warn({ err: cause }, "what gateways sell cannot be stored now");
        this.#isStoring = false;
      }
    };
    const writing = write().finally(() => this.#writing.delete(writing));
    this.#writing.add(writing);
  }

  async #lookAgain(fromMs: number): Promise<void> {
    const { time, telemetry } = this.#ground;
    const { signal } = this.#closing;
    let lookedMs = fromMs;
    let tidiedMs = fromMs;
    while (!signal.aborted) {
      await time.sleep(LOOK_MS, signal);
      if (signal.aborted) return;
      const now = time.now();
      try {
        await this.#read(Math.max(lookedMs - OVERLAP_MS, now - this.#expiresMs));
        lookedMs = now;
        if (now - tidiedMs >= TIDY_MS) {
          await this.#tidy();
          tidiedMs = now;
        }
      } catch (cause) {
        const { logger } = telemetry;
        this.#say("read", () =>
          logger.warn({ err: cause }, "what gateways sell cannot be read now"),
        );
      }
    }
  }

  /** What was noted since then, here or by another replica. */
  async #read(sinceMs: number): Promise<void> {
    const rows = await this.#ground.ledger.sold.since(sinceMs, MAX_READ);
    // The oldest first, as they were sold.
    for (const row of rows.toReversed()) {
      const urls = this.#urls.get(row.gateway) ?? [];
      const requirements = isListable(row.resource, urls) ? readTerms(row) : undefined;
      if (requirements === undefined) continue;
      const { terms: _, ...sale } = row;
      this.#catalogue.put({ ...sale, requirements });
    }
  }

  async #tidy(): Promise<void> {
    const { ledger, time } = this.#ground;
    await ledger.sold.forgetBefore(time.now() - this.#expiresMs);
    const lastMs = time.now() - this.#expiresMs;
    for (const [name, ways] of this.#noted) {
      if ([...ways.values()].every(({ soldMs }) => soldMs <= lastMs)) this.#noted.delete(name);
    }
  }

  /** At most once in a while; there are as many names as gateways and reasons. */
  #say(name: string, say: () => void): void {
    const now = this.#ground.time.now();
    if (now - (this.#told.get(name) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return;
    this.#told.set(name, now);
    say();
  }
}

/** Who pays the network fee on Solana is no term: it may be another account each time. */
function hashOf({ resource, method }: SoldResource, requirements: PaymentRequirements): string {
  const { feePayer: _, ...extra } = requirements.extra ?? {};
  const accepts = [{ ...requirements, extra }];
  return termsHash({ resource, methods: [method], accepts, metadata: {}, isTemplate: false });
}

function nameOf({ gateway, method, resource }: SoldResource): string {
  return `${gateway} ${method} ${resource}`;
}

/** Written by us; undefined where somebody else has been at it. */
function readTerms({ terms }: SoldOffer): PaymentRequirements | undefined {
  try {
    return parsePaymentRequirements(JSON.parse(terms));
  } catch {
    return undefined;
  }
}
