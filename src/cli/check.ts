/** `coinslot check FILE`: accepts a configuration file or explains it. */
import { formatProblems, loadConfig } from "../config/config.ts";

/** Problems go to stderr, the verdict to stdout; resolves with the exit code. */
export async function check(file: string): Promise<number> {
  const loaded = await loadConfig(file);
  const color = process.stderr.isTTY && !process.env["NO_COLOR"];
  if (loaded.problems.length > 0)
    process.stderr.write(formatProblems(loaded.problems, loaded.text, { color }));
  const counts = ["error", "warning", "note"].map((severity) => {
    const count = loaded.problems.filter((problem) => problem.severity === severity).length;
    return `${count} ${severity}${count === 1 ? "" : "s"}`;
  });
  process.stdout.write(`${file}: ${loaded.ok ? "ok" : "refused"} (${counts.join(", ")})\n`);
  return loaded.ok ? 0 : 1;
}
