/**
 * The programs that a payment on Solana may meet, base58. All are the same on every cluster; each address is
 * declared by the program's own source (`declare_id!`), and was compared with the official clients' constants.
 */

/** Native; owns every plain wallet. Only looked for, to name a durable nonce. */
export const SYSTEM_PROGRAM = "11111111111111111111111111111111";
/** Native; limits and priority fee of a transaction that is not of version 1. */
export const COMPUTE_BUDGET_PROGRAM = "ComputeBudget111111111111111111111111111111";
/** Native; owns address lookup tables. */
export const ADDRESS_LOOKUP_TABLE_PROGRAM = "AddressLookupTab1e1111111111111111111111111";
/** SPL Token, the program of USDC. */
export const TOKEN_PROGRAM = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
/** SPL Token-2022, the token program with extensions. */
export const TOKEN_2022_PROGRAM = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb";
/** SPL Associated Token Account: one token account for each owner and mint. */
export const ASSOCIATED_TOKEN_PROGRAM = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL";
/** SPL Memo, version 2: checks that its data is UTF-8 and that its accounts have signed. */
export const MEMO_PROGRAM = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";
/** Lighthouse: assertions that wallets such as Phantom and Solflare add to what they sign. */
export const LIGHTHOUSE_PROGRAM = "L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95";
