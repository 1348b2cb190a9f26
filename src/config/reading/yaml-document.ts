/**
 * YAML text to a {@link Tree}. Plain scalars are typed here rather than by YAML's own rules, which read
 * an unquoted address as a number of 160 bits, `010` as ten and `1e3` as a thousand: only what everyone
 * would call a number is one, everything else stays text.
 */
import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  parseDocument,
  visit,
  type Document,
  type Node,
  type Scalar as YamlScalar,
  type YAMLMap,
} from "yaml";
import { isForgiven, type Environment } from "./environment.ts";
import { fillPlaceholders, hasPlaceholder } from "./interpolation.ts";
import type { LineIndex } from "./line-index.ts";
import type { Fault } from "./problem.ts";
import { ONE_OF_TWO } from "./reading.ts";
import type { Source } from "./source.ts";
import {
  blocksOf,
  hasSeveralDocuments,
  isBroken,
  MAX_DEPTH,
  oneEachLine,
  TOO_DEEP,
  unsoundFrom,
  yamlFaults,
  type LocatedFault,
} from "./yaml-faults.ts";
import { Tree, type TreeEntry, type Located, type Scalar, type Span } from "./tree.ts";

/** Longest configuration file, UTF-16 code units; ten thousand routes need about a tenth. */
const MAX_TEXT_LENGTH = 16 * 1024 * 1024;
/** Values that all aliases of a file may stand for together: what stops a "billion laughs" file. */
const MAX_ALIASED_VALUES = 1000;

const INTEGER = /^-?(?:0|[1-9][0-9]*)$/;
const DECIMAL = /^-?(?:0|[1-9][0-9]*)\.[0-9]+$/;
/** Up to here every decimal number survives as a float. */
const EXACT_DIGITS = 15;

const NO_MERGE: Fault = {
  code: "unknown-key",
  message: "merge keys are not part of YAML 1.2",
  suggestion: "write the keys out, or give the whole value an anchor and an alias",
};
const TOO_MANY_ALIASES: Fault = {
  code: "too-many-aliases",
  message: `aliases stand for more than ${MAX_ALIASED_VALUES} values`,
};

const NESTED: Fault = {
  code: "unknown-key",
  message: "a file that is included includes no others",
  suggestion: "name it in the file that is started with",
};
const NO_MAP: Fault = {
  code: "bad-value",
  message: "a file that is included has to be a map of the same keys",
};
const NOWHERE: Span = { offset: 0, length: 1 };

const TOO_LONG: Fault = {
  code: "too-long",
  message: `the file is longer than ${MAX_TEXT_LENGTH} characters`,
  suggestion: "ten thousand routes need about a tenth of that",
};
const NOT_TEXT: Fault = {
  code: "not-text",
  message: "this is no text in UTF-8, but a program, an archive or another encoding",
  suggestion: "name the YAML file, or save it as UTF-8",
};
/** Characters of a file that UTF-8 has not: of a text in an older encoding few are. */
const MAX_UNREADABLE = 20;

/** Whether a file may be one that somebody has written. */
export function isText(text: string): boolean {
  const start = text.slice(0, 4_096);
  return !start.includes("\0") && start.split("\ufffd").length <= MAX_UNREADABLE;
}

export interface YamlDocument {
  /** What could be read, even where there are faults. */
  readonly tree: Tree;
  /** Where the text is not YAML, or not one document of YAML 1.2. */
  readonly syntaxFaults: readonly LocatedFault[];
  /** Parts of the text of which the tree may say something else than the text. */
  readonly unsound: readonly Span[];
  /** Single values that could not be read; they are marked in the tree. */
  readonly faults: readonly LocatedFault[];
}

export function readYaml(
  { text, files }: Pick<Source, "text" | "files">,
  lines: LineIndex,
  environment: Environment,
): YamlDocument {
  const bad = files.find(({ offset, length }) => !isText(text.slice(offset, offset + length)));
  if (text.length > MAX_TEXT_LENGTH || bad !== undefined) {
    const span = { offset: bad?.offset ?? 0, length: 1 };
    const tree = new Tree(scalar(null, { offset: 0, length: 1 }));
    const unsound = [{ offset: 0, length: text.length }];
    const fault = bad === undefined ? TOO_LONG : NOT_TEXT;
    return { tree, syntaxFaults: [{ span, fault }], unsound, faults: [] };
  }
  const reader = new Reader(text, lines, environment);
  const read = files.map((file) => readFile(text, file, { lines, reader }));
  const root = reader.joinFiles(read.map((each) => each.root));
  return {
    tree: new Tree(root),
    syntaxFaults: read.flatMap(({ syntaxFaults }) => syntaxFaults),
    unsound: read.flatMap(({ unsound }) => unsound),
    faults: reader.faults,
  };
}

interface ReadFile extends Pick<YamlDocument, "syntaxFaults" | "unsound"> {
  readonly root: Located;
}

interface Reading {
  readonly lines: LineIndex;
  readonly reader: Reader;
}

