/** A page of the operator's listener as an answer: never in a frame, and for no other origin. */
import type { ServerResponse } from "node:http";

/** `policy`: value of `Content-Security-Policy`. */
export function sendPage(
  response: ServerResponse,
  { status = 200, page, policy }: { status?: number; page: string; policy: string },
): void {
  const bytes = Buffer.from(page);
  response.writeHead(status, {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Type": "text/html; charset=utf-8",
    "Content-Length": bytes.length,
    "Content-Security-Policy": policy,
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
  });
  response.end(bytes);
}
