/** One run of chaos: sets the stage, lets everything go wrong, calms down, audits. */
import { setTimeout as pause } from "node:timers/promises";
import { systemTime } from "../../src/time/time.ts";
import { openPostgresLedger } from "../../src/ledger/postgres/postgres.ts";
import { openSqliteLedger } from "../../src/ledger/sqlite/sqlite.ts";
import type { Ledger } from "../../src/ledger/ledger.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { VERSIONS } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";
import { startPostgres } from "../support/postgres.ts";
import { audit, type Audit } from "./audit.ts";
import { auditBooks, type AskedRefund } from "./books-audit.ts";
import { configuration, keysOf, offerOf } from "./configuration.ts";
import { buy, newPurchase, type Market, type Purchase } from "./customer.ts";
import { startFaultyRpc, type FaultyRpc, type RpcFaults } from "./faulty-rpc.ts";
import { Random } from "../simulation/random.ts";
import { Replicas } from "./replicas.ts";
import { isSoldOut, startShop, type Shop } from "./shop.ts";
import { buyAnew } from "./stock-customer.ts";
import { Thief, THIEF_ADDRESS } from "./thief.ts";

const PRICE_ATOMIC = 10_000n;
/** What each signer has for gas, and the key for refunds to pay back with; a thousand dollars. */
const GAS_MONEY = 10n ** 20n;
const FLOAT = 10n ** 9n;
const PAYERS = 50;
const CUSTOMERS_AT_ONCE = 64;
const SIGNERS = 2;
/** Of the calls to the node, the upstream requests and the customers' requests. */
export const RPC_FAULTS: RpcFaults = {
  errors: 0.04,
  drops: 0.03,
  lostBroadcasts: 0.06,
  stale: 0.08,
  lies: 0.02,
  late: 0.02,
};
const UPSTREAM_FAILURES = 0.05;
const HABITS = { aborts: 0.08, duplicates: 0.1 };
/** Seconds between blocks, without a thief and with one: while a payment waits for one, he has time to show it. */
const BLOCK_SECONDS = { false: 1, true: 2 } as const;
/** Each such customer has a stock client, where there is a thief. */
const STOCK_EACH = 2;
/** Of the kills, where there are workers, that end no more than one of them. */
const WORKERS_SHARE = 0.5;
/** How far the purchases may be ahead of the trouble, and the other way round: of 1. */
const MAX_AHEAD = 0.05;
/** Longest time that everything unresolved may take once nothing fails any more, milliseconds. */
const CALM_MS = 180_000;
const UNDER_WAY = /^coinslot_(?:payments_unresolved|refunds_open)(?:\{[^}]*\})? (\d+)$/gm;
/** Longest whole run, milliseconds. */
const RUN_MS = 1_800_000;

export interface ChaosOptions {
  readonly purchases: number;
  readonly kills: number;
  readonly replicas: number;
  readonly store: "sqlite" | "postgres";
  /** Restarts of PostgreSQL. */
  readonly storeRestarts: number;
  /** At each replica; 1 where one process serves. */
  readonly workers: number;
  /** With somebody who shows all payments that are broadcast, and with customers whose clients pay anew. */
  readonly thief: boolean;
  readonly seed: number;
  readonly say: (line: string) => void;
}

export interface ChaosReport extends Audit {
  readonly seconds: number;
  readonly logs: readonly string[];
}

