/**
 * The `exact` scheme on an EVM network: the payer signs an EIP-3009 authorization, and we submit it to
 * the token and pay the network fee (protocol sections 1, 2.2, 4.1, 4.2). Every transaction we sign calls
 * one of the configured tokens and carries no value.
 */
import { checksumAddress } from "../../x402/address.ts";
import type { EvmAsset, EvmNetwork } from "../../x402/network.ts";
import { ok, refuse, type Refusal, type Result } from "../../x402/result.ts";
import {
  EXACT_SCHEME,
  X402_VERSION,
  type FacilitatorRequest,
  type SupportedKind,
} from "../../x402/x402.ts";
import {
  ChainError,
  type Checked,
  type Confirmation,
  type Draft,
  type Finding,
  type Mechanism,
  type SignedTransaction,
} from "../mechanism.ts";
import { openRpc, RpcRefusal, type Rpc, type RpcObserver } from "../rpc.ts";
import { parseQuantity } from "./abi.ts";
import { Account } from "./account.ts";
import {
  firstFault,
  readAuthorization,
  readRequirements,
  type EvmCheckedAuthorization,
  type Terms,
} from "./authorization.ts";
import { ConfirmationReader } from "./confirmation.ts";
import { feeCap, FeeReader } from "./fees.ts";
import { GasBalance } from "./gas-balance.ts";
import { inspect, isSignedByContract } from "./inspection.ts";
import { costsOf, type NetworkCosts } from "./network-costs.ts";
import { hasCode, probe } from "./probe.ts";
import { createToken, transferCall } from "./token.ts";
import { SharedInspection } from "./shared-inspection.ts";
import { signTransaction } from "./transaction.ts";

export type { EvmCheckedAuthorization } from "./authorization.ts";

/** Seconds of validity that must be left by default: about two blocks of the slowest network. */
export const VALID_BEFORE_MARGIN_SECONDS = 6;

export interface EvmMechanismOptions {
  readonly network: EvmNetwork;
  /** EIP-3009 tokens that are accepted. */
  readonly assets: readonly EvmAsset[];
  /** JSON-RPC endpoints; the first one is used. */
  readonly rpcUrls: readonly string[];
  /** Private keys of our paying accounts, `0x` and 64 hex digits; the first one is used. */
  readonly keys: readonly string[];
  /** Blocks that must hold a settlement, its own included. Default: the network's recommendation. */
  readonly confirmations?: number;
  /** Unix seconds. */
  readonly clock: () => number;
  readonly validBeforeMarginSeconds?: number;
  /** Recipients that may be paid: addresses in any letter case, or "any". */
  readonly allowPayTo: readonly string[] | "any";
  /** The most that we pay for one gas, wei. Default: by network. */
  readonly maxFeePerGasWei?: bigint;
  /** The longest wait for one call to the chain, milliseconds. */
  readonly rpcTimeoutMs?: number;
  readonly observer?: RpcObserver;
}

/** Opens no connection and reads no chain. @throws {TypeError} on options that cannot work */
export function createEvmMechanism(
  options: EvmMechanismOptions,
): Mechanism<EvmCheckedAuthorization> {
  return new EvmMechanism(options);
}

/**
 * Answers to `eth_sendRawTransaction` after which the transaction may well be on its way: the node has it
 * already, or has seen its account nonce used, by us before a crash or by the very same bytes. The texts
 * are those of geth, Erigon, Nethermind, Besu, reth and anvil.
 */
const POSSIBLY_SENT =
  /already (?:known|imported|exists)|alreadyknown|known transaction|already in (?:the )?(?:mem)?pool|nonce.{0,12}too low|nonce.{0,20}(?:used|expired)|oldnonce|could not replace|replacement (?:transaction|fee)/i;

const NOT_THE_PAYERS = refuse(
  "invalid_exact_evm_payload_signature",
  "the signature is not the payer's",
);

/** Whether a refusal comes before the signature, or is about it, in the order of the wire. */
function isJudgedFirst({ code }: Refusal): boolean {
  return code === "invalid_payment_requirements" || code === NOT_THE_PAYERS.error.code;
}

