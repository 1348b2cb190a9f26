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
  const slip = errors.find(isAboutIndentation);
  if (slip !== undefined)
    faults.unshift(indentationFault(slip.code, slip.pos[0], text).span.offset);
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
  const complaints = [...document.errors, ...document.warnings];
  const slip = complaints.find(isAboutIndentation);
  const faults = complaints
    // Where one line begins in a column of its own, the parser complains of those that follow.
    .filter((complaint) => complaint === slip || !isAboutIndentation(complaint))
    .map((complaint, index): LocatedFault => {
      const { code, message, pos } = complaint;
      const offset = placeOf(message, pos[0], index < MAX_FAULTS ? root : undefined, text);
      if (complaint === slip) return indentationFault(code, offset, text);
      if (message.startsWith("Implicit map keys need")) {
        return { span: { offset, length: 1 }, fault: NO_KEY };
      }
      const suggestion = hintFor(message, pos[0], text);
      const fault: Fault = { code: "yaml-syntax", message: syntaxMessage(message) };
      return {
        span: { offset, length: 1 },
        fault: SYNTAX_FAULTS[code] ?? (suggestion === undefined ? fault : { ...fault, suggestion }),
      };
    });
  if (document.directives?.yaml.version !== "1.1") return faults;
  const span = { offset: Math.max(0, text.indexOf("%YAML")), length: 9 };
  const fault: Fault = {
    code: "yaml-syntax",
    message: "this file is read as YAML 1.2, not 1.1",
    suggestion: "remove that line",
  };
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

function hintFor(message: string, offset: number, text: string): string | undefined {
  if (text.startsWith("${", offset - 1)) return QUOTE_PLACEHOLDER;
  if (message.startsWith("Missing closing")) return "end it with the quote that it begins with";
  if (message.startsWith("Plain value cannot")) return "put quotes around it";
  if (UNCLOSED.test(message)) return "end a list with ], and a map with }";
  return message.startsWith("Missing , or :") ? "put a comma between two entries" : undefined;
}

/** What the parser says of a line that begins in another column than it should. */
const INDENTATION: ReadonlySet<string> = new Set([
  "TAB_AS_INDENT",
  "BAD_INDENT",
  "BLOCK_AS_IMPLICIT_KEY",
  "MULTILINE_IMPLICIT_KEY",
]);
/** What looks like a space and is none. */
const ODD_SPACE = /[\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000\ufeff]/;
const SECOND_COLON_OF = /: .*:(?: |$)/;
const OUTERMOST = /^[A-Za-z]\w*[ \t]*:/;
/** Lines that are looked at for where others begin. */
const MAX_LINES_ABOVE = 1_000;

function isAboutIndentation({ code, message }: Document["errors"][number]): boolean {
  return INDENTATION.has(code) && !UNCLOSED.test(message);
}

function indentationFault(code: string, offset: number, text: string): LocatedFault {
  if (code === "TAB_AS_INDENT") return { span: { offset, length: 1 }, fault: TAB };
  const start = lineStart(text, offset);
  const above = linesAbove(text, start);
  // A space that is none makes a line a part of the one before.
  for (const at of [start, ...above.map((each) => each.start)]) {
    const [indent = ""] = /^[^\S\n]*/.exec(text.slice(at, at + MAX_DEPTH * 8)) ?? [];
    const odd = indent.search(ODD_SPACE);
    if (odd >= 0) return { span: { offset: at + odd, length: 1 }, fault: oddSpace(indent, odd) };
  }
  // No outermost key has a slash or a space: the line before is the one that does not begin where it should.
  const [before] = above;
  if (before?.indent === 0 && !OUTERMOST.test(text.slice(before.start, before.start + 100))) {
    const columns = linesAbove(text, before.start).map((each) => each.indent);
    const next = text.slice(start, start + 1_000).search(/\S/);
    const span = { offset: before.start, length: 1 };
    return { span, fault: misplaced(0, new Set([...columns, next])) };
  }
  const line = /^[^\n]*/.exec(text.slice(start, start + 1_000))?.[0] ?? "";
  const indent = line.search(/\S/);
  const span = { offset: start + indent, length: Math.max(1, line.trim().length) };
  const isKey = /:(?:\s|$)/.test(line);
  const next = isKey && !SECOND_COLON_OF.test(line) ? keyBelow(text, start) : undefined;
  // A value goes on in the lines below it that begin further in: the parser complains where it begins. Where those begin
  // as the line above does, it is the one between them that is out of place.
  const isBelow = next !== undefined && next.indent > indent && next.indent !== before?.indent;
  if (code.endsWith("_IMPLICIT_KEY") && isBelow) {
    const columns = linesAbove(text, next.start).map((each) => each.indent);
    const length = Math.max(1, next.text.trim().length);
    const place = { offset: next.start + next.indent, length };
    return { span: place, fault: misplaced(next.indent, new Set(columns)) };
  }
  if (!isKey) return { span, fault: NO_KEY };
  if (code === "BLOCK_AS_IMPLICIT_KEY" && SECOND_COLON_OF.test(line)) {
    return { span: { offset, length: 1 }, fault: SECOND_COLON };
  }
  return { span, fault: misplaced(indent, new Set(above.map((each) => each.indent))) };
}

