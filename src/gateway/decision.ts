/**
 * How a request becomes a decision. One function, called for requests, upgrades and
 * `Expect: 100-continue` alike; it reads the head only, waits for nothing and changes nothing.
 *
 *     target -> framing -> host -> [preflight] -> [listing] -> route -> payment
 */
import type { RouteMeter } from "../telemetry/metrics.ts";
import { systemTime } from "../time/time.ts";
import { PAYMENT_HEADERS } from "../x402/header.ts";
import { readIdentifier } from "../x402/payment-identifier.ts";
import type { PaymentKey } from "../x402/payment-key.ts";
import type { PaymentStatusUrls } from "../x402/payment-status.ts";
import type { Refusal, Result } from "../x402/result.ts";
import type { ProvenAccount } from "../x402/session.ts";
import {
  X402_VERSION,
  X402_VERSION_2,
  type SpokenVersions,
  type X402Version,
} from "../x402/x402.ts";
import type { PricedRequest } from "../pricing/computed-price.ts";
import type { Metering } from "./metered-answer.ts";
import type { QuotaTerms } from "./quota-door.ts";
import { broughtBy, type Brought, type Presentation } from "./brought.ts";
import type { BalanceRequest, BalanceTerms } from "./balances.ts";
import type { ComputedPlans } from "./computed-plans.ts";
import type { DeclaredInput } from "./declared-input.ts";
import { readsEarlierBody, type EarlierQuotes } from "./offers/earlier-quotes.ts";
import type { ServedHosts } from "./client/other-hosts.ts";
import { framingProblem } from "./message/field-lines.ts";
import type { InboundRequest } from "./message/inbound.ts";
import type { OfferPage } from "./offers/offer-page.ts";
import type { Conversation } from "./mcp/conversation.ts";
import type { RefusedMessage } from "./mcp/message.ts";
import { isToolPath, type ToolTable } from "./mcp/tool-table.ts";
import { memberOf, type MemberTerms } from "./membership.ts";
import type { CreditPrice } from "../payments/credits/credit-price.ts";
import type { GoodsRequest } from "../payments/sale/admission.ts";
import type { Offers } from "../payments/sale/offers.ts";
import type { Grant } from "../payments/sale/payment-service.ts";
import type { Match, Router } from "./paths/router.ts";
import { readTarget } from "./paths/target.ts";
import {
  readAsker,
  readSessionRequest,
  readSignIn,
  type SessionRequest,
  type ShownSignIn,
  type SignInTerms,
} from "./signed-in.ts";
import type { Engine } from "./upstream/upstream.ts";

/** What the configuration says about a route, made ready for requests. */
export type RoutePlan =
  | { readonly kind: "deny"; readonly meter: RouteMeter }
  | {
      readonly kind: "free";
      readonly meter: RouteMeter;
      readonly engine: Engine;
      /** What it would cost, were it not for the mode of the route; undefined: nothing. */
      readonly shadow?: string | ((request: PricedRequest) => string);
      /** What its requests are by what they say (`mcp/`); undefined: they are free, whatever they say. */
      readonly tools?: ToolTable;
    }
  | PricedPlan;

/** A token as people name it. */
interface AcceptedToken {
  readonly network: string;
  readonly address: string;
  readonly symbol: string;
  readonly decimals: number;
}

export interface PricedPlan {
  readonly kind: "priced";
  /** The route's key, as a label for logs. */
  readonly label: string;
  readonly meter: RouteMeter;
  readonly engine: Engine;
  /** Where the price is computed and not known: the most that a request costs. */
  readonly offers: Offers;
  /** The plans of the same route at the price of each request. Default: all cost the same. */
  readonly computed?: ComputedPlans<PricedPlan>;
  /** By what its answers are charged; the offers are the most that one costs then. Default: all cost the same. */
  readonly metering?: Metering;
  /** In which it can be paid. */
  readonly tokens: readonly AcceptedToken[];
  /** What a person sees in place of the JSON of a 402; null: the same as everybody. */
  readonly page: OfferPage | null;
  /** `Cache-Control` of what is sold: never for shared caches. */
  readonly cacheControl: string;
  /** How long and how often what was sold may be fetched again; null: not at all. */
  readonly repeat: { readonly forMs: number; readonly times: number } | null;
  /** `follow`: redirects of the backend are followed here. */
  readonly redirects: "pass" | "follow";
  /** Statuses that are goods beside those below 400. */
  readonly goods: ReadonlySet<number>;
  /** Null: nothing of it is checked. */
  readonly input: DeclaredInput | null;
  /** Whom it costs something else, in the order in which they count. */
  readonly members: readonly MemberTerms[];
  /** Who has it without paying again, since he has paid for one of these routes. */
  readonly grants: readonly Grant[];
  /** Raw lines of each 402 beside what it asks for: where else it may be paid, or has been. */
  readonly links: readonly string[];
  /** What is had of it before its price begins; null: nothing. */
  readonly quota: QuotaTerms | null;
  /** The backend works first, and is paid for what it has answered. */
  readonly isSettledAfter: boolean;
  /** What it costs from a balance; null: it is not paid so. */
  readonly credits: CreditPrice | null;
  /** See {@link GoodsRequest.fills}. Default: a payment for it fills nothing. */
  readonly fills?: GoodsRequest["fills"] | undefined;
}

