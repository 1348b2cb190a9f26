/**
 * Wire text becomes a value once, here. Each schema is checked against the hand-written interface of
 * `x402.ts`; unknown keys are dropped, and messages name the field and never echo its content.
 */
import { z } from "zod";
import { parseUint256 } from "./amount.ts";
import type { ErrorCode } from "./error-code.ts";
import { findNetwork } from "./network.ts";
import { payerOf } from "./payment-key.ts";
import { err, ok, refuse, type Refusal, type Result } from "./result.ts";
import { DecodedSolanaPayload, MAX_TRANSACTION_CHARACTERS } from "./solana-transaction.ts";
import {
  EXACT_SCHEME,
  X402_VERSION,
  type EvmPayload,
  type FacilitatorRequest,
  type PaymentPayload,
  type PaymentRequirements,
  type SolanaPayload,
} from "./x402.ts";

/** Longest free text in a requirement (`description`), characters. */
const MAX_TEXT = 8192;
/** Longest `resource`, characters: a public URL, 4,096 of path and 8,192 of query. */
const MAX_RESOURCE = 16_384;
/** Longest signature, hex characters: smart wallets (ERC-1271) pack several signatures into one. */
const MAX_SIGNATURE = 16_384;
/** Deepest nesting of a requirement's free members; the ledger's database reads no more than 1000. */
const MAX_DEPTH = 64;

const uint256 = z
  .string("must be a string of decimal digits")
  .refine((text) => parseUint256(text) !== undefined, "must be decimal digits below 2^256");
const evmAddress = z
  .string("must be a string")
  .regex(/^0x[0-9a-fA-F]{40}$/, "must be 0x and 40 hex digits");
const name = z.string("must be a string").max(128, "is too long");
const text = z.string("must be a string").max(MAX_TEXT, "is too long");
const record = z.record(z.string(), z.unknown(), "must be an object");
const shallowRecord = record.refine((value) => isShallow(value, MAX_DEPTH), "is nested too deep");

/** Section 2.2, EVM. */
const evmPayload = z.object(
  {
    signature: z
      .string("must be a string")
      .max(MAX_SIGNATURE, "is too long")
      .regex(/^0x(?:[0-9a-fA-F]{2})*$/, "must be 0x and whole bytes in hex"),
    authorization: z.object(
      {
        from: evmAddress,
        to: evmAddress,
        value: uint256,
        validAfter: uint256,
        validBefore: uint256,
        nonce: z
          .string("must be a string")
          .regex(/^0x[0-9a-fA-F]{64}$/, "must be 0x and 64 hex digits (32 bytes)"),
      },
      "must be an object",
    ),
  },
  "must be an object",
) satisfies z.ZodType<EvmPayload>;

/** Section 2.2, Solana. The transaction itself is judged by the mechanism. */
const solanaPayload = z.object(
  {
    transaction: z
      .string("must be a string")
      .max(MAX_TRANSACTION_CHARACTERS, "is too long")
      .regex(/^[A-Za-z0-9+/]+={0,2}$/, "must be base64"),
  },
  "must be an object",
) satisfies z.ZodType<SolanaPayload>;

const envelope = z.object(
  { x402Version: z.number("must be a number"), scheme: name, network: name, payload: record },
  "must be an object",
);

/** Section 2.1. `null` for an optional field is read as its absence. */
const paymentRequirements = z
  .object(
    {
      scheme: name,
      network: name,
      maxAmountRequired: uint256,
      asset: name,
      payTo: name,
      resource: z.string("must be a string").max(MAX_RESOURCE, "is too long"),
      description: text,
      mimeType: z.string("must be a string").max(256, "is too long").nullish(),
      outputSchema: shallowRecord.nullish(),
      maxTimeoutSeconds: z
        .int("must be whole seconds")
        .positive("must be positive")
        .max(2 ** 31, "is too large"),
      extra: shallowRecord.nullish(),
    },
    "must be an object",
  )
  .transform(({ mimeType, outputSchema, extra, ...required }): PaymentRequirements => ({
    ...required,
    ...(mimeType == null ? {} : { mimeType }),
    ...(outputSchema == null ? {} : { outputSchema }),
    ...(extra == null ? {} : { extra }),
  }));

