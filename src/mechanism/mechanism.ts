/**
 * A mechanism is one payment scheme on one network: it reads a payment, judges it, and moves the
 * money. It keeps nothing durable; whoever calls it stores what must survive (`ledger/`).
 */
import type { ClosedReason } from "../telemetry/network-meter.ts";
import type { Turn } from "../fairness/fair-lane.ts";
import type { HeldToken } from "../x402/holding.ts";
import type { NetworkName } from "../x402/network.ts";
import type { Refusal, Result } from "../x402/result.ts";
import type { BlockhashHint } from "../x402/version-2.ts";
import type { FacilitatorRequest, PaymentRequirements, SupportedKind } from "../x402/x402.ts";

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
  /**
   * Whether its settlement runs code of the payer's (ERC-1271, EIP-7702), which may behave otherwise in a block: as
   * far as is known before the chain is asked.
   */
  readonly runsCode: boolean;
  /** Why it is refused whatever the chain says, by the first fault in the order of the wire text; null: it may be good. */
  readonly fault: Refusal | null;
}

/** A payment that the chain was asked about, and that is good as far as it tells. */
export interface Inspected<Authorization> extends Checked<Authorization> {
  readonly fault: null;
  /** What its payer had then; where the mechanism has {@link Mechanism.purses}. */
  readonly purse?: PurseBalance;
  /** The same where it has none: for this one and others together, atomic units. */
  readonly meansAtomic?: bigint;
}

/** What is certain of payments that others settle. */
export interface FirstLooks {
  /** Undefined: nothing is. */
  look(request: FacilitatorRequest): Checked<unknown> | undefined;
  /**
   * Has it judged when its turn comes: few have theirs at a time, of the unproven fewer than of the proven.
   * @throws {ChainError} where its turn does not come, else what the work throws
   */
  inTurn<Value>(isProven: boolean, turn: Turn<Value>, signal: AbortSignal): Promise<Value>;
}

/**
 * Who wants a payment judged: a client, by a name that tells it from others, or we ourselves, once more, what was
 * found good before. Only so many payments of clients are judged at a time. `isLast`: it is about to be signed, and does
 * not wait for others of its payer.
 */
export type Asker =
  | { readonly kind: "client"; readonly name: string }
  | { readonly kind: "renewal"; readonly isLast?: true };

/** A client that nobody has named. */
export const SOMEBODY: Asker = { kind: "client", name: "" };
export const RENEWAL: Asker = { kind: "renewal" };
export const LAST_RENEWAL: Asker = { kind: "renewal", isLast: true };

/** A settlement of one payment, or of several, that needs nothing more than an account nonce and our signature. */
export interface Draft {
  /** Our account that pays the network fee. */
  readonly account: string;
  /** Signs for that account nonce. Synchronous, so that it can happen inside a database transaction. */
  sign(accountNonce: number): SignedTransaction;
}

/** What came of preparing payments together. */
export interface Preparation {
  /** Undefined when every payment was left out. */
  readonly draft: Draft | undefined;
  /**
   * Indices of payments that are not in the draft, since together with the others, or with what was signed
   * before and is not decided yet, they would fail: each has to be judged again, alone.
   */
  readonly leftOut: readonly number[];
  /** Why a lone payment, simulated just as it would be sent, is not to be sent at all; no draft then. */
  readonly refused?: Refusal;
}

/** Everything needed to send a settlement again after a crash, byte for byte. */
export interface SignedTransaction {
  readonly transaction: TransactionId;
  /** The bytes to broadcast, in the network's text form (0x hex, base64). */
  readonly raw: string;
  readonly account: string;
  readonly accountNonce: number;
}

/** All that was signed for one account nonce, and the payments that it carries. */
export interface Submission<Authorization> {
  /** Oldest first, at least one. */
  readonly variants: readonly SignedTransaction[];
  readonly authorizations: readonly Authorization[];
}

