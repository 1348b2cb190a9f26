/**
 * What became of EIP-3009 payments: of those that others settle, and of transactions that are signed already,
 * which are looked at and sent again. Needs no key.
 */
import type { EvmAsset, EvmNetwork } from "../../x402/network.ts";
import type { Refusal, Result } from "../../x402/result.ts";
import type { FacilitatorRequest } from "../../x402/x402.ts";
import type {
  AccountRules,
  Confirmation,
  Follower,
  Look,
  Observer,
  Question,
  SignedTransaction,
  Standing,
} from "../mechanism.ts";
import type { Rpc } from "../rpc.ts";
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
import { openEndpoints, type EvmEndpointsOptions } from "./endpoints.ts";
import { LookMemory } from "./look-memory.ts";
import { blocksOf } from "./network-blocks.ts";
import { readReceipt } from "./receipt.ts";
import { readStanding } from "./usage.ts";

export interface EvmObserverOptions extends EvmEndpointsOptions {
  /** EIP-3009 tokens that are known. */
  readonly assets: readonly EvmAsset[];
  /** Blocks that must hold a settlement, its own included. Default: the network's recommendation. */
  readonly confirmations?: number | undefined;
}

/** Opens no connection and reads no chain. @throws {TypeError} on options that cannot work */
export function createEvmObserver(
  options: EvmObserverOptions,
): Observer<EvmCheckedAuthorization> & Follower<EvmCheckedAuthorization> {
  return new EvmObserver(options);
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

export async function readSender(
  rpc: Rpc,
  transaction: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  return (await readReceipt(rpc, transaction, signal))?.sender;
}

/** The part that an observer and a mechanism share. */
export function createConfirmationReader(
  network: EvmNetwork,
  options: Pick<EvmObserverOptions, "confirmations" | "clock"> & {
    readonly validBeforeMarginSeconds?: number | undefined;
  },
): ConfirmationReader {
  return new ConfirmationReader({
    confirmations: options.confirmations ?? network.recommendedConfirmations,
    finalAfter: blocksOf(network.name).finalAfter,
    validBeforeMarginSeconds: options.validBeforeMarginSeconds ?? VALID_BEFORE_MARGIN_SECONDS,
    clock: options.clock,
  });
}

/** What looks are made with; the memory is of all of them. */
export interface Looking {
  readonly endpoints: RpcEndpoints;
  readonly memory: LookMemory;
  readonly reader: ConfirmationReader;
}

/** See `Follower.look`. */
export function lookThrough(
  { endpoints, memory, reader }: Looking,
  submission: EvmSubmission,
  signal: AbortSignal,
): Promise<Look> {
  const { avoid, ...depth } = memory.next(submission);
  return endpoints.run(
    async (rpc) => {
      const look = await reader.look(rpc, submission, depth, signal);
      memory.found(submission, look, rpc);
      return look;
    },
    signal,
    avoid,
  );
}

class EvmObserver implements Observer<EvmCheckedAuthorization>, Follower<EvmCheckedAuthorization> {
  readonly rules = ACCOUNT_RULES;
  readonly network: EvmNetwork["name"];
  readonly #facts: EvmNetwork;
  readonly #tokens: TokenTerms["tokens"];
  readonly #endpoints: RpcEndpoints;
  readonly #confirmation: ConfirmationReader;
  readonly #broadcast: Broadcast;
  readonly #memory: LookMemory;

  constructor(options: EvmObserverOptions) {
    const { network, assets } = options;
    this.network = network.name;
    this.#facts = network;
    this.#tokens = createTokens(network, assets);
    const opened = openEndpoints(options);
    this.#endpoints = opened.endpoints;
    this.#confirmation = createConfirmationReader(network, options);
    this.#broadcast = new Broadcast(opened);
    this.#memory = new LookMemory(options.clock);
  }

  parse(request: FacilitatorRequest): Result<EvmCheckedAuthorization, Refusal> {
    return readAccepted(request, this.#facts, this.#tokens);
  }

  standing(authorization: EvmCheckedAuthorization, signal: AbortSignal): Promise<Standing | null> {
    return this.#endpoints.run((rpc) => readStanding(rpc, authorization, signal), signal);
  }

  reconcile(
    authorization: EvmCheckedAuthorization,
    question: Question,
    signal: AbortSignal,
  ): Promise<Confirmation> {
    const read = this.#confirmation;
    return this.#endpoints.run(
      (rpc) => read.reconcile(rpc, authorization, question, signal),
      signal,
    );
  }

  senderOf(transaction: string, signal: AbortSignal): Promise<string | undefined> {
    return this.#endpoints.run((rpc) => readSender(rpc, transaction, signal), signal);
  }

  broadcast(signed: SignedTransaction, signal: AbortSignal): Promise<"sent" | "included"> {
    return this.#broadcast.send(signed, signal);
  }

  look(submission: EvmSubmission, signal: AbortSignal): Promise<Look> {
    const [endpoints, memory, reader] = [this.#endpoints, this.#memory, this.#confirmation];
    return lookThrough({ endpoints, memory, reader }, submission, signal);
  }

  async close(): Promise<void> {
    await Promise.all([this.#endpoints.close(), this.#broadcast.close()]);
  }
}
