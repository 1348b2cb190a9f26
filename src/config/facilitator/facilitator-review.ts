/** What is allowed about settlement and most likely a mistake: who may ask for it, and how it is asked for. */
import { networkOf, type NetworkName } from "../../x402/network.ts";
import { isLoopback } from "../listener/listeners.ts";
import type { Context } from "../reading/context.ts";
import { fault } from "../reading/reading.ts";
import type { Path } from "../reading/tree.ts";
import type { Limits } from "../limits.ts";
import type { RouteSettings } from "../routes/routes.ts";
import type { FacilitatorSettings } from "./facilitator.ts";
import type { RefundSettings } from "./refunds.ts";

/** A facilitator that settles on test networks only. */
const TESTNET_FACILITATOR_HOSTS: ReadonlySet<string> = new Set(["x402.org", "www.x402.org"]);
/** One that answers nobody without a token for each request. */
const SIGNED_FACILITATOR_HOSTS: ReadonlySet<string> = new Set(["api.cdp.coinbase.com"]);

/** Of one millionth of a dollar, in which an hour's sales are, 10^-18 of a whole token. */
const ATTO_IN_MICRO = 10n ** 12n;

interface Settling {
  readonly facilitator: FacilitatorSettings;
  readonly routes: readonly RouteSettings[];
  readonly limits: Pick<Limits, "salesPerHour">;
  readonly refunds: RefundSettings | null;
}

export function reviewFacilitator(config: Settling, context: Context): void {
  const { facilitator, routes } = config;
  reviewRemotes(facilitator, soldOn(routes), context);
  reviewRefunds(config, context);
  reviewLines(facilitator, context);
  reviewListener(facilitator, context);
  reviewWallets(facilitator, context);
}

function soldOn(routes: readonly RouteSettings[]): readonly NetworkName[] {
  return routes.flatMap(({ action }) =>
    action.kind === "priced" ? action.offers.map(({ network }) => network) : [],
  );
}

/** What comes back to whoever makes a backend fail is what he uses up of everybody's hour for nothing. */
function reviewRefunds(
  { facilitator, routes, limits: { salesPerHour }, refunds }: Settling,
  { problems }: Context,
): void {
  if (refunds?.automatic !== true || salesPerHour === null) return;
  const own = new Set(facilitator.embedded.map((each) => each.network));
  const paidBack = routes.flatMap(({ action }) => (action.kind === "priced" ? action.offers : []));
  const tokens = new Set(
    paidBack
      .filter(
        ({ network }) => own.has(network) && refunds.signers[networkOf(network).kind] !== null,
      )
      .map(({ network, asset }) => `${network} ${asset.address}`),
  );
  const all = refunds.maxPerDay * BigInt(tokens.size);
  if (all < BigInt(salesPerHour) * ATTO_IN_MICRO) return;
  const message =
    "what is paid back by itself counts in limits.sales as well: whoever makes a backend fail can use up an hour of " +
    "everybody's sales, and has his money back";
  const many = tokens.size === 1 ? "" : `, over the ${tokens.size} tokens that are paid back`;
  const hint = `keep it below limits.sales${many}`;
  problems.add("warning", ["refunds", "maxPerDay"], fault("free-hour", message, hint));
}

function reviewRemotes(
  { embedded, remote }: FacilitatorSettings,
  sold: readonly NetworkName[],
  { problems, tree }: Context,
): void {
  const own = new Set(embedded.map((each) => each.network));
  const real = sold.find((network) => !own.has(network) && !networkOf(network).testnet);
  for (const [index, { url, cdp, headers }] of remote.entries()) {
    const isShort = tree.find(["facilitator"])?.kind === "scalar";
    const path = isShort ? ["facilitator"] : ["facilitator", "remote", index];
    const { hostname } = new URL(url);
    if (real !== undefined && TESTNET_FACILITATOR_HOSTS.has(hostname)) {
      const message = `this facilitator settles on test networks only, and ${real} is none`;
      const hint = `name one that settles on ${real}, or settle it here: facilitator.embedded`;
      problems.add("warning", path, fault("testnet-facilitator", message, hint));
    }
    const isSigned = cdp !== null || headers.some(({ name }) => /^authorization$/i.test(name));
    if (!isSigned && SIGNED_FACILITATOR_HOSTS.has(hostname)) {
      const message = "this facilitator takes no request without a token that is signed for it";
      const hint = "add auth: { cdp: { keyId, keySecret } } beside its url";
      problems.add("warning", path, fault("unsigned-requests", message, hint));
    }
  }
}