/**
 * What the chain says of one payment. `confirmed` has been matched against the asset's own logs, a receipt
 * alone is not payment; its transaction is not always ours, anyone may submit an authorization. `failed` is
 * definite as far as this one look goes: reverted, or expired unused; `retriable` where the authorization is
 * still unused and in its window, so that another transaction may carry it; `hasCode` where the
 * transaction was reverted as a whole and this payer has code that may have done it. `unknown` is not failure: the transaction
 * may still be included.
 */
export type Confirmation =
  | {
      readonly kind: "confirmed";
      readonly transaction: TransactionId;
      /**
       * Whose transaction it is, as far as the chain was asked: who pays its network fee. In the network's
       * spelling, EVM addresses in lower case.
       */
      readonly sender?: string | undefined;
    }
  | {
      readonly kind: "failed";
      readonly refusal: Refusal;
      readonly retriable: boolean;
      readonly hasCode?: true;
    }
  | {
      readonly kind: "unknown";
      readonly detail: string;
      /** The chain shows no use of it, not even in a block that is too new to count. */
      readonly isUnused?: true;
    };

/** In the smallest unit of the network's own currency. */
export interface NetworkFee {
  /** All of it: on a rollup also what it pays for the chain that it posts to. */
  readonly atomic: bigint;
  /** Of that what was bid to come first; at most, where the base fee of a block left less of the bid. */
  readonly priorityAtomic: bigint;
}

/** One look at the chain for a submission. */
export interface Look {
  /** The chain's word on each payment, in the order of the submission. */
  readonly payments: readonly Confirmation[];
  /** The variant that is in a block, with the depth that the network's configuration asks for or not. */
  readonly included: {
    readonly transaction: TransactionId;
    /** Blocks that hold it, its own included; a first look may count too few, never too many. */
    readonly confirmations: number;
    /** No reorganization can be expected to undo it any more. */
    readonly isFinal: boolean;
    /** What its sender paid for it; undefined where the node does not say. */
    readonly fee?: NetworkFee | undefined;
    /** Gas that it burnt, where it was reverted as a whole. */
    readonly revertedGas?: bigint;
    /** Those that it did not move although it was not reverted, by their places, and their share of its gas. */
    readonly leftBehind?: { readonly indices: readonly number[]; readonly gas: bigint };
  } | null;
  /**
   * No variant can be included any more, or one is: the account's nonce is used by a transaction in a block,
   * whichever it is, or the time in which the transaction counts is over.
   */
  readonly isSpent: boolean;
}

/** How the transactions of one account stand to each other, and what watching over them takes. */
export interface AccountRules {
  /**
   * True where they are included in the order of their nonces: an earlier one holds up all later ones, and
   * better paid bytes may replace it. Where it is false nonces are a mere count of ours, and each
   * transaction stands alone.
   */
  readonly isOrdered: boolean;
  /** Transactions of one account in the air at most. */
  readonly maxOpen: number;
  /** First and longest pause between two looks at one that is in the air, milliseconds. */
  readonly firstLookMs: number;
  readonly maxLookMs: number;
  /**
   * First pause instead where `broadcast` still runs after it: it may be waiting for the block. 0 where it
   * never does.
   */
  readonly attendedLookMs: number;
  /** Shortest pause between two looks at one that is in a block: before that it cannot be there for good, milliseconds. */
  readonly lateLookMs: number;
  /** Looks at the same time at those that are in a block, though not for good. */
  readonly looksAtOnce: number;
  /** Pause before bytes that a node took are sent again, since it may have dropped them, milliseconds. */
  readonly resendMs: number;
  /**
   * After so long one that is not on the chain, and cannot get there any more, is nothing to watch,
   * milliseconds.
   */
  readonly forgetMs: number;
}

