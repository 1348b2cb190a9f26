/**
 * The access log: a line for each request that was answered, as JSON or in the form that most readers of such logs know
 * (Combined Log Format, with what is particular to sales behind it). What strangers write is cut and escaped, so that
 * nobody forges a line. Who reads too slowly misses lines and holds up no request: those are counted.
 */
import { closeSync, constants, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { pino } from "pino";

export type AccessFormat = "json" | "combined";

export interface AccessLogSettings {
  readonly format: AccessFormat;
  /** Absolute; null: standard output. */
  readonly file: string | null;
  /** Whether the query of a request is told. */
  readonly query: boolean;
}

/** One request that was answered; null: there is none, or nobody knows. */
export interface AccessEntry {
  /** As far as it is proven. */
  readonly client: string;
  readonly method: string;
  /** Path and query as they came. */
  readonly target: string;
  /** Whom it asked, as it came. */
  readonly host: string | null;
  /** `1.1`. */
  readonly version: string;
  readonly status: number;
  /** Of the body, as far as they were written. */
  readonly bytes: number;
  readonly ms: number;
  readonly route: string;
  readonly outcome: string;
  readonly sale: AccessSale | null;
  /** What would have been asked for it, were it not for `mode: shadow`. */
  readonly would: string | null;
  /** Short name of the payment, as in the log. */
  readonly payment: string | null;
  readonly referrer: string | null;
  readonly agent: string | null;
  readonly requestId: string;
}

/** What was paid for an answer. */
export interface AccessSale {
  /** Whole tokens; null: nothing was paid now, since it was paid before. */
  readonly amount: string | null;
  /** The same, of what is charged by use: what of it was. */
  readonly charged?: string;
  /** What that has used; null: it did not say. */
  readonly usage?: string | null;
  /** Symbol of the token, or its address. */
  readonly asset: string | null;
  readonly network: string;
  readonly payer: string;
  /** Null: it was paid from a balance. */
  readonly transaction: string | null;
}

/** What is noted of a request while it is served. */
export interface AccessNote {
  /** Read when it came: once it is over, its connection may be, too. */
  readonly client: string;
  /** Bytes of the answer's body that were written. */
  bytes: number;
  sale: AccessSale | null;
  would: string | null;
  /** The status that was sent in place of what the answer is, to a client with a protocol of its own. */
  sent?: number;
}

/** Characters of lines that wait to be written, at most; what comes then is left out. */
const MAX_WAITING = 8 * 1024 * 1024;
/** So much is written to a pipe in one piece, whoever else writes to it (PIPE_BUF on Linux), bytes. */
export const PIPE_BUFFER = 4096;
/** A pipe that nobody reads is refused, too: to open it would wait for somebody. */
const APPENDING =
  constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK;
/** For its owner and his group. */
const FILE_MODE = 0o640;
/** The longest of each text, escaped; together a line is shorter than {@link PIPE_BUFFER}. */
const MAX_TARGET = 1_500;
const MAX_AGENT = 400;
const MAX_ROUTE = 400;
const MAX_WORD = 100;

export class AccessLog {
  readonly #settings: AccessLogSettings;
  readonly #write: (line: string) => void;
  readonly #reopen: () => void;
  readonly #clock: () => number;
  #nowMs = Number.NaN;
  #now = "";

  constructor(
    settings: AccessLogSettings,
    to: { readonly write: (line: string) => void; readonly reopen?: () => void },
    clock: () => number,
  ) {
    this.#settings = settings;
    this.#write = (line) => to.write(line);
    this.#reopen = () => to.reopen?.();
    this.#clock = clock;
  }

  write(entry: AccessEntry): void {
    const { format, query } = this.#settings;
    const target = query ? entry.target : (entry.target.split("?", 1)[0] ?? "");
    const told = { ...entry, target };
    const time = this.#time();
    this.#write(format === "json" ? jsonLine(told, time) : combinedLine(told, time));
  }

  /** ISO 8601: written once for all lines of a millisecond. */
  #time(): string {
    const nowMs = this.#clock();
    if (nowMs !== this.#nowMs) this.#now = new Date(nowMs).toISOString();
    this.#nowMs = nowMs;
    return this.#now;
  }

  /** The file may have been moved away. */
  reopen(): void {
    this.#reopen();
  }
}

/**
 * Throws where the file cannot be opened.
 * @param onLost hears of each line that is not written
 */
export function openAccessLog(
  settings: AccessLogSettings,
  onLost: (cause?: Error) => void,
  clock: () => number,
): AccessLog {
  const { file } = settings;
  // Tried here, where it can still be refused: what is opened below says so much later.
  if (file !== null) {
    mkdirSync(dirname(file), { recursive: true });
    closeSync(openSync(file, APPENDING, FILE_MODE));
  }
  const stream = pino.destination({
    dest: file ?? 1,
    mode: FILE_MODE,
    sync: false,
    maxWrite: PIPE_BUFFER,
    maxLength: MAX_WAITING,
  });
  stream.on("drop", () => onLost());
  stream.on("error", (cause: Error) => onLost(cause));
  const reopen = (): void => {
    if (file !== null) stream.reopen();
  };
  return new AccessLog(settings, { write: (line) => stream.write(line), reopen }, clock);
}

function jsonLine(entry: AccessEntry, time: string): string {
  const { client, method, target, status, bytes, ms, route, outcome, sale } = entry;
  const { payment, agent, requestId } = entry;
  const asked = `"method":${quoted(method, MAX_WORD)},"target":${quoted(target, MAX_TARGET)}`;
  const answered = `"status":${status},"bytes":${bytes},"ms":${Math.round(ms * 1000) / 1000}`;
  const whom = entry.host === null ? "" : `"host":${quoted(entry.host, MAX_WORD)},`;
  let line = `{"time":"${time}","client":${quoted(client, MAX_WORD)},${whom}${asked},${answered},`;
  line += `"route":${quoted(route, MAX_ROUTE)},"outcome":"${outcome}"`;
  if (sale !== null) {
    const { amount, asset, network, payer, transaction } = sale;
    if (amount !== null) {
      line += `,"amount":"${amount}","asset":${quoted(asset ?? "", MAX_WORD)}`;
    }
    const { charged, usage } = sale;
    if (charged !== undefined) line += `,"charged":"${charged}"`;
    if (usage !== undefined) line += `,"usage":${usage === null ? "null" : `"${usage}"`}`;
    line += `,"network":${quoted(network, MAX_WORD)},"payer":${quoted(payer, MAX_WORD)}`;
    if (transaction !== null) line += `,"transaction":${quoted(transaction, MAX_WORD)}`;
  }
  if (entry.would !== null) line += `,"would":${quoted(entry.would, MAX_WORD)}`;
  if (payment !== null) line += `,"payment":"${payment}"`;
  if (agent !== null) line += `,"agent":${quoted(agent, MAX_AGENT)}`;
  return `${line},"requestId":"${requestId}"}\n`;
}

/**
 * `CLIENT - PAYER [TIME] "REQUEST" STATUS BYTES "REFERRER" "AGENT"` and then
 * `"ROUTE" OUTCOME AMOUNT ASSET NETWORK TRANSACTION PAYMENT SECONDS REQUEST-ID`; `-` where there is none.
 */
function combinedLine(entry: AccessEntry, time: string): string {
  const { client, method, target, version, status, bytes, ms, route, outcome, sale } = entry;
  const { payment, referrer, agent, requestId } = entry;
  const asked = `"${escaped(`${method} ${target}`, MAX_TARGET)} HTTP/${version}"`;
  // Of where somebody comes from the query is nobody's business either.
  const from = textOf(referrer?.split(/[?#]/, 1)[0] ?? null, MAX_AGENT);
  const head = `${wordOf(client)} - ${wordOf(sale?.payer)} [${clfTime(time)}] ${asked}`;
  const paid = `${wordOf(sale?.amount)} ${wordOf(sale?.asset)} ${wordOf(sale?.network)}`;
  const tail = `${paid} ${wordOf(sale?.transaction)} ${wordOf(payment)} ${(ms / 1000).toFixed(6)}`;
  return (
    `${head} ${status} ${bytes} ${from} ${textOf(agent, MAX_AGENT)} ${textOf(route, MAX_ROUTE)} ` +
    `${outcome} ${tail} ${requestId}\n`
  );
}

/** One without blanks, `-` for none. */
function wordOf(text: string | null | undefined): string {
  if (text === null || text === undefined || text === "") return "-";
  return escaped(text, MAX_WORD).replaceAll(" ", "\\x20");
}

/** In quotes. */
function textOf(text: string | null, most: number): string {
  return text === null ? `"-"` : `"${escaped(text, most)}"`;
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

/** Of a time in ISO 8601: `27/Nov/2026:14:30:00 +0000`. */
function clfTime(time: string): string {
  const month = MONTHS[Number(time.slice(5, 7)) - 1] ?? "";
  return `${time.slice(8, 10)}/${month}/${time.slice(0, 4)}:${time.slice(11, 19)} +0000`;
}

/** A text in JSON, of printable ASCII. */
function quoted(text: string, most: number): string {
  return `"${shortened(text, most, (unit) => `\\u${hex(unit, 4)}`)}"`;
}

/** As web servers write what strangers sent: printable ASCII, `\xHH` for the rest. */
function escaped(text: string, most: number): string {
  return shortened(text, most, (unit) =>
    unit > 0xff ? `\\u${hex(unit, 4)}` : `\\x${hex(unit, 2)}`,
  );
}

function hex(unit: number, digits: number): string {
  return unit.toString(16).padStart(digits, "0");
}

const PLAIN = /^[ !#-[\]-~]*$/;

/** Characters that could end a text or a line are escaped, and what would be longer than that is left out. */
function shortened(text: string, most: number, escape: (unit: number) => string): string {
  if (text.length <= most && PLAIN.test(text)) return text;
  let shown = "";
  for (let index = 0; index < text.length; index += 1) {
    const unit = text[index] ?? "";
    const next = PLAIN.test(unit) ? unit : escape(unit.charCodeAt(0));
    if (shown.length + next.length > most) break;
    shown += next;
  }
  return shown;
}
