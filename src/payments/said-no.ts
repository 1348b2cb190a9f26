/** Refusals as the answers of `/verify` and `/settle` say them. */
import type { Refusal } from "../x402/result.ts";
import type { SettleResponse, VerifyResponse } from "../x402/x402.ts";

export function invalid({ code, codeV2, detail }: Refusal, payer: string): VerifyResponse {
  return { isValid: false, invalidReason: code, payer, detail, ...(codeV2 && { codeV2 }) };
}

/** A payment that is not settled, for a reason of ours. */
export function failure(
  { code, codeV2, detail }: Refusal,
  network: string,
  payer: string,
): SettleResponse {
  const told = { errorReason: code, transaction: "", network, payer, detail } as const;
  return { success: false, ...told, ...(codeV2 && { codeV2 }) };
}