/** An account of ours, for the operator. */
export interface WalletBalance {
  readonly address: string;
  /** The network's own currency, in its smallest unit. */
  readonly balanceAtomic: bigint;
  readonly decimals: number;
  /** What one settlement costs at the present price, in that unit. */
  readonly settlementAtomic: bigint;
}

/** A start-up finding about a network; an `error` keeps the network from being used. */
export interface Finding {
  readonly level: "error" | "warning";
  readonly message: string;
  /**
   * True for an error on our side of the right chain, such as an account that cannot pay: nothing is signed
   * then, and what was signed before is still sent and watched.
   */
  readonly isChainRight?: true;
  /** What an error is about. Default: the chain. */
  readonly about?: Extract<ClosedReason, "wallet" | "clock" | "token" | "unauthorized">;
}

/** What can be looked at by itself, whether or not anybody pays. */
export interface Probed {
  /** What speaks against using it; throws when it cannot be reached. */
  probe(signal: AbortSignal): Promise<readonly Finding[]>;
}

/** Where the chain stands with an authorization that somebody else is about to be asked to settle. */
export interface Standing {
  /**
   * The newest block, or slot, when it was read. What uses the authorization there or before was made by
   * nobody who is asked later.
   */
  readonly head: number;
  /** Why nobody can settle it any more: it is used, or cancelled. Null also where the node is behind that. */
  readonly used: Refusal | null;
}

/** What a look is to find. */
export interface Question {
  /** The transaction that somebody says it was. */
  readonly claimed: TransactionId | undefined;
  /** A {@link Standing}'s head: only a use in a later block is `confirmed`. Null: in any. */
  readonly after: number | null;
}

/** What can be said about payments that others settle: reads the chain, signs nothing. */
export interface Observer<Authorization = unknown> {
  readonly network: NetworkName;
  /**
   * Reads the payment of a stored request without judging it: what {@link reconcile} needs after a
   * restart, when `check` would find an old authorization expired.
   */
  parse(request: FacilitatorRequest): Result<Authorization, Refusal>;
  /**
   * Read before the authorization is given to somebody who settles. Null where the chain has no word on it, as
   * of what is no token. Throws {@link ChainError} when the chain cannot be asked.
   */
  standing(authorization: Authorization, signal: AbortSignal): Promise<Standing | null>;
  /**
   * One look at what became of an authorization, whoever submitted it. Throws {@link ChainError} when the
   * chain cannot be asked.
   */
  reconcile(
    authorization: Authorization,
    question: Question,
    signal: AbortSignal,
  ): Promise<Confirmation>;
  /**
   * Whose transaction that is; undefined where it is in no block that the node knows of. Not there where a
   * payment names its sender itself (Solana). Throws {@link ChainError}.
   */
  senderOf?(transaction: TransactionId, signal: AbortSignal): Promise<string | undefined>;
  /**
   * Writes a payment that a wallet of that address can sign without knowing the chain, as a base64
   * transaction; not there where a wallet needs no help (EVM). Throws {@link ChainError} when the chain cannot
   * be asked, and another error when that payer cannot pay the requirement.
   */
  draft?(requirement: PaymentRequirements, payer: string, signal: AbortSignal): Promise<string>;
  /**
   * What a program needs of the chain to write such a payment by itself, at most a few seconds old; there where
   * {@link draft} is. Throws {@link ChainError} when the chain cannot be asked.
   */
  blockhash?(signal: AbortSignal): Promise<BlockhashHint>;
  /**
   * Whether the code at an address takes a signature of a text for its own (ERC-1271); not there where addresses have no
   * code that is asked. Anybody can have it asked: few at a time, and no code runs long. Throws {@link ChainError},
   * `CHAIN_BUSY` where too many wait, or as many of the asker's as there is room left.
   */
  hasCodeSigned?(text: SignedText, signal: AbortSignal, asker: string): Promise<boolean>;
  /**
   * What `balanceOf` of a token says of an account, smallest units; not there where tokens have none (Solana). Few are asked
   * at a time, and no code runs long. Throws {@link ChainError}, as {@link hasCodeSigned}; of what is no such token too.
   */
  holding?(held: HeldToken, signal: AbortSignal, asker: string): Promise<bigint>;
  /** Closes the connections to the chain. */
  close(): Promise<void>;
}

