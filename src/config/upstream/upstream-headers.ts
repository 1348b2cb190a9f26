/** Which header lines a configuration may set for a backend, keep from crossing, or let cross alone. */
import { z } from "zod";
import { ok } from "../../x402/result.ts";
import { believerOf, isPlainName, NEEDED_NAMES } from "../../http/header-names.ts";
import type { Context } from "../reading/context.ts";
import type { Fault } from "../reading/problem.ts";
import { bad, fault } from "../reading/reading.ts";
import {
  headerKey,
  headerName,
  headerValue,
  listOf,
  map,
  matching,
  optional,
  text,
} from "../reading/shapes.ts";
import { Secret } from "../facilitator/secret.ts";
import type { Path } from "../reading/tree.ts";

export interface HeaderRules {
  /** For the target, in place of the client's of the same name. */
  readonly set: readonly { readonly name: string; readonly value: Secret }[];
  /** Lower-case names of what crosses neither to the target nor back to the client. */
  readonly remove: readonly string[];
  /** Lower-case names of the client's lines that cross, beside what HTTP needs; null: all but those that never do. */
  readonly allow: readonly string[] | null;
}

/** The gateway writes these, or their absence is a promise: they belong to one connection, or to a payment. */
const OWN =
  /^(?:connection|keep-alive|te|trailer|transfer-encoding|upgrade|http2-settings|expect|content-length|content-encoding|proxy-.*|sec-websocket-.*|x-payment.*|payment-(?:signature|required|response)|extension-responses|x-402-.*)$/;
/** Who the client is, as far as is proven. */
const CLIENT = /^(?:forwarded|x-forwarded-.*|x-real-ip)$/;
/** Backends serve another path or method for these than the one that was priced. */
const REROUTING =
  /^x-(?:http-(?:method(?:-override)?|path-override)|method-override|(?:envoy-)?original-(?:host|method|path|ur[il])|rewrite-url)$/;

const REMOVE = "leave it out";

/** The fault of a lower-case name; undefined where it may be set, or removed. */
function crossingNameFault(name: string, use: "set" | "remove"): Fault | undefined {
  const code = "bad-header";
  if (name === "host") {
    return fault(code, "Host has a key of its own", "write host: NAME beside headers");
  }
  if (OWN.test(name)) return fault(code, "this header is the gateway's own", REMOVE);
  if (CLIENT.test(name)) {
    return fault(code, "this header says who the client is: the gateway writes it", REMOVE);
  }
  if (REROUTING.test(name)) {
    const message = "this header asks for another path or method than the one that is priced";
    return fault(code, message, REMOVE);
  }
  if (use === "set" && name === "idempotency-key") {
    const message = "this header is different for each payment: the gateway writes it";
    return fault(code, message, REMOVE);
  }
  if (use === "set" && !isPlainName(name)) {
    const message = "backends may read this as the name with dashes, which a client could send";
    return fault(code, message, "only letters, digits and dashes have one reading");
  }
  return undefined;
}

const PLAIN_FORM = "names that cross have letters, digits and dashes only";

export const allowedNames = listOf(
  text(
    (name) => (isPlainName(name.toLowerCase()) ? ok(name) : bad(PLAIN_FORM)),
    matching(/^[A-Za-z0-9-]+$/, PLAIN_FORM, "Authorization", "User-Agent"),
  ),
);

/** `headers` of one upstream. */
export const headers = map({
  set: optional(
    z.record(headerKey, headerValue, "must be a map"),
    "For the backend, in place of the client's of the same name.",
  ),
  remove: optional(
    listOf(headerName),
    "What crosses neither to the backend nor back to the client.",
  ),
  allow: optional(
    allowedNames,
    "What of the client's crosses to the backend beside what HTTP needs, in place of `headers.allow`.",
  ),
});

/** Lower-case names; null where there is no list. */
export function resolveAllowed(
  written: z.output<typeof allowedNames> | undefined,
  path: Path,
  { problems }: Context,
): readonly string[] | null {
  if (written === undefined) return null;
  const names = written.map((name) => name.toLowerCase());
  for (const [index, name] of names.entries()) {
    const found = names.indexOf(name) < index ? TWICE : allowedNameFault(name);
    if (found !== undefined) problems.error([...path, index], found);
  }
  return names;
}

const TWICE = fault("duplicate-entry", "this header is allowed twice");

function allowedNameFault(name: string): Fault | undefined {
  const believer = believerOf(name);
  if (believer === undefined) {
    return NEEDED_NAMES.has(name) ? undefined : crossingNameFault(name, "remove");
  }
  const message = "no client may write this header, and nobody can say which proxy wrote it";
  return fault("bad-header", message, `who believes it: ${believer}`);
}

export function resolveHeaders(
  { set = {}, remove = [], allow }: z.output<typeof headers>,
  path: Path,
  context: Context,
): HeaderRules {
  const { problems } = context;
  const removed = remove.map((name) => name.toLowerCase());
  const seen = new Set<string>();
  for (const name of Object.keys(set)) {
    const at = [...path, "set", name];
    const lower = name.toLowerCase();
    const found = crossingNameFault(lower, "set");
    if (found !== undefined) problems.errorAtKey(at, found);
    if (seen.has(lower)) {
      problems.errorAtKey(at, fault("duplicate-entry", "this header is set twice"));
    }
    if (removed.includes(lower)) {
      const message = "is set here and removed below: what is set replaces the client's";
      problems.errorAtKey(at, fault("duplicate-entry", message, "leave it out of remove"));
    }
    seen.add(lower);
  }
  for (const [index, name] of removed.entries()) {
    const found = crossingNameFault(name, "remove");
    if (found !== undefined) problems.error([...path, "remove", index], found);
  }
  return {
    set: Object.entries(set).map(([name, value]) => ({ name, value: new Secret(value) })),
    remove: removed,
    allow: resolveAllowed(allow, [...path, "allow"], context),
  };
}
