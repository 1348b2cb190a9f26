/** What stands below a member of a description: more of it, names that somebody chose, or nothing to look into. */

/** Below these keys stands data, or names that refer to nothing in the description. */
const DATA: ReadonlySet<string> = new Set([
  "example",
  "default",
  "enum",
  "const",
  "value",
  "required",
  "security",
  "scopes",
  "mapping",
  "dependentRequired",
]);
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
  "securitySchemes",
  "paths",
  "callbacks",
  "encoding",
]);

export type MemberKind = "part" | "names" | "data" | "extension";

/** Of a member that is not itself below a key with names. */
export function memberKind(name: string, member: unknown): MemberKind {
  if (name.startsWith("x-")) return "extension";
  // Of a schema they are data, elsewhere each has a name.
  if (name === "examples") return Array.isArray(member) ? "data" : "names";
  if (DATA.has(name)) return "data";
  return NAMED.has(name) ? "names" : "part";
}
