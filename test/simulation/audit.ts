/** The promises of the money path, judged by the chain's books when everything has come to rest. */
import { hash } from "node:crypto";
import { networkOf } from "../../src/http/ip-address.ts";
import { MAX_FAILURES } from "../../src/payments/settlement/failure-budget.ts";
import { MAX_DELIVERY_ATTEMPTS, MAX_RENEWALS } from "../../src/ledger/ledger.ts";
import type { PaymentRow } from "../../src/ledger/payment-row.ts";
import { digestedTarget } from "../../src/ledger/stored-target.ts";
import type { KeptPayment } from "../support/memory-store.ts";
import { HEARD_MS, isOwedBefore, judgePayers } from "./audit-payers.ts";
import { PLACES } from "./buyers.ts";
import type { Action, Use } from "./chain.ts";
import { nameOf, type Unpaid } from "./journal.ts";
import { PAY_TO, PRICE, type SimulatedPayment } from "./payments.ts";
import type { World } from "./world.ts";

/** Where a payer is who comes back. */
const ELSEWHERE = "198.51.100.99";
/** What is decided so long after its claim is in the balance of whichever node is asked, as far as the purses know. */
const LATE_MS = 15_000;
/** How long one more purchase may take, milliseconds. */
const PURCHASE_MS = 30_000;

export async function audit(world: World): Promise<void> {
  judge(world);
  await askForTheUnsigned(world);
  await deliverWhatIsLeft(world);
  if (isHonest(world)) requireSales(world);
}

function judge(world: World): void {
  let settled = 0n;
  let unaccounted = 0n;
  for (const payment of world.journal.payments.values()) {
    const kept = world.store.payments.get(payment.key);
    const use = world.chain.use(payment.authorization, world.chain.head);
    const charge = use?.kind === "paid" ? use : undefined;
    if (isSettled(kept?.row)) settled += PRICE;
    unaccounted += judgePayment(world, payment, kept, charge);
  }
  for (const unpaid of world.journal.unpaid) judgeUnpaid(world, unpaid);
  judgeUncovered(world);
  judgePayers(world);
  judgeNonces(world);
  const received = world.chain.balance(PAY_TO.toLowerCase(), world.chain.head);
  if (settled + unaccounted !== received) {
    world.journal.violated("I6", `settled ${settled} and ${unaccounted}, received ${received}`);
  }
}

/** Returns what explains a difference between our books and the chain's. */
function judgePayment(
  world: World,
  payment: SimulatedPayment,
  kept: KeptPayment | undefined,
  charge: Use | undefined,
): bigint {
  const { journal } = world;
  const name = nameOf(payment.key);
  const state = kept?.row.state ?? "(none)";
  requireEnd(world, payment, kept);
  const isSold = isSettled(kept?.row);
  if (isSold && world.profile.isAfter && journal.madeFor(payment).length === 0) {
    journal.violated("A3", `${name} is ${state}, and nothing was made for it`);
  }
  if (charge !== undefined) {
    judgeSubmitter(world, payment, kept, charge);
    if (isSold) return 0n;
    if (isHeld(kept)) return PRICE;
    if (!isForeign(world, charge, kept)) journal.violated("I3", `${name} is charged and ${state}`);
    return PRICE;
  }
  if (!isSold && !journal.deliveries.has(payment.key)) return 0n;
  const isUndone = world.chain.undone.has(payment.authorization.id);
  if (!isUndone) journal.violated("I8", `${name} is ${state} and not charged`);
  return isSold ? -PRICE : 0n;
}

/** What somebody else has put on chain is the operator's, and nobody's sale. */
function judgeSubmitter(
  { journal, chain }: World,
  { key, authorization }: SimulatedPayment,
  kept: KeptPayment | undefined,
  { mined }: Use,
): void {
  const isOurs = chain.bytes.has(mined.transaction.id);
  if (isHeld(kept) && isOurs) journal.violated("I9", `${nameOf(key)} is held, and ours`);
  // A reorganization may give it to somebody else once it is sold.
  const isUndone = chain.undone.has(authorization.id);
  if (isOurs || isUndone || !isSettled(kept?.row)) return;
  journal.violated("I9", `${nameOf(key)} is sold by a transaction that is not ours`);
}

function requireEnd({ journal }: World, { key }: SimulatedPayment, kept?: KeptPayment): void {
  const state = kept?.row.state;
  const isLeft = (state === "SIGNED" && !isHeld(kept)) || (state === "CLAIMED" && wasSigned(kept));
  if (isLeft) journal.violated("I4", `${nameOf(key)} is still ${state}`);
  if (state === "DELIVERING") journal.violated("I3", `${nameOf(key)} is still DELIVERING`);
}

/** Somebody else submitted what we never signed, or what we had given up for good by then. */
function isForeign(world: World, { mined }: Use, kept: KeptPayment | undefined): boolean {
  const isOurs = world.chain.bytes.has(mined.transaction.id);
  if (isOurs) return false;
  if (kept === undefined || kept.row.submission === null) return true;
  const failedMs = kept.events.findLast(({ state }) => state === "FAILED")?.atMs ?? 0;
  return world.chain.timestamp(mined.block) * 1000 >= failedMs;
}

