/**
 * Logs: one JSON line an event on stdout, written by pino without worker threads (a bundle has none).
 * A payment header, a signature or a key never reaches a line: the paths below are redacted wherever a
 * caller passes such an object, and callers pass none on purpose.
 */
import { pino, type DestinationStream, type Logger as PinoLogger } from "pino";
import pretty from "pino-pretty";
import { factsFor } from "./request-context.ts";

export type Logger = PinoLogger;
export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "fatal" | "silent";

export interface LoggerOptions {
  readonly level: LogLevel;
  /** `pretty` is for people at a terminal; machines read `json`. */
  readonly format: "json" | "pretty";
  readonly destination?: DestinationStream;
  /** Other processes write to the same stdout: what is written at once is short enough to stay in one piece. */
  readonly isShared?: boolean;
}

/** So much is written to a pipe in one piece, whoever else writes to it (PIPE_BUF on Linux), bytes. */
const PIPE_BUFFER = 4096;

const SECRET_FIELDS = [
  "signature",
  "payload",
  "paymentPayload",
  "raw",
  "privateKey",
  "authorization",
  "Authorization",
  "x-payment",
  "X-PAYMENT",
];
const REDACTED = [...SECRET_FIELDS, ...SECRET_FIELDS.map((field) => `*["${field}"]`)].map((path) =>
  /^\w+$/.test(path) || path.startsWith("*") ? path : `["${path}"]`,
);

export function createLogger(options: LoggerOptions): Logger {
  const settings = {
    level: options.level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    // Whatever is logged for a request says which one, and which payment.
    mixin: factsFor,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: REDACTED, censor: "[redacted]" },
  };
  const destination = options.destination ?? defaultDestination(options);
  if (options.format === "json") return pino(settings, destination);
  const stream = pretty({
    destination,
    colorize: process.stdout.isTTY && !process.env["NO_COLOR"],
  });
  return pino(settings, stream);
}

function defaultDestination({ isShared = false }: LoggerOptions): DestinationStream {
  return pino.destination({ dest: 1, sync: false, ...(isShared ? { maxWrite: PIPE_BUFFER } : {}) });
}
