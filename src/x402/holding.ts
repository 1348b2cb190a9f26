/** Who holds a token: so much of it makes an account a member, as far as its chain says. */
import type { NetworkName } from "./network.ts";

/** What an account has to hold to be in a group. */
export interface HolderTerms {
  readonly network: NetworkName;
  /** ERC-20 or ERC-721, EIP-55. */
  readonly token: string;
  /** The least that `balanceOf` has to say: smallest units, at least 1; of an ERC-721 how many. */
  readonly least: bigint;
  readonly decimals: number;
  /** Null: the file knows its address alone. */
  readonly symbol: string | null;
  /** How long who has held it counts as holding it, milliseconds. */
  readonly forMs: number;
}

/** An account, and a token that it may hold: addresses of one chain. */
export interface HeldToken {
  readonly token: string;
  readonly owner: string;
}

/** Whether an account holds it; null: its chain could not be asked, and nobody knows. */
export type Holding = boolean | null;

/** Tells what is asked of whom from anything else that is asked. */
export function holdingKey({ network, token, least }: HolderTerms, address: string): string {
  return `${network} ${token.toLowerCase()} ${least} ${address.toLowerCase()}`;
}
