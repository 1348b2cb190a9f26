/** What is allowed and most likely a mistake: warnings and notes about a file that was accepted. */
import { checksumAddress } from "../x402/address.ts";
import { isUsualToken } from "../x402/client-tokens.ts";
import { isFirstNetwork, networkOf } from "../x402/network.ts";
import type { Config, ConfigDocument } from "./document.ts";
import { dollarAsset, type AcceptEntry } from "./routes/accepted.ts";
import { sitesOf, type Site } from "./hosts.ts";
import { routePath, sitePath } from "./routes/route-path.ts";
import { warnOfLiteralSecrets } from "./literal-secrets.ts";
import type { Context } from "./reading/context.ts";
import { warnOfFreeAliases, warnOfFreeHoles, warnOfSharedBackends } from "./routes/free-holes.ts";
import { reviewFacilitator } from "./facilitator/facilitator-review.ts";
import { reviewHub } from "./facilitator/hub.ts";
import { warnOfEverybody } from "./listener/address-range.ts";
import { isLoopback } from "./listener/listeners.ts";
import { reviewDiscovery } from "./routes/discovery.ts";
import { isOwn } from "./routes/own.ts";
import type { OfferSettings } from "./routes/pricing.ts";
import { soldNetworks } from "./routes/sold-networks.ts";
import { reviewRoutes } from "./routes/route-review.ts";
import type { PricedAction, RouteAction } from "./routes/routes.ts";
import { reviewCreditPayees, reviewRisk } from "./credits-review.ts";
import { reviewHours } from "./hour-review.ts";
import { reviewPasses } from "./pass-review.ts";
import { fault } from "./reading/reading.ts";
import type { Path } from "./reading/tree.ts";
import { reviewUpstreams } from "./upstream/upstream-review.ts";

/** Longest description that catalogues show whole, characters. */
const LONG_DESCRIPTION = 500;

/** Keys of which depends what is sold, to whom it is paid and where it leads. */
const SELLING = [
  "hosts",
  "routes",
  "unmatched",
  "publicUrl",
  "accept",
  "payTo",
  "upstream",
  "upstreams",
];

export function review(whole: Config, document: ConfigDocument, context: Context): void {
  const { problems, tree } = context;
  // Of what the gateway makes itself nothing but its prices is the file's.
  const config = { ...whole, routes: whole.routes.filter((route) => !isOwn(route)) };
  // Where something was refused, what is missing may only not have been understood.
  const isComplete = !problems.refused && SELLING.every((key) => tree.intact([key]));
  if (
    isComplete &&
    config.routes.length > 0 &&
    !config.routes.some(({ action }) => action.kind === "priced" || isShadow(action))
  ) {
    problems.add(
      "warning",
      routesPlace(context),
      fault("nothing-priced", "no route has a price"),
      "key",
    );
  }
  const shadows = config.routes.filter(({ action }) => isShadow(action)).length;
  if (shadows > 0) {
    const message = `nothing is charged for ${shadows} of ${config.routes.length} routes: mode: shadow`;
    problems.add("note", routesPlace(context), fault("shadow-mode", message), "key");
  }
  const priced = config.routes.flatMap((route) => {
    const { key, host = "", action } = route;
    return action.kind === "priced" ? [{ key, host, path: routePath(route), action }] : [];
  });
  reviewDescriptions(priced, context);
  reviewPrices(priced, config, context);
  reviewTokens(priced, context);
  const sites = sitesOf(config);
  const hosts = Array.isArray(document.hosts) ? {} : document.hosts;
  const written = (site: string) => (site === "" ? document : hosts?.[site]);
  for (const { host, path } of config.protocol.v1 ? priced : []) {
    const block = written(host)?.routes?.[String(path.at(-1))];
    if (block === undefined || "kind" in block) continue;
    reviewNetworks(block.accept, [...path, "accept"], context);
  }
  for (const { site } of config.protocol.v1 ? sites : []) {
    reviewNetworks(written(site)?.accept, [...sitePath(site), "accept"], context);
  }
  if (!config.protocol.v2) reviewVersion2(priced, document, context);
  for (const site of sites) reviewPublicUrl(site, context);
  reviewStore(config, context);
  reviewFacilitator(config, context);
  warnOfLiteralSecrets(context);
  reviewAdmin(config, context);
  reviewShutdown(config, context);
  reviewChecksums(context);
  if (isComplete) reviewMembers(config, context);
  for (const site of isComplete ? sites : []) reviewPasses(site, context);
  if (isComplete) reviewCredits(config.credits, priced, context);
  if (isComplete) {
    reviewCreditPayees(whole, context);
    reviewRisk(whole, context);
    reviewHours(whole, context);
  }
  if (isComplete) reviewSitePayees(priced, sites, context);
  reviewSites(sites, isComplete, context);
  reviewUpstreams(config, isComplete, context);
  // Each client then says itself who it is.
  const everybody = "trusts everybody: each client can then claim any address";
  const hint = "write the addresses of your proxies";
  warnOfEverybody(config.trustedProxies, ["trustedProxies"], [everybody, hint], context);
  const { facilitator, discovery, routes } = config;
  reviewHub(facilitator, discovery.listed && routes.length > 0, context);
}

