/** What every change of a draft is made from. */
import type { Random } from "../../../simulation/random.ts";
import type { Payment } from "../../../support/solana-messages.ts";
import { draftInstruction, type Draft, type DraftAccount, type DraftInstruction } from "./draft.ts";

/** What a payment is made from, and what an attacker may name. */
export interface Surroundings {
  readonly payment: Payment;
  readonly blockhash: string;
  /** Whether the payee has a token account already. */
  readonly hasDestination: boolean;
  /** A table that there is, and its entries. */
  readonly table: { readonly address: string; readonly entries: readonly string[] };
  /** Token accounts of ours: an associated one, and one that the payer was allowed to spend from. */
  readonly ourTokens: readonly [string, string];
  readonly stranger: string;
  readonly strangerTokens: string;
  /** Tokens of somebody else that the payer may spend. */
  readonly lent: string;
  /** A nonce account that the payer may use. */
  readonly nonce: string;
  /** Every address worth naming, these included. */
  readonly pool: readonly [string, ...string[]];
}

/** Makes another draft of one; the same where there is nothing to change. */
type Change = (draft: Draft, random: Random, around: Surroundings) => Draft;
type NamedChange = readonly [name: string, change: Change];
export type Changes = readonly [NamedChange, ...NamedChange[]];

/** Any place in a list. */
export const at = (random: Random, values: ArrayLike<unknown>): number =>
  random.between(0, Math.max(0, values.length - 1));

export function withInstructions(draft: Draft, instructions: readonly DraftInstruction[]): Draft {
  return { ...draft, instructions };
}

/** Puts one in anywhere. */
export function insert(
  draft: Draft,
  random: Random,
  added: Parameters<typeof draftInstruction>[0],
): Draft {
  const place = random.between(0, draft.instructions.length);
  return withInstructions(draft, draft.instructions.toSpliced(place, 0, draftInstruction(added)));
}

export const without = (draft: Draft, program: string): Draft =>
  withInstructions(
    draft,
    draft.instructions.filter((each) => each.program !== program),
  );

export const hasProgram = ({ instructions }: Draft, program: string): boolean =>
  instructions.some((each) => each.program === program);

export function changeInstruction(
  draft: Draft,
  random: Random,
  change: (instruction: DraftInstruction) => DraftInstruction,
): Draft {
  const place = at(random, draft.instructions);
  const found = draft.instructions[place];
  if (found === undefined) return draft;
  return withInstructions(draft, draft.instructions.with(place, change(found)));
}

export function changeAccount(
  draft: Draft,
  random: Random,
  change: (account: DraftAccount) => DraftAccount,
): Draft {
  return changeInstruction(draft, random, (found) => {
    const place = at(random, found.accounts);
    const account = found.accounts[place];
    if (account === undefined) return found;
    return { ...found, accounts: found.accounts.with(place, change(account)) };
  });
}
