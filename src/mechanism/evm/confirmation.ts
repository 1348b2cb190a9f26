/**
 * What became of settlements, as far as one look at one node shows. The chain's own records decide, never
 * the clock alone and never one missing receipt: a transaction that is not in a block may still get there.
 *
 *     receipt of a variant ── not deep enough ───────────────────────────────────── unknown
 *        │   └── the payment's exact logs ───────────────────────────────────────── confirmed (ours)
 *        │   └── reverted, or without them
 *        │               └── authorization unused ───────────────────────────────── failed (retriable)
 *        │               └── used ── by the same transfer ───────────────────────── confirmed (theirs)
 *        │                       └── otherwise ──────────────────────────────────── failed
 *        └── none ── validBefore not past, account nonce not used ───────────────── unknown
 *                └── past on chain ── unused ────────────────────────────────────── failed (expired)
 *                │                └── used, as above
 *                └── account nonce used by another transaction ── unused ────────── failed (retriable)
 *                                                             └── used, as above
 *
 * One node that is behind, or wrong, must not end a payment: whoever asks counts a failure when two looks in
 * a row have found the same one. All that one look reads is read at one block; a node that does not have
 * that block answers with an error, and the look says nothing.
 */
import type {
  Confirmation,
  Look,
  NetworkFee,
  Question,
  SignedTransaction,
  Submission,
} from "../mechanism.ts";
import { ChainError } from "../mechanism.ts";
import type { Rpc } from "../rpc.ts";
import { waitFor } from "../shared-call.ts";
import { parseQuantity, toQuantity } from "./abi.ts";
import type { EvmCheckedAuthorization } from "./authorization.ts";
import { readHasCode } from "./batch.ts";
import { feesIn } from "./drafting.ts";
import {
  paidByAnother,
  paidByOurs,
  readReceipt,
  takenFor,
  type TransactionReceipt,
} from "./receipt.ts";
import { areUsed, findUse, readBlock, readHead, type Block } from "./usage.ts";

/** How far the chain must be past `validBefore` before an unused authorization counts as expired, seconds. */
export const EXPIRY_FINALITY_SECONDS = 30;

export type EvmSubmission = Submission<EvmCheckedAuthorization>;

export interface ConfirmationOptions {
  /** Blocks that must hold the transaction, its own included; at least 1. */
  readonly confirmations: number;
  /** Blocks after which no reorganization is expected. */
  readonly finalAfter: bigint;
  /** Seconds of validity that an authorization needs to be carried by another transaction. */
  readonly validBeforeMarginSeconds: number;
  /** Unix seconds. */
  readonly clock: () => number;
}

/** What a look asks beyond the receipt. */
export interface LookDepth {
  /** Whether our account's nonce is used, where no variant is in a block. */
  readonly nonce: boolean;
  /** How deep an included variant is, also where one block is enough. */
  readonly head: boolean;
}

interface Found {
  readonly variant: SignedTransaction;
  readonly receipt: TransactionReceipt;
}

export class ConfirmationReader {
  readonly #confirmations: bigint;
  readonly #finalAfter: bigint;
  readonly #marginSeconds: number;
  readonly #clock: () => number;
  /** Questions for the head that are under way, by endpoint. */
  readonly #heads = new WeakMap<Rpc, Promise<bigint>>();

  constructor(options: ConfirmationOptions) {
    this.#confirmations = BigInt(options.confirmations);
    const { finalAfter } = options;
    this.#finalAfter = finalAfter > this.#confirmations ? finalAfter : this.#confirmations;
    this.#marginSeconds = options.validBeforeMarginSeconds;
    this.#clock = options.clock;
  }

  /** See `Mechanism.look`. @throws {ChainError} when the node cannot be asked or contradicts itself */
  async look(
    rpc: Rpc,
    submission: EvmSubmission,
    depth: LookDepth,
    signal: AbortSignal,
  ): Promise<Look> {
    const found = await findIncluded(rpc, submission, signal);
    return found === undefined
      ? this.#judgeMissing(rpc, submission, depth, signal)
      : this.#judgeIncluded(rpc, { ...found, submission, depth }, signal);
  }

