/** `coinslot check FILE...`: accepts configuration files or explains them, to people and to programs. */
import { countWorkers } from "../../app/count-workers.ts";
import { placesOf } from "../../app/places.ts";
import {
  countsOf,
  formatProblems,
  loadConfig,
  parseConfig,
  processEnvironment,
  type ConfigReading,
} from "../../config/config.ts";
import { reviewConfig } from "../../diagnosis/config-review.ts";
import { asGithub, asJson } from "./check-formats.ts";
import { countOf, type CheckedFile } from "./check-report.ts";
import { checkTogether, type Loaded } from "./check-together.ts";
import { asSarif } from "./sarif.ts";
import { wantsColor } from "../terminal.ts";

export interface CheckOptions {
  readonly format: "text" | "json" | "github" | "sarif";
  /** Alias of `format: "json"`. */
  readonly json?: boolean;
  /** Warnings fail, too. Notes never do. */
  readonly strict?: boolean;
  /** False: variables, keys and certificates need not be here; what they would say is left out. */
  readonly secrets?: boolean;
}

/** Stands for the standard input among the files. */
const STDIN = "-";
const STDIN_NAME = "<stdin>";
/** Read of the standard input at most, bytes: more than any configuration may have. */
const MAX_STDIN_BYTES = 64 * 1024 * 1024;

/**
 * As text, problems go to stderr and the verdicts to stdout; the other formats are one document on stdout, and
 * nothing else. Resolves with the exit code: 0 where every file is accepted.
 */
export async function check(
  names: readonly string[],
  version: string,
  { format, json = false, strict = false, secrets = true }: CheckOptions,
): Promise<number> {
  const files = await loadAll(names, {
    ...processEnvironment,
    review: reviewConfig,
    withoutSecrets: !secrets,
  });
  switch (json ? "json" : format) {
    case "json":
      process.stdout.write(asJson(files, strict));
      break;
    case "github":
      process.stdout.write(asGithub(files));
      break;
    case "sarif":
      process.stdout.write(asSarif(files, version));
      break;
    default:
      for (const file of files) tell(file, strict);
  }
  return files.every((file) => passes(file, strict)) ? 0 : 1;
}

async function loadAll(
  names: readonly string[],
  reading: ConfigReading,
): Promise<readonly CheckedFile[]> {
  const files: CheckedFile[] = [];
  const loaded: Loaded[] = [];
  for (const name of names) {
    const result =
      name === STDIN
        ? parseConfig(await readStdin(), { ...reading, file: STDIN_NAME })
        : await loadConfig(name, reading);
    const { problems, text } = result;
    const isAccepted = !problems.some(({ severity }) => severity === "error");
    const places = result.ok
      ? { places: placesOf(result.config.limits.inFlight, countWorkers(result.config)) }
      : {};
    const shown = name === STDIN ? STDIN_NAME : name;
    const file = { name: shown, isAccepted, problems, text, ...places };
    files.push(file);
    if (result.ok) loaded.push({ file, config: result.config });
  }
  const together = checkTogether(loaded);
  return files.map((file) => {
    return { ...file, problems: [...file.problems, ...(together.get(file) ?? [])] };
  });
}

async function readStdin(): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of process.stdin) {
    const buffer = Buffer.from(chunk as Uint8Array);
    chunks.push(buffer);
    bytes += buffer.length;
    if (bytes > MAX_STDIN_BYTES) break;
  }
  return Buffer.concat(chunks).toString("utf8");
}

function passes(file: CheckedFile, isStrict: boolean): boolean {
  return file.isAccepted && !(isStrict && countOf(file, "warning") > 0);
}

function tell(file: CheckedFile, isStrict: boolean): void {
  const { name, isAccepted, problems, text } = file;
  const color = wantsColor(process.stderr);
  process.stderr.write(formatProblems(problems, text, { color }));
  const refused = isAccepted ? "refused by --strict" : "refused";
  const verdict = passes(file, isStrict) ? "ok" : refused;
  process.stdout.write(`${name}: ${verdict} (${countsOf(problems)})\n`);
  const { places } = file;
  if (places === undefined) return;
  process.stdout.write(`${name}: limits.inFlight is ${places.count}: ${places.reason}\n`);
}
