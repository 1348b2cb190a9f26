/**
 * What a payment on Solana must be, as far as it can be told without the chain: the requirements (V5 to V9),
 * then the transaction (V12 to V26). A transaction moves money as a whole, so everything in it has to be
 * something that is known; the first rule broken, in the order of the numbers, is the one that is told.
 */
import { parseUint256 } from "../../x402/amount.ts";
import { ok, refuse, type Refusal, type Result } from "../../x402/result.ts";
import { isSolanaAddress } from "../../x402/solana-address.ts";
import type { PaymentRequirements } from "../../x402/x402.ts";
import { creationFault } from "./account-creation.ts";
import { associatedAccount } from "./associated-account.ts";
import { surveyInstructions } from "./instructions.ts";
import { judgeAssertions } from "./lighthouse.ts";
import { memoFault } from "./memo.ts";
import type { Message, ResolvedMessage } from "./message.ts";
import { networkFee } from "./network-fee.ts";
import { readTransfer } from "./token-transfer.ts";

/** A token that is accepted. */
export interface SolanaToken {
  /** The mint, base58. */
  readonly address: string;
  /** As the configuration calls it. */
  readonly symbol: string;
  readonly decimals: number;
  /** The program that owns the mint, base58; null until the start-up checks have read it. */
  readonly program: string | null;
}

/** What the requirements ask for. Addresses in base58. */
export interface Demand {
  /** Atomic units, exactly. */
  readonly amount: bigint;
  readonly payTo: string;
  readonly asset: string;
  /** One of ours. */
  readonly feePayer: string;
  /** Undefined where any memo will do, or none. */
  readonly memo: string | undefined;
}

/** What is served, and at which limits. */
export interface RuleOptions {
  /** By mint. */
  readonly tokens: ReadonlyMap<string, SolanaToken>;
  /** Addresses of ours that pay network fees. */
  readonly feePayers: ReadonlySet<string>;
  /** Null allows every recipient. */
  readonly payTo: ReadonlySet<string> | null;
  /** The most that one transaction may cost us: signatures and priority together. */
  readonly maxFeeLamports: bigint;
  readonly lighthouse: "assertions" | "deny";
  /** Whether tokens of that owner may not pay, whoever may move them. */
  readonly isDenied: (owner: string) => boolean;
}

/** A transaction that gives what was asked for. Addresses in base58. */
export interface SolanaJudged {
  readonly payer: string;
  /** The token account that pays. */
  readonly source: string;
  /** The transfer's place among the instructions, from 0. */
  readonly transferIndex: number;
  /** The most that we can pay. */
  readonly networkFeeLamports: bigint;
  readonly tokenProgram: string;
  /** Whether assertions are in it, which any other payment of the payer may turn into failures. */
  readonly isGuarded: boolean;
  /** What they want our fee payer to keep, lamports; 0 where they ask for nothing. */
  readonly feePayerKeeps: bigint;
}

/** The largest amount that a token account can hold: 2^64 - 1. */
const MAX_UINT64 = 2n ** 64n - 1n;
/** The fee payer and the payer: nobody else has anything to sign for. */
const SIGNATURES = 2;

/**
 * What the requirements ask for, V5 to V9 as far as they need no chain. A memo of no text asks for nothing:
 * the official clients take it so. Refusal: `invalid_payment_requirements`.
 * @param options null for what others served, or we did once: whatever token, recipient and fee payer it names
 */
export function readDemand(
  { maxAmountRequired, payTo, asset, extra }: PaymentRequirements,
  options: RuleOptions | null,
): Result<Demand, Refusal> {
  const amount = readAmount(maxAmountRequired);
  if (amount === undefined) {
    return unfit(
      `maxAmountRequired must be a whole number of atomic units from 1 to ${MAX_UINT64}, in digits only and without a leading zero`,
    );
  }
  for (const [name, address] of Object.entries({ payTo, asset })) {
    if (!isSolanaAddress(address)) return unfit(`${name} is not a Solana address`);
  }
  const feePayer = extra?.["feePayer"];
  if (typeof feePayer !== "string" || options?.feePayers.has(feePayer) === false) {
    return unfit(
      "extra.feePayer is not an address of this facilitator; GET /supported tells which must stand there",
    );
  }
  const notServed = options === null ? undefined : servingFault(asset, payTo, options);
  if (notServed !== undefined) return unfit(notServed);
  const memo = readMemo(extra?.["memo"]);
  if (memo === null) return unfit("extra.memo is not a string");
  return ok({ amount, payTo, asset, feePayer, memo });
}

