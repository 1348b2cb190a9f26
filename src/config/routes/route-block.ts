/** What stands behind the key of a route: a word, a price, or a block. */
import { z } from "zod";
import { IDENTIFIER_USES } from "../../x402/payment-identifier.ts";
import { acceptEntry, payees } from "./accepted.ts";
import { grants, repeat } from "./after-sale.ts";
import { input } from "./route-input.ts";
import { meter } from "./meter.ts";
import { memberPrices } from "./member-prices.ts";
import { barePrice, DOLLARS_FORM, price, readAction } from "./price.ts";
import { quota, QUOTA_USAGE } from "./quota.ts";
import {
  flag,
  jsonObject,
  listOf,
  map,
  matching,
  named,
  optional,
  plainText,
  text,
  textLike,
  whole,
  word,
} from "../reading/shapes.ts";

/** `shadow`: nothing is charged, and told what would have been. */
export const MODES = ["sell", "shadow"] as const;

export type Mode = (typeof MODES)[number];

/** `after`: the backend works first, and is paid for what it has answered. */
const SETTLE_TIMES = ["before", "after"] as const;
export type SettleTime = (typeof SETTLE_TIMES)[number];

const REDIRECT_USES = ["pass", "follow"] as const;
export type RedirectUse = (typeof REDIRECT_USES)[number];

const MAX_TIMEOUT_REASON =
  ": a facilitator refuses authorizations that expire within 6 seconds, and nothing waits for a day";

const DIRECTIVE =
  "(?:private|no-store|no-cache|no-transform|must-revalidate|immutable|(?:max-age|stale-while-revalidate|stale-if-error)=[0-9]{1,9})";
const CACHING = new RegExp(`^(?=.*\\b(?:private|no-store)\\b)${DIRECTIVE}(?:, *${DIRECTIVE})*$`);

const saleShape = {
  mode: optional(
    word(MODES),
    "`shadow`: every request passes and nothing is charged; the access log, the metrics and `coinslot forecast` tell what " +
      "would have been asked. Default: the global `mode`.",
  ),
  price: optional(
    price,
    "What one request costs: dollars, exactly, never rounded; `free`; or atomic units of a token.",
  ),
  meter: optional(
    meter,
    "What its answers are charged by, in place of `price`: what each has used, known when it is there. " +
      '`{ of: json("usage.total_tokens"), each: $0.000002, max: $0.50 }`.',
  ),
  prices: memberPrices,
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
    textLike(
      /^[\w.+-]+\/[\w.+*-]+(?: *;[\x20-\x7e]*)?$/,
      "must be a media type such as application/json",
      "application/json",
    ),
    "Media type of the answer.",
  ),
  maxTimeoutSeconds: optional(
    whole(10, 86_400, MAX_TIMEOUT_REASON),
    "How long a payment may take, in seconds.",
    60,
  ),
  outputSchema: optional(
    jsonObject,
    "JSON Schema of the answer, for the discovery listing; its example, or those of its members, is shown as a sample.",
  ),
  metadata: optional(
    jsonObject,
    "Shown in the discovery listing: { category: weather, provider: Example Inc. }.",
  ),
  input: optional(
    input,
    "What a buyer has to send, for the discovery listing, and to be checked (see `checkInput`). A field is a JSON Schema, " +
      "the name of a type or a sentence; `required: true` says that it has to be there.",
  ),
  discoverable: optional(flag, "Whether the discovery listing shows the route.", true),
  memo: optional(
    // Official clients write no longer one.
    textLike(/^[\x20-\x7e]{1,256}$/, "must be 1 to 256 printable characters of ASCII", "weather"),
    "What has to stand as memo in payments on Solana, for your books: of buyers of version 2, since those of version 1 write none.",
  ),
  cacheControl: optional(
    textLike(
      CACHING,
      "must be directives of Cache-Control with private or no-store among them, such as private, max-age=3600: " +
        "a shared cache gives what it keeps to those who have not paid",
      "private, max-age=3600",
    ),
    "Cache-Control of what is sold, in place of the backend's: how long a buyer's own cache may keep it.",
    "private, no-store",
  ),
  paymentIdentifier: optional(
    word(IDENTIFIER_USES),
    "Whether buyers name their purchases, in place of the global `paymentIdentifier`.",
  ),
  repeat: optional(repeat, "In place of the global `repeat`."),
  grants: optional(
    grants,
    "For how long who has paid for the route, and has had that, has everything that it serves, without paying again: signed in " +
      "with the account that has paid. With { for, times } he has it so often.",
  ),
  free: optional(quota, QUOTA_USAGE),
  redirects: optional(
    word(REDIRECT_USES),
    "What is done with a redirect of the backend. pass: the buyer gets it, and his payment is for its target, too, where " +
      "that is at this host and costs no more. follow: a GET or HEAD is asked for again at its target, where that is at " +
      "this host, of the same upstream and costs no more, at most five times.",
    "pass",
  ),
  goods: optional(
    listOf(whole(400, 599)),
    "Answers of 400 and above that are what is sold, as a 404 may be that says that a name is free. Any other leaves the " +
      "payment good for the same method and path.",
  ),
  checkInput: optional(
    flag,
    "Whether `input` is checked when a payment is shown, before it is taken: 400 says what is missing or wrong. Of a body " +
      "up to 1 MiB whose length is told.",
    true,
  ),
  settle: optional(
    word(SETTLE_TIMES),
    "When the payment is settled. before: then the backend sees the request. after: the payment is verified, the backend " +
      "answers, and only what is goods is settled and given to the buyer. Such an answer is held until then: it is no " +
      "stream, and no larger than 1 MiB. A payer who cannot pay any more by then has had the work for nothing: 16 " +
      "times, and once more each minute.",
    "before",
  ),
  credits: optional(
    flag,
    "Whether a session may pay it from what its account has prepaid (`credits`): no payment, no settlement, and nothing is " +
      "debited for what is no goods, or breaks off.",
    false,
  ),
};

