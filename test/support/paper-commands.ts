/** The papers of the tree, and every command that they show. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "../..");

export interface Paper {
  /** Relative to the root: "deploy/README.md". */
  readonly name: string;
  readonly text: string;
}

/** All but records of decisions and the changelog, which tell what was so. */
export function papers(): readonly Paper[] {
  const listed = execFileSync("git", ["ls-files", "*.md"], { cwd: ROOT, encoding: "utf8" });
  return listed
    .trim()
    .split("\n")
    .filter((name) => !name.startsWith("src/decisions/") && name !== "CHANGELOG.md")
    .map((name) => ({ name, text: readFileSync(join(ROOT, name), "utf8") }));
}

const FENCED = /^ *```(\w*)\n([\s\S]*?)^ *```/gm;
const SHELL = new Set(["sh", "bash", "console", "shell"]);
/** What begins so in a text is a command, where code has more words than the first one. */
const COMMAND =
  /^(?:npm|npx|node|docker|docker-compose|kubectl|curl|sqlite3|umask|chmod|git|LOGS=|journalctl|coinslot) ?\S|^\.ci\/run$/;

/** Code within lines, with its line breaks as spaces. */
export function inlineCode({ text }: Paper): readonly string[] {
  const outside = text.replaceAll(FENCED, "");
  return [...outside.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code.replaceAll(/\s+/g, " "));
}

/**
 * Each command that a paper shows, as it stands there without its comment: each line of a block of shell, and what
 * begins as a command within a line.
 */
export function commandsOf(paper: Paper): readonly string[] {
  const fenced = [...paper.text.matchAll(FENCED)]
    .filter(([, language = ""]) => SHELL.has(language))
    .flatMap(([, , block = ""]) => block.replaceAll("\\\n", " ").split("\n"));
  // `coinslot.db` is a file, and `coinslot` alone is a name.
  const inline = inlineCode(paper).filter(
    (code) => COMMAND.test(code) && !/^coinslot\S/.test(code),
  );
  const bare = [...fenced, ...inline].map((line) =>
    line.replace(/^\$ /, "").replace(/\s+# .*$/, ""),
  );
  return [...new Set(bare.map((line) => line.trim()).filter((line) => line !== ""))];
}
