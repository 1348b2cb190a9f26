/**
 * The parts of a description that what is published refers to, directly or through others: the rest belongs to
 * operations that are not shown, and would tell of them.
 */
import { listOf, recordOf, type DescriptionValues } from "./description.ts";
import { componentOf } from "./references.ts";

/** Kinds that hold whole operations: those that were wanted stand at their paths already. */
const WITH_OPERATIONS: ReadonlySet<string> = new Set(["pathItems", "callbacks"]);
/** Named by what `security` says, not by references. */
const BY_NAME = "securitySchemes";
/** Parts that are followed at most; more than any description of {@link MAX_DESCRIPTION_LENGTH} has. */
const MAX_FOLLOWED = 100_000;

/**
 * Of `components`, what `written` needs.
 * @param security what holds for operations that do not say
 */
export function usedComponents(
  components: DescriptionValues,
  written: DescriptionValues,
  security: readonly unknown[],
): DescriptionValues {
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
  const schemes = usedSchemes(recordOf(components[BY_NAME]), written, security);
  return {
    ...Object.fromEntries(kept),
    ...(Object.keys(schemes).length === 0 ? {} : { [BY_NAME]: schemes }),
  };
}

/** A scheme that nothing shown asks for would tell where the backend's own accounts are. */
function usedSchemes(
  schemes: DescriptionValues,
  written: DescriptionValues,
  security: readonly unknown[],
): DescriptionValues {
  const operations = Object.values(written).flatMap((item) => Object.values(recordOf(item)));
  const asked = operations.flatMap((each) => listOf(recordOf(each)["security"]));
  const names = new Set([...security, ...asked].flatMap((each) => Object.keys(recordOf(each))));
  return Object.fromEntries(Object.entries(schemes).filter(([name]) => names.has(name)));
}

/** Any text of that form, since a discriminator's mapping has references without `$ref`. */
function referencesIn(root: unknown): (readonly [kind: string, name: string])[] {
  const found: (readonly [string, string])[] = [];
  const open: unknown[] = [root];
  while (open.length > 0) {
    const value = open.pop();
    if (typeof value === "string") {
      const component = componentOf(value);
      if (component !== null) found.push([component.kind, component.name]);
    } else if (typeof value === "object" && value !== null) {
      // A mapping may also name a schema alone.
      const { mapping } = Object(value);
      for (const name of Object.values(recordOf(mapping))) {
        if (typeof name === "string" && !name.includes("/")) found.push(["schemas", name]);
      }
      // One by one: as arguments of a call there may be too many.
      for (const each of Object.values(value)) open.push(each);
    }
  }
  return found;
}
