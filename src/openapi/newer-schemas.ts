/**
 * OpenAPI 3.0 as 3.1: the two differ in how a schema says that a value may be null or has an exclusive bound.
 * Everything else of 3.0 means the same in 3.1.
 */
import { recordOf, type Values } from "./description.ts";

/** Below these keys stands data, or whatever an extension likes. */
const DATA: ReadonlySet<string> = new Set(["example", "examples", "default", "enum", "const"]);
/** Below these keys stand names that somebody chose, or the codes of answers: `default` is no keyword there. */
const NAMED: ReadonlySet<string> = new Set([
  "properties",
  "patternProperties",
  "dependentSchemas",
  "$defs",
  "schemas",
  "responses",
  "headers",
  "content",
  "parameters",
  "requestBodies",
  "paths",
  "callbacks",
  "encoding",
]);
/** Deeper than any description nests; what is deeper is left as it is. */
const MAX_DEPTH = 64;

export function asNewer(value: unknown): unknown {
  return newer(value, { depth: 0, areNames: false });
}

/** `areNames`: the members are called what somebody liked, so that none of them is a keyword. */
function newer(
  value: unknown,
  { depth, areNames }: { readonly depth: number; readonly areNames: boolean },
): unknown {
  if (depth > MAX_DEPTH || typeof value !== "object" || value === null) return value;
  const below = { depth: depth + 1, areNames: false };
  if (Array.isArray(value)) return value.map((each) => newer(each, below));
  const members = Object.entries(value).map(([name, member]) => {
    if (areNames) return [name, newer(member, below)] as const;
    const isData = DATA.has(name) || name.startsWith("x-");
    return [
      name,
      isData ? member : newer(member, { ...below, areNames: NAMED.has(name) }),
    ] as const;
  });
  const written = Object.fromEntries(members);
  return areNames ? written : newerSchema(written);
}

function newerSchema(values: Values): Values {
  const { nullable, ...rest } = values;
  // A member of that name among the properties of a schema is no mark.
  let schema = typeof nullable === "boolean" ? rest : values;
  if (nullable === true && typeof rest["type"] === "string") {
    schema = { ...schema, type: [rest["type"], "null"] };
    if (Array.isArray(rest["enum"])) schema = { ...schema, enum: [...rest["enum"], null] };
  }
  schema = exclusive(schema, "exclusiveMinimum", "minimum");
  return exclusive(schema, "exclusiveMaximum", "maximum");
}

function exclusive(schema: Values, mark: string, bound: string): Values {
  if (typeof schema[mark] !== "boolean") return schema;
  const { [mark]: isExclusive, [bound]: limit, ...rest } = recordOf(schema);
  if (limit === undefined) return rest;
  return { ...rest, [isExclusive === true ? mark : bound]: limit };
}
