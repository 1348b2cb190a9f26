/** What the file alone says of what a route costs one payer: lists and groups. The ledger, and chains, know more. */
import {
  holdersText,
  type Config,
  type MemberPrice,
  type RouteSettings,
} from "../config/config.ts";
import { formatAmount } from "../x402/amount.ts";
import { isEvmAddress } from "../x402/address.ts";
import { networkOf, type NetworkName } from "../x402/network.ts";

type Known = Pick<Config, "payers" | "members">;

/** Sentences without a final period. @param payer an EVM or a Solana address */
export function payerNotes(
  config: Known,
  route: RouteSettings | null,
  payer: string,
): readonly string[] {
  if (route?.action.kind !== "priced") return [`for ${payer} it is as for anybody`];
  const { action } = route;
  const kind = isEvmAddress(payer) ? "evm" : "solana";
  const networks = [...new Set(action.offers.map(({ network }) => network))].filter(
    (each) => networkOf(each).kind === kind,
  );
  if (networks.length === 0)
    return [`${payer} cannot pay it: it is sold on no ${NAMES[kind]} network`];
  const barred = barOf(config, payer, networks);
  if (barred !== null) return [barred];
  const said = groupsOf(config, action.prices, { payer, networks });
  const isCounted = action.grants !== null || action.quota !== null || action.credits;
  const unseen = "what it has bought, prepaid or used stands in the ledger, which is not looked at";
  return isCounted || config.members.areScreened ? [...said, unseen] : said;
}

const NAMES = { evm: "EVM", solana: "Solana" } as const;

/** Null: it may pay. */
function barOf(
  { payers: { deny, allow } }: Known,
  payer: string,
  networks: readonly NetworkName[],
): string | null {
  if (networks.every((network) => deny?.has(network, payer))) {
    return `${payer} may not pay, nor sign in: it is on payers.deny`;
  }
  if (allow != null && networks.every((network) => !allow.has(network, payer))) {
    return `${payer} may not pay, nor sign in: it is not on payers.allow`;
  }
  return null;
}

/** Until a group that it is in for certain, which is the last one that counts. */
function groupsOf(
  { members: { groups, holders } }: Known,
  prices: readonly MemberPrice[],
  { payer, networks }: { readonly payer: string; readonly networks: readonly NetworkName[] },
): readonly string[] {
  const said: string[] = [];
  for (const price of prices) {
    const { group } = price;
    const held = holders[group];
    if (held !== undefined && isEvmAddress(payer)) {
      said.push(`if ${payer} ${holdersText(held)}, it is in ${group}: ${costOf(price)}`);
    }
    const on = networks.filter((network) => groups[group]?.has(network, payer));
    if (on.length === 0) continue;
    const where = on.length === networks.length ? "" : ` on ${on.join(" and ")}`;
    said.push(`${payer} is in ${group}${where}: ${costOf(price)}`);
    if (where === "") return said;
  }
  const beside = said.length === 0 ? "is in no group with a price of its own here, and" : "else";
  return [...said, `${payer} ${beside} pays what anybody does`];
}

function costOf({ offers }: MemberPrice): string {
  if (offers.length === 0) return "it costs nothing, by a sign-in or a session";
  const amounts = offers.map(({ asset: { decimals, symbol }, amountAtomic, dollars }) => {
    return dollars ?? `${formatAmount(amountAtomic, decimals)} ${symbol}`;
  });
  return `it costs ${[...new Set(amounts)].join(" or ")}`;
}
