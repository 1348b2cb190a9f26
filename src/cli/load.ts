/** A configuration file for a command that needs it whole. */
import { formatProblems, loadConfig, type Config } from "../config/config.ts";
import { asJson } from "./check/check-formats.ts";
import { wantsColor } from "./terminal.ts";

/**
 * The accepted file; undefined, with everything that is wrong, where it is refused: on stderr, or as the document of
 * `check --json` for whoever reads JSON.
 */
export async function loadOrExplain(
  file: string,
  { json = false }: { readonly json?: boolean | undefined } = {},
): Promise<Config | undefined> {
  const loaded = await loadConfig(file);
  if (loaded.ok) return loaded.config;
  const { problems, text } = loaded;
  if (json) {
    process.stdout.write(asJson([{ name: file, isAccepted: false, problems, text }], false));
    return undefined;
  }
  const color = wantsColor(process.stderr);
  process.stderr.write(formatProblems(problems, text, { color }));
  process.stderr.write(`${file}: refused\n`);
  return undefined;
}