/** What a facilitator or a chain says is believed: goods are handed out for it. */
function reviewLines({ embedded, remote, observed }: FacilitatorSettings, context: Context): void {
  const { tree, problems } = context;
  const isShort = tree.find(["facilitator"])?.kind === "scalar";
  const asked: readonly (readonly [url: string, path: Path])[] = [
    ...remote.map(({ url }, index): [string, Path] => {
      return [
        url,
        isShort ? ["facilitator"] : context.placeOfUrl(["facilitator", "remote", index]),
      ];
    }),
    ...endpoints(["facilitator", "embedded", "networks"], "rpc", embedded),
    ...endpoints(["facilitator", "rpc"], "", observed),
  ];
  for (const [url, path] of asked) {
    const { protocol, hostname } = new URL(url);
    // A name without a dot is one of a network of containers, which nobody else is in.
    if (protocol === "https:" || isLoopback(hostname) || !/[.:]/.test(hostname)) continue;
    const message =
      "is asked over http: whoever is on the way can say that a payment is good, and the goods go out";
    problems.add("warning", path, fault("plain-settlement", message, "write https://"));
  }
}

function endpoints(
  list: Path,
  key: string,
  networks: FacilitatorSettings["embedded"] | FacilitatorSettings["observed"],
): readonly (readonly [string, Path])[] {
  return networks.flatMap(({ network, rpc }) => {
    const path = [...list, network, ...(key === "" ? [] : [key])];
    return rpc.map(({ url }, index): [string, Path] => [url.reveal(), [...path, index]]);
  });
}

function reviewListener(facilitator: FacilitatorSettings, { problems, tree }: Context): void {
  const { listen, bearer, gateways, embedded, remote, payees } = facilitator;
  if (listen === null || (embedded.length === 0 && remote.length === 0)) return;
  if (listen.host !== null && isLoopback(listen.host)) return;
  if (bearer !== null || gateways.length > 0 || !tree.intact(["facilitator", "auth"])) return;
  const whom = payees === "any" ? "payments to anyone" : "payments to the payees of this file";
  const message =
    embedded.length > 0
      ? `whoever reaches this address can settle ${whom} at your gas cost`
      : "whoever reaches this address can settle payments through your remote facilitators";
  const hint = "add facilitator.auth.bearer, or listen on 127.0.0.1";
  problems.add("warning", ["facilitator", "listen"], fault("open-facilitator", message, hint));
}

/** A buyer can neither see nor leave out what a wallet adds to a transaction, nor see what he is to pay from. */
function reviewWallets(facilitator: FacilitatorSettings, { problems }: Context): void {
  for (const settings of facilitator.embedded) {
    const path = ["facilitator", "embedded", "networks", settings.network];
    if (settings.kind === "solana" && settings.lighthouse === "deny") {
      const message =
        "wallets such as Phantom add assertions to what they sign: their payments are refused";
      problems.add("note", [...path, "lighthouse"], fault("lighthouse-denied", message));
    }
    if (settings.kind === "evm" && settings.smartWallets === "deny") {
      const message = "payments from addresses that have code (ERC-1271, EIP-7702) are refused";
      problems.add("note", [...path, "smartWallets"], fault("smart-wallets-denied", message));
    }
  }
}
