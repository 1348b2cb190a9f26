/**
 * What the YAML parser complains about, in our words, and how far its reading of the text can be trusted where it
 * complains.
 */
import type { Document } from "yaml";
import type { LineIndex } from "./line-index.ts";
import type { Fault } from "./problem.ts";
import type { Located, Span } from "./tree.ts";

/** Deepest nesting of maps and lists. */
export const MAX_DEPTH = 64;

export const TOO_DEEP: Fault = {
  code: "too-deep",
  message: `maps and lists are nested more than ${MAX_DEPTH} deep`,
};

export interface LocatedFault {
  readonly span: Span;
  readonly fault: Fault;
}

/** Faults after which the parser goes on as if nothing had been. */
const LOCAL_FAULTS: ReadonlySet<string> = new Set(["TAG_RESOLVE_FAILED"]);

/** Where a block of the outermost map begins: a plain key at the start of a line. */
const BLOCK = /^[A-Za-z]\w*[ \t]*:(?=\s|$)/gm;
/** Blocks at most that are read one by one; there are two dozen keys. */
const MAX_BLOCKS = 100;

/** Whether the parser may have lost its way. */
export function isBroken({ errors }: Document): boolean {
  return errors.some(({ code }) => !LOCAL_FAULTS.has(code));
}

export function hasSeveralDocuments({ errors }: Document): boolean {
  return errors.some(({ code }) => code === "MULTIPLE_DOCS");
}

/** The parts of a text that begin with a key of the outermost map, the first with what stands before it. */
export function blocksOf(text: string): readonly Span[] {
  const [, ...others] = [...text.matchAll(BLOCK)].map(({ index }) => index);
  if (others.length >= MAX_BLOCKS) return [];
  const starts = [0, ...others];
  return starts.map((offset, index) => ({
    offset,
    length: (starts[index + 1] ?? text.length) - offset,
  }));
}

/** From where on the tree may say something else than the text; undefined: it does not. */
export function unsoundFrom({ errors }: Document, root: Located, text: string): number | undefined {
  const faults = errors.filter(({ code }) => !LOCAL_FAULTS.has(code)).map(({ pos }) => pos[0]);
  const starts = faults.slice(0, MAX_FAULTS).map((fault) => soundBefore(fault, root, text));
  return starts.length === 0 ? undefined : Math.min(...starts);
}

/** Faults at most of which each is looked for in the tree: they come in the order of the text. */
const MAX_FAULTS = 100;

/** Where the line of a fault begins, or the value in the middle of which the parser met it. */
function soundBefore(fault: number, root: Located, text: string): number {
  const line = lineStart(text, fault);
  const open = openAt(root, fault, text);
  if (open !== undefined && open.offset < line) return lineStart(text, open.offset);
  // A key that ends the line before has its value here.
  let last = line - 1;
  while (last > 0 && /\s/.test(text.charAt(last))) last -= 1;
  return text.charAt(last) === ":" ? lineStart(text, last) : line;
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

/** `root` is what could be read of the document. */
export function yamlFaults(document: Document, root: Located, text: string): LocatedFault[] {
  const faults = [...document.errors, ...document.warnings].map(
    ({ code, message, pos }, index) => ({
      span: {
        offset: placeOf(message, pos[0], index < MAX_FAULTS ? root : undefined, text),
        length: 1,
      },
      fault: SYNTAX_FAULTS[code] ?? {
        code: "yaml-syntax",
        message: syntaxMessage(message),
        ...(text.startsWith("${", pos[0] - 1) ? { suggestion: QUOTE_PLACEHOLDER } : {}),
      },
    }),
  );
  if (document.directives?.yaml.version !== "1.1") return faults;
  const span = { offset: Math.max(0, text.indexOf("%YAML")), length: 9 };
  const fault: Fault = { code: "yaml-syntax", message: "this file is read as YAML 1.2, not 1.1" };
  return [...faults, { span, fault }];
}

const UNCLOSED = /^(?:Missing closing|Flow \w+ in block collection)/;

/** What is not closed is noticed where it should have been, and is of interest where it begins. */
function placeOf(message: string, offset: number, root: Located | undefined, text: string): number {
  const open =
    root !== undefined && UNCLOSED.test(message) ? openAt(root, offset, text) : undefined;
  return open?.offset ?? Math.min(offset, text.length);
}

/** The parser's own words where they are plain enough, without what they quote of the file. */
function syntaxMessage(message: string): string {
  if (message.startsWith("Missing closing")) return "this quoted text is not closed";
  if (/^Flow \w+ in block collection/.test(message)) return "this list or map is not closed";
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
export function oneEachLine(faults: readonly LocatedFault[], lines: LineIndex): LocatedFault[] {
  const first = new Map<number, LocatedFault>();
  for (const fault of faults) {
    const { line } = lines.position(fault.span.offset);
    if (!first.has(line)) first.set(line, fault);
  }
  return [...first.values()];
}
