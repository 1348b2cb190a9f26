/**
 * The most that a transaction can cost its fee payer (V18, V19). The price of a compute unit says little: what
 * counts is the sum, so the sum is what is capped.
 */
import { err, ok, type Result } from "../../x402/result.ts";
import { SET_LOADED_ACCOUNTS, SET_UNIT_LIMIT, SET_UNIT_PRICE } from "./instructions.ts";
import type { NetworkFee } from "../mechanism.ts";
import type { Found, Message } from "./message.ts";
import { COMPUTE_BUDGET_PROGRAM } from "./programs.ts";

/** A ComputeBudget instruction. */
type Budget = Pick<Found, "index" | "data">;

/** What each signature costs. */
const LAMPORTS_PER_SIGNATURE = 5_000n;
/** Prices are in millionths of a lamport. */
const MICRO_LAMPORTS = 1_000_000n;
/** The runtime grants fewer units to a transaction that states no limit, and never more than these. */
const MAX_UNIT_LIMIT = 1_400_000n;

/** Exact lengths of the ComputeBudget instructions that are allowed, bytes. */
const DATA_BYTES: ReadonlyMap<number, number> = new Map([
  [SET_UNIT_LIMIT, 5],
  [SET_UNIT_PRICE, 9],
  [SET_LOADED_ACCOUNTS, 5],
]);

/**
 * The network fee in lamports, at most, or a sentence on why it is refused. `budgets` are the ComputeBudget
 * instructions of the message.
 */
export function networkFee(
  message: Message,
  budgets: readonly Budget[],
  maxFeeLamports: bigint,
): Result<bigint, string> {
  const priority = priorityFee(message, budgets);
  if (!priority.ok) return priority;
  const signatures = BigInt(message.requiredSignatures) * LAMPORTS_PER_SIGNATURE;
  const fee = signatures + priority.value;
  if (fee <= maxFeeLamports) return ok(fee);
  return err(
    `the network fee of up to ${fee} lamports (${signatures} for signatures, up to ${priority.value} for priority) exceeds the cap of ${maxFeeLamports}`,
  );
}

/** What a transaction that was found good costs once it is in a block, whatever it did there. */
export function feeInBlock(message: Message): NetworkFee | undefined {
  const budgets = message.instructions.flatMap(({ program, data }, index) =>
    message.keys[program] === COMPUTE_BUDGET_PROGRAM ? [{ index, data }] : [],
  );
  const priority = priorityFee(message, budgets);
  if (!priority.ok) return undefined;
  const signatures = BigInt(message.requiredSignatures) * LAMPORTS_PER_SIGNATURE;
  return { atomic: signatures + priority.value, priorityAtomic: priority.value };
}

function priorityFee(message: Message, budgets: readonly Budget[]): Result<bigint, string> {
  return message.version === 1 ? statedFee(message, budgets) : budgetedFee(budgets);
}

/**
 * Version 1 states its priority fee itself, and the runtime ignores ComputeBudget instructions there. Whoever
 * puts some in believes in limits that do not hold, so they are refused rather than ignored as well.
 */
function statedFee({ config }: Message, budgets: readonly Budget[]): Result<bigint, string> {
  const [budget] = budgets;
  if (budget !== undefined) {
    return err(
      `instructions[${budget.index}] calls ComputeBudget, which does nothing in a transaction of version 1; set limits and priority fee in its configuration`,
    );
  }
  if (config !== null && config.heapBytes !== null) {
    return err(
      `the transaction asks for a heap of ${config.heapBytes} bytes; none may be asked for`,
    );
  }
  return ok(config?.priorityFeeLamports ?? 0n);
}

/** Unit limit times unit price, rounded up as the runtime does. */
function budgetedFee(budgets: readonly Budget[]): Result<bigint, string> {
  const seen = new Set<number>();
  let limit = MAX_UNIT_LIMIT;
  let price = 0n;
  for (const { index, data } of budgets) {
    const [opcode = 0] = data;
    const bytes = DATA_BYTES.get(opcode);
    if (data.length !== bytes) {
      return err(
        `instructions[${index}], ComputeBudget instruction ${opcode}, has ${data.length} bytes of data; it must have ${bytes}`,
      );
    }
    if (seen.has(opcode)) {
      return err(
        `instructions[${index}] repeats ComputeBudget instruction ${opcode}; 1 is allowed`,
      );
    }
    seen.add(opcode);
    const view = new DataView(data.buffer, data.byteOffset, data.length);
    if (opcode === SET_UNIT_LIMIT) limit = BigInt(view.getUint32(1, true));
    if (opcode === SET_UNIT_PRICE) price = view.getBigUint64(1, true);
  }
  return ok((limit * price + MICRO_LAMPORTS - 1n) / MICRO_LAMPORTS);
}