function readFile(text: string, { offset, length }: Span, { lines, reader }: Reading): ReadFile {
  const end = offset + length;
  const written = text.slice(offset, end);
  const document = parse(written, offset);
  const blocks = isBroken(document) && !hasSeveralDocuments(document) ? blocksOf(written) : [];
  if (blocks.length > 1) {
    const placed = blocks.map((each) => ({ ...each, offset: each.offset + offset }));
    return readBlocks(text, placed, { lines, reader });
  }
  const root = reader.read(document.contents, { offset, length: 1 });
  const start = unsoundFrom(document, root, text);
  return {
    root,
    syntaxFaults: oneEachLine(yamlFaults(document, root, text), lines),
    unsound: start === undefined ? [] : [{ offset: start, length: end - start }],
  };
}

/** Reads each part by itself: a fault in one says nothing about another, and leaves nothing of another unread. */
function readBlocks(text: string, blocks: readonly Span[], { lines, reader }: Reading): ReadFile {
  const syntaxFaults: LocatedFault[] = [];
  const unsound: Span[] = [];
  const parts: Located[] = [];
  for (const { offset, length } of blocks) {
    const end = offset + length;
    const document = parse(text.slice(offset, end), offset);
    const part = reader.read(document.contents, { offset, length: 1 });
    const start = unsoundFrom(document, part, text);
    if (start !== undefined) unsound.push({ offset: start, length: end - start });
    syntaxFaults.push(...oneEachLine(yamlFaults(document, part, text), lines));
    parts.push(part);
  }
  const [first] = blocks;
  const offset = first?.offset ?? 0;
  const root = reader.join(parts, { offset, length: text.length - offset }, false);
  return { root, syntaxFaults, unsound };
}

/** `offset` is where the text stands in the file. */
function parse(text: string, offset: number): Document.Parsed {
  const document = parseDocument(text, {
    schema: "failsafe",
    resolveKnownTags: false,
    stringKeys: true,
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: "error",
  });
  if (offset === 0) return document;
  for (const error of [...document.errors, ...document.warnings]) {
    error.pos = [error.pos[0] + offset, error.pos[1] + offset];
  }
  visit(document, {
    Node: (_, node) => {
      const [start, value, end] = node.range ?? [0, 0, 0];
      node.range = [start + offset, value + offset, end + offset];
    },
  });
  return document;
}

class Reader {
  readonly faults: LocatedFault[] = [];
  readonly #text: string;
  readonly #lines: LineIndex;
  readonly #environment: Environment;
  readonly #anchors = new Map<string, Node>();
  /** The collections being read, outermost first; one that contains itself would never end. */
  readonly #open = new Set<Node>();
  /** The outermost alias being read. */
  #alias: Span | undefined;
  #aliased = 0;

  constructor(text: string, lines: LineIndex, environment: Environment) {
    this.#text = text;
    this.#lines = lines;
    this.#environment = environment;
  }

  /** `fallback` is the place of a value that is not written at all. */
  read(node: Node | null, fallback: Span): Located {
    if (node === null) return scalar(null, fallback);
    const span = spanOf(node) ?? fallback;
    if (isAlias(node)) return this.#anchored(node.source, span);
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, node);
    if (this.#alias !== undefined && (this.#aliased += 1) > MAX_ALIASED_VALUES) {
      if (this.#aliased === MAX_ALIASED_VALUES + 1) this.#fault(this.#alias, TOO_MANY_ALIASES);
      return { ...scalar(null, span), refused: true };
    }
    if (node.tag !== undefined && !PLAIN_TAG.test(node.tag)) {
      return { ...scalar(null, span), refused: true };
    }
    return isScalar(node) ? this.#scalar(node, span) : this.#opened(node, span);
  }

  #opened(node: Node, span: Span): Located {
    if (this.#open.size >= MAX_DEPTH) return this.#refuse(span, TOO_DEEP);
    if (this.#open.has(node)) {
      const message = "an alias stands for a value that contains it";
      return this.#refuse(span, { code: "yaml-syntax", message });
    }
    this.#open.add(node);
    const located = this.#collection(node, span);
    this.#open.delete(node);
    return located;
  }

