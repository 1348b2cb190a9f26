/**
 * What only the chain knows (protocol section 4.1, steps 2 and 6): one `aggregate3` at `pending`
 * reads the payer's balance and the nonce's state, finds whether the token asks code of the payer's about
 * the signature, and simulates the transfer.
 */
import { askingTheSeller, err, ok, refuse, type Refusal, type Result } from "../../x402/result.ts";
import { unitsText } from "../../x402/token.ts";
import { ChainError } from "../mechanism.ts";
import { RpcRefusal, type Rpc } from "../rpc.ts";
import {
  decodeAggregate3,
  encodeAggregate3,
  parseHexData,
  readWord,
  revertText,
  toQuantity,
  WORD,
  type CallResult,
  type ContractCall,
} from "./abi.ts";
import type { EvmCheckedAuthorization } from "./authorization.ts";
import {
  authorizationDigest,
  authorizationStateCall,
  balanceOfCall,
  IMPOSSIBLE_SIGNATURE,
  impossibleCancelCall,
  IS_VALID_SIGNATURE,
  isValidSignatureCall,
  transferCall,
} from "./token.ts";

/** Where Multicall3 lives on every network. */
export const MULTICALL3_ADDRESS = "0xcA11bde05977b3631167028862bE2a173976CA11";

/**
 * What tokens say when they revert, in the order in which the wire judges. The texts are FiatToken's;
 * a token with others is refused as `invalid_transaction_state` with its own words as detail.
 */
const REVERTS: readonly (readonly [RegExp, Refusal["code"]])[] = [
  [/invalid signature|ECRecover/i, "invalid_exact_evm_payload_signature"],
  [/authorization is expired/i, "invalid_exact_evm_payload_authorization_valid_before"],
  [/not yet valid/i, "invalid_exact_evm_payload_authorization_valid_after"],
  [/exceeds balance/i, "insufficient_funds"],
];

export const NONCE_USED: Refusal = {
  code: "invalid_transaction_state",
  detail: askingTheSeller("the authorization's nonce is used or cancelled"),
};

/** A node's words for a call that reverted or ran out of gas as a whole. */
export const EXECUTION_FAILED = /revert|out ?of ?gas/i;

/** Of a payment that can be paid as far as the simulation tells. */
export interface EvmJudged {
  /** What the payer has, atomic units. */
  readonly balanceAtomic: bigint;
  /** False where the token runs no code of the payer's, for certain; it may have none where this is true. */
  readonly mayRunCode: boolean;
}

/**
 * Asks once. The simulation runs under the gas limit of the real transaction, so that a payer's contract
 * that would burn it is refused here.
 * @throws {ChainError} when the chain cannot be asked
 */
export async function inspect(
  rpc: Rpc,
  authorization: EvmCheckedAuthorization,
  gasLimit: bigint,
  signal: AbortSignal,
): Promise<Result<EvmJudged, Refusal>> {
  const calls = [...readsOf(authorization), transferOf(authorization)];
  const results = await aggregate(rpc, { calls, gasLimit }, signal);
  if (results === undefined) return OUT_OF_GAS;
  return judge(rpc, authorization, results.slice(0, READS), results[READS]);
}

/** What is known of a payment whose signature is no key's of the payer's. */
export interface InspectedWallet {
  readonly judged: Result<EvmJudged, Refusal>;
  /**
   * What the payer's code says of the signature. `silent`: nothing at all, as where there is no code; `unasked`: the
   * gas was gone before.
   */
  readonly signature: "accepted" | "refused" | "silent" | "unasked";
}

/**
 * Asks once, of a payer that may be a contract: as {@link inspect}, and after it, so that nothing of it can change
 * what is simulated, whether the payer takes the signature for its own, as the token asks (ERC-1271). There is gas
 * for both.
 * @throws {ChainError} when the chain cannot be asked
 */
export async function inspectWallet(
  rpc: Rpc,
  authorization: EvmCheckedAuthorization,
  gasLimit: bigint,
  signal: AbortSignal,
): Promise<InspectedWallet> {
  const { token, words, signature, from } = authorization;
  const callData = isValidSignatureCall(authorizationDigest(token, words), signature);
  const asked = { target: from, callData };
  const calls = [...readsOf(authorization), transferOf(authorization), asked];
  const results = await aggregate(rpc, { calls, gasLimit: 2n * gasLimit }, signal);
  if (results === undefined) return { judged: OUT_OF_GAS, signature: "unasked" };
  const judged = judge(rpc, authorization, results.slice(0, READS), results[READS]);
  return { judged, signature: signatureWord(results[READS + 1]) };
}

function signatureWord(answer: CallResult | undefined): InspectedWallet["signature"] {
  if (answer?.success !== true) return "refused";
  if (answer.returnData === "") return "silent";
  const isAccepted = answer.returnData.slice(0, WORD) === IS_VALID_SIGNATURE.padEnd(WORD, "0");
  return isAccepted ? "accepted" : "refused";
}

const OUT_OF_GAS = refuse("invalid_transaction_state", "the simulated transfer runs out of gas");

function transferOf({ token, words, signature, proven }: EvmCheckedAuthorization): ContractCall {
  return { target: token.address, callData: transferCall(words, signature, proven) };
}

interface Aggregate {
  readonly calls: readonly ContractCall[];
  /** For all of them. */
  readonly gasLimit: bigint;
}

