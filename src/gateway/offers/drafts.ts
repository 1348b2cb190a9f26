/**
 * Unsigned transactions for buyers who cannot write them: a page in a browser has a wallet that signs, but
 * neither a recent blockhash nor the means to derive token accounts. It asks for its 402 with the header
 * `X-PAYMENT-DRAFT: <network> <asset> <payer>`, and the answer holds the transaction beside what is asked for. The
 * network is named as the version has it in which the buyer is going to pay.
 */
import { isSolanaAddress } from "../../x402/solana-address.ts";
import { nameOfCaip2, type BlockhashHint } from "../../x402/version-2.ts";
import { X402_VERSION, X402_VERSION_2, type PaymentRequirements } from "../../x402/x402.ts";
import { RETRY_AFTER, errorAnswer, type Answer } from "../answers.ts";
import type { InboundRequest } from "../message/inbound.ts";
import type { Offers, Said } from "../../payments/sale/offers.ts";

/** Who writes transactions. */
export interface Drafts {
  /** Networks on which they can be written here; the others need a client of their own. */
  readonly networks: ReadonlySet<string>;
  /**
   * A transaction, base64, that pays the requirement once the payer (base58) and the fee payer have signed it.
   * Rejects where the chain cannot be asked, or too many are asked for.
   */
  draft(requirement: PaymentRequirements, payer: string): Promise<string>;
  /** What programs need to write them by themselves. Rejects where the chain cannot be asked. */
  blockhash(network: string): Promise<BlockhashHint>;
}

/** Where nothing is sold on Solana, or nobody can be asked about it. */
export const NO_DRAFTS: Drafts = {
  networks: new Set(),
  draft: () => Promise.reject(new Error("no transactions are written here")),
  blockhash: () => Promise.reject(new Error("no chain can be asked here")),
};

/** What the header holds; null where there is none. */
export function readDraftHeader({ headers }: InboundRequest): string | null {
  const value = headers["x-payment-draft"];
  return typeof value === "string" ? value : null;
}

export interface DraftQuestion {
  /** Of the header, as received. */
  readonly header: string;
  readonly offers: Offers;
  readonly resource: string;
  /** Of the 402. */
  readonly said: Said;
  readonly lines: readonly string[];
}

/** The 402 with a transaction to sign; 400 for what cannot be written, 503 for what cannot be now. */
export async function draftAnswer(drafts: Drafts, question: DraftQuestion): Promise<Answer> {
  const { header, offers, resource, said: asked, lines } = question;
  const [named = "", asset = "", payer = ""] = header.split(" ");
  const network = nameOfCaip2(named);
  const version = network === named ? X402_VERSION : X402_VERSION_2;
  const requirement = offers.accepts(resource, version).find((each) => {
    return each.network === network && each.asset === asset;
  });
  if (requirement === undefined || !drafts.networks.has(network) || !isSolanaAddress(payer)) {
    const said =
      "X-PAYMENT-DRAFT must name a Solana network and a token that are asked for here, and a payer";
    return errorAnswer(400, said, lines);
  }
  if (payer === requirement.payTo || payer === requirement.extra?.["feePayer"]) {
    return errorAnswer(400, "the wallet belongs to the seller, or pays the network fee", lines);
  }
  const transaction = await drafts.draft(requirement, payer).catch(() => undefined);
  const body = offers.question(asked, resource);
  // The chain's own troubles are in the log and the metrics of whoever asked it.
  if (transaction === undefined || body === undefined) {
    const said = "no transaction could be written for your wallet; try again";
    return errorAnswer(503, said, [...lines, ...RETRY_AFTER]);
  }
  return {
    status: 402,
    lines: [...lines, ...offers.quoteLines(asked, resource)],
    body: `${body.slice(0, -1)},"draft":${JSON.stringify(transaction)}}`,
  };
}
