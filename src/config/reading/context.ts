/** What the resolvers of one file share. */
import { isAbsolute, join } from "node:path";
import type { NetworkName } from "../../x402/network.ts";
import type { Environment } from "./environment.ts";
import type { Fault, Problems } from "./problem.ts";
import { readNetwork } from "./reading.ts";
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

  /** The keys of a map that are networks, whatever stands under them; the others are said to be none. */
  networkKeys(path: Path): readonly NetworkName[] {
    const written = this.tree.find(path);
    const keys = written?.kind === "mapping" ? [...written.entries.keys()] : [];
    return keys.flatMap((key) => {
      const network = readNetwork(key);
      if (network.ok) return [network.value];
      this.problems.errorAtKey([...path, key], network.error);
      return [];
    });
  }

  /** Something that is missing for many routes is said at the first one only. */
  errorOnce(path: Path, fault: Fault): void {
    if (this.#said.has(fault.code)) return;
    this.#said.add(fault.code);
    this.problems.errorAtKey(path, fault);
  }
}
