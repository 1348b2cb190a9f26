/**
 * A finding about a configuration file: what, where, and what to write instead. Messages never quote a
 * text, which may have come from a secret: the place shows it.
 */
import type { LineIndex } from "./line-index.ts";
import { maskKeys } from "./mask.ts";
import type { ProblemCode } from "./problem-codes.ts";
import type { Path, Span, Tree } from "./tree.ts";

export type Severity = "error" | "warning" | "note";

export interface Problem {
  /** Errors refuse the file; warnings and notes do not. */
  readonly severity: Severity;
  /** Stable kebab-case identifier of the kind of problem: a {@link ProblemCode} where a file is to blame. */
  readonly code: string;
  /** One sentence without a final period; never contains a secret. */
  readonly message: string;
  /** What to do about it: `did you mean "routes"?`. */
  readonly suggestion?: string;
  readonly file: string;
  /** 1-based; 0 when the problem has no place in the file (it could not be read). */
  readonly line: number;
  /** 1-based, in UTF-16 code units; 0 when {@link Problem.line} is. */
  readonly column: number;
  /** Length of the marked text on that line, at least 1. */
  readonly length: number;
  /** Keys and indexes from the root of the document. */
  readonly path: Path;
  /** The line, its secrets masked, where it is not one of the file that was named but of one that it includes. */
  readonly source?: string;
}

/** A problem before it is known where: what the readers of single values return. */
export interface Fault {
  readonly code: ProblemCode;
  readonly message: string;
  readonly suggestion?: string;
}

/** Whether a problem is about a key or about its value. */
export type Part = "key" | "value";

/** What says that something is missing elsewhere: where not all could be read it may be there. */
const ABOUT_THE_REST: ReadonlySet<ProblemCode> = new Set([
  "no-upstream",
  "unknown-upstream",
  "outside-strip",
  "no-public-url",
  "no-unmatched",
  "nothing-to-do",
  "no-accept",
  "no-amount",
  "no-payto",
  "no-facilitator",
  "no-rpc",
  "unknown-asset",
]);

/** A message that lacks its subject, which is the key that the problem is about. */
const PREDICATE = /^(?:must|is|has|needs|leaves) /;

function subject(path: Path): string {
  const last = path.at(-1);
  if (typeof last !== "number") return last ?? "the configuration";
  return `${subject(path.slice(0, -1))}[${last}]`;
}

const NOWHERE: Span = { offset: 0, length: 1 };

/** Collects the problems of one file and of what it includes; the same finding at the same place is kept once. */
export class Problems {
  readonly #lines: LineIndex;
  readonly #tree: Tree | undefined;
  readonly #found = new Map<string, Problem>();
  readonly #obscure: Span[] = [];
  /** Parts of the text that are not judged. */
  #unsound: readonly Span[] = [];

  constructor(lines: LineIndex, tree?: Tree) {
    this.#lines = lines;
    this.#tree = tree;
  }

  /** Values of which nobody knows what they are: one may be a secret under a misspelt key. */
  get obscure(): readonly Span[] {
    return this.#obscure;
  }

  addObscure(span: Span): void {
    this.#obscure.push(span);
  }

  /** From now on these parts of the text are not judged, nor that something is missing: it may stand in them. */
  leaveOut(unsound: readonly Span[]): void {
    this.#unsound = unsound;
  }

  /** An error at the value of that path. */
  error(path: Path, fault: Fault): void {
    this.add("error", path, fault);
  }

  errorAtKey(path: Path, fault: Fault): void {
    this.add("error", path, fault, "key");
  }

  add(severity: Severity, path: Path, fault: Fault, part: Part = "value"): void {
    const span = this.#tree?.span(path, part) ?? NOWHERE;
    if (!this.#isJudged(path, fault.code, part)) return;
    const message = PREDICATE.test(fault.message)
      ? `${subject(path)} ${fault.message}`
      : fault.message;
    this.addAt(severity, span, { ...fault, message }, path);
  }

  isLeftOut({ offset, length }: Span): boolean {
    return this.#unsound.some(
      (part) => offset < part.offset + part.length && part.offset < offset + length,
    );
  }

  #isJudged(path: Path, code: ProblemCode, part: Part): boolean {
    if (this.#unsound.length === 0) return true;
    if (ABOUT_THE_REST.has(code)) return false;
    const isAboutKey = part === "key" && this.#tree?.has(path) === true;
    const extent = this.#tree?.extent(path, isAboutKey ? "key" : "value") ?? NOWHERE;
    return !this.isLeftOut(extent);
  }

  addAt(severity: Severity, span: Span, fault: Fault, path: Path = []): void {
    const { file, line, column } = this.#lines.position(span.offset);
    const length = Math.max(1, Math.min(span.length, this.#lines.rest(span.offset)));
    const { code, suggestion } = fault;
    const message = maskKeys(fault.message);
    const key = `${code} ${span.offset} ${message}`;
    if (this.#found.has(key)) return;
    this.#found.set(key, {
      severity,
      code,
      message,
      ...(suggestion === undefined ? {} : { suggestion: maskKeys(suggestion) }),
      file: file.name,
      line,
      column,
      length,
      // Somebody may have put a private key where a name belongs.
      path: path.map((step) => (typeof step === "string" ? maskKeys(step) : step)),
    });
  }

  /** The file, as messages name it, and the 1-based line of that path's key. */
  place(path: Path): { readonly file: string; readonly line: number } {
    const { file, line } = this.#lines.position(this.#tree?.span(path, "key").offset ?? 0);
    return { file: file.name, line };
  }

  /** The same in words: `line 7`, or `line 7 of prices.yaml` where that is an included one. */
  where(path: Path): string {
    return this.#lines.where(this.#tree?.span(path, "key").offset ?? 0);
  }

  get refused(): boolean {
    return [...this.#found.values()].some((problem) => problem.severity === "error");
  }

  /** In the order of the text. */
  list(): readonly Problem[] {
    const found = [...this.#found.values()];
    const files = this.#lines.names;
    const placed = found.map((each) => [files.indexOf(each.file), each] as const);
    return placed
      .sort(
        ([file, left], [other, right]) =>
          file - other || left.line - right.line || left.column - right.column,
      )
      .map(([, each]) => each);
  }
}
