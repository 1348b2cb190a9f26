/**
 * Which tool of a file a name is. Names are compared exactly; one that a lenient backend could read as another that the
 * file has something else for is none of both, as a path is that is close to another one.
 */

/** What the file says of one tool, or of all whose names begin so. */
export interface ToolKey {
  /** `get_weather`, `search_*`, `*` */
  readonly name: string;
  /** Where its plan is in the router: no request has that path as its own. */
  readonly path: string;
  readonly isDenied: boolean;
  /** What it costs, for people; null: nothing. */
  readonly price: string | null;
}

/** How calls that are not paid are told so. */
export type UnpaidTelling = "auto" | "result" | "status";

export interface ToolTableTerms {
  readonly unpaid: UnpaidTelling;
  /** Whether prices are written into lists of tools. */
  readonly telling: boolean;
  readonly tools: readonly ToolKey[];
}

/** Longest name, characters. */
const MAX_NAME = 256;
const ALL = "*";

/** Whether a path is where the plan of a tool is. */
export function isToolPath(path: string): boolean {
  return /%23(?:from|tool)\.[0-9a-f]*$/.test(path);
}

/** How the loosest reader takes a name: without case, forms, spaces and signs that nobody sees. */
export function looseName(name: string): string {
  return name
    .normalize("NFKC")
    .replace(/[\p{C}\p{Z}\p{M}\s]/gu, "")
    .toUpperCase()
    .toLowerCase()
    .normalize("NFKC");
}

/** Undefined: it has nothing for it. */
export type FoundTool = ToolKey | "unclear" | undefined;

export class ToolTable {
  readonly unpaid: UnpaidTelling;
  readonly telling: boolean;
  /** Whether a backend may have a tool that is not to be had. */
  readonly hides: boolean;
  readonly #exact = new Map<string, ToolKey>();
  /** As the loosest reader takes them: lists of tools ask for each of their names. */
  readonly #loose: ReadonlySet<string>;
  /** The longest first. */
  readonly #prefixes: readonly (readonly [prefix: string, tool: ToolKey, loose: string])[];

  constructor({ tools, unpaid, telling }: ToolTableTerms) {
    this.unpaid = unpaid;
    this.telling = telling;
    const hasAll = tools.some(({ name }) => name === ALL);
    this.hides = !hasAll || tools.some(({ isDenied }) => isDenied);
    const prefixes: [string, ToolKey, string][] = [];
    for (const tool of tools) {
      const { name } = tool;
      const prefix = name.slice(0, -1);
      if (name.endsWith(ALL)) prefixes.push([prefix, tool, looseName(prefix)]);
      else this.#exact.set(name, tool);
    }
    this.#loose = new Set([...this.#exact.keys()].map(looseName));
    this.#prefixes = prefixes.toSorted(([left], [right]) => right.length - left.length);
  }

  find(name: string): FoundTool {
    const exact = this.#exact.get(name);
    // What the file spells out is what it means, as of paths.
    if (exact !== undefined) return exact;
    if (!isPlain(name)) return "unclear";
    const strict = this.#prefixes.find(([prefix]) => name.startsWith(prefix))?.[1];
    return this.#mayBeOther(looseName(name), strict) ? "unclear" : strict;
  }

  /** Whether a reader that is as loose as that finds anything that comes before what was found. */
  #mayBeOther(loose: string, strict: ToolKey | undefined): boolean {
    if (this.#loose.has(loose)) return true;
    for (const [, tool, prefix] of this.#prefixes) {
      if (tool === strict) return false;
      if (loose.startsWith(prefix)) return true;
    }
    return false;
  }
}

/** Whether all readers see the same name. */
function isPlain(name: string): boolean {
  return (
    name.length <= MAX_NAME &&
    name.isWellFormed() &&
    !/[\p{C}\p{Z}]/u.test(name) &&
    name.normalize("NFKC") === name
  );
}
