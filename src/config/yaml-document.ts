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
  type Document,
  type Node,
  type Scalar as YamlScalar,
  type YAMLMap,
} from "yaml";
import type { Environment } from "./environment.ts";
import { fillPlaceholders, hasPlaceholder } from "./interpolation.ts";
import type { LineIndex } from "./line-index.ts";
import type { Fault } from "./problem.ts";
import { Tree, type Entry, type Located, type Scalar, type Span } from "./tree.ts";

/** Longest configuration file, UTF-16 code units; ten thousand routes need about a tenth. */
const MAX_TEXT_LENGTH = 16 * 1024 * 1024;
/** Deepest nesting of maps and lists. */
const MAX_DEPTH = 64;
/** Values that all aliases of a file may stand for together: what stops a "billion laughs" file. */
const MAX_ALIASED_VALUES = 1000;

const INTEGER = /^-?(?:0|[1-9][0-9]*)$/;
const DECIMAL = /^-?(?:0|[1-9][0-9]*)\.[0-9]+$/;
/** Up to here every decimal number survives as a float. */
const EXACT_DIGITS = 15;

const TOO_DEEP: Fault = {
  code: "too-deep",
  message: `maps and lists are nested more than ${MAX_DEPTH} deep`,
};

const TOO_MANY_ALIASES: Fault = {
  code: "too-many-aliases",
  message: `aliases stand for more than ${MAX_ALIASED_VALUES} values`,
};

interface LocatedFault {
  readonly span: Span;
  readonly fault: Fault;
}

export interface YamlDocument {
  /** What could be read, even where there are faults. */
  readonly tree: Tree;
  /** The text is not YAML, or not one document of YAML 1.2: the tree means little. */
  readonly syntaxFaults: readonly LocatedFault[];
  /** Offset up to which the tree says what the text says; beyond it the parser may have lost its way. */
  readonly soundUntil: number;
  /** Single values that could not be read; they are marked in the tree. */
  readonly faults: readonly LocatedFault[];
}

