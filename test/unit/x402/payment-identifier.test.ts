/** The extension as the official package reads and writes it, and as it is read and written here. */
import {
  declarePaymentIdentifierExtension,
  extractAndValidatePaymentIdentifier,
  generatePaymentId,
  PAYMENT_IDENTIFIER,
  validatePaymentIdentifier,
  validatePaymentIdentifierRequirement,
} from "@x402/extensions/payment-identifier";
import { describe, expect, test } from "vitest";
import { identifierExtension, readIdentifier } from "../../../src/x402/payment-identifier.ts";
import { examplePayment } from "../ledger/example-payment.ts";

const { paymentPayload } = examplePayment(1).request;

/** A payment of version 2 that says that. */
function saying(extensions: Readonly<Record<string, unknown>>) {
  return { ...paymentPayload, x402Version: 2, extensions };
}

/** One that says an identifier as clients do: what was told, and the identifier. */
function named(id: unknown) {
  return saying({ [PAYMENT_IDENTIFIER]: { info: { required: false, id } } });
}

describe("what a quote says", () => {
  test.each(["optional", "required"] as const)("is what official sellers say, %s", (use) => {
    const isRequired = use === "required";
    expect(identifierExtension(use)).toEqual({
      [PAYMENT_IDENTIFIER]: declarePaymentIdentifierExtension(isRequired),
    });
    const told = identifierExtension(use)[PAYMENT_IDENTIFIER];
    expect(validatePaymentIdentifier(told)).toEqual({ valid: true });
    for (const id of [generatePaymentId(), "x".repeat(15)]) {
      const echoed = { ...told, info: { required: isRequired, id } };
      expect(validatePaymentIdentifier(echoed).valid).toBe(id.length > 15);
    }
  });

  test("is nothing where nothing is asked for", () => {
    expect(identifierExtension("off")).toEqual({});
  });
});

describe("the identifier of a payment", () => {
  test.each([
    generatePaymentId(),
    "a".repeat(16),
    "Z_-9".repeat(32),
    "a".repeat(15),
    "a".repeat(129),
    "a".repeat(15).concat("é"),
    "a".repeat(16).concat("\n"),
    "with a space in it",
    "",
    17,
    {},
  ])("is taken where the official package takes it: %j", (id) => {
    const payment = named(id);
    const theirs = extractAndValidatePaymentIdentifier(payment as never);
    const ours = readIdentifier(payment, "optional");
    expect(ours.ok).toBe(theirs.validation.valid);
    if (ours.ok) expect(ours.value).toBe(theirs.id);
    else expect(ours.error.code).toBe("invalid_payload");
    const isTaken = validatePaymentIdentifierRequirement(payment as never, true).valid;
    expect(readIdentifier(payment, "required").ok).toBe(isTaken);
  });

  test.each([
    ["no extension", {}],
    ["another extension", { bazaar: { info: { id: "a".repeat(16) } } }],
    ["no identifier", { [PAYMENT_IDENTIFIER]: { info: { required: true } } }],
    ["null", { [PAYMENT_IDENTIFIER]: { info: { required: true, id: null } } }],
    ["no info", { [PAYMENT_IDENTIFIER]: {} }],
    ["an inherited member", { [PAYMENT_IDENTIFIER]: Object.create({ info: { id: "a" } }) }],
  ])("is missing where there is %s", (_, extensions) => {
    expect(readIdentifier(saying(extensions), "optional")).toEqual({ ok: true, value: undefined });
    expect(readIdentifier(saying(extensions), "required")).toMatchObject({
      ok: false,
      error: { code: "invalid_payload", detail: expect.stringContaining("is required here") },
    });
  });

  test("is ignored where it is not asked for, and in version 1, which has no extensions", () => {
    const nothing = { ok: true, value: undefined };
    for (const id of ["short", "a".repeat(16)]) {
      expect(readIdentifier(named(id), "off")).toEqual(nothing);
      expect(readIdentifier({ ...named(id), x402Version: 1 }, "required")).toEqual(nothing);
    }
  });
});
