/**
 * OpenAPI 3.0 as 3.1: the two differ in how a schema says that a value may be null or has an exclusive bound.
 * Everything else of 3.0 means the same in 3.1.
 */
import { recordOf, type DescriptionValues } from "./description.ts";
import { memberKind } from "./member-kinds.ts";

/** @param areNames the members are called what somebody liked, so that none of them is a keyword */
export function asNewer(value: unknown, areNames = false): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((each) => asNewer(each));
  const members = Object.entries(value).map(([name, member]) => {
    const kind = areNames ? "part" : memberKind(name, member);
    const isOurs = kind === "part" || kind === "names";
    return [name, isOurs ? asNewer(member, kind === "names") : member] as const;
  });
  const written = Object.fromEntries(members);
  return areNames ? written : newerSchema(written);
}

function newerSchema(values: DescriptionValues): DescriptionValues {
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

function exclusive(schema: DescriptionValues, mark: string, bound: string): DescriptionValues {
  if (typeof schema[mark] !== "boolean") return schema;
  const { [mark]: isExclusive, [bound]: limit, ...rest } = recordOf(schema);
  if (limit === undefined) return rest;
  return { ...rest, [isExclusive === true ? mark : bound]: limit };
}
