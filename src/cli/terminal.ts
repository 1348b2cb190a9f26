/**
 * What the commands write, and how: data goes to stdout, everything that is said about it to stderr. Colours
 * appear on a terminal only, and not where NO_COLOR is set; nothing that came from outside reaches a
 * terminal that a terminal would obey.
 */
import { createInterface } from "node:readline/promises";
import { printable } from "../config/config.ts";

/** The numbers of ANSI colours. */
const COLORS = { bold: 1, red: 31, green: 32, yellow: 33, dim: 2 } as const;

export type Color = keyof typeof COLORS;

/** Whether that stream shows colours, and its user wants them (https://no-color.org). */
export function wantsColor(stream: { readonly isTTY?: boolean }): boolean {
  return stream.isTTY === true && !process.env["NO_COLOR"];
}

/** The text in a colour where stderr shows any. */
export function paint(color: Color, text: string): string {
  return wantsColor(process.stderr) ? `\u001b[${COLORS[color]}m${text}\u001b[0m` : text;
}

/** A line on stdout. */
export function print(line: string): void {
  process.stdout.write(`${printable(line)}\n`);
}

/** A line on stderr that may be painted: parts from outside have to be {@link printable} already. */
export function say(line = ""): void {
  process.stderr.write(`${line}\n`);
}

/** `coinslot pay: the reason`, on stderr; resolves to the exit code of a failure. */
export function fail(command: string, reason: string, code = 1): number {
  say(`${paint("red", `coinslot ${command}:`)} ${printable(reason)}`);
  return code;
}

/** Of a terminal that does not say how wide it is. */
const USUAL_COLUMNS = 80;

/** One line on stderr that is written over, on a terminal; nothing anywhere else. */
export class ProgressLine {
  readonly #stream = process.stderr;
  #isShown = false;

  show(text: string): void {
    if (!this.#stream.isTTY) return;
    this.#isShown = true;
    const columns = this.#stream.columns > 0 ? this.#stream.columns : USUAL_COLUMNS;
    this.#stream.write(`\r\u001b[K${printable(text).slice(0, Math.max(1, columns - 1))}`);
  }

  clear(): void {
    // What stands in its place by now is somebody else's.
    if (this.#isShown) this.#stream.write("\r\u001b[K");
    this.#isShown = false;
  }
}

/** Whether somebody is there to answer. */
export function isInteractive(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/** The answer to a question on the terminal, without white space around it; "" at the end of input. */
export async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const over = new AbortController();
  lines.on("close", () => over.abort());
  lines.on("SIGINT", () => {
    process.stderr.write("\n");
    lines.close();
  });
  try {
    return (await lines.question(question, { signal: over.signal })).trim();
  } catch {
    return "";
  } finally {
    lines.close();
  }
}
