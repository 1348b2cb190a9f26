/**
 * The language of the case files, and their reader. A file is a YAML list; a case is a correct payment
 * with something changed, and what both endpoints must answer to it:
 *
 *     - name: an authorization that pays one unit less than asked is refused    # a sentence
 *       cites: protocol section 7                                               # what demands it
 *       sign: { value: $price - 1 }                                             # what is changed
 *       expect: { code: invalid_exact_evm_payload_authorization_value }         # what is answered
 *
 * The stages, in order; each may be left out:
 *
 * - `given`: the world before the request. `balance`; `payer: wallet` (ERC-1271, the signer owns it) or
 *   `delegated` (an EOA with somebody else's wallet code, as EIP-7702 makes them); `nonce`; `blacklisted`;
 *   `paused`; `missing` (code taken away); `clock`: the facilitator's clock stands still, that many
 *   seconds off the chain's; `facilitator`: another one than the open one; `node`: what is wrong with
 *   its RPC endpoint.
 * - `ask`: members of the payment requirements that the buyer reads and signs for.
 * - `sign`: members of the authorization; who signs (`by`); the EIP-712 domain and primary type.
 * - `signature`: what happens to the signature afterwards (`signature-faults.ts`).
 * - `set`, `remove`: JSON pointers (RFC 6901) into the request body, after everything is signed.
 * - `rewrite`: text to replace in the JSON of `paymentPayload`, for what no object can say.
 * - `body`: the body instead, as text; $request, $paymentPayload, $paymentRequirements stand for the JSON.
 * - `http`: another method, path ($endpoint is `/verify` or `/settle`), headers, or text encoding.
 *
 * A string `$name` is a value of the case: payer, payee, stranger, listed (the only payee of the facilitator
 * `one payee`), asset, price, now, signature; `$name + 1`, `$name - 1` count on from it; `$name lower`,
 * `upper`, `swapped` change its letter case; `$chars 9`, `$digits 9`, `$bytes 9`, `$nested 9` are that much
 * text, that many digits, hex bytes, arrays in one another.
 *
 * `each: { field: [a, b] }` makes a case of every value (of every combination, where there are several
 * lists); `<field>` stands for it, and keeps its type where it stands alone.
 *
 * `expect`: `status` (200), `code` (one of the fifteen, or `valid`), `payer` ($payer, or "" where the status
 * is 400), `headers`. `verify` and `settle` may differ. Without a code the answer is no judgement at
 * all: any JSON object with `error`.
 */
import { readdirSync, readFileSync } from "node:fs";
import { parse } from "yaml";
import { z } from "zod";
import { ERROR_CODES } from "../../src/x402/error-code.ts";
import { NODE_FAULTS } from "./faulty-node.ts";
import { SIGNATURE_FAULTS } from "./signature-faults.ts";

export const pointer = z.string().startsWith("/");
const members = z.record(z.string(), z.unknown());

export const given = z.strictObject({
  balance: z.string().default("1000000"),
  payer: z.enum(["eoa", "wallet", "delegated"]).default("eoa"),
  nonce: z.enum(["fresh", "used", "cancelled", "used by another"]).default("fresh"),
  blacklisted: z.enum(["payer", "payee"]).exactOptional(),
  paused: z.literal(true).exactOptional(),
  missing: z.enum(["asset", "multicall"]).exactOptional(),
  clock: z.int().exactOptional(),
  facilitator: z.enum(["open", "guarded", "one payee"]).default("open"),
  node: z.enum(NODE_FAULTS).exactOptional(),
});

const ask = z.strictObject({
  network: z.string().exactOptional(),
  maxAmountRequired: z.string().exactOptional(),
  asset: z.string().exactOptional(),
  payTo: z.string().exactOptional(),
  description: z.string().exactOptional(),
  maxTimeoutSeconds: z.int().exactOptional(),
  extra: members.exactOptional(),
});

