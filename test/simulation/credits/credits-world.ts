/**
 * Balances that several workers of one process spend at once, on the SQLite store that is shipped, with simulated time:
 * workers and processes die, are drained, or are taken for dead; questions fail before and after they were done, or are done
 * long after they were given up. Each life's debits have routes of their own, so that the books say of each what it has
 * written. What is unspent is paid back meanwhile, by transfers that a chain moves or never does (`refunded-credits.ts`).
 */
import { LedgerUnavailable, type Ledger, type WorkerLife } from "../../../src/ledger/ledger.ts";
import { creditsPot, type Pots } from "../../../src/ledger/pots.ts";
import { sqliteLedgerOn } from "../../../src/ledger/sqlite/sqlite.ts";
import { DURABLE, SqliteDatabase } from "../../../src/ledger/sqlite/sqlite-database.ts";
import { migrate } from "../../../src/ledger/sqlite/sqlite-schema.ts";
import { PotLeases, PotShare } from "../../../src/payments/credits/pot-leases.ts";
import { networkOf } from "../../../src/x402/network.ts";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";
import { examplePayment } from "../../unit/ledger/example-payment.ts";
import { termsOf } from "../../unit/ledger/ledger-driver.ts";
import { Random } from "../random.ts";
import { RefundedCredits } from "./refunded-credits.ts";
import { silentTelemetry } from "../silent-telemetry.ts";
import { timersOf } from "../stores.ts";
import { LifeTime, VirtualTime, type Life } from "../virtual-time.ts";

const START_MS = 1_700_000_000_000;
/** How long buyers come, and how long after that everything is over, milliseconds. */
const BUSY_MS = 20_000;
const CALM_MS = 30_000;
const LOOK_MS = 50;

const { logger } = silentTelemetry(undefined);

export interface CreditsProfile {
  readonly seed: number;
  /** Chances: of a question to fail, of a life to end within a second, and how. */
  readonly faults: number;
  readonly ends: number;
  readonly outages: number;
  readonly buyers: number;
  readonly workers: number;
  readonly customers: number;
  readonly atRisk: bigint;
}

export function creditsProfileOf(seed: number): CreditsProfile {
  const random = new Random(seed);
  return {
    seed,
    faults: random.pick([0, 0, 0.02, 0.1]),
    ends: random.pick([0, 0.1, 0.4]),
    buyers: random.between(1, 6),
    workers: random.between(1, 4),
    customers: random.between(1, 30),
    atRisk: random.pick([0n, 20n, 200n, 5_000n]),
    outages: random.pick([0, 0, 0.3]),
  };
}

/** A worker as this world knows it. */
interface Worker {
  readonly life: Life;
  readonly ledger: WorkerLife;
  readonly leases: PotLeases;
  /** Requests that it has under way. */
  under: number;
  isClosed: boolean;
}

/** What requests cost at most, the cheapest first. */
const PRICES = [1n, 7n, 40n, 300n] as const;

/** `crashed`: died with whatever it had not written; else all of it has to be in the books. */
type Fate = "ended" | "crashed";

export class CreditsWorld {
  readonly violations: string[] = [];
  answered = 0;
  crashes = 0;
  refused = 0;
  readonly #profile: CreditsProfile;
  readonly #random: Random;
  readonly #refunds: RefundedCredits;
  readonly #time: VirtualTime;
  readonly #database = new SqliteDatabase(":memory:");
  /** What requests have used by a life of one pot, whatever became of the life. */
  readonly #answered = new Map<string, bigint>();
  readonly #fates = new Map<string, Fate>();
  /** By payment: how far the chain and its buyer are. */
  readonly #sold = new Map<number, bigint>();
  #names = 0;
  #outageEndMs = 0;
  #process: Life = { id: "", isAlive: false };
  #ledger: Ledger | undefined;
  #workers: Worker[] = [];
  /** Those that are not asked any more, and die with their process. */
  readonly #leaving: Worker[] = [];

