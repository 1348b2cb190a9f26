/** From a document whose every value could be read to the complete {@link Config}. */
import { Assets } from "./routes/accepted.ts";
import { checkPage } from "./routes/catalogue-page.ts";
import type { Context } from "./reading/context.ts";
import { resolveDiscovery } from "./routes/publication.ts";
import {
  embeddedSettlers,
  resolveFacilitator,
  settlesWith,
} from "./facilitator/facilitator-settings.ts";
import { resolveLimits } from "./limits.ts";
import { checkListeners, resolveAdmin, resolveListen } from "./listener/listeners.ts";
import { resolvePaywall } from "./routes/paywall-page.ts";
import { Pricing } from "./routes/pricing.ts";
import { fault } from "./reading/reading.ts";
import { resolveRoutes } from "./routes/routes.ts";
import { resolveSidecar } from "./listener/sidecar.ts";
import type { Config } from "./settings.ts";
import type { ConfigDocument } from "./reading/document.ts";
import { resolveStore } from "./store.ts";
import { checkStripping } from "./upstream/upstream-paths.ts";
import { Upstreams } from "./upstream/upstreams.ts";

const DEFAULTS = {
  shutdown: { within: 30_000, delay: 0 },
  unmatched: "deny",
  discovery: {},
  logging: { level: "info", format: "json" },
  cors: false,
} as const;

/** Means something only when no error was reported: where one was, a stand-in may be in its place. */
export function resolve(file: string, context: Context): Config {
  const document = { ...DEFAULTS, ...context.document };
  const { discovery, unmatched } = document;
  const assets = new Assets(context);
  const sidecar = resolveSidecar(context);
  const upstreams = new Upstreams(context);
  const settlers = embeddedSettlers(context);
  const pricing = new Pricing(context, assets, settlesWith(context, settlers));
  const routes = resolveRoutes({ context, pricing, upstreams });
  pricing.warnOfFixedAmounts();
  checkPage(context.document.discovery?.page, routes, context);
  checkListeners(context);
  checkPurpose(context);
  const defaultUpstream = unmatched === "free" ? upstreams.resolve(["unmatched"], undefined) : null;
  checkStripping({ upstreams: upstreams.list, routes, defaultUpstream }, context);
  return {
    file,
    listen: sidecar === null ? resolveListen(context) : [],
    sidecar,
    publicUrl: document.publicUrl ?? null,
    hosts: context.document.hosts ?? null,
    trustedProxies: context.document.trustedProxies ?? [],
    limits: resolveLimits(context),
    shutdown: shutdownOf(document.shutdown),
    workers: document.workers ?? 1,
    admin: resolveAdmin(document.admin),
    upstreams: upstreams.list,
    facilitator: resolveFacilitator(context, { assets, settlers, routes }),
    routes,
    unmatched,
    defaultUpstream,
    discovery: resolveDiscovery(discovery, context),
    paywall: resolvePaywall(context),
    ...resolveStore(context),
    logging: { ...DEFAULTS.logging, ...document.logging },
    cors: corsOf(document.cors),
  };
}

function shutdownOf(written: ConfigDocument["shutdown"] & {}): Config["shutdown"] {
  const { within, delay } = typeof written === "number" ? { within: written } : written;
  return {
    withinMs: within ?? DEFAULTS.shutdown.within,
    delayMs: delay ?? DEFAULTS.shutdown.delay,
  };
}

function corsOf(cors: NonNullable<Context["document"]["cors"]>): Config["cors"] {
  if (typeof cors === "boolean") return cors ? "any" : "off";
  return cors.origins;
}

/** A file has to say what the process is for, and a gateway where it is and what it does by default. */
function checkPurpose({ document, tree, problems }: Context): void {
  const { routes, facilitator } = document;
  const gateway = tree.has(["routes"]) && (!tree.intact(["routes"]) || hasKeys(routes));
  if (!gateway) {
    const serves = typeof facilitator === "object" && facilitator.listen !== undefined;
    if (serves || !tree.intact([])) return;
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

function hasKeys(map: object | undefined): boolean {
  return map !== undefined && Object.keys(map).length > 0;
}