  #collection(node: Node, span: Span): Located {
    if (isMap<Node, Node | null>(node)) return this.#mapping(node, span);
    const items = isSeq<Node | null>(node) ? node.items : [];
    const elements = items.map((item) => this.read(item, span));
    return { kind: "sequence", span, elements, refused: false };
  }

  #mapping(node: YAMLMap<Node, Node | null>, span: Span): Located {
    const entries = new Map<string, TreeEntry>();
    const merged: Located[] = [];
    for (const pair of node.items) {
      const keySpan = spanOf(pair.key) ?? span;
      const key = isScalar(pair.key) ? String(pair.key.value) : "";
      const value = this.read(pair.value, keySpan);
      const earlier = entries.get(key);
      if (earlier !== undefined) {
        this.#fault(keySpan, this.#duplicate(key, earlier));
      } else if (key === "__proto__") {
        this.#fault(keySpan, {
          code: "unknown-key",
          message: "this key has no meaning here",
          suggestion: "remove it",
        });
      } else if (key === "<<") {
        this.#fault(keySpan, NO_MERGE);
        merged.push(value);
      } else {
        entries.set(key, { key: keySpan, value });
      }
    }
    // Read as it is meant, so that nothing is said to be missing.
    for (const part of merged.flatMap((each) =>
      each.kind === "sequence" ? each.elements : each,
    )) {
      for (const [key, entry] of part.kind === "mapping" ? part.entries : []) {
        if (!entries.has(key)) entries.set(key, entry);
      }
    }
    return { kind: "mapping", span, entries, refused: false };
  }

  /** The map of a file, with those of the files that it includes. */
  joinFiles([own, ...included]: readonly Located[]): Located {
    if (own === undefined || included.length === 0) return own ?? scalar(null, NOWHERE);
    for (const each of included) {
      const nested = each.kind === "mapping" ? each.entries.get("include") : undefined;
      if (nested !== undefined) this.#fault(nested.key, NESTED);
      if (each.kind === "mapping") each.entries.delete("include");
      else if (each.kind !== "scalar" || each.value !== null) this.#fault(each.span, NO_MAP);
    }
    return this.join([own, ...included], own.span, true);
  }

  /** One map of the parts of one, each with keys of its own. `isDeep`: maps under one key are joined as well. */
  join(parts: readonly Located[], span: Span, isDeep: boolean): Located {
    const entries = new Map<string, TreeEntry>();
    for (const part of parts) {
      for (const [key, entry] of part.kind === "mapping" ? part.entries : []) {
        const earlier = entries.get(key);
        if (earlier === undefined) entries.set(key, entry);
        else if (isDeep && areMaps(earlier.value, entry.value)) {
          const value = this.join([earlier.value, entry.value], earlier.value.span, true);
          entries.set(key, { ...earlier, value });
        } else this.#fault(entry.key, this.#duplicate(key, earlier));
      }
    }
    return { kind: "mapping", span, entries, refused: false };
  }

  #duplicate(key: string, earlier: TreeEntry): Fault {
    return duplicateKey(key, this.#lines.where(earlier.key.offset));
  }

  #anchored(name: string, span: Span): Located {
    const anchored = this.#anchors.get(name);
    if (anchored === undefined) {
      const message = "no value before this alias has an anchor of that name";
      return this.#refuse(span, {
        code: "yaml-syntax",
        message,
        suggestion: "put quotes around a value that begins with *",
      });
    }
    const outermost = this.#alias;
    this.#alias ??= span;
    const located = { ...this.read(anchored, span), span };
    this.#alias = outermost;
    return located;
  }

  #scalar(node: YamlScalar, span: Span): Located {
    const text = String(node.value);
    if (hasPlaceholder(text)) return this.#filled(text, span);
    if (node.type !== "PLAIN" || node.tag !== undefined) return scalar(text, span);
    const value = typed(text);
    if (typeof value !== "number" || text.replace(/[-.]/g, "").length <= EXACT_DIGITS) {
      return scalar(value, span);
    }
    return this.#refuse(span, {
      code: "number-too-long",
      message: `a number of more than ${EXACT_DIGITS} digits is not kept exactly`,
      suggestion: `put quotes around it: "${text}"`,
    });
  }

  #filled(text: string, span: Span): Located {
    const filled = fillPlaceholders(text, this.#environment);
    const source = this.#text.slice(span.offset, span.offset + span.length);
    for (const { placeholder, ...fault } of filled.faults) {
      if (isForgiven(fault, this.#environment)) continue;
      const at = source.indexOf(placeholder);
      const place = { offset: span.offset + at, length: placeholder.length };
      this.#fault(at < 0 ? span : place, fault);
    }
    return { ...scalar(filled.text, span), refused: filled.faults.length > 0 };
  }

  #refuse(span: Span, fault: Fault): Located {
    this.#fault(span, fault);
    return { ...scalar(null, span), refused: true };
  }

  #fault(span: Span, fault: Fault): void {
    this.faults.push({ span, fault });
  }
}

/** What YAML itself calls a text, a map and a list: it changes nothing. */
const PLAIN_TAG = /^tag:yaml\.org,2002:(?:str|map|seq)$/;

function scalar(value: Scalar["value"], span: Span): Scalar {
  return { kind: "scalar", span, value, refused: false };
}

function spanOf(node: Node): Span | undefined {
  if (!node.range) return undefined;
  const [offset, end] = node.range;
  return { offset, length: end - offset };
}

function typed(text: string): Scalar["value"] {
  if (/^(?:~|null|Null|NULL|)$/.test(text)) return null;
  if (/^(?:true|True|TRUE)$/.test(text)) return true;
  if (/^(?:false|False|FALSE)$/.test(text)) return false;
  return INTEGER.test(text) || DECIMAL.test(text) ? Number(text) : text;
}

function areMaps(...values: readonly Located[]): boolean {
  return values.every(({ kind }) => kind === "mapping");
}

function duplicateKey(key: string, where: string): Fault {
  return {
    code: "duplicate-key",
    message: `${JSON.stringify(key)} is already given on ${where}`,
    suggestion: ONE_OF_TWO,
  };
}
