/** What `check` found as SARIF 2.1.0 (OASIS), which code scanners and editors read: one run, one rule a kind. */
import { isAbsolute, sep } from "node:path";
import { pathToFileURL } from "node:url";
import type { Problem } from "../../config/config.ts";
import { isProblemCode, PROBLEM_CODES } from "../../config/reading/problem-codes.ts";
import { fileOf, sourcesOf, type CheckedFile } from "./check-report.ts";

const SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json";

export function asSarif(files: readonly CheckedFile[], version: string): string {
  const codes = [...new Set(files.flatMap(({ problems }) => problems.map(({ code }) => code)))];
  const rules = codes.toSorted();
  const named = files.flatMap((file) => [
    file.name,
    ...file.problems.map((problem) => fileOf(file, problem)),
  ]);
  const uris = [...new Set(named.map(uriOf))];
  const driver = {
    name: "coinslot",
    version,
    rules: rules.map((id) => ({
      id,
      shortDescription: { text: isProblemCode(id) ? PROBLEM_CODES[id] : id },
    })),
  };
  const run = {
    tool: { driver },
    columnKind: "utf16CodeUnits",
    artifacts: uris.map((uri) => ({ location: { uri } })),
    results: files.flatMap((file) => resultsOf(file, uris, rules)),
  };
  return `${JSON.stringify({ $schema: SCHEMA, version: "2.1.0", runs: [run] }, null, 2)}\n`;
}

function resultsOf(file: CheckedFile, uris: readonly string[], rules: readonly string[]) {
  const sourceOf = sourcesOf(file);
  return file.problems.map((problem) => {
    const { severity, code, message, suggestion } = problem;
    const region = regionOf(problem, sourceOf(problem) ?? "");
    const uri = uriOf(fileOf(file, problem));
    const artifactLocation = { uri, index: uris.indexOf(uri) };
    return {
      ruleId: code,
      ruleIndex: rules.indexOf(code),
      // Its levels have the names of ours.
      level: severity,
      message: { text: suggestion === undefined ? message : `${message}\n${suggestion}` },
      locations: [
        {
          physicalLocation: { artifactLocation, ...(region === undefined ? {} : { region }) },
        },
      ],
    };
  });
}

/** Undefined for what has no place in the file. */
function regionOf({ line, column, length }: Problem, text: string) {
  if (line === 0) return undefined;
  return {
    startLine: line,
    startColumn: column,
    endLine: line,
    endColumn: column + length,
    snippet: { text },
  };
}

/** A URI reference: relative where the file was named so, for whoever reads the report to resolve. */
function uriOf(name: string): string {
  if (isAbsolute(name)) return pathToFileURL(name).href;
  return name.split(sep).map(encodeURIComponent).join("/");
}
