/** What the resolvers of one file share. */
import { dirname, isAbsolute, join } from "node:path";
import type { NetworkName } from "../../x402/network.ts";
import { isForgiven, readSecretFile, type Environment } from "./environment.ts";
import type { Fault, Problems } from "./problem.ts";
import { fault, readNetwork } from "./reading.ts";
import type { Path, Tree } from "./tree.ts";

/** Permission bits. */
const READ_BY_OTHERS = 0o004;
const ENTERED_BY_OTHERS = 0o001;
const WHOLE_PATH = "write the whole path, or a variable as ${NAME}";

/** The part of a path that a shell would replace; undefined: there is none. */
function unexpanded(path: string): string | undefined {
  return /(?<=^|\/)~[\w-]*(?=\/|$)|\$\([^)]*\)?|`[^`]*`|\$[A-Za-z_]\w*|%[A-Za-z_]+%/.exec(
    path,
  )?.[0];
}

/** The fault of a file; where a shell would have replaced part of its path, that is the hint. */
export function unreadable(message: string, file: string, hint: string): Fault {
  const found = unexpanded(file);
  const why = found === undefined ? hint : `${found} is not replaced here: ${WHOLE_PATH}`;
  return fault("unreadable-file", message, why);
}

export class Context {
  readonly tree: Tree;
  readonly problems: Problems;
  readonly environment: Environment;
  /** Whether a key or certificate was not there and did not have to be. */
  isPartial = false;
  readonly #text: string;
  readonly #folder: string;
  readonly #said = new Set<string>();

  constructor(source: {
    readonly tree: Tree;
    readonly problems: Problems;
    readonly environment: Environment;
    readonly folder: string;
    readonly text: string;
  }) {
    this.tree = source.tree;
    this.problems = source.problems;
    this.environment = source.environment;
    this.#folder = source.folder;
    this.#text = source.text;
  }

  /** A value as it stands in the file, before placeholders are filled in; "" where none does. */
  written(path: Path): string {
    const span = this.tree.find(path)?.span;
    return span === undefined ? "" : this.#text.slice(span.offset, span.offset + span.length);
  }

  /** Paths in the file are relative to its folder, wherever the process was started. */
  absolute(path: string): string {
    return isAbsolute(path) ? path : join(this.#folder, path);
  }

  /** Where the URL of an entry stands that is a URL alone, or a map with one. */
  placeOfUrl(path: Path): Path {
    return this.tree.find(path)?.kind === "mapping" ? [...path, "url"] : path;
  }

  /** The trimmed text of the file that the value at a path names; undefined after an error. `what`: "a file". */
  fileText(path: Path, file: string, what: string): string | undefined {
    const text = readSecretFile(this.absolute(file), this.environment.readFile);
    if (text !== undefined) return text;
    const hint = `write the path of ${what}, relative to the folder of this file`;
    this.problems.error(path, unreadable("the file cannot be read", file, hint));
    return undefined;
  }

  /** The same of a file in PEM, which need not be there where secrets need not be; the name of a private key says so. */
  pemText(path: Path, file: string, holds: "certificates" | "a key"): string | undefined {
    const isMissing = readSecretFile(this.absolute(file), this.environment.readFile) === undefined;
    if (isMissing && this.forgives(unreadable("", file, ""))) return undefined;
    if (holds === "a key" && !isMissing) this.warnOfReaders(path, this.absolute(file));
    return this.fileText(path, file, "a file in PEM");
  }

  /** Whether a fault is only that a secret is not here, where none has to be: what it is about is left out. */
  forgives(found: Fault): boolean {
    const isForgotten = isForgiven(found, this.environment);
    if (isForgotten) this.isPartial = true;
    return isForgotten;
  }

  /** Warns where a file with a key, and each folder above it, is open to every user of the machine. */
  warnOfReaders(path: Path, file: string): void {
    const { modeOf = () => undefined } = this.environment;
    // What a container's runtime mounts there has a mode that nobody can set, and no other users.
    if (file.startsWith("/run/secrets/") || ((modeOf(file) ?? 0) & READ_BY_OTHERS) === 0) return;
    for (let folder = dirname(file); folder !== dirname(folder); folder = dirname(folder)) {
      if (((modeOf(folder) ?? ENTERED_BY_OTHERS) & ENTERED_BY_OTHERS) === 0) return;
    }
    const message = "the file can be read by every user of this machine";
    this.problems.add("warning", path, fault("readable-key", message, "chmod 600 it"));
  }

  /** Warns of what only a shell would have replaced in a path: it names a folder as it stands. */
  warnOfUnexpanded(path: Path, file: string): void {
    const found = unexpanded(file);
    if (found === undefined) return;
    const message = `has ${found}, which is a name like any other here: no shell reads the path`;
    this.problems.add("warning", path, fault("unexpanded-path", message, WHOLE_PATH));
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
