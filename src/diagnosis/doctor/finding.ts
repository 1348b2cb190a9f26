/** What `doctor` says of one thing that it looked at, and how one of its checks is run. */
import { messageOf } from "../../x402/result.ts";

export type Status = "ok" | "warn" | "fail";

export interface DoctorFinding {
  /** What was looked at: `base-sepolia rpc sepolia.base.org`. */
  readonly subject: string;
  readonly status: Status;
  /** One sentence without a final period; no secret and no whole URL that may hold one. */
  readonly message: string;
  /** What to do about it; null where there is nothing to do. */
  readonly fix: string | null;
}

export interface Check {
  /** For the display of progress. */
  readonly name: string;
  /** The part of the report it belongs to. */
  readonly section: Section;
  /** The signal ends each wait of it. May reject: that is a finding, too. */
  readonly run: (signal: AbortSignal) => Promise<readonly DoctorFinding[]>;
}

/** The parts of the report, in their order. */
export const SECTIONS = [
  "networks",
  "facilitators",
  "upstreams",
  "certificates",
  "store",
  "public URL",
  "clients",
] as const;

export type Section = (typeof SECTIONS)[number];

export function ok(subject: string, message: string): DoctorFinding {
  return { subject, status: "ok", message, fix: null };
}

export function warn(subject: string, message: string, fix: string): DoctorFinding {
  return { subject, status: "warn", message, fix };
}

export function fail(subject: string, message: string, fix: string): DoctorFinding {
  return { subject, status: "fail", message, fix };
}

/** Codes of node and undici in words that go on from the name of a place. */
const CODES: Readonly<Record<string, string>> = {
  ECONNREFUSED: "refuses connections: nothing listens there",
  ECONNRESET: "breaks the connection",
  EPIPE: "breaks the connection",
  ENOTFOUND: "is a name that does not resolve",
  EAI_AGAIN: "is a name that cannot be resolved now",
  EHOSTUNREACH: "cannot be reached from here",
  ENETUNREACH: "cannot be reached from here",
  ETIMEDOUT: "does not answer in time",
  UND_ERR_SOCKET: "breaks the connection",
  UND_ERR_CONNECT_TIMEOUT: "does not answer in time",
  HPE_INVALID_CONSTANT: "does not speak HTTP",
  EPROTO: "does not speak TLS",
  ERR_SSL_WRONG_VERSION_NUMBER: "does not speak TLS",
  ERR_SSL_PACKET_LENGTH_TOO_LONG: "does not speak TLS",
};

/** Why something could not be asked, in words that go on from its name; nothing of a URL but what the code has. */
export function describeFailure(cause: unknown): string {
  const code = codeOf(cause);
  if (cause instanceof Error && (cause.name === "TimeoutError" || cause.name === "AbortError"))
    return "does not answer in time";
  return CODES[code] ?? (code === "" ? messageOf(cause) : `cannot be asked (${code})`);
}

export function codeOf(cause: unknown): string {
  if (cause instanceof AggregateError && cause.errors.length > 0) return codeOf(cause.errors[0]);
  if (!(cause instanceof Error)) return "";
  if ("code" in cause && typeof cause.code === "string") return cause.code;
  return codeOf(cause.cause);
}
