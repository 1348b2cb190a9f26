/** What a wallet may do to a payment, or a client: nearly all of these payments are as good as before. */
import { AccountRole } from "@solana/kit";
import {
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  LIGHTHOUSE_PROGRAM,
  MEMO_PROGRAM,
} from "../../../../src/mechanism/solana/programs.ts";
import type { Random } from "../../../simulation/random.ts";
import {
  createAccount,
  loadedAccountsLimit,
  memo,
  transfer,
  unitLimit,
  unitPrice,
  walletGuard,
} from "../../../support/solana-messages.ts";
import {
  changeAccount,
  hasProgram,
  insert,
  withInstructions,
  without,
  type Changes,
} from "./draft-changes.ts";
import { draftInstruction, type Draft, type DraftInstruction } from "./draft.ts";

/** Enough for whatever a payment may hold. */
export const AMPLE_UNITS = 100_000;
export const LOADED_ACCOUNTS_BYTES = 4_000_000;
/** Guards that a payment may have, as Phantom adds them. */
const MAX_GUARDS = 4;
/** Millionths of a lamport: of all units together, less than what a settlement may cost. */
const PRIORITY = 90_000_000_000;

export const WALLET_CHANGES: Changes = [
  ["the same again", (draft) => draft],
  [
    "another order",
    (draft, random) => {
      // An account has to be there before it is paid into.
      const first = draft.instructions.filter(isCreation);
      const rest = draft.instructions.filter((each) => !isCreation(each));
      return withInstructions(draft, [...first, ...shuffled(rest, random)]);
    },
  ],
  ["no memo", (draft) => without(draft, MEMO_PROGRAM)],
  [
    "another memo",
    (draft, random, { payment }) => {
      const text = "m".repeat(random.between(1, 40)) + random.between(0, 2 ** 32 - 1).toString(36);
      const signers = random.chance(0.5) ? [payment.payer.address] : [];
      return insert(without(draft, MEMO_PROGRAM), random, memo(text, signers));
    },
  ],
  ["no guards", (draft) => without(draft, LIGHTHOUSE_PROGRAM)],
  [
    "a guard",
    (draft, random, { payment }) => {
      const wallet = random.chance(0.5) ? payment.feePayer : payment.payer.address;
      const guards = draft.instructions.filter(({ program }) => program === LIGHTHOUSE_PROGRAM);
      return guards.length < MAX_GUARDS ? insert(draft, random, walletGuard(wallet)) : draft;
    },
  ],
  [
    "another budget",
    (draft, random) => {
      if (draft.version === 1) return draft;
      const limit = random.between(60_000, 200_000);
      const price = random.between(0, Math.floor(PRIORITY / limit));
      const rest = without(draft, COMPUTE_BUDGET_PROGRAM);
      return insert(insert(rest, random, unitPrice(price)), random, unitLimit(limit));
    },
  ],
  [
    "a loaded accounts limit",
    (draft, random) =>
      draft.version === 1 || hasLoadedLimit(draft)
        ? draft
        : insert(draft, random, loadedAccountsLimit(LOADED_ACCOUNTS_BYTES)),
  ],
  [
    "the payee's account is created, if it is not there",
    (draft, _, { payment }) => {
      const creation = draftInstruction(createAccount(payment));
      const all = [creation, ...draft.instructions.map(enlarged)];
      return hasProgram(draft, ASSOCIATED_TOKEN_PROGRAM) ? draft : withInstructions(draft, all);
    },
  ],
  ["a lookup table", (draft, _, { table }) => ({ ...draft, table })],
  [
    "an account that is written to in vain",
    (draft, random) =>
      changeAccount(draft, random, (account) => ({
        ...account,
        role: account.role | AccountRole.WRITABLE,
      })),
  ],
  [
    "tokens that were lent",
    (draft, _, { payment, lent }) =>
      withInstructions(
        draft,
        draft.instructions.map((each) =>
          each.program === payment.tokenProgram && each.data[0] === TRANSFER_CHECKED
            ? draftInstruction(transfer(payment, { source: lent }))
            : each,
        ),
      ),
  ],
];

const TRANSFER_CHECKED = 12;
const SET_UNIT_LIMIT = 2;
const SET_LOADED_ACCOUNTS = 4;

function hasLoadedLimit({ instructions }: Draft): boolean {
  return instructions.some(
    ({ program, data }) => program === COMPUTE_BUDGET_PROGRAM && data[0] === SET_LOADED_ACCOUNTS,
  );
}

/** More instructions take more units than a client asks for without them. */
function enlarged(instruction: DraftInstruction): DraftInstruction {
  const { program, data } = instruction;
  const isLimit = program === COMPUTE_BUDGET_PROGRAM && data[0] === SET_UNIT_LIMIT;
  return isLimit ? draftInstruction(unitLimit(AMPLE_UNITS)) : instruction;
}

function isCreation({ program }: DraftInstruction): boolean {
  return program === ASSOCIATED_TOKEN_PROGRAM;
}

function shuffled<Value>(values: readonly Value[], random: Random): readonly Value[] {
  const keyed = values.map((value) => ({ value, key: random.next() }));
  return keyed.toSorted((one, other) => one.key - other.key).map(({ value }) => value);
}
