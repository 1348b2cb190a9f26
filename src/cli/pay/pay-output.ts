/** Where `coinslot pay` writes what was answered: to stdout, or to a file that is proven to be writable first. */
import { once } from "node:events";
import { open, rm, stat, type FileHandle } from "node:fs/promises";
import type { WriteBytes } from "../../buyer/answer-sink.ts";
import type { BuyerAnswer } from "../../buyer/exchange.ts";
import { printable } from "../../config/config.ts";

const NEW_LINE = 0x0a;

export interface OutputOptions {
  /** Undefined: stdout. */
  readonly output?: string;
  /** The head of the answer, too. */
  readonly include?: boolean;
}

export class Output {
  readonly #options: OutputOptions;
  readonly #file: FileHandle | null;
  readonly #isNew: boolean;
  #hasBegun = false;
  #isLineOpen = false;

  private constructor(options: OutputOptions, file: FileHandle | null, isNew: boolean) {
    this.#options = options;
    this.#file = file;
    this.#isNew = isNew;
  }

  /** Opens the file without changing it. Rejects when it cannot be written: nothing is paid yet. */
  static async open(options: OutputOptions): Promise<Output> {
    const { output } = options;
    if (output === undefined) return new Output(options, null, false);
    const isNew = await stat(output).then(
      () => false,
      () => true,
    );
    return new Output(options, await open(output, "a"), isNew);
  }

  /** Tells the head of the answer whose body follows; once, whatever comes twice. */
  readonly begin = async (answer: BuyerAnswer): Promise<void> => {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    await this.#file?.truncate(0);
    if (this.#options.include) {
      const lines = answer.head.split("\n").map((line) => `${printable(line)}\r\n`);
      await this.write(Buffer.from(`${lines.join("")}\r\n`));
    }
  };

  readonly write: WriteBytes = async (bytes) => {
    this.#isLineOpen = bytes.at(-1) !== NEW_LINE;
    if (this.#file !== null) await this.#file.appendFile(bytes);
    else if (!process.stdout.write(bytes)) await once(process.stdout, "drain");
  };

  /** On a terminal, what is said next begins on a line of its own; a body elsewhere stays as it came. */
  endLine(): void {
    if (this.#isLineOpen && this.#file === null && process.stdout.isTTY) process.stdout.write("\n");
    this.#isLineOpen = false;
  }

  /** A file that was made here and got nothing goes away again. */
  async close(): Promise<void> {
    await this.#file?.close();
    const { output } = this.#options;
    if (this.#isNew && !this.#hasBegun && output !== undefined) await rm(output, { force: true });
  }
}