/** The first line behind one in which something is written, where that is a key. */
function keyBelow(text: string, start: number) {
  let at = text.indexOf("\n", start) + 1;
  for (let left = MAX_LINES_ABOVE; left > 0 && at > 0 && at < text.length; left -= 1) {
    const line = /^[^\n]*/.exec(text.slice(at, at + 1_000))?.[0] ?? "";
    const indent = line.search(/\S/);
    if (indent >= 0 && line.charAt(indent) !== "#") {
      return /:(?:\s|$)/.test(line) ? { start: at, indent, text: line } : undefined;
    }
    at = text.indexOf("\n", at) + 1;
  }
  return undefined;
}

/** Where the lines before one begin, and begin to be written, up to the outermost map; the nearest first. */
function linesAbove(text: string, start: number) {
  const lines: { readonly start: number; readonly indent: number }[] = [];
  let end = start - 1;
  for (let left = MAX_LINES_ABOVE; left > 0 && end > 0; left -= 1) {
    const at = lineStart(text, end);
    const line = text.slice(at, Math.min(end, at + 1_000));
    const indent = line.search(/[^\s-]/);
    if (indent >= 0 && line.charAt(indent) !== "#") lines.push({ start: at, indent });
    if (indent === 0) break;
    end = at - 1;
  }
  return lines;
}

function misplaced(indent: number, above: ReadonlySet<number>): Fault {
  const columns = [...above].toSorted((left, right) => left - right);
  const fewer = columns.findLast((column) => column < indent);
  const more = columns.find((column) => column > indent);
  const near = [fewer, more].filter((column) => column !== undefined).join(" or ");
  return {
    code: "yaml-syntax",
    message: "this line begins in another column than those that it belongs to",
    suggestion: `indent it by ${near === "" ? "0" : near} spaces, as lines above it are`,
  };
}

function oddSpace(indent: string, at: number): Fault {
  const code = (indent.codePointAt(at) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return {
    code: "yaml-syntax",
    message: `this line is indented with a character that only looks like a space (U+${code})`,
    suggestion: "indent with spaces",
  };
}

const TAB: Fault = {
  code: "yaml-syntax",
  message: "tabs are not allowed as indentation",
  suggestion: "indent with spaces",
};
const NO_KEY: Fault = {
  code: "yaml-syntax",
  message: "this line is no key with a value",
  suggestion: "write a colon and a space between them",
};
const SECOND_COLON: Fault = {
  code: "yaml-syntax",
  message: "a value in which a space follows a colon is taken for a key",
  suggestion: "put quotes around the whole value",
};

const SYNTAX_FAULTS: Readonly<Record<string, Fault | undefined>> = {
  BLOCK_IN_FLOW: SECOND_COLON,
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
  NON_STRING_KEY: {
    code: "yaml-syntax",
    message: "a key must be plain text",
    suggestion: "put quotes around a key that begins with * or &",
  },
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
