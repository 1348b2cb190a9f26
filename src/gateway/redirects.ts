/**
 * Where a backend's redirect leads the buyer of its answer: to what his payment is enough for, or elsewhere. A redirect
 * within our own origin is no goods yet: what was paid is for its target, where that costs no more.
 */
import { isPaidWith } from "../payments/sale/cheaper-shop.ts";
import type { PaymentRequirements } from "../x402/x402.ts";
import { acceptable } from "./challenge.ts";
import {
  soldMethodOf,
  versionOf,
  type PricedDecision,
  type PricedPlan,
  type Snapshot,
} from "./decision.ts";
import { offersOfAccount } from "./membership.ts";
import { valueOf } from "./message/field-values.ts";
import type { InboundRequest } from "./message/inbound.ts";
import { readTarget } from "./paths/target.ts";

/** Which answers lead elsewhere, and which methods become `GET` on the way, as every client has it. */
const REDIRECTS: ReadonlyMap<number, "same" | "post" | "get"> = new Map([
  [301, "post"],
  [302, "post"],
  [303, "get"],
  [307, "same"],
  [308, "same"],
]);
/** Redirects of one request that are followed here. */
export const MAX_FOLLOWED = 5;

/** A request that a redirect leads to. */
export interface Led {
  readonly method: string;
  /** Canonical path and query. */
  readonly target: string;
  /** `METHOD target` that the payment is for from now on, behind the name of its site; null: what is there is free. */
  readonly sold: string | null;
  /** It has the backend of the request that led there. */
  readonly isSameBackend: boolean;
}

/** What a redirect is read by. */
export interface RedirectGround {
  readonly request: Pick<InboundRequest, "method" | "headers" | "rawHeaders">;
  readonly decision: PricedDecision;
  readonly snapshot: Snapshot;
  /** What was paid with. */
  readonly terms: () => PaymentRequirements;
}

/** Within our own origin, at a target that is refused as it is spelt: nobody gets there. */
export const NOWHERE = "nowhere";

/**
 * Null for an answer that is no redirect, and for one to another host, to what is not served, or to what costs more.
 * @param lines the raw lines of the backend's answer
 * @param from the canonical target that was asked for
 */
export function readRedirect(
  status: number,
  lines: readonly string[],
  from: string,
  { request, decision, snapshot, terms }: RedirectGround,
): Led | typeof NOWHERE | null {
  const by = REDIRECTS.get(status);
  const location = by === undefined ? undefined : valueOf(lines, "location");
  if (location === undefined) return null;
  const ours = new URL(snapshot.publicUrl);
  const url = URL.parse(location, snapshot.publicUrl + from);
  if (url === null || !isOurs(url, ours, request, snapshot)) return null;
  const { method: asked = "" } = request;
  const isKept = by === "same" || asked === "HEAD" || (by === "post" && asked !== "POST");
  const method = isKept ? asked : "GET";
  const read = readTarget(method, pathBelow(ours, url) + url.search, snapshot.authorities);
  if (read.kind !== "ok") return NOWHERE;
  const { raw: target, path } = read;
  const match = snapshot.router.match(method, path);
  const unmatched = match.kind === "unmatched" ? snapshot.unmatched : null;
  const plan = match.kind === "route" ? match.value : unmatched;
  if (plan === null || plan.kind === "deny" || snapshot.documents.has(path)) return null;
  const isSameBackend = plan.engine === decision.plan.engine;
  if (plan.kind === "free") return { method, target, sold: null, isSameBackend };
  // It is more than an answer: nothing is filled by what was paid before.
  if (plan.fills !== undefined) return null;
  // Nor is what is charged by use paid at a fixed price, or the other way.
  if (plan.metering?.terms !== decision.plan.metering?.terms) return null;
  const there = { plan, method: soldMethodOf(snapshot.router, plan, method, path), path, target };
  if (!isPaidThere(there, { request, decision, snapshot, terms }, method === asked)) return null;
  const sold = `${there.method} ${snapshot.site}${target}`;
  return { method, target, sold, isSameBackend };
}

/** Where a redirect leads, and what is sold there. */
interface There extends Pick<Led, "method" | "target"> {
  readonly path: string;
  readonly plan: PricedPlan;
}

/**
 * Whether what was paid is enough there. Whatever has paid for a route at its fixed price, an earlier one or a member's, has paid for all
 * that it serves. What a request has its own price for is paid by exactly that.
 * @param keepsBody what was sent here is sent there, too
 */
function isPaidThere(there: There, ground: RedirectGround, keepsBody: boolean): boolean {
  const { decision, request, terms } = ground;
  const { plan, method, target } = there;
  const { computed, label } = plan;
  if (computed === undefined) {
    return label === decision.plan.label || isPaidWith(acceptedAt(there, ground), terms());
  }
  const { rawHeaders } = request;
  const sent = keepsBody && decision.priced !== undefined ? decision.priced : { rawHeaders };
  const own = computed.planFor({ ...sent, method, target });
  if (!own.ok) return false;
  const accepted = acceptedAt({ ...there, plan: own.value }, ground);
  const { maxAmountRequired: paid } = terms();
  return isPaidWith(
    accepted.filter(({ maxAmountRequired }) => maxAmountRequired === paid),
    terms(),
  );
}

/** What a payment of the same buyer may be for there: what anybody pays, what his groups do, and what was asked a short while ago. */
function acceptedAt(
  { plan, ...there }: There,
  { decision, snapshot }: Pick<RedirectGround, "decision" | "snapshot">,
): readonly PaymentRequirements[] {
  const { offers } = plan;
  const resource = snapshot.publicUrl + there.target;
  if (decision.kind === "presented") {
    const { priced: _, ...presented } = decision;
    return acceptable({ ...presented, ...there, plan, offers, resource });
  }
  const isKnown = decision.kind === "signed-in" && decision.signIn.ok;
  const own = isKnown ? offersOfAccount(plan.members, decision.signIn.value) : [];
  return [offers, ...own].flatMap((each) => each.requirements(resource, versionOf(decision)));
}

/** Any client may name another host than ours as the one that it asks: what leads there is not ours for that. */
function isOurs(
  { protocol, host }: URL,
  ours: URL,
  { headers }: Pick<InboundRequest, "headers">,
  { hosts }: Pick<Snapshot, "hosts">,
): boolean {
  if (protocol !== "https:" && protocol !== "http:") return false;
  if (host === ours.host) return true;
  return host === headers.host?.toLowerCase() && hosts?.names.has(host) === true;
}

/** The path as it is asked for here: behind the prefix of `publicUrl`, if it has one. */
function pathBelow({ pathname: base }: URL, { pathname }: URL): string {
  return base !== "/" && pathname.startsWith(`${base}/`) ? pathname.slice(base.length) : pathname;
}
