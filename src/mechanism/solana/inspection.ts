/**
 * What only the chain knows of a payment: its lookup tables (V15), and by one simulation whether it would be
 * executed now (V28), why not (V29), and whose tokens it moves (V25).
 */
import { askingTheSeller, err, ok, refuse, type Refusal, type Result } from "../../x402/result.ts";
import { unitsText } from "../../x402/token.ts";
import { ChainError } from "../mechanism.ts";
import { RpcRefusal, type Rpc } from "../rpc.ts";
import {
  readAccounts,
  readTokenAccount,
  TOKEN_ACCOUNT_HEAD_BYTES,
  type TokenAccount,
} from "./accounts.ts";
import { associatedAccount } from "./associated-account.ts";
import type { LookupTables } from "./lookup-tables.ts";
import { judgeResolved, type SolanaAuthorization } from "./payment.ts";
import type { SolanaJudged, RuleOptions } from "./rules.ts";
import { describeFailure, simulate, type Failure, type Simulation } from "./simulation.ts";

/** A payment that would be executed now. */
export interface Simulated {
  readonly judged: SolanaJudged;
  /** What its payer may still take from the source then, atomic units. */
  readonly left: bigint;
}

export interface InspectionOptions {
  readonly rules: RuleOptions;
  readonly tables: Pick<LookupTables, "load">;
  /** Told when a blockhash was seen to be valid at that slot. */
  readonly notedValid: (blockhash: string, slot: number) => void;
}

/** Why a transaction does not even begin, where the account that pays the network fee is the reason. */
const FEE_PAYER_FAILURES: ReadonlySet<string> = new Set([
  "AccountNotFound",
  "InsufficientFundsForFee",
  "InvalidAccountForFee",
]);
const RENT_FAILURE = "InsufficientFundsForRent";
const FEE_PAYER_INDEX = 0;

/** What a token program says of an account that is not there, or is no token account. */
const NO_TOKEN_ACCOUNT: ReadonlySet<string> = new Set([
  "AccountDataTooSmall",
  "IncorrectProgramId",
  "InvalidAccountData",
  "InvalidAccountOwner",
  "UninitializedAccount",
]);
/** Errors of Token and Token-2022 by number, as far as a checked transfer meets them. */
const INSUFFICIENT_FUNDS = 1;
const TOKEN_ERRORS: ReadonlyMap<number, string> = new Map([
  [3, "the source account holds another token"],
  [4, "the payer may not move the source account's tokens"],
  [17, "the payer's or the payee's token account is frozen"],
  [18, "the mint has other decimals"],
]);

/** A node's number for a transaction that it cannot read, or that breaks the runtime's rules; and its words. */
const INVALID_PARAMETERS = -32_602;
const ABOUT_THE_TRANSACTION = /transaction/i;

export class Inspection {
  readonly #options: InspectionOptions;
  constructor(options: InspectionOptions) {
    this.#options = options;
  }

  /**
   * Whether it would be executed. One call;
   * one more for lookup tables that are not known yet, and one more to tell whose token account is missing.
   * @throws {ChainError} `CHAIN_GAS` when the fee payer, ours, cannot pay; another code when the chain cannot
   * be asked
   */
  async inspect(
    rpc: Rpc,
    authorization: SolanaAuthorization,
    signal: AbortSignal,
  ): Promise<Result<Simulated, Refusal>> {
    const judged = await this.#judge(rpc, authorization, signal);
    if (!judged.ok) return judged;
    const { transaction, message } = authorization;
    const { source } = judged.value;
    const { tokens } = this.#options.rules;
    let simulation: Simulation;
    try {
      simulation = await simulate(rpc, transaction.bytes, source, signal);
    } catch (error) {
      // A node's refusal of the transaction as such; any other error is thrown again.
      const isUnfit =
        error instanceof RpcRefusal &&
        error.rpcCode === INVALID_PARAMETERS &&
        ABOUT_THE_TRANSACTION.test(error.rpcMessage);
      if (!isUnfit) throw error;
      return failed(`the network does not take the transaction: ${error.rpcMessage}`);
    }
    const { failure, slot } = simulation;
    if (failure !== null)
      return explain(rpc, { authorization, judged: judged.value, failure }, tokens, signal);
    this.#options.notedValid(message.blockhash, slot);
    const left = this.#judgeSource(simulation, authorization, judged.value);
    return left.ok ? ok({ judged: judged.value, left: left.value }) : left;
  }

