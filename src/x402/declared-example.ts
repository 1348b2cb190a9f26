/** What a declaration of a field or an answer gives itself for a value: never one that somebody made up. */
import { isRecord } from "./json.ts";

type Values = Readonly<Record<string, unknown>>;

/** Levels of members and items that are looked through. */
const MAX_DEPTH = 8;

/** What a schema itself has for a value, the likeliest first. */
export function valuesIn({
  example,
  examples,
  default: usual,
  const: only,
  enum: all,
}: Values): unknown[] {
  const [first] = Array.isArray(examples) ? examples : [];
  const [choice] = Array.isArray(all) ? all : [];
  return [example, first, usual, only, choice];
}

/** Undefined where the declaration has none, or none of a member that has to be there. */
export function declaredExample(declared: unknown, depth = 0): unknown {
  if (!isRecord(declared) || depth > MAX_DEPTH) return undefined;
  const own = valuesIn(declared).find((value) => value !== undefined);
  if (own !== undefined) return own;
  const { properties, items, required } = declared;
  if (isRecord(properties)) {
    const members = Object.entries(properties).flatMap(([name, member]) => {
      const value = declaredExample(member, depth + 1);
      return value === undefined ? [] : [[name, value] as const];
    });
    const has = new Set(members.map(([name]) => name));
    const wanted: readonly unknown[] = Array.isArray(required) ? required : [];
    const isWhole = has.size > 0 && wanted.every((name) => has.has(String(name)));
    return isWhole ? Object.fromEntries(members) : undefined;
  }
  const item = declaredExample(items, depth + 1);
  return item === undefined ? undefined : [item];
}

/** The same as the text of a field; undefined where it is none. */
export function declaredText(declared: unknown): string | undefined {
  const value = declaredExample(declared);
  const isText =
    typeof value === "string" || typeof value === "number" || typeof value === "boolean";
  return isText && value !== "" ? String(value) : undefined;
}
