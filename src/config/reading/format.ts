/**
 * Problems as text: `file:line:column: error: message`, the line, a caret below it, and what to do.
 * What comes from the file is shown without control characters, which a terminal would obey.
 */
import { printable } from "../../x402/printable.ts";
import type { Problem, Severity } from "./problem.ts";

export interface FormatOptions {
  /** Terminal colours; off by default. */
  readonly color?: boolean;
}

/** Problems that are printed at most: whoever mends those knows what the others are about. */
const MAX_SHOWN = 50;
const SEVERITIES = ["error", "warning", "note"] as const satisfies readonly Severity[];
/** Widest part of a line that is quoted, characters. */
const MAX_WIDTH = 120;
const COLORS: Readonly<Record<Severity, number>> = { error: 31, warning: 33, note: 36 };

/**
 * The most severe ones, in the order of the file. `text` is the masked text that came with the problems. Empty when there are none; otherwise ends with
 * a line break.
 */
export function formatProblems(
  problems: readonly Problem[],
  text: string,
  options: FormatOptions = {},
): string {
  const lines = text.split(/\r?\n/);
  const shown = new Set(
    SEVERITIES.flatMap((kind) => problems.filter(({ severity }) => severity === kind)).slice(
      0,
      MAX_SHOWN,
    ),
  );
  const left = problems.filter((each) => !shown.has(each));
  return problems
    .filter((each) => shown.has(each))
    .map((each) => formatProblem(each, lines, options.color ?? false))
    .concat(left.length === 0 ? [] : [`and ${countsOf(left)} more\n`])
    .join("");
}

/** `3 errors, 1 warning, 0 notes` */
export function countsOf(problems: readonly Problem[]): string {
  return SEVERITIES.map((kind) => {
    const count = problems.filter(({ severity }) => severity === kind).length;
    return `${count} ${kind}${count === 1 ? "" : "s"}`;
  }).join(", ");
}

function formatProblem(problem: Problem, lines: readonly string[], color: boolean): string {
  const { severity, file, line, column, message, suggestion } = problem;
  const paint = (code: number, part: string): string =>
    color ? `\u001b[${code}m${part}\u001b[0m` : part;
  const place = line === 0 ? file : `${file}:${line}:${column}`;
  const head = `${paint(1, printable(place))}: ${paint(COLORS[severity], severity)}: `;
  const quote = quoted(problem, problem.source ?? lines[line - 1] ?? "", (part) =>
    paint(COLORS[severity], part),
  );
  const hint = suggestion === undefined ? "" : `  ${printable(suggestion)}\n`;
  return `${head}${printable(message)}\n${quote}${hint}`;
}

/** The line and the caret below it; a long line is cut around the place. */
function quoted(
  { line, column, length }: Problem,
  source: string,
  paint: (part: string) => string,
): string {
  if (line === 0 || source.trim() === "") return "";
  const cut = column - 1 > MAX_WIDTH * 0.75 ? column - 1 - MAX_WIDTH / 2 : 0;
  const shown = printable(source.slice(cut, cut + MAX_WIDTH));
  const before = cut > 0 ? "…" : "";
  const after = source.length > cut + MAX_WIDTH ? "…" : "";
  // A tab stays a tab, so that the caret lands below the same column.
  const indent = shown.slice(0, column - 1 - cut).replace(/[^\t]/g, " ");
  const width = Math.max(1, Math.min(length, shown.length - indent.length));
  const margin = "  ";
  const caret = `${margin}${before && " "}${indent}${paint("^".repeat(width))}`;
  return `${margin}${before}${shown}${after}\n${caret}\n`;
}
