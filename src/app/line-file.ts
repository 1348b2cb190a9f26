/**
 * A file of JSON lines that only grows: what `append` has resolved for survives a power cut. A line that was cut
 * off by one is taken away before anything is added.
 */
import { mkdir, open, type FileHandle } from "node:fs/promises";
import { dirname } from "node:path";

/** What is read at once while the end of the last line is looked for, bytes. */
const CHUNK_BYTES = 64 * 1024;
const LINE_FEED = 10;

/** How each line of ours begins: a file with others is not touched. */
export const LINE_BEGIN = '{"key":"';

/** For the owner alone: payments name who paid for what. */
const FILE_MODE = 0o600;

export class LineFile {
  readonly #handle: FileHandle;
  readonly #lastLine: string | undefined;

  private constructor(handle: FileHandle, lastLine: string | undefined) {
    this.#handle = handle;
    this.#lastLine = lastLine;
  }

  /**
   * Makes the file, and its folder, where they are not there. Rejects with what the system says, and for a file
   * that holds something else.
   */
  static async open(path: string): Promise<LineFile> {
    await mkdir(dirname(path), { recursive: true });
    const handle = await open(path, "a+", FILE_MODE);
    try {
      const { size } = await handle.stat();
      const end = await lineFeedBefore(handle, size);
      const lastLine = end === 0 ? undefined : await readLastLine(handle, end);
      const torn = await readText(handle, end, Math.min(size - end, LINE_BEGIN.length));
      if (lastLine?.startsWith(LINE_BEGIN) === false || !LINE_BEGIN.startsWith(torn)) {
        throw new Error(`${path} holds something else than exported payments`);
      }
      if (end < size) await handle.truncate(end);
      await handle.sync();
      await syncFolder(dirname(path));
      return new LineFile(handle, lastLine);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** As it was found, without its line feed; undefined in an empty file. */
  get lastLine(): string | undefined {
    return this.#lastLine;
  }

  async append(lines: readonly string[]): Promise<void> {
    if (lines.length === 0) return;
    await this.#handle.appendFile(lines.map((line) => `${line}\n`).join(""));
    await this.#handle.datasync();
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

async function readLastLine(handle: FileHandle, end: number): Promise<string> {
  const start = await lineFeedBefore(handle, end - 1);
  return readText(handle, start, end - 1 - start);
}

async function readText(handle: FileHandle, start: number, length: number): Promise<string> {
  const text = Buffer.alloc(length);
  await handle.read(text, 0, length, start);
  return text.toString();
}

/** Where the last line ends that ends before a place: behind its line feed, or 0. */
async function lineFeedBefore(handle: FileHandle, place: number): Promise<number> {
  const chunk = Buffer.alloc(CHUNK_BYTES);
  for (let end = place; end > 0;) {
    const start = Math.max(0, end - CHUNK_BYTES);
    const { bytesRead } = await handle.read(chunk, 0, end - start, start);
    const found = chunk.subarray(0, bytesRead).lastIndexOf(LINE_FEED);
    if (found >= 0) return start + found + 1;
    end = start;
  }
  return 0;
}

/** A new file is there after a power cut only if its folder says so. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