/** Undefined where the gas does not last. */
async function aggregate(
  rpc: Rpc,
  { calls, gasLimit }: Aggregate,
  signal: AbortSignal,
): Promise<readonly CallResult[] | undefined> {
  const data = `0x${encodeAggregate3(calls)}`;
  const call = { to: MULTICALL3_ADDRESS, data, gas: toQuantity(gasLimit) };
  try {
    // At `latest` an idle chain has an old clock and refuses good payments.
    const answer = await rpc.call("eth_call", [call, "pending"], signal);
    return decodeAggregate3(parseHexData(answer) ?? "") ?? [];
  } catch (error) {
    if (!(error instanceof RpcRefusal) || !EXECUTION_FAILED.test(error.rpcMessage)) throw error;
    return undefined;
  }
}

/**
 * Asks once about several payments of different payers: all reads, then all transfers. The verdicts are
 * in the order of the payments; undefined, where it takes a call of its own to tell: a payer's code (EIP-7702) may
 * have burnt the gas of the others. What was read before all transfers is nobody else's doing.
 * @throws {ChainError} when the chain cannot be asked, or refuses the call as a whole
 */
export async function inspectTogether(
  rpc: Rpc,
  authorizations: readonly EvmCheckedAuthorization[],
  gasLimit: bigint,
  signal: AbortSignal,
): Promise<readonly (Result<EvmJudged, Refusal> | undefined)[]> {
  const reads = authorizations.flatMap(readsOf);
  const transfers = authorizations.map(transferOf);
  const data = encodeAggregate3([...reads, ...transfers]);
  const gas = toQuantity(gasLimit * BigInt(authorizations.length));
  const call = { to: MULTICALL3_ADDRESS, data: `0x${data}`, gas };
  const answer = await rpc.call("eth_call", [call, "pending"], signal);
  const results = decodeAggregate3(parseHexData(answer) ?? "") ?? [];
  return authorizations.map((authorization, index) => {
    const answers = results.slice(READS * index, READS * (index + 1));
    const transfer = results[reads.length + index];
    if (transfer === undefined) throw unanswered(rpc);
    const read = judgeReads(rpc, authorization, answers);
    if (read.ok) return transfer.success ? read : undefined;
    // The signature is told before the rest, and code of the payer's may refuse it.
    const [, , impossible] = answers;
    const isCertain =
      read.error.code !== "invalid_payment_requirements" &&
      impossible !== undefined &&
      !mayRunCode(impossible);
    return isCertain ? read : undefined;
  });
}

/** Answers of {@link readsOf} for each payment. */
const READS = 3;

function readsOf({ token, from, nonce }: EvmCheckedAuthorization): readonly ContractCall[] {
  const target = token.address;
  return [
    { target, callData: balanceOfCall(from) },
    { target, callData: authorizationStateCall(from, nonce) },
    { target, callData: impossibleCancelCall(from) },
  ];
}

function unanswered(rpc: Rpc): ChainError {
  return new ChainError(
    "CHAIN_ANSWER",
    `${rpc.host}: Multicall3 at ${MULTICALL3_ADDRESS} did not answer`,
  );
}

/** In the order of the wire: signature, balance, then whatever else makes the transfer fail. */
function judge(
  rpc: Rpc,
  authorization: EvmCheckedAuthorization,
  reads: readonly CallResult[],
  transfer: CallResult | undefined,
): Result<EvmJudged, Refusal> {
  if (!transfer) throw unanswered(rpc);
  const simulated = transfer.success
    ? ok(undefined)
    : refuseTransfer(revertText(transfer.returnData));
  if (!simulated.ok && simulated.error.code === "invalid_exact_evm_payload_signature") {
    return simulated;
  }
  const read = judgeReads(rpc, authorization, reads);
  return read.ok && !simulated.ok ? simulated : read;
}

/** As far as the answers to {@link readsOf} tell. */
function judgeReads(
  rpc: Rpc,
  { token, value }: EvmCheckedAuthorization,
  reads: readonly CallResult[],
): Result<EvmJudged, Refusal> {
  const [balanceRead, stateRead, impossible] = reads;
  if (!balanceRead || !stateRead || !impossible) throw unanswered(rpc);
  const balance = soleWord(balanceRead);
  const used = soleWord(stateRead);
  // A call to an address without code succeeds with no data.
  if (balance === undefined || used === undefined) {
    const detail = `there is no EIP-3009 token at ${token.asset.address}`;
    return refuse("invalid_payment_requirements", detail);
  }
  if (balance < value) {
    const detail = `the payer holds ${unitsText([balance, value], token.asset)}`;
    // This very payment may be what the rest was spent on.
    return refuse("insufficient_funds", used === 0n ? detail : askingTheSeller(detail));
  }
  if (used !== 0n) return err(NONCE_USED);
  return ok({ balanceAtomic: balance, mayRunCode: mayRunCode(impossible) });
}

function mayRunCode({ success, returnData }: CallResult): boolean {
  return success || revertText(returnData) !== IMPOSSIBLE_SIGNATURE;
}

/** @param text what the token said when it reverted, "" where it said nothing */
export function refuseTransfer(text: string): Result<never, Refusal> {
  const code = REVERTS.find(([pattern]) => pattern.test(text))?.[1] ?? "invalid_transaction_state";
  return refuse(code, `the token refuses the transfer: ${text === "" ? "no reason given" : text}`);
}

export function soleWord({ success, returnData }: CallResult): bigint | undefined {
  return success && returnData.length === WORD ? readWord(returnData, 0) : undefined;
}
