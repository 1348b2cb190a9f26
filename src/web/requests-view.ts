/** What the operator's page shows, as values: whoever makes them has left out what nobody may see. */

/** `work`: only of what is paid after it. */
export const STAGES = ["402", "payment", "verification", "work", "settlement", "delivery"] as const;

export interface StageView {
  readonly name: (typeof STAGES)[number];
  readonly state: "none" | "running" | "good" | "bad";
  /** Null where it is not known. */
  readonly ms: number | null;
  readonly note: string;
}

/** A line of a list of facts; `href`: where more is to be found. */
export interface FactView {
  readonly label: string;
  readonly text: string;
  readonly href?: string;
}

/** One request, or one payment of which only the ledger knows. */
export interface RequestView {
  /** Letters, digits and dashes. */
  readonly id: string;
  /** ISO 8601, UTC. */
  readonly at: string;
  /** Method and path. */
  readonly title: string;
  /** What was asked for beside the path, without what may be secret; "" where there is nothing. */
  readonly query: string;
  /** Of the payment: `0.01 USDC on base`; "" where there is none. */
  readonly amount: string;
  /** Whole; "" where none is named. */
  readonly payer: string;
  /** The payer is an address, whose other requests can be looked for. */
  readonly isPayerKnown: boolean;
  /** It waits for whoever reads this. */
  readonly needsOperator: boolean;
  /** A few words: how it ended, or how far it is. */
  readonly outcome: string;
  readonly tone: "good" | "bad" | "dim";
  readonly status: number | null;
  readonly ms: number | null;
  /** One for each of {@link STAGES}, in their order. */
  readonly stages: readonly StageView[];
  /** What the client was told; null where nothing was refused. */
  readonly error: string | null;
  readonly advice: string;
  /** What the buyer signed. */
  readonly payload: readonly FactView[];
  /** What the ledger says. */
  readonly ledger: readonly FactView[];
}

/** What of all requests a list shows. */
export interface ListFilterView {
  /** What was looked for; "" for everything. */
  readonly find: string;
  readonly needsMe: boolean;
}

/** Everything about one payment. */
export interface PaymentDetailsView {
  readonly key: string;
  readonly state: string;
  readonly advice: string;
  readonly facts: readonly FactView[];
  readonly history: readonly {
    readonly at: string;
    readonly state: string;
    readonly note: string;
    readonly by: string;
  }[];
}
