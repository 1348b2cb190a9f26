/** What became of EIP-3009 payments that others settle: reads the chain, needs no key. */
import type { EvmAsset, EvmNetwork } from "../../x402/network.ts";
import type { Refusal, Result } from "../../x402/result.ts";
import type { FacilitatorRequest } from "../../x402/x402.ts";
import type { Confirmation, Observer } from "../mechanism.ts";
import type { Rpc } from "../rpc.ts";
import type { RpcEndpoints } from "../rpc-endpoints.ts";
import {
  createTokens,
  readAccepted,
  VALID_BEFORE_MARGIN_SECONDS,
  type EvmCheckedAuthorization,
  type Terms,
} from "./authorization.ts";
import { ConfirmationReader } from "./confirmation.ts";
import { openEndpoints, type EndpointsOptions } from "./endpoints.ts";
import { blocksOf } from "./network-blocks.ts";
import { readReceipt } from "./receipt.ts";

export interface EvmObserverOptions extends EndpointsOptions {
  /** EIP-3009 tokens that are known. */
  readonly assets: readonly EvmAsset[];
  /** Blocks that must hold a settlement, its own included. Default: the network's recommendation. */
  readonly confirmations?: number | undefined;
}

/** Opens no connection and reads no chain. @throws {TypeError} on options that cannot work */
export function createEvmObserver(options: EvmObserverOptions): Observer<EvmCheckedAuthorization> {
  return new EvmObserver(options);
}

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

class EvmObserver implements Observer<EvmCheckedAuthorization> {
  readonly network: EvmNetwork["name"];
  readonly #facts: EvmNetwork;
  readonly #tokens: Terms["tokens"];
  readonly #endpoints: RpcEndpoints;
  readonly #confirmation: ConfirmationReader;

  constructor(options: EvmObserverOptions) {
    const { network, assets } = options;
    this.network = network.name;
    this.#facts = network;
    this.#tokens = createTokens(network, assets);
    this.#endpoints = openEndpoints(options).endpoints;
    this.#confirmation = createConfirmationReader(network, options);
  }

  parse(request: FacilitatorRequest): Result<EvmCheckedAuthorization, Refusal> {
    return readAccepted(request, this.#facts, this.#tokens);
  }

  reconcile(
    authorization: EvmCheckedAuthorization,
    claimed: string | undefined,
    signal: AbortSignal,
  ): Promise<Confirmation> {
    const read = this.#confirmation;
    return this.#endpoints.run(
      (rpc) => read.reconcile(rpc, authorization, claimed, signal),
      signal,
    );
  }

  senderOf(transaction: string, signal: AbortSignal): Promise<string | undefined> {
    return this.#endpoints.run((rpc) => readSender(rpc, transaction, signal), signal);
  }

  close(): Promise<void> {
    return this.#endpoints.close();
  }
}
