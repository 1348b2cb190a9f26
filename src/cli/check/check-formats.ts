/**
 * What `check` found, for programs: `json`, whose shape is documented and stable, and `github`, the workflow commands
 * of GitHub Actions, which become remarks at the lines of a pull request.
 */
import { printable, type Problem } from "../../config/config.ts";
import { countOf, fileOf, sourcesOf, type CheckedFile } from "./check-report.ts";

/** Of the shape of `--format json`; it grows when a program that reads the shape would have to change. */
const JSON_VERSION = 1;

/**
 * One object: `{ version, ok, strict, errors, warnings, notes, files }`. `ok` is what the exit code says. Each of
 * `files` is `{ file, accepted, errors, warnings, notes, problems }`; `accepted` is what `serve` would say. Each of
 * `problems` is `{ severity, code, message, suggestion, file, line, column, endColumn, path, source }`: `severity` is
 * `error`, `warning` or `note`; line and columns count from 1, in UTF-16 code units, `endColumn` behind the last;
 * `path` are the keys and indexes from the root; `source` is the line, with its secrets masked. What there is not is
 * null: a file that cannot be read has no line.
 */
export function asJson(files: readonly CheckedFile[], isStrict: boolean): string {
  const sum = (severity: Problem["severity"]): number =>
    files.reduce((total, file) => total + countOf(file, severity), 0);
  const isAccepted = files.every((file) => file.isAccepted);
  const report = {
    version: JSON_VERSION,
    ok: isAccepted && !(isStrict && sum("warning") > 0),
    strict: isStrict,
    errors: sum("error"),
    warnings: sum("warning"),
    notes: sum("note"),
    files: files.map(fileAsJson),
  };
  return `${JSON.stringify(report, null, 2)}\n`;
}

function fileAsJson(file: CheckedFile) {
  const sourceOf = sourcesOf(file);
  return {
    file: file.name,
    accepted: file.isAccepted,
    errors: countOf(file, "error"),
    warnings: countOf(file, "warning"),
    notes: countOf(file, "note"),
    problems: file.problems.map((problem) => {
      const { severity, code, message, suggestion = null, line, column, length, path } = problem;
      const place =
        line === 0
          ? { line: null, column: null, endColumn: null }
          : { line, column, endColumn: column + length };
      return {
        severity,
        code,
        message,
        suggestion,
        file: fileOf(file, problem),
        ...place,
        path,
        source: sourceOf(problem) ?? null,
      };
    }),
  };
}

const GITHUB_COMMANDS = { error: "error", warning: "warning", note: "notice" } as const;

/** One workflow command for each problem; nothing at all where there is none. */
export function asGithub(files: readonly CheckedFile[]): string {
  return files
    .flatMap((file) => file.problems.map((each) => githubCommand(fileOf(file, each), each)))
    .join("");
}

function githubCommand(file: string, problem: Problem): string {
  const { severity, code, message, suggestion, line, column, length } = problem;
  const place = line === 0 ? {} : { line, endLine: line, col: column, endColumn: column + length };
  const properties = Object.entries({ file, ...place, title: `coinslot: ${code}` })
    .map(([name, value]) => `${name}=${escapeProperty(String(value))}`)
    .join(",");
  const text = suggestion === undefined ? message : `${message}\n${suggestion}`;
  return `::${GITHUB_COMMANDS[severity]} ${properties}::${escapeData(text)}\n`;
}

/** What would end a command: a line break, and the sign of the escapes themselves. */
function escapeData(text: string): string {
  return text
    .split("\n")
    .map(printable)
    .join("\n")
    .replaceAll("%", "%25")
    .replaceAll("\r", "%0D")
    .replaceAll("\n", "%0A");
}

function escapeProperty(text: string): string {
  return escapeData(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
}
