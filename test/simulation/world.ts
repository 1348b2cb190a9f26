/**
 * One simulated world: the real paywall, facilitator and recovery in one life or several, on a ledger of
 * `stores.ts`, a simulated chain and virtual time. It runs with faults, then quietly, and is then audited.
 */
import type { PaymentEvent } from "../../src/ledger/books.ts";
import type { Ledger } from "../../src/ledger/ledger.ts";
import { isOf } from "../../src/ledger/life.ts";
import { inContext } from "../../src/telemetry/request-context.ts";
import type { PaymentKey } from "../../src/x402/payment-key.ts";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import type { MemoryStore } from "../support/memory-ledger.ts";
import { audit } from "./audit.ts";
import { startBuyers } from "./buyers.ts";
import { SimulatedChain, type Action, type ChainTransaction } from "./chain.ts";
import { Boundary, type Fault, type FaultPlan } from "./faults.ts";
import type { Answer, Asked, UpstreamMood } from "./front.ts";
import { Gateway } from "./gateway.ts";
import { Journal, type Purchase, type Violation } from "./journal.ts";
import {
  forge,
  payerNamed,
  payerOf,
  PRICE,
  requirementsOf,
  signPayment,
  type SimulatedPayment,
} from "./payments.ts";
import type { Profile } from "./profile.ts";
import { Random } from "./random.ts";
import { MemoryWorldStore, SqliteWorldStore, type WorldStore } from "./stores.ts";
import { FINAL_BLOCKS, type NodeFaults } from "./simulated-mechanism.ts";
import { startThief, THIEF } from "./thief.ts";
import { VirtualTime, type Life } from "./virtual-time.ts";

const START_MS = 1_750_000_000_000;
/** How long faults happen, and how long buyers go on after them, milliseconds. */
const FAULTY_MS = 60_000;
const BUYING_MS = 40_000;
/** How long a round of recovery, and what it leads to, may take beyond the last deadline, milliseconds. */
const SLACK_MS = 60_000;
/** How often it is looked whether the end has come, milliseconds. */
const STEP_MS = 5_000;
/** The account nonce of each account of ours before the world begins. */
const FIRST_NONCE = 7;

export interface WorldOptions {
  readonly seed: number;
  readonly profile: Profile;
  /** Instead of the faults that the seed would draw. */
  readonly plan?: FaultPlan;
  readonly trace?: (line: string) => void;
}

export interface Outcome {
  readonly violations: readonly Violation[];
  /** Calls that crossed a boundary while faults happened. */
  readonly crossings: number;
  readonly charged: number;
  readonly delivered: number;
  readonly crashes: number;
}

interface Call {
  readonly life: Life;
  readonly end: (answer: Answer) => boolean;
}

interface Replica {
  readonly number: number;
  readonly accounts: readonly string[];
  lives: number;
  /** When the last of its lives ended. */
  diedMs: number;
  gateway: Gateway | null;
}

export class World {
  readonly profile: Profile;
  readonly random: Random;
  readonly time: VirtualTime;
  readonly chain: SimulatedChain;
  readonly journal: Journal;
  readonly requirements: PaymentRequirements;
  /** Whether buyers still begin anything. */
  isOpen = true;
  crashes = 0;
  readonly #options: WorldOptions;
  readonly #stored: WorldStore;
  readonly #boundary: Boundary;
  readonly #nodeFaults: NodeFaults;
  readonly #mood: UpstreamMood;
  readonly #replicas: readonly Replica[];
  readonly #calls = new Set<Call>();
  readonly #trace: ((line: string) => void) | undefined;
  #isCalm = false;
  #numbers = 0;

