/** The shape of one route: a word, a price, or a block. */
import { z } from "zod";
import { ok, type Result } from "../../x402/result.ts";
import { acceptEntry, amount, assetSymbol, payees } from "./payment-shape.ts";
import { DOLLARS, readAction, readBarePrice, readPrice } from "./price.ts";
import type { Fault } from "../reading/problem.ts";
import { bad, notYet } from "../reading/reading.ts";
import {
  flag,
  jsonObject,
  listOf,
  map,
  matching,
  optional,
  plainText,
  reader,
  REFUSED,
  text,
  whole,
  word,
  type Form,
} from "../reading/shapes.ts";

const MAX_TIMEOUT_REASON =
  ": a facilitator refuses authorizations that expire within 6 seconds, and nothing waits for a day";

const PRICE_FORM = "must be a price such as $0.01";
const DOLLARS_FORM = matching(DOLLARS, PRICE_FORM, "$0.01");
const MIME_TYPE = /^[\w.+-]+\/[\w.+*-]+(?: *;[\x20-\x7e]*)?$/;
const MIME_TYPE_FORM = "must be a media type such as application/json";

const DIRECTIVE =
  "(?:private|no-store|no-cache|no-transform|must-revalidate|immutable|(?:max-age|stale-while-revalidate|stale-if-error)=[0-9]{1,9})";
const CACHING = new RegExp(`^(?=.*\\b(?:private|no-store)\\b)${DIRECTIVE}(?:, *${DIRECTIVE})*$`);
const CACHING_FORM =
  "must be directives of Cache-Control with private or no-store among them, such as private, max-age=3600: " +
  "a shared cache gives what it keeps to those who have not paid";

/** A number is refused as a price, with what to write instead. */
const barePrice = reader(z.number(), readBarePrice, REFUSED);

const input = map({
  queryParams: optional(jsonObject, "Query parameters by name: { city: { type: string } }."),
  bodyType: optional(
    word(["json", "form-data", "multipart-form-data", "text", "binary"]),
    "What the body is.",
  ),
  bodyFields: optional(jsonObject, "Fields of the body by name."),
  headerFields: optional(jsonObject, "Header fields by name."),
  pathParams: optional(
    jsonObject,
    "What the :name parts of the route stand for: { id: { type: string, example: a17 } }.",
  ),
});

export const priceBlock = map({
  price: optional(
    z.union(
      [
        text(readPrice, { anyOf: [{ enum: ["free"] }, DOLLARS_FORM] }),
        barePrice,
        map({
          amount,
          asset: optional(assetSymbol, "Symbol of the token. Without it: the network's USDC."),
        }),
      ],
      PRICE_FORM,
    ),
    "What one request costs: dollars, exactly, never rounded; `free`; or atomic units of a token.",
  ),
  accept: optional(
    listOf(acceptEntry),
    "Networks and tokens in which this route is paid, in place of the global `accept`.",
  ),
  payTo: optional(payees, "Who is paid for this route, in place of the global `payTo`."),
  upstream: optional(
    plainText,
    "Name of the upstream it leads to. Without it: the one named default, or the only one.",
  ),
  description: optional(
    plainText,
    "What is sold, for buyers and catalogues, in at most 500 characters.",
  ),
  mimeType: optional(
    text(readMimeType, matching(MIME_TYPE, MIME_TYPE_FORM, "application/json")),
    "Media type of the answer.",
  ),
  maxTimeoutSeconds: optional(
    whole(10, 86_400, MAX_TIMEOUT_REASON),
    "How long a payment may take, in seconds.",
    60,
  ),
  outputSchema: optional(jsonObject, "JSON Schema of the answer, for the discovery listing."),
  metadata: optional(
    jsonObject,
    "Shown in the discovery listing: { category: weather, provider: Example Inc. }.",
  ),
  input: optional(input, "What a buyer has to send, for the discovery listing."),
  discoverable: optional(flag, "Whether the discovery listing shows the route.", true),
  cacheControl: optional(
    text(readCaching, matching(CACHING, CACHING_FORM, "private, max-age=3600")),
    "Cache-Control of what is sold, in place of the backend's: how long a buyer's own cache may keep it.",
    "private, no-store",
  ),
  settle: optional(
    text(readSettle, { enum: ["before"] }),
    "When the payment is settled: before the backend sees the request.",
    "before",
  ),
});

const ACTION: Form = { anyOf: [{ enum: ["free", "deny"] }, DOLLARS_FORM] };

export const route = z.union(
  [text(readAction, ACTION), barePrice, priceBlock],
  "must be free, deny, a price such as $0.01, or a map with a price",
);

/** Of the keys under `routes`. */
export const ROUTE_KEY = matching(
  /^(?:[A-Z-]+(?:,[A-Z-]+)* )?\/(?:[^\s/?#]+\/)*[^\s/?#]*$/,
  "a route is a path that begins with /, after methods where needed: GET,POST /reports/:id",
);

function readCaching(caching: string): Result<string, Fault> {
  return CACHING.test(caching) ? ok(caching) : bad(CACHING_FORM);
}

function readMimeType(type: string): Result<string, Fault> {
  return MIME_TYPE.test(type) ? ok(type) : bad(MIME_TYPE_FORM);
}

function readSettle(when: string): Result<"before", Fault> {
  if (when === "before") return ok(when);
  return notYet("settling at another time than `before`");
}
