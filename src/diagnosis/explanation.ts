/**
 * Why a request is answered as it is: how its URL is read, which rule wins over which, and the answer itself as
 * the gateway would give it (`dry-gateway.ts`). Asks nobody, so it holds for a process that is not running.
 */
import {
  PUBLISHED_PATHS,
  sitesOf,
  siteTable,
  type Config,
  type RouteSettings,
  type Site,
} from "../config/config.ts";
import { hostFor, rewriteTarget } from "../gateway/upstream/backend/rewriting.ts";
import { Router } from "../gateway/paths/router.ts";
import { readTarget } from "../gateway/paths/target.ts";
import { DryGateway, type DryAnswer, type DryOutcome, type RequestPrice } from "./dry-gateway.ts";
import { notesOn } from "./explanation-notes.ts";
import { payerNotes } from "./payer-notes.ts";
import {
  inWinningOrder,
  isSamePattern,
  listsMethod,
  matchesPath,
  whyBeaten,
} from "./rule-order.ts";

export interface ExplainQuestion {
  /** Upper-case. */
  readonly method: string;
  /** A URL, or the path and query of one. */
  readonly url: string;
  /** Raw `name, value` pairs. */
  readonly headers: readonly string[];
  /** Default: it has none. */
  readonly body?: Buffer | undefined;
  /** Of whom it is said what it costs him, an EVM or a Solana address. Default: of nobody. */
  readonly payer?: string | undefined;
}

export interface Explanation {
  readonly method: string;
  /** Path and query as a client would send them. */
  readonly target: string;
  /** The canonical path; null where the URL is refused. */
  readonly path: string | null;
  readonly query: string;
  /** Free, priced, denied, unmatched, method-not-allowed, refused, listing, preflight or server-options. */
  readonly outcome: Outcome;
  /** One sentence without a final period. */
  readonly why: string;
  readonly winner: RouteSettings | null;
  /** Rules that match the path as well, in the order in which they would win. */
  readonly beaten: readonly { readonly route: RouteSettings; readonly why: string }[];
  /** What this very request costs; null where that is not computed. */
  readonly price: RequestPrice | null;
  readonly forwarded: Forwarded | null;
  /** What the gateway answers; null where the backend does. */
  readonly answer: DryAnswer | null;
  /** What is worth knowing beside it; sentences without a final period. */
  readonly notes: readonly string[];
}

type Outcome =
  | "priced"
  | "free"
  | "denied"
  | "unmatched"
  | "method-not-allowed"
  | "refused"
  | "listing"
  | "preflight"
  | "server-options";

/** Where a request goes, at once or once it is paid for. */
interface Forwarded {
  readonly upstream: string;
  readonly targets: readonly string[];
  /** Path and query as the backend gets them; null: it is outside of what the upstream serves. */
  readonly target: string | null;
  /** What Host says; null: the target's own name. */
  readonly host: string | null;
}

/** The configuration must have routes; the question is for that of its sites which the URL or a Host line names. */
export function explain(
  whole: Config,
  { method, url, headers, body, payer }: ExplainQuestion,
): Explanation {
  const config = siteFor(whole, valueOf(headers, "host") ?? URL.parse(url)?.host);
  const { target, notes } = targetOf(config, url);
  const dry = new DryGateway(config);
  const outcome = dry.ask({ method, target, headers, body });
  const publicHost = new URL(config.publicUrl ?? "http://localhost").host;
  const read = readTarget(method, target, new Set([publicHost]));
  const path = read.kind === "ok" ? read.path : null;
  const asked = outcome.decision.kind === "preflight" ? outcome.decision.method : method;
  const matching =
    path === null ? [] : inWinningOrder(config.routes).filter((route) => matchesPath(route, path));
  const winner = outcome.route ?? preflightWinner(outcome, matching, asked);
  return {
    method,
    target,
    path,
    query: read.kind === "ok" ? read.query : "",
    outcome: nameOf(outcome),
    why: whyOf(config, outcome, { matching, method: asked, path }),
    winner,
    beaten: beatenBy(winner, matching, asked),
    price: outcome.price,
    forwarded: forwardedTo(config, outcome, { headers, target }),
    answer: outcome.answer,
    notes: [
      ...notes,
      ...(payer === undefined ? [] : payerNotes(config, winner, payer)),
      ...notesOn(config, { method, outcome, target }),
    ],
  };
}

