/**
 * What is had for nothing and counted: uses of a purchase, and what is free of a route before its price begins. Each request
 * takes one from a pot, which its process has leased, and gives it back where it gets no goods.
 */
import { quotaOwner, quotaPot, usesPot } from "../ledger/ledger.ts";
import { neighbourhoodOf, networkOf } from "../http/ip-address.ts";
import type { Granted } from "../payments/sale/admission.ts";
import { PotShare, type PotLeases } from "../payments/credits/pot-leases.ts";
import { systemTime } from "../time/time.ts";
import type { ProvenAccount } from "../x402/session.ts";
import type { Client } from "./client/client.ts";
import type { PricedDecision, PricedPlan } from "./decision.ts";
import { isHarmless } from "./delivery.ts";
import { QuotaDoor, type QuotaTerms, type Stranger } from "./quota-door.ts";
import type { Delivery } from "./upstream/upstream.ts";

const BAD_REQUEST = 400;

type Leases = Pick<PotLeases, "reserve">;

/** One use, for one request. */
export interface CountedUse {
  /** What its answer says of what is left: raw header lines. */
  readonly lines: readonly string[];
  /**
   * Has to be called once the request has ended, whatever has become of it.
   * @param isNothing what was answered is no goods, whatever its status says. Default: the status says it
   */
  readonly ended: (delivery: Delivery, isNothing?: boolean) => void;
}

/** Why there is none, and what is to be said of that. */
export interface NoUse {
  readonly kind: "none" | "unavailable";
  /** Raw header lines. */
  readonly lines: readonly string[];
  /** A sentence without a final period; undefined: there is nothing to say. */
  readonly said?: string;
}

/** What is asked for where nothing is left: with what is to be said of that. */
export function withoutUse<Visit extends { decision: object; lines: readonly string[] }>(
  visit: Visit,
  { lines, said }: NoUse,
): Visit {
  const decision = said === undefined ? visit.decision : { ...visit.decision, told: said };
  return { ...visit, decision, lines: [...visit.lines, ...lines] };
}

/** A request, and who sends it. */
export interface CountedAsking {
  readonly client: Pick<Client, "address">;
  readonly visitor: { readonly request: { readonly method?: string | undefined } };
  readonly decision: Pick<PricedDecision, "soldMethod"> & {
    readonly plan: Pick<PricedPlan, "label" | "goods" | "quota">;
  };
}

interface Counted {
  readonly pot: string;
  readonly name: "free" | "purchase";
  readonly amount: number;
  readonly untilMs: number;
  readonly windowMs?: number;
}

export class CountedUses {
  readonly #leases: Leases | undefined;
  readonly #now: () => number;
  readonly #door = new QuotaDoor();

  /**
   * @param leases undefined: nothing is counted, and nothing is had so
   * @param now milliseconds since the epoch
   */
  constructor(leases: Leases | undefined, now = () => systemTime.now()) {
    this.#leases = leases;
    this.#now = now;
  }

  /** Strangers that are remembered. */
  get strangers(): number {
    return this.#door.size;
  }

  /** A use of the first of these purchases that has one left. */
  async ofPurchase(granted: readonly Granted[], asked: CountedAsking): Promise<CountedUse | NoUse> {
    let none: NoUse = { kind: "none", lines: [] };
    for (const { key, times, untilMs } of granted) {
      if (times === null) continue;
      const counted = { pot: usesPot(key), name: "purchase", amount: times, untilMs } as const;
      const taken = await this.#take(counted, asked);
      if (!("kind" in taken)) return taken;
      none = taken;
      if (taken.kind === "unavailable") break;
    }
    return none;
  }