  constructor(profile: CreditsProfile) {
    this.#profile = profile;
    this.#random = new Random(profile.seed);
    this.#time = new VirtualTime(START_MS, this.#random.fork());
    this.#database.exec(DURABLE);
    migrate(this.#database);
    this.#refunds = new RefundedCredits({
      database: this.#database,
      // Of its own: what buyers and workers do is the same with refunds as without.
      random: new Random(profile.seed + 1_000_000),
      ledger: () => (this.#process.isAlive ? this.#ledger : undefined),
      tell: (what) => this.#tell(what),
    });
  }

  get refunded(): number {
    return this.#refunds.moved;
  }

  async run(): Promise<this> {
    const { customers } = this.#profile;
    this.#in(0, () => this.#begin());
    for (let customer = 0; customer < customers; customer += 1)
      this.#visitAgain(this.#random.fork());
    this.#sellAgain();
    this.#again(LOOK_MS, () => this.#look());
    this.#again(1_000, () => this.#endSomebody());
    this.#again(4_000, () => {
      const { outages } = this.#profile;
      const isAway = outages > 0 && this.#random.chance(outages);
      if (isAway) this.#outageEndMs = this.#time.nowMs + this.#random.between(500, 9_000);
    });
    this.#again(1_000, () => void this.#ledger?.upkeep.reap().catch(() => undefined));
    this.#again(600, () => this.#refunds.ask());
    this.#again(200, () => this.#refunds.send());
    await this.#time.run(START_MS + BUSY_MS);
    for (const worker of this.#workers) this.#drain(worker);
    await this.#time.run(START_MS + BUSY_MS + CALM_MS);
    await this.#refunds.finish((ms) => this.#time.run(this.#time.nowMs + ms));
    this.#look();
    await this.#judge();
    this.#database.close();
    return this;
  }

  get #isBusy(): boolean {
    return this.#time.nowMs < START_MS + BUSY_MS;
  }

  #in(ms: number, run: () => unknown): void {
    this.#time.schedule(ms, null, () => void run());
  }

  /** As long as buyers come. */
  #again(ms: number, run: () => unknown): void {
    this.#in(ms, () => {
      run();
      if (this.#isBusy) this.#again(ms, run);
    });
  }

  async #begin(): Promise<void> {
    this.#names += 1;
    const life = { id: `process ${this.#names}`, isAlive: true };
    this.#process = life;
    const ledger = sqliteLedgerOn(this.#database, {
      path: "simulated",
      life: life.id,
      time: new LifeTime(this.#time, life),
      timers: timersOf(this.#time, life),
    });
    await ledger.upkeep.reap();
    this.#ledger = ledger;
    for (let number = 0; number < this.#profile.workers; number += 1) this.#fork();
  }

  #fork(): void {
    const ledger = this.#ledger;
    if (ledger === undefined) return;
    this.#names += 1;
    const name = `w${this.#names}`;
    const life: Life = { id: `${this.#process.id}/${name}`, isAlive: true };
    const own = ledger.worker(name);
    const leases = new PotLeases({
      pots: this.#behindAChannel(own.pots, life, () => worker.isClosed),
      atRisk: () => this.#profile.atRisk,
      time: new LifeTime(this.#time, life),
      logger,
    });
    const worker: Worker = { life, ledger: own, leases, under: 0, isClosed: false };
    this.#workers.push(worker);
  }

  /** What a worker says takes its time, and what it hears of it may be nothing. */
  #behindAChannel(pots: Pots, life: Life, isClosed: () => boolean): Pick<Pots, "draw"> {
    const process = this.#process;
    const way = (whose: Life): Promise<void> => this.#time.pause(this.#random.between(0, 4), whose);
    return {
      draw: async (draws) => {
        await way(process);
        if (isClosed()) throw new LedgerUnavailable("this worker is taken for dead");
        if (this.#time.nowMs < this.#outageEndMs) {
          await this.#time.pause(this.#random.between(1, 700), life);
          if (this.#random.chance(0.3)) await pots.draw(draws);
          throw new LedgerUnavailable("the database is away");
        }
        if (!this.#random.chance(this.#profile.faults)) {
          const drawn = await pots.draw(draws);
          await way(life);
          return drawn;
        }
        const fault = new LedgerUnavailable("the database did not answer");
        if (this.#random.chance(0.4)) throw fault;
        if (this.#random.chance(0.5)) await pots.draw(draws);
        // Given up, and done nevertheless, when others have been asked since.
        else this.#later(process, () => pots.draw(draws));
        await way(life);
        throw fault;
      },
    };
  }

  #later(life: Life, run: () => Promise<unknown>): void {
    const late = (): void => void run().catch(() => undefined);
    this.#time.schedule(this.#random.between(1, 600), life, late);
  }

  /** Payments that buy a balance, settled again by each life that finds them so on the chain. */
  #sellAgain(): void {
    if (!this.#isBusy) return;
    this.#in(this.#random.between(1, 1_500), () => {
      const number = this.#sold.size + 1;
      const buyer = this.#random.between(1, this.#profile.buyers);
      this.#sold.set(number, BigInt(this.#random.pick([1, 50, 1_000, 10_000])));
      void this.#settle(number, buyer, number);
      this.#sellAgain();
    });
  }

  async #settle(number: number, buyer: number, paid: number): Promise<void> {
    const amount = this.#sold.get(paid) ?? 0n;
    const { key, request } = examplePayment(number);
    const fills = { pot: potOf(buyer), amount };
    const terms = termsOf({ request }, { idempotencyKey: key, fills, route: "packs" });
    const payer = request.paymentRequirements.payTo;
    const settlement = { transaction: `0x${number}`, network: "base-sepolia", payer };
    // Twice, as one that is looked at by two watches; and a while later, when a crash may have undone it.
    for (let times = 0; times < 6; times += 1) {
      const ledger = this.#ledger;
      const life = this.#process;
      try {
        if (ledger === undefined || !life.isAlive) throw new Error("nobody is there");
        await ledger.step(key, { kind: "claim", terms });
        await Promise.all([1, 2].map(() => ledger.step(key, { kind: "settled", settlement })));
        // A step that waits for the disk has no end where its process dies.
        void this.#deliver(ledger, key).catch(() => undefined);
      } catch {
        // The next life does it.
      }
      await this.#time.pause(this.#random.between(1, 1_000) + times * 2_000, null);
    }
  }

  async #deliver(ledger: Ledger, key: PaymentKey): Promise<void> {
    if (await ledger.step(key, { kind: "delivering" }))
      await ledger.step(key, { kind: "delivered" });
    this.#refunds.bought.add(key);
  }

  #visitAgain(random: Random): void {
    if (!this.#isBusy) return;
    this.#in(random.between(1, 400), () => {
      void this.#visit(random);
      this.#visitAgain(random);
    });
  }

  async #visit(random: Random): Promise<void> {
    const open = this.#workers.filter(({ life, isClosed }) => life.isAlive && !isClosed);
    const worker = open[random.between(0, Math.max(0, open.length - 1))];
    if (worker === undefined) return;
    const pot = potOf(random.between(1, this.#profile.buyers));
    const max = random.pick(PRICES);
    const used = random.chance(0.2) ? 0n : random.chance(0.5) ? max : (max + 1n) / 3n;
    const lasts = random.pick([0, 3, 50, 900]);
    const reserved = await worker.leases.reserve(pot, { max });
    if (!worker.life.isAlive) return;
    if (!(reserved instanceof PotShare)) {
      this.refused += 1;
      return;
    }
    worker.under += 1;
    await this.#time.pause(lasts, worker.life);
    // Nobody is answered any more by who died meanwhile.
    if (!worker.life.isAlive) return;
    worker.under -= 1;
    const name = routeOf(worker.life.id, pot);
    this.#answered.set(name, (this.#answered.get(name) ?? 0n) + used);
    this.answered += 1;
    const { atRisk } = worker.leases;
    if (atRisk > this.#mostAtRisk) this.#tell(`${worker.life.id} risks ${atRisk}`);
    const isDebited = reserved.settle(used, name);
    if (!isDebited && this.#fates.get(worker.life.id) !== "crashed")
      this.#tell(`${worker.life.id} has answered for nothing`);
  }

  /** One request alone may be more than the risk. */
  get #mostAtRisk(): bigint {
    const [dearest = 0n] = PRICES.toReversed();
    return this.#profile.atRisk > dearest ? this.#profile.atRisk : dearest;
  }

  #endSomebody(): void {
    if (!this.#random.chance(this.#profile.ends) || !this.#process.isAlive) return;
    const worker = this.#workers[this.#random.between(0, this.#workers.length - 1)];
    const way = this.#random.pick(["process", "worker", "drain", "taken for dead"] as const);
    if (way === "process") this.#crash();
    else if (worker === undefined || !worker.life.isAlive) return;
    else if (way === "drain") this.#drain(worker);
    else this.#lose(worker, way === "worker");
  }

  #crash(): void {
    this.crashes += 1;
    this.#process.isAlive = false;
    this.#ledger = undefined;
    for (const { life } of [...this.#workers, ...this.#leaving]) {
      if (this.#fates.get(life.id) !== "ended") this.#fates.set(life.id, "crashed");
      life.isAlive = false;
    }
    this.#workers = [];
    this.#in(this.#random.between(1, 800), () => this.#begin());
  }

  /** Dead, or only taken for it and closed a while later: what it had is given back while it may go on. */
  #lose(worker: Worker, isDead: boolean): void {
    this.crashes += 1;
    this.#fates.set(worker.life.id, "crashed");
    if (isDead) worker.life.isAlive = false;
    const process = this.#process;
    this.#time.schedule(this.#random.between(0, 20), process, () => {
      worker.isClosed = true;
      void worker.ledger.end(new Set());
    });
    this.#replace(worker);
    if (!isDead) this.#time.schedule(3_000, null, () => (worker.life.isAlive = false));
  }

  #drain(worker: Worker): void {
    if (!worker.life.isAlive || this.#fates.has(worker.life.id)) return;
    const process = this.#process;
    const end = async (): Promise<void> => {
      await worker.leases.drain();
      while (worker.under > 0) await this.#time.pause(20, worker.life);
      await worker.leases.drain();
      this.#fates.set(worker.life.id, "ended");
      worker.life.isAlive = false;
      this.#time.schedule(0, process, () => void worker.ledger.end(new Set()));
    };
    void end();
    if (this.#isBusy) this.#replace(worker);
  }

  #replace(worker: Worker): void {
    this.#workers = this.#workers.filter((each) => each !== worker);
    this.#leaving.push(worker);
    this.#time.schedule(this.#random.between(1, 200), this.#process, () => this.#fork());
  }

  /** What came in is what was used and what is there, of each pot, at any moment; and no lease is more than its pot. */
  #look(): void {
    const sums = this.#database.get(
      `SELECT (SELECT coalesce(sum(CAST(amount AS INTEGER)), 0) FROM pot_fills) AS "bought",
         (SELECT coalesce(sum(CAST(amount AS INTEGER)), 0) FROM closed_entries
           WHERE kind = 'credits bought' AND route = 'packs') AS "booked",
         (SELECT coalesce(sum(CAST(amount AS INTEGER)), 0) FROM closed_entries
           WHERE kind = 'credits bought' AND route <> 'packs') AS "returned",
         (SELECT coalesce(sum(CAST(amount AS INTEGER)), 0) FROM closed_entries WHERE kind = 'credits used') AS "used",
         (SELECT coalesce(sum(CAST(free AS INTEGER)), 0) FROM pots) AS "free",
         (SELECT coalesce(sum(CAST(leased AS INTEGER)), 0) FROM pots) AS "leased",
         (SELECT coalesce(sum(CAST(amount AS INTEGER)), 0) FROM closed_entries
           WHERE kind = 'credits refunded') AS "taken",
         (SELECT coalesce(sum(CAST(json_extract(refund, '$.ofCredits.creditsAtomic') AS INTEGER)), 0) FROM payments
           WHERE refund_state IS NOT NULL) AS "refunding",
         (SELECT coalesce(sum(CAST(held AS INTEGER)), 0) FROM pot_leases) AS "held"`,
      [],
    );
    const { bought, booked, returned, used, taken, refunding, free, leased, held } = sums ?? {};
    const left = Number(free) + Number(leased);
    const isRight =
      // What could not be sent has come back, and is bought again in the books.
      Number(booked) - Number(bought) === Number(taken) - Number(refunding) &&
      Number(bought) === Number(used) - Number(returned) + Number(refunding) + left;
    if (!isRight || leased !== held) this.#tell(`the books: ${JSON.stringify(sums)}`);
  }

  async #judge(): Promise<void> {
    const written = new Map<string, bigint>();
    const rows = this.#database.all(
      `SELECT route, sum(CAST(amount AS INTEGER)) AS n
       FROM closed_entries WHERE kind = 'credits used' GROUP BY route`,
      [],
    );
    for (const { route, n } of rows) written.set(String(route), BigInt(String(n)));
    const losses = new Map<string, bigint>();
    for (const [name, answered] of this.#answered) {
      const [life = ""] = name.split(" credits/");
      const used = written.get(name) ?? 0n;
      if (used > answered) this.#tell(`${name}: debited ${used}, answered ${answered}`);
      const lost = answered - used;
      if (lost > 0n) losses.set(life, (losses.get(life) ?? 0n) + lost);
    }
    for (const [life, lost] of losses) {
      const most = this.#fates.get(life) === "crashed" ? this.#mostAtRisk : 0n;
      if (lost > most)
        this.#tell(`${life} (${this.#fates.get(life)}) has lost ${lost}, at most ${most}`);
    }
    const bought = [...this.#sold.values()].reduce((sum, amount) => sum + amount, 0n);
    const filled = this.#database.get(
      "SELECT sum(CAST(amount AS INTEGER)) AS n FROM pot_fills",
      [],
    );
    if (BigInt(String(filled?.n ?? 0)) !== bought)
      this.#tell(`bought ${bought}, there ${String(filled?.n)}`);
    await this.#spendTheRest();
  }

  /** Whatever happened before, who comes last may use all that is left, in one request. */
  async #spendTheRest(): Promise<void> {
    if (!this.#process.isAlive) await this.#begin();
    await this.#time.run(this.#time.nowMs + 2_000);
    const life: Life = { id: "the last", isAlive: true };
    const pots = this.#ledger?.pots;
    if (pots === undefined) return this.#tell("there is no ledger");
    const leases = new PotLeases({
      pots,
      atRisk: () => 1n << 64n,
      time: new LifeTime(this.#time, life),
      logger,
    });
    for (let buyer = 1; buyer <= this.#profile.buyers; buyer += 1) {
      const pot = potOf(buyer);
      const { free = 0n, leased = 0n } = (await pots.balances([pot])).get(pot) ?? {};
      if (free + leased === 0n) continue;
      let answer: unknown;
      const reserving = Promise.resolve(leases.reserve(pot, { max: free + leased }));
      void reserving.then((reserved) => (answer = reserved));
      await this.#time.run(this.#time.nowMs + 5_000);
      if (!(answer instanceof PotShare)) this.#tell(`${pot}: ${leased} is leased to nobody`);
    }
  }

  #tell(what: string): void {
    if (this.violations.length < 20) this.violations.push(what);
  }
}

function potOf(buyer: number): string {
  return creditsPot(networkOf("base-sepolia"), `buyer ${buyer}`);
}

function routeOf(life: string, pot: string): string {
  return `${life} ${pot}`;
}
