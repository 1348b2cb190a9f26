/** What the resolvers of one file share. */
import { isAbsolute, join } from "node:path";
import type { NetworkName } from "../../x402/network.ts";
import { readSecretFile, type Environment } from "./environment.ts";
import type { Fault, Problems } from "./problem.ts";
import { fault, readNetwork } from "./reading.ts";
import type { Path, Tree } from "./tree.ts";

export class Context {
  readonly tree: Tree;
  readonly problems: Problems;
  readonly environment: Environment;
  readonly #folder: string;
  readonly #said = new Set<string>();

  constructor(source: {
    readonly tree: Tree;
    readonly problems: Problems;
    readonly environment: Environment;
    readonly folder: string;
  }) {
    this.tree = source.tree;
    this.problems = source.problems;
    this.environment = source.environment;
    this.#folder = source.folder;
  }

  /** Paths in the file are relative to its folder, wherever the process was started. */
  absolute(path: string): string {
    return isAbsolute(path) ? path : join(this.#folder, path);
  }

  /** The trimmed text of the file that the value at a path names; undefined after an error. `what`: "a file". */
  fileText(path: Path, file: string, what: string): string | undefined {
    const text = readSecretFile(this.absolute(file), this.environment.readFile);
    if (text !== undefined) return text;
    const hint = `write the path of ${what}, relative to the folder of this file`;
    this.problems.error(path, fault("unreadable-file", "the file cannot be read", hint));
    return undefined;
  }

  /** The keys of a map that are networks, whatever stands under them; the others are said to be none. */
  networkKeys(path: Path): readonly NetworkName[] {
    return this.tree.keys(path).flatMap((key) => {
      const network = readNetwork(key);
      if (network.ok) return [network.value];
      this.problems.errorAtKey([...path, key], network.error);
      return [];
    });
  }

  /** Something that is missing for many routes is said at the first one only. */
  errorOnce(path: Path, found: Fault): void {
    if (this.#said.has(found.code)) return;
    this.#said.add(found.code);
    this.problems.errorAtKey(path, found);
  }
}
