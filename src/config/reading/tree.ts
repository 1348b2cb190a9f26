/**
 * A document as plain values, each with its place in the text. Values that a check refused are marked:
 * they count as written, but are left out of what is read further, so that one fault hides no other.
 */
export type Path = readonly (string | number)[];

export interface Span {
  /** In UTF-16 code units from the start of the text. */
  readonly offset: number;
  readonly length: number;
}

interface Common {
  readonly span: Span;
  refused: boolean;
}

export interface Scalar extends Common {
  readonly kind: "scalar";
  readonly value: string | number | boolean | null;
}

interface Sequence extends Common {
  readonly kind: "sequence";
  readonly elements: readonly Located[];
}

interface Mapping extends Common {
  readonly kind: "mapping";
  readonly entries: Map<string, TreeEntry>;
}

/** One value of the document. */
export type Located = Scalar | Sequence | Mapping;

export interface TreeEntry {
  readonly key: Span;
  value: Located;
}

export class Tree {
  readonly root: Located;
  /** The elements of lists that were not refused, kept because paths are looked up often. */
  readonly #standing = new Map<Sequence, readonly Located[]>();

  constructor(root: Located) {
    this.root = root;
  }

  /** The value at a path, refused ones included; indexes count what was not refused. */
  find(path: Path): Located | undefined {
    return this.#locate(path)?.value;
  }

  has(path: Path): boolean {
    return this.find(path) !== undefined;
  }

  /** The keys of the map at a path, those of refused values included; none where there is no map. */
  keys(path: Path): readonly string[] {
    const located = this.find(path);
    return located?.kind === "mapping" ? [...located.entries.keys()] : [];
  }

  /** Whether something is written there that was not refused; parts of it may have been. */
  stands(path: Path): boolean {
    return this.find(path)?.refused === false;
  }

  /** True where nothing in or below a path was refused, and where nothing is written. */
  intact(path: Path): boolean {
    const located = this.find(path);
    return located === undefined || isIntact(located);
  }

  /** The place of a path; of its nearest written ancestor where the path itself is not written. */
  span(path: Path, part: "key" | "value"): Span {
    const entry = this.#locate(path);
    if (entry === undefined) return this.span(path.slice(0, -1), "key");
    return part === "key" ? entry.key : entry.value.span;
  }

  /** Like {@link Tree.span}, but of the whole value of an ancestor, in which the path would be written. */
  extent(path: Path, part: "key" | "value"): Span {
    const entry = this.#locate(path);
    if (entry === undefined) return this.extent(path.slice(0, -1), "value");
    return part === "key" ? entry.key : entry.value.span;
  }

  /** Reads a key from now on where it was meant to stand: below a map, or a key that has no value yet. */
  move(from: Path, to: Path): void {
    const [source, target] = [this.find(from.slice(0, -1)), this.#locate(to.slice(0, -1))];
    const entry = this.#locate(from);
    if (entry === undefined || source?.kind !== "mapping" || target === undefined) return;
    source.entries.delete(String(from.at(-1)));
    const { value } = target;
    if (value.kind !== "mapping") {
      const entries = new Map([[String(to.at(-1)), entry]]);
      target.value = { kind: "mapping", span: value.span, entries, refused: false };
    } else {
      value.entries.set(String(to.at(-1)), entry);
    }
  }

  /** Leaves these values out from now on. */
  refuse(values: readonly Located[]): void {
    for (const value of values) value.refused = true;
    this.#standing.clear();
  }

  /** The document without what was refused; undefined when the root was. */
  plain(): unknown {
    return this.root.refused ? undefined : plain(this.root);
  }

  #locate(path: Path): TreeEntry | undefined {
    let entry: TreeEntry | undefined = { key: this.root.span, value: this.root };
    for (const step of path) {
      entry = this.#child(entry.value, step);
      if (entry === undefined) return undefined;
    }
    return entry;
  }

  #child(parent: Located, step: string | number): TreeEntry | undefined {
    if (parent.kind === "mapping") return parent.entries.get(String(step));
    if (parent.kind === "scalar") return undefined;
    let standing = this.#standing.get(parent);
    if (standing === undefined) {
      standing = parent.elements.filter((each) => !each.refused);
      this.#standing.set(parent, standing);
    }
    const element = standing[Number(step)];
    return element === undefined ? undefined : { key: element.span, value: element };
  }
}

export function plain(located: Located): unknown {
  if (located.kind === "scalar") return located.value;
  if (located.kind === "sequence") {
    return located.elements.filter((each) => !each.refused).map(plain);
  }
  const kept = [...located.entries].filter(([, entry]) => !entry.value.refused);
  return Object.fromEntries(kept.map(([key, entry]) => [key, plain(entry.value)]));
}

function isIntact(located: Located): boolean {
  if (located.refused) return false;
  if (located.kind === "sequence") return located.elements.every(isIntact);
  if (located.kind === "scalar") return true;
  return [...located.entries.values()].every((entry) => isIntact(entry.value));
}