/** Everything that a decision depends on; a request keeps the snapshot that it began with. */
export interface Snapshot {
  /** Name of the host that it is for, where there are several; "": it is for all others. */
  readonly site: string;
  readonly router: Router<RoutePlan>;
  /** For what no route matches; null denies it. */
  readonly unmatched: Extract<RoutePlan, { kind: "free" }> | null;
  /** Hosts that an absolute-form target may name. */
  readonly authorities: ReadonlySet<string>;
  /** Null: nobody is asked by a name here, but another proxy is. */
  readonly hosts: ServedHosts | null;
  /** What `resource` begins with: no trailing slash. */
  readonly publicUrl: string;
  /** Paths of the gateway's own documents on this listener, the discovery listing among them. */
  readonly documents: ReadonlySet<string>;
  readonly protocol: SpokenVersions;
  /** False: preflight requests for free routes are the backend's to answer. */
  readonly answersPreflight: boolean;
  /** What was asked for before, the newest first. */
  readonly earlier: readonly EarlierQuotes[];
  /** Asks who a client is that has paid before; null: nobody is asked. */
  readonly signIn: SignInTerms | null;
  /** Where balances are told; null, and the default: nowhere. */
  readonly balances?: BalanceTerms | null;
  /** Where messages to the tools are posted; null, and the default: nowhere. */
  readonly tools?: string | null;
  /** Where buyers ask what became of their payments; null: nowhere. */
  readonly statuses: PaymentStatusUrls | null;
}

interface Place {
  /** Canonical path and query, sent upstream byte for byte. */
  readonly target: string;
  readonly path: string;
}

export type Decision =
  /** The request cannot be read one way only. */
  | {
      readonly kind: "rejected";
      readonly status: 400 | 411 | 413 | 414 | 415 | 421;
      readonly detail: string;
    }
  /** Its body never came, or there was no place to wait for it. */
  | { readonly kind: "left"; readonly meter: RouteMeter }
  | { readonly kind: "crowded"; readonly meter: RouteMeter }
  | {
      readonly kind: "denied";
      readonly status: 403 | 404;
      readonly meter: RouteMeter | null;
      /** A sentence without a final period; default: what the status says. */
      readonly detail?: string;
    }
  /** A message to a server of tools that cannot be read one way only. */
  | (Omit<RefusedMessage, "kind"> & { readonly kind: "misread"; readonly meter: RouteMeter })
  | { readonly kind: "method-not-allowed"; readonly allow: string }
  /** `OPTIONS *`: about the server, not about a resource. */
  | { readonly kind: "server-options" }
  | { readonly kind: "preflight"; readonly method: string; readonly headers: string }
  /** The discovery listing, or another document of the gateway's own. */
  | { readonly kind: "listing"; readonly path: string; readonly query: string }
  /** A message to the tools of the site. */
  | { readonly kind: "tools" }
  /** What became of that payment, for its buyer. */
  | { readonly kind: "status"; readonly payment: PaymentKey }
  /** Who has signed in wants a session, or wants to be forgotten. */
  | { readonly kind: "session"; readonly terms: SignInTerms; readonly asked: SessionRequest }
  /** Whoever has prepaid asks what is left. */
  | { readonly kind: "balance"; readonly asked: BalanceRequest }
  | ({ readonly kind: "free"; readonly plan: Extract<RoutePlan, { kind: "free" }> } & Place)
  | MemberDecision
  | PricedDecision;

