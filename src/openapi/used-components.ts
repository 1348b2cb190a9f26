/**
 * The parts of a description that what is published refers to, directly or through others: the rest belongs to
 * operations that are not shown, and would tell of them.
 */
import { recordOf, type Values } from "./description.ts";

/** Kinds that hold whole operations: those that were wanted stand at their paths already. */
const WITH_OPERATIONS: ReadonlySet<string> = new Set(["pathItems", "callbacks"]);
/** Named by what `security` says, not by references. */
const BY_NAME = "securitySchemes";
const REFERENCE = /^#\/components\/([^/]+)\/([^/]+)$/;
/** Parts that are followed at most; more than any description of {@link MAX_DESCRIPTION_LENGTH} has. */
const MAX_FOLLOWED = 100_000;

/** Of `components`, what `written` needs. */
export function usedComponents(components: Values, written: unknown): Values {
  const used = new Map<string, Set<string>>();
  const open: unknown[] = [written];
  for (let followed = 0; open.length > 0 && followed < MAX_FOLLOWED; followed += 1) {
    for (const [kind, name] of referencesIn(open.pop())) {
      const known = used.get(kind) ?? new Set<string>();
      if (WITH_OPERATIONS.has(kind) || known.has(name)) continue;
      used.set(kind, known.add(name));
      open.push(recordOf(components[kind])[name]);
    }
  }
  const kept = [...used].map(([kind, names]) => {
    const all = Object.entries(recordOf(components[kind]));
    return [kind, Object.fromEntries(all.filter(([name]) => names.has(name)))] as const;
  });
  const schemes = components[BY_NAME];
  return { ...Object.fromEntries(kept), ...(schemes === undefined ? {} : { [BY_NAME]: schemes }) };
}

/** Any text of that form, since a discriminator's mapping has references without `$ref`. */
function referencesIn(root: unknown): (readonly [kind: string, name: string])[] {
  const found: (readonly [string, string])[] = [];
  const open: unknown[] = [root];
  while (open.length > 0) {
    const value = open.pop();
    if (typeof value === "string") {
      const [, kind, name] = REFERENCE.exec(value) ?? [];
      if (kind !== undefined && name !== undefined) found.push([kind, unescaped(name)]);
    } else if (typeof value === "object" && value !== null) {
      // A mapping may also name a schema alone.
      const { mapping } = Object(value);
      for (const name of Object.values(recordOf(mapping))) {
        if (typeof name === "string" && !name.includes("/")) found.push(["schemas", name]);
      }
      open.push(...Object.values(value));
    }
  }
  return found;
}

/** RFC 6901 section 3, in a fragment. */
function unescaped(name: string): string {
  try {
    return decodeURIComponent(name).replaceAll("~1", "/").replaceAll("~0", "~");
  } catch {
    return name;
  }
}
