/** What kind of world a seed makes: which faults there are, how many, who takes part. */
import type { Random } from "./random.ts";

/** One process; two with a ledger in common; one whose paywalls are in workers. */
export const MODES = ["single", "replicas", "workers"] as const;

export type Mode = (typeof MODES)[number];

export interface Profile {
  /** Our accounts at each replica. */
  readonly accounts: readonly (readonly string[])[];
  /** At each replica; 0 where its paywall is in the process with the money. */
  readonly workers: number;
  readonly payments: number;
  readonly payers: number;
  readonly maxTimeoutSeconds: number;
  readonly blockMs: number;
  readonly confirmations: number;
  readonly maxTogether: number;
  /** How likely a call fails or is slow, and how likely it is its life's last. */
  readonly failing: number;
  readonly crashing: number;
  readonly mostCrashes: number;
  /** How often a living life is taken for dead. */
  readonly presumptions: number;
  readonly staleBlocks: number;
  readonly losing: number;
  readonly lying: number;
  readonly reorganizations: number;
  readonly feeSpikes: number;
  /** How likely a block leaves a good payment behind that shares its transaction with others. */
  readonly leavingBehind: number;
  readonly refusing: number;
  readonly upstreamFailing: number;
  readonly large: number;
  /** How likely a buyer leaves in the middle of a large answer. */
  readonly leaving: number;
  /** How likely the upstream's answer is a redirect to another path of ours. */
  readonly leading: number;
  /** How often a large answer may be fetched again. */
  readonly repeats: number;
  /** Whether the upstream works before it is settled. */
  readonly isAfter: boolean;
  /** How likely a buyer sends copies, is impatient, wants something else for the same payment. */
  readonly copying: number;
  readonly impatience: number;
  readonly greed: number;
  /** How likely somebody else submits a payment, or its payer takes it back. */
  readonly foreign: number;
  readonly hostile: number;
  /** How likely a payer presents more payments at once than it can pay. */
  readonly overdrawing: number;
  /** How likely a payment that is broadcast is shown by a thief. */
  readonly thieving: number;
  /** How likely a buyer signs anew after anything but goods, and comes back from another address. */
  readonly stock: number;
  readonly roaming: number;
  /** How likely a payer has no more than what one purchase costs. */
  readonly poverty: number;
}

const OURS = [
  "0x00000000000000000000000000000000000000a1",
  "0x00000000000000000000000000000000000000a2",
] as const;

export function profileOf(random: Random, mode: Mode): Profile {
  const some = (probability: number, most: number): number =>
    random.chance(probability) ? random.next() * most : 0;
  const payments = random.between(1, 5);
  return {
    accounts: accountsOf(random, mode),
    workers: mode === "workers" ? 2 : 0,
    payments,
    payers: random.between(1, payments),
    maxTimeoutSeconds: random.pick([20, 30, 60]),
    blockMs: random.pick([1000, 2000, 4000]),
    confirmations: random.between(1, 3),
    maxTogether: random.pick([1, 2, 10]),
    failing: some(0.7, 0.2),
    crashing: some(0.5, 0.1),
    mostCrashes: random.between(1, 4),
    presumptions: mode === "replicas" && random.chance(0.3) ? random.between(1, 3) : 0,
    staleBlocks: random.chance(0.4) ? random.between(1, 4) : 0,
    losing: some(0.4, 0.5),
    lying: some(0.2, 0.3),
    reorganizations: random.chance(0.3) ? random.between(1, 3) : 0,
    feeSpikes: random.chance(0.3) ? random.between(1, 2) : 0,
    refusing: some(0.4, 0.6),
    upstreamFailing: some(0.4, 0.6),
    large: some(0.4, 1),
    leaving: some(0.5, 0.8),
    copying: some(0.6, 1),
    impatience: some(0.4, 0.7),
    greed: some(0.4, 1),
    foreign: some(0.3, 0.8),
    hostile: some(0.3, 0.6),
    overdrawing: some(0.4, 1),
    thieving: some(0.6, 1),
    stock: some(0.6, 1),
    roaming: some(0.4, 1),
    poverty: some(0.3, 1),
    leavingBehind: some(0.3, 1),
    // Last: what older seeds make of the others is as it was.
    leading: some(0.5, 0.7),
    repeats: random.chance(0.5) ? random.between(1, 4) : 0,
    isAfter: random.chance(0.4),
  };
}

function accountsOf(random: Random, mode: Mode): Profile["accounts"] {
  const [first, second] = OURS;
  if (mode !== "replicas") return [random.chance(0.3) ? [first, second] : [first]];
  return random.pick([
    [[first], [second]],
    [[first], [first]],
    [
      [first, second],
      [first, second],
    ],
    [[first], []],
  ]);
}

/** A world without faults, in which one honest buyer pays once. */
export const CALM: Profile = {
  accounts: [[OURS[0]]],
  workers: 0,
  payments: 1,
  payers: 1,
  maxTimeoutSeconds: 30,
  blockMs: 2000,
  confirmations: 1,
  maxTogether: 10,
  failing: 0,
  crashing: 0,
  mostCrashes: 0,
  presumptions: 0,
  staleBlocks: 0,
  losing: 0,
  lying: 0,
  reorganizations: 0,
  feeSpikes: 0,
  refusing: 0,
  upstreamFailing: 0,
  large: 0,
  leaving: 0,
  leading: 0,
  repeats: 0,
  isAfter: false,
  copying: 0,
  impatience: 0,
  greed: 0,
  foreign: 0,
  hostile: 0,
  overdrawing: 0,
  thieving: 0,
  stock: 0,
  roaming: 0,
  poverty: 0,
  leavingBehind: 0,
};
