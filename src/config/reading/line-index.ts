/** Turns offsets into lines and columns of the files that a text is made of. */

/** A file within the text. */
export interface SourceFile {
  /** As messages name it. */
  readonly name: string;
  readonly offset: number;
  readonly length: number;
}

interface FilePlace {
  readonly file: SourceFile;
  readonly line: number;
  readonly column: number;
}

export class LineIndex {
  readonly #text: string;
  readonly #files: readonly SourceFile[];
  readonly #starts: readonly number[];

  constructor({ text, files }: { readonly text: string; readonly files: readonly SourceFile[] }) {
    this.#text = text;
    this.#files = files;
    const starts = [0];
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
    this.#starts = starts;
  }

  position(offset: number): FilePlace {
    const index = this.#lineAt(offset);
    const file = this.#files.findLast((each) => each.offset <= offset) ?? NO_FILE;
    const first = file.offset === 0 ? 0 : this.#lineAt(file.offset);
    return { file, line: index - first + 1, column: offset - (this.#starts[index] ?? 0) + 1 };
  }

  /** Of the files, in their order. */
  get names(): readonly string[] {
    return this.#files.map(({ name }) => name);
  }

  /** A line in words, with its file where that is an included one. */
  where(offset: number): string {
    const { file, line } = this.position(offset);
    return file.offset === 0 ? `line ${line}` : `line ${line} of ${file.name}`;
  }

  /** Characters from an offset to the end of its line. */
  rest(offset: number): number {
    const end = this.#text.slice(offset, offset + 1000).search(/\s*(?:\r?\n|$)/);
    return end < 0 ? 1000 : end;
  }

  /** From 0, of the whole text. */
  #lineAt(offset: number): number {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

const NO_FILE: SourceFile = { name: "", offset: 0, length: 0 };
