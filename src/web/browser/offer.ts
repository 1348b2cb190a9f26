/** What the page's script knows of the ways to pay: written into the page by `../paywall-page.ts`. */

interface CommonOffer {
  /** As the version that the page pays by has it. */
  readonly network: string;
  readonly name: string;
  /** Of a network whose tokens are worth nothing. */
  readonly isTest: boolean;
  /** It is of a test network, and what Circle gives away. */
  readonly isGiven: boolean;
  readonly asset: string;
  readonly symbol: string;
  readonly decimals: number;
  readonly payTo: string;
  /** Atomic units. */
  readonly amount: string;
  /** For people: `$0.01` of what is worth dollars, else `0.01 TOKEN`. */
  readonly price: string;
  /** URL of a transaction's page, with `{hash}`. */
  readonly explorer: string;
  /** URL of an account's page, with `{address}`; "" where it stands beside a transaction's. */
  readonly account: string;
  /** 0 where it is no EVM network. */
  readonly chainId: number;
}

export interface EvmOffer extends CommonOffer {
  /** The members of the token's EIP-712 domain that are not its address and chain. */
  readonly domain: { readonly name: string; readonly version: string };
  readonly currency: object;
  /** A public endpoint, for a wallet that does not know the chain. */
  readonly rpc: string;
}

export interface SolanaOffer extends CommonOffer {
  /** The chain's name in wallet-standard. */
  readonly cluster: string;
}

export type PayableOffer = EvmOffer | SolanaOffer;

export function isEvm(offer: PayableOffer): offer is EvmOffer {
  return offer.chainId > 0;
}

/** What is written into the page. */
export interface PageData {
  /** How long a payment may take. */
  readonly seconds: number;
  /** So long what was bought may be asked for again, seconds. */
  readonly again: number;
  /** Whether whoever has paid before may say so with his wallet. */
  readonly asksWho: boolean;
  /** Whether it may be paid from a balance. */
  readonly credits?: boolean;
  /** Its price is the most that is charged. */
  readonly metered?: boolean;
  /** The first is whole, the others are without those members in which they are like the first. */
  readonly offers: readonly [PayableOffer, ...Partial<PayableOffer>[]] | readonly [];
}

export function allOffers({ offers }: PageData): readonly PayableOffer[] {
  return offers.map((offer) => ({ ...offers[0], ...offer }) as PayableOffer);
}

/** `0.01 USDC`, exact. */
export function amountText(units: bigint, { decimals, symbol }: PayableOffer): string {
  const digits = String(units).padStart(decimals + 1, "0");
  const split = digits.length - decimals;
  const fraction = digits.slice(split).replace(/0+$/, "");
  return `${digits.slice(0, split)}${fraction && `.${fraction}`} ${symbol}`;
}

/** `0.01 USDC on Base`, exact. */
export function exactPrice(offer: PayableOffer): string {
  return `${amountText(BigInt(offer.amount), offer)} on ${offer.name}`;
}

/** Text of others as a sentence: without the code that is for programs, and with an end. */
export function ended(text: string): string {
  return text.replace(/^\w+_\w+: /, "").replace(/[^.!?]$/, "$&.");
}

/** What went wrong before anything was paid, as a sentence for the buyer. */
export class NotPaid extends Error {}

/** The account holds too little. */
export class TooPoor extends NotPaid {}
