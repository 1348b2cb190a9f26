/**
 * What nobody means by a new configuration and what it would give away: a file of which only the beginning is there,
 * and paths that cost something and would cost nothing. A trimmed file is as good a file as any other, so both are
 * refused until somebody says that they are meant.
 */
import {
  priceOf,
  routePath,
  sitesOf,
  siteTable,
  type Config,
  type ParseResult,
  type Problem,
  type RouteSettings,
} from "../config/config.ts";
import { HostNames } from "../http/host-names.ts";
import { Router } from "../gateway/paths/router.ts";
import { inTurns, type Steps } from "../time/breath.ts";
import { about } from "./problem.ts";

/** Routes that are named; of the others their number is told. */
const MAX_NAMED = 10;
/** Stands for whatever a parameter or the rest of a path may be: no route spells it out. */
const ANYTHING = "anything-at-all";
/** By which a route is asked that lists no methods. */
const USUAL_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

const MEANT = "where this is meant, `coinslot reload FILE --allow-free` takes the file as it is";

/** A file as it was read. */
export interface Read extends Pick<ParseResult, "text" | "included"> {
  readonly config: Config;
}

/** @param inForce one file, or several where each is in force in part */
export async function findGivenAway(
  inForce: readonly Read[],
  after: Read,
): Promise<readonly Problem[]> {
  const { config } = after;
  const cuts = filesOf(after).flatMap(({ name, text }) => {
    const earlier = inForce.flatMap(filesOf).filter((each) => each.name === name);
    const cut = earlier.map((each) => cutOf(each.text, text)).find((each) => each !== undefined);
    return cut === undefined ? [] : [about({ file: name }, { code: "cut-file", ...cut })];
  });
  const before = inForce.map((each) => each.config);
  const found = await inTurns(unpricedSteps(before, config));
  const named = found.slice(0, MAX_NAMED).map(({ route, method }) => {
    const now = config.routes.find(({ key }) => key === route.key);
    const asked = route.methods === null && method !== "GET" ? `, asked by ${method},` : "";
    const message = `${route.key}${asked} would be free: it costs ${priceOf(route) ?? ""} now`;
    const place = { code: "unpriced-route", path: routePath(route), line: now?.line ?? 0 };
    return about({ file: now?.file ?? config.file }, { ...place, message, suggestion: MEANT });
  });
  const more = found.length - named.length;
  return [
    ...cuts,
    ...named,
    ...(more > 0
      ? [about(config, { code: "unpriced-route", message: `and ${more} more`, suggestion: MEANT })]
      : []),
  ];
}

/** The file that was named, and what it includes. */
function filesOf({ text, included, config }: Read): ParseResult["included"] {
  return [{ name: config.file, text }, ...included];
}

const LINES_GONE = {
  message:
    "the file seems to end in the middle: nothing is left of what stood behind its last line",
  suggestion: MEANT,
};
const NO_LINE_BREAK = {
  message: "the file may end in the middle of a line: it has no line break at its end any more",
  suggestion: `end its last line; ${MEANT}`,
};

/**
 * Whether the file is the one that runs, or another one, up to a place: its last line was not the last, and nothing of
 * what came behind that is left; or it stops within a line.
 */
export function cutOf(before: string, after: string): typeof LINES_GONE | undefined {
  if (before.trimEnd() === after.trimEnd() || before.trim() === "") return undefined;
  if (before.endsWith("\n") && !after.endsWith("\n")) return NO_LINE_BREAK;
  const [old, now] = [linesOf(before), linesOf(after)];
  const last = old.lastIndexOf(now.at(-1) ?? "");
  if (last < 0 || last === old.length - 1) return undefined;
  const left = new Set(now);
  return old.slice(last + 1).some((line) => left.has(line)) ? undefined : LINES_GONE;
}

/** Those that say something. */
function linesOf(text: string): readonly string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"));
}

interface Unpriced {
  readonly route: RouteSettings;
  readonly method: string;
}

/** Priced routes whose requests would be free, each once: at whichever site of the new file answers them. */
function* unpricedSteps(before: readonly Config[], after: Config): Steps<readonly Unpriced[]> {
  const isFree = new Map<string, (method: string, path: string) => boolean>();
  for (const site of sitesOf(after)) isFree.set(site.site, yield* freeSteps(site));
  const found = new Map<string, Unpriced>();
  for (const config of before) {
    for (const { routes, asked } of askedIn(config, after)) {
      for (const route of routes) {
        yield;
        if (route.action.kind !== "priced" || found.has(route.key)) continue;
        // No backend has what the gateway itself sells.
        if (route.action.own !== undefined) continue;
        const path = examplePath(route);
        const method = (route.methods ?? USUAL_METHODS).find((each) =>
          asked.some((name) => isFree.get(name)?.(each, path)),
        );
        if (method !== undefined) found.set(route.key, { route, method });
      }
    }
  }
  return [...found.values()];
}

interface Asked extends Pick<Config, "routes"> {
  /** Sites of the new file that are asked in place of the one that had these routes. */
  readonly asked: readonly string[];
}

function* askedIn(before: Config, after: Config): Generator<Asked> {
  const [own, ...others] = sitesOf(after);
  const named = siteTable([own, ...others]);
  // By names that lead to another site now than they were written for.
  const taken = Map.groupBy(others, writtenFor(before));
  for (const { site, publicUrl, routes } of sitesOf(before)) {
    const host = new URL(publicUrl ?? "http://localhost").host;
    const now = named.of(host) ?? (site === "" || isServed(host, own) ? "" : undefined);
    const elsewhere = (taken.get(site) ?? []).map((each) => each.site);
    // Whoever asks the file's own site may do so by any name that is no other's.
    const all = [...(site === "" ? [""] : []), now, ...elsewhere];
    yield { routes, asked: [...new Set(all)].filter((name) => name !== undefined) };
  }
}

/** The site of a configuration that another one's name was written for; undefined: for none, whoever answered it. */
function writtenFor(config: Config): (other: { readonly site: string }) => string | undefined {
  const named = siteTable(sitesOf(config));
  const own = ownNames(config);
  return ({ site }) => {
    const name = site.replace("*", ANYTHING);
    return named.of(name) ?? (own.has(name) ? "" : undefined);
  };
}

/** Whether the file's own site answers whoever asks by a name; else that is 421. */
function isServed(host: string, config: Config): boolean {
  return config.hosts === null || ownNames(config).has(host);
}

function ownNames({ hosts, publicUrl }: Config): HostNames {
  const told = publicUrl === null ? [] : [new URL(publicUrl).host];
  return new HostNames([...told, ...(hosts ?? [])]);
}

function* freeSteps({
  routes,
  unmatched,
}: Config): Steps<(method: string, path: string) => boolean> {
  const entries = routes.map((each) => ({ ...each, value: each.action.kind }));
  const router = yield* Router.steps(entries, {
    guarded: (kind) => kind !== "free",
    unmatchedGuarded: unmatched === "deny",
  });
  return (method, path) => {
    const match = router.match(method, path);
    if (match.kind === "unmatched") return unmatched === "free";
    return match.kind === "route" && match.value === "free";
  };
}

function examplePath({ pattern }: RouteSettings): string {
  const segments = pattern.split("/").map((each) => (/^(?::.+|[*])$/.test(each) ? ANYTHING : each));
  return segments.join("/");
}