/** What each site sells and gives away, and what it publishes. */
function reviewSites(sites: readonly Site<Config>[], isComplete: boolean, context: Context): void {
  const { tree } = context;
  for (const site of sites) {
    if (site.routes.length !== tree.keys([...sitePath(site.site), "routes"]).length) continue;
    warnOfFreeHoles(site, context);
    if (isComplete) warnOfFreeAliases(site, context);
    const { limits, upstreams } = site;
    const { settlementWaitMs } = limits;
    reviewRoutes(site.routes, { settlementWaitMs, upstreams }, context);
  }
  if (isComplete) warnOfSharedBackends(sites, context);
  for (const site of sites) {
    const path = [...sitePath(site.site), "discovery"];
    if (tree.has(path)) reviewDiscovery(site, path, context);
  }
}

function reviewSitePayees(
  priced: readonly Priced[],
  sites: readonly Site<Config>[],
  context: Context,
): void {
  for (const { site } of sites) {
    // What is not said for a host is as the file says it.
    const paid = site === "" ? priced : priced.filter(({ host }) => host === site);
    reviewPayees(paid, sitePath(site), context);
  }
}

/** Where all that is sold stands: routes, or the hosts that have them. */
function routesPlace({ tree }: Context): Path {
  return tree.has(["routes"]) ? ["routes"] : ["hosts"];
}

function isShadow(action: RouteAction): boolean {
  return action.kind === "free" && action.shadow !== undefined;
}

interface Priced {
  readonly key: string;
  /** "": the file's own site. */
  readonly host: string;
  readonly path: Path;
  readonly action: PricedAction;
}

function reviewDescriptions(routes: readonly Priced[], { problems, tree }: Context): void {
  for (const { path, action } of routes) {
    if (action.description.length <= LONG_DESCRIPTION) continue;
    const message = `is longer than ${LONG_DESCRIPTION} characters; catalogues may cut or refuse it`;
    problems.add("warning", [...path, "description"], fault("long-description", message));
  }
  const [first, ...others] = routes.filter(
    ({ path, action }) => action.description === "" && tree.intact([...path, "description"]),
  );
  if (first === undefined) return;
  const message = `has no description for buyers and catalogues${andOthers(others)}`;
  problems.add("note", first.path, fault("no-description", message), "key");
}

/** `; the same goes for GET /b and 3 more`: one remark for many routes stands at the first. */
function andOthers(others: readonly Priced[]): string {
  const [next, ...rest] = others;
  if (next === undefined) return "";
  return `; the same goes for ${next.key}${rest.length > 0 ? ` and ${rest.length} more` : ""}`;
}

/**
 * Clients have a limit that their users seldom raise: $0.10 (version 1) and $1 (version 2). Those of version 2 look at
 * usual tokens only; what is sold without one has a remark of its own.
 */
function reviewPrices(
  routes: readonly Priced[],
  { protocol }: Pick<Config, "protocol">,
  { problems, tree }: Context,
): void {
  const known = routes.filter(({ path }) => tree.intact(["accept"]) && tree.intact(path));
  const above = (cents: bigint, counts: (offer: OfferSettings) => boolean) =>
    known.filter(({ action }) => (lowestCents(action.offers.filter(counts)) ?? 0n) > cents);
  const remarks = [
    [
      above(100n, isUsual),
      "costs more than the $1 that version 2 clients pay unless told otherwise",
    ],
    [
      protocol.v1 ? above(10n, isDollar) : [],
      "costs more than the $0.10 that version 1 clients pay unless told otherwise",
    ],
  ] as const;
  for (const [[first, ...others], message] of remarks) {
    if (first === undefined) continue;
    const price = [...first.path, "price"];
    const fullMessage = `${first.key} ${message}${andOthers(others)}`;
    const path = tree.has(price) ? price : first.path;
    const hint = "tell your buyers, or sell it in parts that cost less";
    problems.add("note", path, fault("high-price", fullMessage, hint));
  }
}

function isUsual({ network, asset }: OfferSettings): boolean {
  return isUsualToken(network, asset.address);
}

function isDollar({ network, asset }: OfferSettings): boolean {
  return asset.address === dollarAsset(network).address;
}

