/**
 * `sidecar`: where another proxy asks what may pass. Listeners, backends and everything about bodies are that
 * proxy's then, so their keys are refused: they would do nothing.
 */
import type { Context } from "../reading/context.ts";
import { trustedProxies } from "../limits.ts";
import { address } from "./listener-shape.ts";
import { fault, NOT_YET } from "../reading/reading.ts";
import { described, duration, map, optional, word } from "../reading/shapes.ts";
import { SIDECAR_DELIVERIES, SIDECAR_PROXIES, type SidecarSettings } from "./sidecar-settings.ts";
import type { Path } from "../reading/tree.ts";

/** Those whose recipes tell how the backend answered, whatever came of it. */
const REPORTING: ReadonlySet<string> = new Set(["nginx"]);

const REPORT_WITHIN_MS = 60_000;

const LOOPBACK: SidecarSettings["peers"] = [
  { address: "127.0.0.0", prefixBits: 8 },
  { address: "::1", prefixBits: 128 },
];

export const sidecar = map({
  listen: described(address, "Where the proxy asks: host:port, which nobody else should reach."),
  proxy: described(
    word(SIDECAR_PROXIES),
    "Which proxy asks. Each hands the request over in lines of its own; no others are read.",
  ),
  peers: optional(
    trustedProxies,
    "Who may ask, as addresses or ranges: the proxy, and whoever else connects from there.",
    ["127.0.0.0/8", "::1"],
  ),
  delivery: optional(
    word(SIDECAR_DELIVERIES),
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
});

/** Keys of the file that mean something only where requests are forwarded here. */
const FORWARDING: readonly Path[] = [
  ["listen"],
  ["hosts"],
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

export function resolveSidecar(context: Context): SidecarSettings | null {
  const { document, tree } = context;
  if (!tree.has(["sidecar"])) return null;
  refuseForwarding(context);
  if (document.sidecar === undefined) return null;
  const { listen, proxy, peers = LOOPBACK, delivery = "repeatable" } = document.sidecar;
  const { reportWithin = REPORT_WITHIN_MS } = document.sidecar;
  reviewPeers(context);
  checkDelivery({ proxy, delivery }, context);
  return { listen, proxy, peers, delivery, reportWithinMs: reportWithin };
}

function refuseForwarding(context: Context): void {
  const { document, tree, problems } = context;
  const ofRoutes = Object.keys(document.routes ?? {}).map((key) => ["routes", key, "upstream"]);
  for (const path of [...FORWARDING, ...ofRoutes]) {
    if (tree.has(path)) refuseUnused(path, context);
  }
  if (document.workers !== undefined && document.workers !== 1) {
    const message = "a sidecar is one process: its answers and passes wait in its memory";
    problems.error(["workers"], fault(NOT_YET, message, "leave the key out"));
  }
  if (!tree.has(["routes"])) {
    const message = "has no effect without routes: there is nothing to ask about";
    problems.errorAtKey(["sidecar"], fault("unused-key", message, "add routes"));
  }
}

function checkDelivery(
  { proxy, delivery }: Pick<SidecarSettings, "proxy" | "delivery">,
  { tree, problems }: Context,
): void {
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

/** A peer says itself who its client is, so that whoever may ask is whoever it likes. */
function reviewPeers({ document, problems }: Context): void {
  for (const [index, { prefixBits }] of (document.sidecar?.peers ?? []).entries()) {
    if (prefixBits > 0) continue;
    const message = "this range lets everybody ask, in the name of any client";
    const hint = "write the addresses of your proxy";
    const path = ["sidecar", "peers", index];
    problems.add("warning", path, fault("trusts-everybody", message, hint));
  }
}

function refuseUnused(path: Path, { problems }: Context): void {
  const message = "has no effect beside sidecar: your own proxy receives and forwards the requests";
  problems.errorAtKey(path, fault("unused-key", message, "remove it"));
}
