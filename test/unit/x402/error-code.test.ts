import { ErrorReasons } from "x402/types";
import { describe, expect, it } from "vitest";
import { ERROR_CODES, isErrorCode } from "../../../src/x402/error-code.ts";

describe("the error codes", () => {
  it("are the fifteen of protocol section 7, in its order", () => {
    expect(ERROR_CODES).toEqual([
      "insufficient_funds",
      "invalid_exact_evm_payload_authorization_valid_after",
      "invalid_exact_evm_payload_authorization_valid_before",
      "invalid_exact_evm_payload_authorization_value",
      "invalid_exact_evm_payload_signature",
      "invalid_exact_evm_payload_recipient_mismatch",
      "invalid_network",
      "invalid_payload",
      "invalid_payment_requirements",
      "invalid_scheme",
      "unsupported_scheme",
      "invalid_x402_version",
      "invalid_transaction_state",
      "unexpected_verify_error",
      "unexpected_settle_error",
    ]);
  });

  it("are all known to the official version 1 clients", () => {
    expect(ErrorReasons).toEqual(expect.arrayContaining([...ERROR_CODES]));
  });

  it("are recognised, and nothing else is", () => {
    expect(ERROR_CODES.every(isErrorCode)).toBe(true);
    const others = ["", "payment_expired", "INVALID_PAYLOAD", "constructor", " invalid_payload"];
    for (const other of [...others, undefined, null, 0, {}, ["invalid_payload"]]) {
      expect(isErrorCode(other)).toBe(false);
    }
  });
});
