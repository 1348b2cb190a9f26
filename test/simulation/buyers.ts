/** The buyers, and those who meddle: copies, impatience, other wishes, forgeries, payers who take back. */
import type { Answer } from "./front.ts";
import type { Purchase } from "./journal.ts";
import { forge, LED_PATH, NETWORK, payerNamed, PRICE, type SimulatedPayment } from "./payments.ts";
import type { World } from "./world.ts";

const PATH = "/weather";
const OTHER_PATH = "/stocks";
/** How often one sender tries. */
const TRIES = 8;
/** Further payments that one who overdraws presents at once, at most. */
const MOST_TOO_MANY = 6;
/** Where buyers are, as they roam. */
const HOME = "192.0.2.1";
export const PLACES = [HOME, "198.51.100.7", "2001:db8:1:2::3"] as const;

/** Starts everybody who takes part; resolves when every buyer has had enough. */
export async function startBuyers(world: World): Promise<void> {
  const { profile, random, time } = world;
  const buyers = Array.from({ length: profile.payments }, async (_, number) => {
    await time.pause(profile.payments === 1 ? 0 : random.between(0, 15_000), null);
    const purchase = world.purchase(number % profile.payers);
    if (random.chance(profile.stock)) await buyAnew(world, purchase);
    else await buy(world, purchase, 1);
  });
  await Promise.all(buyers);
}

/** One purchase: a payment, its copies, and a new payment where it is refused. */
async function buy(world: World, purchase: Purchase, renewals: number): Promise<void> {
  const { profile, random, time } = world;
  const payment = world.sign(purchase);
  meddle(world, payment, purchase.payer);
  overdraw(world, purchase.payer);
  const copies = random.chance(profile.copying) ? random.between(2, 3) : 1;
  const senders = Array.from({ length: copies }, async (_, copy) => {
    if (copy > 0) await time.pause(random.between(0, 4000), null);
    return send(world, purchase, payment);
  });
  const answers = await Promise.all(senders);
  const isRefused = answers.every(({ status }) => status === 402 || status === 409);
  if (isRefused && renewals > 0 && world.isOpen) await buy(world, purchase, renewals - 1);
}

/**
 * One purchase of a client that knows nothing of payments that were made: it pays anew at each try, from wherever
 * its buyer is by then, also after it gave up waiting.
 */
async function buyAnew(world: World, purchase: Purchase): Promise<void> {
  const { profile, random, time } = world;
  const target = random.chance(0.3) ? `${PATH}?day=${random.between(1, 2)}` : PATH;
  let client: string = HOME;
  purchase.targets.add(target);
  for (let count = 0; count < TRIES && world.isOpen; count += 1) {
    const payment = world.sign(purchase);
    if (count === 0) meddle(world, payment, purchase.payer);
    const asked = { payment, path: PATH, target, client };
    const { status } = await world.send(asked, patience(world));
    if (status === 200) {
      purchase.isServed = true;
      return;
    }
    await time.pause(random.between(500, 6000), null);
    if (random.chance(profile.roaming)) client = random.pick(PLACES);
  }
}

/** One sender: the same payment again until there is an answer that ends it. */
async function send(world: World, purchase: Purchase, payment: SimulatedPayment): Promise<Answer> {
  const { profile, random, time } = world;
  let answer: Answer = { status: "lost" };
  let query = random.chance(profile.greed) ? `?day=${random.between(1, 2)}` : "";
  let led: string | undefined;
  for (let count = 0; count < TRIES && world.isOpen; count += 1) {
    const isAside = random.chance(profile.greed * 0.1);
    const path = isAside ? OTHER_PATH : led === undefined ? PATH : LED_PATH;
    const target = isAside || led === undefined ? `${path}${query}` : led;
    purchase.targets.add(target);
    answer = await world.send({ payment, path, target, client: HOME }, patience(world));
    if (answer.status === 402 || answer.status === 409) return answer;
    led = answer.target;
    if (led !== undefined) continue;
    if (answer.status === 200) {
      purchase.isServed = true;
      await wantMore(world, purchase, payment, query);
      return answer;
    }
    const isOpen = answer.status === 404 || random.chance(profile.greed);
    if (isOpen && random.chance(0.5)) query = `?day=${random.between(1, 2)}`;
    await time.pause(random.between(500, 6000), null);
  }
  return answer;
}

/** The same again, or something else for the same money. */
async function wantMore(
  world: World,
  { targets }: Purchase,
  payment: SimulatedPayment,
  query: string,
): Promise<void> {
  const { profile, random, time } = world;
  while (random.chance(profile.greed * 0.8) && world.isOpen) {
    await time.pause(random.between(0, 5000), null);
    const path = random.chance(0.2) ? OTHER_PATH : PATH;
    const target = `${path}${random.chance(0.5) ? query : "?day=3"}`;
    targets.add(target);
    await world.send({ payment, path, target, client: HOME }, patience(world));
  }
}

function patience({ profile, random }: World): number {
  return random.chance(profile.impatience) ? random.between(10, 6000) : 60_000;
}

/** Presents more payments in the same moment, whatever it can pay. */
function overdraw(world: World, payer: number): void {
  const { profile, random, time } = world;
  if (profile.overdrawing === 0 || !random.chance(profile.overdrawing)) return;
  const count = random.between(1, MOST_TOO_MANY);
  for (let number = 0; number < count; number += 1) {
    const purchase = world.purchase(payer);
    const payment = world.sign(purchase);
    time.schedule(random.between(0, 200), null, () => void send(world, purchase, payment));
  }
}

function meddle(world: World, payment: SimulatedPayment, payer: number): void {
  const { profile, random, chain, time, name } = world;
  const { authorization } = payment;
  const mostMs = profile.maxTimeoutSeconds * 1000;
  const submit = (action: Parameters<typeof name>[1], who: string): void => {
    const transaction = name(who, action);
    time.schedule(random.between(0, mostMs), null, () => chain.submit(transaction));
  };
  if (random.chance(profile.foreign)) submit({ kind: "pay", authorization }, "third");
  if (random.chance(profile.foreign)) {
    time.schedule(random.between(0, mostMs), null, () => {
      const forged = { payment: forge(payment), path: PATH, target: PATH, client: HOME };
      void world.send(forged, 30_000);
    });
  }
  if (random.chance(profile.hostile)) {
    submit({ kind: "cancel", authorization }, "payer");
  }
  if (random.chance(profile.hostile)) {
    const from = payerNamed(payer);
    submit({ kind: "move", from, to: `elsewhere on ${NETWORK}`, value: PRICE }, "payer");
  }
}
