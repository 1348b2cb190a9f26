/**
 * `sidecar`: where another proxy asks what may pass. Listeners, backends and everything about bodies are that
 * proxy's then, so their keys are refused: they would do nothing.
 */
import type { z } from "zod";
import type { Context } from "../reading/context.ts";
import { trustedProxies, warnOfEverybody, type AddressRange } from "./address-range.ts";
import { address, type ListenAddress } from "./listeners.ts";
import { fault, NOT_YET } from "../reading/reading.ts";
import { described, duration, map, optional, word } from "../reading/shapes.ts";
import type { Path } from "../reading/tree.ts";

/** What every route leads to where another proxy forwards the requests. */
export const PROXY_UPSTREAM = "proxy";

/** Proxies that can ask before they pass a request on. */
const PROXIES = ["nginx", "haproxy", "caddy", "traefik", "envoy"] as const;

/** When a payment counts as delivered: see `sidecar.delivery`. */
const DELIVERIES = ["once", "repeatable", "reported"] as const;

export interface SidecarSettings {
  readonly listen: ListenAddress;
  /** Which proxy asks, and so in which lines, and in which steps. */
  readonly proxy: (typeof PROXIES)[number];
  /** Who may ask. */
  readonly peers: readonly AddressRange[];
  readonly delivery: (typeof DELIVERIES)[number];
  /** Longest wait for a report, where there are any. */
  readonly reportWithinMs: number;
}

/** Those whose recipes tell how the backend answered, whatever came of it. */
const REPORTING: ReadonlySet<string> = new Set(["nginx"]);

export const sidecar = map({
  listen: described(address, "Where the proxy asks: host:port, which nobody else should reach."),
  proxy: described(
    word(PROXIES),
    "Which proxy asks. Each hands the request over in lines of its own; no others are read.",
  ),
  peers: optional(
    trustedProxies,
    "Who may ask, as addresses or ranges: the proxy, and whoever else connects from there.",
    ["127.0.0.0/8", "::1"],
  ),
  delivery: optional(
    word(DELIVERIES),
    "When a payment counts as delivered. once: as soon as its request may pass. repeatable: so too, and the " +
      "same client may GET the same URL with it again, three times within ten minutes. reported: when the " +
      "proxy says that its backend answered well; else it may be presented again.",
    "repeatable",
  ),
  reportWithin: optional(
    duration,
    "Longest wait for that report; without one the payment counts as delivered.",
    "60s",
  ),
}).transform(({ reportWithin, ...written }): SidecarSettings => ({
  ...written,
  reportWithinMs: reportWithin,
}));

/** Keys of the file that mean something only where requests are forwarded here. */
const FORWARDING: readonly Path[] = [
  ["listen"],
  ["upstream"],
  ["upstreams"],
  ["headers"],
  ...[
    "body",
    "bodyTimeout",
    "bodyIdle",
    "bodyRate",
    "answerIdle",
    "answerRate",
    "tunnels",
    "tunnelIdle",
    "tunnelLife",
  ].map((key) => ["limits", key]),
];

/** A sidecar, and what stands beside it. */
interface BesideSidecar {
  readonly sidecar?: z.output<typeof sidecar>;
  readonly routes?: object;
  readonly workers: number | "auto";
}

export function resolveSidecar(beside: BesideSidecar, context: Context): SidecarSettings | null {
  if (!context.tree.has(["sidecar"])) return null;
  refuseForwarding(beside, context);
  if (beside.sidecar === undefined) return null;
  // A peer says itself who its client is, so that whoever may ask is whoever it likes.
  const everybody = "lets everybody ask, in the name of any client";
  const hint = "write the addresses of your proxy";
  warnOfEverybody(beside.sidecar.peers, ["sidecar", "peers"], [everybody, hint], context);
  checkDelivery(beside.sidecar, context);
  return beside.sidecar;
}

function refuseForwarding({ routes = {}, workers }: BesideSidecar, context: Context): void {
  const { tree, problems } = context;
  const ofRoutes = Object.keys(routes).map((key) => ["routes", key, "upstream"]);
  const hosts = tree.keys(["hosts"]).map((name) => ["hosts", name]);
  const ofHosts = hosts.flatMap((host) => [
    [...host, "upstream"],
    ...tree.keys([...host, "routes"]).map((key) => [...host, "routes", key, "upstream"]),
  ]);
  // A list says who is refused, which is the proxy's to do; of a map each name is a site.
  const list = hosts.length > 0 ? [] : [["hosts"]];
  for (const path of [...FORWARDING, ...list, ...ofRoutes, ...ofHosts]) {
    if (!tree.has(path)) continue;
    const message =
      "has no effect beside sidecar: your own proxy receives and forwards the requests";
    problems.errorAtKey(path, fault("unused-key", message, "remove it"));
  }
  if (workers !== 1) {
    const message = "a sidecar is one process: its answers and passes wait in its memory";
    problems.error(["workers"], fault(NOT_YET, message, "leave the key out"));
  }
  if (!tree.has(["routes"]) && hosts.length === 0) {
    const message = "has no effect without routes: there is nothing to ask about";
    problems.errorAtKey(["sidecar"], fault("unused-key", message, "add routes"));
  }
}

function checkDelivery({ proxy, delivery }: SidecarSettings, { tree, problems }: Context): void {
  if (delivery === "reported" && !REPORTING.has(proxy)) {
    const message = `${proxy} does not tell how its backend answered`;
    const hint = "write repeatable or once";
    problems.error(["sidecar", "delivery"], fault("bad-value", message, hint));
  }
  if (delivery !== "reported" && tree.has(["sidecar", "reportWithin"])) {
    const message = "has no effect without delivery: reported";
    problems.errorAtKey(["sidecar", "reportWithin"], fault("unused-key", message));
  }
}
