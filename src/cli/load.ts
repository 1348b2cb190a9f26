/** A configuration file for a command that needs it whole. */
import { formatProblems, loadConfig, type Config } from "../config/config.ts";
import { wantsColor } from "./terminal.ts";

/** The accepted file; undefined, with everything that is wrong on stderr, where it is refused. */
export async function loadOrExplain(file: string): Promise<Config | undefined> {
  const loaded = await loadConfig(file);
  if (loaded.ok) return loaded.config;
  const color = wantsColor(process.stderr);
  process.stderr.write(formatProblems(loaded.problems, loaded.text, { color }));
  process.stderr.write(`${file}: refused\n`);
  return undefined;
}
