/**
 * The extension `bazaar` of a payment of version 2: what its seller says of the resource, with a JSON Schema of that.
 * Nobody has signed for it, and a buyer may have written it: it is judged in bounded time, and read as what version 1
 * says in `outputSchema`.
 */
import { z } from "zod";
import { BAZAAR } from "./bazaar.ts";
import { isRecord, memberOf } from "./json.ts";
import { err, ok, type Result } from "./result.ts";
import { X402_VERSION_2, type FacilitatorRequest, type PaymentRequirements } from "./x402.ts";

/** Longest extension that is judged, characters of its JSON. */
const MAX_LENGTH = 4_096;
/** Values that are told, at most, each object and list among them. */
const MAX_VALUES = 200;
/** So often another part of the schema is judged for one part of what is told. */
const MAX_REFERENCES = 8;
const MAX_BRANCHES = 16;
const BRANCHING: ReadonlySet<string> = new Set(["anyOf", "oneOf", "allOf"]);
/** Names of a schema by which another one is meant. */
const NAMING: ReadonlySet<string> = new Set([
  "$ref",
  "$id",
  "$anchor",
  "$dynamicAnchor",
  "$dynamicRef",
]);
const REFERENCE = /^#\/\$defs\/[^/]+$/;
/** Where a schema describes the parameters of a path. */
const PATH_PARAMS = ["properties", "input", "properties", "pathParams", "properties"];

/**
 * What was paid for as a seller of version 1 asks for it; or why it is not listed. Undefined where nothing is said of
 * it: then it is not for the listing.
 */
export function toldRequirements({
  paymentPayload,
  paymentRequirements,
}: FacilitatorRequest): Result<PaymentRequirements, string> | undefined {
  if (paymentPayload.x402Version !== X402_VERSION_2) return ok(paymentRequirements);
  const told = paymentPayload.extensions?.[BAZAAR];
  if (told == null) return undefined;
  if (!isRecord(told) || !isRecord(told["info"]) || !isRecord(told["schema"])) {
    return err("the bazaar extension has no info or no schema");
  }
  if (JSON.stringify(told).length > MAX_LENGTH || countOf(told["info"]) > MAX_VALUES) {
    return err("the bazaar extension is longer than the listing takes");
  }
  const { info, schema, routeTemplate } = told;
  const fault = faultOf(schema, info);
  if (fault !== undefined) return err(fault);
  const { input, output } = info;
  if (!isRecord(input)) return err("info.input of the bazaar extension is no object");
  if (routeTemplate != null && !isPlain(routeTemplate)) {
    return err("routeTemplate of the bazaar extension is no path");
  }
  const { body: bodyFields, headers: headerFields, pathParams: _, ...rest } = input;
  // Its own are those of one buyer's request, and nothing of buyers is listed.
  const pathParams = PATH_PARAMS.reduce<unknown>(memberOf, schema);
  const outputSchema = {
    input: {
      ...rest,
      discoverable: true,
      ...(bodyFields !== undefined && { bodyFields }),
      ...(headerFields !== undefined && { headerFields }),
      ...(isRecord(pathParams) && { pathParams }),
      ...(routeTemplate != null && { routeTemplate }),
    },
    ...(output !== undefined && { output }),
  };
  return ok({ ...paymentRequirements, outputSchema });
}

/** Why that schema does not say that this is well; undefined: it does. */
function faultOf(schema: Readonly<Record<string, unknown>>, info: unknown): string | undefined {
  const references = membersIn(schema, NAMING).filter((each) => typeof each === "string");
  const isLocal = references.every((each) => REFERENCE.test(each));
  // What refers to itself, or to what refers on, may take a time that nobody can wait for.
  // `definitions` is what `$defs` was called before, and is read where there is none.
  const meant = [schema["$defs"], schema["definitions"]];
  if (!isLocal || membersIn(meant, NAMING).length > 0) {
    return "schema of the bazaar extension refers to more than its own $defs";
  }
  const branches = membersIn(schema, BRANCHING).flat();
  if (references.length > MAX_REFERENCES || branches.length > MAX_BRANCHES) {
    return "schema of the bazaar extension has more branches than are judged";
  }
  try {
    // In a registry of its own: the common one keeps each schema that has an `id` for ever.
    const judge = z.fromJSONSchema(withoutPatterns(schema), { registry: z.registry() });
    if (judge.safeParse(info).success) return undefined;
    return "info of the bazaar extension is not as its schema says";
  } catch {
    return "schema of the bazaar extension is none that can be judged";
  }
}

function countOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  return Object.values(value).reduce<number>((sum, member) => sum + countOf(member), 1);
}

/** All members of those names, however deep. */
function membersIn(value: unknown, names: ReadonlySet<string>): readonly unknown[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, member]: [string, unknown]) => {
    const deeper = membersIn(member, names);
    return names.has(name) ? [member, ...deeper] : deeper;
  });
}

/** A pattern may take as long as its author likes: none is tried. */
function withoutPatterns(schema: Readonly<Record<string, unknown>>): z.core.JSONSchema.JSONSchema {
  return JSON.parse(JSON.stringify(schema), (name, value: unknown) => {
    const isPattern =
      name === "patternProperties" || (name === "pattern" && typeof value === "string");
    return isPattern ? undefined : value;
  }) as z.core.JSONSchema.JSONSchema;
}

/** A path without a way upwards, however it is spelt, and however often it was encoded. */
function isPlain(template: unknown): boolean {
  if (typeof template !== "string" || !template.startsWith("/")) return false;
  let read = template;
  for (;;) {
    if (read.includes("..") || read.includes("\\") || read.includes("://")) return false;
    let next: string;
    try {
      next = decodeURIComponent(read);
    } catch {
      return false;
    }
    if (next === read) return true;
    read = next;
  }
}
