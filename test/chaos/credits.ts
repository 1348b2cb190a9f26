/**
 * One run of balances: many sessions spend one of them, others run empty all the time, while gateways and workers are killed and
 * ended, PostgreSQL is restarted and the node errs; then all that is left is paid back, and each amount is held against the chain.
 */
import { setTimeout as pause } from "node:timers/promises";
import { openSqliteBooks } from "../../src/ledger/sqlite/sqlite-books.ts";
import { openPostgresBooks } from "../../src/ledger/postgres/postgres.ts";
import { isBalanced } from "../../src/ledger/credit-entries.ts";
import type { Books } from "../../src/ledger/books.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { freshAccount } from "../support/payer.ts";
import { startPostgres } from "../support/postgres.ts";
import { runCoinslot } from "../support/serve.ts";
import { Random } from "../simulation/random.ts";
import { configuration, keysOf } from "./configuration.ts";
import { auditCredits } from "./credits-audit.ts";
import {
  buyChat,
  LEFT,
  newWallet,
  openSession,
  PAID_CHAT,
  show,
  spend,
  topUp,
  type Mall,
  type Stranger,
  type Wallet,
} from "./credits-buyers.ts";
import { startCreditsShop, MAX_TOKENS } from "./credits-shop.ts";
import { startFaultyRpc } from "./faulty-rpc.ts";
import { Replicas } from "./replicas.ts";
import { RPC_FAULTS, settled, type ChaosReport } from "./run.ts";

/** What each signer has for gas, the key for refunds to pay back with, and each buyer; in the smallest units. */
const GAS_MONEY = 10n ** 20n;
const FLOAT = 10n ** 10n;
const PURSE = 10n ** 9n;
const SIGNERS = 2;
/** What a process may lose when it is killed, atomic units: less than what all sessions may use at once. */
const AT_RISK = 50_000n;
/** What the many buy, and the few who are always short: dollars. */
const PACKS = ["0.5", "0.05"] as const;
const SHORT_BUYERS = 4;
const SESSIONS_EACH = 2;
/** Requests for each payment of a stranger's. */
const STRANGER_EACH = 100;
const MAX_STRANGERS = 30;
/** How far the requests may be ahead of the trouble, and the other way round: of 1. */
const MAX_AHEAD = 0.05;
/** Gateways that are on their way back at once. */
const MAX_DOWN = 2;
/** How often it is looked whether the books balance, milliseconds. */
const WATCH_MS = 500;
/** Requests of one session. */
const SESSION_USES = 100;
/** Commands that pay back at once. */
const OPERATORS = 3;
/** Longest that everything may take once nothing fails any more, and a whole run, milliseconds. */
const CALM_MS = 600_000;
const RUN_MS = 1_800_000;

export interface CreditsOptions {
  readonly requests: number;
  /** Ends of processes: each third of a gateway by SIGKILL, of a worker, and of a gateway by SIGTERM. */
  readonly kills: number;
  readonly replicas: number;
  readonly workers: number;
  readonly store: "sqlite" | "postgres";
  readonly storeRestarts: number;
  /** Of the one balance that many spend. */
  readonly sessions: number;
  readonly seed: number;
  readonly say: (line: string) => void;
  /** The gateways' main file; default: this tree's. */
  readonly main?: string;
}

