/**
 * Agents that buy from three sellers, each through a `coinslot mcp` of its own that dies again and again: one seller over HTTP in
 * both versions, one in version 1 alone, and one whose tools are called over MCP. What was charged is read from the chain.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startAgent, REVISIONS, type Agent } from "../support/agents/agent.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { freePort } from "../support/free-port.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount } from "../support/payer.ts";

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
  readonly kills: number;
}

const CENT = 10_000n;
/** Calls that an agent makes at the same time. */
const ABREAST = 4;
/** How often a call is repeated whose process has died: each kill costs every call under way one. */
const MAX_REPETITIONS = 100;
/** A kill that is no answer to an event comes so long after its call began at the latest, milliseconds. */
const KILLED_WITHIN_MS = 150;

export async function runCrowd(options: CrowdOptions): Promise<CrowdReport> {
  await using stage = await openStage();
  const random = randomOf(options.seed);
  const reports: CrowdReport[] = [];
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
  };
}

interface CrowdStage extends AsyncDisposable {
  readonly chain: Chain;
  readonly folder: string;
  readonly hosts: readonly string[];
  /** The call of that name at one of the sellers. */
  callOf(seller: number, name: string): Record<string, unknown>;
  /** Told when a backend is asked for that name. */
  readonly onAsked: Map<string, () => void>;
}

async function openStage(): Promise<CrowdStage> {
  await using closing = new AsyncDisposableStack();
  const chain = await startChain();
  closing.defer(() => chain.stop());
  const folder = await mkdtemp(join(tmpdir(), "coinslot-crowd-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const onAsked = new Map<string, () => void>();
  const gateways: RunningGateway[] = [];
  for (const more of ["", "protocol: { v2: false }", "mcp: { path: /mcp }"]) {
    const listen = `127.0.0.1:${await freePort()}`;
    const gateway = await startGateway({
      chain,
      listen,
      publicUrl: `http://${listen}`,
      more,
      routes: "\n  GET /goods/:name: { price: $0.01, description: Goods, mimeType: text/plain }\n",
      backend: ({ url = "" }, response) => {
        onAsked.get(url.split("/").at(-1) ?? "")?.();
        response.end(`goods of ${url}`);
      },
    });
    gateways.push(closing.use(gateway));
  }
  const owned = closing.move();
  return {
    chain,
    folder,
    onAsked,
    hosts: gateways.map(({ url }) => new URL(url).host),
    callOf: (seller, name) => {
      const url = gateways[seller % gateways.length]?.url;
      return seller % gateways.length === 2
        ? { url: `${url}/mcp`, tool: "get_goods_name", arguments: { name } }
        : { url: `${url}/goods/${name}` };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
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

  async run(): Promise<CrowdReport> {
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
    const call = this.#stage.callOf(index, name);
    let isKilled = this.#random() * 100 < this.#options.killsInHundred;
    const isByEvent = this.#random() < 0.5;
    for (let repetition = 0; repetition < MAX_REPETITIONS; repetition += 1) {
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

  #kill({ pid }: Agent, starting: Promise<Agent>): void {
    if (this.#process !== starting) return;
    this.#process = null;
    this.#kills += 1;
    process.kill(pid, "SIGKILL");
  }

  #start(): Promise<Agent> {
    const { folder, hosts } = this.#stage;
    const dollars = `$${(this.#options.affordable / 100).toFixed(2)}`;
    const sellers = hosts.flatMap((host) => ["--seller", host]);
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