/** A priced route that costs nothing whoever is known to ask. */
export interface MemberDecision extends Place {
  readonly kind: "member";
  readonly plan: PricedPlan;
  readonly account: ProvenAccount;
  /** Which he is of; null: he is no member of any. */
  readonly group: string | null;
  /** The header by which that is known. */
  readonly shownIn: string;
}

export type FreeDecision = Extract<Decision, { kind: "free" }>;
export type SignedInDecision = Extract<PricedDecision, { kind: "signed-in" }>;
export type PresentedDecision = Extract<PricedDecision, { kind: "presented" }>;

/** What is asked for of a priced route. */
interface SoldPlace extends Place {
  readonly plan: PricedPlan;
  /** What is asked of whoever asks: those of the plan, but for who is known to pay something else. */
  readonly offers: Offers;
  /** See {@link PricedPlan.page}. */
  readonly page: OfferPage | null;
  readonly resource: string;
  /** The method for which a payment is: that of a `HEAD` is for the `GET` of the same route. */
  readonly soldMethod: string;
  /** See {@link Snapshot.site}: what is paid for is a path of this one, and of no other. */
  readonly site: string;
  /** From what a price is computed, as far as the head tells; undefined: nothing is, now or a short while ago. */
  readonly priced?: PricedRequest;
  /** Its body has to be read before its price is known: {@link plan} is that of the most that it may cost. */
  readonly readsBody?: boolean;
  /** Why what is asked for is not its price: a sentence without a final period. */
  readonly provisional?: string;
  /** What is said beside its price to whoever has had for nothing what there is; as {@link provisional}. */
  readonly told?: string;
  /** Of a tool's plan: the call that asks for it. */
  readonly conversation?: Conversation;
}

/** A priced route, by what the request brought for it. */
export type PricedDecision = SoldPlace &
  (
    | { readonly kind: "challenge" }
    /** It has no price, and cannot be had: its expression fails, or comes to what is not sold. */
    | { readonly kind: "unpriced"; readonly status: 400 | 411 | 413 | 415; readonly detail: string }
    | { readonly kind: "malformed"; readonly refusal: Refusal }
    | (ShownSignIn & {
        /** No payment, but who asks. */
        readonly kind: "signed-in";
        readonly version: X402Version;
      })
    | (Presentation & {
        readonly method: string;
        /** What its client calls the purchase, where the route asks for that; a refusal where that will not do. */
        readonly name: Result<string | undefined, Refusal>;
        /** See {@link Snapshot.earlier}. */
        readonly earlier: readonly EarlierQuotes[];
      })
  );

/** The envelope in which its client speaks; version 1 where it has shown nothing that can be read. */
export function versionOf(decision: PricedDecision): X402Version {
  return "version" in decision ? decision.version : X402_VERSION;
}

/** What a payment is for, as the ledger has it: at one site it is none for the same target of another. */
export function soldTarget({
  site,
  target,
  conversation,
}: Pick<PricedDecision, "site" | "target" | "conversation">): string {
  const { bought } = conversation ?? {};
  return bought === undefined ? site + target : `${site}${target}#${bought.target}`;
}

/** The header by which its client has shown that it has paid, or who it is. */
export function shownIn(decision: PricedDecision): string {
  return decision.kind === "signed-in" ? decision.shownIn : PAYMENT_HEADERS[versionOf(decision)];
}

export function decide(snapshot: Snapshot, request: InboundRequest): Decision {
  const method = request.method ?? "";
  const target = readTarget(method, request.url ?? "", snapshot.authorities);
  if (target.kind === "refused") {
    return { kind: "rejected", status: target.status, detail: target.detail };
  }
  const fault = headProblem(request);
  if (fault !== null) return { kind: "rejected", status: 400, detail: fault };
  if (snapshot.hosts?.only === true && !snapshot.hosts.names.has(request.headers.host)) {
    return { kind: "rejected", status: 421, detail: "Host is not one that is served here." };
  }
  if (target.kind === "asterisk") return { kind: "server-options" };

  const place = { target: target.raw, path: target.path };
  const preflight = readPreflight(snapshot, request, target.path);
  if (preflight !== null) return preflight;
  const told = decideTold(snapshot, request, target);
  if (told !== null) return told;
  const plan = planOf(snapshot, snapshot.router.match(method, target.path));
  // What stands there for a tool is no path of anybody's.
  if (isToolPath(target.path)) return { kind: "denied", status: 404, meter: null };
  if (plan.kind === "free") return { kind: "free", plan, ...place };
  if (plan.kind !== "priced") return plan;
  return decideSale(snapshot, request, plan, place);
}

