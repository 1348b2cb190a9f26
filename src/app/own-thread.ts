/**
 * A command of this program that runs in a thread of its own: what would hold up the thread that serves is done there, and
 * asked for question by question.
 */
import { once } from "node:events";
import { parentPort, Worker } from "node:worker_threads";
import packageJson from "../../package.json" with { type: "json" };
import { messageOf } from "../x402/result.ts";
import { pack, unpack } from "./start-order.ts";

/**
 * What a thread says to a question; its faults are its answer's. `version` is that of its program, which may have been
 * replaced on the disk since this process began: by another one a file, and a ledger, mean something else.
 */
type Said = { readonly version: string } & (
  | { readonly answer: unknown }
  | { readonly fault: string }
);

const { version } = packageJson;

/** How long an answer may take, milliseconds: tens of thousands of routes, or a million entries, take a tenth of that. */
const ANSWER_MS = 300_000;

export interface OwnThreadSettings {
  /** The program's main file. */
  readonly script: string;
  /** Of which the main function is {@link answerHere}. */
  readonly command: string;
  /** False: a process that has closed everything else does not wait for it, nor for what it has to say. */
  readonly isAwaited: boolean;
  /** How long an answer may take, milliseconds. Default: five minutes. */
  readonly withinMs?: number;
}

export class OwnThread implements Disposable {
  readonly #thread: Worker;
  readonly #isAwaited: boolean;
  readonly #withinMs: number;
  /** Rejects when it has ended. */
  readonly #ended: Promise<never>;

  constructor({ script, command, isAwaited, withinMs = ANSWER_MS }: OwnThreadSettings) {
    this.#thread = new Worker(script, { argv: [command], stdout: false });
    this.#isAwaited = isAwaited;
    this.#withinMs = withinMs;
    this.#ended = once(this.#thread, "exit").then(() => {
      throw new Error(`the thread of ${command} has ended`);
    });
    this.#ended.catch(() => undefined);
  }

  /**
   * One at a time. Rejects where the thread has ended, is of another version or does not answer in time, as on a file system
   * that is gone, and with what went wrong there.
   */
  async ask(question: unknown): Promise<unknown> {
    const signal = AbortSignal.timeout(this.#withinMs);
    const told = once(this.#thread, "message", { signal }).catch((cause) => {
      const tooLong = new Error(`nothing was read within ${this.#withinMs / 1000} s`, { cause });
      throw signal.aborted ? tooLong : cause;
    });
    this.#thread.postMessage(pack(question), []);
    if (!this.#isAwaited) this.#thread.unref();
    const [message] = await Promise.race([told, this.#ended]);
    const said: Said = message;
    if (said.version !== version) {
      throw new Error(`the program was replaced by another version than ${version}: restart it`);
    }
    if ("fault" in said) throw new Error(said.fault);
    return unpack(said.answer);
  }

  /** One that waits for its disk cannot be ended before that answers: nobody waits for it. */
  [Symbol.dispose](): void {
    void this.#thread.terminate();
  }
}

/** The main function of such a thread: answers until it is ended. */
export async function answerHere(
  command: string,
  answer: (question: unknown) => Promise<unknown>,
): Promise<number> {
  const port = parentPort;
  if (port === null) {
    process.stderr.write(`coinslot ${command}: this is a thread of \`coinslot serve\`\n`);
    return 1;
  }
  const say = async (question: unknown): Promise<Said> => {
    try {
      return { version, answer: pack(await answer(unpack(question))) };
    } catch (cause) {
      return { version, fault: messageOf(cause) };
    }
  };
  port.on("message", async (question) => port.postMessage(await say(question), []));
  return new Promise(() => undefined);
}
