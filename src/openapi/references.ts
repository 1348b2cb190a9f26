/**
 * References of a description that would lead nowhere once only a part of it is published: to other operations,
 * to other files, or to what was never there. A document with one of them is refused by those who read it.
 */
import { own, recordOf, resolved, type Values } from "./description.ts";

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
/** Parts that are written where they are referred to, of one document: each may refer to more of them. */
const MAX_WRITTEN_IN_PLACE = 10_000;
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
 * nothing is left out, as are links between operations.
 */
export function selfContained(root: Values): Values {
  return recordOf(new Rewriting(root).rewrite(root, 0));
}

class Rewriting {
  readonly #root: Values;
  #written = 0;

  constructor(root: Values) {
    this.#root = root;
  }

  /** Undefined: there is nothing to be said in this place. */
  rewrite(value: unknown, nested: number): unknown {
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return this.#list(value, nested).filter((each) => each !== undefined);
    const reference = own(recordOf(value), "$ref");
    if (typeof reference === "string") return this.#followed(recordOf(value), reference, nested);
    const told = Object.entries(value).filter(([name, member]) => !isLinks(name, member));
    const members = told.map(([name, member]) => {
      const isAlternative = ALTERNATIVES.has(name) && Array.isArray(member);
      const written = isAlternative
        ? this.#list(member, nested).map((each) => each ?? {})
        : this.rewrite(member, nested);
      return [name, written] as const;
    });
    return Object.fromEntries(members.filter(([, member]) => member !== undefined));
  }

  #list(values: readonly unknown[], nested: number): readonly unknown[] {
    return values.map((each) => this.rewrite(each, nested));
  }

  #followed(value: Values, reference: string, nested: number): unknown {
    const target = resolved({ $ref: reference }, this.#root);
    if (target === null) return undefined;
    if (KEPT.has(componentOf(reference)?.kind ?? "")) return value;
    this.#written += 1;
    if (nested >= MAX_NESTED || this.#written > MAX_WRITTEN_IN_PLACE) return undefined;
    return this.rewrite(target, nested + 1);
  }
}

/**
 * What an answer says about which operation may follow: by ids that are given anew here, and by servers of the
 * backend, and perhaps of operations that are not shown.
 */
function isLinks(name: string, member: unknown): boolean {
  if (name !== "links") return false;
  const links = Object.values(recordOf(member));
  const named = ["operationId", "operationRef", "$ref"];
  return (
    links.length > 0 &&
    links.every((link) => named.some((each) => typeof own(recordOf(link), each) === "string"))
  );
}

/** RFC 6901 section 3, in a fragment. */
function unescaped(name: string): string {
  try {
    return decodeURIComponent(name).replaceAll("~1", "/").replaceAll("~0", "~");
  } catch {
    return name;
  }
}