/** A 402 said that this payment was not charged. */
function judgeUnpaid(world: World, unpaid: Unpaid): void {
  const { payment, row, code } = unpaid;
  const { journal, chain } = world;
  const use = chain.use(payment.authorization, chain.head);
  if (use?.kind !== "paid" || chain.undone.has(payment.authorization.id)) return;
  const isOurs = chain.bytes.has(use.mined.transaction.id);
  if (isOurs ? isOfAnotherClaim(world, unpaid) : isOfAnother(world, unpaid, use)) return;
  const state = row?.state ?? "(none)";
  journal.violated("I7", `402 ${code} for ${nameOf(payment.key)} while ${state}, and charged`);
}

/** The row was dropped, and what was charged is a later claim of the same payment. */
function isOfAnotherClaim({ journal }: World, unpaid: Unpaid): boolean {
  const { payment, row, incarnation, atIncarnation } = unpaid;
  if (row === undefined || incarnation !== atIncarnation) return true;
  return journal.incarnation(payment.key) !== atIncarnation;
}

/** Somebody else submitted it later, or what we never signed, or what is held for the operator since it was seen. */
function isOfAnother({ chain, store }: World, unpaid: Unpaid, { mined }: Use): boolean {
  const { payment, row, atMs, incarnation, atIncarnation } = unpaid;
  if (row === undefined || incarnation !== atIncarnation) return true;
  const kept = store.payments.get(payment.key)?.row;
  if (kept?.heldTransaction === mined.transaction.id) return true;
  return (kept?.submission ?? null) === null || chain.timestamp(mined.block) * 1000 >= atMs;
}

/** What our own payments take is not promised to another of them, as long as nobody else takes from the payer. */
function judgeUncovered({ chain, journal, store }: World): void {
  for (const { transaction, authorization } of chain.uncovered) {
    const { from } = authorization;
    if (!chain.bytes.has(transaction.id)) continue;
    const isTakenElsewhere = chain.mined.some(({ transaction: { id, actions } }) => {
      return !chain.bytes.has(id) && actions.some((each) => spenderOf(each) === from);
    });
    const isUncertain = [...journal.payments.values()].some((each) => {
      if (each.authorization.from !== from) return false;
      if (chain.undone.has(each.authorization.id)) return true;
      // Its transaction moved the money after we had given it up.
      const events = store.payments.get(each.key)?.events ?? [];
      const signed = events.findIndex(({ state }) => state === "SIGNED");
      const isGivenUp = signed >= 0 && events.slice(signed).some(({ state }) => isBack(state));
      const settled = events.findLast(({ state }) => state === "SETTLED");
      // Decided so long after its claim it is not counted any more, and a node may not show it yet (decision record 44).
      if (settled !== undefined && settled.atMs - (events[0]?.atMs ?? 0) > LATE_MS) return true;
      return isGivenUp && chain.use(each.authorization, chain.head)?.kind === "paid";
    });
    if (isTakenElsewhere || isUncertain) continue;
    journal.violated("I9", `${transaction.id} failed: our own payments had emptied ${from}`);
  }
}

function judgeNonces({ profile, store, chain, journal }: World): void {
  for (const account of new Set(profile.accounts.flat())) {
    const stored = [...store.nextNonces].find(([name]) => name.endsWith(`/${account}`))?.[1];
    const used = chain.accountNonce(account, chain.head);
    if (stored !== undefined && stored !== used) {
      journal.violated("I5", `${account}: next nonce ${stored} is stored, ${used} on chain`);
    }
  }
}

/**
 * A claim whose answer was lost stays with its life until somebody asks for it, or the life ends. The payer
 * keeps the money meanwhile; asked for, it must be resolved.
 */
async function askForTheUnsigned(world: World): Promise<void> {
  const { store, journal, time } = world;
  for (const payment of journal.payments.values()) {
    const row = store.payments.get(payment.key)?.row;
    if (row?.state !== "CLAIMED") continue;
    const client = claimantOf(world, payment);
    const shown = { payment, client, ...wantedOf(world, payment, row) };
    void world.send(shown, PURCHASE_MS, row.claimedBy);
    await time.run(time.nowMs + PURCHASE_MS + 1000);
    if (store.payments.get(payment.key)?.row.state !== "CLAIMED") continue;
    journal.violated("I4", `${nameOf(payment.key)} is claimed for ever`);
  }
}

/** For the operator, as everything that somebody else has put on chain. */
function isHeld(kept: KeptPayment | undefined): boolean {
  return kept?.row.state === "SIGNED" && kept.row.heldTransaction !== null;
}

function wasSigned(kept: KeptPayment | undefined): boolean {
  return kept?.events.some(({ state }) => state === "SIGNED") === true;
}

