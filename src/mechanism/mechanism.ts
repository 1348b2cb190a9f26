/**
 * A mechanism is one payment scheme on one network: it reads a payment, judges it, and moves the
 * money. It keeps nothing durable; whoever calls it stores what must survive (`ledger/`).
 */
import type { NetworkName } from "../x402/network.ts";
import type { Refusal, Result } from "../x402/result.ts";
import type { FacilitatorRequest, SupportedKind } from "../x402/x402.ts";

/** Identifies a transaction on its network: a hash (EVM) or a signature (Solana). */
type TransactionId = string;

/** What the local checks found; `Authorization` is the mechanism's own parsed payment. */
export interface Checked<Authorization> {
  readonly authorization: Authorization;
  /** As reported in answers: the payer's address in its network's spelling. */
  readonly payer: string;
  /**
   * True when the payer's signature was proven locally. False leaves one possibility, a smart wallet
   * (ERC-1271), which only the chain can judge.
   */
  readonly proven: boolean;
  /** The first fault other than the signature, in the order of the wire text; null when there is none. */
  readonly fault: Refusal | null;
}

/** A settlement that needs nothing more than an account nonce and our signature. */
export interface Draft {
  /** Our account that pays the network fee. */
  readonly account: string;
  /** Signs for that account nonce. Synchronous, so that it can happen inside a database transaction. */
  sign(accountNonce: number): SignedTransaction;
}

/** Everything needed to send a settlement again after a crash, byte for byte. */
export interface SignedTransaction {
  readonly transaction: TransactionId;
  /** The bytes to broadcast, in the network's text form (0x hex, base64). */
  readonly raw: string;
  readonly account: string;
  readonly accountNonce: number;
}

/**
 * What the chain says of a settlement. `confirmed` has been matched against the asset's own logs, a
 * receipt alone is not payment; its transaction is not always ours, anyone may submit an authorization.
 * `failed` is definite: reverted, or expired unused. `unknown` is not failure: the transaction may still
 * be included.
 */
export type Confirmation =
  | { readonly kind: "confirmed"; readonly transaction: TransactionId }
  | { readonly kind: "failed"; readonly refusal: Refusal }
  | { readonly kind: "unknown"; readonly detail: string };

/** A start-up finding about a network; an `error` keeps the network from being used. */
export interface Finding {
  readonly level: "error" | "warning";
  readonly message: string;
}

export interface Mechanism<Authorization = unknown> {
  readonly scheme: "exact";
  readonly network: NetworkName;
  /** The entry for `GET /supported` (protocol section 2.5). */
  readonly kind: SupportedKind;
  /** Our paying accounts on this network. */
  readonly accounts: readonly string[];

  /**
   * Everything that can be judged without asking anyone: shape, requirements, signature, recipient,
   * window, amount (protocol section 4.1, steps 1, 3, 4, 5). `now` is Unix seconds. A refusal here is a
   * request that cannot be read at all or that names what this mechanism does not serve.
   */
  check(request: FacilitatorRequest, now: number): Result<Checked<Authorization>, Refusal>;

  /**
   * Reads the payment of a stored request without judging it: what {@link confirm} needs after a
   * restart, when `check` would find an old authorization expired.
   */
  parse(request: FacilitatorRequest): Result<Authorization, Refusal>;

  /**
   * What only the chain knows, in one round trip for a proven payer: balance, nonce state and the
   * simulated transfer (steps 2 and 6). Throws when the chain cannot be asked.
   */
  inspect(checked: Checked<Authorization>, signal: AbortSignal): Promise<Result<void, Refusal>>;

  /**
   * Prepares the settlement: fees and our own balance are read, nothing is signed.
   * @throws {ChainError} `CHAIN_FEE` when the network asks too much, `CHAIN_GAS` when our account cannot
   * pay it, another code when the chain cannot be asked
   */
  prepare(checked: Checked<Authorization>, signal: AbortSignal): Promise<Draft>;

  /**
   * Sends signed bytes. Returns normally when the node took them or already had them; throws otherwise,
   * and after any throw the bytes may still have been sent.
   */
  broadcast(signed: SignedTransaction, signal: AbortSignal): Promise<void>;

  /**
   * Waits, up to the signal, for the chain's word on a broadcast settlement. Never throws: a chain that
   * cannot be asked is `unknown`.
   */
  confirm(
    payment: Pick<Checked<Authorization>, "authorization">,
    signed: SignedTransaction,
    signal: AbortSignal,
  ): Promise<Confirmation>;

  /** The next account nonce as the chain sees it, pending ones included; only used to seed our store. */
  accountNonce(account: string, signal: AbortSignal): Promise<number>;

  /**
   * The next account nonce by the newest block alone: account nonces below it are used for good, by
   * whichever transaction. Throws when the chain cannot be asked.
   */
  minedNonce(account: string, signal: AbortSignal): Promise<number>;

  /** Start-up checks: chain id, token domain and decimals, fee balance. Throws when unreachable. */
  probe(signal: AbortSignal): Promise<readonly Finding[]>;

  /** Closes the connections to the chain. */
  close(): Promise<void>;
}

/** The chain could not be asked, or answered nonsense. Carries no secret and no URL with a key. */
export class ChainError extends Error {
  override readonly name: string = "ChainError";
  /**
   * - `CHAIN_UNREACHABLE`: no connection, or it broke.
   * - `CHAIN_TIMEOUT`: no answer within the limit, or the caller's signal ended the wait.
   * - `CHAIN_ANSWER`: an error, or an answer of the wrong shape.
   * - `CHAIN_FEE`: the network fee is above our cap; nothing was signed.
   * - `CHAIN_GAS`: our account cannot pay the network fee; nothing was signed.
   */
  readonly code: "CHAIN_UNREACHABLE" | "CHAIN_TIMEOUT" | "CHAIN_ANSWER" | "CHAIN_FEE" | "CHAIN_GAS";

  constructor(code: ChainError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
