/** The whole battery: every case before its gateways, the slow ones beside each other before one of their own. */
import { startChain, type Chain } from "../support/chain.ts";
import { readCases, threatsOf, type AttackCase } from "./attack-case.ts";
import type { Gateway } from "./shop.ts";
import { Stage, type Finding } from "./stage.ts";

/** What a case runs before that names no gateway. */
const PLAIN: ReadonlySet<Gateway> = new Set<Gateway>(["deny", "free"]);
/** The topic whose cases take long, and therefore run beside each other. */
const SLOW = "slow-senders";

export interface BatteryOptions {
  /** Only cases for which this holds. */
  readonly select?: (each: AttackCase) => boolean;
  /** Findings that are left out. */
  readonly isKnown?: (finding: Finding) => boolean;
  /** End at the first finding. */
  readonly isFirstOnly?: boolean;
  /** Also play the cases that wait for a defence. */
  readonly withWaiting?: boolean;
  /** The threat whose cases are played before the others. */
  readonly firstCites?: string;
  /** Default: one of its own. */
  readonly chain?: Chain;
  /** The main file of another gateway than this tree's. */
  readonly main?: string;
}

export interface Tally {
  readonly topic: string;
  readonly cases: number;
  /** Cases times gateways. */
  readonly runs: number;
}

/** A case that waits for a defence, with what comes of it now; it counts for nothing. */
export interface Waiting {
  readonly feature: string;
  readonly each: AttackCase;
  readonly findings: readonly Finding[];
}

export interface BatteryReport {
  readonly tallies: readonly Tally[];
  readonly findings: readonly Finding[];
  readonly waiting: readonly Waiting[];
  readonly seconds: number;
}

export async function runBattery(options: BatteryOptions = {}): Promise<BatteryReport> {
  if (options.chain !== undefined) return playAll(options.chain, options);
  await using chain = await startChain();
  // Awaited here: the chain lives no longer than this.
  return await playAll(chain, options);
}

async function playAll(chain: Chain, options: BatteryOptions): Promise<BatteryReport> {
  const started = performance.now();
  const { select = () => true, withWaiting = false, firstCites } = options;
  const cases = inOrder(readCases().filter(select), firstCites);
  const run = new Run(chain, options);
  const counted = cases.filter(({ waits }) => waits === undefined);
  const quick = counted.filter(({ topic }) => topic !== SLOW);
  const before = (gateway: Gateway) =>
    quick.filter(({ on }) => (on === undefined ? PLAIN.has(gateway) : on === gateway));
  const [, , , , , , , , waiting] = await Promise.all([
    run.inTurn("deny", before("deny")),
    run.inTurn("free", before("free")),
    run.inTurn("secure", before("secure")),
    run.inTurn("trusting", before("trusting")),
    run.inTurn("rewriting", before("rewriting")),
    run.inTurn("listed", before("listed")),
    run.inTurn("crowded", before("crowded")),
    run.beside(counted.filter(({ topic }) => topic === SLOW)),
    withWaiting ? run.wait(cases.filter(({ waits }) => waits !== undefined)) : [],
  ]);
  const tallies = [...new Set(counted.map(({ topic }) => topic))].map((topic) => {
    const own = counted.filter((each) => each.topic === topic);
    const runs = own.map(({ on }) => (on === undefined && topic !== SLOW ? 2 : 1));
    return { topic, cases: own.length, runs: runs.reduce((sum, each) => sum + each, 0) };
  });
  const seconds = (performance.now() - started) / 1000;
  return { tallies, findings: run.findings, waiting, seconds };
}

function inOrder(cases: readonly AttackCase[], firstCites?: string): readonly AttackCase[] {
  const isFirst = ({ cites }: AttackCase): boolean =>
    firstCites !== undefined && threatsOf(cites).includes(firstCites);
  return [...cases.filter(isFirst), ...cases.filter((each) => !isFirst(each))];
}

class Run {
  readonly findings: Finding[] = [];
  readonly #chain: Chain;
  readonly #options: BatteryOptions;
  #starting: Promise<unknown> = Promise.resolve();

  constructor(chain: Chain, options: BatteryOptions) {
    this.#chain = chain;
    this.#options = options;
  }

  /**
   * One after another: many processes that start at the same time take each other's time. Undefined where enough
   * has been found meanwhile.
   */
  #start(gateway: Gateway): Promise<Stage | undefined> {
    const started = this.#starting.then(() => {
      return this.#isOver
        ? undefined
        : Stage.start(this.#chain, gateway, { main: this.#options.main });
    });
    this.#starting = started.catch(() => {});
    return started;
  }

  get #isOver(): boolean {
    return this.#options.isFirstOnly === true && this.findings.length > 0;
  }

  #note(findings: readonly Finding[]): void {
    const { isKnown = () => false } = this.#options;
    this.findings.push(...findings.filter((finding) => !isKnown(finding)));
  }

  /** One after another, so that whatever arrives at the backend is the doing of one case. */
  async inTurn(gateway: Gateway, cases: readonly AttackCase[]): Promise<void> {
    if (cases.length === 0) return;
    await using stage = await this.#start(gateway);
    if (stage === undefined) return;
    for (const each of cases) {
      if (this.#isOver) return;
      this.#note(await stage.play(each));
    }
    this.#note(await stage.audit());
  }

  async beside(cases: readonly AttackCase[]): Promise<void> {
    if (cases.length === 0) return;
    await using stage = await this.#start("deny");
    if (stage === undefined) return;
    for (const findings of await Promise.all(cases.map((each) => stage.playBeside(each)))) {
      this.#note(findings);
    }
    this.#note(await stage.audit());
  }

  async wait(cases: readonly AttackCase[]): Promise<readonly Waiting[]> {
    if (cases.length === 0) return [];
    await using stage = await this.#start("deny");
    if (stage === undefined) return [];
    // Awaited here: the stage lives no longer than this.
    return await Promise.all(
      cases.map(async (each) => ({
        feature: each.waits ?? "",
        each,
        findings: await stage.playBeside(each),
      })),
    );
  }
}
