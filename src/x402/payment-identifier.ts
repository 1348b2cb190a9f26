/**
 * The extension `payment-identifier` of version 2: a client names its purchase, and whoever signs anew for one that may
 * be paid already is not charged twice. What is repeated of `required` is not looked at: where that has changed since
 * the quote, a repeated purchase is still the same.
 */
import { memberOf } from "./json.ts";
import { ok, refuse, type Refusal, type Result } from "./result.ts";
import type { ExtensionsV2 } from "./version-2.ts";
import { X402_VERSION_2, type PaymentPayload } from "./x402.ts";

/** Its name among the extensions. */
export const PAYMENT_IDENTIFIER = "payment-identifier";

/** Whether a client may say what it calls its purchase, or has to. */
export const IDENTIFIER_USES = ["off", "optional", "required"] as const;

export type IdentifierUse = (typeof IDENTIFIER_USES)[number];

/** Characters. */
const MIN_LENGTH = 16;
const MAX_LENGTH = 128;
const PATTERN = "^[a-zA-Z0-9_-]+$";
const IDENTIFIER = new RegExp(`^[a-zA-Z0-9_-]{${MIN_LENGTH},${MAX_LENGTH}}$`);

/** JSON Schema 2020-12 of what a payment says, as official sellers have it. */
const SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: {
    required: { type: "boolean" },
    id: { type: "string", minLength: MIN_LENGTH, maxLength: MAX_LENGTH, pattern: PATTERN },
  },
  required: ["required"],
};

/** What a quote says of it. */
export function identifierExtension(use: IdentifierUse): ExtensionsV2 {
  if (use === "off") return {};
  return { [PAYMENT_IDENTIFIER]: { info: { required: use === "required" }, schema: SCHEMA } };
}

/** The identifier that a payment brings; undefined where it brings none, or is asked for none. */
export function readIdentifier(
  { x402Version, extensions }: PaymentPayload,
  use: IdentifierUse,
): Result<string | undefined, Refusal> {
  // Of version 1 a payment has nowhere to say it.
  if (use === "off" || x402Version !== X402_VERSION_2) return ok(undefined);
  const id = memberOf(memberOf(memberOf(extensions, PAYMENT_IDENTIFIER), "info"), "id") ?? null;
  const place = `extensions.${PAYMENT_IDENTIFIER}.info.id`;
  if (id === null) {
    return use === "required"
      ? refuse("invalid_payload", `${place} is required here`)
      : ok(undefined);
  }
  if (typeof id === "string" && IDENTIFIER.test(id)) return ok(id);
  const form = `${MIN_LENGTH} to ${MAX_LENGTH} letters, digits, _ and -`;
  return refuse("invalid_payload", `${place} must be ${form}`);
}