/** What a tool costs, in the same words: an answer of MCP has a form of its own, and where it leads is for its route to say. */
const toolShape = {
  mode: saleShape.mode,
  price: saleShape.price,
  meter: saleShape.meter,
  prices: saleShape.prices,
  accept: saleShape.accept,
  payTo: saleShape.payTo,
  description: saleShape.description,
  maxTimeoutSeconds: saleShape.maxTimeoutSeconds,
  memo: saleShape.memo,
  paymentIdentifier: saleShape.paymentIdentifier,
  grants: saleShape.grants,
  free: saleShape.free,
  settle: saleShape.settle,
  credits: saleShape.credits,
};

const toolBlock = map(toolShape);

const WORDS = text(readAction, { anyOf: [{ enum: ["free", "deny"] }, DOLLARS_FORM] });

const tool = z.union(
  [WORDS, barePrice, toolBlock],
  "must be free, deny, a price such as $0.01, or a map with a price",
);

const TOOL_FORM = matching(
  /^(?:[^\s*\p{C}]{1,256}|[^\s*\p{C}]{0,255}\*)$/u,
  "a tool is its name, or a beginning of names with * behind it: search_*",
  "get_weather",
  "search_*",
);

const UNPAID_FORMS = ["auto", "result", "status"] as const;

export const priceBlock = map({
  ...saleShape,
  tools: optional(
    named(tool, TOOL_FORM),
    "Of a route to a server of MCP: what each of its tools costs, in place of a price for each request. A name, or a " +
      "beginning of names with * behind it: $0.01, free, deny or a block. What is not named is not to be had, unless " +
      '"*" says otherwise; lists of tools leave it out. All else that MCP asks for is free.',
  ),
  unpaid: optional(
    word(UNPAID_FORMS),
    "Beside `tools`: how a call is told that it is not paid. result: as the result of a tool, as MCP has it; status: by " +
      "HTTP 402. auto: as a result to who says that he takes JSON and events, which every client of MCP does, and shows no " +
      "payment in a header line; by a status to everybody else.",
  ),
  telling: optional(
    flag,
    "Beside `tools`: whether lists of tools tell what each costs, in `_meta` and in its description. Default: true.",
  ),
});

export const route = z.union(
  [WORDS, barePrice, priceBlock],
  "must be free, deny, a price such as $0.01, or a map with a price",
);

export type PriceBlock = z.output<typeof priceBlock>;
export type UnpaidForm = (typeof UNPAID_FORMS)[number];
