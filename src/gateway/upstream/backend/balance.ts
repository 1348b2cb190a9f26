/** Which of several targets a request goes to. Weights are shares: a target of weight 3 gets three in four. */

/** What a target is to a balancer. */
export interface Weighted {
  /** Host and port: names the target among the others, and across restarts. */
  readonly name: string;
  /** A whole number, 1 or more. */
  readonly weight: number;
  /** Exchanges that run. */
  readonly active: number;
  /** Of the smooth round-robin: what the target is owed. */
  credit: number;
}

export type Balance = "round-robin" | "least-requests" | "hash(ip)";

/**
 * Chooses among targets; asked with fewer of them than before, it spreads over those. Undefined: among none.
 * @param address of the client
 */
export type Balancer = <Target extends Weighted>(
  targets: readonly Target[],
  address: string,
) => Target | undefined;

export function balancerOf(balance: Balance): Balancer {
  switch (balance) {
    case "round-robin":
      return inTurn;
    case "least-requests":
      return leastBusy;
    case "hash(ip)":
      return new Rendezvous().choose;
  }
}

/** Smooth weighted round-robin: a a b a, and not a a a b. */
function inTurn<Target extends Weighted>(targets: readonly Target[]): Target | undefined {
  let [best] = targets;
  let total = 0;
  for (const target of targets) {
    target.credit += target.weight;
    total += target.weight;
    if (best === undefined || target.credit > best.credit) best = target;
  }
  if (best !== undefined) best.credit -= total;
  return best;
}

/** The fewest exchanges for its weight; in turn between equals. */
function leastBusy<Target extends Weighted>(targets: readonly Target[]): Target | undefined {
  let [least] = targets;
  let equals: Target[] = [];
  for (const target of targets) {
    const [lowest = target] = equals;
    const difference = target.active * lowest.weight - lowest.active * target.weight;
    if (difference > 0) continue;
    if (difference < 0) equals = [];
    equals.push(target);
    least = target;
  }
  return equals.length > 1 ? inTurn(equals) : least;
}

/**
 * Weighted rendezvous hashing: each pair of client and target has a score, and the highest wins. When a
 * target leaves, only its own clients go elsewhere, and they come back when it does.
 */
class Rendezvous {
  /** Of targets, by name. */
  readonly #seeds = new Map<string, number>();

  readonly choose = <Target extends Weighted>(
    targets: readonly Target[],
    address: string,
  ): Target | undefined => {
    const key = hashText(address);
    let best: Target | undefined;
    let highest = Number.NEGATIVE_INFINITY;
    for (const target of targets) {
      const score = -target.weight / Math.log(fraction(key, this.#seedOf(target.name)));
      if (score <= highest) continue;
      best = target;
      highest = score;
    }
    return best;
  };

  #seedOf(name: string): number {
    let seed = this.#seeds.get(name);
    if (seed === undefined) {
      seed = hashText(name);
      this.#seeds.set(name, seed);
    }
    return seed;
  }
}

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** FNV-1a, 32 bits. */
function hashText(text: string): number {
  let hash = FNV_OFFSET;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), FNV_PRIME);
  }
  return hash >>> 0;
}

/** Between 0 and 1, neither of them: two hashes mixed so that each bit depends on all (murmur3's finish). */
function fraction(key: number, seed: number): number {
  let hash = Math.imul(key ^ seed, 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13) ^ seed, 0xc2b2ae35);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash ^= hash >>> 13;
  return ((hash >>> 0) + 0.5) / 2 ** 32;
}