class EvmMechanism implements Mechanism<EvmCheckedAuthorization> {
  readonly scheme = EXACT_SCHEME;
  readonly network: EvmNetwork["name"];
  readonly kind: SupportedKind;
  readonly accounts: readonly string[];

  readonly #facts: EvmNetwork;
  readonly #account: Account;
  readonly #terms: Terms;
  readonly #costs: NetworkCosts;
  readonly #rpc: Rpc;
  readonly #shared: SharedInspection;
  readonly #fees: FeeReader;
  readonly #balance: GasBalance;
  readonly #confirmation: ConfirmationReader;
  readonly #clock: () => number;

  constructor(options: EvmMechanismOptions) {
    const { network, clock, assets, allowPayTo } = options;
    const [rpcUrl] = options.rpcUrls;
    const accounts = options.keys.map((key) => new Account(key));
    const [account] = accounts;
    if (rpcUrl === undefined) throw new TypeError(`${network.name} needs an RPC endpoint`);
    if (account === undefined) throw new TypeError(`${network.name} needs a private key`);
    this.network = network.name;
    this.kind = { x402Version: X402_VERSION, scheme: EXACT_SCHEME, network: network.name };
    this.accounts = accounts.map(({ address }) => address);
    this.#facts = network;
    this.#account = account;
    this.#clock = clock;
    this.#costs = costsOf(network.name);
    this.#terms = {
      tokens: new Map(
        assets.map((asset) => [asset.address.toLowerCase(), createToken(asset, network.chainId)]),
      ),
      payTo:
        allowPayTo === "any" ? null : new Set(allowPayTo.map((address) => address.toLowerCase())),
      validBeforeMarginSeconds: options.validBeforeMarginSeconds ?? VALID_BEFORE_MARGIN_SECONDS,
    };
    this.#rpc = openRpc(rpcUrl, {
      observer: options.observer,
      ...(options.rpcTimeoutMs === undefined ? {} : { timeoutMs: options.rpcTimeoutMs }),
    });
    const rpc = this.#rpc;
    this.#shared = new SharedInspection(rpc, this.#costs.gasLimit);
    const maxFeePerGasWei = options.maxFeePerGasWei ?? this.#costs.maxFeePerGasWei;
    this.#fees = new FeeReader({ rpc, maxFeePerGasWei, clock });
    const { address } = account;
    this.#balance = new GasBalance({ rpc, account: address, network: network.name, clock });
    const confirmations = options.confirmations ?? network.recommendedConfirmations;
    this.#confirmation = new ConfirmationReader({ rpc, confirmations, clock });
  }

  check(
    request: FacilitatorRequest,
    now: number,
  ): Result<Checked<EvmCheckedAuthorization>, Refusal> {
    const parsed = this.#read(request, this.#terms);
    if (!parsed.ok) return parsed;
    const authorization = parsed.value;
    const margin = this.#terms.validBeforeMarginSeconds;
    return ok({
      authorization,
      payer: checksumAddress(authorization.from),
      proven: authorization.proven,
      fault: firstFault(authorization, request.paymentRequirements, now, margin),
    });
  }

  parse(request: FacilitatorRequest): Result<EvmCheckedAuthorization, Refusal> {
    // Whoever was paid then is paid, whatever the configuration allows now.
    return this.#read(request, { ...this.#terms, payTo: null });
  }

  async inspect(
    { authorization, fault }: Checked<EvmCheckedAuthorization>,
    signal: AbortSignal,
  ): Promise<Result<void, Refusal>> {
    const { proven, from } = authorization;
    // Not a contract: nobody but the token's own recovery could accept it, and that will not.
    if (!proven && !(await hasCode(this.#rpc, from, signal, "pending"))) return NOT_THE_PAYERS;
    const gasLimit = this.#gasLimit(authorization);
    const judged: Result<void, Refusal> =
      fault === null ? await this.#simulate(authorization, signal) : { ok: false, error: fault };
    if (proven || judged.ok || isJudgedFirst(judged.error)) return judged;
    // A contract's signature is judged last, by the token, but told before everything else.
    const signed = await isSignedByContract(this.#rpc, authorization, gasLimit, signal);
    return signed ? judged : NOT_THE_PAYERS;
  }

  async prepare(
    { authorization }: Checked<EvmCheckedAuthorization>,
    signal: AbortSignal,
  ): Promise<Draft> {
    const fees = await this.#fees.read(signal);
    const gasLimit = this.#gasLimit(authorization);
    await this.#balance.reserve(gasLimit * feeCap(fees), signal);
    const { words, signature, proven, token } = authorization;
    const account = this.#account;
    const call = {
      chainId: this.#facts.chainId,
      fees,
      gasLimit,
      to: token.address,
      data: transferCall(words, signature, proven),
    };
    return {
      account: account.address,
      sign(accountNonce) {
        const { hash, raw } = signTransaction({ ...call, nonce: accountNonce }, account);
        return { transaction: hash, raw, account: account.address, accountNonce };
      },
    };
  }

  async broadcast(signed: SignedTransaction, signal: AbortSignal): Promise<void> {
    try {
      await this.#rpc.call("eth_sendRawTransaction", [signed.raw], signal);
    } catch (error) {
      if (error instanceof RpcRefusal && POSSIBLY_SENT.test(error.rpcMessage)) return;
      throw error;
    }
  }

  confirm(
    { authorization }: Pick<Checked<EvmCheckedAuthorization>, "authorization">,
    signed: SignedTransaction,
    signal: AbortSignal,
  ): Promise<Confirmation> {
    return this.#confirmation.wait(authorization, signed.transaction, signal);
  }

  accountNonce(account: string, signal: AbortSignal): Promise<number> {
    return this.#transactionCount([account, "pending"], signal);
  }

  minedNonce(account: string, signal: AbortSignal): Promise<number> {
    return this.#transactionCount([account, "latest"], signal);
  }

  probe(signal: AbortSignal): Promise<readonly Finding[]> {
    const subject = {
      network: this.#facts,
      rpc: this.#rpc,
      fees: this.#fees,
      tokens: this.#terms.tokens.values(),
      accounts: this.accounts,
      gasLimit: this.#costs.gasLimit,
      clock: this.#clock,
    };
    return probe(subject, signal);
  }

  close(): Promise<void> {
    return this.#rpc.close();
  }

  async #transactionCount(
    params: readonly [account: string, block: "pending" | "latest"],
    signal: AbortSignal,
  ): Promise<number> {
    const nonce = parseQuantity(await this.#rpc.call("eth_getTransactionCount", params, signal));
    if (nonce === undefined || nonce > BigInt(Number.MAX_SAFE_INTEGER)) {
      throw new ChainError(
        "CHAIN_ANSWER",
        `${this.#rpc.host}: an account nonce of the wrong shape`,
      );
    }
    return Number(nonce);
  }

  #read(request: FacilitatorRequest, terms: Terms): Result<EvmCheckedAuthorization, Refusal> {
    const { paymentPayload, paymentRequirements } = request;
    for (const { scheme, network } of [paymentPayload, paymentRequirements]) {
      if (scheme !== EXACT_SCHEME)
        return refuse("invalid_scheme", `only ${EXACT_SCHEME} is served`);
      if (network !== this.network) return refuse("invalid_network", `this is ${this.network}`);
    }
    const token = readRequirements(paymentRequirements, terms);
    return token.ok ? readAuthorization(request, token.value) : token;
  }

  /** A wallet's own code runs in the simulation, so nobody shares a call with it. */
  #simulate(
    authorization: EvmCheckedAuthorization,
    signal: AbortSignal,
  ): Promise<Result<void, Refusal>> {
    if (authorization.proven) return this.#shared.inspect(authorization, signal);
    return inspect(this.#rpc, authorization, this.#gasLimit(authorization), signal);
  }

  #gasLimit({ proven }: EvmCheckedAuthorization): bigint {
    return proven ? this.#costs.gasLimit : this.#costs.walletGasLimit;
  }
}
