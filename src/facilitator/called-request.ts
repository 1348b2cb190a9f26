/** What a call of `/verify` or `/settle` brings: its body, bounded in size and time, and its key. */
import type { IncomingMessage } from "node:http";
import { Gathered } from "../http1/gathered.ts";
import type { ErrorCode } from "../x402/error-code.ts";
import { parseFacilitatorRequest } from "../x402/schema.ts";
import {
  X402_VERSION,
  X402_VERSION_2,
  type FacilitatorRequest,
  type X402Version,
} from "../x402/x402.ts";

/** Largest request body, bytes: a payment with its requirements takes about 2 KiB. */
const MAX_BODY_BYTES = 64 * 1024;
/** A larger body is read and dropped up to here, bytes: a caller that is still sending hears no answer. */
const MAX_DROPPED_BYTES = 1024 * 1024;
/** Longest that a body may take, milliseconds: its call has a place that others want. */
export const BODY_TIMEOUT_MS = 5_000;
/** Longest `Idempotency-Key`, characters. */
const MAX_IDEMPOTENCY_KEY = 255;

/** Strict: text that would have to be repaired is not what the caller meant (RFC 8259 section 8.1). */
const utf8 = new TextDecoder("utf-8", { fatal: true });

export type ReadOutcome =
  | { readonly ok: true; readonly request: FacilitatorRequest }
  | {
      readonly ok: false;
      readonly status: 200 | 400;
      /** In which it has to be told. */
      readonly version: X402Version;
      readonly code: ErrorCode;
      readonly detail: string;
      readonly payer: string;
      readonly network: string;
    };

export async function readRequest(request: IncomingMessage): Promise<ReadOutcome> {
  const unreadable = {
    ok: false,
    status: 400,
    version: X402_VERSION,
    code: "invalid_payload",
    payer: "",
    network: "",
  } as const;
  const bytes = await readBody(request);
  if (bytes === undefined) {
    const seconds = BODY_TIMEOUT_MS / 1_000;
    const limits = `exceeds ${MAX_BODY_BYTES} bytes, takes more than ${seconds} s, or broke off`;
    return { ...unreadable, detail: `the body ${limits}` };
  }
  let json: unknown;
  try {
    json = JSON.parse(utf8.decode(bytes));
  } catch {
    return { ...unreadable, detail: "the body is not JSON in UTF-8" };
  }
  const parsed = parseFacilitatorRequest(json);
  if (parsed.ok) return { ok: true, request: parsed.value };
  const { version, status } = parsed.error;
  // Of version 2's clients some raise on every other status and read no body; those that read it take 200 as well.
  return { ok: false, ...parsed.error, status: version === X402_VERSION_2 ? 200 : status };
}

/**
 * The body; undefined when it is too large, too slow, or ends early. Read by events: an async iterator would add 6 %
 * to the CPU time of a verification.
 */
function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const body = new Gathered();
  let size = 0;
  const { promise, resolve } = Promise.withResolvers<Buffer | undefined>();
  const timer = setTimeout(() => resolve(undefined), BODY_TIMEOUT_MS);
  request.on("data", (part: Buffer) => {
    size += part.length;
    if (size <= MAX_BODY_BYTES) body.add(part);
    if (size <= MAX_DROPPED_BYTES) return;
    // Not destroyed: the answer goes out over the same connection.
    request.pause();
    resolve(undefined);
  });
  request.on("end", () => resolve(size > MAX_BODY_BYTES ? undefined : body.whole()));
  request.on("close", () => resolve(undefined));
  return promise.finally(() => clearTimeout(timer));
}

/** Whether its body may be larger than one that is read, or does not tell how large it is. */
export function isLong({ headers }: IncomingMessage): boolean {
  const { "transfer-encoding": coding, "content-length": length = "0" } = headers;
  return coding !== undefined || Number(length) > MAX_BODY_BYTES;
}

export function readIdempotencyKey(request: IncomingMessage): string | undefined {
  const value = request.headers["idempotency-key"];
  if (typeof value !== "string" || value === "" || value.length > MAX_IDEMPOTENCY_KEY) {
    return undefined;
  }
  return value;
}
