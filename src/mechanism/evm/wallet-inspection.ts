/**
 * Payments that run code of their payer's: a smart wallet judges its own signature (ERC-1271), and so does
 * an EOA that delegates to code (EIP-7702). They share no call with others, and are simulated as they would
 * be sent.
 */
import { ok, refuse, type Refusal, type Result } from "../../x402/result.ts";
import { ChainError, type Checked } from "../mechanism.ts";
import type { Rpc } from "../rpc.ts";
import type { EvmCheckedAuthorization } from "./authorization.ts";
import type { Drafting } from "./drafting.ts";
import { inspect, isSignedByContract, type Inspected } from "./inspection.ts";
import { hasCode } from "./probe.ts";

/** Whether payers with code are served. */
export type SmartWallets = "allow" | "deny";

export interface WalletInspectionOptions {
  readonly smartWallets: SmartWallets;
  readonly drafting: Drafting;
  /** As which of our accounts a payment is simulated before it is known which one signs. */
  readonly account: string;
}

const NOT_THE_PAYERS = refuse(
  "invalid_exact_evm_payload_signature",
  "the signature is not the payer's",
);
const DENIED = refuse(
  "invalid_exact_evm_payload_signature",
  "the signature is not the payer's own key's, and smart wallets are not served here",
);
const DELEGATED_DENIED = refuse(
  "invalid_exact_evm_payload_signature",
  "the payer's address has code (EIP-7702), and smart wallets are not served here",
);

export class WalletInspection {
  readonly #at: WalletInspectionOptions;
  /** Proven payments whose payers have code. */
  readonly #delegated = new WeakSet<EvmCheckedAuthorization>();

  constructor(options: WalletInspectionOptions) {
    this.#at = options;
  }

  /** As far as was found: an unproven signature leaves nobody else to judge it. */
  runsCode(authorization: EvmCheckedAuthorization): boolean {
    return !authorization.proven || this.#delegated.has(authorization);
  }

  /** Of a signature that is no key's of the payer's. @throws {ChainError} when the chain cannot be asked */
  async inspectUnproven(
    rpc: Rpc,
    { authorization, fault }: Checked<EvmCheckedAuthorization>,
    signal: AbortSignal,
  ): Promise<Result<Inspected, Refusal>> {
    const { drafting, smartWallets } = this.#at;
    if (smartWallets === "deny") return DENIED;
    // Not a contract: nobody but the token's own recovery could accept it, and that will not.
    if (!(await hasCode(rpc, authorization.from, signal, "pending"))) return NOT_THE_PAYERS;
    const gasLimit = drafting.gasLimit(authorization);
    const judged: Result<Inspected, Refusal> =
      fault === null
        ? await inspect(rpc, authorization, gasLimit, signal)
        : { ok: false, error: fault };
    if (judged.ok) {
      const rehearsed = await this.#rehearse(rpc, authorization, signal);
      return rehearsed.ok ? judged : rehearsed;
    }
    if (isJudgedFirst(judged.error)) return judged;
    // A contract's signature is judged last, by the token, but told before everything else.
    const signed = await isSignedByContract(rpc, authorization, gasLimit, signal);
    return signed ? judged : NOT_THE_PAYERS;
  }

  /** Of a good payment by a payer who may have code. @throws {ChainError} when the chain cannot be asked */
  async inspectProven(
    rpc: Rpc,
    authorization: EvmCheckedAuthorization,
    signal: AbortSignal,
  ): Promise<Result<void, Refusal>> {
    if (!(await hasCode(rpc, authorization.from, signal, "pending"))) return ok(undefined);
    if (this.#at.smartWallets === "deny") return DELEGATED_DENIED;
    this.#delegated.add(authorization);
    return this.#rehearse(rpc, authorization, signal);
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

/** Whether a refusal comes before the signature, or is about it, in the order of the wire. */
function isJudgedFirst({ code }: Refusal): boolean {
  return code === "invalid_payment_requirements" || code === NOT_THE_PAYERS.error.code;
}
