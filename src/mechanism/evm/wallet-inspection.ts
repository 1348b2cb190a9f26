/**
 * Payments that run code of their payer's: a smart wallet judges its own signature (ERC-1271), and so does
 * an EOA that delegates to code (EIP-7702). They share no call with others, and are simulated as they would
 * be sent.
 */
import { LRUCache } from "lru-cache";
import { ok, refuse, type Refusal, type Result } from "../../x402/result.ts";
import { ChainError } from "../mechanism.ts";
import type { Rpc } from "../rpc.ts";
import type { EvmCheckedAuthorization } from "./authorization.ts";
import type { Drafting } from "./drafting.ts";
import { inspectWallet, type EvmJudged } from "./inspection.ts";
import { nearMissOf } from "./near-miss.ts";
import { hasCode } from "./probe.ts";

/** Whether payers with code are served. */
export type SmartWallets = "allow" | "deny";

/**
 * How long an address without code is not asked about again, seconds. It may get code at any time (CREATE2, EIP-7702):
 * a wallet's first payment in that time is refused, and nothing of it is signed or charged.
 */
const CODELESS_SECONDS = 10;
/** Addresses of which that is remembered. */
const MAX_CODELESS = 4_096;

export interface WalletInspectionOptions {
  readonly smartWallets: SmartWallets;
  readonly drafting: Drafting;
  /** As which of our accounts a payment is simulated before it is known which one signs. */
  readonly account: string;
  /** Unix seconds. */
  readonly clock: () => number;
}

const NOT_THE_PAYERS = refuse(
  "invalid_exact_evm_payload_signature",
  "the signature is not the payer's",
);
const DENIED: Refusal = {
  code: "invalid_exact_evm_payload_signature",
  detail: "the signature is not the payer's own key's, and smart wallets are not served here",
};
const DELEGATED_DENIED = refuse(
  "invalid_exact_evm_payload_signature",
  "the payer's address has code (EIP-7702), and smart wallets are not served here",
);

/** With what it was signed for, where that is known: what an address without code has signed is its key's. */
function notThePayers(authorization: EvmCheckedAuthorization): Result<never, Refusal> {
  const said = nearMissOf(authorization);
  if (said === undefined) return NOT_THE_PAYERS;
  const { code, detail } = NOT_THE_PAYERS.error;
  return refuse(code, `${detail} for this payment: ${said}`);
}

/** An address that has signed what is not its own. */
interface Codeless {
  /** When it was seen without code, Unix seconds. */
  readonly at: number;
  /** Its key has signed for something else: for what, is looked for again. That costs more than to refuse. */
  readonly isMistaken: boolean;
}

export class WalletInspection {
  readonly #at: WalletInspectionOptions;
  /** By lower-case address. */
  readonly #codeless = new LRUCache<string, Codeless>({ max: MAX_CODELESS });

  constructor(options: WalletInspectionOptions) {
    this.#at = options;
  }

  /** Why no signature is looked at that is no key's of the payer's; undefined where a wallet's is. */
  get refusal(): Refusal | undefined {
    return this.#at.smartWallets === "deny" ? DENIED : undefined;
  }

  /** What a signature that is no key's of the payer's is worth by what was seen a moment ago; undefined: ask. */
  known(authorization: EvmCheckedAuthorization): Result<never, Refusal> | undefined {
    const { from } = authorization;
    const seen = this.#codeless.peek(from);
    if (seen === undefined) return undefined;
    // A clock that was set back makes nothing younger.
    if (Math.abs(this.#at.clock() - seen.at) < CODELESS_SECONDS) {
      return seen.isMistaken ? notThePayers(authorization) : NOT_THE_PAYERS;
    }
    this.#codeless.delete(from);
    return undefined;
  }

  /**
   * Of a signature that is no key's of the payer's: one call, and where it is good what would be sent, as well.
   * @throws {ChainError} when the chain cannot be asked
   */
  async inspectUnproven(
    rpc: Rpc,
    authorization: EvmCheckedAuthorization,
    signal: AbortSignal,
  ): Promise<Result<EvmJudged, Refusal>> {
    const { clock, drafting } = this.#at;
    const gasLimit = drafting.gasLimit(authorization);
    const { judged, signature } = await inspectWallet(rpc, authorization, gasLimit, signal);
    const told = signature === "silent" ? notThePayers(authorization) : NOT_THE_PAYERS;
    if (signature === "silent") {
      const isMistaken = told !== NOT_THE_PAYERS;
      this.#codeless.set(authorization.from, { at: clock(), isMistaken });
    }
    // Whether a refusal comes before the signature in the order of the wire.
    if (!judged.ok && judged.error.code === "invalid_payment_requirements") return judged;
    // Not a contract: nobody but the token's own recovery could accept it, and that will not.
    if (signature === "silent") return told;
    if (judged.ok) {
      const rehearsed = await this.#rehearse(rpc, authorization, signal);
      return rehearsed.ok ? judged : rehearsed;
    }
    // A contract's signature is judged last, by the token, but told before everything else.
    return signature === "refused" ? NOT_THE_PAYERS : judged;
  }

  /** Whether the payer of a good payment has code. @throws {ChainError} when the chain cannot be asked */
  async inspectProven(
    rpc: Rpc,
    authorization: EvmCheckedAuthorization,
    signal: AbortSignal,
  ): Promise<Result<boolean, Refusal>> {
    if (!(await hasCode(rpc, authorization.from, signal, "pending"))) return ok(false);
    if (this.#at.smartWallets === "deny") return DELEGATED_DENIED;
    const rehearsed = await this.#rehearse(rpc, authorization, signal);
    return rehearsed.ok ? ok(true) : rehearsed;
  }

  async #rehearse(
    rpc: Rpc,
    authorization: EvmCheckedAuthorization,
    signal: AbortSignal,
  ): Promise<Result<void, Refusal>> {
    const { drafting, account } = this.#at;
    try {
      return await drafting.rehearse(rpc, authorization, account, signal);
    } catch (error) {
      // What we cannot pay now is no fault of the payment's; it is simulated again before it is signed.
      const isOurs = error instanceof ChainError && OURS.has(error.code);
      if (isOurs) return ok(undefined);
      throw error;
    }
  }
}

const OURS: ReadonlySet<ChainError["code"]> = new Set(["CHAIN_FEE", "CHAIN_GAS"]);
