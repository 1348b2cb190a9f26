/** Our accounts that pay network fees, as an operator sees them at the start. */
import type { Config } from "../config/config.ts";
import type { Mechanism, WalletBalance } from "../mechanism/mechanism.ts";
import { formatAmount } from "../x402/amount.ts";
import { networkOf, type NetworkName } from "../x402/network.ts";
import { roughly } from "./gas-costs.ts";

export interface FeeWallet {
  readonly network: string;
  readonly address: string;
  /** Where its key came from: `env:NAME` or `file:PATH`. */
  readonly source: string;
  /** `has 0.5 ETH, a settlement costs 0.000002 ETH: enough for 250000`; null when it could not be read. */
  readonly funds: string | null;
}

/** `balances` are those that could be read, by network. */
export function describeWallets(
  config: Config,
  mechanisms: readonly Pick<Mechanism, "network" | "accounts">[],
  balances: ReadonlyMap<NetworkName, readonly WalletBalance[]>,
): readonly FeeWallet[] {
  return config.facilitator.embedded.flatMap(({ network, signers }) => {
    const accounts = mechanisms.find((each) => each.network === network)?.accounts ?? [];
    return accounts.map((address, index) => {
      const balance = balances.get(network)?.find((each) => each.address === address);
      const funds = balance === undefined ? null : describeFunds(network, balance);
      return { network, address, source: signers[index]?.source ?? "", funds };
    });
  });
}

function describeFunds(network: NetworkName, balance: WalletBalance): string {
  const { balanceAtomic, decimals, settlementAtomic } = balance;
  const { symbol } = networkOf(network).nativeCurrency;
  const has = `has ${formatAmount(balanceAtomic, decimals)} ${symbol}`;
  if (settlementAtomic === 0n) return has;
  const cost = `a settlement costs ${roughly(settlementAtomic, decimals)} ${symbol}`;
  return `${has}, ${cost}: enough for ${balanceAtomic / settlementAtomic}`;
}
