/** What each official client would do with the 402 of each priced route. */
import type { Config, RouteSettings } from "../../config/config.ts";
import { DryGateway } from "../dry-gateway.ts";
import { CLIENTS, walletsFor, type Verdict, type BuyerWallet } from "./client-rules.ts";
import { fail, ok, warn, type Check, type DoctorFinding } from "./finding.ts";

/** Routes that are named where many have the same fate. */
const MAX_NAMED = 4;
/** In place of an account that only a running gateway knows: an address like any other. */
const SOME_FEE_PAYER = "11111111111111111111111111111111";

export interface ClientVerdict {
  readonly client: string;
  readonly wallet: BuyerWallet;
  readonly verdict: Verdict;
  /** `pays in USDC on base`, or why not; words that go on from the name of the client. */
  readonly said: string;
}

export function clientChecks(config: Config): readonly Check[] {
  if (!config.routes.some(({ action }) => action.kind === "priced")) return [];
  const run: Check["run"] = async () => {
    // Routes with the same fate in one line; those that nobody buys by default first.
    const routes = judgeRoutes(config);
    const unsold = [...routes]
      .filter(([, verdicts]) => verdicts.every(isRefusal))
      .map(([key]) => key);
    const nobody =
      unsold.length === 0
        ? []
        : [
            fail(
              "official clients",
              `none pays for ${listed(unsold)} unless it is told to`,
              "lower the price, accept USDC on base, or tell buyers how to raise their limit",
            ),
          ];
    return [...nobody, ...CLIENTS.flatMap(({ name }) => describeClient(name, routes))];
  };
  return [{ name: "official clients", section: "clients", run }];
}

/** By the key of the route. */
export function judgeRoutes(config: Config): ReadonlyMap<string, readonly ClientVerdict[]> {
  const payers = { revision: 0, offered: () => SOME_FEE_PAYER, isKnown: () => false };
  const dry = new DryGateway(config, payers);
  return new Map(
    config.routes.flatMap((route) => {
      const accepts = acceptsOf(dry, route);
      return accepts.length === 0 ? [] : [[route.key, judgeRoute(route, accepts)] as const];
    }),
  );
}

function acceptsOf(dry: DryGateway, { methods, segments, action }: RouteSettings) {
  if (action.kind !== "priced") return [];
  const texts = segments.map((each) => (each.kind === "static" ? each.text : "doctor"));
  const method = methods === null || methods.includes("GET") ? "GET" : (methods[0] ?? "GET");
  return dry.accepts(method, `/${texts.join("/")}`);
}

function judgeRoute(
  { action }: RouteSettings,
  accepts: readonly object[],
): readonly ClientVerdict[] {
  const offers = action.kind === "priced" ? action.offers : [];
  const wallets = walletsFor(offers.map(({ network }) => network));
  return CLIENTS.flatMap(({ name, judge }) =>
    wallets.map((wallet): ClientVerdict => {
      const verdict = judge(accepts, wallet);
      if (verdict.kind === "refuses")
        return { client: name, wallet, verdict, said: verdict.detail };
      const offer = offers[verdict.index];
      const said = `pays in ${offer?.asset.symbol ?? "?"} on ${offer?.network ?? "?"}`;
      return { client: name, wallet, verdict, said };
    }),
  );
}

function isRefusal({ verdict }: ClientVerdict): boolean {
  return verdict.kind === "refuses";
}

function describeClient(
  client: string,
  routes: ReadonlyMap<string, readonly ClientVerdict[]>,
): readonly DoctorFinding[] {
  const fates = new Map<string, { readonly finding: ClientVerdict; readonly keys: string[] }>();
  for (const [key, all] of routes) {
    const own = all.filter((each) => each.client === client);
    for (const each of own) {
      const said = sayFor(each, own);
      const fate = fates.get(said) ?? { finding: each, keys: [] };
      if (!fate.keys.includes(key)) fate.keys.push(key);
      fates.set(said, fate);
    }
  }
  return [...fates].map(([said, { finding, keys }]) => {
    const message = `${said}: ${listed(keys)}`;
    return isRefusal(finding) ? warn(client, message, fixFor(finding)) : ok(client, message);
  });
}

/** The wallet is named where it makes a difference. */
function sayFor({ wallet, said }: ClientVerdict, all: readonly ClientVerdict[]): string {
  return all.every((each) => each.said === said) ? said : `${nameOf(wallet)}: ${said}`;
}

function nameOf(wallet: BuyerWallet): string {
  if (wallet.kind === "solana") return "with a Solana wallet";
  return wallet.chain === null ? "with an EVM account" : `with a wallet on ${wallet.chain}`;
}

function fixFor({ client, verdict }: ClientVerdict): string {
  const reason = verdict.kind === "refuses" ? verdict.reason : "unreadable";
  const isV2 = client.startsWith("@x402/");
  switch (reason) {
    case "too-dear":
      return isV2
        ? "its users raise spendControls.maxAmountPerPayment, or the price is lowered"
        : "its users give wrapFetchWithPayment a higher maxValue, or the price is lowered";
    case "unknown-token":
      return "its users allow the token (spendControls.allowedAssets), or you accept USDC on base";
    case "other-network":
      return "accept a network of that wallet as well, with its USDC, and name it first";
    case "unreadable":
      return "one odd offer loses these buyers: take it out of accept";
  }
}

function listed(keys: readonly string[]): string {
  const named = keys.slice(0, MAX_NAMED).join(", ");
  const more = keys.length - MAX_NAMED;
  return more > 0 ? `${named} and ${more} more` : named;
}