/** The cheapest in dollars, rounded up to whole cents; undefined when there is none. */
function lowestCents(offers: PricedAction["offers"]): bigint | undefined {
  const cents = offers.map(({ amountAtomic, leastAtomic = amountAtomic, asset: { decimals } }) => {
    const unit = 10n ** BigInt(decimals);
    return (leastAtomic * 100n + unit - 1n) / unit;
  });
  return cents.reduce<bigint | undefined>(
    (least, each) => (least === undefined || each < least ? each : least),
    undefined,
  );
}

/** One usual token among the offers is enough: such clients pass over the others. */
function reviewTokens(routes: readonly Priced[], { problems, tree }: Context): void {
  const [first, ...others] = routes.filter(
    ({ path, action: { offers } }) =>
      tree.intact(["accept"]) && tree.intact(path) && offers.length > 0 && !offers.some(isUsual),
  );
  const offer = first?.action.offers[0];
  if (first === undefined || offer === undefined) return;
  const places = [first.path, sitePath(first.host), []].map((place) => [...place, "accept"]);
  const message =
    `${first.key} is paid in ${offer.asset.symbol} on ${offer.network}, with which version 2 clients ` +
    `do not pay unless told otherwise${andOthers(others)}`;
  const path = places.find((place) => tree.has(place)) ?? first.path;
  problems.add("note", path, fault("unusual-token", message));
}

function reviewNetworks(
  accept: readonly AcceptEntry[] | undefined,
  path: Path,
  { problems, tree }: Context,
): void {
  const isOnly = accept?.length === 1 && tree.intact(path);
  for (const [index, entry] of (accept ?? []).entries()) {
    const network = typeof entry === "string" ? entry : entry.network;
    if (isFirstNetwork(network)) continue;
    const message = `some older clients do not know ${network} and then refuse the whole answer`;
    const severity = isOnly ? "note" : "warning";
    problems.add(severity, [...path, index], fault("young-network", message));
  }
}

/** What only buyers of version 2 do, in a file that turns it off. */
function reviewVersion2(
  routes: readonly Priced[],
  { paymentIdentifier }: ConfigDocument,
  { problems, tree }: Context,
): void {
  const message = "has no effect: version 2 of the protocol is off";
  const warn = (path: Path, others: readonly Priced[] = []): void => {
    const hint = "remove it, or turn version 2 on (protocol.v2)";
    const found = fault("unused-key", `${message}${andOthers(others)}`, hint);
    problems.add("warning", path, found, "key");
  };
  if (paymentIdentifier !== "off") warn(["paymentIdentifier"]);
  const using = {
    memo: routes.filter(({ action }) => action.memo !== null),
    paymentIdentifier: routes.filter(({ path, action }) => {
      return action.paymentIdentifier !== "off" && tree.has([...path, "paymentIdentifier"]);
    }),
  };
  for (const [key, [first, ...others]] of Object.entries(using)) {
    if (first !== undefined) warn([...first.path, key], others);
  }
}

function reviewPublicUrl({ site, publicUrl }: Site<Config>, { problems, tree }: Context): void {
  if (publicUrl === null) return;
  const { protocol, hostname } = new URL(publicUrl);
  const path = [...sitePath(site), "publicUrl"];
  // What follows the file's own address is said of that one.
  if (protocol === "https:" || isLoopback(hostname) || !tree.has(path)) return;
  const message = "is http: payments and what they buy travel unencrypted";
  problems.add("warning", path, fault("plain-http", message, "write https://…"));
}

/** A name without a dot is one of a network of containers, which nobody else is in. */
function reviewStore({ store }: Config, { problems }: Context): void {
  if (store.kind !== "postgres" || store.encryption === "checked") return;
  const { hostname } = new URL(`http://${store.place}`);
  if (isLoopback(hostname) || !/[.:]/.test(hostname)) return;
  const said =
    store.encryption === "none"
      ? "is reached without TLS: whoever is on the way reads the password and can change what was paid"
      : "is not asked who it is: whoever answers is taken for the database";
  problems.add(
    "note",
    ["store"],
    fault("plain-database", said, "end it with ?sslmode=verify-full"),
  );
}

/** Whoever reaches it sees what is sold, and can have the file read anew: the short form does not say that it is meant. */
function reviewAdmin({ admin }: Config, { problems, tree }: Context): void {
  if (admin === null || (admin.host !== null && isLoopback(admin.host))) return;
  if (tree.has(["admin", "timeline"]) || tree.has(["admin", "hosts"])) return;
  const path = tree.find(["admin"])?.kind === "mapping" ? ["admin", "address"] : ["admin"];
  const message = "is reached from other machines: whoever does reads the metrics and can reload";
  const hint =
    "listen on 127.0.0.1, or say that it is meant: admin: { address: …, timeline: false }";
  problems.add("warning", path, fault("open-admin", message, hint));
}

