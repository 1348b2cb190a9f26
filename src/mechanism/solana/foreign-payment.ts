/**
 * Payments that are not ours to judge: others accepted them, or an earlier life of ours did under another
 * configuration. What they may be like was up to whoever accepted them; whether they pay what was asked was not.
 */
import type { Confirmation, Question } from "../mechanism.ts";
import type { RpcEndpoints } from "../rpc-endpoints.ts";
import { associatedAccount } from "./associated-account.ts";
import type { LookupTables } from "./lookup-tables.ts";
import { resolve, type Instruction, type ResolvedMessage } from "./message.ts";
import type { SolanaAuthorization } from "./payment.ts";
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from "./programs.ts";
import type { Demand } from "./rules.ts";
import type { Tracker } from "./tracker.ts";

/** TransferChecked: one byte of kind, eight of amount, one of decimals. */
const TRANSFER_CHECKED = 12;
const TRANSFER_BYTES = 10;
const AMOUNT_OFFSET = 1;

export interface ReconcilerOptions {
  readonly endpoints: RpcEndpoints;
  readonly tracker: Pick<Tracker, "reconcile">;
  readonly tables: Pick<LookupTables, "load">;
}

/** Looks for payments that others settle. */
export class Reconciler {
  readonly #options: ReconcilerOptions;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
  }

  /**
   * See `Observer.reconcile`: on the chain, and a transfer of what was asked for.
   * @throws {ChainError} when the chain cannot be asked
   */
  async reconcile(
    authorization: SolanaAuthorization,
    question: Question,
    signal: AbortSignal,
  ): Promise<Confirmation> {
    const { endpoints, tracker, tables } = this.#options;
    const said = await tracker.reconcile(authorization, question, signal);
    if (said.kind !== "confirmed") return said;
    const paid = { ...said, sender: authorization.feePayer };
    if (authorization.judged !== undefined) return paid;
    const { message, demand } = authorization;
    const { lookups } = message;
    const loaded =
      lookups.length === 0
        ? new Map<string, readonly string[]>()
        : await endpoints.run((rpc) => tables.load(rpc, lookups, signal), signal);
    const resolved = resolve(message, loaded);
    if (resolved === undefined) return UNREADABLE;
    // Whether some transfer pays payTo at least the amount.
    return resolved.instructions.some((instruction) => isWanted(resolved, instruction, demand))
      ? paid
      : NOT_ASKED;
  }
}

const UNREADABLE: Confirmation = {
  kind: "unknown",
  detail: "the transaction is on the chain, but its lookup tables cannot be read",
};
const NOT_ASKED: Confirmation = {
  kind: "failed",
  refusal: {
    code: "invalid_transaction_state",
    detail: "the transaction is on the chain, and does not pay what was asked for",
  },
  retriable: false,
};

function isWanted(
  { accounts: keys }: ResolvedMessage,
  { program, accounts, data }: Instruction,
  { payTo, asset, amount }: Demand,
): boolean {
  const tokenProgram = keys[program];
  if (tokenProgram !== TOKEN_PROGRAM && tokenProgram !== TOKEN_2022_PROGRAM) return false;
  if (data[0] !== TRANSFER_CHECKED || data.length < TRANSFER_BYTES) return false;
  const [, mint, destination] = Array.from(accounts, (index) => keys[index]);
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  return (
    mint === asset &&
    destination === associatedAccount(payTo, asset, tokenProgram) &&
    view.getBigUint64(AMOUNT_OFFSET, true) >= amount
  );
}