/**
 * Reads a payment payload (section 2.2). The shape of `payload` is known only where scheme and network
 * are: elsewhere it stays opaque, and the caller answers `invalid_scheme` or `invalid_network`.
 */
export function parsePaymentPayload(json: unknown): Result<PaymentPayload, Refusal> {
  if (isOfOtherVersion(json)) {
    return refuse("invalid_x402_version", `x402Version must be ${X402_VERSION}`);
  }
  const outer = envelope.safeParse(json);
  if (!outer.success) return refuse("invalid_payload", sentence("payment payload", outer.error));
  return parseInner(outer.data);
}

/** The version says what the rest looks like, so it is judged before anything is missed (section 9). */
function isOfOtherVersion(json: unknown): boolean {
  if (typeof json !== "object" || json === null || !("x402Version" in json)) return false;
  return typeof json.x402Version === "number" && json.x402Version !== X402_VERSION;
}

function parseInner(payment: z.infer<typeof envelope>): Result<PaymentPayload, Refusal> {
  const network = findNetwork(payment.network);
  if (payment.scheme !== EXACT_SCHEME || network === undefined) return ok(payment);
  if (network.kind === "evm") {
    const inner = evmPayload.safeParse(payment.payload);
    if (!inner.success) return refuse("invalid_payload", sentence("payload", inner.error));
    return ok({ ...payment, payload: inner.data });
  }
  const inner = solanaPayload.safeParse(payment.payload);
  if (!inner.success) return refuse("invalid_payload", sentence("payload", inner.error));
  return ok({ ...payment, payload: new DecodedSolanaPayload(inner.data.transaction) });
}

/** Reads one way to pay (section 2.1); undefined where it has not that shape. */
export function parsePaymentRequirements(json: unknown): PaymentRequirements | undefined {
  return paymentRequirements.safeParse(json).data;
}

/** A facilitator request that could not be read: 400, or 200 where it only asks for another version. */
export interface RequestProblem extends Refusal {
  readonly status: 200 | 400;
  /** As far as the request names one, else "". */
  readonly network: string;
  /** Known only for a payment that could be judged (status 200), else "". */
  readonly payer: string;
}

/**
 * Reads the body of `/verify` and `/settle` (sections 4.1, 4.2). A version other than 1 is a judged
 * payment (status 200, `invalid_x402_version`); anything that has not the shape is malformed (400).
 */
export function parseFacilitatorRequest(json: unknown): Result<FacilitatorRequest, RequestProblem> {
  const body = record.safeParse(json);
  if (!body.success) return malformed("invalid_payload", "the body must be a JSON object");

  const payload = envelope.safeParse(body.data["paymentPayload"]);
  if (isOfOtherVersion(body.data) || isOfOtherVersion(body.data["paymentPayload"])) {
    const detail = `x402Version must be ${X402_VERSION}`;
    const network = payload.data?.network ?? "";
    const payer = payload.success ? payerOf(payload.data) : "";
    return err({ status: 200, code: "invalid_x402_version", detail, network, payer });
  }
  if (!payload.success) {
    return malformed("invalid_payload", sentence("paymentPayload", payload.error));
  }
  const { network } = payload.data;
  if (typeof (body.data["x402Version"] ?? X402_VERSION) !== "number") {
    return malformed("invalid_payload", "x402Version must be a number", network);
  }
  const inner = parseInner(payload.data);
  if (!inner.ok)
    return malformed(inner.error.code, `paymentPayload.${inner.error.detail}`, network);
  const wanted = paymentRequirements.safeParse(body.data["paymentRequirements"]);
  if (!wanted.success) {
    const detail = sentence("paymentRequirements", wanted.error);
    return malformed("invalid_payment_requirements", detail, network);
  }
  return ok({ paymentPayload: inner.value, paymentRequirements: wanted.data });
}

function malformed(code: ErrorCode, detail: string, network = ""): Result<never, RequestProblem> {
  return err({ status: 400, code, detail, network, payer: "" });
}

/** `authorization.nonce must be 0x and 64 hex digits`: the first fault, with its path. */
function sentence(root: string, error: z.ZodError): string {
  const issue = error.issues[0];
  if (issue === undefined) return `${root} is malformed`;
  return `${[root, ...issue.path.map(String)].join(".")} ${issue.message}`;
}

function isShallow(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((member) => isShallow(member, levels - 1));
}
