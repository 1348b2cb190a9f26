/**
 * The words of the protocol where tools are sold over MCP (transport "MCP" of either version): which members say what is
 * asked, what is paid and what became of it. Values alone: who speaks JSON-RPC, and over what, is elsewhere. Members that
 * nobody here knows are left as they are.
 */
import { isRecord, memberOf, parseJson } from "./json.ts";
import { refuse, type Refusal, type Result } from "./result.ts";
import { parsePaymentPayload, type Envelope } from "./schema.ts";
import { inVersion1, settlementV2 } from "./version-2.ts";
import type { ExtensionsV2, RequirementsV2, ResourceV2, SettleResponseV2 } from "./version-2.ts";
import { isVersion, X402_VERSION } from "./x402.ts";
import type { SettleResponse, X402_VERSION_2, X402Version } from "./x402.ts";

/** Member of a request's `params._meta`: the payment, as an object, of either version. */
export const PAYMENT_META = "x402/payment";
/** Member of a result's `_meta`, and of what is told of a settlement that failed. */
export const RECEIPT_META = "x402/payment-response";
/** Member of a listed tool's `_meta`: what it costs, for people; of our own, the protocol has none. */
export const PRICE_META = "x402/price";
/** In what the text of earlier sellers wraps it: `{ "x402/error": { code, message, data } }`. */
export const ERROR_MEMBER = "x402/error";
/** The code in there, and of a JSON-RPC error of version 1. */
export const PAYMENT_REQUIRED_CODE = 402;

/** What a call costs, as version 2 has it. */
export interface PaymentRequiredV2 {
  readonly x402Version: typeof X402_VERSION_2;
  readonly error?: string;
  readonly resource: ResourceV2;
  readonly accepts: readonly RequirementsV2[];
  readonly extensions?: ExtensionsV2;
}

/** As far as it is written here. */
export interface ToolResult {
  readonly isError?: boolean;
  readonly structuredContent?: Readonly<Record<string, unknown>>;
  readonly content: readonly { readonly type: "text"; readonly text: string }[];
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/**
 * What a call without a payment is answered, or one whose payment was not taken; `failed`: its settlement. The same as
 * text, for whoever reads nothing else.
 */
export function paymentRequiredResult(
  required: PaymentRequiredV2 | Readonly<Record<string, unknown>>,
  failed?: SettleResponseV2,
): ToolResult & Required<Pick<ToolResult, "structuredContent">> {
  const data = { ...required, ...(failed !== undefined && { [RECEIPT_META]: failed }) };
  const text = JSON.stringify(data);
  return { isError: true, structuredContent: data, content: [{ type: "text", text }] };
}

/**
 * What a tool's result asks for, in the order in which version 2 has it looked for: as it is, in its wrapping, in the first
 * text. Its shape is not looked into beyond `x402Version` and a list `accepts`. Undefined: it asks for nothing.
 */
export function paymentRequiredOf(result: unknown): Readonly<Record<string, unknown>> | undefined {
  if (memberOf(result, "isError") !== true) return undefined;
  const structured = memberOf(result, "structuredContent");
  const own = askedIn(structured);
  if (own !== undefined) return own;
  const content = memberOf(result, "content");
  const first: unknown = Array.isArray(content) ? content[0] : undefined;
  const text = memberOf(first, "text");
  return typeof text === "string" ? askedIn(parseJson(text)) : undefined;
}

/** What a JSON-RPC error asks for, as version 1 has it; undefined: nothing. */
export function paymentRequiredOfError(
  error: unknown,
): Readonly<Record<string, unknown>> | undefined {
  return memberOf(error, "code") === PAYMENT_REQUIRED_CODE
    ? askedIn(memberOf(error, "data"))
    : undefined;
}

function askedIn(value: unknown): Readonly<Record<string, unknown>> | undefined {
  if (isAsking(value)) return value;
  const wrapped = memberOf(memberOf(value, ERROR_MEMBER), "data");
  return isAsking(wrapped) ? wrapped : undefined;
}

function isAsking(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    isRecord(value) &&
    typeof memberOf(value, "x402Version") === "number" &&
    Array.isArray(memberOf(value, "accepts"))
  );
}

/** A payment, and the envelope in which it came. */
export interface MetaPayment extends Envelope {
  readonly version: X402Version;
}

/**
 * The payment in a request's `_meta`, of whichever version its `x402Version` says; undefined: there is none. Refusals:
 * `invalid_payload`, `invalid_x402_version`. How large it may be is for whoever has read the request.
 */
export function metaPayment(meta: unknown): Result<MetaPayment, Refusal> | undefined {
  if (!isRecord(meta) || !Object.hasOwn(meta, PAYMENT_META)) return undefined;
  const written = memberOf(meta, PAYMENT_META);
  if (!isRecord(written)) return refuse("invalid_payload", `${PAYMENT_META} must be an object`);
  const version = memberOf(written, "x402Version");
  if (typeof version !== "number") {
    return refuse("invalid_payload", `${PAYMENT_META} must have x402Version, a number`);
  }
  if (!isVersion(version)) return refuse("invalid_x402_version", "x402Version must be 1 or 2");
  const read = parsePaymentPayload(written, version);
  return read.ok ? { ok: true, value: { version, ...read.value } } : read;
}

/** The `params` of a request with that payment, which is JSON of either version; what else is in `_meta` stays. */
export function withPayment(
  params: Readonly<Record<string, unknown>>,
  payment: object,
): Readonly<Record<string, unknown>> {
  return withMeta(params, PAYMENT_META, payment);
}

/** What became of a payment as a member of `_meta`, in the words of the version in which it came. */
export function metaReceipt(settlement: SettleResponse, version: X402Version): object {
  return version === X402_VERSION ? inVersion1(settlement) : settlementV2(settlement);
}

/** A result with that receipt; what else is in `_meta` stays. */
export function withReceipt<Told extends Readonly<Record<string, unknown>>>(
  result: Told,
  receipt: object,
): Told & { readonly _meta: Readonly<Record<string, unknown>> } {
  return withMeta(result, RECEIPT_META, receipt);
}

/** What a result, or what it asks for again, says became of a payment; undefined: nothing. Its shape is not looked into. */
export function receiptOf(result: unknown): Readonly<Record<string, unknown>> | undefined {
  const told = memberOf(memberOf(result, "_meta"), RECEIPT_META);
  const failed = told ?? memberOf(memberOf(result, "structuredContent"), RECEIPT_META);
  return isRecord(failed) ? failed : undefined;
}

function withMeta<Told extends Readonly<Record<string, unknown>>>(
  told: Told,
  name: string,
  value: object,
): Told & { readonly _meta: Readonly<Record<string, unknown>> } {
  const meta = memberOf(told, "_meta");
  return { ...told, _meta: { ...(isRecord(meta) && meta), [name]: value } };
}