/** What a chain tells of transactions that are over. */
export interface TakenFees {
  /**
   * What the network has taken for a transaction, in the smallest unit of its own currency; undefined where it is in no
   * block that the node knows of, or the node does not say. Throws {@link ChainError}.
   */
  feeOf(transaction: TransactionId, signal: AbortSignal): Promise<bigint | undefined>;
}

/** A text, and who says that he has signed it. */
export interface SignedText {
  readonly address: string;
  readonly message: string;
  /** As a wallet of that kind of network writes it: 0x and hex digits, or base58. */
  readonly signature: string;
}

/** Whether a text was signed by who says so. */
export interface TextSigners {
  hasKeySigned(network: string, text: SignedText): boolean;
  /**
   * Where no key of the address has: whether its code takes the signature. False where no chain is asked. Throws
   * {@link ChainError}, as {@link Observer.hasCodeSigned}.
   */
  hasCodeSigned(
    network: string,
    text: SignedText,
    signal: AbortSignal,
    asker: string,
  ): Promise<boolean>;
}

/** What is in payers' purses, where a payment that is under way need not show in the judgement of another. */
export interface PurseReader<Authorization = unknown> {
  /**
   * What the payer has, and which of other payments of the same payer and token had left the purse in the very
   * state that shows it, by their authorizations' nonces. Throws {@link ChainError}.
   */
  read(
    checked: Checked<Authorization>,
    nonces: readonly string[],
    signal: AbortSignal,
  ): Promise<PurseBalance & { readonly executed: readonly boolean[] }>;
}

export interface PurseBalance {
  /** Of the token, atomic units. */
  readonly balanceAtomic: bigint;
  /** When it was asked for, milliseconds since the epoch. */
  readonly askedMs: number;
}

/** What is to be paid back to whom. */
export interface TransferBack {
  readonly asset: string;
  readonly to: string;
  readonly amountAtomic: bigint;
  /** Key of the payment that it pays back. */
  readonly payment: string;
  /** From 1. Where there are nonces, the same payment and number have the same one: of those the chain moves one. */
  readonly number: number;
  /** As of the payment. */
  readonly resource: string;
}

/** A key that pays back. What it signs is settled as every payment is, and by our accounts that pay network fees. */
export interface Refunder {
  readonly address: string;
  /** How long what it signs counts at least, milliseconds: a refusal before that is about the transfer itself. */
  readonly validMs: number;
  /** Whether transfers of the same payment and number have the same nonce, however often they are signed. */
  readonly hasNonces: boolean;
  /** Whether it signs in that token. */
  has(asset: string): boolean;
  /** Signs a payment of its own, in a token that it has. @throws {ChainError} when the chain cannot be asked */
  transfer(back: TransferBack, signal: AbortSignal): Promise<FacilitatorRequest>;
  /** What it has of a token, atomic units. @throws {ChainError} */
  balance(asset: string, signal: AbortSignal): Promise<bigint>;
}

/** What can be done about a transaction that is signed already: all of it needs no key. */
export interface Follower<Authorization = unknown> extends Pick<
  Observer<Authorization>,
  "network" | "parse"
> {
  readonly rules: AccountRules;
  /** Not there where nothing is paid back. */
  readonly refunder?: Refunder | undefined;

  /**
   * Sends signed bytes to every endpoint. Returns when one took them or already had them, throws when none
   * did; after any throw the bytes may still have been sent. `included` where a node told that they are in a
   * block (EIP-7966, `signatureSubscribe`): a hint to look at once, never proof.
   */
  broadcast(signed: SignedTransaction, signal: AbortSignal): Promise<"sent" | "included">;

  /** One look, by one endpoint. Never waits for a block. Throws {@link ChainError}. */
  look(submission: Submission<Authorization>, signal: AbortSignal): Promise<Look>;
}