  /** A use of what is free. @param account who has signed in; null: nobody has */
  async ofQuota(asked: CountedAsking, account: ProvenAccount | null): Promise<CountedUse | NoUse> {
    const { client, decision } = asked;
    const { quota, label: route } = decision.plan;
    const who = quota === null ? undefined : strangerOf(quota, client, account);
    if (quota === null || who === undefined) return { kind: "none", lines: [] };
    const { requests: amount, windowMs, by } = quota;
    const nowMs = this.#now();
    const untilMs = (Math.floor(nowMs / windowMs) + 1) * windowMs;
    const pot = quotaPot(route, by, who.who, untilMs);
    const counted = { pot, name: "free", amount, untilMs, windowMs } as const;
    const stranger = { route, by, ...who, windowMs, untilMs };
    const entry = this.#door.admits(stranger, nowMs);
    if (entry !== "in") return nothingLeft(counted, nowMs, entry === "full");
    const taken = await this.#take(counted, asked);
    if ("kind" in taken && taken.kind === "none") this.#door.emptied(stranger, nowMs);
    return taken;
  }

  async #take(counted: Counted, asked: CountedAsking): Promise<CountedUse | NoUse> {
    const { pot, amount, untilMs } = counted;
    const opens = { amount: BigInt(amount), untilMs };
    const reserved = this.#leases?.reserve(pot, { max: 1n, opens });
    const share = reserved instanceof Promise ? await reserved : reserved;
    if (share === undefined) return { kind: "none", lines: [] };
    if (share === "short") return nothingLeft(counted, this.#now());
    if (!(share instanceof PotShare)) return { kind: "unavailable", lines: [] };
    return {
      lines: leftLines(counted, share.left, this.#now()),
      ended: (delivery, isNothing = false) => {
        const used = !isNothing && isUsed(delivery, counted, asked) ? 1n : 0n;
        share.settle(used, asked.decision.plan.label);
      },
    };
  }
}

/** What is free is had by an address, or by a key: code would have to be asked, for whoever names an account. */
function strangerOf(
  { by }: QuotaTerms,
  { address }: CountedAsking["client"],
  account: ProvenAccount | null,
): Pick<Stranger, "who" | "neighbourhood"> | undefined {
  const from = networkOf(address);
  if (by === "address") return { who: from, neighbourhood: neighbourhoodOf(address) };
  if (account === null) return undefined;
  return { who: quotaOwner(account), neighbourhood: from };
}

/**
 * Whether he has got goods for it. Who has paid loses nothing by a head alone, nor by what he has left before it was answered and
 * that has changed nothing; of what is free that counts, or somebody could have a backend work without an end.
 */
function isUsed(
  delivery: Delivery,
  { name }: Counted,
  { visitor, decision: { plan, soldMethod } }: CountedAsking,
): boolean {
  const { kind, status } = delivery;
  if (kind !== "delivered" && kind !== "abandoned") return false;
  const isPaid = name === "purchase";
  if (status === null) {
    return kind === "abandoned" && delivery.sent && !(isPaid && isHarmless(soldMethod));
  }
  const isLook = visitor.request.method === "HEAD" && soldMethod === "GET";
  return (status < BAD_REQUEST || plan.goods.has(status)) && !(isPaid && isLook);
}

/** As draft-ietf-httpapi-ratelimit-headers-10 has it: what is left, and for how many seconds. */
function leftLines(
  { name, amount, untilMs, windowMs }: Counted,
  left: bigint,
  nowMs: number,
): readonly string[] {
  const seconds = Math.max(1, Math.ceil((untilMs - nowMs) / 1000));
  const window = windowMs === undefined ? "" : `;w=${windowMs / 1000}`;
  return [
    "RateLimit-Policy",
    `"${name}";q=${amount}${window}`,
    "RateLimit",
    `"${name}";r=${left};t=${seconds}`,
  ];
}

/** @param isFull others have it, and no more are let in before it begins anew */
function nothingLeft(counted: Counted, nowMs: number, isFull = false): NoUse {
  const { name, amount, untilMs } = counted;
  const lines = leftLines(counted, 0n, nowMs);
  const when = new Date(untilMs).toISOString();
  const said = isFull
    ? `what is free of it is given to others, and begins anew at ${when}`
    : name === "free"
      ? `what is free of it (${amount} requests) is used up, and begins anew at ${when}`
      : "the uses of what was paid before are used up";
  return { kind: "none", lines, said };
}
