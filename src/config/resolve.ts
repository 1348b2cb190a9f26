/** From a document whose every value could be read to the complete {@link Config}. */
import type { Config, ConfigDocument } from "./document.ts";
import { readSettlers } from "./facilitator/embedded.ts";
import { resolveFacilitator, settlesWith } from "./facilitator/facilitator.ts";
import { checkListeners, resolveListen, type AskedUrl } from "./listener/listeners.ts";
import { resolveSidecar } from "./listener/sidecar.ts";
import type { Context } from "./reading/context.ts";
import { fault } from "./reading/reading.ts";
import { Assets } from "./routes/accepted.ts";
import { contactLink } from "./routes/contact.ts";
import { checkPage, resolveDiscovery } from "./routes/discovery.ts";
import { Pricing } from "./routes/pricing.ts";
import { resolveRoutes } from "./routes/routes.ts";
import { resolveStore } from "./store.ts";
import { checkStripping } from "./upstream/upstream-paths.ts";
import type { Upstream } from "./upstream/upstream.ts";
import { Upstreams } from "./upstream/upstreams.ts";

/** Means something only when no error was reported: where one was, a stand-in may be in its place. */
export function resolve(file: string, document: ConfigDocument, context: Context): Config {
  const { discovery, facilitator, publicUrl, unmatched = "deny" } = document;
  const assets = new Assets(document.assets ?? {}, context);
  const sidecar = resolveSidecar(document, context);
  const upstreams = new Upstreams(document, context);
  const settlers = readSettlers(facilitator.embedded, context);
  const settles = settlesWith(facilitator, settlers, context);
  const pricing = new Pricing(context, document, assets, settles);
  const { paymentIdentifier, repeat } = document;
  const told = { context, pricing, upstreams, paymentIdentifier, repeat };
  const routes = resolveRoutes({ routes: document.routes ?? {}, ...told });
  pricing.warnOfFixedAmounts();
  checkPage(discovery.page, routes, context);
  checkListeners(document, askedUrls(upstreams.list, document, context), context);
  checkPurpose(document, context);
  const defaultUpstream = unmatched === "free" ? upstreams.resolve(["unmatched"], undefined) : null;
  checkStripping({ upstreams: upstreams.list, routes, defaultUpstream }, context);
  const ownUrl = document.routes === undefined ? undefined : publicUrl;
  return {
    file,
    listen:
      sidecar === null ? resolveListen(document.listen, certifiedName(document), context) : [],
    sidecar,
    publicUrl: publicUrl ?? null,
    hosts: document.hosts ?? null,
    trustedProxies: document.trustedProxies ?? [],
    limits: document.limits,
    shutdown: document.shutdown,
    workers: document.workers,
    watch: document.watch,
    admin: document.admin ?? null,
    upstreams: upstreams.list,
    facilitator: resolveFacilitator(facilitator, { assets, settlers, routes, ownUrl }, context),
    routes,
    unmatched,
    defaultUpstream,
    discovery: resolveDiscovery(discovery, context),
    support: contactLink(document.support ?? discovery.contact ?? "") ?? null,
    paywall: document.paywall,
    ...resolveStore(document.store, context),
    logging: document.logging,
    cors: document.cors,
    protocol: document.protocol,
  };
}

/** The host of publicUrl, where clients come to our own certificate; null: where a proxy is asked for one, or nobody is. */
function certifiedName({ publicUrl, trustedProxies = [] }: ConfigDocument): string | null {
  if (publicUrl?.startsWith("https:") !== true || trustedProxies.length > 0) return null;
  return new URL(publicUrl).hostname.replace(/^\[|\]$/g, "");
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

/** A file has to say what the process is for, and a gateway where it is and what it does by default. */
function checkPurpose(
  { routes = {}, facilitator }: ConfigDocument,
  { tree, problems }: Context,
): void {
  const isEmpty = tree.intact(["routes"]) && Object.keys(routes).length === 0;
  if (!tree.has(["routes"]) || isEmpty) {
    if (facilitator.listen !== undefined || !tree.intact([])) return;
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
