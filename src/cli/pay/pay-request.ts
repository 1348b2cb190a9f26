/** The request that `coinslot pay` sends: what the command line says, complete and bounded. */
import { readFile, stat } from "node:fs/promises";
import type { BuyerRequest } from "../../buyer/exchange.ts";
import { readUrl } from "../../buyer/place.ts";
import { err, ok, type Result } from "../../x402/result.ts";

export interface RequestOptions {
  readonly request?: string;
  readonly header?: readonly (readonly [name: string, value: string])[];
  /** A text, `@FILE`, or `-`. */
  readonly data?: string;
}

/** The largest body that is sent, bytes: it is kept whole, as it may have to be sent again. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;
const TOO_LARGE = `the body is larger than ${MAX_BODY_BYTES / 1024 / 1024} MiB`;

/** The request, or a sentence on what is wrong with it. */
export async function readRequest(
  address: string,
  options: RequestOptions,
): Promise<Result<BuyerRequest, string>> {
  const url = readUrl(address);
  if (!url.ok) return url;
  const { request, header = [], data } = options;
  const body = data === undefined ? ok(null) : await readBody(data);
  if (!body.ok) return body;
  const isTyped = header.some(([name]) => name.toLowerCase() === "content-type");
  const headers =
    body.value === null || isTyped
      ? header
      : [...header, ["Content-Type", typeOf(body.value)] as const];
  const method = request ?? (body.value === null ? "GET" : "POST");
  return ok({ url: url.value, method, headers, body: body.value });
}

async function readBody(data: string): Promise<Result<Buffer, string>> {
  if (data === "-") return readStdin();
  if (!data.startsWith("@")) return ok(Buffer.from(data));
  const file = data.slice(1);
  try {
    const { size } = await stat(file);
    if (size > MAX_BODY_BYTES) return err(TOO_LARGE);
    return ok(await readFile(file));
  } catch (cause) {
    const code = cause instanceof Error && "code" in cause ? ` (${String(cause.code)})` : "";
    return err(`the body's file cannot be read${code}`);
  }
}

async function readStdin(): Promise<Result<Buffer, string>> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of process.stdin) {
    const bytes = Buffer.from(part);
    size += bytes.length;
    if (size > MAX_BODY_BYTES) return err(TOO_LARGE);
    parts.push(bytes);
  }
  return ok(Buffer.concat(parts));
}

/** What is JSON is told to be; anything else is a form, as `curl -d` says. */
export function typeOf(body: Buffer): string {
  try {
    JSON.parse(body.toString("utf8"));
    return "application/json";
  } catch {
    return "application/x-www-form-urlencoded";
  }
}