  constructor(options: WorldOptions) {
    const { seed, profile, trace } = options;
    this.#options = options;
    this.profile = profile;
    this.random = new Random(seed);
    this.time = new VirtualTime(START_MS, this.random.fork());
    this.#trace =
      trace && ((line) => trace(`${((this.time.nowMs - START_MS) / 1000).toFixed(3)} ${line}`));
    const tell = this.#trace ?? (() => undefined);
    this.chain = new SimulatedChain({
      time: this.time,
      random: this.random.fork(),
      blockMs: profile.blockMs,
      firstNonce: FIRST_NONCE,
      leavingBehind: profile.leavingBehind,
      trace: tell,
    });
    this.#stored = profile.accounts.length > 1 ? new MemoryWorldStore() : new SqliteWorldStore();
    this.journal = new Journal(this.store, this.time, tell);
    this.requirements = requirementsOf(profile.maxTimeoutSeconds);
    const { staleBlocks, losing, lying } = profile;
    this.#nodeFaults = { staleBlocks, losing, lying };
    const { refusing, upstreamFailing, large, leaving, leading, repeats, isAfter } = profile;
    this.#mood = { refusing, failing: upstreamFailing, large, leaving, leading, repeats, isAfter };
    this.#boundary = new Boundary({
      time: this.time,
      random: this.random.fork(),
      plan: { at: (crossing, name) => this.#faultAt(crossing, name) },
      crash: (life) => this.#crash(life),
      trace: tell,
    });
    this.#replicas = profile.accounts.map((accounts, number) => ({
      number,
      accounts,
      lives: 0,
      diedMs: START_MS,
      gateway: null,
    }));
  }

  /** What everybody sees of the payments. */
  get store(): MemoryStore {
    return this.#stored.seen;
  }

  /** Calls that went wrong. */
  get faults(): number {
    return this.#boundary.faults;
  }

  async run(): Promise<Outcome> {
    const { profile, time, chain, journal } = this;
    const { payments, payers } = profile;
    for (let payer = 0; payer < payers; payer += 1) {
      const wanted = Math.ceil((payments * 2) / payers);
      const isPoor = this.random.chance(profile.poverty);
      const least = Math.ceil((payments - payer) / payers);
      const few = this.random.chance(profile.hostile) ? Math.ceil(wanted / 3) : wanted;
      const most = isPoor ? least : few;
      chain.endow(payerNamed(payer), PRICE * BigInt(most));
    }
    for (const replica of this.#replicas) this.#start(replica);
    let areDone = false;
    void startBuyers(this).finally(() => {
      areDone = true;
    });
    startThief(this);
    this.#disturb();
    await time.run(START_MS + FAULTY_MS);
    const { crossings } = this.#boundary;
    this.#calm();
    await this.#runUntil(START_MS + FAULTY_MS + BUYING_MS, () => areDone);
    this.isOpen = false;
    const finalMs = (FINAL_BLOCKS + profile.confirmations) * profile.blockMs;
    const lastMs = time.nowMs + profile.maxTimeoutSeconds * 1000 + finalMs + SLACK_MS;
    await this.#runUntil(lastMs, () => this.#isAtRest());
    await audit(this);
    this.#stored.close();
    return {
      violations: journal.violations,
      crossings,
      charged: [...journal.payments.values()].filter((each) => this.isCharged(each)).length,
      delivered: journal.deliveries.size,
      crashes: this.crashes,
    };
  }

  isCharged({ authorization }: SimulatedPayment): boolean {
    return this.chain.use(authorization, this.chain.head)?.kind === "paid";
  }

  purchase(payer: number): Purchase {
    const purchase: Purchase = { payer, payments: [], targets: new Set(), isServed: false };
    this.journal.purchases.push(purchase);
    return purchase;
  }

  sign({ payer, payments }: Purchase): SimulatedPayment {
    this.#numbers += 1;
    const number = this.#numbers;
    const { requirements } = this;
    const payment = signPayment({ payer, number, nowMs: this.time.nowMs, requirements });
    this.journal.signed(payment);
    payments.push(payment);
    return payment;
  }

  /** A payment like that one, of the same payer. */
  signAgain(like: SimulatedPayment): SimulatedPayment {
    const payment = this.#signLike(like);
    this.journal.signed(payment);
    return payment;
  }

  /** Another payment in the name of that one's payer, who has not signed it. */
  forgeAnother(like: SimulatedPayment): SimulatedPayment {
    return forge(this.#signLike(like));
  }

  #signLike({ authorization: { from } }: SimulatedPayment): SimulatedPayment {
    this.#numbers += 1;
    const { requirements, time } = this;
    const ofPayer = { payer: payerOf(from), number: this.#numbers };
    return signPayment({ ...ofPayer, nowMs: time.nowMs, requirements });
  }

  /** A transaction of somebody else, who makes no other. */
  readonly name = (who: string, action: Action): ChainTransaction => {
    this.#numbers += 1;
    const account = `${who} ${this.#numbers}`;
    return {
      id: `0x${account.replace(" ", "-")}`,
      account,
      nonce: FIRST_NONCE,
      fee: 1_000_000,
      actions: [action],
    };
  };

  /** The lives that requests can be sent to. */
  get doors(): readonly string[] {
    return this.#replicas.flatMap(({ gateway }) => gateway?.doors.map(({ life }) => life.id) ?? []);
  }

  /**
   * Sends a request to some life, or to one that is that or within it; the buyer leaves when the patience (ms)
   * is over.
   */
  send(
    { payment, path, target, client }: Pick<Asked, "payment" | "path" | "target" | "client">,
    patienceMs: number,
    to?: string,
  ): Promise<Answer> {
    const { time, random } = this;
    return new Promise((resolve) => {
      const up = this.#replicas
        .flatMap(({ gateway }) => gateway?.doors ?? [])
        .filter(({ life }) => to === undefined || isOf(life.id, to));
      const { life, front } = up[random.between(0, up.length - 1)] ?? {};
      let isOver = false;
      const isBuyers = client !== THIEF && this.journal.isGenuine(payment);
      const facts = isBuyers ? this.journal.shown(payment) : null;
      const end = (answer: Answer): boolean => {
        if (isOver) return false;
        isOver = true;
        facts?.end();
        resolve(answer);
        return true;
      };
      if (life === undefined || front === undefined) {
        time.schedule(50, null, () => end({ status: "lost" }));
        return;
      }
      const call = { life, end };
      this.#calls.add(call);
      const onGone = new Set<() => void>();
      time.schedule(patienceMs, null, () => {
        if (!end({ status: "lost" })) return;
        time.schedule(random.between(0, 20), life, () => onGone.forEach((listener) => listener()));
      });
      time.schedule(random.between(0, 20), null, () => {
        if (!life.isAlive) return;
        const listen = (listener: () => void): (() => void) => {
          onGone.add(listener);
          return () => onGone.delete(listener);
        };
        const left = { isGone: () => isOver, onGone: listen };
        const asked = { payment, path, target, client, ...left, give: end };
        inContext({ facts, trace: null }, () => front.serve(asked))
          .catch((cause: unknown) => journalError(this.journal, cause))
          .finally(() => this.#calls.delete(call));
      });
    });
  }

  /** Until that time, or until it is so; looked at now and then. */
  async #runUntil(lastMs: number, isSo: () => boolean): Promise<void> {
    const { time } = this;
    while (time.nowMs < lastMs && !isSo()) {
      await time.run(Math.min(lastMs, time.nowMs + STEP_MS));
    }
  }

  /** Nothing is left that time alone would bring to an end. */
  #isAtRest(): boolean {
    const { store, chain } = this;
    const states = [...store.payments.values()].map(({ row }) => row.state);
    return (
      chain.mempool.size === 0 &&
      this.#replicas.every(({ gateway }) => gateway?.isWhole === true) &&
      states.every((state) => ["SETTLED", "DELIVERED", "FAILED"].includes(state)) &&
      [...store.submissions.values()].every(({ state }) => state === "CLOSED")
    );
  }

  #start(replica: Replica): void {
    replica.lives += 1;
    const life = { id: `${"ab"[replica.number]}${replica.lives}`, isAlive: true };
    const { diedMs } = replica;
    const onUndone = (key: PaymentKey, lost: readonly PaymentEvent[]): void =>
      this.journal.undone(key, lost, diedMs);
    void this.#stored
      .open(life, this.time, onUndone)
      .then((ledger) => this.#open(replica, life, ledger));
  }

  #open(replica: Replica, life: Life, ledger: Ledger): void {
    const { profile, random, chain, journal, requirements, time } = this;
    replica.gateway = new Gateway({
      life,
      ledger,
      accounts: replica.accounts,
      profile,
      random,
      chain,
      journal,
      requirements,
      time,
      boundary: this.#boundary,
      nodeFaults: this.#nodeFaults,
      mood: this.#mood,
      newIdempotencyKey: (life) => `key-${life.id}-${(this.#numbers += 1)}`,
      trace: this.#trace,
    });
    this.#trace?.(`${replica.gateway.life.id}: begins`);
  }

  #faultAt(crossing: number, name: string): Fault | undefined {
    if (this.#isCalm) return undefined;
    if (this.#options.plan !== undefined) return this.#options.plan.at(crossing, name);
    const { failing, crashing, mostCrashes } = this.profile;
    const drawn = this.random.next();
    if (drawn < crashing && this.crashes < mostCrashes) {
      return this.random.chance(0.5) ? "crash-before" : "crash-after";
    }
    if (drawn > 1 - failing) return this.random.pick(["fail-before", "fail-after", "slow"]);
    return undefined;
  }

  /** The others take it for dead; it goes on, and is heard of again or stopped. */
  #takeForDead(): void {
    const lives = this.#replicas.flatMap(({ gateway }) => gateway?.life ?? []);
    const alive = lives.filter(({ isAlive }) => isAlive);
    const life = alive[this.random.between(0, alive.length - 1)];
    if (this.#isCalm || life === undefined) return;
    this.#trace?.(`${life.id}: is TAKEN FOR DEAD`);
    this.store.takeForDead(life.id);
    this.time.schedule(this.random.between(0, 10_000), life, () => {
      if (!this.#isCalm && this.random.chance(0.5)) return this.#crash(life);
      this.#trace?.(`${life.id}: is heard of again`);
      this.store.revive(life.id);
    });
  }

  #crash(life: Life): void {
    if (!life.isAlive) return;
    const of = ({ gateway }: Replica): boolean =>
      gateway !== null && isOf(life.id, gateway.life.id);
    const replica = this.#replicas.find(of);
    this.crashes += 1;
    this.#trace?.(`${life.id}: DIES`);
    const downMs = this.random.between(100, 8000);
    replica?.gateway?.die(life, downMs);
    for (const call of this.#calls) {
      if (call.life.isAlive) continue;
      this.#calls.delete(call);
      call.end({ status: "lost" });
    }
    if (replica?.gateway?.life.isAlive === true) return;
    if (replica !== undefined) replica.diedMs = this.time.nowMs;
    // The others see the death before the next life begins, or only then.
    this.time.schedule(this.random.between(0, downMs), null, () => this.store.kill(life.id));
    this.time.schedule(downMs, null, () => {
      this.store.kill(life.id);
      if (replica !== undefined) this.#start(replica);
    });
  }

  #disturb(): void {
    const { profile, time, random, chain } = this;
    for (let count = 0; count < profile.presumptions; count += 1) {
      time.schedule(random.between(0, FAULTY_MS), null, () => this.#takeForDead());
    }
    for (let count = 0; count < profile.reorganizations; count += 1) {
      time.schedule(random.between(2000, FAULTY_MS), null, () => {
        chain.reorganize(random.between(1, 4));
      });
    }
    for (let count = 0; count < profile.feeSpikes; count += 1) {
      const atMs = random.between(0, FAULTY_MS / 2);
      const fee = random.between(150, 2000);
      time.schedule(atMs, null, () => (chain.baseFee = fee));
      time.schedule(atMs + random.between(3000, 25_000), null, () => (chain.baseFee = 100));
    }
  }

  /** From here on nothing goes wrong any more. */
  #calm(): void {
    this.#isCalm = true;
    this.chain.isCalm = true;
    this.chain.baseFee = 100;
    Object.assign(this.#nodeFaults, { staleBlocks: 0, losing: 0, lying: 0 });
    Object.assign(this.#mood, { refusing: 0, failing: 0, leaving: 0, leading: 0 });
  }
}

function journalError(journal: Journal, cause: unknown): void {
  const said = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
  journal.violated("error", said);
}