export async function runChaos(options: ChaosOptions): Promise<ChaosReport> {
  const started = performance.now();
  await using stage = new AsyncDisposableStack();
  const chance = new Random(options.seed);
  options.say(`seed ${options.seed}`);
  const { thief: isWatched } = options;
  const chain = stage.use(await startChain({ blockTime: BLOCK_SECONDS[`${isWatched}`] }));
  const rpc = stage.use(await startFaultyRpc(chain.rpcUrl, RPC_FAULTS, chance));
  const shop = stage.use(await startShop(UPSTREAM_FAILURES, chance, !isWatched));
  const postgres = options.store === "postgres" ? stage.use(await startPostgres()) : undefined;
  const payee = freshAccount().address;
  const signers = Array.from({ length: SIGNERS }, freshAccount);
  for (const { address } of signers) await chain.fund(address, 0n, GAS_MONEY);
  const refunder = freshAccount();
  await chain.fund(refunder.address, FLOAT);
  const payers = Array.from({ length: PAYERS }, freshAccount);
  await Promise.all(payers.map(({ address }) => chain.fund(address, 10n ** 12n)));

  const env = keysOf(signers, refunder);
  const replicas = stage.use(
    await Replicas.start({
      count: options.replicas,
      yaml: configuration(
        chain,
        signers,
        { upstream: shop.url, rpc: rpc.url, payee },
        { workers: options.workers },
      ),
      env,
      ...(postgres === undefined ? {} : { store: postgres.url }),
    }),
  );
  const market: Market = { gateway: () => replicas.url(chance), chance, habits: { ...HABITS } };
  const purchases = Array.from({ length: options.purchases }, (_, n) =>
    newPurchase({
      item: `${n}`,
      isStock: isWatched && n % STOCK_EACH === 0,
      isSoldOut: !isWatched && isSoldOut(`${n}`),
      // Of either kind of customer as many speak the one version as the other.
      version: VERSIONS[Math.floor(n / STOCK_EACH) % VERSIONS.length] ?? VERSIONS[0],
    }),
  );
  const itemOf = itemsOf(purchases);
  const thief = new Thief({
    isAwake: isWatched,
    chain,
    gateways: replicas.urls,
    offer: offerOf(chain, payee),
    itemOf,
    chance,
  });
  const trouble = new Trouble(options, { replicas, chance, postgres });
  const signal = AbortSignal.timeout(RUN_MS);
  await Promise.all([
    trouble.run(signal),
    shopAll(purchases, payers, market, { options, trouble, signal }),
  ]);

  rpc.calm();
  shop.calm();
  Object.assign(market.habits, { aborts: 0, duplicates: 0 });
  await replicas.revive();
  const calm = AbortSignal.timeout(CALM_MS);
  const open = purchases.filter((each) => !each.delivered);
  options.say(`calm: ${open.length} purchases go on`);
  await Promise.all(open.map((each) => shopFor(each, payerOf(payers, each), market, calm)));
  await thief.stop();
  await settled(chain, replicas, calm);
  const codes = await replicas.stop();
  const store = postgres?.url ?? replicas.sites[0]?.store ?? "";
  const ledger = await openLedger(store);
  stage.defer(() => ledger.close());
  const books = await readBooks(ledger, signers, chain.network.name);
  const audited = await audit({
    chain,
    shop,
    purchases,
    payee,
    priceAtomic: PRICE_ATOMIC,
    deaths: trouble.kills,
    thief: THIEF_ADDRESS,
    loot: thief.loot,
    ...books,
  });
  const booked = await auditBooks({
    chain,
    file: replicas.sites[0]?.file ?? "",
    env,
    payee,
    refunder: refunder.address,
    signers: signers.map(({ address }) => ({ address, native: GAS_MONEY })),
    payers,
    priceAtomic: PRICE_ATOMIC,
    refunds: [...books.refunds.values()],
  });
  const bad = codes.filter((code) => code !== 0);
  const violations = [
    ...audited.violations,
    ...booked.violations,
    ...bad.map((code) => `a gateway ended with ${code} after SIGTERM`),
  ];
  const counts = {
    ...audited.counts,
    ...booked.counts,
    ...deliveredIn(purchases),
    ...answersOf(purchases),
    ...thiefCounts(thief),
    ...troubleCounts(trouble, { replicas, shop, rpc }),
  };
  const seconds = (performance.now() - started) / 1000;
  return { counts, violations, seconds, logs: replicas.logs };
}

interface Stage {
  readonly replicas: Replicas;
  readonly chance: Random;
  readonly postgres: { restart(): Promise<void> } | undefined;
}

/** Kills gateways and restarts the store, evenly over the run. */
class Trouble {
  readonly #options: ChaosOptions;
  readonly #stage: Stage;
  restarts = 0;

  constructor(options: ChaosOptions, stage: Stage) {
    this.#options = options;
    this.#stage = stage;
  }

