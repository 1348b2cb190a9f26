/**
 * Who sees every payment from its broadcast on, signature and all, and shows it as his own: from an address of
 * his, to any life, for any target, at once and later, again and again.
 */
import type { ChainTransaction } from "./chain.ts";
import { LED_PATH, type SimulatedPayment } from "./payments.ts";
import type { World } from "./world.ts";

/** Where the thief's requests come from. */
export const THIEF = "203.0.113.66";

/** How long he goes on with one payment, milliseconds. */
const EAGER_MS = 75_000;
/** How often he shows one payment at most, beside once at each life as soon as he sees it. */
const SHOWS = 8;
/** How often he shows another payment, with a signature of his own, in the name of the same payer, at most. */
const FORGERIES = 4;
/** Longest that he waits for an answer, milliseconds. */
const PATIENCE_MS = 40_000;
const TARGETS = ["/weather", "/weather?day=1", "/weather?day=3", "/stocks"] as const;
/** Beside these, where redirects lead. */
const ALL_TARGETS = [...TARGETS, LED_PATH, `${LED_PATH}?day=1`] as const;

export function startThief(world: World): void {
  const { chain, journal, profile, random } = world;
  if (profile.thieving === 0) return;
  const names = new Set<string>();
  chain.onSeen = ({ id, actions }: ChainTransaction): void => {
    // What others submit is theirs to keep secret until then.
    if (!chain.bytes.has(id)) return;
    for (const action of actions) {
      if (action.kind !== "pay" || names.has(action.authorization.id)) continue;
      names.add(action.authorization.id);
      const payment = journal.authorizedBy(action.authorization);
      if (payment !== undefined && random.chance(profile.thieving)) show(world, payment);
    }
  };
}

function show(world: World, payment: SimulatedPayment): void {
  const { random, time, doors } = world;
  for (const door of doors) showOnce(world, payment, random.between(0, 100), door);
  const shows = random.between(0, SHOWS);
  for (let count = 0; count < shows; count += 1) {
    showOnce(world, payment, random.between(0, EAGER_MS));
  }
  // Nobody can sign for another one.
  for (let count = random.between(0, FORGERIES); count > 0; count -= 1) {
    const inMs = random.between(0, EAGER_MS);
    time.schedule(inMs, null, () => void send(world, world.forgeAnother(payment)));
  }
  // As soon as he sees that the one before has ended.
  if (random.chance(0.5)) void showAgain(world, payment, time.nowMs + EAGER_MS);
}

async function showAgain(world: World, payment: SimulatedPayment, lastMs: number): Promise<void> {
  const { random, time } = world;
  while (time.nowMs < lastMs) {
    await send(world, payment);
    await time.pause(random.between(500, 3000), null);
  }
}

function showOnce(world: World, payment: SimulatedPayment, inMs: number, to?: string): void {
  world.time.schedule(inMs, null, () => void send(world, payment, to));
}

async function send(world: World, payment: SimulatedPayment, to?: string): Promise<void> {
  const { random } = world;
  const target = random.chance(0.6)
    ? TARGETS[0]
    : random.pick(world.profile.leading > 0 ? ALL_TARGETS : TARGETS);
  const path = target.replace(/\?.*/, "");
  const patienceMs = random.between(50, PATIENCE_MS);
  await world.send({ payment, path, target, client: THIEF }, patienceMs, to);
}