export function readYaml(text: string, lines: LineIndex, environment: Environment): YamlDocument {
  if (text.length > MAX_TEXT_LENGTH) {
    const fault: Fault = {
      code: "too-long",
      message: `the file is longer than ${MAX_TEXT_LENGTH} characters`,
    };
    const span = { offset: 0, length: 1 };
    const tree = new Tree(scalar(null, span));
    return { tree, syntaxFaults: [{ span, fault }], soundUntil: 0, faults: [] };
  }
  const document = parseDocument(text, {
    schema: "failsafe",
    resolveKnownTags: false,
    stringKeys: true,
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: "error",
  });
  const reader = new Reader(text, lines, environment);
  const root = reader.read(document.contents, { offset: 0, length: 1 });
  const syntaxFaults = oneEachLine(yamlFaults(document, text), lines);
  const soundUntil = Math.min(
    ...document.errors
      .filter(({ code }) => !LOCAL_FAULTS.has(code))
      .map(({ pos }) => soundBefore(pos[0], root, text)),
    Infinity,
  );
  return { tree: new Tree(root), syntaxFaults, soundUntil, faults: reader.faults };
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
    if (isScalar(node)) return this.#scalar(node, span);
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
    const entries = new Map<string, Entry>();
    for (const pair of node.items) {
      const keySpan = spanOf(pair.key) ?? span;
      const key = isScalar(pair.key) ? String(pair.key.value) : "";
      const value = this.read(pair.value, keySpan);
      const earlier = entries.get(key);
      if (earlier !== undefined) {
        this.#fault(keySpan, duplicateKey(key, this.#lines.position(earlier.key.offset).line));
      } else if (key === "__proto__") {
        this.#fault(keySpan, { code: "unknown-key", message: "this key has no meaning here" });
      } else {
        entries.set(key, { key: keySpan, value });
      }
    }
    return { kind: "mapping", span, entries, refused: false };
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

/** Faults after which the parser goes on as if nothing had been. */
const LOCAL_FAULTS: ReadonlySet<string> = new Set(["TAG_RESOLVE_FAILED"]);

/** Where the line of a fault begins, or the value in the middle of which the parser met it. */
function soundBefore(fault: number, root: Located, text: string): number {
  const line = lineStart(text, fault);
  const open = openAt(root, fault, text);
  if (open !== undefined && open.offset < line) return lineStart(text, open.offset);
  // A key that ends the line before has its value here.
  const before = text.slice(0, line).trimEnd();
  return before.endsWith(":") ? lineStart(text, before.length) : line;
}

function lineStart(text: string, offset: number): number {
  return offset === 0 ? 0 : text.lastIndexOf("\n", offset - 1) + 1;
}

/** The outermost value around an offset that is written between brackets or quotes, or is a single text. */
function openAt(located: Located, offset: number, text: string): Span | undefined {
  const { span } = located;
  if (offset < span.offset || offset > span.offset + span.length) return undefined;
  if (located.kind === "scalar" || /[[{]/.test(text.charAt(span.offset))) return span;
  const children =
    located.kind === "sequence"
      ? located.elements
      : [...located.entries.values()].map(({ value }) => value);
  for (const child of children) {
    const open = openAt(child, offset, text);
    if (open !== undefined) return open;
  }
  return undefined;
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

function duplicateKey(key: string, line: number): Fault {
  return {
    code: "duplicate-key",
    message: `${JSON.stringify(key)} is already given on line ${line}`,
    suggestion: "remove one of the two",
  };
}

function yamlFaults(document: Document, text: string): LocatedFault[] {
  const faults = [...document.errors, ...document.warnings].map(({ code, message, pos }) => ({
    span: { offset: Math.min(pos[0], text.length), length: 1 },
    fault: SYNTAX_FAULTS[code] ?? {
      code: "yaml-syntax",
      message: syntaxMessage(message),
      ...(text.startsWith("${", pos[0] - 1) ? { suggestion: QUOTE_PLACEHOLDER } : {}),
    },
  }));
  if (document.directives?.yaml.version !== "1.1") return faults;
  const span = { offset: Math.max(0, text.indexOf("%YAML")), length: 9 };
  const fault: Fault = { code: "yaml-syntax", message: "this file is read as YAML 1.2, not 1.1" };
  return [...faults, { span, fault }];
}

/** The parser's own words where they are plain enough, without what they quote of the file. */
function syntaxMessage(message: string): string {
  if (message.startsWith("Missing closing")) return "a quoted text is not closed";
  if (/^Flow \w+ in block collection/.test(message)) return "a [ or { before this is not closed";
  const plain = message.replace(/: *"[^]*$/, "");
  return plain.replace(/^[A-Z](?=[a-z ])/, (first) => first.toLowerCase());
}

const QUOTE_PLACEHOLDER = 'inside { } and [ ], put quotes around a placeholder: "${NAME}"';

const SYNTAX_FAULTS: Readonly<Record<string, Fault | undefined>> = {
  TAB_AS_INDENT: {
    code: "yaml-syntax",
    message: "tabs are not allowed as indentation",
    suggestion: "indent with spaces",
  },
  MULTIPLE_DOCS: {
    code: "yaml-syntax",
    message: "a second document begins here; a configuration is one document",
    suggestion: "remove the line ---",
  },
  TAG_RESOLVE_FAILED: {
    code: "yaml-syntax",
    message: "tags such as !name have no meaning here",
    suggestion: "put quotes around a value that begins with !",
  },
  NON_STRING_KEY: { code: "yaml-syntax", message: "a key must be plain text" },
  RESOURCE_EXHAUSTION: TOO_DEEP,
};

/** One slip makes the parser stumble over the rest of the line: the first complaint is the useful one. */
function oneEachLine(faults: readonly LocatedFault[], lines: LineIndex): LocatedFault[] {
  const first = new Map<number, LocatedFault>();
  for (const fault of faults) {
    const { line } = lines.position(fault.span.offset);
    if (!first.has(line)) first.set(line, fault);
  }
  return [...first.values()];
}
