/**
 * One pass over the instructions of a message: sorts out what a payment may hold (V17), and finds whatever
 * touches a fee payer of ours (V16). Everything that is not listed here is refused.
 *
 * The fee payer signs the whole message, and is writable. So a program that is given its account could spend
 * from it; as no program is given it, but for assertions that only read, the network fee is all that it pays.
 */
import { err, ok, type Result } from "../../x402/result.ts";
import { isAssertion } from "./lighthouse.ts";
import type { ResolvedMessage, Found } from "./message.ts";
import {
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  LIGHTHOUSE_PROGRAM,
  MEMO_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from "./programs.ts";

type Kind = "budgets" | "transfers" | "memos" | "assertions" | "creations";

/** The instructions of a message by what they are for, each kind in the message's order. */
export type Survey = Readonly<Record<Kind, readonly Found[]>>;

const KINDS: ReadonlyMap<string, Kind> = new Map([
  [COMPUTE_BUDGET_PROGRAM, "budgets"],
  [TOKEN_PROGRAM, "transfers"],
  [TOKEN_2022_PROGRAM, "transfers"],
  [MEMO_PROGRAM, "memos"],
  [LIGHTHOUSE_PROGRAM, "assertions"],
  [ASSOCIATED_TOKEN_PROGRAM, "creations"],
]);

/** First byte of a ComputeBudget instruction. */
export const SET_UNIT_LIMIT = 2;
export const SET_UNIT_PRICE = 3;
export const SET_LOADED_ACCOUNTS = 4;
/** First byte of a token instruction: the one that names mint and decimals besides the amount. */
const TRANSFER_CHECKED = 12;
/** The only byte of an instruction that creates an associated account; the first may be left out. */
const CREATE = 0;
const CREATE_IDEMPOTENT = 1;
/** First byte of a System instruction that makes the blockhash a durable nonce, where it comes first. */
const ADVANCE_NONCE = 4;

/**
 * The instructions sorted, or a sentence about the first that is not allowed (V16, V17, V26). Places are
 * those in the message, from 0, as nodes count them.
 */
export function surveyInstructions(
  message: ResolvedMessage,
  feePayers: ReadonlySet<string>,
): Result<Survey, string> {
  const foreign = message.accounts.findIndex((key, index) => index > 0 && feePayers.has(key));
  if (foreign > 0) {
    return err(
      `account ${foreign} is ${message.accounts[foreign]}, a fee payer of this facilitator; only account 0 may be one`,
    );
  }
  const survey: Record<Kind, Found[]> = {
    budgets: [],
    transfers: [],
    memos: [],
    assertions: [],
    creations: [],
  };
  // V16 goes before V17, whichever instruction is the first.
  let notAllowed: string | undefined;
  for (const [index, instruction] of message.instructions.entries()) {
    // A decoded message has no index without an account.
    const at = (account: number): string => message.accounts[account] ?? "";
    const found: Found = {
      index,
      program: at(instruction.program),
      accounts: Array.from(instruction.accounts, at),
      data: instruction.data,
    };
    const kind = KINDS.get(found.program);
    // Every account comes once in a message, so the fee payer's key is at index 0 only.
    if (
      (instruction.program === 0 || instruction.accounts.includes(0)) &&
      !(kind === "assertions" && isAssertion(found.data))
    ) {
      return err(
        `instructions[${index}] uses the fee payer's account; only a Lighthouse assertion may`,
      );
    }
    if (kind === undefined) notAllowed ??= strangerFault(found);
    else {
      notAllowed ??= opcodeFault(kind, found);
      survey[kind].push(found);
    }
  }
  return notAllowed === undefined ? ok(survey) : err(notAllowed);
}

function strangerFault({ index, program, data }: Found): string {
  if (program === SYSTEM_PROGRAM && index === 0 && data[0] === ADVANCE_NONCE) {
    return "a durable nonce is not allowed, since its transaction never expires; use a recent blockhash";
  }
  return `instructions[${index}] calls ${program}; a payment may call ComputeBudget, Token, Token-2022, Memo v2, Lighthouse and Associated Token Account only`;
}

/** What is said of an instruction of a program that is allowed; undefined where the instruction is, too. */
type OpcodeRule = (opcode: number | undefined, data: Uint8Array) => string | undefined;

const OPCODE_RULES: Readonly<Record<Kind, OpcodeRule>> = {
  budgets: (opcode) =>
    opcode !== undefined && opcode >= SET_UNIT_LIMIT && opcode <= SET_LOADED_ACCOUNTS
      ? undefined
      : `is ComputeBudget instruction ${opcode ?? "without data"}; only ${SET_UNIT_LIMIT} (unit limit), ${SET_UNIT_PRICE} (unit price) and ${SET_LOADED_ACCOUNTS} (loaded accounts limit) are allowed`,
  transfers: (opcode) =>
    opcode === TRANSFER_CHECKED
      ? undefined
      : `is token instruction ${opcode ?? "without data"}; only ${TRANSFER_CHECKED} (TransferChecked) is allowed`,
  creations: (opcode, data) =>
    data.length < 2 && (opcode ?? CREATE) <= CREATE_IDEMPOTENT
      ? undefined
      : "is no Create and no CreateIdempotent, the only instructions of Associated Token Account that are allowed",
  // Whatever their data, these two are judged by V20 and V21.
  assertions: () => undefined,
  memos: () => undefined,
};

function opcodeFault(kind: Kind, { index, data }: Found): string | undefined {
  const fault = OPCODE_RULES[kind](data[0], data);
  return fault === undefined ? undefined : `instructions[${index}] ${fault}`;
}