function reviewShutdown({ shutdown }: Config, { problems, tree }: Context): void {
  if (shutdown.withinMs > 0) return;
  const path = tree.find(["shutdown"])?.kind === "mapping" ? ["shutdown", "within"] : ["shutdown"];
  const message =
    "leaves no time for what is in flight when the process ends, paid requests among it";
  problems.add("warning", path, fault("no-drain", message, "leave it out for 30s"));
}

/** An address in one letter case has no checksum: nobody would notice that a digit is another. */
function reviewChecksums({ problems, tree }: Context): void {
  const allowed: Path = ["facilitator", "embedded", "allow", "payTo"];
  const list = tree.find(allowed);
  const elements = list?.kind === "sequence" ? list.elements.filter((each) => !each.refused) : [];
  const sites = ["", ...tree.keys(["hosts"])].map(sitePath);
  const payees = sites.flatMap((site) => [
    site,
    ...tree.keys([...site, "routes"]).map((key) => [...site, "routes", key]),
  ]);
  for (const path of [
    ...payees.flatMap((place) => [
      [...place, "payTo"],
      [...place, "payTo", "evm"],
    ]),
    ...elements.map((_, index) => [...allowed, index]),
  ]) {
    const found = tree.find(path);
    const text = found?.kind === "scalar" && !found.refused ? String(found.value) : "";
    if (!/^0x(?:[0-9a-f]{40}|[0-9A-F]{40})$/.test(text) || !/[a-f]/i.test(text.slice(2))) continue;
    const message = "has no checksum: a digit that is mistyped would not be noticed";
    const hint = `copy it with its capital letters; as it stands it is ${checksumAddress(text)}`;
    problems.add("warning", path, fault("no-checksum", message, hint));
  }
}

/** Most likely a network is missing under `accept`. */
function reviewPayees(routes: readonly Priced[], place: Path, { problems, tree }: Context): void {
  const networks = routes.flatMap(({ action }) => action.offers.map(({ network }) => network));
  const kinds = new Set(networks.map((network) => networkOf(network).kind));
  for (const [kind, example] of [
    ["evm", "base"],
    ["solana", "solana"],
  ] as const) {
    const path = [...place, "payTo", kind];
    if (routes.length === 0 || kinds.has(kind) || !tree.has(path)) continue;
    const message = `is not used: no ${kind === "evm" ? "EVM" : "Solana"} network is accepted`;
    problems.add("note", path, fault("not-used", message, `add ${example} to accept`), "key");
  }
}

/** Groups that change nothing. */
function reviewMembers(
  { members: { groups, holders }, routes }: Pick<Config, "members" | "routes">,
  { problems, tree }: Context,
): void {
  const priced = new Set(
    routes.flatMap(({ action }) =>
      action.kind === "priced" ? action.prices.map(({ group: name }) => name) : [],
    ),
  );
  const canSignIn = soldNetworks(routes).some((name) => networkOf(name).kind === "evm");
  for (const [name, list] of [...Object.entries(groups), ...Object.entries(holders)]) {
    const place = ["members", name];
    if (!tree.intact(place)) continue;
    if (!("size" in list) && !canSignIn) {
      const message =
        "has nobody in it: nothing is sold on an EVM network, so nobody signs in there";
      const found = fault("empty-group", message, "accept an EVM network");
      problems.add("warning", place, found, "key");
    } else if ("size" in list && list.size === 0) {
      const found = fault("empty-group", "has nobody in it", "write an address, or a file of them");
      problems.add("warning", place, found, "key");
    } else if (!priced.has(name)) {
      const hint = `write prices: { ${name}: $0.005 } for a route`;
      problems.add(
        "warning",
        place,
        fault("empty-group", "no route has a price for it", hint),
        "key",
      );
    }
  }
}

/** Who has prepaid wants to spend it, and what is prepaid is the stablecoin of each network. */
function reviewCredits(
  credits: Config["credits"],
  routes: readonly Priced[],
  { problems, tree }: Context,
): void {
  if (credits === null || !tree.intact(["credits"])) return;
  const taking = routes.filter(({ action }) => action.credits);
  if (taking.length === 0) {
    const message = "can be spent nowhere: no route takes them";
    const hint = "write credits: true for a route";
    problems.add("warning", ["credits"], fault("idle-credits", message, hint), "key");
  }
  for (const { path } of taking.filter(({ action }) => !action.offers.some(isDollar))) {
    const message = "has no effect: the route is paid in no token that is prepaid";
    const hint = "accept the USDC of a network";
    problems.add("warning", [...path, "credits"], fault("idle-credits", message, hint));
  }
}