  /** Completes the static rules where they need lookup tables, or a mint that was not known before. */
  async #judge(
    rpc: Rpc,
    authorization: SolanaAuthorization,
    signal: AbortSignal,
  ): Promise<Result<SolanaJudged, Refusal>> {
    const { message, demand, judged } = authorization;
    if (judged !== undefined) return ok(judged);
    const { rules, tables } = this.#options;
    if (rules.tokens.get(demand.asset)?.program === null) {
      throw new ChainError("CHAIN_ANSWER", `the mint ${demand.asset} has not been read as yet`);
    }
    const loaded = await tables.load(rpc, message.lookups, signal);
    return judgeResolved(authorization, loaded, rules);
  }

  /** V25. A delegate may move the tokens, and is the payer all the same; but never of an account of ours. */
  #judgeSource(
    { account }: Simulation,
    { demand }: SolanaAuthorization,
    { payer, source, tokenProgram }: SolanaJudged,
  ): Result<bigint, Refusal> {
    const tokens = readTokenAccount(account, tokenProgram);
    if (tokens === undefined || tokens.mint !== demand.asset) {
      const detail = `the simulation does not show ${source} as a token account of the asset`;
      return refuse("invalid_transaction_state", detail);
    }
    if (this.#options.rules.feePayers.has(tokens.owner)) {
      const detail = `the tokens would come from ${source}, which belongs to this facilitator`;
      return refuse("invalid_payload", detail);
    }
    // Of a payer whose tokens are his own nobody asks here: whoever sells does, and pays back.
    if (tokens.owner !== payer && this.#options.rules.isDenied(tokens.owner)) {
      return refuse("invalid_payload", `tokens from ${source} are not taken here; ask the seller`);
    }
    return ok(leftTo(payer, tokens));
  }
}

/** A delegate has what it was allowed, and that is forgotten with its last unit. */
function leftTo(payer: string, { owner, amount, delegate }: TokenAccount): bigint {
  if (owner === payer) return amount;
  if (delegate?.address !== payer) return 0n;
  return delegate.amount < amount ? delegate.amount : amount;
}

interface Failed {
  readonly authorization: SolanaAuthorization;
  readonly judged: SolanaJudged;
  readonly failure: Failure;
}

/** V29: whose fault it is that the simulation fails. */
async function explain(
  rpc: Rpc,
  { authorization, judged, failure }: Failed,
  tokens: RuleOptions["tokens"],
  signal: AbortSignal,
): Promise<Result<never, Refusal>> {
  const { name, instruction, custom, account } = failure;
  if (
    (instruction === undefined && FEE_PAYER_FAILURES.has(name)) ||
    (name === RENT_FAILURE && account === FEE_PAYER_INDEX)
  ) {
    throw new ChainError(
      "CHAIN_GAS",
      `${authorization.feePayer} cannot pay the network fee of ${judged.networkFeeLamports} lamports (${name}); send it SOL`,
    );
  }
  const words = `the simulated transaction fails: ${describeFailure(failure)}`;
  if (instruction === undefined) return failed(`${words}${hintOf(name)}`);
  if (instruction !== judged.transferIndex) return failed(words);
  if (custom === INSUFFICIENT_FUNDS) {
    const { amount, asset } = authorization.demand;
    const wanted = unitsText([amount], tokens.get(asset) ?? { address: asset });
    const detail = `the payer's token account ${judged.source} has less than ${wanted} to give`;
    return refuse("insufficient_funds", detail);
  }
  if (NO_TOKEN_ACCOUNT.has(name)) {
    const missing = await findMissing(rpc, authorization, judged, signal);
    if (missing !== undefined) return err(missing);
  }
  const known = custom === undefined ? undefined : TOKEN_ERRORS.get(custom);
  return failed(known === undefined ? words : `${words}: ${known}`);
}

function hintOf(name: string): string {
  switch (name) {
    case "BlockhashNotFound":
      return "; its blockhash is too old or from another cluster: sign a fresh transaction";
    case "AlreadyProcessed":
      return askingTheSeller(
        "; it has been executed before: sign a fresh transaction for another purchase",
      );
    default:
      return "";
  }
}

/** Undefined where both token accounts are there. */
async function findMissing(
  rpc: Rpc,
  { demand }: SolanaAuthorization,
  { source, tokenProgram }: SolanaJudged,
  signal: AbortSignal,
): Promise<Refusal | undefined> {
  const { asset, payTo } = demand;
  const destination = associatedAccount(payTo, asset, tokenProgram);
  const reading = { commitment: "processed", maxBytes: TOKEN_ACCOUNT_HEAD_BYTES } as const;
  const accounts = await readAccounts(rpc, [source, destination], reading, signal);
  if (readTokenAccount(accounts.get(source), tokenProgram) === undefined) {
    const detail = `the payer has no token account at ${source}, so no tokens to give`;
    return { code: "insufficient_funds", detail };
  }
  if (readTokenAccount(accounts.get(destination), tokenProgram) === undefined) {
    const detail = `the seller's token account ${destination} does not exist; it has to be created for ${payTo} first`;
    return { code: "invalid_transaction_state", detail };
  }
  return undefined;
}

function failed(detail: string): Result<never, Refusal> {
  return refuse("invalid_transaction_state", detail);
}