  /** From 0 to 1: how many of the purchases are over. */
  purchased = 0;

  /** Of gateways, and of workers alone. */
  get kills(): number {
    const { kills, workerKills } = this.#stage.replicas;
    return kills + workerKills;
  }

  /** From 0 to 1: how much of the trouble has happened. */
  get progress(): number {
    const { kills } = this.#options;
    return kills === 0 ? 1 : this.kills / kills;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { replicas, chance, postgres } = this.#stage;
    const { kills, storeRestarts, workers } = this.#options;
    const reviving = new Set<Promise<void>>();
    while (this.kills < kills && !signal.aborted) {
      // One is killed every second or so, whichever it is; alone, it gets the time to come back.
      await pause(chance.between(500, 1_500));
      if (this.progress > this.purchased + MAX_AHEAD) continue;
      if (workers > 1 && chance.chance(WORKERS_SHARE)) {
        await replicas.killWorker(chance);
        continue;
      }
      const revival = replicas.killOne(chance).finally(() => reviving.delete(revival));
      reviving.add(revival);
      if (replicas.sites.length === 1) await revival;
      if (this.restarts < Math.floor(storeRestarts * this.progress)) {
        this.restarts += 1;
        await postgres?.restart();
      }
    }
    await Promise.all(reviving);
  }
}

interface Shopping {
  readonly options: ChaosOptions;
  readonly trouble: Trouble;
  readonly signal: AbortSignal;
}

/** So many customers at once; they come no faster than the trouble does. */
async function shopAll(
  purchases: readonly Purchase[],
  payers: readonly FreshAccount[],
  market: Market,
  { options, trouble, signal }: Shopping,
): Promise<void> {
  let next = 0;
  let done = 0;
  const report = setInterval(() => {
    options.say(
      `${done} of ${purchases.length} purchases over, trouble ${trouble.progress.toFixed(2)}`,
    );
  }, 5_000);
  const customer = async (): Promise<void> => {
    while (!signal.aborted) {
      const ahead = next / purchases.length - trouble.progress;
      if (ahead > MAX_AHEAD) {
        await pause(100);
        continue;
      }
      const purchase = purchases[next];
      if (purchase === undefined) return;
      next += 1;
      await shopFor(purchase, payerOf(payers, purchase), market, signal);
      done += 1;
      trouble.purchased = done / purchases.length;
    }
  };
  await Promise.all(Array.from({ length: CUSTOMERS_AT_ONCE }, customer));
  clearInterval(report);
}

function shopFor(purchase: Purchase, ...rest: Tail<Parameters<typeof buy>>): Promise<void> {
  return purchase.isStock ? buyAnew(purchase, ...rest) : buy(purchase, ...rest);
}

type Tail<Parameters> = Parameters extends readonly [unknown, ...infer Rest] ? Rest : never;

/** By the nonces of their payments. */
function itemsOf(purchases: readonly Purchase[]): (nonce: string) => string | undefined {
  return (nonce) =>
    purchases.find(({ payments }) => payments.some((each) => each.nonce.toLowerCase() === nonce))
      ?.item;
}

interface Troubled {
  readonly replicas: Replicas;
  readonly shop: Shop;
  readonly rpc: FaultyRpc;
}

function troubleCounts(
  { restarts }: Trouble,
  { replicas, shop, rpc }: Troubled,
): Record<string, number> {
  return {
    "kill -9": replicas.kills,
    "kill -9 of workers": replicas.workerKills,
    "restarts of PostgreSQL": restarts,
    "upstream executions": shop.executions.length,
    "places of customers": new Set(shop.executions.map(({ client }) => client)).size,
    "upstream failures": shop.failures,
    ...Object.fromEntries(Object.entries(rpc.counts).map(([name, n]) => [`RPC ${name}`, n])),
  };
}

function thiefCounts({ answers: answered, payments, shows }: Thief): Record<string, number> {
  const answers = Object.entries(answered).map(([status, n]) => [`thief's ${status}`, n]);
  return {
    "payments that the thief saw": payments,
    "thief's shows": shows,
    ...Object.fromEntries(answers),
  };
}

