/** What a rate of sales needs, reckoned from what was measured. Pure. */
import { placesOf } from "../../../src/app/places.ts";
import { CONNECTIONS } from "../../../src/ledger/postgres/postgres.ts";
import { COLLECT_MS } from "../../../src/payments/settlement/payment-queue.ts";
import { MAX_NEW } from "../../../src/payments/settlement/new-payers.ts";
import { costsOf } from "../../../src/mechanism/evm/network-costs.ts";
import { ACCOUNT_RULES } from "../../../src/mechanism/evm/observer.ts";
import type { Cost, Figures, SaleCost } from "./figures.ts";
import { capacities, type Capacity } from "./networks.ts";

/** How busy a core, or a thread, is to be: beyond that whoever comes at once waits. */
export const BUSY = 0.7;
export const RATES = [10, 100, 1_000, 10_000] as const;
/** The network by which rates are reckoned. */
const NETWORK = "base";
/** PostgreSQL's `max_connections` by default, less those it reserves for its superuser. */
const SERVER_CONNECTIONS = 100 - 3;
/** Statements, and one that listens. */
export const REPLICA_CONNECTIONS = CONNECTIONS + 1;
/** Of which a replica's places for requests follow: the least that is told of, and one that has as many as there are. */
const SMALL = 512 * 1024 * 1024;
const MEMORIES = [
  { name: "a replica in 512 MiB", bytes: SMALL },
  { name: "a replica in 8 GiB", bytes: 8 * 1024 * 1024 * 1024 },
];
/** Of one ledger: more than a server takes by default hear each other's sales, too, until they do nothing else. */
export const MAX_REPLICAS = Math.floor(SERVER_CONNECTIONS / REPLICA_CONNECTIONS);

/** Who signs: all replicas are configured with the same signers, so that one has them; or each has its own. */
export type Layout = "shared" | "own";

export interface Setting {
  readonly perSecond: number;
  readonly replicas: number;
  readonly layout: Layout;
  readonly blockSeconds: number;
  readonly watchedSeconds: number;
  readonly maxTogether: number;
}

/** For one sale, with everything that goes on beside it, and what the busiest thread takes of it. */
export interface Reckoned extends Cost {
  readonly thread: number;
  readonly together: number;
}

/** How many payments a transaction carries where so many a second come to its signer. */
export function togetherAt(
  perSecond: number,
  { blockSeconds, maxTogether }: Pick<Setting, "blockSeconds" | "maxTogether">,
): number {
  // Payments are collected; and where as many are in the air as may be, they wait for a block.
  const collected = 1 + (perSecond * COLLECT_MS) / 1000;
  const held = (perSecond * blockSeconds) / ACCOUNT_RULES.maxOpen;
  return Math.min(maxTogether, Math.max(collected, held));
}

/** What is above the sale itself in each transaction, by two paces. */
function transactionOf({ sales: { slow, fast } }: Figures): Record<keyof Cost | "thread", number> {
  const apart = 1 / slow.together - 1 / fast.together;
  const of = (name: keyof Cost | "thread"): number =>
    apart > 0 ? Math.max(0, (slow[name] - fast[name]) / apart) : 0;
  return {
    gateway: of("gateway"),
    postgres: of("postgres"),
    node: of("node"),
    thread: of("thread"),
  };
}

export function reckon(figures: Figures, setting: Setting): Reckoned {
  const { perSecond, replicas, layout, watchedSeconds } = setting;
  const { idle, watching, sales } = figures;
  const transaction = transactionOf(figures);
  const isShared = layout === "shared" && replicas > 1;
  const together = togetherAt(isShared ? perSecond : perSecond / replicas, setting);
  const more = 1 / together;
  const at = (sale: SaleCost, name: keyof Cost | "thread"): number =>
    Math.max(0, sale[name] + transaction[name] * (more - 1 / sale.together));
  const elsewhere = isShared ? 1 - 1 / replicas : 0;
  const mixed = (name: keyof Cost): number =>
    at(sales.workers, name) * (1 - elsewhere) + at(sales.elsewhere, name) * elsewhere;
  // By whoever neither takes the request nor signs.
  const { local, offered } = sales.elsewhere.bystander;
  const heard = (1 - elsewhere) * (replicas - 1) * local + elsewhere * (replicas - 2) * offered;
  const looks = watchedSeconds / together;
  const signing =
    sales.elsewhere.signing.thread + transaction.thread * (more - 1 / sales.elsewhere.together);
  const thread = isShared
    ? (at(sales.workers, "thread") + watching.gateway * looks) / replicas +
      (signing + watching.gateway * looks) * elsewhere
    : (at(sales.workers, "thread") + watching.gateway * looks + heard) / replicas;
  return {
    gateway:
      mixed("gateway") +
      heard +
      watching.gateway * looks +
      (idle.replica.gateway * replicas) / perSecond,
    postgres:
      mixed("postgres") +
      watching.postgres * looks +
      (idle.replica.postgres * replicas) / perSecond,
    // Its blocks are made whoever asks.
    node: mixed("node") + watching.node * looks + idle.replica.node / perSecond,
    thread,
    together,
  };
}

