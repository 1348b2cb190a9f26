/** The memo of a payment (V21): a note that the seller may ask for, such as an order number. */
import type { Found } from "./message.ts";

/**
 * The first fault of a message's memos, a sentence: at most one; and exactly one with these bytes where the
 * requirements ask for it. Who signs a memo vouches for it, so nobody but the payer may.
 */
export function memoFault(
  memos: readonly Found[],
  wanted: string | undefined,
  payer: string,
): string | undefined {
  if (memos.length > 1) return `the transaction has ${memos.length} memos; 1 is allowed`;
  const [memo] = memos;
  if (memo === undefined) {
    return wanted === undefined
      ? undefined
      : "the transaction has no memo; extra.memo asks for exactly one";
  }
  const { index, accounts, data } = memo;
  if (accounts.length > 1 || (accounts.length === 1 && accounts[0] !== payer)) {
    return `instructions[${index}], the memo, may have no account but the payer's`;
  }
  if (wanted !== undefined && !Buffer.from(wanted, "utf8").equals(data)) {
    return `instructions[${index}], the memo, differs from extra.memo; its data must be exactly those bytes in UTF-8`;
  }
  return undefined;
}