/** What the gateway tells itself, and no route does; null: it is none of that. */
function decideTold(
  { documents, signIn: terms, balances, statuses, tools = null }: Snapshot,
  request: InboundRequest,
  { path, query }: { readonly path: string; readonly query: string },
): Decision | null {
  if (tools !== null && path === tools) {
    const isPosted = request.method === "POST";
    return isPosted ? { kind: "tools" } : { kind: "method-not-allowed", allow: "POST" };
  }
  const isDocument = documents.has(path);
  const asked = isDocument && terms !== null ? readSessionRequest(terms, request, path) : null;
  if (terms !== null && asked !== null) return { kind: "session", terms, asked };
  const payment = isDocument ? undefined : statuses?.read(path);
  if (!isDocument && payment === undefined) return null;
  const { method } = request;
  const reads = method === "GET" || method === "HEAD";
  if (!reads) return { kind: "method-not-allowed", allow: "GET, HEAD" };
  if (payment === null) return { kind: "denied", status: 404, meter: null };
  if (payment !== undefined) return { kind: "status", payment };
  if (terms === null || balances?.path !== path) return { kind: "listing", path, query };
  const { buy } = balances;
  return { kind: "balance", asked: { terms, shown: readAsker(terms, request), buy } };
}

/** A call of a tool: where its plan is, and what it has brought beside its header lines. */
export interface CalledTool {
  readonly conversation: Conversation;
  /** Absolute. */
  readonly resource: string;
  /** Undefined: nothing. */
  readonly brought: Brought | undefined;
}

/** What becomes of a request to a priced route, by what it brings and by what it costs. */
export function decideSale(
  snapshot: Snapshot,
  request: InboundRequest,
  plan: PricedPlan,
  { called, ...place }: Place & { readonly called?: CalledTool },
): MemberDecision | PricedDecision {
  const { method = "" } = request;
  const { earlier } = snapshot;
  const brought = called?.brought ?? broughtBy(snapshot, request);
  const soldMethod = soldMethodOf(snapshot.router, plan, method, place.path);
  const { conversation, resource = snapshot.publicUrl + place.target } = called ?? {};
  const { offers, page } = plan;
  const at = { ...place, plan, offers, page, resource, soldMethod, site: snapshot.site };
  const told = conversation === undefined ? at : { ...at, conversation };
  const isPriced = plan.computed !== undefined || earlier.length > 0;
  const sold = isPriced ? pricedByHead(told, brought, request, earlier) : told;
  if (isUnpriced(sold)) return sold;
  if (brought.kind === "challenge") return whoAsks(snapshot, request, sold);
  if (brought.kind !== "presented") return { ...brought, ...sold };
  const name = readIdentifier(brought.payment, sold.offers.identifier);
  return { ...brought, name, method, earlier, ...sold };
}

/** Of a request without a payment, which may show who asks. */
function whoAsks(
  { signIn, protocol }: Snapshot,
  request: InboundRequest,
  sold: SoldPlace,
): MemberDecision | PricedDecision {
  const { resource, plan } = sold;
  const shown = signIn && readSignIn(signIn, request, { resource, offers: plan.offers });
  if (shown === null) return { ...sold, kind: "challenge" };
  const version = protocol.v2 ? X402_VERSION_2 : X402_VERSION;
  const free = signIn?.areScreened === false ? freeMember(shown, sold) : null;
  const { signIn: by, shownIn: name } = shown;
  return free ?? { ...sold, kind: "signed-in", version, signIn: by, shownIn: name };
}

/** A session needs no proof any more: whom it costs nothing is served as if it were free, where nobody may be denied. */
function freeMember(
  { signIn, shownIn }: ShownSignIn,
  { plan, target, path }: Place & { readonly plan: PricedPlan },
): MemberDecision | null {
  if (plan.members.length === 0 || !signIn.ok || !("kind" in signIn.value)) return null;
  const account = signIn.value;
  const member = memberOf(plan.members, account);
  if (member === undefined || member.offers !== null) return null;
  return { kind: "member", plan, account, group: member.group, shownIn, target, path };
}

