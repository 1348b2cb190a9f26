/**
 * Replicas with workers, on one PostgreSQL and with one signer: what a sale takes where another replica signs it, and
 * the run that the reckoning is held against, in which buyers come to all of them.
 */
import { cpus } from "node:os";
import type { Program } from "../process.ts";
import { say } from "../report.ts";
import { median } from "../rounds.ts";
import { sized } from "../size.ts";
import type { ElsewhereCost, Figures, SaleCost } from "./figures.ts";
import { forPace, paced, PACES } from "./kinds.ts";
import { restOfFinal, warmUp } from "./one-replica.ts";
import { costOf, loadOf, saleCostOf, spanOf, togetherOf, type Ground, type Span } from "./spans.ts";
import { BLOCK_SECONDS, type Shop, type SizingStage } from "./stage.ts";

const REPLICAS = sized(3, 2);
const WORKERS = sized(2, 1);
const ROUNDS = sized(3, 1);
/** Of what others leave of the machine, what the check is to keep busy: beyond that it would measure who waits. */
const BUSY = 0.6;
/** Shorter than a connection may be open that asks for nothing: a load generator opens some for the worst. */
const CHECK_MS = sized(20_000, 1_000);
/** So long that as many transactions are watched as ever will be. */
const [RAMPS, RAMP_MS] = sized([2, 15_000], [1, 100]);

export type ManyReplicas = Pick<Figures, "check"> & { readonly elsewhere: ElsewhereCost };

/**
 * @param alone a sale at a replica of its own, by which the pace of the check is chosen
 * @param others share of the machine, 0 to 1, that others keep busy
 */
export async function measureReplicas(
  stage: SizingStage,
  alone: SaleCost,
  watching: Ground["watching"],
  others: number,
): Promise<ManyReplicas> {
  const free = BUSY * cpus().length * (1 - others) * 1e6;
  const store = await stage.postgres.database();
  // It has the signer from its start on, so that the others find it taken.
  const signing = await stage.shop({ store, workers: WORKERS });
  const fronts: Shop[] = [];
  while (fronts.length + 1 < REPLICAS) {
    fronts.push(await stage.shop({ store, workers: WORKERS, signer: signing.signer }));
  }
  const shops = [signing, ...fronts];
  await warmUp(stage, shops);
  const [local, spans]: [Span[], Span[]] = [[], []];
  for (let round = 0; round < ROUNDS; round += 1) {
    local.push(await sellAt(stage, shops, signing));
    spans.push(await sellAt(stage, shops, fronts[0] ?? signing));
  }
  say("  sold where another replica signs");
  const check = await runCheck(stage, shops, free / dearestOf(alone, spans));
  say("  held against a run");
  const ground = { idle: await restOfFinal(stage, shops), watching };
  const [first, front, ...bystanders] = shops.map((_, at) => at);
  const whole = saleCostOf(spans, ground, [first ?? 0, front ?? 0]);
  const { gateway, thread } = costOf(spans, ground, [first ?? 0]);
  const heard = (rounds: readonly Span[], places: readonly number[]): number =>
    costOf(rounds, ground, places).gateway / Math.max(1, places.length);
  const bystander = {
    local: heard(local, [front ?? 0, ...bystanders]),
    offered: heard(spans, bystanders),
  };
  await Promise.all(shops.map(({ server }) => server.stop()));
  return { elsewhere: { ...whole, signing: { gateway, thread }, bystander }, check };
}

async function sellAt(stage: SizingStage, shops: readonly Shop[], at: Shop): Promise<Span> {
  const job = paced(at.url, stage.sales(forPace(PACES.fast)), PACES.fast);
  return spanOf(stage, shops, async () => (await loadOf(stage.load, job)).answers);
}

/** Of sales at a replica of its own and of those spans, all processes together, microseconds. */
function dearestOf({ gateway, postgres, node }: SaleCost, spans: readonly Span[]): number {
  const there = spans.map((span) => {
    const gateways = span.shops.reduce((sum, each) => sum + each.gateway, 0);
    return (gateways + span.postgres + span.node) / Math.max(1, span.answers);
  });
  return Math.max(gateway + postgres + node, median(there));
}

async function runCheck(
  stage: SizingStage,
  shops: readonly Shop[],
  held: number,
): Promise<Figures["check"]> {
  const perSecond = sized(held, PACES.fast);
  const ofEach = Math.max(1, Math.floor(perSecond / shops.length));
  const loads: Program[] = [stage.load];
  while (loads.length < shops.length) loads.push(await stage.moreLoad());
  const latencies: { readonly p50Ms: number; readonly p99Ms: number }[] = [];
  const sell = async (durationMs: number): Promise<number> => {
    const results = await Promise.all(
      shops.map(({ url }, at) => {
        const requests = stage.sales(forPace(ofEach, durationMs));
        return loadOf(loads[at] ?? stage.load, paced(url, requests, ofEach, durationMs));
      }),
    );
    latencies.splice(0, latencies.length, ...results);
    return results.reduce((sum, { answers }) => sum + answers, 0);
  };
  for (let ramp = 0; ramp < RAMPS; ramp += 1) await sell(RAMP_MS);
  const span = await spanOf(stage, shops, () => sell(CHECK_MS));
  const gateway = span.shops.reduce((sum, each) => sum + each.gateway, 0);
  const seconds = CHECK_MS / 1000;
  return {
    replicas: shops.length,
    workers: WORKERS,
    asked: ofEach * shops.length,
    sold: span.answers / seconds,
    seconds,
    blockSeconds: BLOCK_SECONDS,
    finalBlocks: stage.finalBlocks,
    together: togetherOf(span),
    p50Ms: median(latencies.map(({ p50Ms }) => p50Ms)),
    p99Ms: Math.max(...latencies.map(({ p99Ms }) => p99Ms)),
    cost: {
      gateway: gateway / span.answers,
      postgres: span.postgres / span.answers,
      node: span.node / span.answers,
    },
  };
}