export async function runCredits(options: CreditsOptions): Promise<ChaosReport> {
  const started = performance.now();
  await using stage = new AsyncDisposableStack();
  const chance = new Random(options.seed);
  options.say(`seed ${options.seed}`);
  const chain = stage.use(await startChain({ blockTime: 1 }));
  const rpc = stage.use(await startFaultyRpc(chain.rpcUrl, RPC_FAULTS, chance));
  const shop = stage.use(await startCreditsShop(chance));
  const postgres = options.store === "postgres" ? stage.use(await startPostgres()) : undefined;
  const payee = freshAccount().address;
  const signers = Array.from({ length: SIGNERS }, freshAccount);
  for (const { address } of signers) await chain.fund(address, 0n, GAS_MONEY);
  const refunder = freshAccount();
  await chain.fund(refunder.address, FLOAT);
  const people = peopleOf(options, chance);
  const { wallets, strangers } = people;
  for (const { payer } of [...wallets, ...strangers]) await chain.fund(payer.address, PURSE);
  const env = keysOf(signers, refunder);
  const places = { upstream: shop.url, rpc: rpc.url, payee };
  const { workers, replicas: count, main } = options;
  const replicas = stage.use(
    await Replicas.start({
      count,
      workers,
      yaml: configuration(chain, signers, places, { workers, sells: sellsOf(options) }),
      env,
      ...(postgres !== undefined && { store: postgres.url }),
      ...(main !== undefined && { main }),
    }),
  );
  const [site] = replicas.sites;
  if (site === undefined) throw new Error("there is no gateway");
  const books = await openBooks(site.store);
  stage.defer(() => books.close());
  const mall: Mall = { replicas, chance, tallies: new Map(), counts: {}, faults: [] };
  const run = new Run(options, mall, { postgres, books });
  const signal = AbortSignal.timeout(RUN_MS);
  await Promise.all([
    run.trouble(signal),
    run.watch(signal),
    run.spending(people, signal),
    run.refunds(wallets, { file: site.file, env }, signal),
  ]);

  rpc.calm();
  await replicas.revive();
  const calm = AbortSignal.timeout(CALM_MS);
  options.say("calm: what is open is finished");
  await finish(people, mall, calm);
  await run.untilNothingLeased(calm);
  options.say("all that is left is paid back");
  await refundAll([...wallets, ...strangers], mall, { file: site.file, env });
  await chain.mine(50);
  await untilPaidBack(books, chain, calm);
  await settled(chain, replicas, calm);
  options.say("audit");
  const codes = await replicas.stop();
  const audited = await auditCredits({
    chain,
    file: site.file,
    env,
    payee,
    refunder: refunder.address,
    signers: signers.map(({ address }) => ({ address, native: GAS_MONEY })),
    ...people,
    purse: PURSE,
    lives: replicas.lives,
    tallies: mall.tallies,
    atRisk: AT_RISK,
    creditsOf: (payer) => books.creditsOf(payer),
    ...(await owedIn(books)),
  });
  const bad = [...codes, ...run.codes].filter((code) => code !== 0);
  const violations = [
    ...audited.violations,
    ...mall.faults,
    ...bad.map((code) => `a gateway ended with ${code} after SIGTERM`),
  ];
  const counts = {
    ...audited.counts,
    "kill -9": replicas.kills,
    "kill -9 of workers": replicas.workerKills,
    "SIGTERM restarts": run.codes.length,
    "restarts of PostgreSQL": run.restarts,
    "looks at the books": run.looks,
    ...mall.counts,
    ...shop.counts,
  };
  const seconds = (performance.now() - started) / 1000;
  return { counts, violations, seconds, logs: replicas.logs };
}

interface People {
  /** The first is the one that many spend. */
  readonly wallets: readonly Wallet[];
  readonly strangers: readonly Stranger[];
}

function peopleOf({ requests }: CreditsOptions, chance: Random): People {
  const short = Array.from({ length: SHORT_BUYERS }, () => newWallet(freshAccount(), PACKS[1]));
  const wanted = Math.min(MAX_STRANGERS, Math.ceil(requests / STRANGER_EACH));
  const strangers = Array.from({ length: wanted }, (_, number): Stranger => {
    const manner = number % 2 === 0 ? "whole" : "streams";
    const order = { kind: "chat", manner, tokens: chance.between(1, MAX_TOKENS - 1) } as const;
    const isVersion2 = number % 4 < 2;
    return { payer: freshAccount(), order, isVersion2, payments: [], hasGoods: false };
  });
  return { wallets: [newWallet(freshAccount(), PACKS[0]), ...short], strangers };
}

/** Each life of each gateway has routes of its own, so that the books tell what was debited for its answers. */
function sellsOf({ replicas, kills }: CreditsOptions): string {
  const lives = Array.from({ length: replicas }, (_one, replica) =>
    // One is started anew after all that, where it has ended by itself.
    Array.from({ length: kills + 2 }, (_other, life) => `${replica}-${life}`),
  );
  const chat =
    'meter: { of: [json("usage.total_tokens"), sse("usage.total_tokens")], each: $0.00001, max: $0.01 }, description: A model';
  const routes = [...lives.flat(), LEFT].map(
    (
      place,
    ) => `  GET /lives/${place}/quotes/:id: { price: $0.001, description: A quote, credits: true }
  POST /lives/${place}/chat: { ${chat}, credits: true }
`,
  );
  return `credits: { packs: [${PACKS.map((pack) => `$${pack}`).join(", ")}], atRisk: $0.05 }
routes:
  POST ${PAID_CHAT}: { ${chat} }
${routes.join("")}`;
}

