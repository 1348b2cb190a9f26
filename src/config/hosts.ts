/**
 * `hosts`: names that are answered beside that of publicUrl, or what is sold under each of them. The file's own keys
 * are one site, that of publicUrl, and each host of the map is another: it inherits what it does not say itself.
 */
import { isIP } from "node:net";
import { domainToASCII } from "node:url";
import { z } from "zod";
import { HostTable } from "../http/host-names.ts";
import type { SpokenVersions } from "../x402/x402.ts";
import { hostNames, MAX_HOSTS } from "./listener/listeners.ts";
import type { Context } from "./reading/context.ts";
import { BASE_URL } from "./reading/forms.ts";
import { fault, readBaseUrl } from "./reading/reading.ts";
import { listOf, map, matching, named, optional, plainText, text, word } from "./reading/shapes.ts";
import type { Path } from "./reading/tree.ts";
import { acceptEntry, payees } from "./routes/accepted.ts";
import { contact, contactLink } from "./routes/contact.ts";
import { cors } from "./routes/cors.ts";
import {
  checkPage,
  discovery,
  resolveDiscovery,
  type DiscoverySettings,
} from "./routes/discovery.ts";
import { paywall, type PaywallSettings } from "./routes/paywall-page.ts";
import { checkMcp, mcp, type McpSettings } from "./mcp.ts";
import { namedPasses, resolvePasses, type PassSettings } from "./passes.ts";
import { Pricing, type PricingGround } from "./routes/pricing.ts";
import { sitePath } from "./routes/route-path.ts";
import { resolveRoutes, routes, type RouteSettings, type UsualTerms } from "./routes/routes.ts";
import { MODES, type Mode } from "./routes/route-block.ts";
import type { Upstreams } from "./upstream/upstreams.ts";

/** What is sold under one name of {@link hosts}, but for its routes. */
export interface HostSettings {
  /** As requests have it, or `*.NAME`. */
  readonly name: string;
  readonly publicUrl: string;
  readonly unmatched: "deny" | "free";
  /** Where `unmatched: free` goes; null where it is `deny`. */
  readonly defaultUpstream: string | null;
  readonly discovery: DiscoverySettings;
  readonly support: string | null;
  readonly paywall: PaywallSettings;
  readonly cors: "off" | "any" | readonly string[];
  readonly mcp: McpSettings | null;
  /** Those that are sold under this name, and open routes of it. */
  readonly passes: readonly PassSettings[];
}

/** For editors it is as the same key of the file. */
function asInFile<Shape extends z.ZodType>(shape: Shape, key: string): Shape {
  return shape.meta({ form: { anyOf: [{ $ref: `#/properties/${key}` }] } });
}

const host = map({
  publicUrl: optional(
    text(readBaseUrl, BASE_URL),
    "The address of this host for buyers. Default: https://NAME, with scheme and port of the file's publicUrl.",
  ),
  upstream: optional(
    plainText,
    "Name of the upstream of its routes that name none, and of `unmatched: free`, in place of the file's.",
  ),
  routes: optional(asInFile(routes, "routes"), "What costs what under this name."),
  unmatched: optional(word(["deny", "free"]), "In place of the file's `unmatched`."),
  payTo: optional(
    asInFile(payees, "payTo"),
    "Who is paid under this name, in place of the file's `payTo`.",
  ),
  accept: optional(asInFile(listOf(acceptEntry), "accept"), "In place of the file's `accept`."),
  mode: optional(word(MODES), "In place of the file's `mode`."),
  support: optional(contact, "In place of the file's `support`."),
  discovery: optional(
    asInFile(discovery, "discovery"),
    "In place of the file's `discovery`, as a whole. A description of a backend (openapi) is not inherited.",
  ),
  paywall: optional(asInFile(paywall, "paywall"), "In place of the file's `paywall`, as a whole."),
  cors: optional(asInFile(cors, "cors"), "In place of the file's `cors`."),
  mcp: optional(asInFile(mcp, "mcp"), "In place of the file's `mcp`."),
  passes: optional(
    asInFile(namedPasses, "passes"),
    "What is bought once under this name, and opens several of its routes. Those of the file are not inherited.",
  ),
});

type WrittenHost = z.output<typeof host>;