/** The setting of the check. */
export function checkSetting({ check }: Figures): Setting {
  return {
    perSecond: check.sold,
    replicas: check.replicas,
    layout: "shared",
    blockSeconds: check.blockSeconds,
    watchedSeconds: check.finalBlocks * check.blockSeconds,
    maxTogether: costsOf("base-sepolia").maxTogether,
  };
}

export interface Plan {
  readonly perSecond: number;
  readonly layout: Layout;
  /** Each with a payee and a PostgreSQL of its own. */
  readonly ledgers: number;
  /** Of all ledgers. */
  readonly replicas: number;
  readonly gatewayCores: number;
  readonly postgresCores: number;
  /** To each PostgreSQL. */
  readonly connections: number;
  readonly signers: number;
  /** Requests that wait for their block, each with a place. */
  readonly inAir: number;
  /** At each replica more of them than it has places in 512 MiB. */
  readonly needsMemory: boolean;
  /** Of all blocks of {@link NETWORK}. */
  readonly blockShare: number;
  /** What one of each cannot carry, with how many sales a second it does; the least first. */
  readonly givesWay: readonly Part[];
  /** Networks that could not, had they nobody else; and those that would be more than half full. */
  readonly cannot: readonly string[];
  readonly crowded: readonly string[];
}

export interface Part {
  readonly name: string;
  readonly perSecond: number;
}

function capacityOf(network: string): Capacity {
  const found = capacities().find((each) => each.network === network);
  if (found === undefined) throw new TypeError(`there is no network ${network}`);
  return found;
}

function settingOf(perSecond: number, replicas: number, layout: Layout): Setting {
  const { blockSeconds, watchedSeconds } = capacityOf(NETWORK);
  const { maxTogether } = costsOf(NETWORK);
  return { perSecond, replicas, layout, blockSeconds, watchedSeconds, maxTogether };
}

/** Sales a second that one of each carries, {@link BUSY} of the time. */
export function carried(figures: Figures): readonly Part[] {
  const { signer, blocks, airSeconds } = capacityOf(NETWORK);
  const busy = (name: "thread" | "postgres"): number => {
    // What a sale takes falls with the rate, since a transaction carries more.
    let perSecond = 1;
    for (let round = 0; round < 20; round += 1) {
      perSecond = (BUSY * 1e6) / reckon(figures, settingOf(perSecond, 1, "own"))[name];
    }
    return perSecond;
  };
  return [
    { name: "one replica (its money thread)", perSecond: busy("thread") },
    { name: "one core of PostgreSQL", perSecond: busy("postgres") },
    { name: "one signer on Base", perSecond: Math.min(signer, blocks) },
    { name: "the blocks of Base", perSecond: blocks },
    ...MEMORIES.map(({ name, bytes }) => {
      const count = placesIn(bytes);
      return {
        name: `the ${count.toLocaleString("en")} places of ${name}`,
        perSecond: count / airSeconds,
      };
    }),
  ];
}

function placesIn(bytes: number): number {
  return placesOf(null, 1, { machine: bytes, allowed: bytes }).count;
}

/** Payers a second who never paid here, at one signing replica on {@link NETWORK}. */
export function newPayersPerSecond(): number {
  return MAX_NEW / capacityOf(NETWORK).airSeconds;
}

export function plan(figures: Figures, perSecond: number): Plan {
  const { ledgers, setting } = choose(figures, perSecond);
  const { gateway, postgres } = reckon(figures, setting);
  const replicas = ledgers * setting.replicas;
  const { signer, blocks, airSeconds } = capacityOf(NETWORK);
  const main = capacities().filter(({ network }) => !/sepolia|fuji|amoy|test|dev/.test(network));
  const least = Math.ceil(perSecond / signer);
  return {
    perSecond,
    layout: setting.layout,
    ledgers,
    replicas,
    gatewayCores: (gateway * perSecond) / 1e6 / BUSY,
    postgresCores: (postgres * perSecond) / 1e6 / BUSY,
    connections: setting.replicas * REPLICA_CONNECTIONS,
    signers: Math.max(least, setting.layout === "own" ? replicas : ledgers),
    inAir: perSecond * airSeconds,
    needsMemory: (perSecond * airSeconds) / replicas > placesIn(SMALL),
    blockShare: perSecond / blocks,
    givesWay: carried(figures)
      .filter((part) => part.perSecond < perSecond)
      .toSorted((left, right) => left.perSecond - right.perSecond),
    cannot: main.filter((each) => each.blocks < perSecond).map(({ network }) => network),
    crowded: main
      .filter((each) => each.blocks >= perSecond && each.blocks < 2 * perSecond)
      .map(({ network }) => network),
  };
}

/**
 * The fewest ledgers, and of them the fewest replicas, whose busiest thread has room; with signers of their own where one
 * cannot sign for all.
 */
function choose(figures: Figures, perSecond: number): { ledgers: number; setting: Setting } {
  for (let ledgers = 1; ; ledgers += 1) {
    for (const layout of ["shared", "own"] as const) {
      for (let replicas = 1; replicas <= MAX_REPLICAS; replicas += 1) {
        const setting = settingOf(perSecond / ledgers, replicas, layout);
        const busy = (reckon(figures, setting).thread * setting.perSecond) / 1e6;
        if (busy <= BUSY) return { ledgers, setting };
      }
    }
  }
}
