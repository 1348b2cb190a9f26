/**
 * What became of EIP-3009 payments: of those that others settle, and of transactions that are signed already,
 * which are looked at and sent again. Needs no key.
 */
import type { HeldToken } from "../../x402/holding.ts";
import type { EvmAsset, EvmNetwork } from "../../x402/network.ts";
import type { Refusal, Result } from "../../x402/result.ts";
import type { FacilitatorRequest } from "../../x402/x402.ts";
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
  SignedText,
  SignedTransaction,
  Standing,
} from "../mechanism.ts";
import { probeEndpoints } from "../endpoint-findings.ts";
import { judgingLane } from "../judging-lane.ts";
import type { RpcEndpoints } from "../rpc-endpoints.ts";
import {
  createTokens,
  readAccepted,
  VALID_BEFORE_MARGIN_SECONDS,
  type EvmCheckedAuthorization,
  type TokenTerms,
} from "./authorization.ts";
import { Broadcast } from "./broadcast.ts";
import { ConfirmationReader, type EvmSubmission } from "./confirmation.ts";
import { openEndpoints, type EvmEndpoints, type EvmEndpointsOptions } from "./endpoints.ts";
import { MAX_HOLDING_CALLS, MAX_HOLDING_WAITING, readHolding } from "./holding.ts";
import { LookMemory } from "./look-memory.ts";
import { blocksOf } from "./network-blocks.ts";
import { readReceipt, takenFor } from "./receipt.ts";
import { askCode, MAX_CODE_CALLS, MAX_CODE_WAITING } from "./signed-text.ts";
import { readStanding } from "./usage.ts";

export interface EvmObserverOptions extends EvmEndpointsOptions {
  /** EIP-3009 tokens that are known. */
  readonly assets: readonly EvmAsset[];
  /** Blocks that must hold a settlement, its own included. Default: the network's recommendation. */
  readonly confirmations?: number | undefined;
  readonly validBeforeMarginSeconds?: number;
}

/** Opens no connection and reads no chain. @throws {TypeError} on options that cannot work */
export function createEvmObserver(
  options: EvmObserverOptions,
): Observer<EvmCheckedAuthorization> & Follower<EvmCheckedAuthorization> & Probed & TakenFees {
  return new EvmObserver(options, openEndpoints(options));
}

export const ACCOUNT_RULES: AccountRules = {
  isOrdered: true,
  // As many as geth keeps of one account for certain.
  maxOpen: 16,
  looksAtOnce: 8,
  firstLookMs: 50,
  maxLookMs: 500,
  attendedLookMs: 0,
  lateLookMs: 2_000,
  resendMs: 10_000,
  forgetMs: 3_600_000,
};

/** What needs no key; a mechanism settles as well. */
export class EvmObserver
  implements Observer<EvmCheckedAuthorization>, Follower<EvmCheckedAuthorization>, Probed
{
  readonly rules = ACCOUNT_RULES;
  readonly network: EvmNetwork["name"];
  protected readonly facts: EvmNetwork;
  protected readonly tokens: TokenTerms["tokens"];
  protected readonly endpoints: RpcEndpoints;
  /** For questions that anybody can have asked. */
  protected readonly doubted: RpcEndpoints;
  protected readonly broadcasting: Broadcast;
  readonly #signedTexts = judgingLane({ calls: MAX_CODE_CALLS, waiting: MAX_CODE_WAITING });
  readonly #holdings = judgingLane({ calls: MAX_HOLDING_CALLS, waiting: MAX_HOLDING_WAITING });
  readonly #confirmation: ConfirmationReader;
  readonly #memory: LookMemory;

  constructor(options: EvmObserverOptions, opened: EvmEndpoints) {
    const { network, assets, confirmations, clock } = options;
    this.network = network.name;
    this.facts = network;
    this.tokens = createTokens(network, assets);
    this.endpoints = opened.endpoints;
    this.doubted = opened.openUnproven();
    this.#confirmation = new ConfirmationReader({
      confirmations: confirmations ?? network.recommendedConfirmations,
      finalAfter: blocksOf(network.name).finalAfter,
      validBeforeMarginSeconds: options.validBeforeMarginSeconds ?? VALID_BEFORE_MARGIN_SECONDS,
      clock,
    });
    this.broadcasting = new Broadcast(opened);
    this.#memory = new LookMemory(clock);
  }

  parse(request: FacilitatorRequest): Result<EvmCheckedAuthorization, Refusal> {
    // Whoever was paid then is paid, whatever the configuration allows now.
    return readAccepted(request, this.facts, this.tokens);
  }

  standing(authorization: EvmCheckedAuthorization, signal: AbortSignal): Promise<Standing | null> {
    return this.endpoints.run((rpc) => readStanding(rpc, authorization, signal), signal);
  }

  reconcile(
    authorization: EvmCheckedAuthorization,
    question: Question,
    signal: AbortSignal,
  ): Promise<Confirmation> {
    const read = this.#confirmation;
    return this.endpoints.run(
      (rpc) => read.reconcile(rpc, authorization, question, signal),
      signal,
    );
  }

  senderOf(transaction: string, signal: AbortSignal): Promise<string | undefined> {
    return this.endpoints.run(
      async (rpc) => (await readReceipt(rpc, transaction, signal))?.sender,
      signal,
    );
  }

  feeOf(transaction: string, signal: AbortSignal): Promise<bigint | undefined> {
    return this.endpoints.run(async (rpc) => {
      const receipt = await readReceipt(rpc, transaction, signal);
      return receipt === null ? undefined : takenFor(receipt);
    }, signal);
  }

  hasCodeSigned(text: SignedText, signal: AbortSignal, asker: string): Promise<boolean> {
    const work = (): Promise<boolean> =>
      this.doubted.run((rpc) => askCode(rpc, text, signal), signal);
    return this.#signedTexts.run({ client: asker, work, isGood: (isSigned) => isSigned }, signal);
  }

  holding(held: HeldToken, signal: AbortSignal, asker: string): Promise<bigint> {
    const work = (): Promise<bigint> =>
      this.doubted.run((rpc) => readHolding(rpc, held, signal), signal);
    return this.#holdings.run({ client: asker, work, isGood: (amount) => amount > 0n }, signal);
  }

  broadcast(signed: SignedTransaction, signal: AbortSignal): Promise<"sent" | "included"> {
    return this.broadcasting.send(signed, signal);
  }

  look(submission: EvmSubmission, signal: AbortSignal): Promise<Look> {
    const { avoid, ...depth } = this.#memory.next(submission);
    return this.endpoints.run(
      async (rpc) => {
        const look = await this.#confirmation.look(rpc, submission, depth, signal);
        this.#memory.found(submission, look, rpc);
        return look;
      },
      signal,
      avoid,
    );
  }

  probe(signal: AbortSignal): Promise<readonly Finding[]> {
    return probeEndpoints(this.endpoints, signal);
  }

  async close(): Promise<void> {
    const { endpoints, doubted, broadcasting } = this;
    await Promise.all([endpoints.close(), doubted.close(), broadcasting.close()]);
  }
}