/** The file's own where none is named, or none of ours. */
function siteFor(config: Config, host = ""): Site<Config> {
  const [own, ...others] = sitesOf(config);
  const site = siteTable([own, ...others]).of(host);
  return others.find((each) => each.site === site) ?? own;
}

/** The part of a URL that a client sends; of our own public URL without what it begins with. */
function targetOf(config: Config, url: string): { target: string; notes: string[] } {
  const [whole = "", fragment] = url.split("#", 2);
  const notes = fragment === undefined ? [] : ["clients never send what stands behind #"];
  const parts = /^https?:\/\/[^/?]*/i.exec(whole);
  if (parts === null) return { target: whole, notes };
  const publicUrl = config.publicUrl ?? "";
  const rest = whole.slice(publicUrl.length);
  const isOurs = whole.startsWith(publicUrl) && (rest === "" || /^[/?]/.test(rest));
  if (!isOurs) notes.push(`this is not below publicUrl (${publicUrl}); only path and query decide`);
  const sent = isOurs ? rest : whole.slice(parts[0].length);
  const target = sent.startsWith("/") ? sent : `/${sent}`;
  const standard = URL.parse(target, "http://localhost");
  const spelled = standard === null ? target : standard.pathname + standard.search;
  if (spelled !== target) {
    notes.push(
      `browsers and fetch send ${spelled} for this URL; explain that to see what they get`,
    );
  }
  return { target, notes };
}

function nameOf({ decision, answer }: DryOutcome): Outcome {
  switch (decision.kind) {
    case "challenge":
    case "malformed":
    case "signed-in":
    case "presented":
    case "unpriced":
      return "priced";
    case "rejected":
    case "misread":
    case "crowded":
    case "left":
      return "refused";
    case "denied":
      return answer?.status === 404 ? "unmatched" : "denied";
    case "status":
    case "session":
    case "balance":
    case "tools":
      return "listing";
    case "member":
      return "free";
    default:
      return decision.kind;
  }
}

/** What an explanation looks at. */
interface Looked {
  /** Rules that match the path, the winner first. */
  readonly matching: readonly RouteSettings[];
  readonly method: string;
  readonly path: string | null;
}

function whyOf(config: Config, { decision, route }: DryOutcome, looked: Looked): string {
  const { matching, method, path } = looked;
  switch (decision.kind) {
    case "rejected":
      return decision.detail.replace(/\.$/, "") + suspectsOf(config, looked);
    case "listing":
      return whyOurs(decision.path, config.discovery.page);
    case "tools":
      return "messages to the tools of this site are answered by the gateway; each call is a request of its own";
    case "server-options":
      return "OPTIONS * is about the server and answered by the gateway";
    case "preflight":
      return `a preflight for ${method} is never priced, and the gateway answers it`;
    case "method-not-allowed": {
      const [first] = matching;
      if (first === undefined)
        return `the gateway answers there itself, and takes ${decision.allow} alone`;
      const keys = matching.filter((each) => isSamePattern(first, each));
      const listed = keys.map((each) => each.key).join(" and ");
      return `${listed} wins by its path and has no ${method}; less specific rules are not asked`;
    }
    default:
      if (route !== null) {
        if (looked.matching.length <= 1) return "the only rule that matches";
        if (listsMethod(route, looked.method))
          return "the most specific rule, and it names the method";
        return "the most specific rule";
      }
      return whyUnmatched(config, path ?? "");
  }
}

