/**
 * The books against the chains: each payment that was paid against the logs of its transaction, each transaction of
 * ours against what the network took for it. Reads only, by the configured RPC endpoints.
 */
import type { Evidence, GasEvidence, PaidEvidence } from "../ledger/books.ts";
import { amountOf } from "../ledger/payment-row.ts";
import { createObservers } from "../app/chains.ts";
import type { Config } from "../config/config.ts";
import type { TakenFees, Observer } from "../mechanism/mechanism.ts";
import { messageOf } from "../x402/result.ts";
import { quietly } from "./quiet.ts";

/** What can be asked about one network. */
type Chain = Pick<Observer, "network" | "parse" | "reconcile"> & TakenFees;

/** Something that was not found as the books have it. */
export interface BooksFinding {
  readonly kind: Evidence["kind"] | "credits";
  /** Key of the payment, the transactions that may have cost it, or the token that was prepaid. */
  readonly name: string;
  /** Of credits the family of networks. */
  readonly network: string;
  readonly detail: string;
}

export interface BooksCheck {
  /** Payments, and transactions of ours, that are on their chain as the books have them. */
  readonly payments: number;
  readonly transactions: number;
  /** What the chain tells otherwise. */
  readonly differences: readonly BooksFinding[];
  /** What could not be asked, or is not told for good yet. */
  readonly unchecked: readonly BooksFinding[];
}

/** Questions to chains at the same time. */
const AT_ONCE = 8;
/** How long one may take, milliseconds. */
const QUESTION_MS = 30_000;
/** Findings of each kind that are kept: who has more has another trouble. */
const MAX_FINDINGS = 10_000;

type Verdict =
  | { readonly kind: "same" }
  | { readonly kind: "different" | "unchecked"; readonly detail: string };

const SAME: Verdict = { kind: "same" };

/** `onProgress` hears how many were looked at. Rejects when the ledger cannot be read. */
export async function checkBooks(
  { facilitator }: Pick<Config, "facilitator">,
  pages: AsyncIterable<readonly Evidence[]>,
  onProgress: (count: number) => void,
): Promise<BooksCheck> {
  const networks = [...facilitator.embedded, ...facilitator.observed];
  const chains = await createObservers(networks, quietly());
  try {
    return await checkPages(pages, chains, onProgress);
  } finally {
    await Promise.all(chains.map((chain) => chain.close()));
  }
}

async function checkPages(
  pages: AsyncIterable<readonly Evidence[]>,
  chains: readonly Chain[],
  onProgress: (count: number) => void,
): Promise<BooksCheck> {
  const counts = { payment: 0, gas: 0 };
  const differences: BooksFinding[] = [];
  const unchecked: BooksFinding[] = [];
  let seen = 0;
  for await (const page of pages) {
    const left = page.values();
    const work = async (): Promise<void> => {
      for (const evidence of left) {
        const verdict = await verdictOn(evidence, chains);
        seen += 1;
        onProgress(seen);
        if (verdict.kind === "same") {
          counts[evidence.kind] += 1;
          continue;
        }
        const { kind, network } = evidence;
        const name = kind === "gas" ? evidence.transactions.join(", ") : evidence.key;
        const list = verdict.kind === "different" ? differences : unchecked;
        if (list.length === MAX_FINDINGS) throw new Error(`more than ${MAX_FINDINGS} findings`);
        list.push({ kind, name, network, detail: verdict.detail });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  }
  return { payments: counts.payment, transactions: counts.gas, differences, unchecked };
}

async function verdictOn(evidence: Evidence, chains: readonly Chain[]): Promise<Verdict> {
  const chain = chains.find(({ network }) => network === evidence.network);
  if (chain === undefined) {
    return unknown(`no RPC endpoint of ${evidence.network} is configured`);
  }
  try {
    const signal = AbortSignal.timeout(QUESTION_MS);
    return evidence.kind === "gas"
      ? await gasVerdict(evidence, chain, signal)
      : await paidVerdict(evidence, chain, signal);
  } catch (cause) {
    return unknown(messageOf(cause));
  }
}

async function paidVerdict(
  { request, asset, amount, payTo, transaction }: PaidEvidence,
  chain: Chain,
  signal: AbortSignal,
): Promise<Verdict> {
  if (request === null) return unknown("its stored request cannot be read");
  const { paymentRequirements: asked } = request;
  const signed = amountOf(request);
  if (signed !== amount || asked.asset !== asset || asked.payTo !== payTo) {
    const told = `${amount} of ${asset} to ${payTo}`;
    return different(
      `stands there as ${told}, and was signed as ${signed} of ${asked.asset} to ${asked.payTo}`,
    );
  }
  const parsed = chain.parse(request);
  if (!parsed.ok) return unknown(parsed.error.detail);
  const said = await chain.reconcile(parsed.value, { claimed: transaction, after: null }, signal);
  switch (said.kind) {
    case "confirmed":
      return said.transaction.toLowerCase() === transaction.toLowerCase()
        ? SAME
        : different(`stands there as paid in ${transaction}, and was paid in ${said.transaction}`);
    case "failed":
      return different(`stands there as paid in ${transaction}: ${said.refusal.detail}`);
    case "unknown":
      return said.isUnused === true
        ? different(`stands there as paid in ${transaction}: ${said.detail}`)
        : unknown(said.detail);
  }
}

async function gasVerdict(
  { transactions, feeAtomic, isPart }: GasEvidence,
  chain: Chain,
  signal: AbortSignal,
): Promise<Verdict> {
  // The last one that was signed is the likeliest to be in a block.
  for (const transaction of transactions.toReversed()) {
    const fee = await chain.feeOf(transaction, signal);
    if (fee === undefined) continue;
    // What the payments bore that are swept is not in it, and never more than the whole.
    const isSame = isPart ? BigInt(feeAtomic) <= fee : BigInt(feeAtomic) === fee;
    return isSame ? SAME : different(`stands there at ${feeAtomic}, and has cost ${fee}`);
  }
  return different(`stands there at ${feeAtomic}, and is in no block that the node knows of`);
}

function different(detail: string): Verdict {
  return { kind: "different", detail };
}

function unknown(detail: string): Verdict {
  return { kind: "unchecked", detail };
}
