/** JSON that others have written, of whose shape nothing is known. */

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Undefined for a text that is no JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Of any object, its own members only; undefined where there is none of that name. */
export function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return Object.getOwnPropertyDescriptor(value, name)?.value;
}

/** Level by level: a walk that calls itself would end where the stack does. */
export function nestsAtMost(value: unknown, levels: number): boolean {
  let level: readonly unknown[] = [value];
  for (let depth = 0; depth <= levels; depth += 1) {
    level = level.flatMap((each) => {
      return typeof each === "object" && each !== null ? Object.values(each) : [];
    });
    if (level.length === 0) return true;
  }
  return false;
}

/** The names of types that JSON Schema has. */
export const JSON_TYPES: ReadonlySet<unknown> = new Set([
  "string",
  "number",
  "integer",
  "boolean",
  "array",
  "object",
  "null",
]);
