/** From a document whose every value could be read to the complete {@link Config}. */
import type { Config, ConfigDocument } from "./document.ts";
import { creditsKeys, creditsRoutes, resolveCredits } from "./credits.ts";
import { readSettlers, type Settler } from "./facilitator/embedded.ts";
import { resolveFacilitator, settlesWith } from "./facilitator/facilitator.ts";
import type { AskedName } from "./listener/certificates.ts";
import { checkListeners, resolveListen, type AskedUrl } from "./listener/listeners.ts";
import { resolveHosts, sitesOf, type Inherited, type MakeOwn } from "./hosts.ts";
import { resolveSidecar } from "./listener/sidecar.ts";
import { resolveWebhooks } from "./webhooks.ts";
import { resolveRefunds } from "./facilitator/refunds.ts";
import type { Context } from "./reading/context.ts";
import { fault } from "./reading/reading.ts";
import { Assets } from "./routes/accepted.ts";
import { contactLink } from "./routes/contact.ts";
import { checkPage, resolveDiscovery } from "./routes/discovery.ts";
import { checkMcp } from "./mcp.ts";
import { resolveMembers, resolveSessions } from "./members.ts";
import { passRoutes, resolvePasses } from "./passes.ts";
import { resolvePayers } from "./payers.ts";
import { Pricing } from "./routes/pricing.ts";
import { makeOwnRoutes, refuseOwnPaths } from "./routes/own.ts";
import { resolveRoutes } from "./routes/routes.ts";
import { resolveStore } from "./store.ts";
import { checkStripping } from "./upstream/upstream-paths.ts";
import type { Upstream } from "./upstream/upstream.ts";
import { Upstreams } from "./upstream/upstreams.ts";

/** Means something only when no error was reported: where one was, a stand-in may be in its place. */
export function resolve(
  { file, included }: Pick<Config, "file" | "included">,
  document: ConfigDocument,
  context: Context,
): Config {
  const { discovery, facilitator, publicUrl, unmatched = "deny" } = document;
  const assets = new Assets(document.assets ?? {}, context);
  const sidecar = resolveSidecar(document, context);
  const upstreams = new Upstreams(document, context);
  const settlers = readSettlers(facilitator.embedded, context);
  checkGasLimit(document, settlers, context);
  const settles = settlesWith(facilitator, settlers, context);
  const pricing = new Pricing(context, document, { assets, settles });
  const { paymentIdentifier, repeat, mode } = document;
  const told = { context, pricing, upstreams, paymentIdentifier, repeat, mode };
  const credits = resolveCredits(document.credits, context);
  const fileRoutes = resolveRoutes({ routes: document.routes ?? {}, ...told });
  const passes = resolvePasses(document.passes, { site: "", routes: fileRoutes }, context);
  const makeOwn: MakeOwn = ({ site, isServed, ...of }) => {
    const packs = credits === null || !isServed ? [] : creditsRoutes(credits, of.pricing, context);
    const opening = isServed ? passRoutes(of.passes, { site, ...of }, context) : [];
    const made = { host: site, usual: { paymentIdentifier }, context };
    const taken = opening.map(({ key }) => key);
    refuseOwnPaths(of.routes, credits === null ? taken : [...creditsKeys(packs), ...taken], made);
    // What costs nothing is not prepaid.
    return of.mode === "shadow" ? [] : makeOwnRoutes([...packs, ...opening], made);
  };
  const isServed = document.routes !== undefined && sidecar === null;
  const ownRoutes = [
    ...fileRoutes,
    ...makeOwn({ site: "", routes: fileRoutes, passes, pricing, mode, isServed }),
  ];
  pricing.warnOfFixedAmounts();
  checkPage(discovery.page ?? null, ownRoutes, ["discovery", "page"], context);
  const inherited: Inherited = {
    discovery: resolveDiscovery(discovery, context),
    support: contactLink(document.support ?? discovery.contact ?? "") ?? null,
    paywall: document.paywall,
    cors: document.cors,
    mcp: document.mcp,
  };
  const { page } = inherited.discovery;
  checkMcp(inherited.mcp, { routes: ownRoutes, page }, ["mcp"], context);
  const ground = { context, upstreams, sold: { assets, settles }, inherited, makeOwn };
  const { sites, routes: hostRoutes } = resolveHosts(document, ground);
  const routes = [...ownRoutes, ...hostRoutes];
  checkListeners(document, askedUrls(upstreams.list, document, context), context);
  checkPurpose(document, context);
  checkCredits(document, context);
  const defaultUpstream = unmatched === "free" ? upstreams.resolve(["unmatched"], undefined) : null;
  for (const site of sitesOf({ routes, sites, defaultUpstream })) {
    checkStripping({ upstreams: upstreams.list, ...site }, context);
  }
  const ownUrl = document.routes === undefined ? undefined : publicUrl;
  const hosts = Array.isArray(document.hosts) ? document.hosts : null;
  const served = { ...document, hosts: hosts ?? sites.map(({ name }) => name) };
  const { listen, acme } =
    sidecar === null
      ? resolveListen(served, certifiedNames(document, sites), context)
      : { listen: [], acme: null };
  const settling = { assets, settlers, routes, ownUrl };
  const settled = resolveFacilitator(facilitator, settling, context);
  return {
    file,
    included,
    listen,
    acme,
    sidecar,
    publicUrl: publicUrl ?? null,
    hosts: document.hosts === undefined ? null : (hosts ?? []),
    sites,
    trustedProxies: document.trustedProxies ?? [],
    limits: document.limits,
    shutdown: document.shutdown,
    workers: document.workers,
    watch: document.watch,
    admin: document.admin ?? null,
    upstreams: upstreams.list,
    facilitator: settled,
    routes,
    unmatched,
    defaultUpstream,
    ...inherited,
    payers: resolvePayers(document.payers, context),
    members: resolveMembers(document.members, { assets, facilitator: settled }, context),
    sessions: resolveSessions(document.sessions),
    credits,
    passes,
    refunds: resolveRefunds(document.refunds, settlers, context),
    webhooks: resolveWebhooks(document.webhooks, context),
    ...resolveStore(document.store, context),
    logging: resolveLogging(document.logging, context),
    metrics: document.metrics,
    protocol: document.protocol,
  };
}

