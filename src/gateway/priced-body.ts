/** The body by which a price is computed: all of it, or why it is not looked at. It is forwarded afterwards as it came. */
import { MAX_PRICED_BODY_BYTES } from "../pricing/computed-price.ts";
import { keptBody } from "./message/inbound.ts";
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
  411: "a body has to tell its Content-Length",
  413: `the body is larger than ${MAX_PRICED_BODY_BYTES} bytes`,
  415: "the body has to be application/json, in UTF-8 and in no other coding",
} as const;

export function readPricedBody({ request, replaying }: Visitor): PricedBody | Promise<PricedBody> {
  const { headers } = request;
  if (replaying === null || !hasRequestBody(request)) return ABSENT;
  const length = headers["content-length"];
  if (length === undefined) return refused(411);
  if (Number(length) > MAX_PRICED_BODY_BYTES) return refused(413);
  const isPlain = headers["content-encoding"] === undefined;
  if (!isPlain || !JSON_TYPE.test(headers["content-type"] ?? "")) return refused(415);
  return replaying.readBodyHash(true).then((hash) => {
    const body = keptBody(request);
    return hash === null || !body ? { kind: "gone" } : { kind: "whole", body };
  });
}

function refused(status: keyof typeof REFUSALS): PricedBody {
  return { kind: "refused", status, detail: REFUSALS[status] };
}
