/** Faults between processes: those of the channel itself, and those of the other end, passed on by name. */
import { LedgerConflict, LedgerUnavailable } from "../ledger/ledger.ts";

/**
 * - `closed`: the other end is gone.
 * - `late`: it did not answer in time; what was asked may have happened.
 * - `full`: too much is asked at once; nothing was sent.
 * - `unreadable`: it answered something that is no answer.
 */
export class ChannelFault extends Error {
  override readonly name = "ChannelFault";
  readonly kind: "closed" | "late" | "full" | "unreadable";

  constructor(kind: ChannelFault["kind"], message: string) {
    super(message);
    this.kind = kind;
  }
}

/** An error as it crosses. */
export interface SentFault {
  readonly name: string;
  readonly message: string;
  /** Of the system: `EADDRINUSE`. */
  readonly code: string;
}

/** An error of the other end that has no class of its own here. */
class RemoteFault extends Error {
  override readonly name = "RemoteFault";
  readonly code: string;

  constructor({ name, message, code }: SentFault) {
    super(name === "Error" ? message : `${name}: ${message}`);
    this.code = code;
  }
}

export function sentFault(cause: unknown): SentFault {
  if (!(cause instanceof Error)) return { name: "Error", message: String(cause), code: "" };
  const code = "code" in cause && typeof cause.code === "string" ? cause.code : "";
  return { name: cause.name, message: cause.message, code };
}

/** Those by which the request path decides keep their class. */
export function receivedFault(fault: SentFault): Error {
  switch (fault.name) {
    case "LedgerConflict":
      return new LedgerConflict(fault.message);
    case "LedgerUnavailable":
      return new LedgerUnavailable(fault.message);
    default:
      return new RemoteFault(fault);
  }
}
