/** What the catalogue page shows of the priced routes, as values. */
import type { X402Version } from "../x402/x402.ts";

export interface CatalogueView {
  /** Host of the shop. */
  readonly shop: string;
  /** What was searched for; "" for everything. */
  readonly query: string;
  /** Routes that were found, on all pages together. */
  readonly found: number;
  /** From 1. */
  readonly page: number;
  readonly pages: number;
  /** The version that the code of a buyer speaks. */
  readonly version: X402Version;
  /** Those of this page. */
  readonly groups: readonly CatalogueGroup[];
}

export interface CatalogueGroup {
  /** Null: there is one group, which needs no name. */
  readonly name: string | null;
  readonly routes: readonly CatalogueRoute[];
}

export interface CatalogueRoute {
  /** Null: any. */
  readonly methods: readonly string[] | null;
  /** Path and query with their example values; `{name}` in place of what no example is declared for. */
  readonly shown: string;
  /** Absolute, as it can be asked for; null: something is {@link CatalogueRoute.missing}. */
  readonly url: string | null;
  /** The same for a link, where a browser can follow it. */
  readonly href: string | null;
  /** Names of what a buyer has to find a value for. */
  readonly missing: readonly string[];
  readonly description: string;
  /** "" where nobody says. */
  readonly mimeType: string;
  /** At least one, in the order that buyers see. */
  readonly prices: readonly CataloguePrice[];
  readonly inputs: readonly CatalogueInput[];
  /** How a body is sent; null: nobody says. */
  readonly bodyType: string | null;
  /** A sample of what is sold; null: none is declared. */
  readonly sample: string | null;
  /** Where credits are bought that it takes, absolute. Default: it takes none. */
  readonly credits?: string;
  /** How else it is had beside a payment for each request: sentences without a period. Default: in no other way. */
  readonly ways?: readonly string[];
  /** How well it was delivered, in words; "": nothing is known. */
  readonly quality: string;
}

export interface CataloguePrice {
  /** Whose keys pay it. */
  readonly family: "evm" | "solana";
  /** As the seller wrote it, `$0.01`; null where it was given in the token. */
  readonly dollars: string | null;
  /** `0.01 USDC` */
  readonly amount: string;
  readonly amountAtomic: string;
  /** For people. */
  readonly network: string;
  /** Address of the token. */
  readonly asset: string;
  /** Whether it is the network's own stablecoin, which buyers' programs know. */
  readonly isUsual: boolean;
}

/** Something that a buyer has to send, or may. */
export interface CatalogueInput {
  readonly place: "path" | "query" | "body" | "header";
  readonly name: string;
  readonly type: string;
  readonly isRequired: boolean;
  readonly description: string;
  /** Undefined: none is declared. */
  readonly example?: unknown;
}