interface RunStage {
  readonly postgres: { restart(): Promise<void> } | undefined;
  readonly books: Books;
}

interface Command {
  readonly file: string;
  readonly env: Readonly<Record<string, string>>;
}

class Run {
  readonly #options: CreditsOptions;
  readonly #mall: Mall;
  readonly #stage: RunStage;
  /** Exit codes after SIGTERM. */
  readonly codes: (number | null)[] = [];
  restarts = 0;
  looks = 0;
  #ends = 0;
  #asked = 0;
  #isOver = false;

  constructor(options: CreditsOptions, mall: Mall, stage: RunStage) {
    this.#options = options;
    this.#mall = mall;
    this.#stage = stage;
  }

  get #troubled(): number {
    return this.#options.kills === 0 ? 1 : this.#ends / this.#options.kills;
  }

  get #spent(): number {
    return this.#asked / this.#options.requests;
  }

  /** Ends processes and restarts the store, evenly over the requests. */
  async trouble(signal: AbortSignal): Promise<void> {
    const { kills, storeRestarts, workers } = this.#options;
    const { chance, replicas } = this.#mall;
    const reviving = new Set<Promise<void>>();
    while (this.#ends < kills && !signal.aborted) {
      await pause(chance.between(300, 1_000));
      if (this.#troubled > this.#spent + MAX_AHEAD) continue;
      if (reviving.size >= Math.min(MAX_DOWN, replicas.sites.length)) await Promise.race(reviving);
      const way = this.#ends % 3;
      this.#ends += 1;
      if (way === 1 && workers > 1) await this.#killWorker(signal);
      else {
        const back = way === 2 ? this.#restart() : replicas.killOne(chance);
        const revival = back.finally(() => reviving.delete(revival));
        reviving.add(revival);
      }
      if (this.restarts >= Math.floor(storeRestarts * this.#troubled)) continue;
      this.restarts += 1;
      await this.#stage.postgres?.restart();
    }
    await Promise.all(reviving);
  }

  async #killWorker(signal: AbortSignal): Promise<void> {
    const { chance, replicas } = this.#mall;
    const before = replicas.workerKills;
    // One that has just been started may have none yet.
    for (; replicas.workerKills === before && !signal.aborted; await pause(50)) {
      await replicas.killWorker(chance);
    }
  }

  async #restart(): Promise<void> {
    this.codes.push(await this.#mall.replicas.restartOne(this.#mall.chance));
  }

  /** At every moment what was bought is what was used, paid back and is left. */
  async watch(signal: AbortSignal): Promise<void> {
    while (!this.#isOver && !signal.aborted) {
      const sums = await this.#stage.books.credits().catch(() => []);
      for (const sum of sums) {
        this.looks += 1;
        if (isBalanced(sum)) continue;
        const said = JSON.stringify(sum, (_, each) =>
          typeof each === "bigint" ? `${each}` : each,
        );
        this.#mall.faults.push(`the books do not balance: ${said}`);
      }
      await pause(WATCH_MS);
    }
  }

  async spending({ wallets, strangers }: People, signal: AbortSignal): Promise<void> {
    const { requests, say } = this.#options;
    const report = setInterval(() => {
      say(`${this.#asked} of ${requests} requests, trouble ${this.#troubled.toFixed(2)}`);
    }, 5_000);
    const sessions = wallets.flatMap((wallet, number) => {
      const count = number === 0 ? this.#options.sessions : SESSIONS_EACH;
      return Array.from({ length: count }, () => this.#spendAll(wallet, signal));
    });
    await Promise.all([...sessions, this.#strangers(strangers, signal)]);
    clearInterval(report);
    this.#isOver = true;
  }

  async #spendAll(wallet: Wallet, signal: AbortSignal): Promise<void> {
    let session: string | undefined;
    let uses = 0;
    while (await this.#mayGoOn(() => this.#spent, signal)) {
      // Now and then he signs in anew, at whichever gateway.
      if (session === undefined || uses % SESSION_USES === 0) {
        if (wallet.packs.length === 0) await topUp(wallet, this.#mall, signal);
        session = await openSession(wallet, this.#mall, signal);
      }
      if (session === undefined) return;
      this.#asked += 1;
      uses += 1;
      const isAsked = await spend(wallet, session, this.#mall, signal);
      if (!isAsked) this.#asked -= 1;
      await pause(this.#mall.chance.between(0, 100));
    }
  }

  async #strangers(strangers: readonly Stranger[], signal: AbortSignal): Promise<void> {
    for (const [number, stranger] of strangers.entries()) {
      const isDue = (): boolean => this.#spent >= number / strangers.length;
      while (!isDue() && !signal.aborted) await pause(50);
      await buyChat(stranger, this.#mall, signal);
    }
  }

  /** False: all requests are asked. No faster than the trouble comes. */
  async #mayGoOn(done: () => number, signal: AbortSignal): Promise<boolean> {
    while (done() < 1 && done() > this.#troubled + MAX_AHEAD && !signal.aborted) await pause(50);
    return done() < 1 && !signal.aborted;
  }

  /** In the middle of it the many get some of theirs back. */
  async refunds([many]: readonly Wallet[], command: Command, signal: AbortSignal): Promise<void> {
    for (const share of [0.4, 0.7]) {
      while (this.#spent < share && !signal.aborted) await pause(50);
      if (many === undefined) return;
      await refund(this.#mall, command, [many.payer.address, "--amount", "$0.02"]);
    }
  }

  /** No process has anything of a balance, so that all of it can be paid back. */
  async untilNothingLeased(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const sums = await this.#stage.books.credits();
      if (sums.every(({ leased }) => leased === 0n)) return;
      await pause(200);
    }
  }
}

/** What is open once nothing fails any more: payments that were not answered, and those whose answer a crash may have undone. */
async function finish(
  { wallets, strangers }: People,
  mall: Mall,
  signal: AbortSignal,
): Promise<void> {
  for (const { packs } of wallets) {
    for (const pack of packs) if (pack.state === "open") await show(pack, {}, mall, signal);
  }
  for (const stranger of strangers) await buyChat(stranger, mall, signal);
}

async function refund(mall: Mall, { file, env }: Command, words: readonly string[]): Promise<void> {
  const said = await runCoinslot(["payments", file, "--refund-credits", ...words], env);
  const name = said.code === 0 ? "refunds of balances asked for" : "refunds of balances refused";
  mall.counts[name] = (mall.counts[name] ?? 0) + 1;
}

/** What is left of each, a few at a time. */
async function refundAll(
  people: readonly Pick<Wallet, "payer">[],
  mall: Mall,
  command: Command,
): Promise<void> {
  const left = people.map(({ payer }) => payer.address);
  const operator = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      await refund(mall, command, [next]);
    }
  };
  await Promise.all(Array.from({ length: OPERATORS }, operator));
}

function openBooks(store: string): Promise<Books & { close(): Promise<void> }> {
  return store.startsWith("sqlite:")
    ? openSqliteBooks({ path: store.slice("sqlite:".length) })
    : openPostgresBooks({ url: store });
}

/** By the ledger: gauges are a moment behind, and may not know yet that anything was asked for. */
async function untilPaidBack(books: Books, chain: Chain, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await chain.mine();
    const all = await books.list({ limit: 1_000_000 });
    const isOpen = ({ refund }: (typeof all)[number]): boolean =>
      refund !== null && refund.state !== "REFUNDED" && refund.state !== "FAILED";
    if (!all.some(isOpen)) return;
    await pause(500);
  }
}

/** By authorization nonce: what was paid back as a whole, and what is paid and waits for the operator. */
async function owedIn(books: Books): Promise<{
  readonly listedUndelivered: ReadonlySet<string>;
  readonly paidBack: ReadonlySet<string>;
}> {
  const nonceOf = ({ key }: { readonly key: string }): string => key.split("/").at(-1) ?? "";
  const listed = await books.list({ undelivered: true, limit: 10_000 });
  const all = await books.list({ limit: 1_000_000 });
  const back = all.filter(({ refund, state }) => refund !== null && state !== "DELIVERED");
  return { listedUndelivered: new Set(listed.map(nonceOf)), paidBack: new Set(back.map(nonceOf)) };
}
