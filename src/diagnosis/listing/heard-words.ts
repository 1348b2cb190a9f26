/**
 * What facilitators elsewhere said of listing our routes: they say it with their answers to payments, so the
 * gateway that asked them knows, and tells it on its `admin` listener to whoever compares listings.
 */
import { urlOfAddress } from "../../config/listener/admin-address.ts";
import type { Config } from "../../config/config.ts";
import type { HeardWord } from "../../facilitator/catalogue-word.ts";
import { describeFailure } from "../doctor/finding.ts";
import { ask } from "../doctor/http-probe.ts";
import { EntryFinder } from "./entry-finder.ts";

/** Words of one gateway that are read. */
const MAX_WORDS = 10_000;
/** Longest text that is taken from one, characters. */
const MAX_TEXT = 2_048;
/** Longest answer, bytes. */
const MAX_BYTES = 8 * 1024 * 1024;
/** Unix seconds: the last time that a date can show. */
const LAST_TIME = 8_640_000_000_000;
const PATH = "/listing";

/** The last word of one facilitator about one route. */
export interface RouteWord {
  /** Its URL as the configuration has it. */
  readonly facilitator: string;
  /** Key of the route. */
  readonly route: string;
  /** `success`, `processing`, `rejected`, or whatever it says. */
  readonly status: string;
  readonly reason: string | null;
  /** Unix seconds. */
  readonly at: number;
}

interface Hearing {
  readonly sales: { readonly config: Pick<Config, "routes" | "sites" | "publicUrl"> };
  readonly remotes: readonly { readonly name: string; readonly heard: readonly HeardWord[] }[];
}

/** One for each facilitator and route; URLs, of which a pattern route has many, are not told. */
export function wordsOfRoutes(hearing: Hearing | undefined): readonly RouteWord[] {
  if (hearing === undefined) return [];
  const finder = new EntryFinder(hearing.sales.config);
  return hearing.remotes.flatMap(({ name, heard }) => {
    const found = [...finder.byRoute(heard)];
    return found.flatMap(([{ key }, words]) => {
      const last = words.at(-1);
      if (last === undefined) return [];
      const { status, reason = null, heardMs } = last;
      return [{ facilitator: name, route: key, status, reason, at: Math.floor(heardMs / 1000) }];
    });
  });
}

export interface AskedWords {
  readonly words: readonly RouteWord[];
  /** Why they are not known; null: they are, or nobody elsewhere could have said one. */
  readonly unknown: string | null;
}

/** Asks the gateway that runs with this configuration. Never rejects. */
export async function askForWords(config: Config, timeoutMs: number): Promise<AskedWords> {
  const { admin, facilitator } = config;
  if (facilitator.remote.length === 0) return { words: [], unknown: null };
  if (admin === null || admin.port === 0) {
    return { words: [], unknown: "the file names no admin listener to ask the gateway at" };
  }
  try {
    const signal = AbortSignal.timeout(timeoutMs);
    const { status, text } = await ask(
      { url: urlOfAddress(admin) + PATH, maxBytes: MAX_BYTES },
      signal,
    );
    if (status !== 200) return { words: [], unknown: `its admin listener answers ${status}` };
    return { words: readWords(JSON.parse(text)), unknown: null };
  } catch (cause) {
    return { words: [], unknown: `its admin listener: ${describeFailure(cause)}` };
  }
}

function readWords(json: unknown): readonly RouteWord[] {
  const { words } = Object(json);
  if (!Array.isArray(words)) return [];
  return words.slice(0, MAX_WORDS).flatMap((each: unknown) => {
    const { facilitator, route, status, reason, at } = Object(each);
    const isTold = [facilitator, route, status].every((text) => typeof text === "string");
    if (!isTold || !Number.isSafeInteger(at) || at < 0 || at > LAST_TIME) return [];
    const why = typeof reason === "string" ? reason.slice(0, MAX_TEXT) : null;
    return [{ facilitator, route, status: status.slice(0, MAX_TEXT), reason: why, at }];
  });
}
