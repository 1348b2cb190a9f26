/** The transaction of a case before it is bytes. */
import type { Instruction } from "@solana/kit";
import type { Keypair } from "../../../src/mechanism/solana/signing.ts";
import { COMPUTE_BUDGET_PROGRAM, MEMO_PROGRAM } from "../../../src/mechanism/solana/programs.ts";
import { buildTransaction, layOut, memo, type Plan } from "../../support/solana-messages.ts";
import { evaluateText } from "../references.ts";
import {
  instructionOf,
  transferOf,
  type Subject,
  type WrittenInstruction,
} from "./instructions.ts";
import type { SolanaCase } from "./solana-case.ts";

/** Attempts to fill up a transaction: a longer memo takes a longer length. */
const MAX_ATTEMPTS = 4;

interface PlanSubject extends Subject {
  readonly signers: readonly Keypair[];
  /** Lookup tables that there are, with their entries. */
  readonly tables: NonNullable<Plan["tables"]>;
}

/** The layout of the case with its changes. */
export function planOf({ pay }: SolanaCase, subject: PlanSubject): Plan {
  const { payment, names, signers, tables } = subject;
  const { layout, version, memo: text, size } = pay;
  const laidOut = layOut(layout, payment, {
    version,
    ...(text === undefined ? {} : { memo: text }),
  });
  const instructions = changed(laidOut.instructions, pay, subject);
  const plan: Plan = {
    ...laidOut,
    instructions,
    signers,
    blockhash: evaluateText(pay.blockhash, names),
    ...(pay.tables ? { tables } : {}),
    ...(pay.config === undefined ? {} : { config: configOf(pay.config) }),
  };
  return size === undefined ? plan : filled(plan, size);
}

function configOf({
  priorityFeeLamports,
  ...config
}: NonNullable<SolanaCase["pay"]["config"]>): NonNullable<Plan["config"]> {
  if (priorityFeeLamports === undefined) return config;
  return { ...config, priorityFeeLamports: BigInt(priorityFeeLamports) };
}

/** The instructions of a layout, some of them exchanged, and more of them around. */
function changed(
  laidOut: readonly Instruction[],
  pay: SolanaCase["pay"],
  subject: Subject,
): readonly Instruction[] {
  const all = (written: readonly WrittenInstruction[]): Instruction[] =>
    written.map((each) => instructionOf(each, subject));
  const budget = pay.budget && all(pay.budget);
  const memos = pay.memos && all(pay.memos);
  const transfers = pay.transfers ? all(pay.transfers) : [transferOf(pay.transfer, subject)];
  const main = laidOut.flatMap((instruction) => {
    if (instruction.programAddress === COMPUTE_BUDGET_PROGRAM) return budget ? [] : [instruction];
    if (instruction.programAddress === subject.payment.tokenProgram) return transfers;
    if (instruction.programAddress === MEMO_PROGRAM) return memos ?? [instruction];
    return [instruction];
  });
  const instructions = [...all(pay.first), ...(budget ?? []), ...main, ...all(pay.last)];
  return pay.reversed ? instructions.toReversed() : instructions;
}

/** The same plan with a memo that is so long that the transaction has exactly that size. */
function filled(plan: Plan, size: number): Plan {
  let length = 1;
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const text = memo("m".repeat(length));
    const instructions = plan.instructions.map((each) =>
      each.programAddress === MEMO_PROGRAM ? text : each,
    );
    const grown = { ...plan, instructions };
    const missing = size - Buffer.from(buildTransaction(grown), "base64").length;
    if (missing === 0) return grown;
    length += missing;
  }
  throw new Error(`no memo makes a transaction of ${size} bytes`);
}
