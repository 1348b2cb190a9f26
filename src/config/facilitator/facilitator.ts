/** `facilitator`: who settles which network, and where that is offered to others. */
import { hasRoutes } from "../hosts.ts";
import { z } from "zod";
import type { AtomicAmount } from "../../x402/amount.ts";
import { isNetworkName, type NetworkName } from "../../x402/network.ts";
import { ok, type Result } from "../../x402/result.ts";
import { listener, resolveListener, type ListenerSettings } from "../listener/listeners.ts";
import type { Assets } from "../routes/accepted.ts";
import type { RouteSettings } from "../routes/routes.ts";
import { isEvmAsset, isSolanaAsset, settledAssets } from "./chain.ts";
import { allowedAssets, embedded, type EmbeddedNetwork, type Settler } from "./embedded.ts";
import { auth, catalogue, resolveHub, type CallerSettings } from "./hub.ts";
import {
  observedRpc,
  remote,
  resolveObserved,
  resolveRemotes,
  type ObservedNetwork,
  type RemoteFacilitatorSettings,
} from "./remote.ts";
import type { Context } from "../reading/context.ts";
import { BASE_URL } from "../reading/forms.ts";
import type { Fault } from "../reading/problem.ts";
import { bad, fault, readFacilitatorUrl } from "../reading/reading.ts";
import { listOf, map, matching, optional, section, text, word } from "../reading/shapes.ts";

export interface FacilitatorSettings extends CallerSettings {
  /** Where the REST endpoints are served, by HTTP/1.1 in any case; null: they are not. */
  readonly listen: ListenerSettings | null;
  /** Path before `/verify` and the others: "" or `/x402` (no trailing slash). */
  readonly basePath: string;
  /** Networks settled in this process, in the order written; empty: none. */
  readonly embedded: readonly EmbeddedNetwork[];
  /**
   * Who may be paid through the embedded facilitator: the payees of our own routes and `allow.payTo`,
   * EVM ones checksummed, Solana ones as written; `any` when a facilitator without routes names nobody.
   */
  readonly payees: "any" | readonly string[];
  /** What others have to pay at least, in 10^-18 dollars; null: about what its settlement costs, where that is known. */
  readonly leastAttodollars: AtomicAmount | null;
  /** For networks that are not embedded, tried in this order, their URLs all different; empty: none. */
  readonly remote: readonly RemoteFacilitatorSettings[];
  /** Networks settled elsewhere whose chain can be asked what became of a payment; empty: none. */
  readonly observed: readonly ObservedNetwork[];
  /** What becomes of a payment in a transaction of nobody that we know. */
  readonly foreign: "hold" | "deliver";
}

const BASE_PATH = /^(?:\/[A-Za-z0-9._~-]+)*\/?$/;
const BASE_PATH_FORM = "must be a path such as /x402: letters, digits and . _ ~ - between slashes";

const facilitatorMap = map({
  listen: optional(listener, "Serves /verify, /settle, /supported and /discovery/resources there."),
  basePath: optional(
    text(readBasePath, matching(BASE_PATH, BASE_PATH_FORM)),
    "A path before those.",
    "",
  ),
  auth: optional(auth, "Who may call that listener. Without it: whoever reaches it."),
  catalogue: section(catalogue, "How the sales of `auth.gateways` are listed."),
  embedded: optional(embedded, "Settlement in this process, on networks whose fees it pays."),
  remote: optional(
    listOf(remote),
    "Facilitators for every network that is not embedded, tried in this order.",
  ),
  foreign: optional(
    word(["hold", "deliver"]),
    "What becomes of a payment that is on chain in a transaction of neither ours nor of the facilitator that it " +
      "was handed to: hold it for `coinslot payments --resolve`, or deliver it.",
    "hold",
  ),
  rpc: optional(
    observedRpc,
    "RPC endpoints of networks that a remote facilitator settles: they tell what became of a payment.",
  ),
});

