/**
 * Agents that buy from three sellers, each through a `coinslot mcp` of its own. Both sides die again and again. What was charged is
 * read from the chain.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startAgent, REVISIONS, type Agent } from "../support/agents/agent.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { freshAccount } from "../support/payer.ts";
import { startSellers, type Seller } from "./sellers.ts";

export interface CrowdOptions {
  readonly agents: number;
  /** Of each agent. */
  readonly calls: number;
  /** How many of an agent's calls its budgets have room for: each costs a cent. */
  readonly affordable: number;
  /** Agents at a time. */
  readonly atOnce: number;
  /** Of a hundred calls so many are made while their process is killed. */
  readonly killsInHundred: number;
  /** How often a seller is killed, evenly over the run. */
  readonly sellerKills: number;
  readonly seed: number;
}

export interface CrowdReport {
  /** Calls that brought their answer. */
  readonly answered: number;
  /** Calls that a budget has refused, in words that say so. */
  readonly refused: number;
  /** Calls that ended in anything else. */
  readonly lost: readonly string[];
  /** Charged on chain, atomic units, of all agents. */
  readonly charged: bigint;
  /** Agents that were charged more than their budget, or not once for each call that was answered. */
  readonly violations: readonly string[];
  /** Of agents' processes. */
  readonly kills: number;
  readonly sellerKills: number;
}

const CENT = 10_000n;
/** Calls that an agent makes at the same time. */
const ABREAST = 4;
/** How often a call is repeated whose process has died: each kill costs every call under way one. */
const MAX_REPETITIONS = 100;
/** A kill that is no answer to an event comes so long after its call began at the latest, milliseconds. */
const KILLED_WITHIN_MS = 150;

export async function runCrowd(options: CrowdOptions): Promise<CrowdReport> {
  const random = randomOf(options.seed);
  await using stage = await openStage(options, random);
  const reports: BuyerReport[] = [];
  const waiting = Array.from({ length: options.agents }, (_, index) => index);
  const workers = Array.from({ length: options.atOnce }, async () => {
    for (let index = waiting.shift(); index !== undefined; index = waiting.shift())
      reports.push(await new Buyer(stage, options, index, random).run());
  });
  await Promise.all(workers);
  return {
    answered: sum(reports.map(({ answered }) => answered)),
    refused: sum(reports.map(({ refused }) => refused)),
    lost: reports.flatMap(({ lost }) => lost),
    charged: reports.reduce((all, { charged }) => all + charged, 0n),
    violations: reports.flatMap(({ violations }) => violations),
    kills: sum(reports.map(({ kills }) => kills)),
    sellerKills: sum(stage.sellers.map(({ kills }) => kills)),
  };
}

type BuyerReport = Omit<CrowdReport, "sellerKills">;

interface CrowdStage extends AsyncDisposable {
  readonly chain: Chain;
  readonly folder: string;
  readonly sellers: readonly Seller[];
  /** Told when a backend is asked for that name. */
  readonly onAsked: Map<string, () => void>;
  readonly trouble: Trouble;
}

