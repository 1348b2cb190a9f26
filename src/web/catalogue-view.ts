/** What the catalogue page shows of the priced routes, as values. */

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
  /** Those of this page. */
  readonly routes: readonly CatalogueRoute[];
}

export interface CatalogueRoute {
  /** Null: any. */
  readonly methods: readonly string[] | null;
  readonly pattern: string;
  readonly url: string;
  /** Names of the pattern's parameters, with their colon; `*` for the rest. */
  readonly parameters: readonly string[];
  readonly description: string;
  /** "" where nobody says. */
  readonly mimeType: string;
  /** At least one, in the order that buyers see. */
  readonly prices: readonly CataloguePrice[];
  readonly inputs: readonly CatalogueInput[];
  /** How a body is sent; null: nobody says. */
  readonly bodyType: string | null;
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
}
