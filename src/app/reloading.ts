/**
 * A new configuration in place of the one that runs: read, judged as a whole, and only then put in. Whatever is
 * wrong with it, what runs goes on as it was. One reload at a time.
 */
import {
  changesBetween,
  formatProblems,
  type ConfigChange,
  type Config,
  type ParseResult,
  type Problem,
} from "../config/config.ts";
import type { Logger } from "../telemetry/logger.ts";
import { inTurns, type Steps } from "../time/breath.ts";
import { messageOf } from "../x402/result.ts";
import { findGivenAway, type Read } from "./giving-away.ts";

export type ReloadCause =
  | "the file has changed"
  | "a file that it names has changed"
  | "SIGHUP"
  | "POST /-/reload";

export interface ReloadWish {
  /** Says what would come of it, and changes nothing. */
  readonly isDry?: boolean;
  /** What costs something may be free from now on, and the file may end where it does. */
  readonly allowsFree?: boolean;
}

export interface Reloaded {
  /** False: nothing has changed. */
  readonly reloaded: boolean;
  /** Only where it was taken up and something then failed: some of what serves goes by the one before. */
  readonly inPart?: true;
  /** Only after a dry run: whether the file would be taken up. */
  readonly wouldReload?: boolean;
  /** Of the file; errors among them say why it is refused. */
  readonly problems: readonly Problem[];
  /** What the file says otherwise than the configuration that ran until now; at most {@link MAX_CHANGES}. */
  readonly changes: readonly ConfigChange[];
  /** Changes that are left out. */
  readonly moreChanges: number;
  /** Of the file that was read; see `ParseResult`. */
  readonly hash: string;
}

/** What a configuration that was accepted comes to here. */
export interface Prepared {
  /** What speaks against it while this runs; empty: it can be put in. */
  readonly problems: readonly Problem[];
  /** Puts it in; of that and {@link drop} one is called, once. Rejects where only a part of it is in. */
  commit(): Promise<void>;
  drop(): Promise<void>;
}

export interface ReloadingOptions {
  /** Reads and judges the file as it is now. */
  readonly load: () => Promise<ParseResult>;
  /** What runs, and the text of its file, masked, and its hash; "": it is not known. */
  readonly running: Running;
  /** `isTrial`: it will be dropped. */
  readonly prepare: (config: Config, isTrial: boolean) => Promise<Prepared>;
  readonly logger: Logger;
  /**
   * Hears of the end of each reload that was no dry run: whether the whole file is in use now, and the hash of each that is
   * in force, whole or in part.
   */
  readonly onEnd: (isInUse: boolean, hashes: readonly string[]) => void;
}

/** Files that are kept because each is in force in part, beside the last one that was so as a whole. */
const MAX_IN_PART = 4;

type Running = Read & Pick<ParseResult, "hash">;

/** By watching: nobody has asked for it. */
const SEEN: ReadonlySet<ReloadCause> = new Set([
  "the file has changed",
  "a file that it names has changed",
]);
/** Changes that are told of one reload. */
const MAX_CHANGES = 100;

export class Reloading {
  readonly #options: Omit<ReloadingOptions, "running">;
  /** The newest first: several where it is in force in part, down to the last one that was so as a whole. */
  #inForce: readonly [Running, ...Running[]];
  #last: Promise<unknown> = Promise.resolve();

  constructor({ running, ...options }: ReloadingOptions) {
    this.#options = options;
    this.#inForce = [running];
  }

  /**
   * Waits for those that were asked for before. Never rejects. A file that has changed is left alone where the one in
   * force by then is not to be watched.
   */
  reload(cause: ReloadCause, wish: ReloadWish = {}): Promise<Reloaded> {
    const reloaded = this.#last.then(() => this.#reload(cause, wish));
    this.#last = reloaded;
    return reloaded;
  }

  async #reload(cause: ReloadCause, wish: ReloadWish): Promise<Reloaded> {
    const { logger, onEnd } = this.#options;
    if (SEEN.has(cause) && !this.#inForce[0].config.watch) return UNCHANGED;
    let result: Reloaded;
    try {
      result = await this.#judge(cause, wish);
    } catch (err) {
      logger.error({ cause, err }, "the configuration could not be reloaded");
      result = { ...NOTHING, reloaded: false, problems: [failure(messageOf(err))] };
    }
    if (wish.isDry !== true) {
      const isInUse = result.reloaded && result.inPart !== true;
      onEnd(isInUse, [...new Set(this.#inForce.map(({ hash }) => hash))]);
    }
    return result;
  }

  async #judge(cause: ReloadCause, { isDry, allowsFree }: ReloadWish): Promise<Reloaded> {
    const { load, prepare, logger } = this.#options;
    const before = this.#inForce;
    const loaded = await load();
    const { text, included, hash } = loaded;
    const refuse = (problems: readonly Problem[], told: Told): Reloaded => {
      const result = {
        reloaded: false,
        problems: [...loaded.problems, ...problems],
        hash,
        ...told,
      };
      if (isDry === true) return { ...result, wouldReload: false };
      const explanation = formatProblems(result.problems, text);
      logger.error({ cause, explanation }, "the new configuration is refused; nothing has changed");
      return result;
    };
    if (!loaded.ok) return refuse([], NO_CHANGES);
    if (before.length > MAX_IN_PART && !before.some((each) => each.hash === hash)) {
      const reason = `${MAX_IN_PART} files after another are in force in part`;
      return refuse([{ ...failure(reason), suggestion: "restart" }], NO_CHANGES);
    }
    const { config } = loaded;
    const told = await inTurns(describe(before[0].config, config));
    const given =
      allowsFree === true ? [] : await findGivenAway(before, { text, included, config });
    const prepared = await prepare(config, isDry === true || given.length > 0);
    const against = [...given, ...prepared.problems];
    if (against.length > 0 || isDry === true) await prepared.drop();
    if (against.length > 0) return refuse(against, told);
    const result = { problems: loaded.problems, ...told, hash };
    if (isDry === true) return { reloaded: false, wouldReload: true, ...result };
    const next = { text, included, hash, config };
    this.#inForce = [next, ...before.filter((each) => each.hash !== hash)];
    try {
      await prepared.commit();
      this.#inForce = [next];
    } catch (err) {
      logger.error({ cause, hash, err }, "only a part of the new configuration is in force");
      const reason = `only a part of it is in force: ${messageOf(err)}`;
      const again =
        allowsFree === true ? "reload it once more with --allow-free" : "reload it once more";
      const problem = { ...failure(reason), suggestion: `${again}, or restart` };
      return { reloaded: true, inPart: true, ...result, problems: [...loaded.problems, problem] };
    }
    const { changes, moreChanges } = told;
    logger.info({ cause, hash, changes, moreChanges }, "the configuration was reloaded");
    return { reloaded: true, ...result };
  }
}

type Told = Pick<Reloaded, "changes" | "moreChanges">;

function* describe(before: Config, after: Config): Steps<Told> {
  const changes: ConfigChange[] = [];
  let moreChanges = 0;
  for (const change of changesBetween(before, after)) {
    if (change === null) yield;
    else if (changes.length < MAX_CHANGES) changes.push(change);
    else moreChanges += 1;
  }
  return { changes, moreChanges };
}

const NO_CHANGES: Told = { changes: [], moreChanges: 0 };
const NOTHING = { ...NO_CHANGES, hash: "" };
const UNCHANGED: Reloaded = { ...NOTHING, reloaded: false, problems: [] };

function failure(message: string): Problem {
  const place = { file: "", line: 0, column: 0, length: 1, path: [] };
  return { severity: "error", code: "not-reloaded", message, ...place };
}
