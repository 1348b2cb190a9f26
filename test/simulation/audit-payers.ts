/** Whether a payer was charged while he was owed the same: judged by what the ledger's history tells. */
import { MAX_REPLAYS } from "../../src/ledger/ledger.ts";
import type { KeptPayment } from "../support/memory-store.ts";
import type { PaymentEvent } from "../../src/ledger/books.ts";
import { isGoodFor, nameOf, type Told } from "./journal.ts";
import type { SimulatedPayment } from "./payments.ts";
import type { World } from "./world.ts";

/**
 * How long the ledger may take to hear that nobody waits for a payment any more, milliseconds: a call that is slow, a
 * pause and another one, or a death that is noticed late.
 */
export const HEARD_MS = 30_000;
/** The same where nothing ever fails, milliseconds. */
const SOON_MS = 1_000;
/** What the history says when nobody waits for a payment any more, and when somebody does again. */
const LEFT =
  /no request waits|delivery broke|led on|nothing was sent|died with the process|answer is kept/;
const HELD = /taken over by another request|^attempt /;

export function judgePayers(world: World): void {
  const charged = [...world.journal.payments.values()].filter((each) => isChargedByUs(world, each));
  for (const payment of charged) {
    const owed = charged.find((other) => other !== payment && isOwedBefore(world, other, payment));
    if (owed === undefined) continue;
    const names = `${nameOf(payment.key)} is charged`;
    world.journal.violated("T3", `${names} while ${nameOf(owed.key)} was owed for the same`);
  }
  for (const told of world.journal.told) judgeTold(world, told);
  for (const [key, kept] of world.store.payments) {
    const counted = attemptsOf(kept);
    if (kept.row.attempts === counted) continue;
    const name = nameOf(key);
    world.journal.violated("T6", `${name} has ${kept.row.attempts} attempts, of ${counted}`);
  }
}

/** Those since the attempts were given (again) that the backend saw, and that no death of ours has cut. */
function attemptsOf({ events }: KeptPayment): number {
  let attempts = 0;
  for (const { note } of events) {
    if (note.startsWith("attempt 1 of ")) attempts = 1;
    else if (note.startsWith("attempt ")) attempts += 1;
    else if (/nothing was sent|died with the process|does not count/.test(note)) attempts -= 1;
  }
  return attempts;
}

/** A 402 tells somebody to pay who is owed what he asks for, and has proven who he is. */
function judgeTold({ journal, store }: World, { payment, path, target, code, atMs }: Told): void {
  const fromMs = journal.showing(payment)?.firstMs ?? atMs;
  const owed = [...journal.payments.values()].find((other) => {
    if (other.authorization.from !== payment.authorization.from) return false;
    const kept = store.payments.get(other.key);
    if (kept?.row.binding !== `GET ${path}` || !isGoodFor(kept.row, target)) return false;
    const isPaid = kept.events.some((each) => each.state === "SETTLED" && each.atMs < fromMs);
    return (
      isPaid &&
      (journal.hadMs(other) ?? Infinity) > atMs &&
      isLeft(kept, { fromMs, toMs: atMs, lost: journal.lost.get(other.key) })
    );
  });
  if (owed === undefined) return;
  const names = `${nameOf(payment.key)}, whose payer is owed ${nameOf(owed.key)}`;
  journal.violated("T4", `402 ${code} for ${names}`);
}

/** Not so what went back with a reorganization, or was given as often as an answer is given again. */
function isChargedByUs(
  { chain, journal }: World,
  { key, authorization }: SimulatedPayment,
): boolean {
  const use = chain.use(authorization, chain.head);
  if (use?.kind !== "paid" || !chain.bytes.has(use.mined.transaction.id)) return false;
  return !chain.undone.has(authorization.id) && !journal.isGivenUp(key);
}

/** Whether nobody waited for the one, and nobody had it, when the other came and was claimed. */
export function isOwedBefore(
  world: World,
  owed: SimulatedPayment,
  payment: SimulatedPayment,
): boolean {
  const { journal, store } = world;
  const [before, after] = [store.payments.get(owed.key), store.payments.get(payment.key)];
  const shown = journal.showing(payment);
  if (before === undefined || after === undefined || shown === undefined) return false;
  if (owed.authorization.from !== payment.authorization.from) return false;
  if (before.row.binding !== after.row.binding || after.row.binding === null) return false;
  if (!isGoodFor(before.row, after.row.target ?? "")) return false;
  const claimedMs = after.events[0]?.atMs ?? 0;
  const hadMs = Math.min(journal.hadMs(owed) ?? Infinity, givenLastMs(before));
  if ((before.events[0]?.atMs ?? 0) >= shown.firstMs || hadMs <= claimedMs) return false;
  const asked = { fromMs: shown.firstMs, toMs: claimedMs, lost: journal.lost.get(owed.key) };
  return isLeft(before, asked) || isLongLeft(world, owed, claimedMs);
}

/** When its kept answer was given as often as it is: from then on it is on its way to whoever asked. */
function givenLastMs({ events }: KeptPayment): number {
  const last = `answered again, ${MAX_REPLAYS} of ${MAX_REPLAYS}`;
  return events.find(({ note }) => note === last)?.atMs ?? Infinity;
}

interface Asked {
  readonly fromMs: number;
  readonly toMs: number;
  /** What was so until a death has undone it. */
  readonly lost: readonly PaymentEvent[] | undefined;
}

/** The ledger knew all the time that nobody waits for it. */
function isLeft({ events }: KeptPayment, { fromMs, toMs, lost = [] }: Asked): boolean {
  const wasHeld = ({ atMs, note }: PaymentEvent): boolean =>
    HELD.test(note) && atMs >= fromMs && atMs <= toMs;
  if (lost.some(wasHeld)) return false;
  let wasLeft = false;
  for (const { atMs, note } of events) {
    if (atMs > toMs) break;
    const isHeld = HELD.test(note);
    if (isHeld && atMs >= fromMs) return false;
    if (atMs >= fromMs) continue;
    if (isHeld) wasLeft = false;
    else if (LEFT.test(note)) wasLeft = true;
  }
  return wasLeft;
}

/** The ledger ought to have known by then: no request has waited for it, and none with a new payment to collect it. */
function isLongLeft(
  { journal, faults, crashes }: World,
  owed: SimulatedPayment,
  atMs: number,
): boolean {
  const heardMs = faults + crashes === 0 ? SOON_MS : HEARD_MS;
  const waits = journal.waitsFor(owed).filter(({ fromMs }) => fromMs <= atMs);
  return waits.every(({ toMs }) => toMs + heardMs < atMs);
}
