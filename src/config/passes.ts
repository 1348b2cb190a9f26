/** `passes`: what is bought once and opens several routes of one site, for a time. */
import type { z } from "zod";
import type { Context } from "./reading/context.ts";
import { GROUP, GROUP_FORM } from "./reading/forms.ts";
import { fault, ONE_OF_TWO } from "./reading/reading.ts";
import { described, listOf, map, named, optional, plainText } from "./reading/shapes.ts";
import { didYouMean } from "./reading/suggestion.ts";
import type { Path } from "./reading/tree.ts";
import { grantFor, grantTimes, type GrantSettings } from "./routes/after-sale.ts";
import type { OwnRoute } from "./routes/own.ts";
import { passPrice } from "./routes/price.ts";
import type { Pricing } from "./routes/pricing.ts";
import { sitePath } from "./routes/route-path.ts";
import type { RouteSettings } from "./routes/routes.ts";

/** Below which passes are sold, each by its name. */
const PASSES_PATH = "/.x402/passes/";
/** `GET` is there for browsers, which are shown the page that sells. */
const METHODS = "GET,POST";

/** Each is a route, and stands in the listing. */
const MAX_PASSES = 64;

export interface PassSettings extends GrantSettings {
  readonly name: string;
  /** Of the route that sells it: `GET,POST /.x402/passes/day`, behind its host where that is not the file's own site. */
  readonly key: string;
  /** Where that is, below the public URL. */
  readonly path: string;
  /** Dollars as written: `$1`. */
  readonly price: string;
  /** Keys of the priced routes that it opens, as they are written in the site; at least one, each once. */
  readonly routes: readonly string[];
  /** What is sold, for buyers. */
  readonly description: string;
}

const pass = map({
  price: described(
    passPrice,
    "What it costs, in dollars: in the networks of `accept`, in their USDC.",
  ),
  routes: described(
    listOf(plainText),
    "Keys of the routes that it opens, as they are written below `routes`: [GET /articles/:id, GET /archive/:id].",
  ),
  for: described(grantFor, "How long after it was paid."),
  times: optional(
    grantTimes,
    "How many requests of all its routes together, answers below 400 and `goods` counted. Without it: all.",
  ),
  description: optional(
    plainText,
    "What is sold, for buyers and catalogues. Without it: what it opens.",
  ),
});

export const namedPasses = named(pass, GROUP_FORM);

export const passes = optional(
  namedPasses,
  "What is bought once and opens several routes, by name: { day: { price: $1, routes: [GET /articles/*], for: 24h } }. Each is " +
    "sold at an address of the gateway's own, /.x402/passes/NAME, and told beside the price of the routes that it opens. " +
    "Who has paid has them signed in, or by a session.",
);

type WrittenPasses = z.output<typeof namedPasses>;

/** A site of the file: its host, "" for the file's own, and what it has routes of. */
interface OfSite {
  readonly site: string;
  readonly routes: readonly RouteSettings[];
}

/** As routes are called everywhere but in the file: of other sites than its own with their host. */
export function keyAt(site: string, key: string): string {
  return site === "" ? key : `${site} ${key}`;
}

export function resolvePasses(
  written: WrittenPasses | undefined,
  { site, routes }: OfSite,
  { tree, problems }: Context,
): readonly PassSettings[] {
  const place = [...sitePath(site), "passes"];
  if (written !== undefined && tree.has(["sidecar"])) {
    const message = "has no effect behind another proxy, where nobody has a session";
    const hint = "remove it, or listen for buyers";
    problems.errorAtKey(place, fault("unused-key", message, hint));
    return [];
  }
  const names = tree.keys(place);
  if (names.length > MAX_PASSES) {
    problems.error(place, fault("bad-value", `must have at most ${MAX_PASSES} passes`));
  }
  return names.flatMap((name) => {
    if (!GROUP.test(name)) {
      const found = fault("bad-key", String(GROUP_FORM.patternErrorMessage));
      problems.errorAtKey([...place, name], found);
      return [];
    }
    // Absent where it was refused.
    const value = written?.[name];
    if (value === undefined) return [];
    const path = [...place, name, "routes"];
    const opened = openedBy(value.routes, { site, routes }, { path, tree, problems });
    const { price, for: forMs, times = null, description } = value;
    const told = description ?? describedPass(opened, { forMs, times });
    const sold = { path: PASSES_PATH + name, price: price.dollars, description: told };
    const key = keyAt(site, `${METHODS} ${sold.path}`);
    return [{ name, key, ...sold, routes: opened, forMs, times }];
  });
}

/** Where passes of a site are bought. */
export function passRoutes(
  all: readonly PassSettings[],
  { site, pricing }: Pick<OfSite, "site"> & { readonly pricing: Pricing },
  { problems, tree }: Context,
): readonly OwnRoute[] {
  return all.flatMap(({ path, name, price, routes, forMs, times, description }): OwnRoute[] => {
    const key = `${METHODS} ${path}`;
    const place = [...sitePath(site), "passes", name];
    // What is wrong with it was said.
    if (!tree.intact(place)) return [];
    const offers = pricing.dollarOffers(place, { kind: "dollars", dollars: price }, [
      ...place,
      "price",
    ]);
    if (offers.length === 0 && tree.intact(["accept"])) {
      const message = "cannot be sold: nothing that is accepted is paid in dollars";
      problems.errorAtKey(place, fault("no-accept", message, "add accept: [base-sepolia]"));
    }
    return [{ key, place, offers, description, own: { kind: "pass", name, routes, forMs, times } }];
  });
}

/** Without those that there are not, and what costs nothing. */
function openedBy(
  keys: readonly string[],
  { site, routes }: OfSite,
  { path, tree, problems }: Pick<Context, "tree" | "problems"> & { readonly path: Path },
): readonly string[] {
  if (keys.length === 0 && tree.intact(path)) {
    problems.error(
      path,
      fault("bad-value", "must have at least one route", "write [GET /articles/*]"),
    );
  }
  const known = tree.keys([...sitePath(site), "routes"]);
  return keys.filter((key, index) => {
    const at = [...path, index];
    if (keys.indexOf(key) !== index) {
      problems.error(at, fault("duplicate-entry", "is opened twice", ONE_OF_TWO));
      return false;
    }
    if (!known.includes(key)) {
      const hint = didYouMean(key, known) ?? "write a key of routes, with its methods";
      problems.error(at, fault("unknown-route", "is no key of routes", hint));
      return false;
    }
    const action = routes.find((route) => route.key === keyAt(site, key))?.action;
    const isOpen =
      action?.kind === "deny" || (action?.kind === "free" && action.shadow === undefined);
    if (!isOpen) return true;
    const message =
      action.kind === "deny" ? "is open to nobody" : "is free, with and without a pass";
    problems.error(at, fault("unused-key", message, "leave it out, or give the route a price"));
    return false;
  });
}

function describedPass(routes: readonly string[], { forMs, times }: GrantSettings): string {
  const often = times === null ? "" : `, ${times} requests`;
  return `A pass for ${lastingText(forMs)}${often}: ${routes.join(", ")}`.slice(0, MAX_DESCRIPTION);
}

/** As catalogues show it, characters. */
const MAX_DESCRIPTION = 300;

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;

/** As it is written: `24h` is a day, and `90m` are 90 minutes. */
export function lastingText(ms: number): string {
  const [unit, unitMs] = UNITS.find(([, each]) => ms % each === 0) ?? (["ms", 1] as const);
  return `${ms / unitMs}${unit}`;
}
