/**
 * The language of the case files beside this one, and their reader: version 2 at running gateways and facilitators.
 * A file is a YAML list. A case of a gateway is one request, and what is answered:
 *
 *     - name: a payment that accepts another amount is refused       # a sentence
 *       source: core 5.1.2                                           # what demands it, as {@link SOURCE} says
 *       pay: { set: { /accepted/amount: "9999" } }                   # the payment, with something changed
 *       refused: { status: 402, code: invalid_payment_requirements } # what becomes of it
 *
 * - `at`: the gateway (`stage.ts`). `ask`: the request; `listener: facilitator` goes to the gateway's own facilitator.
 * - `pay`: a correct payment for what the request costs, as an official client makes it of the quote: all of it
 *   repeated. `given`, `sign`, `signature`, `set`, `remove`, `rewrite` are those of `../conformance-case.ts`, with
 *   pointers into the payment; `json`, `size`, `bytes`, `charset`, `header`, `values` those of `../header-case.ts`;
 *   `beside`: other headers, in which `$v1` and `$v2` stand for the payment in the header of that version.
 * - `before`: the versions in which the same payment was presented before, unchanged; `another`: one of another buyer
 *   with the same extensions was sold before.
 * - `sold`: what was asked for is sold, with a receipt in that version. Where it was presented before nothing moves.
 * - `refused`: nothing is sold, nothing moves, and there is a fresh quote in header and body. `code` is what `error`
 *   begins with in the header, `v1` in the body, where that has another one; `says`: what the sentence has.
 * - `expect`: JSON pointers into the answer, and what is there: a value, or `{ like: a regular expression }`. `lack`:
 *   pointers that lead to nothing. The answer is `{ status, headers, text, json, quote, receipt, receiptV1, told }`, the
 *   last four decoded from their headers (`told`: EXTENSION-RESPONSES).
 *
 * A case of a facilitator is one body for both `POST /verify` and `POST /settle`. `set` and `remove` have pointers into
 * the whole body, `body` is another text for it; `before`: it was settled already, in that version. `judged` is what
 * both say: `code` (or `valid`), or `{ verify, settle }`; `status` (200); `words`: the version in which it is said (2);
 * `payer` ($payer, "" where the body could not be read), `network`. `told`: what EXTENSION-RESPONSES says, of each.
 *
 * A string `$name` is a value of the case, as `../references.ts` has it: payer, stranger, payee, asset, price, now.
 * `each: { field: [a, b] }` makes a case of every value, as in `../conformance-case.ts`.
 */
import { z } from "zod";
import { conformanceCase, given, pointer, readCases, sign } from "../conformance-case.ts";
import { writing } from "../header-case.ts";

/** Files of cases at facilitators, and at gateways. */
const FACILITATOR_SUBJECTS = ["facilitator", "settled"] as const;
const GATEWAY_SUBJECTS = [
  "quote",
  "header",
  "accepted",
  "payment",
  "versions",
  "failure",
  "extensions",
  "endpoints",
  "discovery",
] as const;

const GATEWAYS = ["both", "newer", "older", "everywhere"] as const;

/**
 * Sections of the core specification and of transports-v2/http, the documents of schemes and extensions, parts of the
 * official packages, standards of others, sections of our protocol of version 1, and what we have decided ourselves.
 */
const SOURCE =
  /^(?:core (?:5|6|7|8|9|10|11)(?:\.\d)*|transports-v2\/http|scheme_exact_evm|scheme_exact_svm|bazaar|payment_identifier|@x402\/[\w/]+|RFC \d+|protocol section|decision:)/;

const source = z.string().regex(SOURCE, "names no source");
const versions = z.union([z.literal(1), z.literal(2)]);
const ofPayment = {
  given: given
    .pick({ balance: true, payer: true, nonce: true, blacklisted: true, paused: true })
    .prefault({}),
  sign: sign.prefault({}),
  signature: conformanceCase.shape.signature,
  set: z.record(pointer, z.unknown()).default({}),
  remove: z.array(pointer).default([]),
  rewrite: z.record(z.string(), z.string()).default({}),
};

const gatewayCase = z.strictObject({
  name: z.string(),
  source,
  at: z.enum(GATEWAYS).default("both"),
  ask: z
    .strictObject({
      listener: z.enum(["gateway", "facilitator"]).default("gateway"),
      method: z.string().default("GET"),
      path: z.string().default("/weather?city=Oslo"),
      headers: z.record(z.string(), z.string()).default({}),
      body: z.string().exactOptional(),
    })
    .prefault({}),
  pay: writing
    .extend({
      ...ofPayment,
      header: z.string().default("PAYMENT-SIGNATURE"),
      beside: z.record(z.string(), z.string()).default({}),
    })
    .exactOptional(),
  before: z.array(z.union([versions, z.literal("another")])).default([]),
  sold: versions.exactOptional(),
  refused: z
    .strictObject({
      status: z.int(),
      code: z.string(),
      v1: z.string().exactOptional(),
      says: z.string().exactOptional(),
    })
    .exactOptional(),
  expect: z.record(pointer, z.unknown()).default({}),
  lack: z.array(pointer).default([]),
});

const judgement = z.strictObject({
  status: z.int().default(200),
  code: z.string(),
  words: versions.default(2),
  payer: z.string().default("$payer"),
  network: z.string().default("eip155:84532"),
});

const facilitatorCase = z.strictObject({
  ...ofPayment,
  name: z.string(),
  source,
  at: z.enum(["open", "hub"]).default("open"),
  body: z.string().default("$request"),
  before: z.array(versions).default([]),
  judged: z.union([
    judgement.transform((same) => ({ verify: same, settle: same })),
    z.strictObject({ verify: judgement, settle: judgement }),
  ]),
  told: z.strictObject({ verify: z.unknown(), settle: z.unknown() }).exactOptional(),
});

export type GatewayCase = z.infer<typeof gatewayCase>;
export type PaidCase = GatewayCase & { readonly pay: NonNullable<GatewayCase["pay"]> };
export type FacilitatorCase = z.infer<typeof facilitatorCase>;
export type Judgement = z.infer<typeof judgement>;

export function gatewayFiles(): readonly {
  readonly subject: string;
  readonly cases: readonly GatewayCase[];
}[] {
  return GATEWAY_SUBJECTS.map((subject) => ({
    subject,
    cases: readCases(`version-2/${subject}.yaml`, gatewayCase),
  }));
}

export function facilitatorFiles(): readonly {
  readonly subject: string;
  readonly cases: readonly FacilitatorCase[];
}[] {
  return FACILITATOR_SUBJECTS.map((subject) => ({
    subject,
    cases: readCases(`version-2/${subject}.yaml`, facilitatorCase),
  }));
}
