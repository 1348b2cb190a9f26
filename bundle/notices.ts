/**
 * What the licences of packages ask of whoever gives them on: that their texts go along. One file beside the
 * bundle names each package of which anything is in it, with its version, its licence and its texts. A package under a
 * licence that is not listed here ends the build.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import type { Plugin } from "rolldown";

export const NOTICES_FILE = "THIRD-PARTY-NOTICES.txt";

/** They ask at most for their text and a notice of copyright, and nothing of the code that is beside theirs. */
const LICENCES: ReadonlySet<string> = new Set([
  "0BSD",
  "Apache-2.0",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "BlueOak-1.0.0",
  "ISC",
  "MIT",
  "Unlicense",
]);

/** Of packages that do not say it in `package.json`, as their texts have it. */
const SAID_ELSEWHERE: Readonly<Record<string, string>> = { "text-encoding-utf-8": "Unlicense" };

const TEXT_FILE = /^(?:licen[cs]e|copying|notice)/i;
/** A heading `License` and what is below it, to the next heading. */
const README_PART = /^#+ *licen[cs]e *$\n([^]*?)(?=^#|$(?![^]))/im;
/** A part of a README that only names the licence is not its text. */
const IS_TEXT = /permission .{0,40}granted/i;

interface Notice {
  readonly name: string;
  readonly version: string;
  readonly licence: string;
  /** At least one. */
  readonly texts: readonly string[];
}

/** @param copied folders of packages that are in the folder of the bundle without having been bundled */
export function notices(copied: readonly string[]): Plugin {
  return {
    name: "notices",
    generateBundle(_options, bundle) {
      const modules = Object.values(bundle).flatMap((each) =>
        each.type === "chunk" ? each.moduleIds : [],
      );
      const folders = [...modules.flatMap(folderOf), ...copied];
      const source = formatNotices(folders.map(readNotice));
      this.emitFile({ type: "asset", fileName: NOTICES_FILE, source });
    },
  };
}

/** The folder of the package that a module is of, from here; none for a module of ours. */
export function folderOf(module: string): readonly string[] {
  const found = /^\0?(.*[/\\]node_modules[/\\](?:@[^/\\]+[/\\])?[^/\\]+)/.exec(module)?.[1];
  return found === undefined ? [] : [relative(process.cwd(), found)];
}

/** @throws Error where the licence is not listed, or has no text */
export function readNotice(folder: string): Notice {
  const stated: unknown = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const { name, version, license, author } = Object(stated);
  const licence = String(license ?? SAID_ELSEWHERE[name]);
  if (!LICENCES.has(licence)) {
    throw new Error(
      `${name} ${version} is under ${licence}, which is not one of those that are given on`,
    );
  }
  const found = [...textsOf(folder)];
  if (found.length === 0 && licence === "MIT") found.push(mitOf(author));
  if (found.length === 0) throw new Error(`${name} ${version} has no text of its licence`);
  return { name: String(name), version: String(version), licence, texts: found };
}

/** Those of its files, else that of its README. */
function textsOf(folder: string): readonly string[] {
  const entries = readdirSync(folder, { withFileTypes: true });
  const files = entries.filter((each) => each.isFile() && TEXT_FILE.test(each.name));
  if (files.length > 0) return files.map(({ name }) => readFileSync(join(folder, name), "utf8"));
  const readme = join(folder, "README.md");
  const [, part = ""] =
    README_PART.exec(existsSync(readme) ? readFileSync(readme, "utf8") : "") ?? [];
  return IS_TEXT.test(part) ? [part] : [];
}

/** Of packages that name their licence and forget its text: the text, which is the same for all but for the holder. */
function mitOf(author: unknown): string {
  const holder = typeof author === "string" ? author : Object(author).name;
  return MIT.replace("HOLDER", String(holder ?? "its authors"));
}

function formatNotices(all: readonly Notice[]): string {
  const each = new Map(all.map((notice) => [`${notice.name} ${notice.version}`, notice]));
  const parts = [...each].toSorted(([left], [right]) => (left < right ? -1 : 1));
  const blocks = parts.map(([title, { licence, texts }]) => {
    return [`${title} (${licence})`, ...texts.map((text) => text.trim())].join("\n\n");
  });
  return `${[HEADING, ...blocks].join(`\n\n${"=".repeat(80)}\n\n`)}\n`;
}

const HEADING =
  "This program contains parts of the following packages, each under its own licence.";

const MIT = `MIT License

Copyright (c) HOLDER

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;
