/**
 * `coinslot pause FILE [WHAT]` and `coinslot resume FILE [WHAT]`: written to the ledger, where every gateway on it looks
 * twice a second, whether one runs now or not.
 */
import { openPauses, readScope, type Pause, type PauseScope } from "../app/pauses.ts";
import { operatorName } from "../app/resolutions.ts";
import { printable, type Config } from "../config/config.ts";
import { messageOf } from "../x402/result.ts";
import { loadOrExplain } from "./load.ts";
import { toJson } from "./payments/payment-text.ts";

export interface PauseOptions {
  /** Milliseconds; default: until it is resumed. */
  readonly for?: number;
  readonly reason?: string;
  readonly json?: boolean;
}

/** Longest reason that is kept, characters. */
const MAX_REASON = 200;

/** Resolves with the exit code. Without `what` it changes nothing. */
export async function pause(
  file: string,
  what: string | undefined,
  options: PauseOptions,
): Promise<number> {
  return withPauses(file, options, async (pauses, config) => {
    if (what !== undefined) {
      const scope = requireScope(config, what);
      const sinceMs = Date.now();
      const untilMs = options.for === undefined ? null : sinceMs + options.for;
      const reason = (options.reason ?? "").slice(0, MAX_REASON);
      await pauses.pause({ scope, untilMs, reason, by: operatorName(), sinceMs });
    }
    tell(await pauses.list(), options);
  });
}

/** Resolves with the exit code. Without `what` all pauses end. */
export async function resume(
  file: string,
  what: string | undefined,
  options: Pick<PauseOptions, "json">,
): Promise<number> {
  return withPauses(file, options, async (pauses, config) => {
    const scope = what === undefined ? undefined : await scopeOf(pauses, config, what);
    const ended = await pauses.resume(scope);
    if (what !== undefined && ended === 0) throw new Error(`${printable(what)} is not paused`);
    tell(await pauses.list(), options);
  });
}

type Opened = Awaited<ReturnType<typeof openPauses>>;

async function withPauses(
  file: string,
  { json }: Pick<PauseOptions, "json">,
  work: (pauses: Opened, config: Config) => Promise<void>,
): Promise<number> {
  const config = await loadOrExplain(file, { json });
  if (config === undefined) return 1;
  let opened: Opened | undefined;
  try {
    opened = await openPauses(config);
    await work(opened, config);
    return 0;
  } catch (cause) {
    process.stderr.write(`coinslot: ${messageOf(cause)}\n`);
    return 1;
  } finally {
    await opened?.close();
  }
}

function requireScope(config: Config, what: string): PauseScope {
  const scope = readScope(config, what);
  if (scope !== undefined) return scope;
  const said = `${printable(what)} is neither a priced route nor a network of ${config.file}`;
  throw new Error(`${said}: coinslot routes ${config.file} lists the routes; all is everything`);
}

/** What is paused may have gone from the file meanwhile. */
async function scopeOf(pauses: Opened, config: Config, what: string): Promise<PauseScope> {
  const there = (await pauses.list()).map(({ scope }) => scope);
  return there.find((scope) => nameOf(scope) === what) ?? requireScope(config, what);
}

function nameOf(scope: PauseScope): string {
  return scope.replace(/^(?:route|network) /, "");
}

function tell(paused: readonly Pause[], { json }: Pick<PauseOptions, "json">): void {
  if (json === true) {
    const told = paused.map(({ scope, untilMs, reason, by, sinceMs }) => ({
      scope,
      since: new Date(sinceMs).toISOString(),
      until: untilMs === null ? null : new Date(untilMs).toISOString(),
      by,
      reason,
    }));
    process.stdout.write(toJson({ paused: told }));
    return;
  }
  const lines = paused.map(({ scope, untilMs, reason, by, sinceMs }) => {
    const until = untilMs === null ? "until resumed" : `until ${new Date(untilMs).toISOString()}`;
    const why = reason === "" ? "" : `: ${printable(reason)}`;
    const since = new Date(sinceMs).toISOString();
    return `${printable(scope)} is paused ${until}, since ${since} by ${printable(by)}${why}\n`;
  });
  process.stdout.write(lines.length === 0 ? "nothing is paused\n" : lines.join(""));
}
