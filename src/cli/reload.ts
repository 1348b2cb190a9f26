/** `coinslot reload`: asks the admin listener of a running gateway to read its configuration again. */
import { readFile } from "node:fs/promises";
import { exchange, readBody, type BuyerAnswer } from "../buyer/exchange.ts";
import { readAdminAddress, urlOfAddress } from "../config/listener/admin-address.ts";
import { formatProblems, printable, type Problem } from "../config/config.ts";
import { processEnvironment } from "../config/reading/environment.ts";
import { err, ok, type Result, messageOf } from "../x402/result.ts";
import { toJson } from "./payments/payment-text.ts";
import { fail, print, wantsColor } from "./terminal.ts";
import { parseJson } from "../x402/json.ts";

export interface ReloadOptions {
  readonly admin?: string;
  readonly json?: boolean;
  readonly dryRun?: boolean;
  readonly allowFree?: boolean;
}

/** Longest that a gateway may take: it asks its networks before it accepts a file. */
const RELOAD_TIMEOUT_MS = 60_000;
/** The largest verdict, bytes. */
const MAX_VERDICT_BYTES = 8 * 1024 * 1024;
/** Problems that are shown. */
const MAX_PROBLEMS = 1_000;
const PATH = "/-/reload";
const USAGE = 2;
const NOT_FOUND: ReadonlySet<number> = new Set([404, 405]);

/** Resolves with the exit code: 0 when the gateway says that it has reloaded. */
export async function reload(file: string | undefined, options: ReloadOptions): Promise<number> {
  if ((file === undefined) === (options.admin === undefined)) {
    return fail("reload", "name a configuration file or --admin URL, one of them", USAGE);
  }
  const url = file === undefined ? readAdminUrl(options.admin ?? "") : await adminUrlOf(file);
  if (!url.ok) return fail("reload", url.error, file === undefined ? USAGE : 1);
  let verdict: Verdict;
  try {
    const asked = url.value;
    if (options.dryRun) asked.searchParams.set("dry-run", "");
    if (options.allowFree) asked.searchParams.set("allow-free", "");
    verdict = await ask(asked, options.dryRun === true);
  } catch (cause) {
    return fail("reload", messageOf(cause));
  }
  if (options.json) process.stdout.write(toJson(verdict.json));
  else {
    const { isGood, inPart, problems, json } = verdict;
    // The gateway's file may be on another machine: its lines are not quoted.
    process.stderr.write(formatProblems(problems, "", { color: wantsColor(process.stderr) }));
    const { error } = Object(json);
    if (!isGood && typeof error === "string") process.stderr.write(`${printable(error)}\n`);
    for (const line of changesOf(json)) print(line);
    if (inPart) print("reloaded in part: some of what serves goes by the configuration before");
    else if (!isGood) print("refused: the running configuration stays as it is");
    else print(options.dryRun ? "would be reloaded; nothing has changed" : "reloaded");
  }
  return verdict.isGood ? 0 : 1;
}

interface Verdict {
  /** The file is in use now, or would be where that was asked. */
  readonly isGood: boolean;
  /** It is in use, but not everywhere. */
  readonly inPart: boolean;
  readonly problems: readonly Problem[];
  readonly json: unknown;
}

function readAdminUrl(text: string): Result<URL, string> {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url?.protocol === "http:" || url?.protocol === "https:"
    ? ok(new URL(PATH, url))
    : err("--admin must be a URL such as http://127.0.0.1:9402");
}

/** Other keys of the file may be wrong: that is for the gateway to say. */
async function adminUrlOf(file: string): Promise<Result<URL, string>> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (cause) {
    return err(`${file} cannot be read: ${messageOf(cause)}`);
  }
  const address = readAdminAddress(text, file, processEnvironment);
  if (address === null || address.port === 0) {
    return err(
      `${file} names no admin listener (admin: 127.0.0.1:9402); --admin URL names it here`,
    );
  }
  return ok(new URL(PATH, urlOfAddress(address)));
}

async function ask(url: URL, isDry: boolean): Promise<Verdict> {
  let answer: BuyerAnswer;
  let body: Buffer | undefined;
  try {
    const request = { url, method: "POST", headers: [], body: null };
    const signal = AbortSignal.timeout(2 * RELOAD_TIMEOUT_MS);
    answer = await exchange(request, { silenceMs: RELOAD_TIMEOUT_MS, signal });
    body = await readBody(answer, MAX_VERDICT_BYTES);
  } catch (cause) {
    throw new Error(`no gateway answers: ${messageOf(cause)}`, { cause });
  }
  if (body === undefined) throw new Error("the answer is too large for a verdict");
  const { status } = answer;
  const json = parseJson(body.toString("utf8"));
  const { reloaded, inPart, wouldReload, problems } = Object(json ?? {});
  const said: unknown = isDry ? wouldReload : reloaded;
  if (typeof said === "boolean") {
    // Neither half of the answer is believed without the other.
    const isGood = said && status >= 200 && status < 300;
    return { isGood, inPart: inPart === true, problems: readProblems(problems), json };
  }
  if (isDry && reloaded === true) throw new Error("an older version: it has reloaded");
  const hint = NOT_FOUND.has(status)
    ? "it is no coinslot that can reload: wrong address, or an older version"
    : "which is no verdict on a reload";
  throw new Error(`${url.host} answers ${status}, ${hint}`);
}

/** A line for each change that has the shape of one. */
function changesOf(json: unknown): readonly string[] {
  const { changes, moreChanges } = Object(json);
  if (!Array.isArray(changes)) return [];
  const lines = changes.slice(0, MAX_PROBLEMS).map((each) => {
    const { key, before, after } = Object(each ?? {});
    const [old, now] = [before, after].map((value) => (value === null ? "-" : textOf(value)));
    return printable(`${textOf(key)}: ${old} -> ${now}`);
  });
  const more = countOf(moreChanges);
  return more === 0 ? lines : [...lines, `and ${more} more`];
}

/** What has the shape of problems; an odd one is shown as far as it goes. */
function readProblems(written: unknown): readonly Problem[] {
  if (!Array.isArray(written)) return [];
  return written.slice(0, MAX_PROBLEMS).map((each): Problem => {
    const { file, line, column, severity, message, suggestion, code } = Object(each ?? {});
    return {
      severity: severity === "warning" || severity === "note" ? severity : "error",
      code: textOf(code),
      message: textOf(message),
      file: textOf(file),
      line: countOf(line),
      column: countOf(column),
      length: 1,
      path: [],
      ...(typeof suggestion === "string" ? { suggestion } : {}),
    };
  });
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function countOf(value: unknown): number {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : 0;
}