const NAME = /^(?:\*\.)?[a-z0-9](?:[a-z0-9._-]{0,253}[a-z0-9])?$/;
const NAME_FORM = "a host is a name, or *.NAME for all below it, without a port";

export const hosts = z.union(
  [
    hostNames,
    named(host, matching(/^(?:\*\.)?[^\s/:*?#@]+$/, NAME_FORM, "api.example.com", "*.example.com")),
  ],
  "must be a list of names, or a map of what is sold under each",
);

/** What holds for a host that says nothing else. */
interface FileTerms extends UsualTerms {
  readonly publicUrl?: string;
  readonly routes?: object;
  readonly hosts?: z.output<typeof hosts>;
  readonly unmatched?: "deny" | "free";
  readonly accept?: WrittenHost["accept"] & object;
  readonly payTo?: WrittenHost["payTo"] & object;
  readonly mode: Mode;
  readonly protocol: SpokenVersions;
}

/** As the file's own site has it. */
export type Inherited = Pick<HostSettings, "discovery" | "support" | "paywall" | "cors" | "mcp">;

/** What the gateway adds to the routes that a site has in the file. */
export type MakeOwn = (site: {
  readonly site: string;
  readonly routes: readonly RouteSettings[];
  readonly passes: readonly PassSettings[];
  readonly pricing: Pricing;
  readonly mode: Mode;
  /** Whether buyers are answered there by ourselves. */
  readonly isServed: boolean;
}) => readonly RouteSettings[];

interface Ground {
  readonly makeOwn: MakeOwn;
  readonly context: Context;
  readonly upstreams: Upstreams;
  readonly sold: PricingGround;
  readonly inherited: Inherited;
}

/** Where what a site may say itself stands that it may as well inherit. */
export function termPath(site: string, key: string, { tree }: Pick<Context, "tree">): Path {
  const own = [...sitePath(site), key];
  return tree.has(own) ? own : [key];
}

/** Whether the file has routes, or hosts that have some. */
export function hasRoutes({ tree }: Pick<Context, "tree">): boolean {
  return tree.has(["routes"]) || tree.keys(["hosts"]).length > 0;
}

/** A configuration as far as it is about one site. */
export type Site<Whole> = Whole & {
  /** The name of its host; "": the file's own. */
  readonly site: string;
};

/** The sites of a configuration, the file's own before all others; each with its own routes and nobody else's. */
export function sitesOf<
  Whole extends {
    readonly routes: readonly RouteSettings[];
    readonly sites: readonly HostSettings[];
  },
>(config: Whole): readonly [Site<Whole>, ...Site<Whole>[]] {
  const { sites } = config;
  if (sites.length === 0) return [{ site: "", ...config }];
  const byHost = Map.groupBy(config.routes, ({ host = "" }) => host);
  const siteOf = (site: string, terms: object): Site<Whole> => {
    const routes = byHost.get(site) ?? [];
    return { ...config, ...terms, routes, sites: [], site };
  };
  const others = sites.map(({ name, ...terms }) => siteOf(name, { ...terms, hosts: [name] }));
  return [siteOf("", {}), ...others];
}

/**
 * By which names sites are asked: each host by its own, and the file's by that of publicUrl where it has routes, so that
 * no wildcard takes it. Whoever asks by another name asks the file's.
 */
export function siteNames<Value>(
  named: readonly (readonly [Pick<Site<Asked>, keyof Asked | "site">, Value])[],
): readonly (readonly [name: string, value: Value])[] {
  // Where there is one site, every name is its.
  if (named.length === 1) return [];
  return named.flatMap(([{ site, publicUrl, routes }, value]) => {
    if (site !== "") return [[site, value] as const];
    if (publicUrl === null || routes.length === 0) return [];
    return [[new URL(publicUrl).hostname, value] as const];
  });
}

interface Asked {
  readonly publicUrl: string | null;
  readonly routes: readonly unknown[];
}

/** The names of the sites of a configuration, by {@link siteNames}. */
export function siteTable(
  sites: readonly Pick<Site<Asked>, keyof Asked | "site">[],
): HostTable<string> {
  return new HostTable(siteNames(sites.map((each) => [each, each.site] as const)));
}

/** The hosts of the map and the routes of all of them. */
export function resolveHosts(
  file: FileTerms,
  ground: Ground,
): { readonly sites: readonly HostSettings[]; readonly routes: readonly RouteSettings[] } {
  const { context } = ground;
  const { tree, problems } = context;
  const names = tree.keys(["hosts"]);
  if (names.length > MAX_HOSTS) {
    const message = `must have at most ${MAX_HOSTS} names`;
    problems.error(["hosts"], fault("bad-value", message));
    return { sites: [], routes: [] };
  }
  checkNames(names, file, context);
  const written = Array.isArray(file.hosts) ? {} : (file.hosts ?? {});
  const resolved = names.map((name) => resolveHost(name, written[name] ?? {}, file, ground));
  return {
    sites: resolved.map(({ site }) => site),
    routes: resolved.flatMap((each) => each.routes),
  };
}

function resolveHost(
  name: string,
  block: WrittenHost,
  file: FileTerms,
  { context, upstreams, sold, inherited, makeOwn }: Ground,
): { readonly site: HostSettings; readonly routes: readonly RouteSettings[] } {
  const path = sitePath(name);
  const { tree, problems } = context;
  const usual = block.upstream === undefined ? undefined : upstreams.resolve(path, block.upstream);
  const { accept = file.accept, mode = file.mode, unmatched = file.unmatched ?? "deny" } = block;
  const payTo = { ...file.payTo, ...block.payTo };
  const isPaid = file.payTo !== undefined || block.payTo !== undefined;
  const terms = { ...(accept && { accept }), ...(isPaid && { payTo }) };
  const pricing = new Pricing(context, terms, sold, { path, payTo: block.payTo });
  const { paymentIdentifier, repeat } = file;
  const told = { context, pricing, upstreams, paymentIdentifier, repeat, mode };
  const written = resolveRoutes({
    routes: block.routes ?? {},
    ...told,
    host: name,
    upstream: usual,
  });
  const isServed = !tree.has(["sidecar"]);
  const passes = resolvePasses(block.passes, { site: name, routes: written }, context);
  const made = makeOwn({ site: name, routes: written, passes, pricing, mode, isServed });
  const found = [...written, ...made];
  pricing.warnOfFixedAmounts();
  if (tree.keys([...path, "routes"]).length === 0 && tree.intact([...path, "routes"])) {
    const hint = "add routes, or leave the name out: all others get 421";
    const message = "needs routes: nothing is sold or served under this name";
    problems.errorAtKey(path, fault("missing-key", message, hint));
  }
  if (block.unmatched === undefined && file.unmatched === undefined && !tree.has(["unmatched"])) {
    const message = "needs unmatched, which says what happens to every other request";
    const hint = "add unmatched: deny (or free), here or for the whole file";
    problems.errorAtKey(path, fault("no-unmatched", message, hint));
  }
  const own = block.discovery && resolveDiscovery(block.discovery, context, [...path, "discovery"]);
  const { openapi } = inherited.discovery;
  const plain = {
    ...inherited.discovery,
    openapi: openapi === "off" ? openapi : "routes",
  } as const;
  const shown = own ?? plain;
  checkPage(shown.page, found, [...termPath(name, "discovery", context), "page"], context);
  const tools = block.mcp === undefined ? inherited.mcp : block.mcp;
  checkMcp(tools, { routes: found, page: shown.page }, termPath(name, "mcp", context), context);
  const isFree = unmatched === "free";
  return {
    site: {
      name,
      publicUrl: publicUrlOf(name, block, file, context),
      unmatched,
      defaultUpstream: isFree
        ? (usual ?? upstreams.resolve([...path, "unmatched"], undefined))
        : null,
      discovery: shown,
      support: supportOf(block, own) ?? inherited.support,
      paywall: block.paywall ?? inherited.paywall,
      cors: block.cors ?? inherited.cors,
      mcp: tools,
      passes,
    },
    routes: found,
  };
}

/** As for the whole file: whom to write to where nothing else is said. */
function supportOf(block: WrittenHost, own: DiscoverySettings | undefined): string | undefined {
  return contactLink(block.support ?? own?.contact ?? "");
}

function publicUrlOf(
  name: string,
  { publicUrl }: WrittenHost,
  file: FileTerms,
  { tree, problems }: Context,
): string {
  const path = [...sitePath(name), "publicUrl"];
  const isBelow = name.startsWith("*.");
  if (publicUrl === undefined) {
    const standard = new URL(file.publicUrl ?? "https://localhost");
    standard.hostname = name;
    if (isBelow && !tree.has(path)) {
      const message = "needs publicUrl, one name of those that it stands for";
      const hint = `add publicUrl: https://www${name.slice(1)}`;
      problems.errorAtKey(sitePath(name), fault("no-public-url", message, hint));
    }
    return standard.origin;
  }
  const told = hostnameOf(publicUrl);
  const isAnothers = tree.keys(["hosts"]).includes(told) || told === ownName(file);
  const isOurs = isBelow
    ? told.endsWith(name.slice(1)) && told.length >= name.length && !isAnothers
    : told === name;
  if (!isOurs) {
    const message = "is at another host: buyers would be told what is sold there";
    const below = isAnothers ? "write a name that is no other host's" : undefined;
    const hint = below ?? `write https://${isBelow ? `www${name.slice(1)}` : name}`;
    problems.error(path, fault("bad-value", message, hint));
  }
  return publicUrl;
}

function hostnameOf(url: string): string {
  return new URL(url).hostname.replace(/\.$/, "");
}

/** The name of the file's own site, as of {@link siteNames}. */
function ownName({ publicUrl, routes: own }: FileTerms): string | undefined {
  const isSold = own !== undefined && Object.keys(own).length > 0;
  return publicUrl === undefined || !isSold ? undefined : hostnameOf(publicUrl);
}

/** Two names that are one, or of which one is within another, would leave open what a request is for. */
function checkNames(names: readonly string[], file: FileTerms, { tree, problems }: Context): void {
  const own = file.publicUrl === undefined ? null : new URL(file.publicUrl).hostname;
  const seen = new Map<string, string>();
  for (const name of names) {
    const path = ["hosts", name];
    const canonical = canonicalHost(name);
    const earlier = canonical === undefined ? undefined : seen.get(canonical);
    if (canonical === undefined) {
      problems.errorAtKey(path, fault("bad-key", NAME_FORM, hintFor(name)));
    } else if (earlier !== undefined) {
      const message = `is the same name as ${JSON.stringify(earlier)} on ${problems.where(["hosts", earlier])}`;
      problems.errorAtKey(path, fault("duplicate-host", message, "put their routes together"));
    } else if (canonical === own?.replace(/\.$/, "")) {
      const message = "is the host of publicUrl, whose routes stand outermost in the file";
      const hint = tree.has(["routes"])
        ? "move its routes there"
        : "leave out publicUrl, or move its routes there";
      problems.errorAtKey(path, fault("duplicate-host", message, hint));
    } else if (canonical !== name) {
      const message = `is ${canonical} in requests`;
      problems.errorAtKey(path, fault("bad-key", message, `write ${canonical}`));
    }
    if (canonical === undefined || earlier !== undefined) continue;
    seen.set(canonical, name);
    const around = [...seen].find(
      ([each]) => isWithin(canonical, each) || isWithin(each, canonical),
    );
    if (around === undefined) continue;
    const message = `has names in common with ${around[1]} on ${problems.where(["hosts", around[1]])}`;
    const hint = "name the hosts one by one";
    problems.errorAtKey(path, fault("duplicate-host", message, hint));
  }
}

/** What to write in place of what is no name. */
function hintFor(name: string): string | undefined {
  const url = /^https?:/.test(name) ? URL.parse(name) : null;
  if (url !== null) return `write ${url.hostname}`;
  if (isIP(name) !== 0) return "addresses are answered by what stands outermost in the file";
  return /:\d+$/.test(name) ? "leave out the port" : undefined;
}

/** Of two wildcards: an exact name always comes before them. */
function isWithin(name: string, wildcard: string): boolean {
  const isEach = name.startsWith("*.") && wildcard.startsWith("*.");
  return isEach && name !== wildcard && name.endsWith(wildcard.slice(1));
}

/** As requests have it: in ASCII, lower-case, without the dot that ends a full name; undefined: it is none. */
function canonicalHost(name: string): string | undefined {
  const [, star = "", rest = ""] = /^(\*\.)?(.*?)\.?$/s.exec(name) ?? [];
  const canonical = star + (/[\s:/?#@%[\]\\]/.test(rest) ? "" : domainToASCII(rest));
  return NAME.test(canonical) && isIP(canonical) === 0 ? canonical : undefined;
}
