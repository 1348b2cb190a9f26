/** What an agent has bought, and what buys for it: opened once it is needed, and left in order. */
import { AgentPurse, type AgentPurseOptions } from "../../buyer/agent/agent-purse.ts";
import { PurchaseBook } from "../../buyer/agent/purchase-book.ts";
import { systemTime } from "../../time/time.ts";
import { err, ok, type Result } from "../../x402/result.ts";

/** So long a process that is just ending is waited for to leave the state, and how often it is looked at, milliseconds. */
const STATE_WAIT_MS = 3_000;
const STATE_LOOK_MS = 100;
/** How long what was begun may take to write down what it knows when the client is gone, milliseconds. */
const LEAVE_MS = 5_000;

interface LazyParts extends Omit<AgentPurseOptions, "book"> {
  /** Of the file. */
  readonly path: string;
}

export interface OpenPurse {
  readonly purse: AgentPurse;
  readonly book: PurchaseBook;
}

/** Opened by the first call that needs it: clients start servers only to see which revision they speak. */
export class LazyPurse {
  readonly #parts: LazyParts;
  #open: Promise<Result<OpenPurse, string>> | null = null;

  constructor(parts: LazyParts) {
    this.#parts = parts;
  }

  async open(): Promise<Result<OpenPurse, string>> {
    const opening = (this.#open ??= this.#tryToOpen());
    const opened = await opening;
    // Whoever has it may be gone when the agent asks again.
    if (!opened.ok && this.#open === opening) this.#open = null;
    return opened;
  }

  async #tryToOpen(): Promise<Result<OpenPurse, string>> {
    const { path, ...parts } = this.#parts;
    const { signal } = parts;
    const deadline = systemTime.now() + STATE_WAIT_MS;
    for (;;) {
      const book = PurchaseBook.open(path);
      if (book.ok) {
        return ok({ purse: new AgentPurse({ ...parts, book: book.value }), book: book.value });
      }
      if (systemTime.now() >= deadline || signal.aborted) return err(book.error);
      await systemTime.sleep(STATE_LOOK_MS, signal);
    }
  }

  /** What was sent is written down as far as it is known. */
  async close(): Promise<void> {
    const opened = await this.#open;
    if (opened?.ok !== true) return;
    const { purse, book } = opened.value;
    const idle = new AbortController();
    const leave = purse.idle().then(() => idle.abort());
    await Promise.race([leave, systemTime.sleep(LEAVE_MS, idle.signal)]);
    book.close();
  }
}
