/**
 * What follows from a signature's status. A transaction is one payment, whole or not at all, so its status
 * decides: the rules of verification have bound it to the exact transfer.
 *
 *     in a block ── less deep than configured ─────────────────────────── unknown
 *        │   └── without error ────────────────────────────────────────── confirmed
 *        │   └── the transfer found too little money ──────────────────── failed (insufficient_funds)
 *        │   └── any other error ──────────────────────────────────────── failed
 *        └── none ── its blockhash may be valid ───────────────────────── unknown
 *                └── expired, and still in no block at that slot ──────── failed
 *
 * No failure is retriable: the payer signed these bytes, and they count once.
 */
import type { Refusal } from "../../x402/result.ts";
import type { Confirmation, Look } from "../mechanism.ts";
import type { Instruction, Message } from "./message.ts";
import { feeInBlock } from "./network-fee.ts";
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from "./programs.ts";
import type { Depth, SignatureStatus } from "./statuses.ts";
import { isRecord } from "../../x402/json.ts";

/** What the configuration asks of a settlement. */
export type SolanaCommitment = "confirmed" | "finalized";

/**
 * Blocks that hold a transaction of that depth, its own included: a confirmed one is in one block at least,
 * and a block is final when 31 more have been built upon it.
 */
const CONFIRMATIONS = { confirmed: 1, finalized: 32 } as const;
/** How much of a runtime error is repeated, characters. */
const MAX_ERROR_CHARACTERS = 120;
/** `TokenError::InsufficientFunds`. */
const INSUFFICIENT_FUNDS = 1;
/** First byte of a token instruction that names mint and decimals besides the amount. */
const TRANSFER_CHECKED = 12;

const NOT_YET: Confirmation = {
  kind: "unknown",
  detail: "the transaction is not in a block yet",
};
const NOT_VOTED: Confirmation = {
  kind: "unknown",
  detail: "the transaction is in a block that is not confirmed yet",
};
const NOT_FINAL: Confirmation = {
  kind: "unknown",
  detail: "the transaction is confirmed, but not finalized yet",
};
const UNTOLD: Confirmation = {
  kind: "unknown",
  detail:
    "the transaction's blockhash has expired, and no endpoint that was asked keeps enough history to tell " +
    "whether an older block holds it; an RPC endpoint that does can be added to the configuration",
};
/** Its blockhash is too old for any block to come, and no block up to then holds it. */
export const EXPIRED: Confirmation = failed({
  code: "invalid_transaction_state",
  detail: "the transaction's blockhash expired before it was included; nothing was paid",
});

/** The payments of a submission: one, or none where it could not be read. */
type Payments = readonly { readonly message: Message }[];

/** A look that found nothing. */
export function notYet(payments: Payments): Look {
  return { payments: payments.map(() => NOT_YET), included: null, isSpent: false };
}

/** A look that found its blockhash expired, at a node that does not know of the blocks up to then. */
export function untold(payments: Payments): Look {
  return { payments: payments.map(() => UNTOLD), included: null, isSpent: false };
}

/** A look that found it expired. */
export function expired(payments: Payments): Look {
  return { payments: payments.map(() => EXPIRED), included: null, isSpent: true };
}

/** A look that found it in a block. */
export function included(
  transaction: string,
  { err, depth }: SignatureStatus,
  payments: Payments,
  commitment: SolanaCommitment,
): Look {
  const said = payments.map(({ message }) => {
    return judgeDepth(depth, commitment) ?? judgeResult(transaction, err, message);
  });
  // As yet a block of one fork among several.
  if (depth === "processed") return { payments: said, included: null, isSpent: false };
  const confirmations = CONFIRMATIONS[depth];
  const isFinal = depth === "finalized";
  const fee = payments[0] && feeInBlock(payments[0].message);
  return { payments: said, included: { transaction, confirmations, isFinal, fee }, isSpent: true };
}

/** Undefined where it is as deep as the configuration asks, else why nothing is decided yet. */
export function judgeDepth(depth: Depth, commitment: SolanaCommitment): Confirmation | undefined {
  if (depth === "processed") return NOT_VOTED;
  return depth === "confirmed" && commitment === "finalized" ? NOT_FINAL : undefined;
}

/** What a transaction that is deep enough has come to. `err` is the runtime's, null where there is none. */
export function judgeResult(transaction: string, err: unknown, message: Message): Confirmation {
  if (err === null) return { kind: "confirmed", transaction };
  if (isShortOfFunds(err, message)) {
    const detail = "the payer's token account held too little when the transaction was executed";
    return failed({ code: "insufficient_funds", detail: `${detail}; nothing was paid` });
  }
  const shown = JSON.stringify(err).slice(0, MAX_ERROR_CHARACTERS);
  const detail = `the transaction failed on chain: ${shown}; nothing was paid`;
  return failed({ code: "invalid_transaction_state", detail });
}

function failed(refusal: Refusal): Confirmation {
  return { kind: "failed", refusal, retriable: false };
}

/** `{"InstructionError": [index, {"Custom": 1}]}` with the index of the transfer. */
function isShortOfFunds(err: unknown, message: Message): boolean {
  const inside = isRecord(err) ? err["InstructionError"] : undefined;
  if (!Array.isArray(inside)) return false;
  const [index, reason]: unknown[] = inside;
  const instruction = typeof index === "number" ? message.instructions[index] : undefined;
  if (instruction === undefined || instruction !== findTransfer(message)) return false;
  return isRecord(reason) && reason["Custom"] === INSUFFICIENT_FUNDS;
}

/**
 * The one transfer of a payment (V23): programs are static accounts, so it can be found without the lookup
 * tables.
 */
export function findTransfer({ instructions, keys }: Message): Instruction | undefined {
  return instructions.find(({ program, data }) => {
    const address = keys[program];
    const isToken = address === TOKEN_PROGRAM || address === TOKEN_2022_PROGRAM;
    return isToken && data[0] === TRANSFER_CHECKED;
  });
}
