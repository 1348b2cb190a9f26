/**
 * References of a description that would lead nowhere once only a part of it is published: to other operations,
 * to other files, or to what was never there. A document with one of them is refused by those who read it.
 */
import { own, recordOf, resolved, unescaped, type DescriptionValues } from "./description.ts";
import { memberKind, type MemberKind } from "./member-kinds.ts";

/** What is kept under its name, see `used-components.ts`: the kinds that hold no operations. */
const KEPT = new Set([
  "schemas",
  "responses",
  "parameters",
  "examples",
  "requestBodies",
  "headers",
  "securitySchemes",
]);
const NAMED_PART = /^#\/components\/([^/]+)\/([^/]+)/;
/** What may be written where it is referred to, in one document, characters: a part may be referred to often. */
const MAX_WRITTEN_IN_PLACE = 4 * 1024 * 1024;
/** How deep parts that are written in place may lie in one another; a part that holds itself would not end. */
const MAX_NESTED = 8;
/** Where a schema stands in a list that must not be empty: one that everything fulfils takes its place. */
const ALTERNATIVES: ReadonlySet<string> = new Set(["allOf", "anyOf", "oneOf", "prefixItems"]);

/** The kind and the name of the component that a reference leads to, or into; null: it leads elsewhere. */
export function componentOf(
  reference: string,
): { readonly kind: string; readonly name: string } | null {
  const [, kind, name] = NAMED_PART.exec(reference) ?? [];
  return kind === undefined || name === undefined ? null : { kind, name: unescaped(name) };
}

/**
 * The same description without such references: what they lead to stands in their place, and what leads to
 * nothing is left out. So are links between operations, whose ids are given anew here and which may not be shown,
 * and extensions (`x-`): they tell the tools of whoever runs the backend how it is reached.
 */
export function selfContained(root: DescriptionValues): DescriptionValues {
  return recordOf(new Rewriting(root).rewrite(root, { nested: 0, kind: "part" }));
}

interface Place {
  /** Parts that are written in place around it. */
  readonly nested: number;
  readonly kind: Exclude<MemberKind, "extension">;
}

class Rewriting {
  readonly #root: DescriptionValues;
  #written = 0;

  constructor(root: DescriptionValues) {
    this.#root = root;
  }

  /** Undefined: there is nothing to be said in this place. */
  rewrite(value: unknown, place: Place): unknown {
    if (place.nested > 0 && !this.#hasRoom(value)) return undefined;
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return this.#list(value, place).filter((each) => each !== undefined);
    const reference = own(recordOf(value), "$ref");
    if (typeof reference === "string") return this.#followed(recordOf(value), reference, place);
    return this.#members(recordOf(value), place);
  }

  #members(value: DescriptionValues, place: Place): DescriptionValues {
    const members = Object.entries(value).map(([name, member]) => {
      return [name, this.#member(name, member, place)] as const;
    });
    return Object.fromEntries(members.filter(([, member]) => member !== undefined));
  }

  #member(name: string, member: unknown, { nested, kind: around }: Place): unknown {
    const kind = kindOf(name, member, around);
    if (kind === "extension" || (around === "part" && name === "links")) return undefined;
    const isAlternative = ALTERNATIVES.has(name) && Array.isArray(member);
    if (!isAlternative) return this.rewrite(member, { nested, kind });
    return this.#list(member, { nested, kind }).map((each) => each ?? {});
  }

  #list(values: readonly unknown[], { nested, kind }: Place): readonly unknown[] {
    const place = { nested, kind: kind === "names" ? "part" : kind } as const;
    return values.map((each) => this.rewrite(each, place));
  }

  #followed(value: DescriptionValues, reference: string, place: Place): unknown {
    const { nested, kind } = place;
    const target = resolved({ $ref: reference }, this.#root);
    if (target === null) return undefined;
    if (KEPT.has(componentOf(reference)?.kind ?? "")) return this.#members(value, place);
    if (nested >= MAX_NESTED) return undefined;
    return this.rewrite(target, { nested: nested + 1, kind });
  }

  #hasRoom(value: unknown): boolean {
    this.#written += lengthOf(value);
    return this.#written <= MAX_WRITTEN_IN_PLACE;
  }
}

function kindOf(name: string, member: unknown, around: Place["kind"]): MemberKind {
  if (around === "data") return "data";
  return around === "names" ? "part" : memberKind(name, member);
}

/** About as many characters as it has as JSON, without what lies below it. */
function lengthOf(value: unknown): number {
  if (typeof value === "string") return value.length + 2;
  if (typeof value !== "object" || value === null) return 4;
  return Object.keys(value).reduce((sum, name) => sum + name.length + 4, 2);
}
