/**
 * What became of Solana payments: of those that others settle, and of transactions that are signed already,
 * which are looked at and sent again. Needs no key.
 */
import type { Time } from "../../time/time.ts";
import type { SolanaAsset, SolanaNetwork } from "../../x402/network.ts";
import type { Refusal, Result } from "../../x402/result.ts";
import type { FacilitatorRequest, PaymentRequirements } from "../../x402/x402.ts";
import type {
  AccountRules,
  Confirmation,
  TakenFees,
  Follower,
  Look,
  Finding,
  Observer,
  Probed,
  Question,
  SignedTransaction,
  Standing,
  Submission,
} from "../mechanism.ts";
import { probeEndpoints } from "../endpoint-findings.ts";
import type { HealthObserver, RpcEndpoints } from "../rpc-endpoints.ts";
import type { RpcObserver } from "../rpc.ts";
import type { BlockhashHint } from "../../x402/version-2.ts";
import { SolanaDrafts } from "./drafts.ts";
import { openEndpoints } from "./endpoints.ts";
import { Reconciler } from "./foreign-payment.ts";
import { fetchFee } from "./history.ts";
import { LookupTables } from "./lookup-tables.ts";
import { readPayment, type SolanaAuthorization } from "./payment.ts";
import { readStanding } from "./standing.ts";
import { Tracker } from "./tracker.ts";

export interface SolanaChainOptions {
  readonly network: SolanaNetwork;
  /** In order of preference, at least one. */
  readonly rpcUrls: readonly string[];
  /** Tokens that are accepted. */
  readonly assets: readonly SolanaAsset[];
  /** What the cluster has to say about a transaction before it counts. */
  readonly commitment: "confirmed" | "finalized";
  readonly time: Time;
  readonly observer?: RpcObserver | undefined;
  readonly onHealth?: HealthObserver | undefined;
  readonly onDoubt?: (() => void) | undefined;
  /** For the log; no secrets. */
  readonly onTrouble?: ((message: string) => void) | undefined;
}

/** Opens no connection and reads no chain. @throws {TypeError} on options that cannot work */
export function createSolanaObserver(
  options: SolanaChainOptions,
): Observer<SolanaAuthorization> & Follower<SolanaAuthorization> & Probed & TakenFees {
  return new SolanaObserver(options);
}

export const ACCOUNT_RULES: AccountRules = {
  isOrdered: false,
  // Nothing stands behind anything: the number bounds what this process watches at a time.
  maxOpen: 1_024,
  // As many as one call takes.
  looksAtOnce: 256,
  // A block takes 400 ms, and where a websocket is there it tells when to look.
  firstLookMs: 250,
  maxLookMs: 400,
  attendedLookMs: 1_000,
  // A block is final after some 13 s.
  lateLookMs: 14_000,
  // `broadcast` itself waits for two seconds.
  resendMs: 200,
  // Twice the time in which a blockhash counts, and more.
  forgetMs: 180_000,
};

/** What needs no key; a mechanism settles as well. */
export class SolanaObserver
  implements Observer<SolanaAuthorization>, Follower<SolanaAuthorization>, Probed
{
  readonly rules = ACCOUNT_RULES;
  readonly network: SolanaNetwork["name"];
  protected readonly endpoints: RpcEndpoints;
  protected readonly tracker: Tracker;
  protected readonly tables = new LookupTables();
  readonly #reconciler: Reconciler;
  readonly #drafts: SolanaDrafts;

  constructor(options: SolanaChainOptions) {
    const { assets, commitment, time, onTrouble } = options;
    this.network = options.network.name;
    const { endpoints, urls } = openEndpoints(options);
    this.endpoints = endpoints;
    this.tracker = new Tracker({ endpoints, websocketUrls: urls, commitment, time, onTrouble });
    const { tracker, tables } = this;
    this.#reconciler = new Reconciler({ endpoints, tracker, tables });
    this.#drafts = new SolanaDrafts({ endpoints, assets, time });
  }

  parse(request: FacilitatorRequest): Result<SolanaAuthorization, Refusal> {
    // Whoever was paid then is paid, whatever the configuration allows now.
    return readPayment(request, this.network, null);
  }

  standing(authorization: SolanaAuthorization, signal: AbortSignal): Promise<Standing> {
    return this.endpoints.run((rpc) => readStanding(rpc, authorization, signal), signal);
  }

  reconcile(
    authorization: SolanaAuthorization,
    question: Question,
    signal: AbortSignal,
  ): Promise<Confirmation> {
    return this.#reconciler.reconcile(authorization, question, signal);
  }

  feeOf(transaction: string, signal: AbortSignal): Promise<bigint | undefined> {
    return this.endpoints.run((rpc) => fetchFee(rpc, transaction, signal), signal);
  }

  draft(requirement: PaymentRequirements, payer: string, signal: AbortSignal): Promise<string> {
    return this.#drafts.write(requirement, payer, signal);
  }

  blockhash(signal: AbortSignal): Promise<BlockhashHint> {
    return this.#drafts.blockhash(signal);
  }

  broadcast(signed: SignedTransaction, signal: AbortSignal): Promise<"sent" | "included"> {
    return this.tracker.broadcast(signed, signal);
  }

  look(submission: Submission<SolanaAuthorization>, signal: AbortSignal): Promise<Look> {
    return this.tracker.look(submission, signal);
  }

  probe(signal: AbortSignal): Promise<readonly Finding[]> {
    return probeEndpoints(this.endpoints, signal);
  }

  async close(): Promise<void> {
    this.#drafts.close();
    await this.tracker.close();
    await this.endpoints.close();
  }
}
