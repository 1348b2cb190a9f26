/** A backend that tells what it got. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { backend } from "../stage.ts";

export interface Seen {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly rawHeaders: readonly string[];
  readonly body: string;
  readonly rawTrailers: readonly string[];
  readonly complete: boolean;
}

/** Tells what it got, and answers with `answer`. */
export async function telling(
  seen: Seen[],
  answer: (request: IncomingMessage, response: ServerResponse) => void = (_, response) => {
    response.end("hello");
  },
): Promise<string> {
  return backend((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.once("close", () => {
      const { method, url, rawHeaders, rawTrailers, complete } = request;
      const body = Buffer.concat(chunks).toString();
      seen.push({ method, url, rawHeaders, body, rawTrailers, complete });
    });
    request.once("end", () => answer(request, response));
  });
}

/** The values of a field in raw lines. */
export function linesOf(rawHeaders: readonly string[] = [], name = ""): string[] {
  const values: string[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.toLowerCase() === name) values.push(rawHeaders[index + 1] ?? "");
  }
  return values;
}