/** A URL alone is one remote facilitator. */
export const facilitator = z.union(
  [
    text(readFacilitatorUrl, BASE_URL).transform((url) => facilitatorMap.parse({ remote: [url] })),
    facilitatorMap,
  ],
  "must be a URL or a map",
);

function readBasePath(path: string): Result<string, Fault> {
  const trimmed = path.replace(/\/$/, "");
  return BASE_PATH.test(trimmed) && !/\/\.\.?(?:\/|$)/.test(trimmed)
    ? ok(trimmed)
    : bad(BASE_PATH_FORM);
}

type WrittenFacilitator = z.output<typeof facilitator>;

/** Whether a payment on that network can be settled: in this process, or by a remote facilitator. */
export function settlesWith(
  { remote = [] }: WrittenFacilitator,
  settlers: readonly Settler[],
  { tree }: Context,
) {
  const own = new Set(settlers.map((each) => each.network));
  // A network whose name is mistyped may be the one that is wanted.
  const names = tree.keys(["facilitator", "embedded", "networks"]);
  const isUnclear = names.some((name) => !isNetworkName(name));
  return (network: NetworkName): boolean => remote.length > 0 || isUnclear || own.has(network);
}

interface FacilitatorParts {
  readonly assets: Assets;
  readonly settlers: readonly Settler[];
  readonly routes: readonly RouteSettings[];
  /** Where we sell ourselves; undefined where we do not. */
  readonly ownUrl: string | undefined;
}

export function resolveFacilitator(
  written: WrittenFacilitator,
  parts: FacilitatorParts,
  context: Context,
): FacilitatorSettings {
  const { listen, basePath, embedded, rpc = {}, foreign } = written;
  const remote = resolveRemotes(written.remote ?? [], context);
  const offers = parts.routes.flatMap(({ action }) =>
    action.kind === "priced" ? action.offers : [],
  );
  const allowed = (embedded?.allow?.payTo ?? []).map(({ text }) => text);
  const payees = [...new Set([...offers.map((offer) => offer.payTo), ...allowed])];
  const assets = allowedAssets(embedded?.allow?.assets ?? [], parts, context);
  checkListener(written, context);
  return {
    listen:
      listen === undefined ? null : resolveListener(listen, ["facilitator", "listen"], context),
    basePath,
    ...resolveHub(written, parts.ownUrl, context),
    embedded: parts.settlers.map((each) => {
      const settled = settledAssets(each.network, offers, assets.get(each.network) ?? []);
      return each.kind === "evm"
        ? { ...each, assets: settled.filter(isEvmAsset) }
        : { ...each, assets: settled.filter(isSolanaAsset) };
    }),
    payees: hasRoutes(context) || allowed.length > 0 ? payees : "any",
    leastAttodollars: embedded?.allow?.minAmount ?? null,
    remote,
    foreign,
    observed: resolveObserved({ remote, rpc }, { embedded: parts.settlers, offers }, context),
  };
}

function checkListener(
  { listen, embedded, remote = [] }: WrittenFacilitator,
  { tree, problems }: Context,
): void {
  const parts = ["listen", "embedded", "remote"].map((key) => ["facilitator", key]);
  if (!tree.stands(["facilitator"]) || !parts.every((path) => tree.intact(path))) return;
  if (listen !== undefined && embedded === undefined && remote.length === 0) {
    const message = "a facilitator is served here, but nothing settles: add embedded or remote";
    problems.errorAtKey(["facilitator", "listen"], fault("no-facilitator", message));
  }
  for (const key of ["auth", "basePath", "catalogue"] as const) {
    if (listen !== undefined || !tree.has(["facilitator", key])) continue;
    const found = fault(
      "unused-key",
      "has no effect without facilitator.listen",
      "add facilitator.listen, or remove it",
    );
    problems.add("warning", ["facilitator", key], found, "key");
  }
}
