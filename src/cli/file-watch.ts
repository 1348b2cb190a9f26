/**
 * Tells when the text of a file has become another one. The folder is watched and not the file, since editors
 * put a new file in its place and Kubernetes turns a link; and it is looked at from time to time, since some
 * file systems tell nothing.
 */
import { watch, type FSWatcher } from "node:fs";
import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";

/** What is written in several steps is read after the last one, milliseconds. */
const SETTLE_MS = 150;
/** How often it is looked at when nothing is told, milliseconds. */
const LOOK_MS = 5_000;

export class FileWatch {
  readonly #path: string;
  readonly #onChange: () => void;
  readonly #looking: NodeJS.Timeout;
  #watcher: FSWatcher | undefined;
  #settling: NodeJS.Timeout | undefined;
  /** A hash of it: a list of payers has megabytes. */
  #text: string | undefined;
  #isClosed = false;

  private constructor(path: string, text: string | undefined, onChange: () => void) {
    this.#path = path;
    this.#text = text;
    this.#onChange = onChange;
    this.#looking = setInterval(() => void this.#look(), LOOK_MS).unref();
    this.#watch();
  }

  /** What changes after it has resolved is told. */
  static async open(path: string, onChange: () => void): Promise<FileWatch> {
    const whole = resolve(path);
    return new FileWatch(whole, await textOf(whole), onChange);
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#looking);
    clearTimeout(this.#settling);
    this.#watcher?.close();
  }

  /** Where the folder cannot be watched, looking has to do. */
  #watch(): void {
    try {
      this.#watcher = watch(dirname(this.#path), { persistent: false }, () => this.#stir());
      this.#watcher.on("error", () => {
        this.#watcher?.close();
        this.#watcher = undefined;
      });
    } catch {
      this.#watcher = undefined;
    }
  }

  #stir(): void {
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => void this.#look(), SETTLE_MS);
  }

  /** A file that is not there for a moment is being replaced. */
  async #look(): Promise<void> {
    const text = await textOf(this.#path);
    if (this.#isClosed || text === undefined || text === this.#text) return;
    this.#text = text;
    this.#onChange();
  }
}

function textOf(path: string): Promise<string | undefined> {
  return readFile(path).then(
    (bytes) => hash("sha256", bytes),
    () => undefined,
  );
}

/** Several files, which are others from time to time. */
export class FileWatches {
  readonly #onChange: () => void;
  #watches: ReadonlyMap<string, FileWatch> = new Map();

  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  /**
   * Watches these from here on, and no others. What changes after it has resolved is told; true: some of them are new,
   * and what was read of them before may be another by now.
   */
  async see(paths: readonly string[]): Promise<boolean> {
    const before = this.#watches;
    const opened = [...new Set(paths)].map(async (path) => {
      return [path, before.get(path) ?? (await FileWatch.open(path, this.#onChange))] as const;
    });
    const watches = new Map(await Promise.all(opened));
    for (const [path, watch] of before) if (!watches.has(path)) watch.close();
    this.#watches = watches;
    return [...watches.keys()].some((path) => !before.has(path));
  }

  close(): void {
    for (const watch of this.#watches.values()) watch.close();
  }
}
