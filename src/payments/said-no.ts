/** Refusals as the answers of `/verify` and `/settle` say them. */
import type { Refusal } from "../x402/result.ts";
import type { SettleResponse, VerifyResponse } from "../x402/x402.ts";

export function invalid({ code, detail }: Refusal, payer: string): VerifyResponse {
  return { isValid: false, invalidReason: code, payer, detail };
}

/** A payment that is not settled, for a reason of ours. */
export function failure({ code, detail }: Refusal, network: string, payer: string): SettleResponse {
  return { success: false, errorReason: code, transaction: "", network, payer, detail };
}
