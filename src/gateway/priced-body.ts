/** The body by which a price is computed: all of it, or why it is not looked at. It is forwarded afterwards as it came. */
import { MAX_PRICED_BODY_BYTES } from "../pricing/computed-price.ts";
import { isForConnection } from "./message/field-lines.ts";
import { valuesOf } from "./message/field-values.ts";
import { keptBody, type InboundRequest } from "./message/inbound.ts";
import { hasRequestBody } from "./message/request-body.ts";
import type { Visitor } from "./visitor.ts";

export type PricedBody =
  | { readonly kind: "whole"; readonly body: Buffer }
  | { readonly kind: "absent" }
  /** It cannot be priced whoever pays. */
  | { readonly kind: "refused"; readonly status: 411 | 413 | 415; readonly detail: string }
  /** The client left before its end. */
  | { readonly kind: "gone" };

/** One reading of the bytes for everybody: JSON, which is UTF-8. */
const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json *(?:; *charset="?utf-8"? *)?$/i;

const ABSENT = { kind: "absent" } as const;
const REFUSALS = {
  411: () => "a body has to tell its Content-Length",
  413: (most: number) => `the body is larger than ${most} bytes`,
  415: () => "the body has to be application/json, in UTF-8 and in no other coding",
} as const;

/** Whether it has to be waited for: else {@link readPricedBody} has it at once. */
export function isAwaited(visitor: Pick<Visitor, "request" | "replaying">): boolean {
  if (visitor.replaying === null || keptBody(visitor.request)) return false;
  return hasRequestBody(visitor.request) && refusalOf(visitor.request) === null;
}

/** @param most the largest that is read, bytes: no more than a body that is kept may have */
export function readPricedBody(
  { request, replaying }: Pick<Visitor, "request" | "replaying">,
  most = MAX_PRICED_BODY_BYTES,
): PricedBody | Promise<PricedBody> {
  if (!hasRequestBody(request)) return ABSENT;
  const status = refusalOf(request, most);
  if (status !== null) return { kind: "refused", status, detail: REFUSALS[status](most) };
  const known = keptBody(request);
  if (known) return { kind: "whole", body: known };
  if (replaying === null) return ABSENT;
  return replaying.readBodyHash(true).then((hash) => {
    const body = keptBody(request);
    return hash === null || !body ? { kind: "gone" } : { kind: "whole", body };
  });
}

function refusalOf(
  { headers, rawHeaders }: Pick<InboundRequest, "headers" | "rawHeaders">,
  most = MAX_PRICED_BODY_BYTES,
): keyof typeof REFUSALS | null {
  const length = headers["content-length"];
  if (length === undefined) return 411;
  if (Number(length) > most) return 413;
  const isPlain = headers["content-encoding"] === undefined;
  // Of several some backends take the last, and one that Connection names does not reach them.
  const type = valuesOf(rawHeaders, "content-type").join();
  const isTold = !isForConnection(rawHeaders, "content-type");
  return isPlain && isTold && JSON_TYPE.test(type) ? null : 415;
}