async function openStage(options: CrowdOptions, random: () => number): Promise<CrowdStage> {
  await using closing = new AsyncDisposableStack();
  const chain = await startChain();
  closing.defer(() => chain.stop());
  const folder = await mkdtemp(join(tmpdir(), "coinslot-crowd-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const onAsked = new Map<string, () => void>();
  const trouble = new Trouble(options, random);
  const told = (name: string, seller: Seller): void => {
    onAsked.get(name)?.();
    trouble.onAsked(seller);
  };
  const sellers = await startSellers({ chain, onAsked: told }, closing);
  const owned = closing.move();
  return {
    chain,
    folder,
    onAsked,
    sellers,
    trouble,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Kills sellers, evenly over the calls. */
class Trouble {
  readonly #random: () => number;
  /** Numbers of calls that a kill is due with, the next first. */
  readonly #due: number[];
  #calls = 0;
  /** Sellers that die when they ask their backend the next time. */
  readonly #marked = new Set<Seller>();

  constructor({ agents, calls, sellerKills }: CrowdOptions, random: () => number) {
    this.#random = random;
    const step = (agents * calls) / (sellerKills + 1);
    this.#due = Array.from({ length: sellerKills }, (_, index) => Math.floor((index + 1) * step));
  }

  /** A call of that seller begins. */
  onCall(seller: Seller): void {
    this.#calls += 1;
    const [due] = this.#due;
    if (due === undefined || this.#calls < due) return;
    this.#due.shift();
    // With the backend asked, paid and not answered; or wherever it is just then.
    if (this.#random() < 0.5) this.#marked.add(seller);
    else setTimeout(() => this.#kill(seller), this.#random() * KILLED_WITHIN_MS);
  }

  onAsked(seller: Seller): void {
    if (this.#marked.has(seller)) this.#kill(seller);
  }

  /** Where it is coming back from the last one, the next time. */
  #kill(seller: Seller): void {
    if (seller.kill()) this.#marked.delete(seller);
    else this.#marked.add(seller);
  }
}

/** One agent, in all lives of its process. */
class Buyer {
  readonly #stage: CrowdStage;
  readonly #options: CrowdOptions;
  readonly #name: string;
  readonly #random: () => number;
  readonly #account = freshAccount();
  #process: Promise<Agent> | null = null;
  #kills = 0;

  constructor(stage: CrowdStage, options: CrowdOptions, index: number, random: () => number) {
    this.#stage = stage;
    this.#options = options;
    this.#name = `agent${index}`;
    this.#random = random;
  }

  async run(): Promise<BuyerReport> {
    const { chain } = this.#stage;
    const { calls, affordable } = this.#options;
    const { address } = this.#account;
    const purse = BigInt(calls) * CENT * 2n;
    await chain.fund(address, purse);
    const told = { answered: 0, refused: 0, lost: [] as string[] };
    const waiting = Array.from({ length: calls }, (_, index) => index);
    const hands = Array.from({ length: ABREAST }, async () => {
      for (let index = waiting.shift(); index !== undefined; index = waiting.shift()) {
        const outcome = await this.#call(index);
        if (outcome === "answered") told.answered += 1;
        else if (outcome === "refused") told.refused += 1;
        else told.lost.push(`${this.#name}: ${outcome}`);
      }
    });
    await Promise.all(hands);
    await (await this.#process)?.[Symbol.asyncDispose]();
    const charged = purse - (await chain.balanceOf(address));
    const violations = [
      ...(charged > BigInt(affordable) * CENT ? [`${this.#name} was charged ${charged}`] : []),
      ...(charged === BigInt(told.answered) * CENT
        ? []
        : [`${this.#name} was charged ${charged} for ${told.answered} answers`]),
    ];
    return { ...told, charged, violations, kills: this.#kills };
  }

  /** The same call until it has its answer, as an agent does that has lost its server. */
  async #call(index: number): Promise<string> {
    const name = `${this.#name}-call${index}`;
    const seller = this.#sellerOf(index);
    const call = seller.callOf(name);
    this.#stage.trouble.onCall(seller);
    let isKilled = this.#random() * 100 < this.#options.killsInHundred;
    const isByEvent = this.#random() < 0.5;
    for (let repetition = 0; repetition < MAX_REPETITIONS; repetition += 1) {
      await seller.untilUp();
      const starting = (this.#process ??= this.#start());
      try {
        const agent = await starting;
        if (isKilled && isByEvent) this.#stage.onAsked.set(name, () => this.#kill(agent, starting));
        else if (isKilled) {
          const pause = this.#random() * KILLED_WITHIN_MS;
          setTimeout(() => this.#kill(agent, starting), pause);
        }
        isKilled = false;
        const { isError, answer, facts } = await agent.call("buy", call);
        if (!isError) return answer?.includes(name) === true ? "answered" : `answered ${answer}`;
        const reason = String(facts["reason"]);
        if (reason.includes("over the budget of a day")) return "refused";
        // What is open is asked for again; anything else is told.
        if (facts["advice"] === undefined) return `${name}: ${reason}`;
      } catch {
        // The process is gone, and with it the answer.
        if (this.#process === starting) this.#process = null;
      } finally {
        this.#stage.onAsked.delete(name);
      }
    }
    return `${name} was repeated ${MAX_REPETITIONS} times`;
  }

  #sellerOf(index: number): Seller {
    const { sellers } = this.#stage;
    const seller = sellers[index % sellers.length];
    if (seller === undefined) throw new Error("there are no sellers");
    return seller;
  }

  #kill({ pid }: Agent, starting: Promise<Agent>): void {
    if (this.#process !== starting) return;
    this.#process = null;
    this.#kills += 1;
    process.kill(pid, "SIGKILL");
  }

  #start(): Promise<Agent> {
    const { folder, sellers: all } = this.#stage;
    const dollars = `$${(this.#options.affordable / 100).toFixed(2)}`;
    const sellers = all.flatMap(({ host }) => ["--seller", host]);
    const state = join(folder, `${this.#name}.db`);
    const revision = this.#random() < 0.5 ? REVISIONS[0] : REVISIONS[1];
    const words = [...sellers, "--max-day", dollars, "--max-call", "$0.01", "--state", state];
    return startAgent({ words, env: { COINSLOT_KEY: this.#account.privateKey }, revision });
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, each) => all + each, 0);
}

/** The same numbers from 0 to 1 for the same seed (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