/** Undefined where no memo is asked for, null where what is asked for is no text. */
function readMemo(memo: unknown): string | undefined | null {
  if (memo === undefined || memo === "") return undefined;
  return typeof memo === "string" ? memo : null;
}

/** V5. A transfer of nothing is not worth the network fee that we would pay for it. */
function readAmount(text: string): bigint | undefined {
  const amount = parseUint256(text);
  return amount === undefined || amount === 0n || amount > MAX_UINT64 ? undefined : amount;
}

/** V8 and V9. */
function servingFault(asset: string, payTo: string, options: RuleOptions): string | undefined {
  if (!options.tokens.has(asset)) return NOT_SERVED;
  if (options.payTo === null || options.payTo.has(payTo)) return undefined;
  return "payTo is not a recipient that is served here";
}

const NOT_SERVED = "asset is not one that is served on this network";

/**
 * Judges a transaction by V12 to V26, but for what needs the chain and for the payer's signature. Refusals:
 * `invalid_payload`; and `unexpected_verify_error` as long as the asset's mint has not been read.
 */
export function judge(
  message: ResolvedMessage,
  demand: Demand,
  options: RuleOptions,
): Result<SolanaJudged, Refusal> {
  const { asset, payTo, amount } = demand;
  const token = options.tokens.get(asset);
  if (token === undefined) return unfit(NOT_SERVED);
  const tokenProgram = token.program;
  if (tokenProgram === null) {
    return refuse("unexpected_verify_error", `the mint ${asset} has not been read as yet`);
  }
  const signers = readSigners(message, demand.feePayer);
  if (!signers.ok) return signers;
  const { payer } = signers.value;

  const survey = surveyInstructions(message, options.feePayers);
  if (!survey.ok) return broken(survey.error);
  const { budgets, transfers, memos, assertions, creations } = survey.value;

  const fee = networkFee(message, budgets, options.maxFeeLamports);
  if (!fee.ok) return broken(fee.error);

  const destination = associatedAccount(payTo, asset, tokenProgram);
  const asserted = {
    feePayer: demand.feePayer,
    payer,
    // Derived where it is asked for only, since that takes its time.
    payerTokens: () => associatedAccount(payer, asset, tokenProgram),
    destination,
  };
  const keeps = judgeAssertions(assertions, options.lighthouse, asserted);
  if (!keeps.ok) return broken(keeps.error);
  const fault =
    memoFault(memos, demand.memo, payer) ??
    creationFault(creations, { payer, payTo, asset, tokenProgram, destination });
  if (fault !== undefined) return broken(fault);

  const expected = { payer, token, tokenProgram, destination, amount };
  const transfer = readTransfer(transfers, expected);
  if (!transfer.ok) return broken(transfer.error);

  const { source, index } = transfer.value;
  for (const feePayer of options.feePayers) {
    if (associatedAccount(feePayer, asset, tokenProgram) === source) {
      return broken(`the tokens would come from ${source}, which belongs to this facilitator`);
    }
  }
  return ok({
    payer,
    source,
    transferIndex: index,
    networkFeeLamports: fee.value,
    tokenProgram,
    isGuarded: assertions.length > 0,
    feePayerKeeps: keeps.value,
  });
}

/** V12 and V13. */
function readSigners(message: Message, feePayer: string): Result<{ payer: string }, Refusal> {
  const { keys, requiredSignatures } = message;
  const [first, payer] = keys;
  if (first !== feePayer) {
    return broken(
      `account 0, which pays the network fee, is ${first}; it must be extra.feePayer, ${feePayer}`,
    );
  }
  if (requiredSignatures !== SIGNATURES || payer === undefined) {
    return broken(
      `the transaction requires ${requiredSignatures} signatures; exactly ${SIGNATURES} are allowed, the fee payer's and the payer's`,
    );
  }
  return ok({ payer });
}

function unfit(detail: string): Result<never, Refusal> {
  return refuse("invalid_payment_requirements", detail);
}

function broken(detail: string): Result<never, Refusal> {
  return refuse("invalid_payload", detail);
}