/** What is asked for by a plan of anybody. */
export function atPlan(plan: PricedPlan): Pick<PricedDecision, "plan" | "offers" | "page"> {
  const { offers, page } = plan;
  return { plan, offers, page };
}

type Unpriced = Extract<PricedDecision, { kind: "unpriced" }>;

function isUnpriced(sold: SoldPlace | Unpriced): sold is Unpriced {
  return "kind" in sold;
}

/** With the price of the request, where its head alone tells it. */
function pricedByHead(
  sold: SoldPlace,
  brought: Brought,
  { rawHeaders }: InboundRequest,
  earlier: readonly EarlierQuotes[],
): Unpriced | SoldPlace {
  const { plan, soldMethod: method, target, path } = sold;
  const { computed } = plan;
  const priced: PricedRequest = { method, target, rawHeaders };
  const isEarlier =
    brought.kind === "presented" && readsEarlierBody(earlier, { method, path }, systemTime.now());
  if (computed === undefined) return { ...sold, priced, ...(isEarlier && { readsBody: true }) };
  if (computed.readsBody) return { ...sold, priced, readsBody: true };
  const own = computed.planFor(priced);
  if (!own.ok) return { ...sold, kind: "unpriced", status: 400, detail: own.error };
  return { ...sold, priced, ...atPlan(own.value), ...(isEarlier && { readsBody: true }) };
}

/** Of one route only: else what a cheap `HEAD` has cost would pay for its `GET`. */
export function soldMethodOf(
  router: Router<RoutePlan>,
  { label }: PricedPlan,
  method: string,
  path: string,
): string {
  if (method !== "HEAD") return method;
  const get = router.match("GET", path);
  const isSame = get.kind === "route" && get.value.kind === "priced" && get.value.label === label;
  return isSame ? "GET" : method;
}

/**
 * RFC 9112 section 3.2: any other value is refused. Nothing here depends on it, but it goes on to the backend as
 * `X-Forwarded-Host`. Narrower than RFC 3986, whose names may hold quotes and commas.
 */
const HOST = /^(?:[\w.-]{0,255}|\[[\da-fA-F:.]{2,45}\])(?::\d{0,5})?$/;

function headProblem(request: InboundRequest): string | null {
  const fault = framingProblem(request);
  if (fault !== null) return fault;
  if (!HOST.test(request.headers.host ?? "")) return "Host is not the name of a host.";
  // Its answer is the request as it arrived, with what is added on the way: who asks, and secrets of the configuration.
  if (request.method === "TRACE") return "TRACE is not taken here.";
  return request.nameProblem ?? null;
}

/** A match, as far as it decides alone. */
function planOf(
  snapshot: Snapshot,
  match: Match<RoutePlan>,
): Exclude<RoutePlan, { kind: "deny" }> | Exclude<Decision, { kind: "free" } | PricedDecision> {
  switch (match.kind) {
    case "route": {
      const plan = match.value;
      return plan.kind === "deny" ? { kind: "denied", status: 403, meter: plan.meter } : plan;
    }
    case "method-not-allowed":
      return match;
    case "unmatched":
      return snapshot.unmatched ?? { kind: "denied", status: 404, meter: null };
    default: {
      const detail = "The path is close to another one that has a price; write it exactly.";
      return { kind: "rejected", status: 400, detail };
    }
  }
}

/**
 * A CORS preflight asks about another request, so it is matched by that request's method. For a priced
 * route it is never priced and always answered here; for a free one the backend may know better.
 */
function readPreflight(
  snapshot: Snapshot,
  { method, headers }: InboundRequest,
  path: string,
): Extract<Decision, { kind: "preflight" }> | null {
  if (method !== "OPTIONS") return null;
  const asked = headers["access-control-request-method"];
  if (asked === undefined || !/^[A-Z]{1,32}$/.test(asked)) return null;
  const match = snapshot.router.match(asked, path);
  const plan = match.kind === "route" ? match.value : null;
  const priced = plan?.kind === "priced";
  const isTold = snapshot.documents.has(path) || path === snapshot.tools;
  const ours = snapshot.answersPreflight && (plan !== null || isTold);
  if (!priced && !ours) return null;
  const names = headers["access-control-request-headers"];
  return { kind: "preflight", method: asked, headers: typeof names === "string" ? names : "" };
}
