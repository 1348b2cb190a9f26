/**
 * The text of a configuration: that of its file, and behind it that of the files which it includes. All of it is read as one
 * text, so that every place in it is an offset, whichever file it is in.
 */
import { isAbsolute, dirname, join, resolve as resolvePath } from "node:path";
import { isMap, isScalar, isSeq, parseDocument } from "yaml";
import type { Environment } from "./environment.ts";
import type { SourceFile } from "./line-index.ts";
import type { Fault } from "./problem.ts";

/** Files that may be included. */
export const MAX_INCLUDED = 100;

export interface Source {
  readonly text: string;
  /** The file itself first, then what it includes, in its order; each begins a line. */
  readonly files: readonly SourceFile[];
  /** Absolute paths of what is included, whether it could be read or not. */
  readonly included: readonly string[];
  /** By the index of the entry of `include`. */
  readonly faults: readonly { readonly index: number; readonly fault: Fault }[];
}

/** At the outermost level; whoever has none is spared a second reading. */
const INCLUDES = /^["']?include["']?[ \t]*:/m;

const UNREADABLE: Fault = {
  code: "unreadable-file",
  message: "the file cannot be read",
  suggestion: "write the path of a file, relative to the folder of this one",
};

/** Whoever writes a file anew empties it first. */
const EMPTY: Fault = {
  code: "bad-file",
  message: "the file is empty",
  suggestion: "where nothing is in it, say so in a comment: # nothing",
};

/** `name`: of the file, for messages; what it includes is relative to its folder. */
export function readSource(
  text: string,
  name: string,
  { readFile }: Pick<Environment, "readFile">,
): Source {
  const files = [{ name, offset: 0, length: text.length }];
  const faults: { index: number; fault: Fault }[] = [];
  const included: string[] = [];
  let whole = text;
  for (const [index, written] of namesIn(text).entries()) {
    const folder = dirname(resolvePath(name));
    const path = isAbsolute(written) ? written : join(folder, written);
    if (included.includes(path)) {
      faults.push({
        index,
        fault: { code: "duplicate-key", message: "the file is included twice" },
      });
      continue;
    }
    included.push(path);
    try {
      const part = readFile(path);
      if (part.trim() === "") {
        faults.push({ index, fault: EMPTY });
        continue;
      }
      if (!whole.endsWith("\n")) whole += "\n";
      const shown = isAbsolute(written) ? written : join(dirname(name), written);
      files.push({ name: shown, offset: whole.length, length: part.length });
      whole += part;
    } catch {
      faults.push({ index, fault: UNREADABLE });
    }
  }
  return { text: whole, files, included, faults };
}

/** What is no list of names is told where all keys are judged. */
function namesIn(text: string): readonly string[] {
  if (!INCLUDES.test(text)) return [];
  const { contents } = parseDocument(text, { schema: "failsafe", logLevel: "silent" });
  const list = isMap(contents) ? contents.get("include", true) : undefined;
  const items = isSeq(list) ? list.items : [list];
  return items
    .flatMap((item) => (isScalar(item) && typeof item.value === "string" ? [item.value] : []))
    .filter((item) => item !== "")
    .slice(0, MAX_INCLUDED);
}