function payerOf(payers: readonly FreshAccount[], { item }: Purchase): FreshAccount {
  const payer = payers[Number(item) % payers.length];
  if (payer === undefined) throw new Error("there are no payers");
  return payer;
}

/** Until no gateway knows of an unresolved settlement or of a refund that is under way. */
export async function settled(
  chain: Chain,
  replicas: Replicas,
  signal: AbortSignal,
): Promise<void> {
  const urls = replicas.sites.map(({ adminUrl }) => `${adminUrl}/metrics`);
  while (!signal.aborted) {
    // What is paid back has to be final.
    await chain.mine();
    const pages = await Promise.all(urls.map(async (url) => (await fetch(url)).text()));
    const open = pages.flatMap((page) => [...page.matchAll(UNDER_WAY)]);
    if (open.length > 0 && open.every(([, count]) => count === "0")) return;
    await pause(500);
  }
}

async function readBooks(
  ledger: Ledger,
  signers: readonly FreshAccount[],
  network: string,
): Promise<{
  accounts: { address: FreshAccount["address"]; stored: number | undefined }[];
  listedUndelivered: ReadonlySet<string>;
  refunds: ReadonlyMap<string, AskedRefund>;
  historyOf: (nonce: string) => Promise<readonly string[]>;
}> {
  const accounts = [];
  for (const { address } of signers) {
    accounts.push({ address, stored: await ledger.signing.nextAccountNonce(network, address) });
  }
  const listed = await ledger.books.list({ undelivered: true, limit: 10_000 });
  const listedUndelivered = new Set(listed.map(({ key }) => key.split("/").at(-1) ?? ""));
  const all = await ledger.books.list({ limit: 1_000_000 });
  const refunds = new Map(
    all.flatMap(({ key, payer, refund }) =>
      refund === null
        ? []
        : [[key.split("/").at(-1) ?? "", { payer, state: refund.state }] as const],
    ),
  );
  const historyOf = async (nonce: string): Promise<readonly string[]> => {
    const detail = await ledger.books.show(nonce);
    const lines = detail?.events.map(({ atMs, state, note, by }) => {
      return `${new Date(atMs).toISOString()} ${state} by ${by}: ${note}`;
    });
    return [`payment ${nonce}`, ...(lines ?? ["the ledger has none"])];
  };
  return { accounts, listedUndelivered, refunds, historyOf };
}

function openLedger(store: string): Promise<Ledger> {
  const common = { time: systemTime, life: "audit" };
  if (store.startsWith("sqlite:")) {
    return openSqliteLedger({ ...common, path: store.slice("sqlite:".length) });
  }
  return openPostgresLedger({
    ...common,
    url: store,
    logger: createLogger({ level: "error", format: "json" }),
  });
}

function deliveredIn(purchases: readonly Purchase[]): Record<string, number> {
  const delivered = purchases.filter((each) => each.delivered);
  return Object.fromEntries(
    VERSIONS.map((version) => {
      const own = delivered.filter((each) => each.version === version);
      return [`delivered in version ${version}`, own.length];
    }),
  );
}

function answersOf(purchases: readonly Purchase[]): Record<string, number> {
  const names: Record<string, string> = { "-1": "abandoned by the customer", 0: "broken" };
  const counts: Record<string, number> = {};
  for (const { answers } of purchases) {
    for (const [status, count] of Object.entries(answers)) {
      const name = `answers ${names[status] ?? status}`;
      counts[name] = (counts[name] ?? 0) + count;
    }
  }
  return counts;
}

/** With a thief: the two ways to have several paywalls before one ledger. */
export function runsOf(options: ChaosOptions): readonly [string, ChaosOptions][] {
  const { replicas, thief } = options;
  if (!thief) return [["chaos", options]];
  return [
    ["a thief at two workers on SQLite", { ...options, workers: 2, replicas: 1, store: "sqlite" }],
    [
      "a thief at three replicas on PostgreSQL",
      { ...options, workers: 1, replicas: Math.max(replicas, 3), store: "postgres" },
    ],
  ];
}
