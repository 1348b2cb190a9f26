/**
 * Logs: one JSON line an event on stdout, written by pino without worker threads (a bundle has none).
 * A payment header, a signature or a key never reaches a line: the paths below are redacted wherever a
 * caller passes such an object, and callers pass none on purpose.
 */
import { pino, type DestinationStream, type Logger as PinoLogger } from "pino";
import pretty from "pino-pretty";
import { PIPE_BUFFER } from "./access-log.ts";
import { factsFor } from "./request-context.ts";

export type Logger = PinoLogger;
/** The most detailed first. */
export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface LoggerOptions {
  readonly level: LogLevel;
  /** `pretty` is for people at a terminal; machines read `json`. */
  readonly format: "json" | "pretty";
  readonly destination?: DestinationStream;
  /** Other processes write to the same stdout: what is written at once is short enough to stay in one piece. */
  readonly isShared?: boolean;
}

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
  "payment-signature",
  "PAYMENT-SIGNATURE",
  "sign-in-with-x",
  "SIGN-IN-WITH-X",
  "x-402-session",
  "X-402-Session",
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
  if (options.format === "json") return sparingTexts(pino(settings, destination));
  const stream = pretty({
    destination,
    colorize: process.stdout.isTTY && !process.env["NO_COLOR"],
  });
  return sparingTexts(pino(settings, stream));
}

/** From here on that is the least severe of what is logged, by the loggers that were made of this one as well. */
export function setLevel(logger: Logger, level: LogLevel): void {
  logger.level = level;
}

/**
 * Pino looks for the paths with a wildcard in each text of a line as well, where there are none, and that costs
 * five times as much as the line. Everything else goes to its redactor as before.
 */
function sparingTexts(logger: Logger): Logger {
  const { stringifiersSym, wildcardFirstSym } = pino.symbols;
  const stringifiers: unknown = Reflect.get(logger, stringifiersSym);
  if (typeof stringifiers !== "object" || stringifiers === null) return logger;
  const redact: unknown = Reflect.get(stringifiers, wildcardFirstSym);
  if (typeof redact !== "function") return logger;
  const stringify = (value: unknown, ...rest: unknown[]): unknown =>
    typeof value === "string" ? JSON.stringify(value) : redact(value, ...rest);
  Reflect.set(stringifiers, wildcardFirstSym, stringify);
  return logger;
}

function defaultDestination({ isShared = false }: LoggerOptions): DestinationStream {
  return pino.destination({ dest: 1, sync: false, ...(isShared ? { maxWrite: PIPE_BUFFER } : {}) });
}