/** A relative path is meant from the folder of the configuration. */
function resolveLogging(
  { access, ...logging }: ConfigDocument["logging"],
  context: Context,
): Config["logging"] {
  if (access === null) return { ...logging, access };
  const { format, query, file } = access;
  if (file !== undefined) context.warnOfUnexpanded(["logging", "access", "file"], file);
  const place = file === undefined ? null : context.absolute(file);
  return { ...logging, access: { format, file: place, query } };
}

/**
 * By which names clients ask for our own certificates; none where a proxy is asked for one, or nobody is. A name of one
 * label is for probes within the house.
 */
function certifiedNames(
  { publicUrl = "", hosts, trustedProxies = [] }: ConfigDocument,
  sites: Config["sites"],
): readonly AskedName[] {
  if (trustedProxies.length > 0) return [];
  const listed = Array.isArray(hosts) ? hosts.map((name) => ({ name, publicUrl })) : sites;
  const secure = listed.filter((each) => each.publicUrl.startsWith("https:"));
  const urls = [{ publicUrl }, ...sites].filter((each) => each.publicUrl.startsWith("https:"));
  const asked: readonly AskedName[] = [
    ...urls.map((each) => {
      const { hostname } = new URL(each.publicUrl);
      return { name: hostname.replace(/^\[|\]$/g, ""), from: "publicUrl" } as const;
    }),
    ...secure.flatMap(({ name }) => {
      return name.includes(".") ? [{ name: name.toLowerCase(), from: "hosts" } as const] : [];
    }),
  ];
  return [...new Map(asked.toReversed().map((each) => [each.name, each])).values()].toReversed();
}

/** What must not be where we listen ourselves. */
function askedUrls(
  upstreams: readonly Upstream[],
  { facilitator: { remote = [] } }: ConfigDocument,
  context: Context,
): readonly AskedUrl[] {
  const { tree } = context;
  const isShort = tree.find(["facilitator"])?.kind === "scalar";
  return [
    ...upstreams.flatMap(({ name, targets }) =>
      targets.map(({ url }, index) => {
        const path = ["upstreams", name, "targets", index];
        return { url, path: tree.has(path) ? context.placeOfUrl(path) : ["upstream"] };
      }),
    ),
    ...remote.map(({ url }, index) => {
      const path = ["facilitator", "remote", index];
      return { url, path: isShort ? ["facilitator"] : context.placeOfUrl(path) };
    }),
  ];
}

/** A balance is spent at our own listeners, by routes. */
function checkCredits({ routes, sidecar }: ConfigDocument, { tree, problems }: Context): void {
  if (!tree.has(["credits"])) return;
  const place = ["credits"];
  if (tree.has(["sidecar"]) || sidecar !== undefined) {
    const message = "has no effect behind another proxy, where nobody has a session";
    problems.errorAtKey(place, fault("unused-key", message, "remove it, or listen for buyers"));
  } else if (routes === undefined && !tree.has(["routes"]) && tree.keys(["hosts"]).length === 0) {
    const message = "has no effect without routes: there is nothing to spend it on";
    problems.errorAtKey(place, fault("unused-key", message, "add routes"));
  }
}

/** Gas is counted in dollars, and only the file says what a network's currency is worth. */
function checkGasLimit(
  { limits }: ConfigDocument,
  settlers: readonly Settler[],
  { problems }: Context,
): void {
  if (limits.gasPerHour === null) return;
  const unpriced = settlers.filter((each) => each.nativePriceAttodollars === null);
  const names = unpriced.map(({ network }) => network).join(", ");
  if (names === "") return;
  const message = `is in dollars, and nothing says what the currency of ${names} is worth`;
  const hint = "add nativePrice to each network of facilitator.embedded";
  problems.error(["limits", "gas"], fault("bad-value", message, hint));
}

/** A file has to say what the process is for, and a gateway where it is and what it does by default. */
function checkPurpose(
  { routes = {}, facilitator }: ConfigDocument,
  { tree, problems }: Context,
): void {
  const isEmpty = tree.intact(["routes"]) && Object.keys(routes).length === 0;
  if (!tree.has(["routes"]) || isEmpty) {
    const isForHosts = tree.keys(["hosts"]).length > 0;
    if (isForHosts || facilitator.listen !== undefined || !tree.intact([])) return;
    const message = "this file asks for nothing: there are neither routes nor facilitator.listen";
    problems.error([], fault("nothing-to-do", message, "add routes"));
    return;
  }
  if (!tree.has(["publicUrl"])) {
    const message = "routes need publicUrl, the address under which buyers reach this gateway";
    const hint = "add publicUrl: https://…";
    problems.errorAtKey(["routes"], fault("no-public-url", message, hint));
  }
  if (!tree.has(["unmatched"])) {
    const message = "routes need unmatched, which says what happens to every other request";
    const hint = "add unmatched: deny (or free)";
    problems.errorAtKey(["routes"], fault("no-unmatched", message, hint));
  }
}
