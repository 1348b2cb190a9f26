/**
 * Lighthouse assertions (V20): wallets add them to a transaction before their user signs it, so that it fails
 * where it would do something else than what was shown. They read accounts, the fee payer's among them, and
 * change nothing; whoever does not want to rely on that program for it can deny it.
 */
import type { Found } from "./instructions.ts";

/** Assertions at most: Phantom adds up to four. */
const MAX_ASSERTIONS = 4;
/**
 * First bytes of the instructions that read their accounts and do nothing else. Below are memory write and
 * close, which take and give lamports; above is one that calls another program with the accounts that it was
 * given, one for compressed-NFT trees, and whatever may come later.
 */
const FIRST_ASSERTION = 2;
const LAST_ASSERTION = 15;

/** Whether an instruction of Lighthouse only reads. */
export function isAssertion(data: Uint8Array): boolean {
  const opcode = data[0];
  return opcode !== undefined && opcode >= FIRST_ASSERTION && opcode <= LAST_ASSERTION;
}

/** The first fault of a message's Lighthouse instructions, a sentence. */
export function lighthouseFault(
  instructions: readonly Found[],
  mode: "assertions" | "deny",
): string | undefined {
  const [first] = instructions;
  if (first === undefined) return undefined;
  if (mode === "deny") {
    return `instructions[${first.index}] calls Lighthouse, which this facilitator does not allow; sign with a wallet that adds no assertions`;
  }
  const other = instructions.find(({ data }) => !isAssertion(data));
  if (other !== undefined) {
    return `instructions[${other.index}] is Lighthouse instruction ${other.data[0] ?? "without data"}; only assertions, ${FIRST_ASSERTION} to ${LAST_ASSERTION}, are allowed`;
  }
  if (instructions.length > MAX_ASSERTIONS) {
    return `the transaction has ${instructions.length} Lighthouse assertions; ${MAX_ASSERTIONS} are allowed`;
  }
  return undefined;
}
