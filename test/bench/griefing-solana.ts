/**
 * What an attacker with a dollar can make a Solana fee payer burn in an hour with assertions that fail in
 * their block, or by moving their tokens before it: a hundred keys with a price of a cent each, which present payments as often as they are taken.
 * With a number as its argument so many keys, for those who have less time; `tokens` behind it is the latter alone. Every ten minutes the clock is set forward, so that an hour takes as long as its payments.
 */
import { coinslotVersion, say, sayHead, versionOf } from "./report.ts";
import type { Keypair } from "../../src/mechanism/solana/signing.ts";
import { GriefingStage, WAYS, type Way } from "../support/griefing-stage.ts";
import { sized } from "./size.ts";

const PAYERS = Number(process.argv[2] ?? 100);
/** Attempts of one key within ten minutes; after three failures it is refused. */
const ATTEMPTS = 4;
const WINDOWS = sized(6, 1);
/** Keys whose tokens one transaction takes. */
const GROUP = 20;
const WINDOW_MS = 600_000;
const HOUR_MS = 3_600_000;

type Bid = "high" | "low";

interface Burned {
  readonly presented: number;
  readonly failed: number;
  readonly lamports: bigint;
  /** Of the attackers' dollar, what they still have. */
  readonly cents: bigint;
  readonly honest: string;
  readonly phantom: string;
}

async function burn(way: Way, bid: Bid): Promise<Burned> {
  await using stage = await GriefingStage.open();
  const payers = await Promise.all(Array.from({ length: PAYERS }, () => stage.payer()));
  let [presented, failed, spent] = [0, 0, 0n];
  let [honest, phantom] = ["", ""];
  for (let window = 0; window < WINDOWS; window += 1) {
    for (const payer of payers) {
      for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
        const before = stage.spent;
        const { success } = await stage.attack(way, payer, bid);
        presented += 1;
        const cost = stage.spent - before;
        // What the way itself takes, as a settlement of somebody else would.
        const isTaken = way === "the fee payer's balance" && cost > 0n;
        const lost = isTaken ? cost - 10_000n : cost;
        if (success || lost === 0n) break;
        failed += 1;
        spent += lost;
      }
    }
    if (window === 0) honest = await sale(stage, "svm");
    if (window === 0) phantom = await sale(stage, "phantom");
    stage.advance(WINDOW_MS);
  }
  return {
    presented,
    failed,
    lamports: spent,
    cents: await centsOf(stage, payers),
    honest,
    phantom,
  };
}

/**
 * Without assertions: the tokens leave before the block, those of twenty keys with one transaction of the attackers'.
 * Each group comes as often as it is taken; in every window it may fail anew.
 */
async function moveFirst(bid: Bid): Promise<Burned & { readonly his: bigint }> {
  await using stage = await GriefingStage.open();
  const payers = await Promise.all(Array.from({ length: PAYERS }, () => stage.payer()));
  const mover = await stage.mover(payers);
  // Somebody honest has been there for as long as they.
  const known = await stage.payer();
  await stage.mover([known]);
  stage.advance(HOUR_MS);
  const hisBefore = stage.node.lamportsOf(mover.address);
  let [presented, failed, paidFor] = [0, 0, 0n];
  let [honest, phantom] = ["", ""];
  for (let window = 0; window < WINDOWS; window += 1) {
    for (let at = 0; at < payers.length; at += GROUP) {
      const group = payers.slice(at, at + GROUP);
      for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
        const before = stage.spent;
        presented += group.length;
        await stage.moveFirst(group, { mover, each: 1, bid });
        const lost = stage.spent - before;
        failed += Number(lost / (bid === "high" ? 99_999n : 10_001n));
        if (lost === 0n) break;
      }
    }
    if (window === 0) {
      const lamports = stage.spent;
      const fresh = await sale(stage, "svm");
      honest = `${await sale(stage, "svm", known)}, with a new token account ${fresh}`;
      phantom = await sale(stage, "phantom");
      paidFor += stage.spent - lamports;
    }
    stage.advance(WINDOW_MS);
  }
  const lamports = stage.spent - paidFor;
  const his = hisBefore - stage.node.lamportsOf(mover.address);
  const cents = await centsOf(stage, payers);
  return { presented, failed, lamports, cents, honest, phantom, his };
}

async function centsOf(stage: GriefingStage, payers: readonly Keypair[]): Promise<bigint> {
  const left = await Promise.all(payers.map((payer) => stage.tokensOf(payer)));
  return left.reduce((sum, each) => sum + each, 0n) / 10_000n;
}

/** How an honest buyer fares who has not paid before, once the first ten minutes are over. */
async function sale(
  stage: GriefingStage,
  layout: "svm" | "phantom",
  known?: Keypair,
): Promise<string> {
  const payer = known ?? (await stage.payer());
  const startMs = performance.now();
  const { success } = await stage.buy(payer, layout);
  return success ? `${Math.round(performance.now() - startMs)} ms` : "refused";
}

sayHead("What a dollar burns in an hour: payments that fail in their block", [
  coinslotVersion(),
  versionOf("litesvm"),
]);
say(`  attack    ${PAYERS} keys with a price of a cent each; Lighthouse is a stand-in`);
say();
const [, , , only] = process.argv;
for (const way of only === "tokens" ? [] : WAYS) {
  for (const bid of ["high", "low"] as const) {
    const { presented, failed, lamports, cents, honest, phantom } = await burn(way, bid);
    say(`${way}, a ${bid} bid`);
    say(`  presented ${presented}, failed in a block ${failed}: ${lamports} lamports of ours`);
    say(`  and of the attackers' ${PAYERS} cents ${cents} are left`);
    say(`  meanwhile an honest buyer: ${honest}; a new one with Phantom: ${phantom}`);
  }
}
for (const bid of ["high", "low"] as const) {
  const { presented, failed, lamports, cents, honest, phantom, his } = await moveFirst(bid);
  say(`the payers' tokens, without assertions, a ${bid} bid`);
  say(`  presented ${presented}, failed in a block ${failed}: ${lamports} lamports of ours`);
  say(`  and of the attackers' ${PAYERS} cents ${cents} are left, and ${his} lamports are spent`);
  say(`  meanwhile an honest buyer: ${honest}; a new one with Phantom: ${phantom}`);
}
