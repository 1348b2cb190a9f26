/** Amounts of tokens as nodes show them, and the token balances before and after a transaction. */
import type { StoredAccount } from "./runtime.ts";
import { readMint, readTokenAccount } from "./token-layout.ts";

export interface TokenAmount {
  /** Atomic units. */
  readonly amount: string;
  readonly decimals: number;
  readonly uiAmount: number | null;
  readonly uiAmountString: string;
}

export interface TokenBalance {
  readonly accountIndex: number;
  readonly mint: string;
  readonly owner: string;
  readonly programId: string;
  readonly uiTokenAmount: TokenAmount;
}

export function tokenAmount(amount: bigint, decimals: number): TokenAmount {
  const digits = amount.toString().padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, "");
  const uiAmountString = fraction === "" ? whole : `${whole}.${fraction}`;
  return { amount: String(amount), decimals, uiAmount: Number(uiAmountString), uiAmountString };
}

export function tokenBalances(
  keys: readonly string[],
  accounts: readonly (StoredAccount | null)[],
  mintAccount: (mint: string) => StoredAccount | null,
): TokenBalance[] {
  return keys.flatMap((_, accountIndex) => {
    const account = accounts[accountIndex] ?? null;
    const token = readTokenAccount(account);
    if (account === null || token === null) return [];
    const decimals = readMint(mintAccount(token.mint))?.decimals;
    if (decimals === undefined) return [];
    const { mint, owner, amount } = token;
    const uiTokenAmount = tokenAmount(amount, decimals);
    return [{ accountIndex, mint, owner, programId: account.owner, uiTokenAmount }];
  });
}
