/** What is allowed and most likely a mistake: warnings and notes about a file that was accepted. */
import { networkOf, type NetworkName } from "../x402/network.ts";
import { dollarAsset } from "./accepted.ts";
import type { Context } from "./context.ts";
import type { AcceptEntry } from "./document.ts";
import { warnOfFreeHoles } from "./free-holes.ts";
import { fault } from "./reading.ts";
import type { Config, ListenAddress, PricedAction } from "./settings.ts";
import type { Path } from "./tree.ts";

/** Longest description that catalogues show whole, characters. */
const LONG_DESCRIPTION = 500;
/** A facilitator that settles on test networks only. */
const TESTNET_FACILITATOR_HOSTS: ReadonlySet<string> = new Set(["x402.org", "www.x402.org"]);
/** The networks that protocol section 4.3 names: what the first clients were made for. */
const FIRST_NETWORKS: ReadonlySet<NetworkName> = new Set<NetworkName>([
  "base-sepolia",
  "base",
  "avalanche-fuji",
  "avalanche",
  "iotex",
  "solana-devnet",
  "solana",
]);

export function review(config: Config, context: Context): void {
  const { problems, document } = context;
  if (config.routes.length > 0 && !config.routes.some((each) => each.action.kind === "priced")) {
    problems.add("warning", ["routes"], fault("nothing-priced", "no route has a price"), "key");
  }
  for (const { key, action } of config.routes) {
    if (action.kind === "priced") reviewPriced(["routes", key], action, context);
  }
  reviewNetworks(document.accept, ["accept"], context);
  reviewPublicUrl(config, context);
  reviewFacilitator(config, context);
  if (typeof document.payTo === "object" && document.payTo.solana !== undefined) {
    const message = "is not used: Solana is not supported by this version yet";
    problems.add("note", ["payTo", "solana"], fault("not-used", message), "key");
  }
  warnOfFreeHoles(config, context);
}

function reviewPriced(path: Path, action: PricedAction, context: Context): void {
  const { problems, tree, document } = context;
  if (action.description === "") {
    const message = "has no description: buyers and catalogues see an empty one";
    problems.add("note", path, fault("no-description", message), "key");
  } else if (action.description.length > LONG_DESCRIPTION) {
    const message = `is longer than ${LONG_DESCRIPTION} characters; catalogues may cut or refuse it`;
    problems.add("warning", [...path, "description"], fault("long-description", message));
  }
  const pricePath = [...path, "price"];
  reviewPrice(tree.has(pricePath) ? pricePath : path, action, context);
  const block = document.routes?.[String(path.at(-1))];
  if (block !== undefined && !("kind" in block)) {
    reviewNetworks(block.accept, [...path, "accept"], context);
  }
}

/** Clients have a limit that their users seldom raise: $0.10 (version 1) and $1 (version 2). */
function reviewPrice(path: Path, action: PricedAction, { problems }: Context): void {
  const cents = action.offers
    .filter((offer) => offer.asset.address === dollarAsset(offer.network).address)
    .map(({ amountAtomic, asset }) => (amountAtomic * 100n) / 10n ** BigInt(asset.decimals));
  if (cents.length === 0 || cents.some((each) => each <= 10n)) return;
  const message = cents.some((each) => each <= 100n)
    ? "is more than the $0.10 that version 1 clients pay unless told otherwise"
    : "is more than clients pay unless told otherwise: $0.10 in version 1, $1 in version 2";
  problems.add("note", path, fault("high-price", message));
}

function reviewNetworks(
  accept: readonly AcceptEntry[] | undefined,
  path: Path,
  { problems }: Context,
): void {
  for (const [index, entry] of (accept ?? []).entries()) {
    const network = typeof entry === "string" ? entry : entry.network;
    if (FIRST_NETWORKS.has(network)) continue;
    const message = `some older clients do not know ${network} and then refuse the whole answer`;
    const severity = accept?.length === 1 ? "note" : "warning";
    problems.add(severity, [...path, index], fault("young-network", message));
  }
}

function reviewPublicUrl({ publicUrl }: Config, { problems }: Context): void {
  if (publicUrl === null) return;
  const { protocol, hostname } = new URL(publicUrl);
  if (protocol === "https:" || isLoopback(hostname)) return;
  const message = "is http: payments and what they buy travel unencrypted";
  problems.add("warning", ["publicUrl"], fault("plain-http", message, "write https://…"));
}

function reviewFacilitator(config: Config, { document, problems }: Context): void {
  const { listen, bearer, embedded, remote, payees } = config.facilitator;
  const own = new Set(embedded.map((each) => each.network));
  const real = config.routes
    .flatMap(({ action }) => (action.kind === "priced" ? action.offers : []))
    .find(({ network }) => !own.has(network) && !networkOf(network).testnet);
  for (const [index, { url }] of remote.entries()) {
    if (real === undefined || !TESTNET_FACILITATOR_HOSTS.has(new URL(url).hostname)) continue;
    const short = typeof document.facilitator === "string";
    const path = short ? ["facilitator"] : ["facilitator", "remote", index];
    const message = `this facilitator settles on test networks only, and ${real.network} is none`;
    problems.add("warning", path, fault("testnet-facilitator", message));
  }
  if (listen !== null && bearer === null && embedded.length > 0 && !isLocal(listen)) {
    const whom = payees === "any" ? "payments to anyone" : "payments to the payees of this file";
    const message = `whoever reaches this address can settle ${whom} at your gas cost`;
    const hint = "add facilitator.auth.bearer, or listen on 127.0.0.1";
    problems.add("warning", ["facilitator", "listen"], fault("open-facilitator", message, hint));
  }
}

function isLocal({ host }: ListenAddress): boolean {
  return host !== null && isLoopback(host);
}

function isLoopback(host: string): boolean {
  return /^(?:localhost|127(?:\.[0-9]+){3}|\[?::1\]?|.*\.localhost)$/.test(host);
}