  /** See `Observer.reconcile`. @throws {ChainError} as {@link look} */
  async reconcile(
    rpc: Rpc,
    authorization: EvmCheckedAuthorization,
    { claimed: said, after }: Question,
    signal: AbortSignal,
  ): Promise<Confirmation> {
    // A node refuses to look for what is no hash, and would be taken for broken.
    const claimed = said !== undefined && TRANSACTION_HASH.test(said) ? said : undefined;
    const receipt = claimed === undefined ? null : await readReceipt(rpc, claimed, signal);
    const head = await readBlock(rpc, "latest", signal);
    if (claimed !== undefined && receipt !== null && isPaidAfter(receipt, authorization, after)) {
      return this.#confirm(claimed, head.number - receipt.blockNumber + 1n, receipt.sender);
    }
    const isLate = receipt !== null && receipt.blockNumber > head.number;
    const at = { ...head, number: isLate ? receipt.blockNumber : head.number };
    const [isUsed] = await areUsed(rpc, [authorization], at.number, signal);
    if (isUsed === true) return this.#judgeUse(rpc, authorization, { at, after }, signal);
    if (isPast(authorization, head.timestamp)) return EXPIRED;
    return { kind: "unknown", detail: "the authorization is not used yet", isUnused: true };
  }

  async #judgeIncluded(
    rpc: Rpc,
    {
      variant,
      receipt,
      submission,
      depth,
    }: Found & { submission: EvmSubmission; depth: LookDepth },
    signal: AbortSignal,
  ): Promise<Look> {
    const { authorizations } = submission;
    const { transaction } = variant;
    const { logs, blockNumber, gasUsed, succeeded } = receipt;
    const paid = succeeded ? paidByOurs(logs, authorizations) : authorizations.map(() => false);
    const isComplete = paid.every(Boolean);
    const asksHead = this.#confirmations > 1n || depth.head || !isComplete;
    const known = asksHead ? await this.#readHead(rpc, signal) : blockNumber;
    const newest = known > blockNumber ? known : blockNumber;
    const confirmations = known - blockNumber + 1n;
    const look = {
      included: {
        transaction,
        confirmations: Number(confirmations > 1n ? confirmations : 1n),
        isFinal: confirmations >= this.#finalAfter,
        fee: feeOf(receipt, variant),
        ...(succeeded ? leftBehindBy(paid, gasUsed) : { revertedGas: gasUsed }),
      },
      isSpent: true,
    };
    if (!this.#isDeep(confirmations)) {
      const waiting = this.#notDeep(confirmations);
      return { ...look, payments: authorizations.map(() => waiting) };
    }
    if (isComplete) {
      return { ...look, payments: authorizations.map(() => ({ kind: "confirmed", transaction })) };
    }
    const reason = reasonOf(succeeded, authorizations.length);
    const unpaid = authorizations.filter((_, index) => paid[index] !== true);
    const hasCode = succeeded ? [] : await haveCode(rpc, unpaid, newest, signal);
    const used = await areUsed(rpc, unpaid, newest, signal);
    const isElsewhere = used.some(Boolean);
    const at = isElsewhere
      ? await readBlock(rpc, newest, signal)
      : { number: newest, timestamp: 0n };
    const judged: Confirmation[] = [];
    for (const [place, authorization] of unpaid.entries()) {
      if (used[place] !== true) {
        const verdict = failed(reason, this.#isOpen(authorization));
        judged.push(hasCode[place] === true ? { ...verdict, hasCode: true } : verdict);
      } else judged.push(await this.#traceUse(rpc, authorization, at, signal));
    }
    const verdicts = judged.values();
    const payments = paid.map((isPaid): Confirmation => {
      return isPaid ? { kind: "confirmed", transaction } : (verdicts.next().value ?? UNDECIDED);
    });
    return { ...look, payments };
  }

  /** Looks of one round share the question: a head that is asked for a moment ago counts a block too few at most. */
  async #readHead(rpc: Rpc, signal: AbortSignal): Promise<bigint> {
    const underWay = this.#heads.get(rpc);
    if (underWay !== undefined) {
      // Who asked may have given up.
      const head = await waitFor(underWay, signal).catch(() => undefined);
      if (head !== undefined) return head;
    }
    const asked = readHead(rpc, signal);
    this.#heads.set(rpc, asked);
    try {
      return await asked;
    } finally {
      if (this.#heads.get(rpc) === asked) this.#heads.delete(rpc);
    }
  }

  async #judgeMissing(
    rpc: Rpc,
    { variants, authorizations }: EvmSubmission,
    depth: LookDepth,
    signal: AbortSignal,
  ): Promise<Look> {
    const now = BigInt(Math.floor(this.#clock()));
    const mayBePast = authorizations.some((authorization) => isPast(authorization, now));
    const waiting = { included: null, isSpent: false };
    const [variant] = variants;
    if (variant === undefined || (!mayBePast && !depth.nonce)) {
      return { ...waiting, payments: authorizations.map(() => NOT_YET) };
    }
    const head = await readBlock(rpc, "latest", signal);
    const { account, accountNonce } = variant;
    const nextNonce = await readAccountNonce(rpc, account, toQuantity(head.number), signal);
    const isSpent = nextNonce > accountNonce;
    const isDue = (authorization: EvmCheckedAuthorization): boolean =>
      isSpent || isPast(authorization, head.timestamp);
    const due = authorizations.filter(isDue);
    const used = await areUsed(rpc, due, head.number, signal);
    const states = used.values();
    const payments: Confirmation[] = [];
    for (const authorization of authorizations) {
      if (!isDue(authorization)) payments.push(NOT_YET);
      else if (states.next().value === true) {
        payments.push(await this.#traceUse(rpc, authorization, head, signal));
      } else if (isPast(authorization, head.timestamp)) payments.push(EXPIRED);
      else payments.push(failed(NONCE_TAKEN, this.#isOpen(authorization)));
    }
    return { payments, included: null, isSpent };
  }

  /**
   * A use that the node cannot tell about leaves its payment open. It keeps nobody from the verdicts on the
   * others, nor from knowing that our account's nonce is used: else a payer could hold up both.
   */
  async #traceUse(
    rpc: Rpc,
    authorization: EvmCheckedAuthorization,
    at: Block,
    signal: AbortSignal,
  ): Promise<Confirmation> {
    try {
      return await this.#judgeUse(rpc, authorization, { at, after: null }, signal);
    } catch (cause) {
      if (!(cause instanceof ChainError)) throw cause;
      return { kind: "unknown", detail: UNTRACED + cause.message };
    }
  }

  /** An authorization that is used, but not in the transaction that was looked at. */
  async #judgeUse(
    rpc: Rpc,
    authorization: EvmCheckedAuthorization,
    { at, after }: { readonly at: Block; readonly after: Question["after"] },
    signal: AbortSignal,
  ): Promise<Confirmation> {
    const use = await findUse(rpc, authorization, at, signal);
    if (use === "cancelled") return failed("the payer cancelled the authorization", false);
    const { transaction, receipt } = use;
    const confirmations = at.number - receipt.blockNumber + 1n;
    if (paidByAnother(receipt.logs, authorization)) {
      if (!isLater(receipt, after)) return USED_BEFORE;
      return this.#confirm(transaction, confirmations, receipt.sender);
    }
    if (!this.#isDeep(confirmations)) return this.#notDeep(confirmations);
    return failed("the authorization's nonce was used for another transfer", false);
  }

  #confirm(transaction: string, confirmations: bigint, sender: string | undefined): Confirmation {
    return this.#isDeep(confirmations)
      ? { kind: "confirmed", transaction, sender }
      : this.#notDeep(confirmations);
  }

  /** Where one block is asked for, the receipt is that block, wherever the node's head was read. */
  #isDeep(confirmations: bigint): boolean {
    return this.#confirmations <= 1n || confirmations >= this.#confirmations;
  }

  #notDeep(confirmations: bigint): Confirmation {
    const detail = `in a block, with ${confirmations} of ${this.#confirmations} confirmations`;
    return { kind: "unknown", detail };
  }

  /** Whether another transaction may still carry it. */
  #isOpen({ validBefore }: EvmCheckedAuthorization): boolean {
    return validBefore >= BigInt(Math.floor(this.#clock()) + this.#marginSeconds);
  }
}

const TRANSACTION_HASH = /^0x[0-9a-f]{64}$/i;
const UNTRACED = "its use could not be traced: ";
const NONCE_TAKEN = "another transaction has used our account's nonce";
const NOT_YET: Confirmation = {
  kind: "unknown",
  detail: "the transaction is not in a block yet",
};
const UNDECIDED: Confirmation = { kind: "unknown", detail: "not judged" };
/** No failure: a reorganization may have moved the use back to where another block was read as the newest. */
const USED_BEFORE: Confirmation = {
  kind: "unknown",
  detail:
    "the authorization was used in a block that was there before anybody was asked to settle it",
};
const EXPIRED = failed("the authorization expired unused", false);

/** Whether the node that was asked could not tell who used an authorization; another one may. */
export function isUntraced(confirmation: Confirmation): boolean {
  return confirmation.kind === "unknown" && confirmation.detail.startsWith(UNTRACED);
}

/** The newest variant first: it is the likeliest to be in a block, and usually the only one. */
async function findIncluded(
  rpc: Rpc,
  { variants }: EvmSubmission,
  signal: AbortSignal,
): Promise<Found | undefined> {
  const receipts = await Promise.all(
    variants.map(({ transaction }) => readReceipt(rpc, transaction, signal)),
  );
  for (const [index, receipt] of receipts.entries()) {
    const variant = variants[index];
    if (receipt !== null && variant !== undefined) return { variant, receipt };
  }
  return undefined;
}

/**
 * The next nonce of an account at a block, a number in hex or `latest` or `pending`.
 * @throws {ChainError} when the chain cannot be asked
 */
export async function readAccountNonce(
  rpc: Rpc,
  account: string,
  block: string,
  signal: AbortSignal,
): Promise<number> {
  const answer = await rpc.call("eth_getTransactionCount", [account, block], signal);
  const nonce = parseQuantity(answer);
  if (nonce !== undefined && nonce <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(nonce);
  throw new ChainError("CHAIN_ANSWER", `${rpc.host}: an account nonce of the wrong shape`);
}

/** Whose code may have burnt the gas of all; none where the node does not say, since nobody is blamed on a guess. */
function haveCode(
  rpc: Rpc,
  authorizations: readonly EvmCheckedAuthorization[],
  block: bigint,
  signal: AbortSignal,
): Promise<readonly boolean[]> {
  const payers = authorizations.map(({ from }) => from);
  return readHasCode(rpc, payers, signal, toQuantity(block)).catch((cause: unknown) => {
    if (!(cause instanceof ChainError)) throw cause;
    return [];
  });
}

function reasonOf(succeeded: boolean, count: number): string {
  if (!succeeded) return "the transaction was reverted";
  return count === 1
    ? "the transaction succeeded without the transfer that was authorized"
    : "the token refused the transfer, one of several in its transaction";
}

function feeOf(receipt: TransactionReceipt, { raw }: SignedTransaction): NetworkFee | undefined {
  const { gasUsed, gasPrice } = receipt;
  const atomic = takenFor(receipt);
  if (gasPrice === undefined || atomic === undefined) return undefined;
  const bid = feesIn(raw);
  const tip = bid?.kind === "eip1559" ? bid.maxPriorityFeePerGas : 0n;
  return {
    atomic,
    priorityAtomic: gasUsed * (tip < gasPrice ? tip : gasPrice),
  };
}

/** What fails takes less than what moves, so that an even share is too much rather than too little. */
function leftBehindBy(
  paid: readonly boolean[],
  gasUsed: bigint,
): Pick<NonNullable<Look["included"]>, "leftBehind"> {
  const indices = [...paid.keys()].filter((index) => paid[index] === false);
  if (indices.length === 0) return {};
  const gas = (gasUsed * BigInt(indices.length)) / BigInt(paid.length);
  return { leftBehind: { indices, gas } };
}

/** Whether that transaction of somebody's is the payment. */
function isPaidAfter(
  receipt: TransactionReceipt,
  authorization: EvmCheckedAuthorization,
  after: Question["after"],
): boolean {
  const { succeeded, logs } = receipt;
  return succeeded && paidByAnother(logs, authorization) && isLater(receipt, after);
}

function isLater({ blockNumber }: TransactionReceipt, after: Question["after"]): boolean {
  return after === null || blockNumber > BigInt(after);
}

function isPast({ validBefore }: EvmCheckedAuthorization, time: bigint): boolean {
  return time > validBefore + BigInt(EXPIRY_FINALITY_SECONDS);
}

function failed(
  detail: string,
  retriable: boolean,
): Extract<Confirmation, { readonly kind: "failed" }> {
  return { kind: "failed", refusal: { code: "invalid_transaction_state", detail }, retriable };
}
