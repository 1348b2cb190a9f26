/**
 * Wire text becomes a value once, here. Each schema is checked against the hand-written interface of
 * `x402.ts`; unknown keys are dropped, and messages name the field and never echo its content.
 */
import { z } from "zod";
import { parseUint256 } from "./amount.ts";
import type { ErrorCode } from "./error-code.ts";
import { memberOf } from "./json.ts";
import { findNetwork } from "./network.ts";
import { payerOf } from "./payment-key.ts";
import { err, ok, refuse, type Refusal, type Result } from "./result.ts";
import { DecodedSolanaPayload, MAX_TRANSACTION_CHARACTERS } from "./solana-transaction.ts";
import {
  caip2Of,
  nameOfCaip2,
  requirementsOf,
  type RequirementsV2,
  type ResourceV2,
} from "./version-2.ts";
import {
  EXACT_SCHEME,
  X402_VERSION,
  X402_VERSION_2,
  type EvmPayload,
  type FacilitatorRequest,
  type PaymentPayload,
  type PaymentRequirements,
  type SolanaPayload,
  type X402Version,
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

const seconds = z
  .int("must be whole seconds")
  .positive("must be positive")
  .max(2 ** 31, "is too large");

/** Section 2.1. `null` for an optional field is read as its absence. */
const requirementsV1 = z
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
      maxTimeoutSeconds: seconds,
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

/** Version 2, section 5.1.2. */
const requirementsV2 = z
  .object(
    {
      scheme: name,
      network: name,
      amount: uint256,
      asset: name,
      payTo: name,
      maxTimeoutSeconds: seconds,
      extra: shallowRecord.nullish(),
    },
    "must be an object",
  )
  .transform(({ extra, ...required }): RequirementsV2 => ({
    ...required,
    ...(extra == null ? {} : { extra }),
  }));

/** Nobody has signed for it: what cannot be read of it is nothing. */
const resourceV2 = z
  .object({
    url: z.string().max(MAX_RESOURCE),
    description: text.nullish().catch(undefined),
    mimeType: z.string().max(256).nullish().catch(undefined),
  })
  .transform(({ url, description, mimeType }): ResourceV2 => ({
    url,
    ...(description == null ? {} : { description }),
    ...(mimeType == null ? {} : { mimeType }),
  }))
  .nullish()
  .catch(undefined);

/** Section 2.2. */
const bareV1 = z.object(
  { x402Version: z.number("must be a number"), scheme: name, network: name, payload: record },
  "must be an object",
);
const payloadV1 = bareV1.transform((payment): ToldEnvelope => ({ payment }));

/** The same as it is kept: of whichever version. */
const storedPayload = bareV1
  .extend({ extensions: record.optional() })
  .transform(({ extensions, ...payment }): ToldEnvelope => ({
    payment: { ...payment, ...(extensions !== undefined && { extensions }) },
  }));

/** Version 2, section 5.2. */
const payloadV2 = z
  .object(
    {
      x402Version: z.number("must be a number"),
      accepted: requirementsV2,
      payload: record,
      resource: resourceV2,
      extensions: shallowRecord.nullish(),
    },
    "must be an object",
  )
  .transform(({ accepted, payload, resource, extensions }): ToldEnvelope => ({
    payment: {
      x402Version: X402_VERSION_2,
      scheme: accepted.scheme,
      network: nameOfCaip2(accepted.network),
      payload,
      ...(extensions != null && { extensions }),
    },
    accepted,
    resource,
  }));

const PAYLOADS = { [X402_VERSION]: payloadV1, [X402_VERSION_2]: payloadV2 } as const;

/** A payment in the shape of version 1, and what version 2 says beside it. */
interface ToldEnvelope {
  /** Its `payload` is of any shape yet. */
  readonly payment: PaymentPayload;
  readonly accepted?: RequirementsV2;
  readonly resource?: ResourceV2 | null | undefined;
}

/** A payment as it came. */
export interface Envelope {
  readonly payment: PaymentPayload;
  /** Version 2: the way to pay that its client has chosen. */
  readonly accepted?: RequirementsV2;
}

/**
 * Reads a payment payload (section 2.2; version 2, section 5.2). The shape of `payload` is known only where scheme and
 * network are: elsewhere it stays opaque, and the caller answers `invalid_scheme` or `invalid_network`.
 */
export function parsePaymentPayload(
  json: unknown,
  version: X402Version,
): Result<Envelope, Refusal> {
  if (isOfOtherVersion(json, version)) {
    return refuse("invalid_x402_version", `x402Version must be ${version}`);
  }
  const told = PAYLOADS[version].safeParse(json);
  if (!told.success) return refuse("invalid_payload", sentence("payment payload", told.error));
  const { accepted } = told.data;
  const payment = parseInner(told.data);
  if (!payment.ok) return payment;
  return ok({ payment: payment.value, ...(accepted !== undefined && { accepted }) });
}

/** The version says what the rest looks like, so it is judged before anything is missed (section 9). */
function isOfOtherVersion(json: unknown, version: X402Version): boolean {
  if (typeof json !== "object" || json === null || !("x402Version" in json)) return false;
  return typeof json.x402Version === "number" && json.x402Version !== version;
}

function parseInner({ payment }: ToldEnvelope): Result<PaymentPayload, Refusal> {
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
  return requirementsV1.safeParse(json).data;
}

/** A facilitator request that could not be read: 400, or 200 where it only asks for another version. */
export interface RequestProblem extends Refusal {
  readonly status: 200 | 400;
  /** The version in which it has to be told. */
  readonly version: X402Version;
  /** As far as the request names one, else "". */
  readonly network: string;
  /** Known only for a payment that could be judged (status 200), else "". */
  readonly payer: string;
}

/**
 * Reads the body of `/verify` and `/settle` (sections 4.1, 4.2; version 2, section 7) by the version of its payment. One
 * that is neither, or another than the body's, is a judged payment (status 200, `invalid_x402_version`); anything that
 * has not the shape is malformed (400).
 */
export function parseFacilitatorRequest(json: unknown): Result<FacilitatorRequest, RequestProblem> {
  const body = record.safeParse(json);
  if (!body.success) return malformed("invalid_payload", "the body must be a JSON object");
  const { paymentPayload: payload } = body.data;
  if (isVersion2(body.data)) return parseRequestV2(body.data);
  if (isOfOtherVersion(payload, X402_VERSION) || isOfOtherVersion(body.data, X402_VERSION)) {
    const told = payloadV1.safeParse(payload).data?.payment;
    const detail = "x402Version must be 1 or 2, the same in the payment and beside it";
    return err({
      status: 200,
      version: X402_VERSION,
      code: "invalid_x402_version",
      detail,
      network: told?.network ?? "",
      payer: told === undefined ? "" : payerOf(told),
    });
  }
  return requestV1(body.data, payloadV1);
}

/** A request as it is kept behind the edge: in the shapes of version 1, of whichever version its payment is. */
export function parseStoredRequest(json: unknown): Result<FacilitatorRequest, Refusal> {
  const body = record.safeParse(json);
  if (!body.success) return malformed("invalid_payload", "the body must be a JSON object");
  return requestV1(body.data, storedPayload);
}

function requestV1(
  body: Body,
  payload: z.ZodType<ToldEnvelope>,
): Result<FacilitatorRequest, RequestProblem> {
  const read = readRequest(body, X402_VERSION, payload, requirementsV1);
  if (!read.ok) return read;
  const { payment: paymentPayload, wanted: paymentRequirements } = read.value;
  return ok({ paymentPayload, paymentRequirements });
}

/** What has the shape of version 1, or says so beside the payment, is told in its words that it is of another one. */
function isVersion2({ x402Version, paymentPayload }: Body): boolean {
  if (memberOf(paymentPayload, "x402Version") !== X402_VERSION_2) return false;
  const isOfOther = typeof x402Version === "number" && x402Version !== X402_VERSION_2;
  const isOlder =
    typeof memberOf(paymentPayload, "scheme") === "string" &&
    memberOf(paymentPayload, "accepted") === undefined;
  return !isOfOther && !isOlder;
}

function parseRequestV2(body: Body): Result<FacilitatorRequest, RequestProblem> {
  const version = X402_VERSION_2;
  const read = readRequest(body, version, payloadV2, requirementsV2);
  if (!read.ok) return read;
  const { told, payment: paymentPayload, wanted } = read.value;
  for (const network of [told.accepted?.network ?? "", wanted.network]) {
    // A name of version 1 says in version 2 nothing, though it is one that we know.
    if (caip2Of(nameOfCaip2(network)) === network) continue;
    const detail = "network is not in CAIP-2, as version 2 has it";
    const payer = payerOf(paymentPayload);
    return err({ status: 200, version, code: "invalid_network", detail, network, payer });
  }
  const paymentRequirements = requirementsOf(wanted, told.resource ?? { url: "" });
  return ok({ paymentPayload, paymentRequirements });
}

type Body = Readonly<Record<string, unknown>>;

/** The two halves of a request, in the shapes of that version. */
function readRequest<Wanted>(
  body: Body,
  version: X402Version,
  payload: z.ZodType<ToldEnvelope>,
  requirements: z.ZodType<Wanted>,
): Result<{ told: ToldEnvelope; payment: PaymentPayload; wanted: Wanted }, RequestProblem> {
  const outer = payload.safeParse(body["paymentPayload"]);
  if (!outer.success) {
    return malformed("invalid_payload", sentence("paymentPayload", outer.error), "", version);
  }
  const told = outer.data;
  const { network } = told.payment;
  if (typeof (body["x402Version"] ?? version) !== "number") {
    return malformed("invalid_payload", "x402Version must be a number", network, version);
  }
  const inner = parseInner(told);
  if (!inner.ok) {
    const { code, detail } = inner.error;
    return malformed(code, `paymentPayload.${detail}`, network, version);
  }
  const wanted = requirements.safeParse(body["paymentRequirements"]);
  if (!wanted.success) {
    const detail = sentence("paymentRequirements", wanted.error);
    return malformed("invalid_payment_requirements", detail, network, version);
  }
  return ok({ told, payment: inner.value, wanted: wanted.data });
}

function malformed(
  code: ErrorCode,
  detail: string,
  network = "",
  version: X402Version = X402_VERSION,
): Result<never, RequestProblem> {
  return err({ status: 400, version, code, detail, network, payer: "" });
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
