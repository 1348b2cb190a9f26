/**
 * A new configuration in place of the one that runs: read, judged as a whole, and only then put in. Whatever is
 * wrong with it, what runs goes on as it was. One reload at a time.
 */
import { formatProblems, type Config, type ParseResult, type Problem } from "../config/config.ts";
import type { Logger } from "../telemetry/logger.ts";
import { messageOf } from "../x402/result.ts";

export type ReloadCause =
  | "the file has changed"
  | "a list of payers has changed"
  | "SIGHUP"
  | "POST /-/reload";

export type Reloaded =
  | { readonly reloaded: true; readonly problems: readonly Problem[] }
  /** Nothing has changed: the errors say why. */
  | { readonly reloaded: false; readonly problems: readonly Problem[] };

export interface ReloadingOptions {
  /** Reads and judges the file as it is now. */
  readonly load: () => Promise<ParseResult>;
  /** Problems that speak against the change while the process runs; empty: it was made. */
  readonly apply: (config: Config) => Promise<readonly Problem[]>;
  readonly logger: Logger;
  /** Hears of the end of each reload: whether the file is in use now. */
  readonly onEnd: (isInUse: boolean) => void;
}

export class Reloading {
  readonly #options: ReloadingOptions;
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: ReloadingOptions) {
    this.#options = options;
  }

  /** Waits for those that were asked for before. Never rejects. */
  reload(cause: ReloadCause): Promise<Reloaded> {
    const reloaded = this.#last.then(() => this.#reload(cause));
    this.#last = reloaded;
    return reloaded;
  }

  async #reload(cause: ReloadCause): Promise<Reloaded> {
    const { load, apply, logger, onEnd } = this.#options;
    let result: Reloaded;
    try {
      const loaded = await load();
      const against = loaded.ok ? await apply(loaded.config) : [];
      const problems = [...loaded.problems, ...against];
      result = { reloaded: loaded.ok && against.length === 0, problems };
      if (result.reloaded) logger.info({ cause }, "the configuration was reloaded");
      else {
        const explanation = formatProblems(problems, loaded.text);
        logger.error(
          { cause, explanation },
          "the new configuration is refused; nothing has changed",
        );
      }
    } catch (err) {
      logger.error({ cause, err }, "the configuration could not be reloaded");
      result = { reloaded: false, problems: [failure(err)] };
    }
    onEnd(result.reloaded);
    return result;
  }
}

function failure(cause: unknown): Problem {
  const reason = messageOf(cause);
  const place = { file: "", line: 0, column: 0, length: 1, path: [] };
  return { severity: "error", code: "not-reloaded", message: reason, ...place };
}