export interface Mechanism<Authorization = unknown>
  extends Observer<Authorization>, Follower<Authorization>, Probed {
  readonly scheme: "exact";
  /** The entry for `GET /supported` (protocol section 2.5). */
  readonly kind: SupportedKind;
  /** Our paying accounts on this network. */
  readonly accounts: readonly string[];
  /** Payments that one transaction carries at most; 1 where the network has no such thing. */
  readonly maxTogether: number;
  /** Absent where `inspect` and `prepare` see to it that payments of one payer fit together. */
  readonly purses?: PurseReader<Authorization>;

  /**
   * Everything that can be judged without asking anyone: shape, requirements, signature, recipient,
   * window, amount (protocol section 4.1, steps 1, 3, 4, 5). `now` is Unix seconds. A refusal here is a
   * request that cannot be read at all or that names what this mechanism does not serve.
   */
  check(request: FacilitatorRequest, now: number): Result<Checked<Authorization>, Refusal>;

  /**
   * What only the chain knows, in one round trip for a proven payer: balance, nonce state and the
   * simulated transfer (steps 2 and 6). May wait a few seconds for other payments of the payer that are
   * under way. Throws when the chain cannot be asked; {@link ChainError} `CHAIN_BUSY` where too many
   * payments wait, or as many of the asker's as there is room left.
   * @param asker default: {@link SOMEBODY}
   */
  inspect(
    checked: Checked<Authorization>,
    signal: AbortSignal,
    asker?: Asker,
  ): Promise<Result<Inspected<Authorization>, Refusal>>;

  /** From here on these may be paid, and nobody else: in any letter case on EVM networks. */
  allow(payTo: readonly string[] | "any"): void;

  /** The one account of ours that can settle it; undefined where each of them can. */
  accountFor(checked: Checked<Authorization>): string | undefined;

  /**
   * Prepares a settlement by one account of ours: fees and our own balance are read, several payments are
   * simulated together, nothing is signed. A payment that is not `proven` goes alone; one that runs code of
   * its payer's is simulated with the very sender, gas and fees that are signed.
   * @throws {ChainError} `CHAIN_FEE` when the network asks too much, `CHAIN_GAS` when our account cannot
   * pay it, another code when the chain cannot be asked
   */
  prepare(
    payments: readonly Inspected<Authorization>[],
    account: string,
    signal: AbortSignal,
  ): Promise<Preparation>;

  /**
   * The same call again for the same account nonce with fees high enough to replace all variants so far,
   * or undefined when our cap does not allow that. Throws {@link ChainError} like `prepare`. Asked only
   * where transactions are ordered.
   */
  raise(
    submission: Submission<Authorization>,
    signal: AbortSignal,
  ): Promise<SignedTransaction | undefined>;

  /**
   * The next account nonce as the chain sees it, pending ones included; only used to seed our store. 0 where
   * accounts have none.
   */
  accountNonce(account: string, signal: AbortSignal): Promise<number>;

  /** Throws {@link ChainError}. */
  balance(account: string, signal: AbortSignal): Promise<WalletBalance>;

  /** Time of the newest block as the chain tells it, Unix seconds. Throws {@link ChainError}. */
  headTime?(signal: AbortSignal): Promise<number>;
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
   * - `CHAIN_BUSY`: the chain was not asked, since too many other questions of that kind are under way.
   */
  readonly code:
    | "CHAIN_UNREACHABLE"
    | "CHAIN_TIMEOUT"
    | "CHAIN_ANSWER"
    | "CHAIN_FEE"
    | "CHAIN_GAS"
    | "CHAIN_BUSY";

  constructor(code: ChainError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
