/**
 * Payments with something changed at random: instructions added, taken away, exchanged, moved, altered in
 * their program, accounts, rights and data; and a few changes of the finished message. Some changes are a
 * wallet's to make and leave a good payment, others are an attacker's. Every seed gives the same payment.
 */
import type { Message } from "../../../../src/mechanism/solana/message.ts";
import { COMPUTE_BUDGET_PROGRAM } from "../../../../src/mechanism/solana/programs.ts";
import type { TransactionVersion } from "../../../../src/x402/solana-transaction.ts";
import type { Random } from "../../../simulation/random.ts";
import { createAccount, layOut, unitLimit } from "../../../support/solana-messages.ts";
import { ATTACKER_CHANGES } from "./attacker-changes.ts";
import type { Changes, Surroundings } from "./draft-changes.ts";
import { compile, draftInstruction, type Draft } from "./draft.ts";
import { MESSAGE_CHANGES } from "./message-changes.ts";
import { AMPLE_UNITS, LOADED_ACCOUNTS_BYTES, WALLET_CHANGES } from "./wallet-changes.ts";

export interface Mutant {
  readonly message: Message;
  /** Nobody signs it. */
  readonly isForged: boolean;
  /** What was done, for a failure's message. */
  readonly steps: readonly string[];
}

/** Changes of one payment, of each kind. */
const MAX_WALLET_CHANGES = 4;
const MAX_ATTACKER_CHANGES = 3;
/** How many mutants are meant to be good, how many others change in the message itself, how many are forged. */
const HARMLESS_SHARE = 0.06;
const MESSAGE_SHARE = 0.15;
const FORGED_SHARE = 0.03;

/** A good payment in one of the layouts there are, changed. */
export function mutate(random: Random, around: Surroundings): Mutant {
  const steps: string[] = [];
  let draft = original(random, around);
  const apply = (changes: Changes, most: number): void => {
    for (let turn = random.between(1, most); turn > 0; turn -= 1) {
      const [name, change] = random.pick(changes);
      steps.push(name);
      draft = change(draft, random, around);
    }
  };
  apply(WALLET_CHANGES, MAX_WALLET_CHANGES);
  const isForged = random.chance(FORGED_SHARE);
  if (random.chance(HARMLESS_SHARE)) return { message: compile(draft), isForged, steps };
  apply(ATTACKER_CHANGES, MAX_ATTACKER_CHANGES);
  const message = compile(draft);
  if (!random.chance(MESSAGE_SHARE)) return { message, isForged, steps };
  const [name, change] = random.pick(MESSAGE_CHANGES);
  return { message: change(message, random), isForged, steps: [...steps, name] };
}

const LAYOUTS = ["x402", "svm", "phantom"] as const;
const VERSIONS = ["legacy", 0, 0, 1] as const;
/** The most that a settlement may cost, less its signatures, lamports. */
const MAX_PRIORITY_FEE = 90_000;

/** As a wallet lays it out, with a memo that no other payment has. */
function original(random: Random, { payment, blockhash, hasDestination }: Surroundings): Draft {
  const version = random.pick<TransactionVersion>(VERSIONS);
  const text = random.between(0, 2 ** 32 - 1).toString(36);
  const options = { version, memo: text };
  const plan = layOut(random.pick(LAYOUTS), payment, options);
  const missing = hasDestination ? [] : [unitLimit(AMPLE_UNITS), createAccount(payment)];
  const laidOut = hasDestination ? plan.instructions : plan.instructions.filter(isNoBudget);
  const instructions = [...missing, ...laidOut].map(draftInstruction);
  const draft = { version, feePayer: payment.feePayer, blockhash, table: null, config: null };
  if (version !== 1) return { ...draft, instructions };
  return {
    ...draft,
    instructions: instructions.filter(({ program }) => program !== COMPUTE_BUDGET_PROGRAM),
    config: {
      priorityFeeLamports: BigInt(random.between(0, MAX_PRIORITY_FEE)),
      computeUnitLimit: AMPLE_UNITS,
      loadedAccountsBytes: LOADED_ACCOUNTS_BYTES,
      heapBytes: null,
    },
  };
}

function isNoBudget({ programAddress }: { readonly programAddress: string }): boolean {
  return programAddress !== COMPUTE_BUDGET_PROGRAM;
}