/**
 * What is charged is delivered when it is asked for: to whoever it is kept for, as long as there are attempts, and to
 * its payer, who proves it by signing anew and is not charged for that.
 */
async function deliverWhatIsLeft(world: World): Promise<void> {
  const { journal, random, time, chain } = world;
  const known = [...journal.payments.values()];
  for (const payment of known) {
    const row = await leftRow(world, payment);
    if (row === undefined || isUsedUp(row)) continue;
    const { path, target } = wantedOf(world, payment, row);
    const proof = world.signAgain(payment);
    const isProof = row.attempts >= MAX_DELIVERY_ATTEMPTS || random.chance(0.5);
    // Of one who cannot pay again it is known no better than by his address that he is the payer.
    const { from } = payment.authorization;
    const isRich = chain.balance(from, chain.head) >= PRICE;
    const isTrusted = isRich && failuresOf(world, from) < MAX_FAILURES;
    const client = isProof && isTrusted ? ELSEWHERE : claimantOf(world, payment);
    const shown = { payment: isProof ? proof : payment, client };
    const answer = world.send({ ...shown, path, target }, PURCHASE_MS);
    await time.run(time.nowMs + PURCHASE_MS + 1000);
    const said = (await answer).status;
    const how = isProof ? "its payer's new signature" : "it";
    const name = nameOf(payment.key);
    // A buyer who has come back himself may have been first.
    const isHad = journal.hadMs(payment) !== undefined;
    if (said !== 200 && !isHad) journal.violated("I3", `${name} is paid, and ${how} got ${said}`);
    const isCharged = chain.use(proof.authorization, chain.head) !== undefined;
    // A buyer who has come back may have begun to take it when the proof came.
    if (isCharged && isOwedBefore(world, payment, proof))
      journal.violated("T3", `${name} is owed, and its payer was charged again`);
  }
}

/** By which request a payment is good for what there is for it. */
function wantedOf({ journal }: World, payment: SimulatedPayment, row: PaymentRow) {
  const path = row.binding?.replace("GET ", "") ?? "";
  const given = (journal.deliveries.get(payment.key) ?? []).map((each) => each.target);
  const begun = [...given, ...journal.madeFor(payment)];
  const target = begun.find((each) => digestedTarget(each) === row.servedTarget) ?? path;
  return { path, target };
}

/** What is charged and not delivered, once the ledger has heard that no request waits for it any more. */
async function leftRow(
  { store, time }: World,
  { key }: SimulatedPayment,
): Promise<PaymentRow | undefined> {
  const heardMs = time.nowMs + HEARD_MS;
  for (;;) {
    const row = store.payments.get(key)?.row;
    if (row?.state !== "SETTLED") return undefined;
    if (row.isLeft || row.binding === null || time.nowMs >= heardMs) return row;
    await time.run(time.nowMs + 1000);
  }
}

/** How many payments of that payer were in transactions of ours that did not move them. */
function failuresOf({ chain }: World, payer: string): number {
  const failed = chain.mined.flatMap(({ transaction: { id, actions }, worked }) =>
    actions.filter(
      (action, index) =>
        chain.bytes.has(id) && worked[index] === false && spenderOf(action) === payer,
    ),
  );
  return failed.length;
}

/** The buyers' place that a payment is kept for. */
function claimantOf({ store }: World, { key }: SimulatedPayment): string {
  const claimant = store.payments.get(key)?.row.claimant;
  const isKeptFor = (place: string): boolean =>
    claimant === hash("sha256", `coinslot claimant ${networkOf(place)}`);
  return PLACES.find(isKeptFor) ?? ELSEWHERE;
}

/** Also what its payer may ask for once more in a day. */
function isUsedUp({ attempts, renewals }: PaymentRow): boolean {
  return attempts >= MAX_DELIVERY_ATTEMPTS && renewals >= MAX_RENEWALS;
}

/** In a world without faults and tricks every purchase works. */
function requireSales({ journal }: World): void {
  for (const { isServed, payments } of journal.purchases) {
    const names = payments.map(({ key }) => nameOf(key)).join(", ");
    if (!isServed) journal.violated("L1", `${names}: not sold`);
  }
}

function isHonest({ profile, faults }: World): boolean {
  const { losing, lying, refusing, upstreamFailing, staleBlocks, reorganizations } = profile;
  const { feeSpikes, impatience, foreign, hostile, greed, leaving, overdrawing } = profile;
  const all = [losing, lying, refusing, upstreamFailing, staleBlocks, reorganizations];
  const tricks = [feeSpikes, impatience, foreign, hostile, greed, leaving, overdrawing];
  return faults === 0 && [...all, ...tricks].every((each) => each === 0);
}

function isSettled(row: PaymentRow | undefined): boolean {
  return row !== undefined && ["SETTLED", "DELIVERING", "DELIVERED"].includes(row.state);
}

function spenderOf(action: Action): string {
  return action.kind === "move" ? action.from : action.authorization.from;
}

function isBack(state: PaymentRow["state"]): boolean {
  return state === "FAILED" || state === "CLAIMED";
}
