/**
 * Writes payments for wallets in browsers to sign, which know no recent block. The chain is asked for a
 * blockhash every now and then, however many ask for a payment; everything else is known here.
 */
import { randomInt } from "node:crypto";
import type { Time } from "../../time/time.ts";
import type { SolanaAsset } from "../../x402/network.ts";
import { parseUint256 } from "../../x402/amount.ts";
import type { PaymentRequirements } from "../../x402/x402.ts";
import type { BlockhashHint } from "../../x402/version-2.ts";
import type { RpcEndpoints } from "../rpc-endpoints.ts";
import { sharedSignal, waitFor } from "../shared-call.ts";
import {
  readBlockhash,
  readTransferMint,
  transactionOf,
  transferMessage,
  UNITS_SPREAD,
  type TransferMint,
} from "./transfer-message.ts";

/** So long a blockhash is given out, milliseconds: a buyer has the rest of its minute to sign. */
const SAME_BLOCKHASH_MS = 1_000;
/** So long one is told to programs, which sign at once. */
const SAME_HINT_MS = 4_000;
/** The most that a token account holds: 2^64 - 1. */
const MAX_UINT64 = 2n ** 64n - 1n;

export interface DraftsOptions {
  readonly endpoints: RpcEndpoints;
  /** Tokens that are paid in. */
  readonly assets: readonly SolanaAsset[];
  readonly time: Time;
}

export class SolanaDrafts {
  readonly #options: DraftsOptions;
  readonly #closing = new AbortController();
  readonly #mints = new Map<string, TransferMint>();
  #blockhash: { readonly atMs: number; readonly value: Promise<BlockhashHint> } | undefined;

  constructor(options: DraftsOptions) {
    this.#options = options;
    for (const { address, decimals, tokenProgram } of options.assets) {
      if (tokenProgram !== null) this.#mints.set(address, { decimals, program: tokenProgram });
    }
  }

  /**
   * A transaction, base64, without signatures. `payer` is an address in base58.
   * @throws {ChainError} when the chain cannot be asked
   * @throws {Error} when the requirement cannot be paid by that payer
   */
  async write(
    { asset, payTo, maxAmountRequired, extra }: PaymentRequirements,
    payer: string,
    signal: AbortSignal,
  ): Promise<string> {
    const { feePayer, memo } = extra ?? {};
    const amount = parseUint256(maxAmountRequired);
    if (typeof feePayer !== "string" || amount === undefined || amount > MAX_UINT64) {
      throw new Error("the requirement cannot be paid");
    }
    const mint = this.#mints.get(asset) ?? (await this.#readMint(asset, signal));
    const recent = this.#recentBlockhash(SAME_BLOCKHASH_MS);
    const { recentBlockhash: blockhash } = await waitFor(recent, signal);
    const variation = randomInt(UNITS_SPREAD);
    const transfer = { feePayer, payer, payTo, asset, amount, mint, blockhash, variation };
    const message = { ...transfer, memo: typeof memo === "string" ? memo : null };
    return transactionOf(transferMessage(message));
  }

  /** For those who write their transactions themselves. @throws {ChainError} when the chain cannot be asked */
  blockhash(signal: AbortSignal): Promise<BlockhashHint> {
    return waitFor(this.#recentBlockhash(SAME_HINT_MS), signal);
  }

  close(): void {
    this.#closing.abort();
  }

  /** Only of tokens that are paid in, so there are few; a token whose program nobody configured. */
  async #readMint(asset: string, signal: AbortSignal): Promise<TransferMint> {
    const { endpoints, assets } = this.#options;
    if (!assets.some(({ address }) => address === asset)) throw new Error("another token");
    const mint = await endpoints.run((rpc) => readTransferMint(rpc, asset, signal), signal);
    this.#mints.set(asset, mint);
    return mint;
  }

  #recentBlockhash(maxAgeMs: number): Promise<BlockhashHint> {
    const { endpoints, time } = this.#options;
    const nowMs = time.now();
    const known = this.#blockhash;
    const ageMs = nowMs - (known?.atMs ?? Number.NEGATIVE_INFINITY);
    if (known !== undefined && ageMs >= 0 && ageMs < maxAgeMs) return known.value;
    const signal = sharedSignal(time, this.#closing.signal);
    const value = endpoints.run((rpc) => readBlockhash(rpc, signal), signal);
    const asked = { atMs: nowMs, value };
    this.#blockhash = asked;
    value.catch(() => {
      if (this.#blockhash === asked) this.#blockhash = undefined;
    });
    return value;
  }
}