function whyOurs(path: string, page: string | null): string {
  if (path === page)
    return "the catalogue page is the gateway's own, before every rule (discovery.page)";
  const [key] = Object.entries(PUBLISHED_PATHS).find(([, each]) => each === path) ?? ["listed"];
  const what = key === "listed" ? "the discovery listing" : "this document";
  const before =
    path === PUBLISHED_PATHS.listed
      ? "before every rule"
      : "before every rule but one of that very path";
  return `${what} is the gateway's own, ${before} (discovery.${key})`;
}

function whyUnmatched({ unmatched, routes }: Config, path: string): string {
  const near = routes.find((route) => {
    const other = path.endsWith("/") ? path.slice(0, -1) : `${path}/`;
    return matchesPath(route, other) || matchesPath(route, path.toLowerCase());
  });
  const hint = near === undefined ? "" : `; ${near.key} is another path, by a slash or letter case`;
  return `no rule matches, and unmatched is ${unmatched}${hint}`;
}

/**
 * Rules that some backend might find behind a path that is refused as ambiguous: each one that, alone beside
 * the rule that matches to the letter, makes the router refuse it.
 */
function suspectsOf(config: Config, { matching, method, path }: Looked): string {
  if (path === null) return "";
  const [first] = matching;
  const letter = matching.filter((each) => first !== undefined && isSamePattern(first, each));
  const suspects = config.routes.filter((route) => {
    if (route.action.kind === "free" || letter.includes(route)) return false;
    const rules = [...letter, route].map((each) => ({ ...each, value: each }));
    const router = new Router(rules, {
      guarded: ({ action }: RouteSettings): boolean => action.kind !== "free",
      unmatchedGuarded: false,
    });
    return router.match(method, path).kind === "ambiguous";
  });
  const keys = suspects.map(({ key }) => key);
  return keys.length === 0 ? "" : `: some backends would serve ${keys.join(" or ")}`;
}

function preflightWinner(
  { decision }: DryOutcome,
  matching: readonly RouteSettings[],
  method: string,
): RouteSettings | null {
  if (decision.kind !== "preflight") return null;
  const [first] = matching;
  const keys = matching.filter((each) => first !== undefined && isSamePattern(first, each));
  return keys.find((each) => each.methods === null || listsMethod(each, method)) ?? null;
}

function beatenBy(
  winner: RouteSettings | null,
  matching: readonly RouteSettings[],
  method: string,
): Explanation["beaten"] {
  const [first] = matching;
  return matching
    .filter((route) => route !== winner)
    .map((route) => {
      if (winner !== null) return { route, why: whyBeaten(winner, route, method) };
      const isFirst = first !== undefined && isSamePattern(first, route);
      const listed = route.methods?.join(", ") ?? "";
      const other = `is for ${listed}, not for ${method}`;
      return { route, why: isFirst ? other : `is less specific than ${first?.key ?? ""}` };
    });
}

function forwardedTo(
  config: Config,
  { decision, route }: DryOutcome,
  { headers, target }: { readonly headers: readonly string[]; readonly target: string },
): Forwarded | null {
  if (!("plan" in decision)) return null;
  const action = route?.action;
  const name =
    action === undefined || action.kind === "deny" ? config.defaultUpstream : action.upstream;
  const upstream = config.upstreams.find((each) => each.name === name);
  if (upstream === undefined) return null;
  const host = valueOf(headers, "host") ?? new URL(config.publicUrl ?? "http://localhost").host;
  return {
    upstream: upstream.name,
    targets:
      upstream.command === null
        ? upstream.targets.map(({ url }) => url)
        : [upstream.command.run.join(" ")],
    target: rewriteTarget(target, upstream.path),
    host: hostFor({ headers: { host } }, upstream.host),
  };
}

function valueOf(headers: readonly string[], wanted: string): string | undefined {
  const at = headers.findIndex((name, index) => index % 2 === 0 && name.toLowerCase() === wanted);
  return at < 0 ? undefined : headers[at + 1];
}