export const sign = z.strictObject({
  by: z.enum(["payer", "stranger"]).default("payer"),
  type: z.string().exactOptional(),
  domain: z
    .strictObject({
      name: z.string().exactOptional(),
      version: z.string().exactOptional(),
      chainId: z.int().exactOptional(),
      verifyingContract: z.string().exactOptional(),
    })
    .default({}),
  from: z.string().exactOptional(),
  to: z.string().exactOptional(),
  value: z.string().exactOptional(),
  validAfter: z.string().exactOptional(),
  validBefore: z.string().exactOptional(),
  nonce: z.string().exactOptional(),
});

const http = z.strictObject({
  method: z.string().default("POST"),
  path: z.string().default("$endpoint"),
  headers: z.record(z.string(), z.string()).default({ "content-type": "application/json" }),
  encoding: z.enum(["utf8", "latin1", "utf16le"]).default("utf8"),
});

const answer = z.strictObject({
  status: z.int().default(200),
  code: z.enum([...ERROR_CODES, "valid"]).exactOptional(),
  payer: z.string().exactOptional(),
  headers: z.record(z.string(), z.string()).default({}),
});

export const conformanceCase = z.strictObject({
  name: z.string(),
  cites: z.string(),
  given: given.prefault({}),
  ask: ask.default({}),
  sign: sign.prefault({}),
  signature: z.enum(SIGNATURE_FAULTS).exactOptional(),
  set: z.record(pointer, z.unknown()).default({}),
  remove: z.array(pointer).default([]),
  rewrite: z.record(z.string(), z.string()).default({}),
  body: z.string().default("$request"),
  http: http.prefault({}),
  expect: z.union([
    answer.transform((same) => ({ verify: same, settle: same })),
    z.strictObject({ verify: answer, settle: answer }),
  ]),
});

export type ConformanceCase = z.infer<typeof conformanceCase>;
export type ExpectedAnswer = z.infer<typeof answer>;

/** The cases about one subject. */
interface CaseFile {
  /** File name without its extension. */
  readonly subject: string;
  readonly cases: readonly ConformanceCase[];
}

/** Every file of this folder that holds cases for the endpoints. Throws at the first fault in one. */
export function readCaseFiles(): readonly CaseFile[] {
  const files = readdirSync(import.meta.dirname).filter((file) => file.endsWith(".yaml"));
  return files
    .filter((file) => file !== "header.yaml")
    .map((file) => ({
      subject: file.replace(".yaml", ""),
      cases: readCases(file, conformanceCase),
    }));
}

/** The cases of one file of this folder, `each` expanded; names are unique. */
export function readCases<Case extends { name: string }>(
  file: string,
  schema: z.ZodType<Case>,
): readonly Case[] {
  const text = readFileSync(new URL(file, import.meta.url), "utf8");
  const entries = z.array(members).parse(parse(text));
  const names = new Set<string>();
  return entries.flatMap(expand).map((entry) => {
    const parsed = schema.safeParse(entry);
    const title = `${file}: ${String(entry["name"])}`;
    if (!parsed.success) throw new Error(`${title}\n${z.prettifyError(parsed.error)}`);
    if (names.has(parsed.data.name)) throw new Error(`${title}: there are two of that name`);
    names.add(parsed.data.name);
    return parsed.data;
  });
}

const lists = z.record(z.string(), z.array(z.unknown()));

/** One entry for every combination of the values in `each`. */
function expand({ each, ...entry }: Record<string, unknown>): Record<string, unknown>[] {
  let entries = [entry];
  for (const [name, values] of Object.entries(lists.parse(each ?? {}))) {
    entries = entries.flatMap((one) =>
      values.map((value) => members.parse(substitute(one, `<${name}>`, value))),
    );
  }
  return entries;
}

/** Replaces a placeholder in every string and key; alone in a string it keeps the value's type. */
function substitute(into: unknown, placeholder: string, value: unknown): unknown {
  if (into === placeholder) return value;
  if (typeof into === "string") {
    return into.replaceAll(placeholder, typeof value === "string" ? value : JSON.stringify(value));
  }
  if (Array.isArray(into)) return into.map((item) => substitute(item, placeholder, value));
  if (typeof into !== "object" || into === null) return into;
  const entries = Object.entries(into).map(([key, member]): [string, unknown] => [
    String(substitute(key, placeholder, value)),
    substitute(member, placeholder, value),
  ]);
  return Object.fromEntries(entries);
}
